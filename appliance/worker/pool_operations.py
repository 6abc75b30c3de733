# SPDX-License-Identifier: Apache-2.0
"""What jobs do with pools. Each has its guard rails in the engine; those of hosts that use the pool are here."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

from msgspec import UNSET, UnsetType

from appliance.domain import capacity, jobs, pool_health, requests
from appliance.domain import datastores as domain
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.domain.jobs import Plan, Result
from appliance.domain.journal import Finding, note
from appliance.domain.requests import VdevRequest
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Operation, by_kind, out_of_service, problems_serving, unreserved
from appliance.zfs import errors as zfs
from appliance.zfs.model import Health, ImportablePool, Pool, Redundancy, Role, Vdev, VdevSpec


def vdevs_of(vdevs: Sequence[VdevRequest]) -> list[VdevSpec]:
    """As the engine has them."""
    return [VdevSpec(devices=tuple(one.devices), redundancy=Redundancy(one.redundancy), role=Role(one.role)) for one in vdevs]


def subject_of(pool: str) -> str:
    """Of jobs about a whole pool."""
    return f"pool {pool}"


def find_pool(context: Context, name: str) -> Pool:
    """An imported one. Raises NotFoundError."""
    for pool in context.look().pools:
        if pool.name == name:
            return pool
    raise NotFoundError("pool", name)


def is_device(told: str | None, asked: str) -> bool:
    """Whether what a pool tells is the device that was asked for, of which OpenZFS makes a partition where it is a whole disk."""
    part = "-part1" if asked.startswith("/dev/disk/") else "p1" if asked[-1:].isdigit() else "1"
    return told in (asked, f"{asked}{part}")


def has_device(pool: Pool, asked: str) -> bool:
    """Whether it is in the pool."""
    return any(is_device(device.path, asked) for vdev in pool.vdevs for device in vdev.devices())


def find_device(pool: Pool, asked: str) -> Vdev:
    """By path, name, or GUID. Raises NotFoundError, ConflictError."""
    devices = [device for vdev in pool.vdevs for device in vdev.devices()]
    found = [
        one for one in devices if asked in (one.name, str(one.guid)) or is_device(one.path, asked) or is_device(one.was, asked)
    ]
    if not found:
        raise NotFoundError(f"device of pool {pool.name}", asked)
    if len(found) > 1:  # the old and the new disk of one bay
        raise ConflictError("several have this path; say its GUID", [str(one.guid) for one in found])
    return found[0]


def is_being_replaced(vdevs: Iterable[Vdev], guid: int) -> bool:
    """Whether the device is the first, the old one, of a replacement."""
    return any(
        (vdev.kind == "replacing" and bool(vdev.vdevs) and vdev.vdevs[0].guid == guid) or is_being_replaced(vdev.vdevs, guid)
        for vdev in vdevs
    )


def fails(vdev: Vdev, without: int) -> bool:
    """Whether it could not be read any more without the device of this GUID, by what is told of the others' health."""
    if not vdev.vdevs:
        return vdev.guid == without or vdev.health not in (Health.ONLINE, Health.DEGRADED)
    lost = sum(fails(one, without) for one in vdev.vdevs)
    if vdev.kind.startswith(("raidz", "draid")):
        parity = re.match(r"(?:raidz|draid)([123])", vdev.name)
        return lost > (int(parity[1]) if parity else 1)
    return lost == len(vdev.vdevs)


def check_offline(pool: Pool, device: Vdev) -> None:
    """Refuses to take the last copy of data away. Raises InsufficientReplicas."""
    for vdev in pool.vdevs:
        holds_data = vdev.role in (Role.DATA, Role.SPECIAL, Role.DEDUP)
        if holds_data and device in vdev.devices() and device.health != Health.OFFLINE and fails(vdev, device.guid):
            raise zfs.InsufficientReplicas(pool.name, device.name)


def check_replacement(context: Context, pool: Pool, old: Vdev, new: str, *, force: bool) -> None:
    """Refuses a new device that is not there, in use, or surely too small. Raises ZfsError."""
    own_spare = any(is_device(vdev.path, new) for vdev in pool.vdevs if vdev.role == Role.SPARE)
    same_bay = is_device(old.path, new) or is_device(old.was, new)
    if not own_spare and not same_bay:  # as a spare it would have to be there and free, too, and whatever its size
        spare = VdevSpec(devices=(new,), redundancy=Redundancy.STRIPE, role=Role.SPARE)
        context.engine.add_vdevs(pool.name, [spare], force=force, dry_run=True)
    top = next((vdev for vdev in pool.vdevs if old in vdev.devices()), old)
    # What each of its devices holds of it; of dRAID that is not told.
    needed = 0 if top.kind == "draid" else top.size // (len(top.vdevs) if top.kind == "raidz" else 1)
    size = next((disk.size for disk in context.engine.disks() if new in (disk.path, disk.device)), None)
    if size is not None and size < needed:
        raise zfs.DeviceTooSmall(new)


def tell_capacity(context: Context) -> None:
    """Alerts of what gets full, as last looked at.

    Of what jobs are about they stay as they are until a look after their end, for capacity.HIDDEN_SECONDS at most.
    """
    inventory = context.look(60)
    with context.store.reading() as session:
        stores = domain.datastores(inventory, session)
        about = jobs.about_since(session, inventory.scanned_at, time.time() - capacity.HIDDEN_SECONDS)
        unsure = capacity.unsure(stores, about)
        findings = capacity.findings(inventory, stores, context.pool_thresholds)
    with context.store.session() as session:
        context.settling.settle(session, "capacity", findings, unsure)
        capacity.keep(session, inventory.pools, context.pool_thresholds)
    context.settling.consider()


def dry_run(context: Context, request: requests.PlanPool) -> list[str]:
    """The layout that making or extending would give; refused as that would be, and nothing changes."""
    vdevs = vdevs_of(request.vdevs)
    if request.extend:
        return list(context.engine.add_vdevs(request.name, vdevs, force=request.force, dry_run=True).layout)
    return list(context.engine.create_pool(request.name, vdevs, force=request.force, dry_run=True).layout)


class PoolPlan(Plan, frozen=True, kw_only=True):
    """Of a job about a whole pool."""

    pool: str


class PoolResult(Result, frozen=True, kw_only=True):
    """`problems`: what of it could not be served, or taken away."""

    pool: str
    problems: list[str] | UnsetType = UNSET
    not_mounted: list[str] | UnsetType = UNSET
    """After an import: file systems with a mountpoint outside the appliance's folder."""


class VdevsPlan(PoolPlan, frozen=True, kw_only=True):
    """Vdevs to make."""

    vdevs: list[VdevRequest]
    force: bool


class CreatePlan(VdevsPlan, frozen=True, kw_only=True):
    """With these properties of the pool."""

    properties: dict[str, str]


class CreatePool(Operation[requests.CreatePool, CreatePlan]):
    """On empty disks."""

    kind = "pool.create"

    def plan(self, context: Context, request: requests.CreatePool) -> CreatePlan:
        """A dry run shows what is in the way."""
        dry_run(context, requests.PlanPool(name=request.name, vdevs=request.vdevs, force=request.force))
        return CreatePlan(
            subject=subject_of(request.name),
            pools=(request.name,),
            pool=request.name,
            vdevs=request.vdevs,
            properties={"ashift": str(request.ashift), "autotrim": "on" if request.autotrim else "off"},
            force=request.force,
        )

    def run(self, context: Context, plan: CreatePlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; resumed, it finds its own pool by its devices."""
        advance("making it", 10)
        try:
            context.engine.create_pool(plan.pool, vdevs_of(plan.vdevs), properties=plan.properties, force=plan.force)
        except zfs.PoolExists:
            made = context.engine.pool(plan.pool)
            if not all(has_device(made, device) for vdev in plan.vdevs for device in vdev.devices):
                raise
        context.look()
        return PoolResult(pool=plan.pool)


class ExtendPool(Operation[requests.ExtendPool, VdevsPlan]):
    """Adds vdevs to a pool; only spares, cache and log devices can be taken out again."""

    kind = "pool.extend"

    def plan(self, context: Context, request: requests.ExtendPool) -> VdevsPlan:
        """A dry run tells what is in the way."""
        name = find_pool(context, request.name).name
        dry_run(context, requests.PlanPool(name=name, vdevs=request.vdevs, force=request.force, extend=True))
        return VdevsPlan(subject=subject_of(name), pools=(name,), pool=name, vdevs=request.vdevs, force=request.force)

    def run(self, context: Context, plan: VdevsPlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; devices that are in the pool already were added before a crash."""
        advance("adding devices", 10)
        pool = find_pool(context, plan.pool)
        missing = [vdev for vdev in plan.vdevs if not all(has_device(pool, device) for device in vdev.devices)]
        if missing:
            context.engine.add_vdevs(plan.pool, vdevs_of(missing), force=plan.force)
        context.look()
        return PoolResult(pool=plan.pool)


class ThresholdsPlan(PoolPlan, frozen=True, kw_only=True):
    """In percent; null is the usual."""

    warning: int | None | UnsetType = UNSET
    critical: int | None | UnsetType = UNSET


class ChangePool(Operation[requests.ChangePool, ThresholdsPlan]):
    """Capacity alert thresholds. Stored in the pool, so that they move with it."""

    kind = "pool.change"

    def plan(self, context: Context, request: requests.ChangePool) -> ThresholdsPlan:
        """What is not given stays; null is the usual."""
        pool, usual = find_pool(context, request.pool), capacity.Thresholds()
        now = capacity.thresholds(context.look(60), context.pool_thresholds).get(pool.name, usual)
        warning, critical = request.warning_percent, request.critical_percent
        replace(
            now,
            warning=now.warning if warning is UNSET else usual.warning if warning is None else warning,
            critical=now.critical if critical is UNSET else usual.critical if critical is None else critical,
        ).check()
        name = pool.name
        return ThresholdsPlan(subject=subject_of(name), pools=(name,), pool=name, warning=warning, critical=critical)

    def run(self, context: Context, plan: ThresholdsPlan, job_id: str, advance: Advance) -> PoolResult:
        """Properties, then the target, then alerts."""
        advance("setting what is kept with the pool", 10)
        values = ((capacity.WARNING, plan.warning), (capacity.CRITICAL, plan.critical))
        if given := {name: str(value) for name, value in values if isinstance(value, int)}:
            context.engine.set_properties(plan.pool, given)
        for name, value in values:
            if value is None:
                context.engine.inherit_property(plan.pool, name)
        advance("telling the target", 60)
        problems = problems_serving(context, self.kind)
        tell_capacity(context)
        return PoolResult(pool=plan.pool, problems=problems)


class ReplacePlan(PoolPlan, frozen=True, kw_only=True):
    """`guid` of the old device."""

    guid: str
    new_device: str
    force: bool


class ReplaceDevice(Operation[requests.ReplaceDevice, ReplacePlan]):
    """Begins the resilver onto a new device; the pool tells how far it is."""

    kind = "pool.replace"

    def plan(self, context: Context, request: requests.ReplaceDevice) -> ReplacePlan:
        """Which one is decided by its GUID: a new disk in the same bay has the path of the old one."""
        pool = find_pool(context, request.pool)
        old = find_device(pool, request.device)
        if not is_being_replaced(pool.vdevs, old.guid):
            check_replacement(context, pool, old, request.new_device, force=request.force)
        return ReplacePlan(
            subject=subject_of(pool.name),
            pools=(pool.name,),
            pool=pool.name,
            guid=str(old.guid),
            new_device=request.new_device,
            force=request.force,
        )

    def run(self, context: Context, plan: ReplacePlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; done is it when the old device is gone from the pool, or being replaced."""
        advance("replacing the device", 10)
        pool, guid = find_pool(context, plan.pool), int(plan.guid)
        there = any(device.guid == guid for vdev in pool.vdevs for device in vdev.devices())
        if there and not is_being_replaced(pool.vdevs, guid):
            context.engine.replace(plan.pool, plan.guid, plan.new_device, force=plan.force)
        context.look()
        return PoolResult(pool=plan.pool)


class DevicePlan(PoolPlan, frozen=True, kw_only=True):
    """`device` by path, name or GUID."""

    device: str
    action: str


class ChangeDevice(Operation[requests.ChangeDevice, DevicePlan]):
    """Offline, online, or its error counters cleared."""

    kind = "pool.device"

    def plan(self, context: Context, request: requests.ChangeDevice) -> DevicePlan:
        """Pool and device have to be there, and the last copy of data stays online."""
        pool = find_pool(context, request.pool)
        if request.device not in {name for vdev in pool.vdevs for name in (vdev.name, str(vdev.guid)) if vdev.vdevs}:
            device = find_device(pool, request.device)
            if request.action == "offline":
                check_offline(pool, device)
        name = pool.name
        return DevicePlan(subject=subject_of(name), pools=(name,), pool=name, device=request.device, action=request.action)

    def run(self, context: Context, plan: DevicePlan, job_id: str, advance: Advance) -> PoolResult:
        """One call, which may be made again."""
        advance(plan.action, 10)
        if plan.action == "offline":
            context.engine.offline(plan.pool, plan.device)
        elif plan.action == "online":
            context.engine.online(plan.pool, plan.device)
        else:
            context.engine.clear(plan.pool, plan.device)
        context.look()
        return PoolResult(pool=plan.pool)


class ImportPlan(PoolPlan, frozen=True, kw_only=True):
    """`requested`: its name or GUID. `guid` is noted once the job has found it; `pool` is its name once it is imported."""

    requested: str
    new_name: str | None
    force: bool
    guid: str | None = None


class ImportPool(Operation[requests.ImportPool, ImportPlan]):
    """With its datastores, which are served with the identities they have."""

    kind = "pool.import"

    def plan(self, context: Context, request: requests.ImportPool) -> ImportPlan:
        """The job scans the devices, which can take minutes."""
        name = request.new_name or request.pool
        if any(one.name == name for one in context.look(60).pools):
            raise zfs.PoolExists(name)
        return ImportPlan(
            subject=subject_of(name),
            pools=(name,),
            pool=name,
            requested=request.pool,
            new_name=request.new_name,
            force=request.force,
        )

    def run(self, context: Context, plan: ImportPlan, job_id: str, advance: Advance) -> PoolResult:
        """Finds it, then one call; one that is imported already is well if it is the same."""
        advance("scanning the devices", 5)
        guid = plan.guid or str(_importable(context, plan).guid)
        with context.store.session() as session:
            jobs.note(session, job_id, guid=guid)
        advance("importing it", 10)
        imported = {str(pool.guid): pool.name for pool in context.engine.pools()}
        if guid not in imported:
            imported[guid] = context.engine.import_pool(guid, new_name=plan.new_name, force=plan.force).name
        outside = _keep_unmounted(context, imported[guid], guid)
        advance("serving its datastores", 70)
        return PoolResult(pool=imported[guid], problems=problems_serving(context, self.kind), not_mounted=outside)


def _keep_unmounted(context: Context, pool: str, guid: str) -> list[str]:
    """File systems that have a mountpoint outside the appliance's folder: with canmount=noauto no boot mounts them.

    The helper sets it at the import; here it is set again, for an import after which a process was killed.
    """
    found = [
        one
        for one in context.engine.filesystems(pool)
        if one.mountpoint is not None
        and str(PurePath(one.mountpoint).parent) != context.mounts
        and one.properties["canmount"].value != "off"
    ]
    for one in found:
        if one.properties["canmount"].value == "on":
            context.engine.set_properties(one.name, {"canmount": "noauto"})
    if found:
        names = ", ".join(f"{one.name} ({one.mountpoint})" for one in found[:10])
        text = f"Pool {pool} was imported. These file systems are not mounted, now or at the next boot: {names}"
        remedy = "To mount one of them, run: zfs set canmount=on NAME"
        with context.store.session() as session:
            note(session, Finding(f"{pool_health.AREA}-import:{guid}:{time.time():.0f}", "info", pool, text, remedy))
    return [one.name for one in found]


def _importable(context: Context, plan: ImportPlan) -> ImportablePool:
    """The pool on the machine's devices: whole, exported or forced, and its name free. Raises DomainError, ZfsError."""
    found = [pool for pool in context.engine.importable() if plan.requested in (pool.name, str(pool.guid))]
    if not found:
        raise NotFoundError("pool that can be imported", plan.requested)
    if len(found) > 1:
        raise ConflictError("several have this name; say its GUID", [str(pool.guid) for pool in found])
    pool, name = found[0], plan.new_name or found[0].name
    if any(one.name == name for one in context.engine.pools()):
        raise zfs.PoolExists(name)
    if pool.health not in (Health.ONLINE, Health.DEGRADED):
        raise ConflictError(f"pool {pool.name} is {pool.health}: devices are missing", [pool.status or pool.health])
    if pool.last_host is not None and not plan.force:
        raise zfs.PoolInUseElsewhere(pool.name, pool.last_host)
    return pool


class ExportPlan(PoolPlan, frozen=True, kw_only=True):
    """`force`: also while hosts use its datastores."""

    force: bool


class ExportPool(Operation[requests.ExportPool, ExportPlan]):
    """Its datastores are taken out of service first."""

    kind = "pool.export"

    def plan(self, context: Context, request: requests.ExportPool) -> ExportPlan:
        """Refused while hosts that see its datastores are logged in, unless forced."""
        name = find_pool(context, request.pool).name
        stores = [store for store in context.datastores() if store.pool == name and store.state == "active" and store.uuid]
        hosts = sorted({host for store in stores for host in context.logged_in(store.id)})
        if hosts and not request.force:
            raise ConflictError("hosts are logged in that see its datastores", hosts, can_force=True)
        for store in stores:
            unreserved(context, store, request.force)
        out = tuple(store.id for store in stores)
        return ExportPlan(subject=subject_of(name), pools=(name,), pool=name, force=request.force, out_of_service=out)

    def run(self, context: Context, plan: ExportPlan, job_id: str, advance: Advance) -> PoolResult:
        """Target first, then the pool; one that is gone is well."""
        advance("taking its datastores out of service", 10)
        for uuid in plan.out_of_service:
            out_of_service(context, uuid, plan.force)
        advance("exporting it", 60)
        if plan.pool in {pool.name for pool in context.engine.pools()}:
            context.engine.export_pool(plan.pool, force=plan.force)
        context.look()
        return PoolResult(pool=plan.pool)


class ScrubPlan(PoolPlan, frozen=True, kw_only=True):
    """What to do."""

    action: str


class Scrub(Operation[requests.ScrubPool, ScrubPlan]):
    """Starts, pauses or stops the scrub of a pool; how far it is, the pool tells."""

    kind = "pool.scrub"

    def plan(self, context: Context, request: requests.ScrubPool) -> ScrubPlan:
        """The pool has to be there."""
        name = find_pool(context, request.pool).name
        return ScrubPlan(subject=subject_of(name), pools=(name,), pool=name, action=request.action, schedule=request.schedule)

    def run(self, context: Context, plan: ScrubPlan, job_id: str, advance: Advance) -> PoolResult:
        """One call."""
        advance(plan.action, 10)
        if plan.action == "start":
            context.engine.scrub_start(plan.pool)
        elif plan.action == "pause":
            context.engine.scrub_pause(plan.pool)
        else:
            context.engine.scrub_stop(plan.pool)
        context.look()
        return PoolResult(pool=plan.pool)


OPERATIONS = by_kind(
    CreatePool(), ExtendPool(), ChangePool(), ReplaceDevice(), ChangeDevice(), ImportPool(), ExportPool(), Scrub()
)
