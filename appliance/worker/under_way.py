"""Which jobs may be under way, noted by the root helper: so that an older copy of the database, put back, begins none anew.

A job is noted before it is in the database, and until the database has its end. So one that is under way by the database and is
not noted has ended since, or was another installation's. The note does not lie in the worker's own folder: who puts that back
whole, or carries it to another server, does not bring jobs back.
"""

from __future__ import annotations

import threading
from collections.abc import Collection

from appliance.zfs.job_notes import JobNotes

NOT_NOTED = (
    "it was not under way when the worker last noted its jobs: the database is an older copy, or another installation's. Nothing"
    " was begun or taken back; see what has become of it, and ask for it again if it is still wanted"
)


class UnderWay:
    """The note. Threads may share it; who notes what the database has holds `lock` from reading that until it is noted."""

    def __init__(self, notes: JobNotes) -> None:
        self._notes = notes
        self.lock = threading.RLock()
        self._known: set[str] | None = None
        self._noted: frozenset[str] | None = None
        """As the note is; None where that is not known."""

    def read(self) -> set[str]:
        """Those that were noted at the start, or came since. Raises ZfsError."""
        with self.lock:
            if self._known is None:
                self._known = set(self._notes.noted_jobs())
                self._noted = frozenset(self._known)
            return self._known

    def add(self, job_id: str, active: Collection[str]) -> None:
        """A new one, before it is in the database; `active` are those that are. On stable storage. Raises ZfsError."""
        with self.lock:
            known = self.read()
            self._note(frozenset({job_id, *(known & set(active))}))
            known.add(job_id)

    def keep(self, active: Collection[str]) -> None:
        """Only these are under way by now. Raises ZfsError."""
        with self.lock:
            still = self.read() & set(active)
            self._note(frozenset(still))
            self._known = still

    def _note(self, ids: frozenset[str]) -> None:
        if ids == self._noted:
            return
        self._noted = None
        self._notes.note_jobs(sorted(ids))
        self._noted = ids
