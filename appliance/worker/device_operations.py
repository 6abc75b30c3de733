# SPDX-License-Identifier: Apache-2.0
"""Jobs on devices of pools."""

import re
from collections.abc import Iterable
from shlex import quote

from msgspec.structs import replace

from appliance.domain import requests
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context
from appliance.worker.pools import ActionPlan, PoolChange, PoolPlan, find_device, find_pool, has_device, is_device, of_pool
from appliance.worker.steps import by_kind
from appliance.zfs import errors as zfs
from appliance.zfs.model import Health, Pool, Redundancy, Role, Vdev, VdevSpec

REMOVABLE = (Role.SPARE, Role.CACHE, Role.LOG)


def replacements(vdevs: Iterable[Vdev], guid: int) -> tuple[Vdev, ...]:
    """The devices that are replacing the device of this GUID."""
    for vdev in vdevs:
        if vdev.kind == "replacing" and vdev.vdevs and vdev.vdevs[0].guid == guid:
            return vdev.devices()[1:]
        if below := replacements(vdev.vdevs, guid):
            return below
    return ()


def fails(vdev: Vdev, without: int) -> bool:
    """Whether it would be unreadable without the device of this GUID, by the health of the others."""
    if not vdev.vdevs:
        return vdev.guid == without or vdev.health not in (Health.ONLINE, Health.DEGRADED)
    lost = sum(fails(child, without) for child in vdev.vdevs)
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
    """Refuses a new device that does not exist, is in use, or is certainly too small. Raises ZfsError."""
    is_spare = any(is_device(vdev.path, new) for vdev in pool.vdevs if vdev.role == Role.SPARE)
    same_bay = is_device(old.path, new) or is_device(old.was, new)
    if not is_spare and not same_bay:  # a spare must exist and be free too, whatever its size
        spare = VdevSpec(devices=(new,), redundancy=Redundancy.STRIPE, role=Role.SPARE)
        context.engine.add_vdevs(pool.name, [spare], force=force, dry_run=True)
    top = next((vdev for vdev in pool.vdevs if old in vdev.devices()), old)
    # The share of each device; unknown for dRAID.
    needed = 0 if top.kind == "draid" else top.size // (len(top.vdevs) if top.kind == "raidz" else 1)
    size = next((disk.size for disk in context.engine.disks() if new in (disk.path, disk.device)), None)
    if size is not None and size < needed:
        raise zfs.DeviceTooSmall(new)


class NewDevicePlan(PoolPlan, frozen=True, kw_only=True):
    """`guid` of the device that is replaced or gets a mirror: a new disk in the same bay has the path of the old one."""

    guid: str
    new_device: str
    force: bool


class DevicePlan(ActionPlan, frozen=True, kw_only=True):
    """`device` by path, name or GUID."""

    device: str


class ReplaceDevice(PoolChange[requests.ReplacementCreate, NewDevicePlan]):
    """Starts the resilver onto a new device; the pool shows its progress. Only an admin may force it onto a device with data."""

    kind, step = "pool.replace", "replacing the device"

    def plan(self, context: Context, request: requests.ReplacementCreate) -> NewDevicePlan:
        """Refuses a new device that does not exist, is in use, or is too small. Refuses a second replacement of the old one."""
        pool = find_pool(context, request.pool)
        old = find_device(pool, request.device)
        replacing = replacements(pool.vdevs, old.guid)
        if not replacing:
            check_replacement(context, pool, old, request.new_device, force=request.force)
        elif not any(is_device(path, request.new_device) for new in replacing for path in (new.path, new.was)):
            other = replacing[0].name
            remedy = f"Detach {other} first: zvaai pool detach {quote(pool.name)} {quote(other)}"
            raise ConflictError(f"Cannot replace {request.device}: it is being replaced by {other}. {remedy}")
        return _new_device(pool, old, request)

    def change(self, context: Context, plan: NewDevicePlan) -> None:
        """Done if the old device has left the pool, or is being replaced."""
        pool, guid = find_pool(context, plan.pool), int(plan.guid)
        is_member = any(device.guid == guid for device in pool.devices())
        if is_member and not replacements(pool.vdevs, guid):
            context.engine.replace(plan.pool, plan.guid, plan.new_device, force=plan.force)


class AttachDevice(PoolChange[requests.AttachmentCreate, NewDevicePlan]):
    """Attaches a new device to a single one, or to a mirror, and starts the resilver. Only an admin may force it."""

    kind, step = "pool.attach", "attaching the device"

    def plan(self, context: Context, request: requests.AttachmentCreate) -> NewDevicePlan:
        """Refuses a new device that does not exist, is in use, or is too small, and what zvaai attaches nothing to.

        OpenZFS attaches no spare, used or not.
        """
        pool = find_pool(context, request.pool)
        old = find_device(pool, request.device)
        top = next((vdev for vdev in pool.vdevs if old in vdev.devices()), old)
        cannot = f"Cannot attach to {request.device}"
        if top.kind == "raidz":
            widen = f"zpool attach {quote(pool.name)} {top.name} {quote(request.new_device)}"
            raise ConflictError(f"{cannot}: zvaai attaches no disk to a raidz. To widen {top.name}, run as root: {widen}")
        if top.kind == "draid" or top.role in (Role.SPARE, Role.CACHE):
            what = top.role if top.role in (Role.SPARE, Role.CACHE) else top.kind
            raise ConflictError(f"{cannot}: only a single device or a mirror takes another one, not {what}")
        if has_device(pool, new := request.new_device):
            remedy = f"If it is a spare, remove it first: zvaai pool remove {quote(pool.name)} {quote(new)}"
            raise ConflictError(f"Cannot attach {new}: it is in pool {pool.name} already. {remedy}")
        check_replacement(context, pool, old, new, force=request.force)
        return _new_device(pool, old, request)

    def change(self, context: Context, plan: NewDevicePlan) -> None:
        """A device that is in the pool was attached before a crash."""
        if not has_device(find_pool(context, plan.pool), plan.new_device):
            context.engine.attach(plan.pool, plan.guid, plan.new_device, force=plan.force)


def _new_device(pool: Pool, old: Vdev, request: requests.ReplacementCreate | requests.AttachmentCreate) -> NewDevicePlan:
    return NewDevicePlan(**of_pool(pool.name), guid=str(old.guid), new_device=request.new_device, force=request.force)


class ChangeDevice(PoolChange[requests.DeviceUpdate, DevicePlan]):
    """Takes a device offline or online, or clears its error counters: in a suspended pool those of all devices."""

    kind, step = "pool.device", "changing the device"

    def plan(self, context: Context, request: requests.DeviceUpdate) -> DevicePlan:
        pool = find_pool(context, request.pool)
        name = request.device
        if name not in {known for vdev in pool.vdevs for known in (vdev.name, str(vdev.guid)) if vdev.vdevs}:
            device = find_device(pool, name)
            name = str(device.guid)
            if request.action == "offline":
                check_offline(pool, device)
        plan = DevicePlan(**of_pool(pool.name), device=name, action=request.action)
        # A job that hangs in a suspended pool ends only after `clear`, which waits for none.
        return replace(plan, subject=f"{plan.subject}/clear", pools=()) if request.action == "clear" else plan

    def change(self, context: Context, plan: DevicePlan) -> None:
        if plan.action == "offline":
            context.engine.offline(plan.pool, plan.device)
        elif plan.action == "online":
            context.engine.online(plan.pool, plan.device)
        else:
            # OpenZFS suspends the pool again at the first other vdev that still has errors.
            suspended = find_pool(context, plan.pool).health == Health.SUSPENDED
            context.engine.clear(plan.pool, None if suspended else plan.device)


class DetachDevice(PoolChange[requests.DetachmentCreate, DevicePlan]):
    """Detaches a device from its mirror, or ends a replacement."""

    kind, step = "pool.detach", "detaching the device"

    def plan(self, context: Context, request: requests.DetachmentCreate) -> DevicePlan:
        pool = find_pool(context, request.pool)
        device = find_device(pool, request.device)
        if not _is_copied(pool.vdevs, device):
            reason = f"Cannot detach {request.device} from pool {pool.name}: it is not part of a mirror or a replacement"
            raise ConflictError(reason)
        return DevicePlan(**of_pool(pool.name), device=str(device.guid), action="detach")

    def change(self, context: Context, plan: DevicePlan) -> None:
        """If the device no longer exists, it was detached before a crash."""
        pool = find_pool(context, plan.pool)
        if any(str(device.guid) == plan.device for device in pool.devices()):
            context.engine.detach(plan.pool, plan.device)


def _is_copied(vdevs: tuple[Vdev, ...], device: Vdev) -> bool:
    return any(
        (vdev.kind in ("mirror", "replacing", "spare") and device in vdev.vdevs) or _is_copied(vdev.vdevs, device)
        for vdev in vdevs
    )


class RemoveDevice(PoolChange[requests.RemovalCreate, DevicePlan]):
    """Removes a spare, a cache or a log device; a mirror of logs as a whole."""

    kind, step = "pool.remove", "removing the device"

    def plan(self, context: Context, request: requests.RemovalCreate) -> DevicePlan:
        pool = find_pool(context, request.pool)
        top = _top_of(pool, request.device)
        if top.role not in REMOVABLE:
            reason = f"Cannot remove {request.device}: it holds data. zvaai removes only spares, cache and log devices"
            remedy = f"To move its data to the other vdevs, run as root: zpool remove {quote(pool.name)} {quote(top.name)}"
            if any(vdev.kind in ("raidz", "draid") for vdev in pool.vdevs):  # spa_vdev_remove_top_check of vdev_removal.c
                remedy = f"OpenZFS cannot remove it either: pool {pool.name} has raidz or dRAID"
            raise ConflictError(f"{reason}. {remedy}")
        return DevicePlan(**of_pool(pool.name), device=str(top.guid), action="remove")

    def change(self, context: Context, plan: DevicePlan) -> None:
        """If the device no longer exists, it was removed before a crash."""
        if any(str(vdev.guid) == plan.device for vdev in find_pool(context, plan.pool).vdevs):
            context.engine.remove_vdev(plan.pool, plan.device)


def _top_of(pool: Pool, name: str) -> Vdev:
    """The top-level vdev that is or contains the device. Raises NotFoundError."""
    for top in pool.vdevs:
        for vdev in (top, *top.devices()):
            if name in (vdev.name, str(vdev.guid)) or is_device(vdev.path, name) or is_device(vdev.was, name):
                return top
    raise NotFoundError(f"device of pool {pool.name}", name)


OPERATIONS = by_kind(ReplaceDevice(), AttachDevice(), ChangeDevice(), DetachDevice(), RemoveDevice())
