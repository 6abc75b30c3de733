# SPDX-License-Identifier: Apache-2.0
"""The NFS server's exports as the worker has them: it looks by itself, and asks the root helper for what changes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from appliance.dataplane.ganesha import Clients, Export, ExportControl, ExportRefusedError, ServedExport
from appliance.helper.client import HelperClient
from appliance.zfs.errors import EngineUnavailable, Timeout, ZfsError


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """What the helper refuses is one export's matter; that it does not answer is not."""
    try:
        yield
    except (EngineUnavailable, Timeout):
        raise
    except ZfsError as error:
        raise ExportRefusedError(str(error)) from error


class ExportsByHelper(ExportControl):
    """`look` reads the folder of exports and asks the daemon what there is. What changes may raise EngineUnavailable, Timeout."""

    def __init__(self, look: ExportControl, helper: HelperClient) -> None:
        self._look, self._helper = look, helper

    def served(self) -> list[ServedExport]:
        """See ExportControl."""
        return self._look.served()

    def files(self) -> Mapping[int, str]:
        """See ExportControl."""
        return self._look.files()

    def clients(self) -> Clients:
        """See ExportControl."""
        return self._look.clients()

    def add(self, export: Export) -> None:
        """See ExportControl. Raises ValueError for what the helper makes no export of."""
        clients = _clients(export)
        with _refused():
            self._helper.add_export(
                export.dataset, export.guid or 0, export.export_id, export.pseudo,
                clients=clients, squash=export.squash, versions=export.protocols, thick_size=export.thick_size,
            )  # fmt: skip

    def change(self, export: Export) -> None:
        """See ExportControl. Raises ValueError for what the helper makes no export of."""
        clients = _clients(export)
        with _refused():
            self._helper.change_export(
                export.dataset, export.guid or 0, export.export_id, export.pseudo,
                clients=clients, squash=export.squash, versions=export.protocols, thick_size=export.thick_size,
            )  # fmt: skip

    def remove(self, export_id: int) -> None:
        """See ExportControl."""
        with _refused():
            self._helper.remove_export(export_id)

    def forget(self, export_id: int) -> None:
        """See ExportControl."""
        with _refused():
            self._helper.forget_export(export_id)


def _clients(export: Export) -> list[str]:
    """All that it names, which have to have the same rights."""
    if export.access != "None" or any((one.access, one.squash) != ("RW", export.squash) for one in export.clients):
        raise ValueError(f"export {export.export_id} has clients with other rights than a datastore's")
    return [name for rights in export.clients for name in rights.clients.split(", ")]
