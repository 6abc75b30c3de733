# SPDX-License-Identifier: Apache-2.0
"""Inventory cache: requests get the result of the last scan, and a background thread scans, so that no request waits for a scan.

A scan of 10,000 snapshots takes seconds. Jobs and the reconciler scan themselves, so the appliance's changes are visible
immediately; changes by others are visible after the next scan.
"""

import logging
import threading
import time

from appliance.domain.errors import DomainError
from appliance.worker.context import Context

_SHARE = 4
"""Minimum interval between scans, in multiples of a scan's duration."""
_log = logging.getLogger(__name__)


class InventoryCache:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._scan_on_request, name="scan")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._context.outdated.set()
        self._thread.join()

    def oldest(self) -> float:
        """Maximum age of the inventory for a request, in seconds. Starts a scan if the inventory is outdated.

        After a failed scan the maximum is short, so that the request scans and gets the error.
        """
        context, settings = self._context, self._context.configuration.worker
        if context.scan_failed:
            return settings.inventory_seconds
        if time.monotonic() - context.scanned_at > max(settings.inventory_seconds, _SHARE * context.scan_seconds):
            context.outdated.set()
        return settings.inventory_oldest_seconds

    def _scan_on_request(self) -> None:
        outdated = self._context.outdated
        while not self._stopping.is_set():
            outdated.wait()
            outdated.clear()
            if self._stopping.is_set():
                return
            try:
                self._context.scan()
            except DomainError as error:  # the next request gets the error
                _log.info("scan: %s", error)
            except Exception:
                _log.exception("scan")
