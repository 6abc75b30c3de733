# SPDX-License-Identifier: Apache-2.0
"""Rounds of all that is done by the clock: at the start, on change, and from time to time; one after the other."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from appliance.domain.errors import DomainError

START, CHANGED, EVENT, PERIODIC = "start", "changed", "event", "periodic"
"""Why one is made."""
_log = logging.getLogger(__name__)


class Rounds:
    """Of one worker. Each of the `steps` is told why the round is made; a round comes after so many `seconds` at the latest."""

    def __init__(self, steps: Sequence[Callable[[str], object]], seconds: float) -> None:
        self._steps, self._seconds = tuple(steps), seconds
        self._condition = threading.Condition()
        self._asked: str | None = START
        self._until = math.inf
        self._at_work = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="clock")

    def start(self) -> None:
        """With a first one at once."""
        self._thread.start()

    def stop(self) -> None:
        """None begins any more: `join` waits for the one under way."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self) -> None:
        """Until the last one has ended."""
        self._thread.join()

    def ask(self, cause: str = CHANGED) -> None:
        """One begins soon, and whoever else asks until then gets the same.

        What is found after an event of storage is not our change, unless one of ours is known of too.
        """
        with self._condition:
            if self._asked is None or cause != EVENT:
                self._asked = cause
            self._condition.notify_all()

    def ask_again(self, seconds: float) -> None:
        """One begins after so many seconds, if none does before."""
        with self._condition:
            self._until = min(self._until, time.monotonic() + seconds)
            self._condition.notify_all()

    def wait(self, seconds: float) -> bool:
        """Until none is asked for or under way; False when that takes longer."""
        with self._condition:
            return self._condition.wait_for(
                lambda: self._stopping or not (self._asked or self._at_work or self._is_due()), seconds
            )

    def _is_due(self) -> bool:
        return self._until <= time.monotonic()

    def _run(self) -> None:
        while (cause := self._next()) is not None:
            for step in self._steps:
                try:
                    step(cause)
                except DomainError as error:
                    _log.warning("by the clock: %s", error)
                except Exception:
                    _log.exception("by the clock")

    def _next(self) -> str | None:
        with self._condition:
            self._at_work = False
            self._condition.notify_all()
            while not (self._stopping or self._asked) and (left := self._until - time.monotonic()) > 0:
                self._condition.wait(left)
            if self._stopping:
                return None
            self._until = time.monotonic() + self._seconds
            cause, self._asked, self._at_work = self._asked or PERIODIC, None, True
            return cause
