# SPDX-License-Identifier: Apache-2.0
"""What jobs do with single devices of pools: attach, detach, and remove spares, caches and logs."""

from __future__ import annotations

from appliance.domain import requests
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context
from appliance.worker.pool_operations import (
    DevicePlan,
    PoolPlan,
    PoolResult,
    check_replacement,
    find_device,
    find_pool,
    has_device,
    is_device,
    subject_of,
)
from appliance.worker.steps import Advance, Operation, by_kind
from appliance.zfs.model import Pool, Role, Vdev

REMOVABLE = (Role.SPARE, Role.CACHE, Role.LOG)


class AttachPlan(PoolPlan, frozen=True, kw_only=True):
    """`guid` of the device that gets a mirror."""

    guid: str
    new_device: str
    force: bool


class AttachDevice(Operation[requests.AttachDevice, AttachPlan]):
    """Attaches a device to a single one, or to a mirror, and starts the resilver."""

    kind = "pool.attach"

    def plan(self, context: Context, request: requests.AttachDevice) -> AttachPlan:
        """Refuses a new device that does not exist, is in use, or is too small, and what can't be mirrored."""
        pool = find_pool(context, request.pool)
        old = find_device(pool, request.device)
        top = next((vdev for vdev in pool.vdevs if old in vdev.devices()), old)
        if top.kind in ("raidz", "draid") or top.role in (Role.SPARE, Role.CACHE):
            what = top.role if top.role in (Role.SPARE, Role.CACHE) else top.kind
            reason = f"Cannot attach to {request.device}: only a single device or a mirror takes another one, not {what}"
            raise ConflictError(reason, [top.name])
        check_replacement(context, pool, old, request.new_device, force=request.force)
        return AttachPlan(
            subject=subject_of(pool.name),
            pools=(pool.name,),
            pool=pool.name,
            guid=str(old.guid),
            new_device=request.new_device,
            force=request.force,
        )

    def run(self, context: Context, plan: AttachPlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; a device that is in the pool was attached before a crash."""
        advance("attaching the device", 10)
        if not has_device(find_pool(context, plan.pool), plan.new_device):
            context.engine.attach(plan.pool, plan.guid, plan.new_device, force=plan.force)
        context.look()
        return PoolResult(pool=plan.pool)


class DetachDevice(Operation[requests.DetachDevice, DevicePlan]):
    """Detaches a device from its mirror, or ends a replacement."""

    kind = "pool.detach"

    def plan(self, context: Context, request: requests.DetachDevice) -> DevicePlan:
        """It must be one of several copies."""
        pool = find_pool(context, request.pool)
        device = find_device(pool, request.device)
        if not _is_copied(pool.vdevs, device):
            reason = f"Cannot detach {request.device}: it is not part of a mirror or a replacement"
            raise ConflictError(reason, [pool.name])
        name = pool.name
        return DevicePlan(subject=subject_of(name), pools=(name,), pool=name, device=str(device.guid), action="detach")

    def run(self, context: Context, plan: DevicePlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; a device that is gone was detached before a crash."""
        advance("detaching the device", 10)
        pool = find_pool(context, plan.pool)
        if any(str(device.guid) == plan.device for vdev in pool.vdevs for device in vdev.devices()):
            context.engine.detach(plan.pool, plan.device)
        context.look()
        return PoolResult(pool=plan.pool)


def _is_copied(vdevs: tuple[Vdev, ...], device: Vdev) -> bool:
    return any(
        (vdev.kind in ("mirror", "replacing", "spare") and device in vdev.vdevs) or _is_copied(vdev.vdevs, device)
        for vdev in vdevs
    )


class RemoveDevice(Operation[requests.RemoveDevice, DevicePlan]):
    """Removes a spare, a cache or a log device; a mirror of logs as a whole."""

    kind = "pool.remove"

    def plan(self, context: Context, request: requests.RemoveDevice) -> DevicePlan:
        """Devices with data stay."""
        pool = find_pool(context, request.pool)
        top = _top_of(pool, request.device)
        if top.role not in REMOVABLE:
            reason = f"Cannot remove {request.device}: it holds data. Only spares, cache and log devices can be removed"
            raise ConflictError(reason, [top.name])
        name = pool.name
        return DevicePlan(subject=subject_of(name), pools=(name,), pool=name, device=str(top.guid), action="remove")

    def run(self, context: Context, plan: DevicePlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; a device that is gone was removed before a crash."""
        advance("removing the device", 10)
        if any(str(vdev.guid) == plan.device for vdev in find_pool(context, plan.pool).vdevs):
            context.engine.remove_vdev(plan.pool, plan.device)
        context.look()
        return PoolResult(pool=plan.pool)


def _top_of(pool: Pool, asked: str) -> Vdev:
    """The top-level vdev that is, or has, the device. Raises NotFoundError."""
    for top in pool.vdevs:
        for one in (top, *top.devices()):
            if asked in (one.name, str(one.guid)) or is_device(one.path, asked) or is_device(one.was, asked):
                return top
    raise NotFoundError(f"device of pool {pool.name}", asked)


OPERATIONS = by_kind(AttachDevice(), DetachDevice(), RemoveDevice())
