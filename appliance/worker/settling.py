# SPDX-License-Identifier: Apache-2.0
"""What is found of something that a job is about is left as it is told, and settled in a round soon after the job's end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from sqlalchemy.orm import Session

from appliance.database.models import Job
from appliance.database.store import Store
from appliance.domain import jobs, journal
from appliance.domain.journal import Finding


class Settling:
    """Of one worker. One round is asked for however many jobs end, once none is under way: each would look at all of storage."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ask: Callable[[], None] = lambda: None
        """For a round that looks at all, and settles it."""
        self._lock = threading.Lock()
        self._left: dict[str, frozenset[str]] = {}
        """Keys that were left as they were though they looked otherwise, by area."""
        self._told = False
        """Whether something is told of what jobs were about that have ended since a round was asked for."""
        self._ended = False
        """Whether jobs have ended since a round was asked for."""

    @property
    def waiting(self) -> bool:
        """Whether something was left as it was."""
        with self._lock:
            return any(self._left.values())

    def settle(self, session: Session, area: str, findings: Iterable[Finding], unsure: Collection[str]) -> None:
        """As journal.update_alerts; whoever calls it calls `consider` when the session has ended."""
        left = frozenset(journal.update_alerts(session, area, findings, unsure))
        with self._lock:
            self._left[area] = left

    def leave(self, area: str, keys: Collection[str]) -> None:
        """What was left as it is in this round beside alerts; whoever calls it calls `consider` afterwards."""
        with self._lock:
            self._left[area] = frozenset(keys)

    def ended(self, job: Job) -> None:
        """It has, by the database."""
        with self._store.reading() as session:
            told = journal.have_alerts(session, jobs.involved(job))
        with self._lock:
            self._ended, self._told = True, self._told or told
        self.consider()

    def consider(self) -> None:
        """Asks for a round if something is to be settled, jobs have ended since one was asked for, and none is under way.

        Both who leaves something and whose job ends come here afterwards, so the later one of both sees it.
        """
        if not self._is_due():
            return
        with self._store.reading() as session:
            if jobs.active(session):
                return
        with self._lock:
            due, self._ended, self._told = self._ended, False, False
        if due:
            self.ask()

    def _is_due(self) -> bool:
        with self._lock:
            return self._ended and (self._told or any(self._left.values()))
