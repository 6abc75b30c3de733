# SPDX-License-Identifier: Apache-2.0
"""The command against a real API over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from simulators.appliance import Appliance, running
from typer.main import get_command
from werkzeug.serving import make_server

from appliance.cli.__main__ import application
from appliance.cli.client import CommandError

COMMAND = get_command(application)
"""Built once: that takes longer than most commands."""


@dataclass
class Command:
    """The command `zvaai`, logged in as an admin, and what its requests were."""

    appliance: Appliance
    home: Path
    url: str
    sent: list[dict[str, str]] = field(default_factory=list)
    """Requests that changed something: their environment by WSGI."""
    before_change: Callable[[], object] | None = None
    """Called once, before a change comes to the API."""
    lost: int = 0
    """So many answers to come are lost after the work is done."""
    cut: int = 0
    """So many changes to come are carried out, and the worker goes away before its answer."""
    away: int = 0
    """So many questions to come about a job find no API behind nginx."""
    limited: list[str] = field(default_factory=list)
    """The next requests are too many. Values of Retry-After, one for each request."""

    def run(
        self, *words: str, text: str = "", role: str | None = "admin", url: str | None = None, stderr: bool = True
    ) -> tuple[int, str]:
        """Exit code, and all that it prints; without `stderr` only its standard output."""
        environment = {"XDG_CONFIG_HOME": str(self.home), "ZVAAI_URL": url or self.url}
        environment["ZVAAI_TOKEN"] = self.appliance.tokens[role] if role else ""
        result = CliRunner(mix_stderr=stderr, env=environment).invoke(COMMAND, list(words), input=text, prog_name="zvaai")
        if isinstance(result.exception, CommandError):
            return result.exception.exit_code, f"{result.stdout}{result.exception}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout

    def __call__(self, *words: str, text: str = "", stderr: bool = True) -> str:
        """Runs a command and returns its output. Raises AssertionError if it fails."""
        code, printed = self.run(*words, text=text, stderr=stderr)
        assert code == 0, f"zvaai {' '.join(words)}: {code}\n{printed}"
        return printed

    def json(self, *words: str) -> Any:
        """Its JSON output."""
        return json.loads(self("-o", "json", *words, stderr=False))


@pytest.fixture
def zvaai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """For one test, in which schedules do not run: their jobs would race its commands."""
    with running(tmp_path / "appliance") as appliance:
        monkeypatch.setattr(appliance.service.periodic, "schedules", lambda: None)

        def serve(environment: dict[str, Any], start: Any) -> Iterable[bytes]:
            if environment["REQUEST_METHOD"] != "GET":
                before, command.before_change = command.before_change, None
                if before is not None:
                    before()
                command.sent.append({name: str(value) for name, value in environment.items() if name.isupper()})
            if command.limited:
                start(
                    "429 Too Many Requests",
                    [("Content-Type", "application/problem+json"), ("Retry-After", command.limited.pop())],
                )
                return [b'{"detail": "too many requests of this address"}']
            if command.away and environment["PATH_INFO"].startswith("/api/v1/jobs/"):
                command.away -= 1
                start("502 Bad Gateway", [("Content-Type", "application/problem+json"), ("Retry-After", "2")])
                return [b'{"detail": "the API does not run"}']
            if environment["REQUEST_METHOD"] != "GET" and command.cut:
                command.cut -= 1
                list(appliance.application(environment, lambda *_: print))
                start("503 Service Unavailable", [("Content-Type", "application/problem+json"), ("Retry-After", "2")])
                return [b'{"detail": "the worker does not answer"}']
            answer = list(appliance.application(environment, start))
            if environment["REQUEST_METHOD"] != "GET" and command.lost:
                command.lost -= 1
                environment["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                raise ConnectionAbortedError("lost on the way")
            return answer

        server = make_server("127.0.0.1", 0, serve, threaded=True)
        command = Command(appliance, tmp_path / "home", f"http://127.0.0.1:{server.port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield command
        finally:
            server.shutdown()
            server.server_close()
