# SPDX-License-Identifier: Apache-2.0
"""ganesha's exports in memory, for tests of the API and of the console: it serves nobody."""

from __future__ import annotations

import threading
from dataclasses import replace

from appliance.dataplane.ganesha import (
    Clients,
    Export,
    ExportControl,
    ExportRefusedError,
    NfsClient,
    NoSuchExportError,
    ServedExport,
    client_names,
)


class GaneshaSimulator(ExportControl):
    """Keeps what it is told, and refuses what the daemon would."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._exports: dict[int, ServedExport] = {}
        self.now = 1_800_000_000.0
        """The daemon's clock, for tests to set."""
        self.since = 0.0
        """When it began, for tests to set."""
        self.known: list[NfsClient] = []
        """What `clients` tells, for tests to set."""
        self.used: dict[int, float] = {}
        """When each export was last used, for tests to set."""

    def served(self) -> list[ServedExport]:
        """All."""
        with self._lock:
            return [replace(one, used_at=self.used.get(number)) for number, one in sorted(self._exports.items())]

    def files(self) -> dict[int, str]:
        """All."""
        with self._lock:
            return {number: one.text for number, one in self._exports.items() if one.text is not None}

    def add(self, export: Export) -> None:
        """Serves it."""
        with self._lock:
            for other in self._exports.values():
                if export.export_id == other.export_id or other.pseudo == export.pseudo or other.path == str(export.path):
                    raise ExportRefusedError(f"{other.export_id} is there, with {other.path} as {other.pseudo}")
            self._exports[export.export_id] = _as_served(export)

    def change(self, export: Export) -> None:
        """Serves it otherwise."""
        with self._lock:
            found = self._exports.get(export.export_id)
            if found is None:
                raise NoSuchExportError(f"there is no export {export.export_id}")
            if (found.path, found.pseudo) != (str(export.path), export.pseudo):
                raise ExportRefusedError("path and pseudo path can't change")
            self._exports[export.export_id] = _as_served(export)

    def remove(self, export_id: int) -> None:
        """Serves it no longer."""
        with self._lock:
            if self._exports.pop(export_id, None) is None:
                raise NoSuchExportError(f"there is no export {export_id}")
            self.used.pop(export_id, None)

    def forget(self, export_id: int) -> None:
        """What is served has no file."""
        with self._lock:
            if (found := self._exports.get(export_id)) is not None:
                self._exports[export_id] = replace(found, text=None)

    def clients(self) -> Clients:
        """Those that a test has set."""
        return Clients(self.now, self.since, tuple(self.known))


def _as_served(export: Export) -> ServedExport:
    return ServedExport(export.export_id, str(export.path), export.pseudo, client_names(export), None, True, export.block())
