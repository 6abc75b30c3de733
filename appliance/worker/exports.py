# SPDX-License-Identifier: Apache-2.0
"""The NFS server's exports: queries by the worker, changes through the root helper."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from appliance.dataplane.ganesha import Export, ExportRefusedError, ExportSettings
from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.helper.client import HelperClient
from appliance.zfs.errors import EngineUnavailable, Timeout, ZfsError


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Converts a refusal by the helper to ExportRefusedError, but not a missing answer."""
    try:
        yield
    except (EngineUnavailable, Timeout):
        raise
    except ZfsError as error:
        raise ExportRefusedError(str(error)) from error


class ExportsByHelper(Ganesha):
    """Reads the folder of exports and queries the daemon by itself. Changes may raise EngineUnavailable, Timeout."""

    def __init__(self, exports: Path, bus: str, helper: HelperClient) -> None:
        super().__init__(exports, bus)
        self._helper = helper

    def add(self, export: Export) -> None:
        settings = _settings(export)
        with _refused():
            self._helper.add_export(export.dataset, export.guid or 0, export.export_id, export.pseudo, settings)

    def change(self, export: Export) -> None:
        settings = _settings(export)
        with _refused():
            self._helper.change_export(export.dataset, export.guid or 0, export.export_id, export.pseudo, settings)

    def remove(self, export_id: int) -> None:
        with _refused():
            self._helper.remove_export(export_id)


def _settings(export: Export) -> ExportSettings:
    return ExportSettings(list(export.clients), export.thick_size)
