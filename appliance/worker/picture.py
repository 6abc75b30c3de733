# SPDX-License-Identifier: Apache-2.0
"""What requests are told of storage: as last looked at, and looked at anew in the background, so that none waits for a look.

A look at 10,000 snapshots takes seconds. Jobs and rounds of the reconciler look by themselves, so what the appliance has changed
is in it at once; what others change is in it after the next look.
"""

from __future__ import annotations

import logging
import threading
import time

from appliance.domain.errors import DomainError
from appliance.worker.context import Context

_SHARE = 4
"""A look that takes long is not taken again before so many times that: the machine has other work too."""
_log = logging.getLogger(__name__)


class Picture:
    """Of one worker."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_when_asked, name="looking")

    def start(self) -> None:
        """Looks when somebody asks."""
        self._thread.start()

    def stop(self) -> None:
        """After the look under way."""
        self._stopping.set()
        self._context.outdated.set()
        self._thread.join()

    def oldest(self) -> float:
        """How many seconds old it may be for a request. What has become older than it should has a look begun.

        Where the last look failed it may not be old: who asks is told why.
        """
        context, settings = self._context, self._context.configuration.worker
        if context.look_failed:
            return settings.inventory_seconds
        if time.monotonic() - context.scanned_at > max(settings.inventory_seconds, _SHARE * context.look_seconds):
            context.outdated.set()
        return settings.inventory_oldest_seconds

    def _look_when_asked(self) -> None:
        outdated = self._context.outdated
        while not self._stopping.is_set():
            outdated.wait()
            outdated.clear()
            if self._stopping.is_set():
                return
            try:
                self._context.look()
            except DomainError as error:  # who asks next is told
                _log.info("looking: %s", error)
            except Exception:
                _log.exception("looking")
