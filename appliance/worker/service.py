# SPDX-License-Identifier: Apache-2.0
"""A running worker: its parts, and the data for views of the API."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.target import LunSpace, Status, TargetUnreachableError
from appliance.domain import capacity, schedules
from appliance.domain import datastores as domain
from appliance.domain.addresses import Address
from appliance.domain.capacity import Thresholds
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.errors import DomainError, NotFoundError
from appliance.domain.fields import Time
from appliance.domain.readiness import Check
from appliance.worker import encryption, file_operations, pool_operations, readiness
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.executor import Executor
from appliance.worker.file_operations import Admitted
from appliance.worker.history import History
from appliance.worker.inventory_cache import InventoryCache
from appliance.worker.offloads import Offloads
from appliance.worker.periodic import Periodic
from appliance.worker.scheduler import EVENT, Scheduler
from appliance.worker.watch import Watch
from appliance.zfs.model import Filesystem, Pool, Snapshot


@dataclass(frozen=True)
class ClientResponse:
    """A client of the NFS server. `datastores` is an estimate: those that it may use, and that were used recently."""

    address: str
    seen_at: Time
    opens: int
    datastores: list[str]


class Service:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.executor = Executor(context)
        self.cache = InventoryCache(context)
        self.history = History(context)
        self.offloads = Offloads(context)
        self.periodic = Periodic(context, self.executor, self.cache.oldest)
        self.watch = Watch(context, lambda: self.scheduler.request(EVENT))
        steps = (
            lambda cause: context.reconciling.reconcile(cause),
            lambda _: self.periodic.schedules(),
            lambda _: self.periodic.capacity(),
            lambda _: self.watch.pools(),
            lambda _: encryption.update_alerts(context, self.fresh),
            lambda _: self._count(),
            lambda _: self.periodic.hosts(),
            lambda _: self.periodic.hazards(),
        )
        self.scheduler = Scheduler(steps, context.configuration.worker.reconcile_seconds)
        context.alerts.request_after = self.scheduler.request_after

    def start(self) -> None:
        self.context.recovery.start()
        self.executor.start()
        self.scheduler.start()
        self.cache.start()
        self.watch.start()
        self.history.start()

    def stop(self) -> None:
        self.scheduler.stop()
        self.executor.stop()
        self.scheduler.join()
        self.history.stop()
        self.watch.stop()
        self.cache.stop()
        self.context.recovery.stop()

    def _count(self) -> None:
        """Stores the offload counters, because LUNs and exports may disappear."""
        with contextlib.suppress(DomainError):
            self.offloads.read(self.fresh)

    # --- storage, from an inventory that is new enough for a request. Each raises DomainError.

    @property
    def fresh(self) -> float:
        """Maximum age of the inventory for a request, in seconds."""
        return self.cache.oldest()

    def inventory(self) -> Inventory:
        return self.context.scan(self.fresh)

    def datastores(self) -> list[Datastore]:
        return self.context.datastores(self.fresh)

    def pools(self) -> list[tuple[Pool, Thresholds, Filesystem | None]]:
        """Pools with their thresholds and their root dataset: None if that cannot be read."""
        inventory = self.inventory()
        limits = capacity.thresholds(inventory, self.context.pool_thresholds)
        roots = capacity.roots_of(inventory)
        return [(pool, limits.get(pool.name, Thresholds()), roots.get(pool.name)) for pool in inventory.pools]

    def snapshots(self, datastore: str) -> list[Snapshot]:
        dataset = domain.find(self.datastores(), datastore).dataset
        return [snapshot for snapshot in self.inventory().snapshots if snapshot.dataset == dataset]

    def filesystems(self) -> list[Filesystem]:
        """File systems but those of the appliance itself."""
        filesystems = [filesystem for filesystem in self.inventory().filesystems if "/" in filesystem.name]
        return [filesystem for filesystem in filesystems if not pool_operations.is_of_appliance(filesystem.name)]

    def check_scheduled(self, datastores: Sequence[str], pool: str | None = None) -> None:
        schedules.check_datastores(self.datastores(), datastores)
        if pool is not None and pool not in {pool.name for pool in self.inventory().pools}:
            raise NotFoundError("pool", pool)

    def space(self, datastore: str) -> tuple[Datastore, LunSpace | Admitted | None, str]:
        """Space of a datastore: for VMFS the target's count, None if it cannot count; for NFS the NFS server's.

        And why the target does not count.
        """
        store = domain.find(self.datastores(), datastore, "active")
        if store.kind == domain.NFS:
            return store, file_operations.admitted(self.context, store), ""
        try:
            return store, self.context.target.lun_space(store.uuid or ""), ""
        except TargetUnreachableError as error:
            return store, None, str(error)

    # --- data planes

    def target(self) -> Status:
        with as_domain_errors():
            return self.context.target.status()

    def nfs_clients(self) -> list[ClientResponse]:
        clients, users = self.context.nfs_users()
        used: dict[str, list[str]] = {}
        for store in sorted(users):
            for user in users[store]:
                used.setdefault(user.address, []).append(store)
        return [
            ClientResponse(client.address, client.seen_at, client.opens, used.get(client.address, []))
            for client in sorted(clients.known, key=lambda client: client.address)
        ]

    def readiness(self, local: list[Address]) -> list[Check]:
        context = self.context
        facts = readiness.Facts(target_name=context.target_name, local=local)
        if not context.on_files:
            readiness.of_modules(facts)
        try:
            inventory = self.inventory()
            facts.pools, facts.thresholds = list(inventory.pools), capacity.thresholds(inventory, context.pool_thresholds)
            facts.datasets = {dataset.name: dataset for dataset in (*inventory.volumes, *inventory.filesystems)}
            facts.stores = self.datastores()
            facts.keys = encryption.listed(context, self.fresh)
        except DomainError as error:
            facts.storage_problem = str(error)
        try:
            with as_domain_errors():
                facts.targets = context.target.targets()
                facts.status = context.target.status()
                facts.portals = context.target.portals()
                facts.sessions = context.sessions()
        except DomainError as error:
            facts.target_problem = str(error)
        if any(store.kind == domain.NFS for store in facts.stores):
            try:
                facts.nfs.exports = context.nfs.served()
                facts.nfs.counters_problem = self.offloads.nfs(self.fresh).nfs_problem
                facts.nfs.thick = {
                    store.id: file_operations.admitted(context, store) for store in facts.stores if store.thick and store.export
                }
            except GaneshaUnreachableError as error:
                facts.nfs.problem = str(error)
        with context.store.reading() as session:
            return readiness.checks(facts, session, context.seal)
