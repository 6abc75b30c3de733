# SPDX-License-Identifier: Apache-2.0
"""Jobs on pools. The engine checks the operation; this module checks for hosts that use the pool."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from msgspec import UNSET, UnsetType

from appliance.domain import capacity, jobs, pool_health, requests, retention
from appliance.domain import datastores as domain
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.domain.journal import Finding, note, open_alerts
from appliance.domain.pool_health import unlisted
from appliance.worker import reservations
from appliance.worker.context import Context
from appliance.worker.desired_state import becoming_thick
from appliance.worker.pools import ActionPlan, PoolChange, PoolPlan, PoolResult, find_pool, has_device, of_pool
from appliance.worker.snapshot_operations import held
from appliance.worker.steps import Advance, Operation, by_kind, out_of_service, problems_serving
from appliance.zfs import configuration_copies
from appliance.zfs import errors as zfs
from appliance.zfs.model import Disk, Health, ImportablePool, Redundancy, Role, ScanState, VdevSpec
from appliance.zfs.names import pool_of

_APPLIANCE_FILESYSTEMS = (domain.FOLDER, domain.ENCRYPTED, reservations.DATASET, configuration_copies.DATASET)


def is_of_appliance(dataset: str) -> bool:
    """Whether the appliance makes this file system itself."""
    return dataset.partition("/")[2] in _APPLIANCE_FILESYSTEMS


def update_capacity_alerts(context: Context) -> None:
    inventory = context.scan(60)
    with context.store.reading() as session:
        stores = domain.datastores(inventory, session)
        opened = {alert.key: alert.severity for alert in open_alerts(session, "capacity")}
        findings = capacity.findings(inventory, stores, context.pool_thresholds, opened)
        out = jobs.out_by_abandoned(session)
        changing = {f"capacity:thick:{store}" for store in becoming_thick(session)}  # the job reserves at its end
    findings = [finding for finding in findings if finding.key not in changing]
    findings += [
        Finding(
            f"capacity:out:{store.id}", "critical", store.id,
            f"{store.name} is not served: job {out[store.id].id} ({out[store.id].kind}) was abandoned",
            "When the pool answers, repeat that job, or change the datastore in another way",
        )
        for store in stores
        if store.state == "active" and store.id in out
    ]  # fmt: skip
    context.alerts.update("capacity", findings)


def dry_run(context: Context, name: str, vdevs: Sequence[VdevSpec], *, force: bool, extend: bool = False) -> list[str]:
    """The layout that creating, or with `extend` extending, would give. Refused as that would be; nothing changes."""
    change = context.engine.add_vdevs if extend else context.engine.create_pool
    return list(change(name, vdevs, force=force, dry_run=True))


def warnings(vdevs: Sequence[VdevSpec]) -> list[str]:
    """Properties of a layout that an admin should know before the pool is created or extended."""
    single = [
        vdev for vdev in vdevs if vdev.redundancy == Redundancy.STRIPE and vdev.role in (Role.DATA, Role.SPECIAL, Role.DEDUP)
    ]
    devices = [device for vdev in single for device in vdev.devices]
    if not devices:
        return []
    return [f"No redundancy: if {' or '.join(devices[:5])} fails, all data of the pool is lost. Use a mirror or raidz."]


def slow_writes(vdevs: Sequence[VdevSpec], disks: Iterable[Disk]) -> list[str]:
    """A warning if a new pool has data on hard disks and no log device. Each write of a host waits until it is on disk."""
    rotational = {name for disk in disks if disk.rotational for name in (disk.path, disk.device)}
    on_hard_disks = any(vdev.role == Role.DATA and not rotational.isdisjoint(vdev.devices) for vdev in vdevs)
    if not on_hard_disks or any(vdev.role == Role.LOG for vdev in vdevs):
        return []
    return ["Slow writes: hosts wait until each write is on hard disks. Add a log of two SSDs with power-loss protection."]


class VdevsPlan(PoolPlan, frozen=True, kw_only=True):
    vdevs: list[VdevSpec]
    force: bool
    properties: dict[str, str] = {}


class CreatePool(PoolChange[requests.PoolCreate, VdevsPlan]):
    """Creates a pool on empty disks."""

    kind, step = "pool.create", "making it"

    def plan(self, context: Context, request: requests.PoolCreate) -> VdevsPlan:
        """A dry run reports conflicts."""
        dry_run(context, request.name, request.specs, force=request.force)
        properties = {"ashift": str(request.ashift), "autotrim": "on" if request.autotrim else "off", "autoexpand": "on"}
        return VdevsPlan(**of_pool(request.name), vdevs=request.specs, properties=properties, force=request.force)

    def change(self, context: Context, plan: VdevsPlan) -> None:
        """After a resume, finds the new pool by its devices."""
        try:
            context.engine.create_pool(plan.pool, plan.vdevs, properties=plan.properties, force=plan.force)
        except zfs.PoolExists:
            made = context.engine.pool(plan.pool)
            if not all(has_device(made, device) for vdev in plan.vdevs for device in vdev.devices):
                raise


class ExtendPool(PoolChange[requests.ExtensionCreate, VdevsPlan]):
    """Adds vdevs to a pool. Only spares, cache and log devices can be removed again."""

    kind, step = "pool.extend", "adding devices"

    def plan(self, context: Context, request: requests.ExtensionCreate) -> VdevsPlan:
        """A dry run reports conflicts."""
        name = find_pool(context, request.pool).name
        dry_run(context, name, request.specs, force=request.force, extend=True)
        return VdevsPlan(**of_pool(name), vdevs=request.specs, force=request.force)

    def change(self, context: Context, plan: VdevsPlan) -> None:
        """Devices that are in the pool already were added before a crash."""
        pool = find_pool(context, plan.pool)
        missing = [vdev for vdev in plan.vdevs if not all(has_device(pool, device) for device in vdev.devices)]
        if missing:
            context.engine.add_vdevs(plan.pool, missing, force=plan.force)


class ThresholdsPlan(PoolPlan, frozen=True, kw_only=True):
    """In percent; null is the usual."""

    warning: int | None | UnsetType = UNSET
    critical: int | None | UnsetType = UNSET


class ChangePool(Operation[requests.PoolUpdate, ThresholdsPlan]):
    """Sets the pool's capacity alert thresholds. They are stored in the pool and move with it."""

    kind = "pool.change"

    def plan(self, context: Context, request: requests.PoolUpdate) -> ThresholdsPlan:
        """Absent values do not change; null is the default."""
        pool, usual = find_pool(context, request.pool), capacity.Thresholds()
        now = capacity.thresholds(context.scan(60), context.pool_thresholds).get(pool.name, usual)
        given = request.model_dump(include=request.model_fields_set)
        warning, critical = given.get("warning_percent", UNSET), given.get("critical_percent", UNSET)
        replace(
            now,
            warning=now.warning if warning is UNSET else usual.warning if warning is None else warning,
            critical=now.critical if critical is UNSET else usual.critical if critical is None else critical,
        ).check()
        return ThresholdsPlan(**of_pool(pool.name), warning=warning, critical=critical)

    def run(self, context: Context, plan: ThresholdsPlan, job_id: str, advance: Advance) -> PoolResult:
        advance("storing settings with the pool", 10)
        values = ((capacity.WARNING, plan.warning), (capacity.CRITICAL, plan.critical))
        if given := {name: str(value) for name, value in values if isinstance(value, int)}:
            context.engine.set_properties(plan.pool, given)
        for name, value in values:
            if value is None:
                context.engine.inherit_property(plan.pool, name)
        advance("updating the target", 60)
        problems = problems_serving(context, self.kind, pool=plan.pool)
        update_capacity_alerts(context)
        return PoolResult(pool=plan.pool, problems=problems)


class ImportPlan(PoolPlan, frozen=True, kw_only=True):
    """`requested`: its name or GUID. `guid` is noted once the job has found it; `pool` is its name once it is imported. `boot`:
    since this start of the server an admin knows that no other server has the pool.
    """

    requested: str
    new_name: str | None
    force: bool
    boot: str
    guid: str | None = None


class ImportPool(Operation[requests.ImportCreate, ImportPlan]):
    """Imports a pool. Its datastores keep their identities and are served."""

    kind = "pool.import"

    def plan(self, context: Context, request: requests.ImportCreate) -> ImportPlan:
        """The job scans the devices, which can take minutes."""
        name = request.new_name or request.pool
        if any(pool.name == name for pool in context.scan(60).pools):
            raise zfs.PoolExists(name)
        return ImportPlan(**of_pool(name), requested=request.pool, new_name=request.new_name, force=request.force, boot=_boot())

    def run(self, context: Context, plan: ImportPlan, job_id: str, advance: Advance) -> PoolResult:
        """Finds and imports the pool; no error if the same pool is imported.

        After a restart of the server another one may have taken the pool, and a forced import would destroy it.
        """
        advance("scanning the devices", 5)
        guid = plan.guid or str(_importable(context, plan).guid)
        with context.store.session() as session:
            jobs.note(session, job_id, guid=guid)
        advance("importing it", 10)
        imported = {str(pool.guid): pool.name for pool in context.engine.pools()}
        if guid not in imported:
            if plan.force and plan.boot != _boot():
                reason = f"Cannot import pool {plan.requested}: the server was restarted during the import"
                raise ConflictError(f"{reason}. Make sure that no other server has the pool, then repeat")
            imported[guid] = context.engine.import_pool(guid, new_name=plan.new_name, force=plan.force).name
        with context.store.session() as session:
            jobs.end_abandoned_exports(session, guid)
        outside = _keep_unmounted(context, imported[guid], guid)
        advance("serving its datastores", 70)
        problems = problems_serving(context, self.kind, pool=imported[guid])
        return PoolResult(pool=imported[guid], problems=problems, not_mounted=outside)


def _boot() -> str:
    """Identifies this start of the server. The unit has it, as the worker's /proc does not (ProcSubset=pid)."""
    return os.environ.get("ZVAAI_BOOT_ID") or Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _keep_unmounted(context: Context, pool: str, guid: str) -> list[str]:
    """File systems that have a mountpoint outside the appliance's folder: with canmount=noauto no boot mounts them.

    The helper sets it at the import; here it is set again, for an import after which a process was killed.
    """
    outside = [
        filesystem
        for filesystem in context.engine.filesystems(pool)
        if filesystem.mountpoint is not None
        and str(PurePath(filesystem.mountpoint).parent) != context.mounts
        and filesystem.properties["canmount"].value != "off"
    ]
    for filesystem in outside:
        if filesystem.properties["canmount"].value == "on":
            context.engine.set_properties(filesystem.name, {"canmount": "noauto"})
    if outside:
        names = ", ".join(f"{filesystem.name} ({filesystem.mountpoint})" for filesystem in outside[:10])
        text = f"Pool {pool} was imported. These file systems are not mounted, now or at the next boot: {names}"
        remedy = "To mount one of them, run: zfs set canmount=on NAME"
        with context.store.session() as session:
            note(session, Finding(f"{pool_health.AREA}-import:{guid}:{time.time():.0f}", "info", pool, text, remedy))
    return [filesystem.name for filesystem in outside]


def _importable(context: Context, plan: ImportPlan) -> ImportablePool:
    """The pool on the machine's devices: whole, and its name free. Raises DomainError, ZfsError."""
    candidates = [pool for pool in context.engine.importable() if plan.requested in (pool.name, str(pool.guid))]
    if not candidates:
        raise NotFoundError("pool that can be imported", plan.requested)
    if len(candidates) > 1:
        raise ConflictError("several have this name; say its GUID", [str(pool.guid) for pool in candidates])
    pool, name = candidates[0], plan.new_name or candidates[0].name
    if any(pool.name == name for pool in context.engine.pools()):
        raise zfs.PoolExists(name)
    if pool.health not in (Health.ONLINE, Health.DEGRADED):
        raise ConflictError(f"Cannot import {pool.name}: it is {pool.health}. {pool.status} {pool.action}".strip())
    return pool


def _check_listed(context: Context, name: str) -> None:
    """Raises ConflictError if it cannot be seen what the pool has."""
    pool = find_pool(context, name)
    if unlisted(pool):
        why = pool.status or f"Its health is {pool.health}."
        raise ConflictError(f"Cannot see what pool {name} has. {why.removesuffix('.')}. {pool_health.LOST}")


class ExportPlan(PoolPlan, frozen=True, kw_only=True):
    """`guid`: by it an import ends an abandoned export. `force`: also while hosts use its datastores."""

    guid: str
    force: bool


class ExportPool(Operation[requests.ExportPool, ExportPlan]):
    """Takes the datastores of a pool out of service, then exports it. Refused while hosts are logged in, unless forced."""

    kind = "pool.export"

    def plan(self, context: Context, request: requests.ExportPool) -> ExportPlan:
        """Refused while hosts that see its datastores are logged in, unless forced."""
        pool = find_pool(context, request.pool)
        name = pool.name
        _check_listed(context, name)
        stores = [store for store in context.datastores() if store.pool == name and store.state == "active" and store.uuid]
        hosts = sorted({host for store in stores for host in context.logged_in(store.id)})
        if hosts and not request.force:
            raise ConflictError("hosts that see its datastores are logged in", hosts, can_force=True)
        out = tuple(store.id for store in stores)
        return ExportPlan(**of_pool(name), guid=str(pool.guid), force=request.force, out_of_service=out)

    def run(self, context: Context, plan: ExportPlan, job_id: str, advance: Advance) -> PoolResult:
        """Target first, then the pool; an exported pool is not an error."""
        advance("taking its datastores out of service", 10)
        for uuid in plan.out_of_service:
            out_of_service(context, uuid, plan.pools, plan.force)
        advance("exporting it", 60)
        if plan.pool in {pool.name for pool in context.engine.pools()}:
            context.engine.export_pool(plan.pool, force=plan.force)
        context.scan()
        return PoolResult(pool=plan.pool)


class DestroyPlan(PoolPlan, frozen=True, kw_only=True):
    """`guid`: another pool of the name is not meant. `force`: with datasets that are not the appliance's."""

    guid: str
    force: bool


class DestroyPool(PoolChange[requests.DestroyPool, DestroyPlan]):
    """Destroys a pool that has no datastores. Refused while it has other datasets, unless forced."""

    kind, step = "pool.destroy", "destroying it"

    def plan(self, context: Context, request: requests.DestroyPool) -> DestroyPlan:
        """Refused while it has datastores or protected snapshots, and other datasets unless forced."""
        pool = find_pool(context, request.pool)
        self._check_unneeded(context, pool.name, force=request.force)
        return DestroyPlan(**of_pool(pool.name), guid=str(pool.guid), force=request.force)

    def change(self, context: Context, plan: DestroyPlan) -> None:
        """If the pool no longer exists, it was destroyed before a crash. A job before this one can have made a datastore."""
        name = next((pool.name for pool in context.engine.pools() if str(pool.guid) == plan.guid), None)
        if name is not None:
            if name != plan.pool:
                raise ConflictError(f"Cannot destroy pool {plan.pool}: it is now imported as {name}. Destroy it by that name")
            context.scan_pools(plan.pools)
            self._check_unneeded(context, plan.pool, force=plan.force)
            context.engine.destroy_pool(plan.pool)

    @staticmethod
    def _check_unneeded(context: Context, pool: str, *, force: bool) -> None:
        _check_listed(context, pool)
        here = [store for store in context.datastores(60) if store.pool == pool and store.state in ("active", "deleted")]
        if here:
            reason = f"Cannot destroy pool {pool}: it has datastores. Delete and purge them first"
            raise ConflictError(reason, sorted(store.name for store in here))
        snapshots = [snapshot for snapshot in context.scan(60).snapshots if pool_of(snapshot.name) == pool]
        if protected := [snapshot for snapshot in snapshots if retention.protected_until(snapshot) is not None]:
            raise held(context, protected)
        inventory = context.scan(60)
        names = [dataset.name for dataset in (*inventory.filesystems, *inventory.volumes) if dataset.name.startswith(f"{pool}/")]
        others = sorted(name for name in names if not is_of_appliance(name))
        if others and not force:
            raise ConflictError(f"Cannot destroy pool {pool}: it has other datasets", others, can_force=True)


class Scrub(PoolChange[requests.ScrubCreate, ActionPlan]):
    """Starts, pauses or stops the scrub. The pool shows its progress."""

    kind, step = "pool.scrub", "changing the scrub"

    def plan(self, context: Context, request: requests.ScrubCreate) -> ActionPlan:
        """A schedule tries again until its slot ends."""
        pool = find_pool(context, request.pool)
        scan = pool.scan
        if request.schedule and scan is not None and (scan.function, scan.state) == ("resilver", ScanState.SCANNING):
            raise ConflictError(f"pool {pool.name} resilvers. A scrub can start after that")
        return ActionPlan(**of_pool(pool.name), action=request.action, schedule=request.schedule)

    def change(self, context: Context, plan: ActionPlan) -> None:
        """A schedule is content with a scrub that an admin has started."""
        engine = context.engine
        try:
            {"start": engine.scrub_start, "pause": engine.scrub_pause, "stop": engine.scrub_stop}[plan.action](plan.pool)
        except zfs.ScanRunning as error:
            if plan.schedule is None or error.function != "scrub":
                raise


class TrimPool(PoolChange[requests.TrimCreate, ActionPlan]):
    """Starts or stops the trim of a pool. Its devices show the progress."""

    kind, step = "pool.trim", "changing the trim"

    def plan(self, context: Context, request: requests.TrimCreate) -> ActionPlan:
        return ActionPlan(**of_pool(find_pool(context, request.pool).name), action=request.action)

    def change(self, context: Context, plan: ActionPlan) -> None:
        (context.engine.trim_start if plan.action == "start" else context.engine.trim_stop)(plan.pool)


class UpgradeResult(PoolResult, frozen=True, kw_only=True):
    features: list[str] | UnsetType = UNSET


class UpgradePool(Operation[requests.UpgradePool, PoolPlan]):
    """Enables all features of this OpenZFS. Older versions can't import the pool afterwards."""

    kind = "pool.upgrade"

    def plan(self, context: Context, request: requests.UpgradePool) -> PoolPlan:
        return PoolPlan(**of_pool(find_pool(context, request.pool).name))

    def run(self, context: Context, plan: PoolPlan, job_id: str, advance: Advance) -> UpgradeResult:
        advance("upgrading it", 10)
        enabled = context.engine.upgrade_pool(plan.pool)
        context.scan()
        return UpgradeResult(pool=plan.pool, features=list(enabled))


OPERATIONS = by_kind(
    CreatePool(), ExtendPool(), ChangePool(), ImportPool(), ExportPool(), DestroyPool(), Scrub(), TrimPool(), UpgradePool()
)
