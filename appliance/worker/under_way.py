"""Which jobs may be under way, in a file beside the database: so that an older copy of the database, put back, begins none anew.

A job is in the file before it is in the database, and until the database has its end. So one that is under way by the database
but not in the file has ended since, or was another installation's. Where neither file nor database tells that jobs were ever
noted, the worker before was of an earlier version, and what is under way is its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection
from pathlib import Path

NOT_NOTED = (
    "it was not under way when the worker last noted its jobs: the database is an older copy, or another installation's. Nothing"
    " was begun or taken back; see what has become of it, and ask for it again if it is still wanted"
)
_log = logging.getLogger(__name__)


class UnderWay:
    """The file. Threads may share it; who writes what the database has holds `lock` from reading that until it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.was_there = path.exists(follow_symlinks=False)
        """Whether there was a file at the start: an earlier version, and who begins anew, has none."""
        self.lock = threading.RLock()
        self._known = self._read()
        self._written: frozenset[str] | None = frozenset(self._known) if self.was_there else None

    def _read(self) -> set[str]:
        try:
            return set(self._path.read_text().split())
        except FileNotFoundError:
            return set()
        except (OSError, UnicodeDecodeError):
            _log.exception("which jobs were under way can't be read: none is taken up")
            return set()

    def has(self, job_id: str) -> bool:
        """Whether it was in the file, or came since."""
        with self.lock:
            return job_id in self._known

    def adopt(self, active: Collection[str]) -> None:
        """An earlier version's, which noted none. On stable storage. Raises OSError."""
        with self.lock:
            self._write(frozenset(self._known | set(active)))
            self._known |= set(active)

    def add(self, job_id: str, active: Collection[str]) -> None:
        """A new one, before it is in the database; `active` are those that are. On stable storage. Raises OSError."""
        with self.lock:
            self._write(frozenset({job_id, *(self._known & set(active))}))
            self._known.add(job_id)

    def keep(self, active: Collection[str]) -> None:
        """Only these are under way by now. Raises OSError."""
        with self.lock:
            still = self._known & set(active)
            self._write(frozenset(still))
            self._known = still

    def _write(self, ids: frozenset[str]) -> None:
        if ids == self._written:
            return
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            file.write("".join(f"{one}\n" for one in sorted(ids)))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._written = ids
