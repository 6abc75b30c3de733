# SPDX-License-Identifier: Apache-2.0
"""Serving of NFS datastores: mounts, exports, and users."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from appliance.dataplane import reconcile_exports
from appliance.dataplane.ganesha import Clients, Export, ExportControl, GaneshaUnreachableError, ServedExport
from appliance.dataplane.reconcile import Failure, Outcome
from appliance.dataplane.reconcile_exports import DesiredExports
from appliance.domain import capacity, exports
from appliance.domain import datastores as domain
from appliance.domain.datastores import Datastore
from appliance.worker import copies
from appliance.zfs import errors as zfs
from appliance.zfs.engine import ZfsEngine

MOUNTS = "/srv/zvaai"
"""The root helper's limit (appliance.helper.checks)."""


@dataclass(frozen=True, order=True)
class User:
    text: str
    """"HOST (ADDRESS)", the address of an unknown host, or a network."""
    address: str


def using(served: ServedExport, clients: Clients, names: Mapping[str, str], allowed: Sequence[str]) -> list[User]:
    """Clients that use an export. `names` are addresses of hosts with access, `allowed` other addresses and networks.

    ganesha reports the last use of each client and of each export, but not which client used which export. So a client counts for
    all exports that it may use and that were used recently, or while it has NFSv4 files open. The result may have too many
    clients, but never too few, except for a silent NFSv3 client, which ESXi never is. A daemon that just started knows no client:
    then all clients with access count.
    """
    now = clients.now
    if now - clients.started_at < exports.IDLE_SECONDS:
        return sorted(
            [
                *(User(f"{name} ({address})", address) for address, name in names.items()),
                *(User(client, client) for client in allowed),
            ]
        )
    lately = served.used_at is not None and now - served.used_at < exports.IDLE_SECONDS
    users = set()
    for client in clients.known:
        if now - client.seen_at < exports.IDLE_SECONDS and (lately or client.opens):
            if client.address in names:
                users.add(User(f"{names[client.address]} ({client.address})", client.address))
            elif exports.is_within(client.address, allowed):
                users.add(User(client.address, client.address))
    return sorted(users)


def export_of(store: Datastore, addresses: Mapping[str, Sequence[str]]) -> Export:
    """Desired export of a datastore; `addresses` by host group."""
    hosts = {address for group_id in store.host_groups for address in addresses.get(group_id, ())}
    return Export(
        store.export or 0, Path(store.path), store.share or "", clients=sorted({*hosts, *store.clients}),
        dataset=store.dataset, guid=store.guid, thick_size=store.size if store.thick else None,
    )  # fmt: skip


@dataclass
class Serving:
    """A run of the reconciler for NFS datastores."""

    engine: ZfsEngine
    control: ExportControl
    mounts: str
    out: set[str]
    """Datastores that a job has taken out of service."""
    addresses: Mapping[str, Sequence[str]]
    topmost: Callable[[str], str | None] | None
    """Visible mount at a path: appliance.zfs.mountinfo. None for a simulator, which has folders."""
    numbers: Mapping[str, int]
    """Export number of each datastore that was ever presented to hosts and not forgotten."""
    certain_copies: frozenset[str] = frozenset()
    """Datasets that are certain to be copies (copies.certain)."""
    changing: Collection[str] = ()
    """Subjects of running jobs: the inventory can contain an intermediate state, so it is not certain yet that only copies exist.
    """
    pools: Collection[str] | None = None
    """Pools in which file systems may be mounted; None: all."""
    copy_remedy: str = capacity.COPY_REMEDY

    def reconcile(self, stores: Sequence[Datastore]) -> tuple[Outcome, set[str]]:
        """Outcome, and the served datastores. Raises GaneshaUnreachableError, if there are NFS datastores."""
        desired, unmounted = self._desired(stores)
        try:
            outcome = reconcile_exports.reconcile(self.control, desired)
            served = {export.export_id: export for export in self.control.served() if export.served}
        except GaneshaUnreachableError:
            if desired.exports or desired.retained or unmounted:
                raise
            return Outcome((), ()), set()  # without NFS datastores no NFS server is needed
        serving = {
            desired.subjects[number]
            for number, export in desired.exports.items()
            if number in served and served[number].pseudo == export.pseudo
        }
        replaced = copies.failures(stores, domain.NFS, self.numbers.keys() - set(self.changing), {}, self.copy_remedy)
        return Outcome(outcome.differences, (*outcome.failures, *unmounted, *replaced)), serving

    def _desired(self, stores: Sequence[Datastore]) -> tuple[DesiredExports, list[Failure]]:
        desired: dict[int, Export] = {}
        subjects: dict[int, str] = {}
        # If a pool cannot be read, or two datasets have one identity, the exports do not change: hosts need no stale handles.
        seen = {store.uuid for store in stores if store.state != "missing"}
        retained = {number for uuid, number in self.numbers.items() if uuid not in seen and uuid not in self.out}
        failures: list[Failure] = []
        for store in stores:
            if store.kind != domain.NFS or store.state != "active" or store.uuid is None or store.export is None:
                continue
            subjects[store.export] = store.uuid
            if store.uuid in self.out:
                continue
            problem = self._mounted(store)
            if problem is None:
                export = export_of(store, self.addresses)
                try:
                    export.block()
                    desired[store.export] = export
                except ValueError as error:
                    problem = f"datastore {store.name} can't be exported: {error}"
            if problem is not None:
                retained.add(store.export)
                failures.append(Failure(store.uuid, problem))
        return DesiredExports(desired, self.mounts, subjects, frozenset(retained), self._places_of_copies(stores)), failures

    def _places_of_copies(self, stores: Sequence[Datastore]) -> frozenset[str]:
        theirs = {
            store.path
            for store in stores
            if store.dataset in self.certain_copies and store.mounted and covered(self.topmost, store.path, store.dataset) is None
        }
        return frozenset(theirs - {store.path for store in stores if store.state == "active" and store.mounted})

    def _mounted(self, store: Datastore) -> str | None:
        """Why it cannot be exported: without the mount the empty folder would be exported."""
        if not store.path.startswith(f"{self.mounts}/"):
            return f"{store.dataset} is mounted at {store.path or 'no place'}, and has to be below {self.mounts}"
        problem = covered(self.topmost, store.path, store.dataset) if store.mounted else ""
        if problem is None:
            return None
        if self.pools is not None and store.pool not in self.pools:
            return problem or f"{store.dataset} is not mounted"
        try:
            self.engine.mount(store.dataset)  # by the helper, which unmounts copies that are mounted over it
        except (zfs.EngineUnavailable, zfs.Timeout):
            raise
        except zfs.ZfsError as error:
            return f"{problem} ({error})" if problem else f"{store.dataset} can't be mounted, and so is not exported: {error}"
        return covered(self.topmost, store.path, store.dataset)


def covered(topmost: Callable[[str], str | None] | None, path: str, dataset: str) -> str | None:
    """Why the dataset is hidden at its mountpoint, if it is: a received copy has the same mountpoint."""
    visible = topmost(path) if topmost else dataset
    if visible is None:
        return f"{dataset} is not mounted at {path}. Run: zvaai reconcile"
    return None if visible == dataset else f"{visible} hides {dataset} at {path}. Run: zfs unmount {quote(visible)}"
