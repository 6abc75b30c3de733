# SPDX-License-Identifier: Apache-2.0
"""Jobs that run side by side: what each needs first, how much of the machine it takes, how it ended."""

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
"""For a job that was told to end: a guest exports its pools."""


@dataclass(frozen=True)
class Job:
    """A command with a log of its own."""

    name: str
    command: Sequence[str]
    needs: Sequence[str] = ()
    """Jobs that must have passed before this one starts."""
    processors: float = 1
    """How many processors it keeps busy on average."""
    seconds: float = 0
    """How long it usually takes: of two jobs that could start, the one with more behind it goes first."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a job ended. `code` is None where it did not start, because a job that it needs failed."""

    job: Job
    code: int | None
    seconds: float
    log: Path

    @property
    def passed(self) -> bool:
        """Whether the command ended well."""
        return self.code == 0


class Interrupted(Exception):
    """The run was told to end."""


class Schedule:
    """Runs jobs on so many processors. A job that takes more than are free waits, except when nothing else runs."""

    def __init__(self, jobs: Sequence[Job], logs: Path, processors: float, tell: Callable[[str], None]) -> None:
        names = {job.name for job in jobs}
        assert len(names) == len(jobs), "two jobs have one name"
        assert all(set(job.needs) <= names for job in jobs), "a job needs one that is not in the run"
        self._waiting = list(jobs)
        self._logs = logs
        self._free = processors
        self._all = processors
        self._tell = tell
        self._ended: list[Ended] = []
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Condition()
        self._weights = {job.name: self._behind(job, jobs) for job in jobs}

    @staticmethod
    def _behind(job: Job, jobs: Sequence[Job]) -> float:
        """Seconds of the longest chain that begins with this job."""
        return job.seconds + max((Schedule._behind(other, jobs) for other in jobs if job.name in other.needs), default=0)

    def run(self) -> list[Ended]:
        """All jobs, ended. Raises Interrupted, after the running ones were ended."""
        started = time.monotonic()
        try:
            while self._step(started):
                pass
        except (KeyboardInterrupt, Interrupted):
            self._stop()
            raise Interrupted from None
        return self._ended

    def _step(self, started: float) -> bool:
        """Starts what can start and waits for a job to end; whether anything is left."""
        with self._changed:
            passed = {ended.job.name for ended in self._ended if ended.passed}
            failed = {ended.job.name for ended in self._ended} - passed
            for job in [job for job in self._waiting if failed & set(job.needs)]:
                self._waiting.remove(job)
                self._ended.append(Ended(job, None, 0, self._log(job)))
                missing = ", ".join(sorted(failed & set(job.needs)))
                self._tell(f"[{time.monotonic() - started:5.0f} s] {job.name}: not run, because this failed: {missing}")
                return True
            ready = [job for job in self._waiting if set(job.needs) <= passed]
            for job in sorted(ready, key=lambda job: -self._weights[job.name]):
                if job.processors <= self._free + 0.01 or not self._running:
                    self._waiting.remove(job)
                    self._start(job, started)
            if self._running:
                self._changed.wait()
            return bool(self._waiting or self._running)

    def _log(self, job: Job) -> Path:
        return self._logs / f"{job.name}.log"

    def _start(self, job: Job, started: float) -> None:
        self._free -= job.processors
        begun = time.monotonic()
        self._tell(f"[{begun - started:5.0f} s] {job.name}: started")
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
                self._tell(f"[{time.monotonic() - started:5.0f} s] {job.name}: {how} in {ended.seconds:.0f} s")
                self._changed.notify()

        threading.Thread(target=wait, daemon=True).start()

    def _stop(self) -> None:
        """Ends what runs: by SIGTERM, then by SIGKILL."""
        with self._changed:
            for how in (signal.SIGTERM, signal.SIGKILL):
                for process in self._running.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, how)
                self._changed.wait_for(lambda: not self._running, STOP_SECONDS)
