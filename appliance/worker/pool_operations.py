# SPDX-License-Identifier: Apache-2.0
"""What jobs do with pools. Each has its guard rails in the engine; those of hosts that use the pool are here."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from appliance.domain import capacity, jobs
from appliance.domain import datastores as domain
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Operation, Parameters, Plan, out_of_service, problems_serving, unreserved
from appliance.zfs import errors as zfs
from appliance.zfs.model import Health, Pool, Redundancy, Role, Vdev, VdevSpec


def vdevs_of(asked: Any) -> list[VdevSpec]:
    """As the engine has them."""
    return [
        VdevSpec(devices=tuple(vdev["devices"]), redundancy=Redundancy(vdev["redundancy"]), role=Role(vdev["role"]))
        for vdev in asked
    ]


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


def check_replacement(context: Context, pool: Pool, old: Vdev, asked: Parameters) -> None:
    """Refuses a new device that is not there, in use, or surely too small. Raises ZfsError."""
    new = asked["new_device"]
    own_spare = any(is_device(vdev.path, new) for vdev in pool.vdevs if vdev.role == Role.SPARE)
    same_bay = is_device(old.path, new) or is_device(old.was, new)
    if not own_spare and not same_bay:  # as a spare it would have to be there and free, too, and whatever its size
        spare = VdevSpec(devices=(new,), redundancy=Redundancy.STRIPE, role=Role.SPARE)
        context.engine.add_vdevs(pool.name, [spare], force=asked["force"], dry_run=True)
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
        about = jobs.about_since(session, inventory.looked_at, time.time() - capacity.HIDDEN_SECONDS)
        unsure = capacity.unsure(stores, about)
        findings = capacity.findings(inventory, stores, context.pool_thresholds)
    with context.store.session() as session:
        context.settling.settle(session, "capacity", findings, unsure)
        capacity.keep(session, inventory.pools, context.pool_thresholds)
    context.settling.consider()


def dry_run(context: Context, asked: Parameters) -> list[str]:
    """The layout that making or extending would give; refused as that would be, and nothing changes."""
    vdevs = vdevs_of(asked["vdevs"])
    if asked.get("extend"):
        return list(context.engine.add_vdevs(asked["name"], vdevs, force=asked["force"], dry_run=True).layout)
    return list(context.engine.create_pool(asked["name"], vdevs, force=asked["force"], dry_run=True).layout)


class CreatePool(Operation):
    """On empty disks."""

    kind = "pool.create"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """A dry run tells what is in the way."""
        dry_run(context, asked)
        return Plan(f"pool {asked['name']}", asked)

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One call; taken up again it finds its own pool by its devices."""
        advance("making it", 10)
        try:
            context.engine.create_pool(decided["name"], vdevs_of(decided["vdevs"]), force=decided["force"])
        except zfs.PoolExists:
            made = context.engine.pool(decided["name"])
            if not all(has_device(made, device) for vdev in decided["vdevs"] for device in vdev["devices"]):
                raise
        context.look()
        return {"pool": decided["name"]}


class ExtendPool(Operation):
    """By more vdevs; only spares, cache and log devices can be taken out again."""

    kind = "pool.extend"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """A dry run tells what is in the way."""
        find_pool(context, asked["name"])
        dry_run(context, {**asked, "extend": True})
        return Plan(f"pool {asked['name']}", asked)

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One call; devices that are in the pool already were added before a crash."""
        advance("adding devices", 10)
        pool = find_pool(context, decided["name"])
        missing = [vdev for vdev in decided["vdevs"] if not all(has_device(pool, device) for device in vdev["devices"])]
        if missing:
            context.engine.add_vdevs(decided["name"], vdevs_of(missing), force=decided["force"])
        context.look()
        return {"pool": decided["name"]}


class ChangePool(Operation):
    """When it is told that it gets full. Kept with the pool, so that it moves with it."""

    kind = "pool.change"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """What is not given stays; null is the usual."""
        pool = find_pool(context, asked["pool"])
        usual = capacity.Thresholds()
        now = capacity.thresholds(context.look(60), context.pool_thresholds).get(pool.name, usual)
        values = {name: asked[name] for name in ("warning", "critical") if name in asked}
        wanted = {name: getattr(usual, name) if value is None else value for name, value in values.items()}
        replace(now, **wanted).check()
        return Plan(f"pool {pool.name}", {"pool": pool.name, "thresholds": values})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Properties, then the target, then alerts."""
        pool, names = decided["pool"], {"warning": capacity.WARNING, "critical": capacity.CRITICAL}
        advance("setting what is kept with the pool", 10)
        given = {names[name]: str(value) for name, value in decided["thresholds"].items() if value is not None}
        if given:
            context.engine.set_properties(pool, given)
        for name, value in decided["thresholds"].items():
            if value is None:
                context.engine.inherit_property(pool, names[name])
        advance("telling the target", 60)
        problems = problems_serving(context, self.kind)
        tell_capacity(context)
        return {"pool": pool, "problems": problems}


class ReplaceDevice(Operation):
    """Begins the resilver onto a new device; the pool tells how far it is."""

    kind = "pool.replace"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Which one is decided by its GUID: a new disk in the same bay has the path of the old one."""
        pool = find_pool(context, asked["pool"])
        old = find_device(pool, asked["device"])
        if not is_being_replaced(pool.vdevs, old.guid):
            check_replacement(context, pool, old, asked)
        return Plan(f"pool {asked['pool']}", {**asked, "guid": str(old.guid)})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One call; done is it when the old device is gone from the pool, or being replaced."""
        advance("replacing the device", 10)
        pool, guid = find_pool(context, decided["pool"]), int(decided["guid"])
        there = any(device.guid == guid for vdev in pool.vdevs for device in vdev.devices())
        if there and not is_being_replaced(pool.vdevs, guid):
            context.engine.replace(decided["pool"], decided["guid"], decided["new_device"], force=decided["force"])
        context.look()
        return {"pool": decided["pool"]}


class ChangeDevice(Operation):
    """Offline, online, or its error counters cleared."""

    kind = "pool.device"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Pool and device have to be there, and the last copy of data stays online."""
        pool = find_pool(context, asked["pool"])
        if asked["device"] not in {name for vdev in pool.vdevs for name in (vdev.name, str(vdev.guid)) if vdev.vdevs}:
            device = find_device(pool, asked["device"])
            if asked["action"] == "offline":
                check_offline(pool, device)
        return Plan(f"pool {asked['pool']}", asked)

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One call, which may be made again."""
        advance(decided["action"], 10)
        pool, device = decided["pool"], decided["device"]
        if decided["action"] == "offline":
            context.engine.offline(pool, device)
        elif decided["action"] == "online":
            context.engine.online(pool, device)
        else:
            context.engine.clear(pool, device)
        context.look()
        return {"pool": pool}


class ImportPool(Operation):
    """With its datastores, which are served with the identities they have."""

    kind = "pool.import"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """It has to be on the machine's devices, whole, exported or forced, and its name free."""
        found = [pool for pool in context.engine.importable() if asked["pool"] in (pool.name, str(pool.guid))]
        if not found:
            raise NotFoundError("pool that can be imported", asked["pool"])
        if len(found) > 1:
            raise ConflictError("several have this name; say its GUID", [str(pool.guid) for pool in found])
        pool, name = found[0], asked.get("new_name") or found[0].name
        if any(one.name == name for one in context.engine.pools()):
            raise zfs.PoolExists(name)
        if pool.health not in (Health.ONLINE, Health.DEGRADED):
            raise ConflictError(f"pool {pool.name} is {pool.health}: devices are missing", [pool.status or pool.health])
        if pool.last_host is not None and not asked["force"]:
            raise zfs.PoolInUseElsewhere(pool.name, pool.last_host)
        decided = {"pool": name, "guid": str(pool.guid), "new_name": asked.get("new_name"), "force": asked["force"]}
        return Plan(f"pool {name}", decided)

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One call; one that is imported already is well if it is the same."""
        advance("importing it", 10)
        if decided["guid"] not in {str(pool.guid) for pool in context.engine.pools()}:
            context.engine.import_pool(decided["guid"], new_name=decided["new_name"], force=decided["force"])
        advance("serving its datastores", 70)
        return {"pool": decided["pool"], "problems": problems_serving(context, self.kind)}


class ExportPool(Operation):
    """Its datastores are taken out of service first."""

    kind = "pool.export"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Refused while hosts that see its datastores are logged in, unless forced."""
        find_pool(context, asked["pool"])
        stores = [
            store for store in context.datastores() if store.pool == asked["pool"] and store.state == "active" and store.uuid
        ]
        hosts = sorted({host for store in stores for host in context.logged_in(store.uuid or "")})
        if hosts and not asked["force"]:
            raise ConflictError("hosts are logged in that see its datastores", hosts, can_force=True)
        for store in stores:
            unreserved(context, store, asked["force"])
        return Plan(f"pool {asked['pool']}", {**asked, "out_of_service": [store.uuid for store in stores]})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Target first, then the pool; one that is gone is well."""
        advance("taking its datastores out of service", 10)
        for uuid in decided["out_of_service"]:
            out_of_service(context, uuid, decided["force"])
        advance("exporting it", 60)
        if decided["pool"] in {pool.name for pool in context.engine.pools()}:
            context.engine.export_pool(decided["pool"], force=decided["force"])
        context.look()
        return {"pool": decided["pool"]}


class Scrub(Operation):
    """Starts, pauses or stops the scrub of a pool; how far it is, the pool tells."""

    kind = "pool.scrub"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """The pool has to be there."""
        if asked["pool"] not in {pool.name for pool in context.look().pools}:
            raise NotFoundError("pool", asked["pool"])
        return Plan(f"pool {asked['pool']}", {"pool": asked["pool"], "action": asked["action"]})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One call."""
        advance(decided["action"], 10)
        pool = decided["pool"]
        if decided["action"] == "start":
            context.engine.scrub_start(pool)
        elif decided["action"] == "pause":
            context.engine.scrub_pause(pool)
        else:
            context.engine.scrub_stop(pool)
        context.look()
        return {"pool": pool}


OPERATIONS: Mapping[str, Operation] = {
    operation.kind: operation
    for operation in (
        CreatePool(),
        ExtendPool(),
        ChangePool(),
        ReplaceDevice(),
        ChangeDevice(),
        ImportPool(),
        ExportPool(),
        Scrub(),
    )
}
