# SPDX-License-Identifier: Apache-2.0
"""ganesha's exports in memory, for tests of the API and the console. It serves no host."""

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
)


class GaneshaSimulator(ExportControl):
    """Keeps its exports, and refuses what the daemon refuses."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._exports: dict[int, ServedExport] = {}
        self.now = 1_800_000_000.0
        """The daemon's clock, set by tests."""
        self.started_at = 0.0
        """When the daemon started, set by tests."""
        self.known: list[NfsClient] = []
        """Response of `clients`, set by tests."""
        self.used: dict[int, float] = {}
        """When each export was last used, set by tests."""

    def served(self) -> list[ServedExport]:
        with self._lock:
            return [replace(export, used_at=self.used.get(number)) for number, export in sorted(self._exports.items())]

    def files(self) -> dict[int, str]:
        with self._lock:
            return {number: export.text for number, export in self._exports.items() if export.text is not None}

    def add(self, export: Export) -> None:
        with self._lock:
            for other in self._exports.values():
                if export.export_id == other.export_id or other.pseudo == export.pseudo or other.path == str(export.path):
                    raise ExportRefusedError(f"{other.export_id} is there, with {other.path} as {other.pseudo}")
            self._exports[export.export_id] = _as_served(export)

    def change(self, export: Export) -> None:
        with self._lock:
            served = self._exports.get(export.export_id)
            if served is None:
                raise NoSuchExportError(f"there is no export {export.export_id}")
            if (served.path, served.pseudo) != (str(export.path), export.pseudo):
                raise ExportRefusedError("path and pseudo path can't change")
            self._exports[export.export_id] = _as_served(export)

    def remove(self, export_id: int) -> None:
        with self._lock:
            if self._exports.pop(export_id, None) is None:
                raise NoSuchExportError(f"there is no export {export_id}")
            self.used.pop(export_id, None)

    def lose_file(self, export_id: int) -> None:
        """Removes the file of a served export: it is then not the appliance's."""
        with self._lock:
            if (served := self._exports.get(export_id)) is not None:
                self._exports[export_id] = replace(served, text=None)

    def clients(self) -> Clients:
        return Clients(self.now, self.started_at, tuple(self.known))


def _as_served(export: Export) -> ServedExport:
    return ServedExport(export.export_id, str(export.path), export.pseudo, export.client_names(), None, True, export.block())
