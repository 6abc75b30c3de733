# SPDX-License-Identifier: Apache-2.0
"""Concurrent jobs: dependencies, load, and results."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 60
"""Time for a job to end after SIGTERM: a guest exports its pools."""
INTERRUPT_SECONDS = 0.2
"""How often a run looks whether it was interrupted."""


@dataclass(frozen=True)
class Job:
    """A command with a log file."""

    name: str
    command: Sequence[str]
    needs: Sequence[str] = ()
    """Jobs that must pass before this one starts."""
    processors: float = 1
    """Processors that it uses on average."""
    seconds: float = 0
    """Usual duration: of two jobs that can start, the one with the longer chain of jobs after it starts first."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """Result of a job. `code` is None if it did not start, because a job that it needs failed."""

    job: Job
    code: int | None
    seconds: float
    log: Path

    @property
    def passed(self) -> bool:
        """Whether the exit code was 0."""
        return self.code == 0


class Interrupted(Exception):
    """The run was interrupted."""


class Schedule:
    """Runs jobs on a number of processors. A job that needs more than the free ones waits, unless nothing else runs."""

    def __init__(self, jobs: Sequence[Job], logs: Path, processors: float, print_line: Callable[[str], None]) -> None:
        names = {job.name for job in jobs}
        assert len(names) == len(jobs), "two jobs have one name"
        assert all(set(job.needs) <= names for job in jobs), "a job needs one that is not in the run"
        self._waiting = list(jobs)
        self._logs = logs
        self._free = processors
        self._all = processors
        self._print_line = print_line
        self._ended: list[Ended] = []
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Condition()
        self._interrupted = False
        self._weights = {job.name: self._behind(job, jobs) for job in jobs}

    @staticmethod
    def _behind(job: Job, jobs: Sequence[Job]) -> float:
        """Seconds of the longest chain that starts with this job."""
        return job.seconds + max((Schedule._behind(other, jobs) for other in jobs if job.name in other.needs), default=0)

    def interrupt(self) -> None:
        """Ends the run; for signal handlers. A handler that raises could do so while a job starts: nobody would end that job."""
        self._interrupted = True

    def run(self) -> list[Ended]:
        """Runs all jobs. Raises Interrupted, after the end of the running ones."""
        started = time.monotonic()
        while self._step(started):
            if self._interrupted:
                self._stop()
                raise Interrupted
        return self._ended

    def _step(self, started: float) -> bool:
        """Starts jobs and waits for a job to end; returns whether jobs remain."""
        with self._changed:
            passed = {ended.job.name for ended in self._ended if ended.passed}
            failed = {ended.job.name for ended in self._ended} - passed
            for job in [job for job in self._waiting if failed & set(job.needs)]:
                self._waiting.remove(job)
                self._ended.append(Ended(job, None, 0, self._log(job)))
                missing = ", ".join(sorted(failed & set(job.needs)))
                self._print_line(f"[{time.monotonic() - started:5.0f} s] {job.name}: not run, because this failed: {missing}")
                return True
            ready = [job for job in self._waiting if set(job.needs) <= passed]
            for job in sorted(ready, key=lambda job: -self._weights[job.name]):
                if job.processors <= self._free + 0.01 or not self._running:
                    self._waiting.remove(job)
                    self._start(job, started)
            if self._running:
                self._changed.wait(INTERRUPT_SECONDS)
            return bool(self._waiting or self._running)

    def _log(self, job: Job) -> Path:
        return self._logs / f"{job.name}.log"

    def _start(self, job: Job, started: float) -> None:
        self._free -= job.processors
        begun = time.monotonic()
        self._print_line(f"[{begun - started:5.0f} s] {job.name}: started")
        with self._log(job).open("wb") as log:
            process = subprocess.Popen(
                job.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **job.environment},
                start_new_session=True,
            )
        self._running[job.name] = process

        def wait() -> None:
            code = process.wait()
            ended = Ended(job, code, time.monotonic() - begun, self._log(job))
            with self._changed:
                del self._running[job.name]
                self._free += job.processors
                self._ended.append(ended)
                how = "passed" if ended.passed else f"FAILED (exit code {code}, log: {ended.log})"
                self._print_line(f"[{time.monotonic() - started:5.0f} s] {job.name}: {how} in {ended.seconds:.0f} s")
                self._changed.notify()

        threading.Thread(target=wait, daemon=True).start()

    def _stop(self) -> None:
        """Ends the running jobs: SIGTERM, then SIGKILL."""
        with self._changed:
            for how in (signal.SIGTERM, signal.SIGKILL):
                for process in self._running.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, how)
                self._changed.wait_for(lambda: not self._running, STOP_SECONDS)
