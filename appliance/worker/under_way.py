# SPDX-License-Identifier: Apache-2.0
"""Which jobs may be under way, noted by the root helper: so that an older copy of the database, put back, begins none anew.

A job is noted before it is in the database, and until the database has its end. So one that is under way by the database and is
not noted has ended since, or was another installation's. The note does not lie in the worker's own folder: who puts that back
whole, or carries it to another server, does not bring jobs back. How many have ended, as the database counts them, is noted with
them and in the pools, once the database has it: who knows more than the database has seen what the database has not, also where
the note itself was put back with it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection

from appliance.domain.jobs_ended import Count
from appliance.zfs.job_notes import Ended, JobNotes, Noted

_ASK_AGAIN = "Nothing was begun again or taken back; see what has become of it, and ask for it again if it is still wanted"
NOT_NOTED = (
    "it was not under way when the worker last noted its jobs: the database is an older copy, or another installation's."
    f" {_ASK_AGAIN}"
)
NOT_WITNESSED = (
    "the worker was started again before it had ended, and no pool tells whether the database is the newest: begun again, it"
    f" could take disks from who has them by now. {_ASK_AGAIN}"
)


def older(missed: int) -> str:
    """Why a job is not begun while the database misses so many ends of jobs."""
    return f"the database is an older copy: by what is noted beside it, at least {missed} jobs have ended since. {_ASK_AGAIN}"


def missed(noted: Noted, own: Count) -> int | None:
    """So many ends of jobs the database does not know; None where the note is another database's."""
    if noted.ended is not None and noted.ended.database != own.database:
        return None
    numbers = [one.number for one in (noted.ended, *noted.by_pools) if one and one.database == own.database]
    return max(0, max(numbers, default=0) - own.number)


def is_witnessed(noted: Noted) -> bool:
    """Whether a pool told, before anything was noted, that the note is the newest."""
    return noted.ended in noted.by_pools


def is_newest(noted: Noted, own: Count) -> bool:
    """Whether a pool tells of just as many ends as the database, though the note may have been lost."""
    return Ended(*own) in noted.by_pools


class UnderWay:
    """The note. Threads may share it; who notes what the database has holds `lock` from reading that until it is noted."""

    def __init__(self, notes: JobNotes) -> None:
        self._notes = notes
        self.lock = threading.RLock()
        self._known: set[str] | None = None
        self._at_start = Noted()
        self._noted: tuple[frozenset[str], Ended] | None = None
        """As the note is; None where that is not known."""
        self._ended: Ended | None = None
        """By the note."""
        self._marked: Ended | None = None
        """Asked to be in the pools: those that can't be written get the next one."""

    def read(self) -> set[str]:
        """Those that were noted at the start, or came since. Raises ZfsError."""
        with self.lock:
            if self._known is None:
                self._at_start = self._notes.noted_jobs()
                self._known = set(self._at_start.jobs)
            return self._known

    def at_start(self) -> Noted:
        """As it was when the worker started, before it noted anything. Raises ZfsError."""
        with self.lock:
            self.read()
            return self._at_start

    def now(self) -> Noted:
        """Read once more: a pool may have come since. Raises ZfsError."""
        return self._notes.noted_jobs()

    def add(self, job_id: str, active: Collection[str], ended: Count) -> None:
        """A new one, before it is in the database; `active` are those that are. On stable storage. Raises ZfsError."""
        with self.lock:
            known = self.read()
            self._note(frozenset({job_id, *(known & set(active))}), ended)
            known.add(job_id)

    def keep(self, active: Collection[str], ended: Count) -> None:
        """Only these are under way by now. Raises ZfsError."""
        with self.lock:
            still = self.read() & set(active)
            self._note(frozenset(still), ended)
            self._known = still

    def mark(self) -> None:
        """In the pools too; nobody who notes waits for that. Raises ZfsError."""
        if self._marked != self._ended:
            ended = self._ended
            self._notes.mark_pools()
            self._marked = ended

    def _note(self, ids: frozenset[str], ended: Count) -> None:
        new = (ids, Ended(*ended))
        if new == self._noted:
            return
        self._noted = None
        self._notes.note_jobs(sorted(ids), *ended)
        self._noted, self._ended = new, new[1]
