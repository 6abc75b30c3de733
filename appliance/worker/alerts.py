# SPDX-License-Identifier: Apache-2.0
"""Alerts from periodic checks: raised and cleared when two consecutive checks agree."""

import threading
import time
from collections.abc import Callable, Iterable

from appliance.database.store import Store
from appliance.domain import journal
from appliance.domain.journal import Finding

APART_S = 3.0
"""Minimum time between the two checks in seconds, because a check may see half of a job's changes."""


class Alerts:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.now: Callable[[], float] = time.monotonic
        self.request_after: Callable[[float], None] = lambda _seconds: None
        self._lock = threading.Lock()
        self._differing: dict[str, dict[str, tuple[str | None, float]]] = {}
        """Differences from open alerts by area and key: new severity (None: cleared), and the time of its first check."""

    def update(self, area: str, findings: Iterable[Finding]) -> None:
        """Takes the findings of a check of an area. Keys of an area start with its name and a colon."""
        now, by_key = self.now(), {finding.key: finding for finding in findings}
        severities = {key: finding.severity for key, finding in by_key.items()}
        with self._lock:
            with self._store.reading() as session:
                opened = {alert.key: (alert.severity, (alert.text, alert.remedy)) for alert in journal.open_alerts(session, area)}
            before = self._differing.get(area, {})
            differing: dict[str, tuple[str | None, float]] = {}
            for key in severities.keys() | opened.keys():
                severity = severities.get(key)
                if severity != (opened[key][0] if key in opened else None):
                    known = before.get(key)
                    differing[key] = known if known is not None and known[0] == severity else (severity, now)
            waiting = {key: difference for key, difference in differing.items() if now - difference[1] < APART_S}
            self._differing[area] = waiting
            news = any(
                key in opened and opened[key][1] != (finding.text, finding.remedy)
                for key, finding in by_key.items()
                if key not in waiting
            )
            if news or differing.keys() - waiting.keys():
                with self._store.session() as session:
                    journal.update_alerts(session, area, by_key.values(), waiting)
        if waiting:
            self.request_after(APART_S)

    def job_ended(self) -> None:
        """Requests a check now: a job may have fixed the cause of an open alert, and OpenZFS has no event for that."""
        with self._store.reading() as session:
            is_open = journal.has_open_alerts(session)
        if is_open or any(self._differing.values()):
            self.request_after(0)
