# SPDX-License-Identifier: Apache-2.0
"""The target under test: the real daemon with its own configuration and control socket."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.programs import CACHE, wait_for

PROGRAM = Path(os.environ.get("ZVAAI_TARGET", CACHE / "target/zvaai-target"))
"""`ZVAAI_TARGET` names another build."""
IQN = "iqn.2026-11.example.zvaai:test"


class RpcError(Exception):
    """The control socket answered with an error: its code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True)
class Account:
    """A CHAP account: user name and secret."""

    name: str
    secret: str


class Target:
    """A running `zvaai-target` with one iSCSI target.

    `directory` has its configuration, so that a restarted daemon serves the same LUNs. With `portals`, pairs of address and
    portal group tag, it listens there, otherwise on a free port of 127.0.0.1. `namespace` is its network
    namespace, `user` its user.
    """

    def __init__(
        self,
        directory: Path,
        portals: Sequence[tuple[str, int]] = (),
        options: Sequence[str] = (),
        namespace: str | None = None,
        user: str | None = None,
    ) -> None:
        self.directory = directory
        self._listen = None if portals else "127.0.0.1:0"
        self._options = list(options)
        self._enter = ["ip", "netns", "exec", namespace] if namespace else []
        if user:
            self._enter += ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups"]
        if portals:
            listed = [{"address": address, "group_tag": tag} for address, tag in portals]
            self._configuration.write_text(json.dumps({"version": 2, "portals": listed}))
        self._process: subprocess.Popen[bytes] | None = None
        self.portal = ""

    def enter(self, words: Sequence[str]) -> None:
        """Runs the daemon behind these words."""
        self._enter += words

    def start(self) -> None:
        """Returns when the portal listens."""
        log = (self.directory / "target.log").open("ab")
        files = ["--config", str(self._configuration), "--control", str(self.socket_path)]
        listen = ["--listen", self._listen] if self._listen else []
        command = [*self._enter, str(PROGRAM), "serve", *files, *listen, *self._options]
        self._process = subprocess.Popen(command, stderr=log, stdout=log)
        log.close()
        wait_for(self._ready, f"the target is ready (log: {self.directory / 'target.log'})")
        portals = self.call("status")["portals"]
        self.portal = str(portals[0]["address"])
        if self._listen:  # initiators reconnect to the address of a restarted target
            self._listen = self.portal

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the target ended:\n{(self.directory / 'target.log').read_text()}")
        try:
            self.call("status")
        except OSError:
            return False
        return True

    @property
    def _configuration(self) -> Path:
        return self.directory / "target.json"

    @property
    def socket_path(self) -> Path:
        return self.directory / "control.sock"

    @property
    def process_id(self) -> int:
        """Process identifier of the daemon."""
        assert self._process is not None
        return self._process.pid

    def call(self, method: str, parameters: dict[str, Any] | None = None) -> Any:
        """Result of a JSON-RPC 2.0 call. Raises RpcError; OSError while nothing listens."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters or {}}
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(180)
            control.connect(str(self.socket_path))
            control.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(control.makefile().readline())
        if "error" in answer:
            raise RpcError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def create(self, iqn: str = IQN) -> None:
        """Creates an iSCSI target without LUNs."""
        self.call("targets.create", {"name": iqn, "initiators": "any"})

    def add_lun(self, number: int, path: Path, iqn: str = IQN, **options: Any) -> str:
        """Serves `path` as LUN `number`; returns its UUID."""
        lun = {"number": number, "uuid": str(uuid.uuid4()), "path": str(path), **options}
        self.call("luns.create", {"target": iqn, "lun": lun})
        return str(lun["uuid"])

    def counters(self) -> dict[str, Any]:
        """Counters of the first LUN (`statistics.get`)."""
        return dict(self.call("statistics.get")["luns"][0])

    def url(self, lun: int | None = None, iqn: str = IQN, account: Account | None = None, portal: str | None = None) -> str:
        """libiscsi's URL of the portal, or of a LUN."""
        user = f"{account.name}%{account.secret}@" if account else ""
        return f"iscsi://{user}{portal or self.portal}" + ("" if lun is None else f"/{iqn}/{lun}")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait(timeout=180)


@contextlib.contextmanager
def running_target(
    directory: Path,
    portals: Sequence[tuple[str, int]] = (),
    options: Sequence[str] = (),
    namespace: str | None = None,
    user: str | None = None,
) -> Iterator[Target]:
    """A running target with an iSCSI target without LUNs. Raises AssertionError unless it ends cleanly."""
    directory.mkdir()
    if user:
        shutil.chown(directory, user)
    target = Target(directory, portals, options, namespace, user)
    target.start()
    try:
        target.create()
        yield target
    finally:
        code = target.stop()
    assert code == 0, f"the target ended with {code}:\n{(directory / 'target.log').read_text()}"


def table(output: str) -> dict[str, str]:
    """`name: value` lines of a libiscsi tool's output."""
    return {key.strip(): value.strip() for key, value in re.findall(r"^([^:\n]+):(.*)$", output, re.MULTILINE)}
