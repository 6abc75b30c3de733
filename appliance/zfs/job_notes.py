# SPDX-License-Identifier: Apache-2.0
"""Which jobs of the worker are under way, and how many have ended: kept by who holds the engine, not in the worker's own folder.

The number lies in the pools too, so that they tell what has been since of a system disk that is put back with this note.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.zfs import stable
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import UnexpectedFailure, ZfsError
from appliance.zfs.model import Source

PROPERTY = "zvaai:jobs_ended"
"""User property of a pool's root dataset: the database's identity and the number, with a space between."""
MAX_ENDED = 10**15
_ENDED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,15})")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """How many jobs have ended, as the database of this identity counts them."""

    database: str
    number: int

    def __str__(self) -> str:
        return f"{self.database} {self.number}"


@dataclass(frozen=True, slots=True)
class Noted:
    """What is known without the database."""

    jobs: tuple[str, ...] = ()
    """Identifiers of those under way."""
    ended: Ended | None = None
    """By the note; None where it tells nothing."""
    by_pools: tuple[Ended, ...] = ()
    """By each imported pool that answers and tells something: it may be another server's."""


def ended_of(text: str) -> Ended | None:
    """As it is written down; None for anything else."""
    found = _ENDED.fullmatch(text)
    return Ended(found[1], int(found[2])) if found else None


class JobNotes(ABC):
    """Who keeps them."""

    @abstractmethod
    def noted_jobs(self) -> Noted:
        """What was noted last; nothing where nothing ever was, or it can't be read. Raises EngineUnavailable.

        Pools are asked after the note, and may know of what was noted in between.
        """

    @abstractmethod
    def note_jobs(self, jobs: Sequence[str], database: str, ended: int) -> None:
        """Only these are under way, and so many have ended; of one database that never goes down.

        On stable storage when it returns. Raises EngineUnavailable, UnexpectedFailure.
        """

    @abstractmethod
    def mark_pools(self) -> None:
        """How many have ended by the note is in the pools too when it returns, but in those that can't be written just now.

        It takes as long as they take to write. Raises EngineUnavailable.
        """


class PoolMarks:
    """The number in the pools. Those that are not `ours` are neither read nor written."""

    def __init__(self, engine: ZfsEngine, ours: Callable[[str], bool] = lambda _: True) -> None:
        self._engine, self._ours = engine, ours
        self._last: Ended | None = None
        self._writing = threading.Lock()

    def read(self) -> tuple[Ended, ...]:
        """Of each pool that tells it of itself: what was received with a copy is the original's. Raises EngineUnavailable."""
        found = []
        for pool in self._pools():
            try:
                ended = self._of(pool)
            except ZfsError as problem:
                _log.warning("how many jobs have ended is not read of pool %s: %s", pool, problem)
                continue
            if ended is not None:
                found.append(ended)
        return tuple(found)

    def _of(self, pool: str) -> Ended | None:
        told = self._engine.properties(pool).get(PROPERTY)
        return ended_of(told.value) if told is not None and told.source == Source.LOCAL else None

    def write(self, ended: Ended) -> None:
        """To all that answer, but for those that know of more; the others get the next one.

        Each is read anew: another one may have come by the same name.
        """
        with self._writing:
            if ended == self._last:
                return
            for pool in self._pools():
                try:
                    if not self._engine.unfinished(pool):  # it would wait as that does
                        self._write(pool, ended)
                except ZfsError as problem:
                    _log.warning("how many jobs have ended is not noted in pool %s: %s", pool, problem)
            self._last = ended

    def _write(self, pool: str, ended: Ended) -> None:
        before = self._of(pool)
        if before is None or before.database != ended.database or before.number < ended.number:
            self._engine.set_properties(pool, {PROPERTY: str(ended)})

    def _pools(self) -> list[str]:
        return [pool for pool in self._engine.answering_pools() if self._ours(pool)]


class NotesFile(JobNotes):
    """In a file: how many have ended, if known, then the identifiers, a line each; of one process. Threads may share it."""

    def __init__(self, path: Path, marks: PoolMarks | None = None) -> None:
        self._path, self._marks = path, marks
        self._lock = threading.Lock()

    def noted_jobs(self) -> Noted:
        """See JobNotes."""
        with self._lock:
            noted = self._read()
        # Without the lock: a pool may take long, and nobody who notes waits for that.
        return Noted(noted.jobs, noted.ended, self._marks.read() if self._marks else ())

    def note_jobs(self, jobs: Sequence[str], database: str, ended: int) -> None:
        """See JobNotes."""
        with self._lock:
            before, now = self._read().ended, Ended(database, ended)
            if before is not None and before.database == database and before.number > ended:
                now = before
            try:
                stable.replace(self._path, "".join(f"{one}\n" for one in (now, *sorted(jobs))).encode())
            except OSError as problem:
                raise UnexpectedFailure("note_jobs", str(problem)) from problem

    def mark_pools(self) -> None:
        """See JobNotes."""
        with self._lock:
            ended = self._read().ended
        if self._marks and ended is not None:  # after the file: no pool knows more than it
            self._marks.write(ended)

    def _read(self) -> Noted:
        try:
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            return Noted()
        except (OSError, UnicodeDecodeError):
            _log.exception("which jobs were under way can't be read: none is taken up")
            return Noted()
        ended = ended_of(lines[0]) if lines else None
        return Noted(tuple(lines[1:] if ended else lines), ended)
