# SPDX-License-Identifier: Apache-2.0
"""What the worker answers on its socket, and what it does by the clock."""

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
from appliance.worker.picture import Picture
from appliance.worker.pools import vdevs_of
from appliance.worker.rounds import EVENT, Rounds
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
        self.watch = Watch(context, lambda: self.rounds.ask(EVENT))
        steps = (
            lambda cause: context.reconciling.reconcile(cause),
            lambda _: self._schedules(),
            lambda _: self._capacity(),
            lambda _: self.watch.pools(),
            lambda _: encryption.settle_alerts(context, self._fresh),
            lambda _: self._count(),
            lambda _: self._hazards(),
        )
        self.totals = Totals(context.store)
        self.rounds = Rounds(steps, context.configuration.worker.reconcile_seconds)
        context.alerts.ask_again = self.rounds.ask_again
        self.picture = Picture(context)
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
            "snapshot_room": lambda asked: thick.room(context, asked["datastores"]),
            "snapshots": self._snapshots,
            "holds": lambda asked: hold_operations.listed(context, asked, self._fresh),
            "volumes": self._volumes,
            "filesystems": self._filesystems,
            "space": self._space,
            "snapshot_folder": lambda asked: vm_operations.listed(context, asked),
            "files": lambda asked: file_operations.listed(context, asked),
            "nfs_clients": self._nfs_clients,
            "nfs_users": self._nfs_users,
            "sessions": self._sessions,
            "offloads": self._offloads,
            "portals": lambda _: portals.listed(context),
            "portal_create": lambda asked: portals.create(context, asked),
            "portal_change": lambda asked: portals.change(context, asked),
            "portal_delete": lambda asked: portals.delete(context, asked),
            "readiness": lambda asked: [vars(check) for check in self._readiness(asked)],
            "submit": self._submit,
            "reconcile": self._reconcile,
            "keys": self._keys,
            "export_key": self._export_key,
            "confirm_key": self._confirm_key,
            "keep_key": self._keep_key,
            "recovery": lambda _: context.recovery.status(),
            "recover": self._recover,
            "backup": lambda _: context.recovery.backup().model_dump(),
        }

    @property
    def _fresh(self) -> float:
        return self.picture.oldest()

    def _look(self) -> domain.Inventory:
        return self.context.look(self._fresh)

    def start(self) -> None:
        """Jobs that were under way go on; all is reconciled."""
        self.context.recovery.start()
        self.executor.start()
        self.rounds.start()
        self.picture.start()
        self.watch.start()

    def stop(self) -> None:
        """After the job under way."""
        self.rounds.stop()
        self.executor.stop()
        self.rounds.join()
        self.watch.stop()
        self.picture.stop()
        self.context.recovery.stop()

    # --- answers

    def _submit(self, asked: dict[str, Any]) -> dict[str, Any]:
        request = request_of(asked["request"])
        return {"job": self.executor.submit(request, asked["actor"], key=asked.get("key"), until=asked.get("until"))}

    def _status(self, _asked: dict[str, Any]) -> dict[str, Any]:
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
            told = {name: getattr(target, name) for name in ("version", "luns_serving", "luns_failed", "sessions")}
            iscsi |= {**told, "running": True, "portals": list(target.portals), "problem": None}
        except DomainError as error:
            iscsi["problem"] = str(error)
        try:
            inventory = self._look()
            pools = [
                {"name": pool.name, "health": pool.health.value, "size": pool.size, "free": pool.free, "problem": pool.status,
                 **told_thresholds(inventory, pool, self.context.pool_thresholds)}
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

    def _pools(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        inventory = self._look()
        before = self.context.pool_thresholds
        return [{**pool_as_wire(pool), **told_thresholds(inventory, pool, before)} for pool in inventory.pools]

    def _importable(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        with as_domain_errors():
            return [asdict(pool) for pool in self.context.engine.importable()]

    def _pool_plan(self, asked: dict[str, Any]) -> dict[str, list[str]]:
        request = msgspec.convert(asked, requests.PlanPool)
        with as_domain_errors():
            layout = pool_operations.dry_run(self.context, request)
        return {"layout": layout, "warnings": pool_operations.warnings(vdevs_of(request.vdevs))}

    def _datastores(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """All, or the one with this `id`, or so many of a `state` and `kind` `after` the key of a page's last."""
        found: Iterable[domain.Datastore] = self.context.datastores(self._fresh)
        for name in ("id", "state", "kind"):
            if (wanted := asked.get(name)) is not None:
                found = [store for store in found if getattr(store, name) == wanted]
        if asked.get("after") is not None:
            found = [store for store in found if f"{store.name}\0{store.id}" > asked["after"]]
        return [vars(store) for store in itertools.islice(found, asked.get("limit"))]

    def _snapshots(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        stores = self.context.datastores(self._fresh)
        chosen = [domain.find(stores, asked["datastore"])] if asked.get("datastore") else stores
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
            for snapshot in self._look().snapshots
            if snapshot.dataset in by_dataset
        ]

    def _check_scheduled(self, asked: dict[str, Any]) -> dict[str, Any]:
        schedules.check_datastores(self.context.datastores(self._fresh), asked["datastores"])
        if (pool := asked.get("pool")) is not None and pool not in {one.name for one in self._look().pools}:
            raise NotFoundError("pool", pool)
        return {}

    def _volumes(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        inventory = self._look()
        known = {store.dataset: store for store in self.context.datastores(self._fresh)}
        return [
            {"dataset": volume.name, "size": volume.volsize, "block_size": volume.volblocksize, "guid": volume.guid,
             "datastore": known[volume.name].id if volume.name in known else None}
            for volume in inventory.volumes
        ]  # fmt: skip

    def _filesystems(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        inventory = self._look()
        known = {store.dataset: store for store in self.context.datastores(self._fresh)}
        own = pool_operations.OWN
        return [
            {"dataset": one.name, "used": one.space.used, "quota": one.refquota, "record_size": one.recordsize,
             "mountpoint": one.mountpoint, "guid": one.guid, "datastore": known[one.name].id if one.name in known else None}
            for one in inventory.filesystems
            if "/" in one.name and one.name.split("/", 1)[1] not in own
        ]  # fmt: skip

    def _space(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Of VMFS on disk, as the target counts it, which the volume's own figure bounds; of NFS as the NFS server has it."""
        store = domain.find(self.context.datastores(self._fresh), asked["id"], "active")
        told = {"thick": store.thick, "size": store.size}
        if store.kind == domain.NFS:
            return told | file_operations.admitted(self.context, store)
        with as_domain_errors():
            found = self.context.target.lun_space(store.uuid or "")
        if found is None:
            return told | {"allocated": store.referenced, "unique": store.referenced}
        return told | {name.removesuffix("_bytes"): value for name, value in asdict(found).items()}

    def _nfs_clients(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Who mounts NFS datastores, and which it may be using."""
        known, users = self.context.nfs_users()
        used: dict[str, list[str]] = {}
        for store in sorted(users):
            for user in users[store]:
                used.setdefault(user.address, []).append(store)
        return [
            {"address": one.address, "seen_at": one.seen_at, "opens": one.opens, "datastores": used.get(one.address, [])}
            for one in sorted(known, key=lambda one: one.address)
        ]

    def _nfs_users(self, _asked: dict[str, Any]) -> list[str]:
        """Addresses of who uses NFS datastores, and networks, while the NFS server knows nobody yet."""
        return sorted({user.address for users in self.context.nfs_users()[1].values() for user in users})

    def _sessions(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        with as_domain_errors():
            return [asdict(session) for session in self.context.target.sessions(self.context.configuration.target.name)]

    def _offloads(self, _asked: dict[str, Any]) -> dict[str, Any]:
        with as_domain_errors():
            told = self.context.target.statistics(self.context.configuration.target.name)
        nfs = self._nfs_offloads()
        totals = self.totals.take(LUNS, told["luns"])
        if nfs["nfs_problem"] is None:
            totals = self.totals.take(EXPORTS, nfs["exports"])
        return {**told, **nfs, "totals": totals}

    def _count(self) -> None:
        """What was offloaded of LUNs and exports that may be gone by the next time somebody requests it."""
        with contextlib.suppress(DomainError):
            self._offloads({})

    def _metrics_totals(self) -> dict[str, Any]:
        with contextlib.suppress(DomainError):
            return dict(self._offloads({})["totals"])
        return {}

    def _nfs_offloads(self) -> dict[str, Any]:
        """Of the NFS server, while there are NFS datastores; each export's by its datastore, if it is one."""
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

    def _readiness(self, asked: dict[str, Any]) -> list[readiness.Check]:
        context = self.context
        own = [Address(**one) for one in asked.get("addresses", ())]
        facts = readiness.Facts(target_name=context.configuration.target.name, own=own)
        try:
            inventory = self._look()
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

    def _reconcile(self, asked: dict[str, Any]) -> dict[str, Any]:
        if not asked.get("wait"):
            self.rounds.ask()
            return {}
        outcome = self.context.reconciling.reconcile(str(asked.get("cause", "request")))
        return {"differences": list(outcome.differences), "failures": [asdict(failure) for failure in outcome.failures]}

    def _root(self, pool: str) -> Filesystem:
        return encryption.root(self.context, self._fresh, pool)

    def _keys(self, _asked: dict[str, Any]) -> list[dict[str, Any]]:
        return encryption.listed(self.context, self._fresh)

    def _export_key(self, asked: dict[str, Any]) -> str:
        root = self._root(asked["pool"])
        with as_domain_errors():
            return self.context.keys.export_kept_key(root.name)

    def _confirm_key(self, asked: dict[str, Any]) -> dict[str, Any]:
        root = self._root(asked["pool"])
        with as_domain_errors():
            self.context.keys.confirm_kept_key(root.name, bytes.fromhex(asked["secret"]))
        return {}

    def _keep_key(self, asked: dict[str, Any]) -> dict[str, Any]:
        root = self._root(asked["pool"])
        with as_domain_errors():
            self.context.keys.keep_key(root.name, bytes.fromhex(asked["secret"]))
        self.rounds.ask()
        return {}

    def _recover(self, asked: dict[str, Any]) -> dict[str, Any]:
        recovery, changes = self.context.recovery, []
        if asked["keep"]:
            recovery.keep()
        else:
            source = (asked["pool"], asked["file"], asked["recovery_key"], asked["caller"])
            changes = recovery.take(*source, dry_run=asked["dry_run"], force=asked["force"])
        self.rounds.ask()
        return {**recovery.status(), "changes": changes}

    # --- by the clock

    def _capacity(self) -> None:
        self._look()
        pool_operations.tell_capacity(self.context)

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
            try:  # who dies before the slot is noted finds the same job
                self._submit_due(schedule, sorted(set(schedule.datastores) & there), f"schedule {schedule.id} {slot}")
            except UnavailableError:
                raise
            except ConflictError as error:  # tried again in the next round, while the slot lasts
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
        """An alert for each schedule whose snapshots are too old, by the snapshots that are there."""
        inventory = self._look()
        with self.context.store.reading() as session:
            names = {one.dataset: one.id for one in domain.datastores(inventory, session) if one.state == "active"}
            found = schedules.overdue(session.scalars(select(Schedule)), inventory.snapshots, names, self.now())
        self.context.alerts.update(schedules.OVERDUE, found)

    def _retention(self) -> None:
        with self.context.store.reading() as session:
            rules = {schedule.id: schedules.retention(schedule) for schedule in session.scalars(select(Schedule))}
            stores = {store.dataset: store for store in domain.datastores(self._look(), session)}
            busy = {job.subject for job in job_store.active(session)}
        snapshots = self._look().snapshots
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

    def call(self, method: str, asked: dict[str, Any]) -> Any:
        """One call of the socket. Raises DomainError."""
        if method not in self.methods:
            raise NotFoundError("method", method)
        return self.methods[method](asked)


def told_thresholds(inventory: domain.Inventory, pool: Pool, before: Mapping[int, capacity.Thresholds]) -> dict[str, int]:
    """Of a pool, as they go over the socket; `before` as for capacity.thresholds."""
    told = capacity.thresholds(inventory, before).get(pool.name, capacity.Thresholds())
    return {"warning_percent": told.warning, "critical_percent": told.critical}


def pool_as_wire(pool: Pool) -> dict[str, Any]:
    """A pool as it goes over the socket."""
    told = asdict(pool)
    told["features"] = {}
    told["upgradable"] = FeatureState.DISABLED in pool.features.values()
    if pool.scan is not None:
        told["scan"]["progress"] = pool.scan.progress
    return told
