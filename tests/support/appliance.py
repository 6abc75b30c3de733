"""The appliance under test: its real processes, with the real target, on simulated storage whose volumes are files.

In the kernel tier on real storage, behind a helper.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from appliance.cli.__main__ import application
from appliance.cli.client import CommandError
from support.programs import REPOSITORY, wait_for
from support.target import Target

PASSWORD = "correct horse battery"
PORT = 8443
GIB = 1 << 30


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Process:
    """One of its processes."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.log = name, directory / f"{name}.log"
        self._environment = {**os.environ, "ZVAAI_CONFIG": str(directory / "appliance.toml"), "PYTHONPATH": str(REPOSITORY)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Does not wait until it is ready."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", f"appliance.{self.name}"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)

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
        return self._process.wait(timeout=30)


class Appliance:
    """Worker, API and target in a folder of their own."""

    def __init__(self, directory: Path, reconcile_seconds: float = 1, helper: Path | None = None) -> None:
        self.directory = directory
        target_directory = directory / "target"
        target_directory.mkdir(parents=True)
        self.target = Target(target_directory)
        self.worker, self.api = Process("worker", directory), Process("api", directory)
        simulated = f"""engine = "simulator"
            simulator_directory = "{directory}/volumes\""""
        (directory / "appliance.toml").write_text(
            f"""
            state_directory = "{directory}/state"
            runtime_directory = "{directory}/run"
            [http]
            address = "127.0.0.1"
            port = {PORT}
            [target]
            control = "{self.target.socket_path}"
            name = "iqn.2026-11.example.zvaai:datastores"
            [storage]
            {f'helper = "{helper}"' if helper else simulated}
            [worker]
            reconcile_seconds = {reconcile_seconds}
            inventory_seconds = 0.05
            """
        )
        self.iqn = "iqn.2026-11.example.zvaai:datastores"

    def start(self) -> None:
        """All, and logs in as the first admin."""
        self.target.start()
        self.worker.start()
        self.api.start()
        code = self.directory / "state" / "setup-code"
        wait_for(
            lambda: code.exists() and f"Listening at: https://127.0.0.1:{PORT}" in self.api.log.read_text(), "the API listens"
        )
        self.cli(
            "login",
            f"https://127.0.0.1:{PORT}",
            "--setup-code",
            code.read_text(),
            "--fingerprint",
            self.fingerprint(),
            text=PASSWORD,
        )
        wait_for(lambda: bool(self.json("status")["worker"]), "the worker answers")

    def fingerprint(self) -> str:
        """Of the certificate, as the log has it."""
        return self.api.log.read_text().split("SHA-256 fingerprint ", 1)[1].split('"', 1)[0]

    def run(self, *words: str, text: str = "") -> Done:
        """The command `zvaai`, in this process: a new one takes longer to start than most commands do."""
        result = CliRunner(mix_stderr=False, env={"XDG_CONFIG_HOME": str(self.directory)}).invoke(
            application, list(words), input=text, prog_name="zvaai"
        )
        if isinstance(result.exception, CommandError):
            return Done(result.exception.exit_code, result.stdout, f"{result.stderr}zvaai: {result.exception}")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def process(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command as a program of its own."""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "XDG_CONFIG_HOME": str(self.directory)}
        command = [sys.executable, "-m", "appliance.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)

    def cli(self, *words: str, text: str = "") -> str:
        """What it prints. Raises AssertionError when it fails."""
        done = self.run(*words, text=text)
        assert done.returncode == 0, f"zvaai {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def json(self, *words: str) -> Any:
        """What it tells as JSON; `status` fails when something needs somebody, and tells nevertheless."""
        done = self.run("-o", "json", *words)
        assert done.stdout, f"zvaai {' '.join(words)}: {done.returncode}\n{done.stderr}\n{self.logs()}"
        return json.loads(done.stdout)

    def logs(self) -> str:
        """Of both processes."""
        return "".join(f"--- {one.name}\n{one.log.read_text()[-4000:]}" for one in (self.worker, self.api) if one.log.exists())

    def luns(self) -> dict[int, str]:
        """What the target serves: number to UUID."""
        found = [target for target in self.target.call("targets.list")["targets"] if target["name"] == self.iqn]
        return {lun["number"]: lun["uuid"] for target in found for lun in target["luns"] if lun["state"] == "serving"}

    def stop(self) -> None:
        """All of it. Raises AssertionError unless each ends well."""
        codes = {one.name: one.stop() for one in (self.api, self.worker)}
        codes["target"] = self.target.stop()
        assert set(codes.values()) == {0}, f"{codes}\n{self.logs()}"


@contextlib.contextmanager
def running_appliance(directory: Path, reconcile_seconds: float = 1, helper: Path | None = None) -> Iterator[Appliance]:
    """One, with a first admin who is logged in; on real storage behind the socket of a helper."""
    appliance = Appliance(directory, reconcile_seconds, helper)
    try:
        appliance.start()
        yield appliance
    except BaseException:
        for process in (appliance.api, appliance.worker):
            with contextlib.suppress(Exception):
                process.kill()
        with contextlib.suppress(Exception):
            appliance.target.kill()
        raise
    appliance.stop()
