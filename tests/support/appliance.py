# SPDX-License-Identifier: Apache-2.0
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner
from typer.main import get_command

from appliance.api.wire import HttpRequest
from appliance.cli.__main__ import application
from appliance.cli.client import CommandError
from appliance.domain.errors import UnavailableError
from appliance.gateway.client import WorkerClient
from appliance.helper.client import connect
from appliance.zfs.errors import ZfsError
from support.frontend import Frontend
from support.programs import REPOSITORY, wait_for
from support.target import Target

COMMAND = get_command(application)
"""Made once: that takes longer than most commands."""
PASSWORD = "correct horse battery"
PORT = 8443
GIB = 1 << 30
PYTHONPATH = f"{REPOSITORY}:{REPOSITORY / 'tests'}"
START_SECONDS = 600
"""Limit for the start of a process. In a guest under load the imports alone take over 30 s."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class Process:
    """A process of the appliance, in its own process group."""

    def __init__(self, module: str, directory: Path, *options: str | Path) -> None:
        self.name = module.rpartition(".")[2]
        self.log = directory / f"{self.name}.log"
        self._command = [sys.executable, "-m", module, *map(str, options)]
        settings = {"ZVAAI_CONFIG": str(directory / "appliance.toml"), "PYTHONPATH": PYTHONPATH, "PYTHONFAULTHANDLER": "1"}
        self._environment = {**os.environ, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process without waiting until it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True)

    def abort(self) -> None:
        """Kills the process; if it runs, its log ends with the stacks of all its threads (faulthandler)."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGABRT)
            self._process.wait()

    def kill(self) -> None:
        """Kills the process and its children, as systemd does."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_child(self) -> None:
        """Kills the only child, if any. The process starts another child."""
        for child in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def children(self) -> list[int]:
        """Identifiers of the child processes."""
        return [int(child) for child in Path(f"/proc/{self.process_id}/task/{self.process_id}/children").read_text().split()]

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait(timeout=90)


class Appliance:
    """Worker, API, nginx and target in a folder."""

    def __init__(
        self,
        directory: Path,
        reconcile_seconds: float = 1,
        helper: Path | None = None,
        simulating_helper: bool = False,
        inventory_seconds: float = 0.05,
        nfs: str = "",
        vaai_nas: Path | None = None,
    ) -> None:
        self.directory, self.port = directory, PORT
        target_directory = directory / "target"
        target_directory.mkdir(parents=True)
        self.target = Target(target_directory)
        options = [*(("--helper",) if simulating_helper else ()), *(("--vaai-nas", vaai_nas) if vaai_nas else ())]
        simulated = Process("simulators.worker", directory, "--volumes", directory / "volumes", *options)
        self.worker = Process("appliance.worker", directory) if helper else simulated
        self.api = Process("appliance.gateway", directory)
        self.frontend = Frontend(directory / "frontend", PORT, directory / "run/http.sock")
        self.helper: Process | None = None
        if simulating_helper:
            helper = self.helper_socket = directory / "helper.sock"
            mounts = ("--mount-directory", "/srv/zvaai", "--mount-directory", directory / "volumes")
            self.helper = Process("simulators.helper", directory, directory / "simulator.json", "--socket", helper, *mounts)
        (directory / "appliance.toml").write_text(
            f"""
            state_directory = "{directory}/state"
            runtime_directory = "{directory}/run"
            [http]
            socket = "{directory}/run/http.sock"
            certificate = "{self.frontend.certificate}"
            [target]
            control = "{self.target.socket_path}"
            name = "iqn.2026-11.example.zvaai:datastores"
            [storage]
            helper = "{helper or "/nowhere"}"
            [nfs]
            {nfs}
            [alerts]
            trusted_networks = ["127.0.0.0/8"]
            [worker]
            reconcile_seconds = {reconcile_seconds}
            inventory_seconds = {inventory_seconds}
            inventory_oldest_seconds = {6 * inventory_seconds if inventory_seconds >= 1 else inventory_seconds}
            """
        )
        self.iqn = "iqn.2026-11.example.zvaai:datastores"

    def serve(self) -> str:
        """Starts all processes. Returns the one-time code for the first admin."""
        self.target.start()
        if self.helper:
            self.helper.start()
        self.worker.start()
        self.api.start()
        self.frontend.start()
        if self.helper:
            self._wait_for(lambda: _answers(self.helper_socket), "the helper answers")
        code = self.directory / "state" / "setup-code"
        self._wait_for(lambda: code.exists() and self.responds(), "the API responds")
        self._wait_for(self._works, "the worker answers")
        return code.read_text().strip()

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Raises AssertionError with the logs, and with the stacks of the processes."""
        try:
            wait_for(condition, what, START_SECONDS)
        except TimeoutError as error:
            for process in (self.worker, self.api, self.helper):
                if process is not None:
                    process.abort()
            raise AssertionError(f"{error}\n{self.logs()}") from error

    def responds(self) -> bool:
        """Whether the API responds through nginx."""
        with contextlib.suppress(httpx.HTTPError):
            url = f"https://127.0.0.1:{PORT}/api/v1/health/live"
            return httpx.get(url, verify=self.frontend.context(), timeout=START_SECONDS).is_success
        return False

    def _works(self) -> bool:
        with contextlib.suppress(UnavailableError):
            client = WorkerClient(self.directory / "run" / "worker.sock", START_SECONDS / 2)
            return client.request(HttpRequest(operation="appliance.read_health", target="/"))[0].status == 200
        return False

    def start(self) -> None:
        """Starts all processes and logs in as the first admin."""
        self.setup_code = self.serve()
        self.cli(
            "login",
            f"https://127.0.0.1:{PORT}",
            "--setup-code",
            "--fingerprint",
            self.frontend.fingerprint,
            text=f"{self.setup_code}\n{PASSWORD}",
        )
        self._wait_for(lambda: bool(self.json("status")), "the API has the worker's answer")

    def token(self) -> str:
        """The first admin's token, as `zvaai login` stored it."""
        return str(json.loads((self.directory / "zvaai" / "cli.json").read_text())["token"])

    def run(self, *words: str, text: str = "") -> Done:
        """Runs the command `zvaai` in this process, which is faster than a new process."""
        result = CliRunner(mix_stderr=False, env={"XDG_CONFIG_HOME": str(self.directory)}).invoke(
            COMMAND, list(words), input=text, prog_name="zvaai"
        )
        if isinstance(result.exception, CommandError):
            return Done(result.exception.exit_code, result.stdout, f"{result.stderr}zvaai: {result.exception}")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def process(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs `zvaai` as a separate program."""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "XDG_CONFIG_HOME": str(self.directory)}
        command = [sys.executable, "-m", "appliance.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)

    def cli(self, *words: str, text: str = "") -> str:
        """Standard output of `zvaai`. Raises AssertionError if the command fails."""
        done = self.run(*words, text=text)
        assert done.returncode == 0, f"zvaai {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def json(self, *words: str) -> Any:
        """JSON output of `zvaai`. `status` may fail: it does so when something needs attention. Raises AssertionError for a
        refusal and a failed job.
        """
        done = self.run("-o", "json", *words)
        assert done.stdout and "zvaai: " not in done.stderr, (
            f"zvaai {' '.join(words)}: {done.returncode}\n{done.stderr}\n{self.logs()}"
        )
        return json.loads(done.stdout)

    def has_succeeded(self, job: str) -> bool:
        """Whether the job has succeeded; False while the worker does not answer."""
        done = self.run("-o", "json", "job", "show", job)
        return done.returncode == 0 and bool(json.loads(done.stdout)["state"] == "succeeded")

    def logs(self) -> str:
        processes = [process for process in (self.helper, self.worker, self.api) if process is not None and process.log.exists()]
        return "".join(f"--- {process.name}\n{process.log.read_text()[-16000:]}" for process in processes)

    def luns(self) -> dict[int, str]:
        """LUNs that the target serves: number to UUID."""
        targets = [target for target in self.target.call("targets.list")["targets"] if target["name"] == self.iqn]
        return {lun["number"]: lun["uuid"] for target in targets for lun in target["luns"] if lun["state"] == "serving"}

    def stop(self) -> None:
        """Stops all processes. Raises AssertionError for an exit code other than 0."""
        codes = {"frontend": self.frontend.stop()}
        codes |= {process.name: process.stop() for process in (self.api, self.worker, self.helper) if process is not None}
        codes["target"] = self.target.stop()
        assert set(codes.values()) == {0}, f"{codes}\n{self.logs()}"


def _answers(path: Path) -> bool:
    """Whether a helper answers at this socket."""
    with contextlib.suppress(ZfsError):
        connect(path).pools()
        return True
    return False


@contextlib.contextmanager
def running_helper(path: Path, *words: str) -> Iterator[int]:
    """The root helper at this socket, on real storage in the guest, with pools of devices in memory; its process identifier."""
    usual = ["--socket", str(path), "--device-directory", "/dev/shm", "--search", "/dev/shm", "--target-user", "nobody"]
    helper = subprocess.Popen([sys.executable, "-m", "appliance.helper", *usual, *words], cwd=REPOSITORY)

    def answers() -> bool:
        assert helper.poll() is None
        return _answers(path)

    try:
        wait_for(answers, "the helper answers", START_SECONDS)
        yield helper.pid
        helper.terminate()
        assert helper.wait(60) == 0
    finally:
        if helper.poll() is None:
            helper.kill()
            helper.wait()


@contextlib.contextmanager
def running_appliance(
    directory: Path,
    reconcile_seconds: float = 1,
    helper: Path | None = None,
    simulating_helper: bool = False,
    nfs: str = "",
    vaai_nas: Path | None = None,
    inventory_seconds: float = 0.05,
) -> Iterator[Appliance]:
    """An appliance with a first admin who is logged in; on real storage behind a helper's socket, or on a private simulator."""
    appliance = Appliance(directory, reconcile_seconds, helper, simulating_helper, inventory_seconds, nfs, vaai_nas)
    try:
        appliance.start()
        yield appliance
    except BaseException:
        for process in (appliance.frontend, appliance.api, appliance.worker, appliance.helper):
            with contextlib.suppress(Exception):
                if process is not None:
                    process.kill()
        with contextlib.suppress(Exception):
            appliance.target.kill()
        raise
    appliance.stop()
