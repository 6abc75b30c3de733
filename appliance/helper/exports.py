# SPDX-License-Identifier: Apache-2.0
"""ganesha's exports, as the worker may have them: of file systems that are mounted where datastores are, and of nothing else.

ganesha is root, and exports what it is told by DBus: who may tell it could have any folder exported, by any FSAL. So the bus lets
the worker only look (packaging/dbus), and the helper composes each export from a dataset's name, its GUID and what clients may.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from appliance.dataplane.export_file import read
from appliance.dataplane.ganesha import ClientRights, Export, ExportControl
from appliance.helper.mounts import is_allowed, is_of_reservations, its_own
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import Refused, ZfsError
from appliance.zfs.mountinfo import topmost


class Exports(ABC):
    """What changes exports. Any method may raise GaneshaUnreachableError."""

    @abstractmethod
    def add_export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        *,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None = None,
    ) -> None:
        """Serves a mounted file system to these addresses and networks, which may read and write; nobody else may.

        `share` is the path that they mount; `squash`, `versions` (as `protocols`) and `thick_size` are those of
        dataplane.ganesha.Export.
        Raises ExportRefusedError where ganesha refuses; NoSuchDataset; Refused when the dataset has another GUID, or is not
        what is seen at its mountpoint, or that is not below the mount directories.
        """

    @abstractmethod
    def change_export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        *,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None = None,
    ) -> None:
        """Serves it otherwise from now on. Raises as `add_export`, and NoSuchExportError, Refused for somebody else's export."""

    @abstractmethod
    def remove_export(self, number: int) -> None:
        """Serves it no longer. Raises NoSuchExportError, ExportRefusedError, Refused for somebody else's export."""

    @abstractmethod
    def forget_export(self, number: int) -> None:
        """It does not come back after a restart of ganesha. Asks no daemon. Raises Refused for a file that is no datastore's."""


class CheckedExports(Exports):
    """Those of a ganesha. `seen_at` tells what is mounted at a path. Threads may share it."""

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
        self._one_after_the_other = threading.Lock()

    def add_export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        *,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None = None,
    ) -> None:
        """See Exports."""
        with self._one_after_the_other:
            export = self._export(dataset, guid, number, share, clients, squash, versions, thick_size)
            self._control.add(export)
            try:  # ganesha holds it by now; before, the same caller could unmount it on another connection
                if self._place(dataset, guid) != export.path:
                    raise Refused(f"{dataset} has another mountpoint by now")
            except ZfsError:
                self._control.remove(number)
                raise

    def change_export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        *,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None = None,
    ) -> None:
        """See Exports."""
        with self._one_after_the_other:
            self._ours(number)
            self._control.change(self._export(dataset, guid, number, share, clients, squash, versions, thick_size))

    def remove_export(self, number: int) -> None:
        """See Exports."""
        with self._one_after_the_other:
            self._ours(number)
            self._control.remove(number)

    def forget_export(self, number: int) -> None:
        """See Exports."""
        with self._one_after_the_other:
            text = self._control.files().get(number)
            export = read(text) if text is not None else None
            if text is not None and (export is None or not is_allowed(str(export.path), self._directories)):
                raise Refused(f"the file of export {number} is none that the appliance has written: remove it by hand")
            self._control.forget(number)

    def _export(
        self,
        dataset: str,
        guid: int,
        number: int,
        share: str,
        clients: Sequence[str],
        squash: str,
        versions: Sequence[int],
        thick_size: int | None,
    ) -> Export:
        rights = [ClientRights(", ".join(clients), "RW", squash)] if clients else []
        place = self._place(dataset, guid)
        return Export(
            number,
            place,
            share,
            access="None",
            squash=squash,
            clients=rights,
            protocols=tuple(versions),
            dataset=dataset,
            guid=guid,
            thick_size=thick_size,
        )

    def _place(self, dataset: str, guid: int) -> Path:
        """Where it is mounted, and seen."""
        found = self._engine.filesystem(dataset)
        place = found.mountpoint or "none"
        if found.guid != guid:
            raise Refused(f"the GUID of {dataset} is {found.guid} instead of {guid}: it is another dataset")
        if not is_allowed(place, self._directories):
            raise Refused(
                f"{dataset} is mounted at {place}: only what is one name below {' or '.join(self._directories)} is exported"
            )
        if is_of_reservations(dataset, place):
            raise Refused(f"{dataset} has persistent reservations, which are the target's")
        its_own(found)
        if not found.mounted or (there := self._seen_at(place)) != dataset:
            raise Refused(f"at {place} is {(there if found.mounted else None) or 'nothing'} mounted, and not {dataset}")
        return Path(place)

    def _ours(self, number: int) -> None:
        """Others' exports are left alone: those that lie elsewhere and have no file in the folder, which is root's."""
        for one in self._control.served():
            if one.export_id == number and one.text is None and not one.path.startswith(self._directories):
                raise Refused(f"export {number} ({one.path}) is none of the appliance's")
