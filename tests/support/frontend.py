# SPDX-License-Identifier: Apache-2.0
"""nginx in front of the API, with packaging/nginx/nginx.conf and the ports and paths of a test."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from appliance.api import certificate
from support.programs import CACHE, REPOSITORY, wait_for

sys.path.insert(0, str(REPOSITORY / "packaging/nginx"))

from render import render  # noqa: E402

SITE = CACHE / "console/site"


class Frontend:
    """An nginx. `change` may edit its configuration, for lower limits."""

    def __init__(
        self, directory: Path, port: int, api: Path, site: Path = SITE, change: Callable[[str], str] = lambda text: text
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self.log, self.certificates = port, directory / "frontend.log", directory
        self.fingerprint = certificate.ensure(directory)
        text = render("127.0.0.1", port, api=api, certificates=directory, site=site, runtime=directory)
        self._file = directory / "nginx.conf"
        self._file.write_text(change(text))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def certificate(self) -> Path:
        return self.certificates / certificate.CERTIFICATE

    def start(self) -> None:
        """Returns after nginx accepts connections."""
        # Tests run as root: nginx would switch to nobody, who has no access to their folders.
        user = "user root; " if os.geteuid() == 0 else ""
        with self.log.open("ab") as log:
            command = ["nginx", "-c", str(self._file), "-g", f"{user}daemon off;"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_for(self.accepts, "nginx accepts connections")

    def accepts(self) -> bool:
        """Whether nginx completes a TLS handshake. Raises AssertionError after its end."""
        assert self._process is not None and self._process.poll() is None, self.log.read_text()
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection,
            self.context().wrap_socket(connection, server_hostname="localhost"),
        ):
            return True
        return False

    def context(self) -> ssl.SSLContext:
        """Trusts only the served certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def reload(self) -> None:
        subprocess.run(["nginx", "-c", str(self._file), "-s", "reload"], check=True, capture_output=True)

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9 of all its processes."""
        assert self._process is not None
        os.killpg(self._process.pid, 9)
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait(timeout=60)
