"""Which jobs of the worker are under way: kept by who holds the engine, and so not put back with the worker's own folder."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from appliance.zfs import stable
from appliance.zfs.errors import UnexpectedFailure

_log = logging.getLogger(__name__)


class JobNotes(ABC):
    """Who keeps them."""

    @abstractmethod
    def noted_jobs(self) -> list[str]:
        """Identifiers of those noted last; none where none ever were, or they can't be read. Raises EngineUnavailable."""

    @abstractmethod
    def note_jobs(self, jobs: Sequence[str]) -> None:
        """Only these are under way. On stable storage when it returns. Raises EngineUnavailable, UnexpectedFailure."""


class NotesFile(JobNotes):
    """In a file, one identifier a line; of one process. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def noted_jobs(self) -> list[str]:
        """See JobNotes."""
        with self._lock:
            try:
                return self._path.read_text().split()
            except FileNotFoundError:
                return []
            except (OSError, UnicodeDecodeError):
                _log.exception("which jobs were under way can't be read: none is taken up")
                return []

    def note_jobs(self, jobs: Sequence[str]) -> None:
        """See JobNotes."""
        with self._lock:
            try:
                stable.replace(self._path, "".join(f"{one}\n" for one in sorted(jobs)).encode())
            except OSError as problem:
                raise UnexpectedFailure("note_jobs", str(problem)) from problem
