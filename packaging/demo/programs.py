# SPDX-License-Identifier: Apache-2.0
"""Starts programs, waits until they are ready, and ends them in order."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

END_WITH_US = ("setpriv", "--pdeathsig", "TERM")
END_SECONDS = 20.0
"""Time for one process to end after SIGTERM."""


class DemoError(Exception):
    """The demo cannot be served, or did not end in order. The text has the reason and the remedy."""


class Stopped(Exception):
    """SIGTERM or SIGINT came before it served."""


class StopSignal:
    """Whether SIGTERM or SIGINT came, from its making on."""

    def __init__(self) -> None:
        self.came = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def ignore(self) -> None:
        """Ignores signals from now on: a second one would kill a process that is ending."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self.came = True


def report(message: str) -> None:
    """Prints a progress message on standard error."""
    print(f"demo: {message}", file=sys.stderr, flush=True)


def run(*command: object, seconds: float | None = None) -> str:
    """Standard output of a command, which a signal to our group does not reach.

    Raises DemoError with its standard error, or when it takes longer than `seconds`.
    """
    words = [str(word) for word in command]
    try:
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoError(str(error)) from error
    if result.returncode != 0:
        raise DemoError(f"{' '.join(words)}: {result.stderr.strip()}")
    return result.stdout


def wait_until(
    ready: Callable[[], bool], processes: Collection[subprocess.Popen[bytes]], what: str, seconds: float, stop: StopSignal
) -> None:
    """Returns once `what` is ready. Raises DemoError if one of its processes ends or `seconds` pass before, Stopped."""
    until = time.monotonic() + seconds
    while not ready():
        if stop.came:
            raise Stopped
        if any(process.poll() is not None for process in processes):
            raise DemoError(f"{what} ended before it served")
        if time.monotonic() > until:
            raise DemoError(f"{what} does not serve within {seconds:.0f} s")
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes], name: str, seconds: float = END_SECONDS) -> None:
    """Terminates a process and waits. Kills it after `seconds`, and prints a message then."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        report(f"{name} did not end within {seconds:.0f} s and was killed")
        process.kill()
        process.wait()


class RestartedPrograms:
    """Programs that are restarted a second after they have ended, like units; each appends to a log."""

    MOST_LOG_BYTES = 4 << 20
    """A longer log is truncated at the first start."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._commands: dict[str, tuple[Sequence[str], Path]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended_at: dict[str, float] = {}

    def start(self, name: str, command: Sequence[str], log: Path) -> None:
        """The first time."""
        if log.exists() and log.stat().st_size > self.MOST_LOG_BYTES:
            log.unlink()
        self._commands[name] = command, log
        self._start(name)

    def _start(self, name: str) -> None:
        command, path = self._commands[name]
        with path.open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment, cwd="/", start_new_session=True
            )

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """The running processes."""
        return list(self._running.values())

    def check(self) -> None:
        """Restarts programs that have ended."""
        for name, process in self._running.items():
            if process.poll() is None:
                continue
            ended_at = self._ended_at.setdefault(name, time.monotonic())
            if time.monotonic() - ended_at >= 1:
                report(f"{name} ended by itself (exit code {process.returncode}) and is started anew")
                del self._ended_at[name]
                self._start(name)
                return

    def stop(self) -> None:
        """Ends the programs, the last started one first."""
        for name in reversed(self._running):
            end(self._running[name], name)


class Ending:
    """Steps that undo what was begun. They run on leaving, the last added one first, each even if others fail. A failure is
    printed at once. Raises DemoError for it, unless another exception is active.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def add(self, step: Callable[[], object]) -> None:
        """Adds a step, which runs before the earlier ones."""
        self._steps.append(step)

    def __enter__(self) -> Ending:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        failed = 0
        for step in reversed(self._steps):
            try:
                step()
            except (DemoError, OSError, subprocess.SubprocessError) as failure:
                failed += 1
                report(str(failure))
        if failed and (kind is None or issubclass(kind, Stopped)):
            raise DemoError("it did not end in order")
