# SPDX-License-Identifier: Apache-2.0
"""Methods of the worker's socket, and its periodic tasks."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import msgspec
from sqlalchemy import select

from appliance.database.models import Schedule, Setting
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.domain import capacity, hazards, requests, retention, schedules
from appliance.domain import datastores as domain
from appliance.domain import jobs as job_store
from appliance.domain.addresses import Address
from appliance.domain.errors import ConflictError, DomainError, NotFoundError, UnavailableError
from appliance.domain.journal import note
from appliance.worker import (
    encryption,
    file_operations,
    hold_operations,
    measures,
    pool_operations,
    portals,
    readiness,
    thick,
    vm_operations,
)
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.executor import Executor, request_of
from appliance.worker.history import History
from appliance.worker.inventory_cache import InventoryCache
from appliance.worker.pools import vdevs_of
from appliance.worker.scheduler import EVENT, Scheduler
from appliance.worker.totals import EXPORTS, LUNS, Totals
from appliance.worker.watch import Watch
from appliance.zfs.model import FeatureState, Filesystem, Pool

_log = logging.getLogger(__name__)


class Service:
    """One running worker."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.executor = Executor(context)
        self.now: Callable[[], float] = time.time
        self.watch = Watch(context, lambda: self.scheduler.request(EVENT))
        steps = (
            lambda cause: context.reconciling.reconcile(cause),
            lambda _: self._schedules(),
            lambda _: self._capacity(),
            lambda _: self.watch.pools(),
            lambda _: encryption.update_alerts(context, self._fresh),
            lambda _: self._count(),
            lambda _: self._hazards(),
        )
        self.totals = Totals(context.store)
        self.scheduler = Scheduler(steps, context.configuration.worker.reconcile_seconds)
        context.alerts.request_after = self.scheduler.request_after
        self.cache = InventoryCache(context)
        self.history = History(context)
        self.methods: dict[str, Callable[[dict[str, Any]], Any]] = {
            "ping": lambda _: {},
            "status": self._status,
            "metrics": lambda _: {**measures.collect(context, self._fresh), "totals": self._metrics_totals()},
            "pools": self._pools,
            "disks": lambda _: self.watch.disks(),
            "zfs_event": self.watch.event,
            "importable": self._importable,
            "pool_plan": self._pool_plan,
            "datastores": self._datastores,
            "check_scheduled": self._check_scheduled,
            "snapshot_room": lambda arguments: thick.room(context, arguments["datastores"]),
            "snapshots": self._snapshots,
            "holds": lambda arguments: hold_operations.listed(context, arguments, self._fresh),
            "volumes": self._volumes,
            "filesystems": self._filesystems,
            "space": self._space,
            "snapshot_folder": lambda arguments: vm_operations.listed(context, arguments),
            "files": lambda arguments: file_operations.listed(context, arguments),
            "nfs_clients": self._nfs_clients,
            "nfs_users": self._nfs_users,
            "sessions": self._sessions,
            "unknown_initiators": self._unknown_initiators,
            "offloads": self._offloads,
            "history": self.history.read,
            "load": self.history.load,
            "portals": lambda _: portals.listed(context),
            "portal_create": lambda arguments: portals.create(context, arguments),
            "portal_change": lambda arguments: portals.change(context, arguments),
            "portal_delete": lambda arguments: portals.delete(context, arguments),
            "readiness": lambda arguments: [vars(check) for check in self._readiness(arguments)],
            "submit": self._submit,
            "reconcile": self._reconcile,
            "keys": self._keys,
            "export_key": self._export_key,
            "confirm_key": self._confirm_key,
            "store_key": self._store_key,
            "recovery": lambda _: context.recovery.status(),
            "recover": self._recover,
            "backup": lambda _: context.recovery.backup().model_dump(),
        }

    @property
    def _fresh(self) -> float:
        return self.cache.oldest()

    def _scan(self) -> domain.Inventory:
        return self.context.scan(self._fresh)

    def start(self) -> None:
        self.context.recovery.start()
        self.executor.start()
        self.scheduler.start()
        self.cache.start()
        self.watch.start()
        self.history.start()

    def stop(self) -> None:
        """Stops after the running jobs."""
        self.scheduler.stop()
        self.executor.stop()
        self.scheduler.join()
        self.history.stop()
        self.watch.stop()
        self.cache.stop()
        self.context.recovery.stop()

    # --- answers

    def _submit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        request = request_of(arguments["request"])
        return {"job": self.executor.submit(request, arguments["actor"], key=arguments.get("key"), until=arguments.get("until"))}

    def _status(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        context = self.context
        iscsi: dict[str, Any] = {
            "running": False,
            "version": "",
            "portals": [],
            "luns_serving": 0,
            "luns_failed": 0,
            "sessions": 0,
        }
        try:
            with as_domain_errors():
                target = context.target.status()
            status = {name: getattr(target, name) for name in ("version", "luns_serving", "luns_failed", "sessions")}
            iscsi |= {**status, "running": True, "portals": list(target.portals), "problem": None}
        except DomainError as error:
            iscsi["problem"] = str(error)
        try:
            inventory = self._scan()
            pools = [
                {"name": pool.name, "health": pool.health.value, "size": pool.size, "free": pool.free, "problem": pool.status,
                 **effective_thresholds(inventory, pool, self.context.pool_thresholds)}
                for pool in inventory.pools
            ]  # fmt: skip
            storage_problem = None
        except DomainError as error:
            pools, storage_problem = [], str(error)
        return {
            "target": iscsi,
            "pools": pools,
            "storage_problem": storage_problem,
            "reconciled_at": context.reconciling.at or None,
            "reconcile_problem": context.reconciling.problem,
        }

    def _pools(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        inventory = self._scan()
        before = self.context.pool_thresholds
        return [{**pool_as_wire(pool), **effective_thresholds(inventory, pool, before)} for pool in inventory.pools]

    def _importable(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        with as_domain_errors():
            return [asdict(pool) for pool in self.context.engine.importable()]

    def _pool_plan(self, arguments: dict[str, Any]) -> dict[str, list[str]]:
        request = msgspec.convert(arguments, requests.PlanPool)
        with as_domain_errors():
            layout = pool_operations.dry_run(self.context, request)
        return {"layout": layout, "warnings": pool_operations.warnings(vdevs_of(request.vdevs))}

    def _datastores(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        """All datastores, the one with `id`, or a page: `limit` of a `state` and `kind` with keys after `after`."""
        found: Iterable[domain.Datastore] = self.context.datastores(self._fresh)
        for name in ("id", "state", "kind"):
            if (value := arguments.get(name)) is not None:
                found = [store for store in found if getattr(store, name) == value]
        if arguments.get("after") is not None:
            found = [store for store in found if f"{store.name}\0{store.id}" > arguments["after"]]
        return [vars(store) for store in itertools.islice(found, arguments.get("limit"))]

    def _snapshots(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        stores = self.context.datastores(self._fresh)
        chosen = [domain.find(stores, arguments["datastore"])] if arguments.get("datastore") else stores
        by_dataset = {store.dataset: store for store in chosen}
        return [
            {
                "datastore": by_dataset[snapshot.dataset].id,
                "name": snapshot.tag,
                "full_name": snapshot.name,
                "guid": snapshot.guid,
                "created_at": snapshot.creation,
                "used": snapshot.used,
                "referenced": snapshot.referenced,
                "holds": snapshot.holds,
                "clones": list(snapshot.clones),
                "protected_until": retention.protected_until(snapshot),
            }
            for snapshot in self._scan().snapshots
            if snapshot.dataset in by_dataset
        ]

    def _check_scheduled(self, arguments: dict[str, Any]) -> dict[str, Any]:
        schedules.check_datastores(self.context.datastores(self._fresh), arguments["datastores"])
        if (pool := arguments.get("pool")) is not None and pool not in {one.name for one in self._scan().pools}:
            raise NotFoundError("pool", pool)
        return {}

    def _volumes(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        inventory = self._scan()
        known = {store.dataset: store for store in self.context.datastores(self._fresh)}
        return [
            {"dataset": volume.name, "size": volume.volsize, "block_size": volume.volblocksize, "guid": volume.guid,
             "datastore": known[volume.name].id if volume.name in known else None}
            for volume in inventory.volumes
        ]  # fmt: skip

    def _filesystems(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        inventory = self._scan()
        known = {store.dataset: store for store in self.context.datastores(self._fresh)}
        own = pool_operations.OWN
        return [
            {"dataset": one.name, "used": one.space.used, "quota": one.refquota, "record_size": one.recordsize,
             "mountpoint": one.mountpoint, "guid": one.guid, "datastore": known[one.name].id if one.name in known else None}
            for one in inventory.filesystems
            if "/" in one.name and one.name.split("/", 1)[1] not in own
        ]  # fmt: skip

    def _space(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Space of a datastore: for VMFS the target's count, limited by the volume's figures; for NFS the NFS server's count."""
        store = domain.find(self.context.datastores(self._fresh), arguments["id"], "active")
        space = {"thick": store.thick, "size": store.size}
        if store.kind == domain.NFS:
            return space | file_operations.admitted(self.context, store)
        with as_domain_errors():
            found = self.context.target.lun_space(store.uuid or "")
        if found is None:
            return space | {"allocated": store.referenced, "unique": store.referenced}
        return space | {name.removesuffix("_bytes"): value for name, value in asdict(found).items()}

    def _nfs_clients(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        """NFS clients, with the datastores that they may be using."""
        known, users = self.context.nfs_users()
        used: dict[str, list[str]] = {}
        for store in sorted(users):
            for user in users[store]:
                used.setdefault(user.address, []).append(store)
        return [
            {"address": one.address, "seen_at": one.seen_at, "opens": one.opens, "datastores": used.get(one.address, [])}
            for one in sorted(known, key=lambda one: one.address)
        ]

    def _nfs_users(self, _arguments: dict[str, Any]) -> list[str]:
        """Addresses of users of NFS datastores; while the NFS server knows no client also networks."""
        return sorted({user.address for users in self.context.nfs_users()[1].values() for user in users})

    def _sessions(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        with as_domain_errors():
            return [asdict(session) for session in self.context.target.sessions(self.context.configuration.target.name)]

    def _unknown_initiators(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        with as_domain_errors():
            return [asdict(one) for one in self.context.target.unknown_initiators()]

    def _offloads(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        with as_domain_errors():
            counters = self.context.target.statistics(self.context.configuration.target.name)
        nfs = self._nfs_offloads()
        totals = self.totals.take(LUNS, counters["luns"])
        if nfs["nfs_problem"] is None:
            totals = self.totals.take(EXPORTS, nfs["exports"])
        return {**counters, **nfs, "totals": totals}

    def _count(self) -> None:
        """Stores the offload counters, because LUNs and exports may disappear."""
        with contextlib.suppress(DomainError):
            self._offloads({})

    def _metrics_totals(self) -> dict[str, Any]:
        with contextlib.suppress(DomainError):
            return dict(self._offloads({})["totals"])
        return {}

    def _nfs_offloads(self) -> dict[str, Any]:
        """Counters of the NFS server, if there are NFS datastores; by datastore, if the export is one."""
        exported = [store for store in self.context.datastores(self._fresh) if store.export is not None]
        nothing: dict[str, Any] = {"exports": [], "nfs_hosts": [], "nfs_problem": None}
        if not exported:
            return nothing
        by_path = {path: store.id for store in exported for path in (store.path, store.share)}
        try:
            counted = self.context.files.counters()
        except GaneshaUnreachableError as error:
            return {**nothing, "nfs_problem": str(error)}
        exports = [{**row, "datastore": by_path.get(str(row.get("export")))} for row in counted.get("exports", ())]
        return {"exports": exports, "nfs_hosts": counted.get("hosts", []), "nfs_problem": None}

    def _readiness(self, arguments: dict[str, Any]) -> list[readiness.Check]:
        context = self.context
        own = [Address(**one) for one in arguments.get("addresses", ())]
        facts = readiness.Facts(target_name=context.configuration.target.name, own=own)
        try:
            inventory = self._scan()
            facts.pools, facts.thresholds = list(inventory.pools), capacity.thresholds(inventory, context.pool_thresholds)
            facts.datasets = {one.name: one for one in (*inventory.volumes, *inventory.filesystems)}
            facts.stores = context.datastores(self._fresh)
            facts.keys = self._keys({})
        except DomainError as error:
            facts.storage_problem = str(error)
        try:
            with as_domain_errors():
                facts.targets = context.target.targets()
                facts.status = context.target.status()
                facts.sessions = context.target.sessions(context.configuration.target.name)
        except DomainError as error:
            facts.target_problem = str(error)
        if any(store.kind == domain.NFS for store in facts.stores):
            try:
                facts.nfs.exports = context.nfs.served()
                facts.nfs.counters_problem = self._nfs_offloads()["nfs_problem"]
                facts.nfs.thick = {
                    store.id: file_operations.admitted(context, store) for store in facts.stores if store.thick and store.export
                }
            except GaneshaUnreachableError as error:
                facts.nfs.problem = str(error)
        with context.store.reading() as session:
            return readiness.checks(facts, session, context.seal)

    def _reconcile(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not arguments.get("wait"):
            self.scheduler.request()
            return {}
        outcome = self.context.reconciling.reconcile(str(arguments.get("cause", "request")))
        return {"differences": list(outcome.differences), "failures": [asdict(failure) for failure in outcome.failures]}

    def _root(self, pool: str) -> Filesystem:
        return encryption.root(self.context, self._fresh, pool)

    def _keys(self, _arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return encryption.listed(self.context, self._fresh)

    def _export_key(self, arguments: dict[str, Any]) -> str:
        root = self._root(arguments["pool"])
        with as_domain_errors():
            return self.context.keys.export_key(root.name)

    def _confirm_key(self, arguments: dict[str, Any]) -> dict[str, Any]:
        root = self._root(arguments["pool"])
        with as_domain_errors():
            self.context.keys.confirm_key(root.name, bytes.fromhex(arguments["secret"]))
        return {}

    def _store_key(self, arguments: dict[str, Any]) -> dict[str, Any]:
        root = self._root(arguments["pool"])
        with as_domain_errors():
            self.context.keys.store_key(root.name, bytes.fromhex(arguments["secret"]))
        self.scheduler.request()
        return {}

    def _recover(self, arguments: dict[str, Any]) -> dict[str, Any]:
        recovery, changes = self.context.recovery, []
        if arguments["keep"]:
            recovery.keep()
        else:
            source = (arguments["pool"], arguments["file"], arguments["recovery_key"], arguments["caller"])
            changes = recovery.take(*source, dry_run=arguments["dry_run"], force=arguments["force"])
        self.scheduler.request()
        return {**recovery.status(), "changes": changes}

    # --- periodic tasks

    def _capacity(self) -> None:
        self._scan()
        pool_operations.update_capacity_alerts(self.context)

    def _hazards(self) -> None:
        stores = self.context.datastores(self._fresh)
        certificate = hazards.read_certificate(self.context.configuration.http.certificate)
        self.context.alerts.update(hazards.SYNC, hazards.of_datastores(stores))
        self.context.alerts.update(hazards.CERTIFICATE, hazards.of_certificate(certificate, self.now()))
        with self.context.store.session() as session:
            known = session.get(Setting, hazards.CERTIFICATE)
            if certificate is not None and (known is None or known.value["fingerprint"] != certificate.fingerprint):
                session.merge(Setting(name=hazards.CERTIFICATE, value={"fingerprint": certificate.fingerprint}))
                if known is not None:
                    note(session, hazards.renewed(certificate))

    def _schedules(self) -> None:
        if not self.context.recovery.allows_jobs:
            return
        with self.context.store.reading() as session:
            due = [schedule for schedule in session.scalars(select(Schedule)) if schedules.due(schedule, self.now())]
        for schedule in due:
            slot = schedules.slot(schedule, self.now())
            there = {store.id for store in self.context.datastores(self._fresh) if store.state == "active"}
            missing = sorted(set(schedule.datastores) - there)
            problem: str | None = None
            try:  # after a crash before the slot is stored, the same job is found
                self._submit_due(schedule, sorted(set(schedule.datastores) & there), f"schedule {schedule.id} {slot}")
            except UnavailableError:
                raise
            except ConflictError as error:  # retried in the next run, until the slot ends
                _log.info("schedule %s: %s", schedule.name, error)
                problem, slot = str(error), schedule.attempted_at or 0.0
            except DomainError as error:
                problem = str(error)
            with self.context.store.session() as session:
                schedules.attempted(session, schedule.id, slot, missing)
                if problem is not None:
                    schedules.ended(session, schedule.id, problem)
        self._overdue()
        self._retention()

    def _submit_due(self, schedule: Schedule, there: list[str], key: str) -> None:
        actor = f"schedule {schedule.name}"
        if schedule.kind == schedules.SCRUB:
            scrub = requests.ScrubPool(pool=str(schedule.pool), action="start", schedule=schedule.id)
            self.executor.submit(scrub, actor, key=key)
        elif there:
            name, days = schedules.snapshot_name(schedule, self.now()), schedule.protect_days
            take = requests.CreateSnapshots(name=name, datastores=there, schedule=schedule.id, protect_days=days)
            self.executor.submit(take, actor, key=key)

    def _overdue(self) -> None:
        """Updates alerts of schedules whose latest snapshots are too old."""
        inventory = self._scan()
        with self.context.store.reading() as session:
            names = {one.dataset: one.id for one in domain.datastores(inventory, session) if one.state == "active"}
            found = schedules.overdue(session.scalars(select(Schedule)), inventory.snapshots, names, self.now())
        self.context.alerts.update(schedules.OVERDUE, found)

    def _retention(self) -> None:
        with self.context.store.reading() as session:
            rules = {schedule.id: schedules.retention(schedule) for schedule in session.scalars(select(Schedule))}
            stores = {store.dataset: store for store in domain.datastores(self._scan(), session)}
            busy = {job.subject for job in job_store.active(session)}
        snapshots = self._scan().snapshots
        surplus, expired = retention.surplus(snapshots, rules), retention.expired(snapshots, self.now())
        pools: dict[str, set[str]] = {}
        idle: dict[str, list[str]] = {"surplus": [], "expired": []}
        for what, chosen in (("surplus", surplus), ("expired", expired)):
            for snapshot in chosen:
                store = stores.get(snapshot.dataset)
                if store is not None and store.state == "active" and store.id not in busy:
                    pools.setdefault(store.pool, set()).add(store.id)
                    idle[what].append(snapshot.name)
        for pool, about in pools.items():
            names, over = ([one for one in idle[what] if one.startswith(f"{pool}/")] for what in ("surplus", "expired"))
            try:
                retire = requests.RetireSnapshots(pool=pool, names=names, about=sorted(about), expired=over)
                self.executor.submit(retire, "retention")
            except DomainError as error:
                _log.info("retention leaves %s for now: %s", pool, error)

    def call(self, method: str, arguments: dict[str, Any]) -> Any:
        """One call of the socket. Raises DomainError."""
        if method not in self.methods:
            raise NotFoundError("method", method)
        return self.methods[method](arguments)


def effective_thresholds(inventory: domain.Inventory, pool: Pool, before: Mapping[int, capacity.Thresholds]) -> dict[str, int]:
    """Of a pool, as they go over the socket; `before` as for capacity.thresholds."""
    thresholds = capacity.thresholds(inventory, before).get(pool.name, capacity.Thresholds())
    return {"warning_percent": thresholds.warning, "critical_percent": thresholds.critical}


def pool_as_wire(pool: Pool) -> dict[str, Any]:
    """A pool as it goes over the socket."""
    wire = asdict(pool)
    wire["features"] = {}
    wire["upgradable"] = FeatureState.DISABLED in pool.features.values()
    if pool.scan is not None:
        wire["scan"]["progress"] = pool.scan.progress
    return wire
