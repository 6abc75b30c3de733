# SPDX-License-Identifier: Apache-2.0
"""Scheduler of periodic tasks: at the start, after changes, and periodically, in sequence."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from appliance.domain.errors import DomainError

START, CHANGED, EVENT, PERIODIC = "start", "changed", "event", "periodic"
_log = logging.getLogger(__name__)


class Scheduler:
    """Scheduler of a worker. Each step gets the cause of the run. The maximum interval is `seconds`."""

    def __init__(self, steps: Sequence[Callable[[str], object]], seconds: float) -> None:
        self._steps, self._seconds = tuple(steps), seconds
        self._condition = threading.Condition()
        self._requested: str | None = START
        self._until = math.inf
        self._at_work = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="clock")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Starts no more runs; `join` waits for the running one."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self) -> None:
        self._thread.join()

    def request(self, cause: str = CHANGED) -> None:
        """Requests a run; several requests before its start share it.

        Differences after an event of storage count as drift, unless the appliance made a change too.
        """
        with self._condition:
            if self._requested is None or cause != EVENT:
                self._requested = cause
            self._condition.notify_all()

    def request_after(self, seconds: float) -> None:
        """Requests a run after a number of seconds, unless one starts earlier."""
        with self._condition:
            self._until = min(self._until, time.monotonic() + seconds)
            self._condition.notify_all()

    def wait(self, seconds: float) -> bool:
        """Waits until no run is requested or running; False after the timeout."""
        with self._condition:
            return self._condition.wait_for(
                lambda: self._stopping or not (self._requested or self._at_work or self._is_due()), seconds
            )

    def _is_due(self) -> bool:
        return self._until <= time.monotonic()

    def _run(self) -> None:
        while (cause := self._next()) is not None:
            for step in self._steps:
                try:
                    step(cause)
                except DomainError as error:
                    _log.warning("periodic task: %s", error)
                except Exception:
                    _log.exception("periodic task")

    def _next(self) -> str | None:
        with self._condition:
            self._at_work = False
            self._condition.notify_all()
            while not (self._stopping or self._requested) and (left := self._until - time.monotonic()) > 0:
                self._condition.wait(left)
            if self._stopping:
                return None
            self._until = time.monotonic() + self._seconds
            cause, self._requested, self._at_work = self._requested or PERIODIC, None, True
            return cause
