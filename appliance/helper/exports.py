# SPDX-License-Identifier: Apache-2.0
"""ganesha's exports that the worker may make: only file systems that are mounted as datastores.

ganesha runs as root and accepts any export by DBus: a caller could export any folder, by any FSAL. So the bus allows the worker
only queries (packaging/dbus). The helper composes each export from a dataset's name, its GUID and the clients' rights.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from pathlib import Path

from appliance.dataplane.ganesha import Export, ExportControl, ExportSettings
from appliance.helper.mounts import is_allowed, is_of_reservations, refuse_copy
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import Refused, ZfsError
from appliance.zfs.mountinfo import topmost


class Exports(ABC):
    """Changes of exports. Any method may raise GaneshaUnreachableError."""

    @abstractmethod
    def add_export(self, dataset: str, guid: int, number: int, share: str, settings: ExportSettings) -> None:
        """Serves a mounted file system read-write to these addresses and networks, and to no other client.

        Clients mount `share`. `thick_size` is that of dataplane.ganesha.Export.
        Raises ExportRefusedError if ganesha refuses; NoSuchDataset; Refused if the dataset has another GUID, is hidden at its
        mountpoint, or is not mounted below the mount directories.
        """

    @abstractmethod
    def change_export(self, dataset: str, guid: int, number: int, share: str, settings: ExportSettings) -> None:
        """Changes an export. Raises as `add_export` does, NoSuchExportError, and Refused for another owner's export."""

    @abstractmethod
    def remove_export(self, number: int) -> None:
        """Removes an export. Raises NoSuchExportError, ExportRefusedError, and Refused for another owner's export."""


class CheckedExports(Exports):
    """Exports of a ganesha. `seen_at` returns the visible mount at a path. Thread-safe."""

    def __init__(
        self,
        engine: ZfsEngine,
        control: ExportControl,
        directories: Collection[str],
        seen_at: Callable[[str], str | None] = topmost,
    ) -> None:
        self._engine, self._control = engine, control
        self._directories = tuple(directories)
        self._seen_at = seen_at
        self._lock = threading.Lock()

    def add_export(self, dataset: str, guid: int, number: int, share: str, settings: ExportSettings) -> None:
        with self._lock:
            export = self._export(dataset, guid, number, share, settings)
            self._control.add(export)
            try:  # from here on ganesha keeps it mounted; before, the caller could unmount it on another connection
                if self._place(dataset, guid) != export.path:
                    raise Refused(f"{dataset} has another mountpoint by now")
            except ZfsError:
                self._control.remove(number)
                raise

    def change_export(self, dataset: str, guid: int, number: int, share: str, settings: ExportSettings) -> None:
        with self._lock:
            self._ours(number)
            self._control.change(self._export(dataset, guid, number, share, settings))

    def remove_export(self, number: int) -> None:
        with self._lock:
            self._ours(number)
            self._control.remove(number)

    def _export(self, dataset: str, guid: int, number: int, share: str, settings: ExportSettings) -> Export:
        return Export(
            number, self._place(dataset, guid), share,
            clients=settings.clients, dataset=dataset, guid=guid, thick_size=settings.thick_size,
        )  # fmt: skip

    def _place(self, dataset: str, guid: int) -> Path:
        filesystem = self._engine.filesystem(dataset)
        place = filesystem.mountpoint or "none"
        if filesystem.guid != guid:
            raise Refused(f"the GUID of {dataset} is {filesystem.guid} instead of {guid}: it is another dataset")
        if not is_allowed(place, self._directories):
            raise Refused(
                f"{dataset} is mounted at {place}: only what is one name below {' or '.join(self._directories)} is exported"
            )
        if is_of_reservations(dataset, place):
            raise Refused(f"{dataset} has persistent reservations, which are the target's")
        refuse_copy(filesystem)
        if not filesystem.mounted or (visible := self._seen_at(place)) != dataset:
            raise Refused(f"at {place} is {(visible if filesystem.mounted else None) or 'nothing'} mounted, and not {dataset}")
        return Path(place)

    def _ours(self, number: int) -> None:
        """Raises Refused for another owner's export: outside the mount directories and without a file in root's folder."""
        for export in self._control.served():
            if export.export_id == number and export.text is None and not export.path.startswith(self._directories):
                raise Refused(f"export {number} ({export.path}) is none of the appliance's")
