# SPDX-License-Identifier: Apache-2.0
"""Pools and their devices, as OpenZFS sees them: findings for the admin, and OpenZFS events."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from shlex import quote

from appliance.domain.errors import InvalidError
from appliance.domain.journal import Finding
from appliance.zfs.model import Health, Pool, Role, ScanState, Vdev

AREA = "pool"
SCAN_REPORTED_S = 86400
"""A scrub or resilver that ended longer ago causes no event. If it found errors, an alert reports it until the next one."""
SLOW_REPORTED_S = 3600
"""Seconds after the last such event during which the device is reported as slow."""
_LOST = (Health.FAULTED, Health.UNAVAILABLE, Health.REMOVED)
UNSEEN = frozenset((Health.SUSPENDED, Health.UNAVAILABLE, Health.FAULTED))
"""The datasets of such a pool cannot be listed."""
LOST = (
    "Repair the pool. If its disks are lost or elsewhere, shut down the VMs of all pools and reboot the server: "
    "afterwards the pool is away"
)
"""Remedy for such a pool: OpenZFS cannot export it while it waits for its devices."""
FINE = (Health.ONLINE, Health.AVAILABLE, Health.IN_USE)


def findings(pools: Iterable[Pool], now: float, with_datastores: Collection[str] = ()) -> list[Finding]:
    """Of devices that are lost or have errors, of damaged data, of scrubs and resilvers that ended, of missing redundancy,
    of a failmode other than "wait".

    `with_datastores` are names of pools that have some: of those that carry the system an alert is raised.
    """
    findings: list[Finding] = []
    for pool in pools:
        findings += _of(pool, now)
        if pool.of_the_system and pool.name in with_datastores:
            text = (
                f"Pool {pool.name} carries the running system (/, /usr, /var, /boot, swap, or the appliance's state). "
                "The appliance serves the datastores in it, but changes nothing"
            )
            remedy = "Move the datastores to a separate pool."
            findings.append(Finding(f"{AREA}:system:{pool.guid}", "warning", pool.name, text, remedy))
    return findings


def single_devices(pool: Pool) -> list[Vdev]:
    return [vdev for vdev in pool.vdevs if vdev.role in (Role.DATA, Role.SPECIAL, Role.DEDUP) and vdev.kind in ("disk", "file")]


def unlisted(pool: Pool) -> bool:
    return pool.health in UNSEEN


def command(of_the_system: bool) -> str:
    """The beginning of commands for a pool. The helper changes no pool of the system, and zpool has the same words."""
    return "zpool" if of_the_system else "zvaai pool"


def _of(pool: Pool, now: float) -> Iterator[Finding]:
    named, tool = quote(pool.name), command(pool.of_the_system)
    suspended = pool.health == Health.SUSPENDED  # it refuses `online` and `replace`
    for device in pool.devices():
        path = device.path or device.was or device.name
        name, key = f"{path} of pool {pool.name}", f"{pool.guid}:{device.guid}"
        if device.health not in FINE:
            auxiliary = device.role in (Role.CACHE, Role.SPARE)
            severity = "critical" if device.health in _LOST and not auxiliary else "warning"
            # `zpool online` changes no device that is FAULTED or DEGRADED.
            action = "clear" if suspended or device.health in (Health.FAULTED, Health.DEGRADED) else "online"
            remedy = f"Reconnect the disk and run: {_of_device(pool, path, action)}"
            if not suspended:
                remedy += f". Or replace it: {tool} replace {named} {path} NEW_DISK"
            if auxiliary:  # OpenZFS replaces none
                add = "add" if pool.of_the_system else "extend"
                remedy = f"Remove it: {tool} remove {named} {path}. Then add another: {tool} {add} {named} {device.role} NEW_DISK"
            yield Finding(f"{AREA}:device:{key}", severity, pool.name, f"device {name} is {device.health}", remedy)
        if device.read_errors or device.write_errors or device.checksum_errors:
            counts = f"{device.read_errors} read, {device.write_errors} write, {device.checksum_errors} checksum errors"
            remedy = f"Check the disk and its cables. Then run: {_of_device(pool, path, 'clear')}"
            yield Finding(f"{AREA}:errors:{key}", "warning", pool.name, f"device {name} had {counts}", remedy)
    if single := single_devices(pool):
        names = " or ".join(vdev.path or vdev.was or vdev.name for vdev in single[:5])
        text = f"Pool {pool.name} has no redundancy: if {names} fails, all its data is lost"
        remedy = f"Attach a second device to each: {tool} attach {named} DEVICE NEW_DEVICE"
        yield Finding(f"{AREA}:redundancy:{pool.guid}", "warning", pool.name, text, remedy)
    if pool.failmode != "wait" and not pool.readonly:
        effect = "the server panics" if pool.failmode == "panic" else "hosts get errors, and VMs see damaged disks"
        text = f"Pool {pool.name} has failmode={pool.failmode}: if its devices are lost, {effect}"
        remedy = f"Let hosts wait for the devices: zpool set failmode=wait {quote(pool.name)}"
        yield Finding(f"{AREA}:failmode:{pool.guid}", "warning", pool.name, text, remedy)
    if pool.error_count:
        text = f"pool {pool.name} has {pool.error_count} damaged files or blocks"
        yield Finding(f"{AREA}:data:{pool.guid}", "critical", pool.name, text, _data_remedy(pool))
    if (ended := _ended(pool)) is not None and ended.severity != "info":
        yield ended


def _of_device(pool: Pool, path: str, action: str) -> str:
    named = quote(pool.name)
    if pool.of_the_system:  # for a device alone, zpool does not resume a pool of several vdevs
        return f"zpool {action} {named}" if pool.health == Health.SUSPENDED else f"zpool {action} {named} {path}"
    return f"zvaai pool device {named} {path} {action}"


def scans(pools: Iterable[Pool], now: float) -> list[Finding]:
    """Scrubs and resilvers that have ended well within the last day: to be noted, once each."""
    oldest = now - SCAN_REPORTED_S
    ended = [_ended(pool) for pool in pools if pool.scan is not None and (pool.scan.ended or 0) > oldest]
    return [finding for finding in ended if finding is not None and finding.severity == "info"]


def _ended(pool: Pool) -> Finding | None:
    scan = pool.scan
    if scan is None or scan.state != ScanState.FINISHED or not scan.ended:
        return None
    done = "written" if scan.function == "resilver" else "repaired"
    text = f"{scan.function} of pool {pool.name} has ended: {scan.repaired} bytes {done}, {scan.errors} errors left"
    severity = "critical" if scan.errors else "info"
    return Finding(
        f"{AREA}:scan:{pool.guid}:{scan.function}:{scan.ended}",
        severity,
        pool.name,
        text,
        _data_remedy(pool) if scan.errors else "",
    )


def _data_remedy(pool: Pool) -> str:
    find, scrub = f"zpool status -v {quote(pool.name)}", f"{command(pool.of_the_system)} scrub {quote(pool.name)}"
    return f"Find the datastore: {find}. Restore its VMs from a snapshot or backup, then: {scrub}"


@dataclass(frozen=True)
class ZfsEvent:
    """An event of the kernel's OpenZFS, from ZED (zed(8), zpool-events(8))."""

    event_class: str
    pool: str
    vdev: str
    state: str
    number: int

    @property
    def slow(self) -> bool:
        """I/O that takes long, or does not end: only an event reports it."""
        return self.event_class in ("ereport.fs.zfs.delay", "ereport.fs.zfs.deadman")


def event(fields: Mapping[str, object]) -> ZfsEvent:
    """Parses the event of a zedlet. Raises InvalidError."""
    texts: dict[str, str] = {}
    for name in ("class", "pool", "vdev", "state"):
        text = fields.get(name) or ""
        if not isinstance(text, str) or len(text) > 1024 or not text.isprintable():
            raise InvalidError(name, "not a line of text", "1024 characters")
        texts[name] = text
    if not re.fullmatch(r"[a-z0-9_.]{1,128}", texts["class"]):
        raise InvalidError("class", "not a class of events", "a-z, 0-9, '_', '.'")
    number = fields.get("eid")
    if not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise InvalidError("eid", "not a number of an event")
    return ZfsEvent(texts["class"], texts["pool"], texts["vdev"], texts["state"], number)


def slow_finding(event: ZfsEvent, *, of_the_system: bool) -> Finding:
    hung = event.event_class.endswith("deadman")
    text = f"device {event.vdev or 'unknown'} of pool {event.pool} {'does not answer' if hung else 'is slow to answer'}"
    key = f"{SLOW_AREA}:{event.pool}:{event.vdev}"
    replace = f"{command(of_the_system)} replace {quote(event.pool)} {event.vdev or 'DEVICE'} NEW_DISK"
    remedy = f"Check the disk and its cables. If the alert returns, replace the disk: {replace}"
    return Finding(key, "critical" if hung else "warning", event.pool, text, remedy)


SLOW_AREA = "slow"
