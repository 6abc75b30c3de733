# SPDX-License-Identifier: Apache-2.0
"""Values of a ZfsEngine: pools, datasets, snapshots.

Sizes are bytes, times are seconds since 1970 (UTC), GUIDs are unsigned 64-bit: strings at the API's edge. Names of fields are
OpenZFS's own (zfsprops(7), zpoolprops(7), vdevprops(7)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.zfs.names import zvol_link

# --- properties


class Source(StrEnum):
    """Source of a property's value (zfs-get(8), SOURCE)."""

    LOCAL = "local"
    RECEIVED = "received"
    INHERITED = "inherited"
    DEFAULT = "default"
    TEMPORARY = "temporary"
    NONE = "none"
    """A read-only property, such as `used`."""


@dataclass(frozen=True, slots=True)
class Property:
    """A value as `zfs get -p` prints it: sizes in bytes, "none", "on"."""

    value: str
    source: Source
    inherited_from: str | None = None
    """The dataset that sets it, for INHERITED."""


Properties = Mapping[str, Property]


# --- pools


class Health(StrEnum):
    """State of a pool or vdev (zpoolconcepts(7), Device Failure and Recovery)."""

    ONLINE = "ONLINE"
    DEGRADED = "DEGRADED"
    FAULTED = "FAULTED"
    OFFLINE = "OFFLINE"
    UNAVAILABLE = "UNAVAIL"
    REMOVED = "REMOVED"
    SUSPENDED = "SUSPENDED"
    """A pool that waits for devices: all writes hang (failmode=wait)."""
    AVAILABLE = "AVAIL"
    """A spare that is free."""
    IN_USE = "INUSE"
    """A spare that replaces another device."""


class Role(StrEnum):
    """Role of a top-level vdev (zpoolconcepts(7), Virtual Devices)."""

    DATA = "data"
    LOG = "log"
    CACHE = "cache"
    SPARE = "spare"
    SPECIAL = "special"
    DEDUP = "dedup"


class Redundancy(StrEnum):
    STRIPE = "stripe"
    MIRROR = "mirror"
    RAIDZ1 = "raidz1"
    RAIDZ2 = "raidz2"
    RAIDZ3 = "raidz3"


MAX_DEVICES = 1024
"""Of all vdevs that one operation creates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VdevSpec:
    """A new vdev. STRIPE makes each device a separate vdev; CACHE and SPARE are STRIPE."""

    devices: tuple[str, ...]
    """Absolute paths, preferably of /dev/disk/by-id, which do not depend on the cabling."""
    redundancy: Redundancy = Redundancy.STRIPE
    role: Role = Role.DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Vdev:
    name: str
    """"mirror-0", "raidz1-1", "replacing-0"; a device's path."""
    kind: str
    """"mirror", "raidz", "disk", "file", "replacing", "spare", "missing", ..."""
    guid: int
    health: Health
    role: Role = Role.DATA
    path: str | None = None
    size: int = 0
    """Capacity of a top-level vdev; size of a device, or 0 if OpenZFS does not report it."""
    allocated: int = 0
    """0 below a top-level vdev."""
    read_errors: int = 0
    write_errors: int = 0
    checksum_errors: int = 0
    trim: str = ""
    """TRIM state of a device: "active", "suspended", "canceled" or "complete"; empty without TRIM."""
    was: str | None = None
    """Former path of a missing device."""
    vdevs: tuple[Vdev, ...] = ()

    def devices(self) -> tuple[Vdev, ...]:
        return tuple(leaf for vdev in self.vdevs for leaf in vdev.devices()) if self.vdevs else (self,)


class ScanState(StrEnum):
    SCANNING = "scanning"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The running or last scrub or resilver of a pool (zpool-scrub(8), zpool-status(8))."""

    function: str
    """"scrub" or "resilver"."""
    state: ScanState
    started: int
    ended: int | None = None
    to_examine: int = 0
    issued: int = 0
    """Bytes read and checked: with `to_examine`, the progress."""
    repaired: int = 0
    """Bytes repaired by a scrub, or written by a resilver (pss_processed; vdev_stat_update() of OpenZFS)."""
    errors: int = 0
    """Errors that could not be repaired."""

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        if self.state == ScanState.FINISHED or (self.to_examine == 0 and self.state != ScanState.CANCELED):
            return 1.0
        return min(1.0, self.issued / self.to_examine) if self.to_examine else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    name: str
    guid: int
    health: Health
    size: int
    """Raw, raidz parity included (zpoolprops(7))."""
    allocated: int
    free: int
    fragmentation: int = 0
    """Percent."""
    readonly: bool = False
    ashift: int = 0
    error_count: int = 0
    """Files and blocks known to be damaged."""
    status: str = ""
    """Problem in `zpool status`; empty if there is none."""
    action: str = ""
    """Remedy in `zpool status`."""
    scan: Scan | None = None
    vdevs: tuple[Vdev, ...] = ()
    """Top-level vdevs of every role, spares and cache devices too."""
    bclone_used: int = 0
    """Space of cloned blocks, counted once."""
    bclone_saved: int = 0
    """Space that cloning saves."""
    features: Mapping[str, FeatureState] = field(default_factory=dict)
    autotrim: bool = False
    failmode: str = "wait"
    of_the_system: bool = False
    """The pool has the running system, so the root helper never changes it. The helper sets this."""
    unread_seconds: float = 0.0
    """So long its datasets have been read without an end, if other pools do not wait for it. The worker sets this."""

    def devices(self) -> tuple[Vdev, ...]:
        """All devices. OpenZFS lists a spare in use twice: this has it once, below the vdev that it serves in."""
        devices: dict[int | str, Vdev] = {}
        for device in (leaf for vdev in self.vdevs for leaf in vdev.devices()):
            devices.setdefault(device.guid or device.name, device)
        return tuple(devices.values())

    @property
    def upgradable(self) -> bool:
        """Whether this OpenZFS has features that the pool has not enabled."""
        return FeatureState.DISABLED in self.features.values()


class FeatureState(StrEnum):
    """zpool-features(7)."""

    DISABLED = "disabled"
    ENABLED = "enabled"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportablePool:
    """A pool found on devices, not imported (zpool-import(8))."""

    name: str
    guid: int
    health: Health
    """Only a pool that is ONLINE or DEGRADED can be imported."""
    status: str = ""
    action: str = ""
    last_host: str | None = None
    """Another system that used it last without an export: the import needs `force`. "unknown" if there may be one."""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    path: str
    """Preferred name, below /dev/disk/by-id or else /dev/disk/by-path if possible."""
    device: str
    """The kernel's name: /dev/sda; of a multipath map /dev/mapper/mpatha."""
    size: int
    model: str = ""
    serial: str = ""
    rotational: bool = False
    used_by: str | None = None
    """"pool tank", "mounted on /boot", "ext4", "partitions"; None without known content."""
    in_use: bool = False
    """Whether a pool, a mount, or a volume (LVM, LUKS, RAID) uses it now; old content alone does not count."""
    in_pool: str | None = None
    """The name that the pool in `used_by` has for the disk, or for its partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskHealth:
    """SMART data of a disk. None: not reported."""

    available: bool
    reason: str = ""
    """Why there is no data: no SMART, or the disk sleeps."""
    asleep: bool = False
    unanswered: bool = False
    """The query failed: it is unknown whether the disk has SMART."""
    passed: bool | None = None
    """The disk's overall assessment: False for a failing or failed disk."""
    temperature: int | None = None
    """Degrees Celsius."""
    temperature_limit: int | None = None
    """The disk's maximum, if it reports one."""
    power_on_hours: int | None = None
    reallocated: int | None = None
    """Reallocated sectors: ATA attribute 5; SCSI's grown defects."""
    pending: int | None = None
    """Unreadable sectors that wait for a write: ATA attribute 197."""
    uncorrectable: int | None = None
    """Uncorrected errors: ATA attribute 198, SCSI's error counters, NVMe's media errors."""
    wear: int | None = None
    """Used life in percent; may exceed 100."""
    spare: int | None = None
    """Remaining NVMe spare blocks in percent."""
    spare_limit: int | None = None
    critical_warning: int = 0
    """NVMe's bits (NVM Express, SMART / Health Information Log Page)."""


# --- datasets


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Space of a dataset (zfsprops(7)); `used` is the sum of the four used_by_*."""

    used: int
    available: int
    referenced: int
    used_by_dataset: int
    used_by_snapshots: int
    used_by_children: int
    used_by_refreservation: int
    written: int
    """Bytes written after the newest snapshot."""


class KeyStatus(StrEnum):
    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    algorithm: str
    root: str
    """The encryption root, for load_key."""
    key_status: KeyStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    name: str
    guid: int
    createtxg: int
    creation: int
    space: Space
    origin: str | None = None
    encryption: Encryption | None = None
    properties: Properties = field(default_factory=dict)
    """Native properties in properties.SHOWN of this kind, and all user properties, set or inherited."""

    @property
    def pool(self) -> str:
        return self.name.split("/", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(Dataset):
    volsize: int
    volblocksize: int
    refreservation: int
    """0 for a thin volume."""

    @property
    def device(self) -> str:
        """udev's link, which appears some milliseconds after the volume."""
        return zvol_link(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem(Dataset):
    mountpoint: str | None
    """None for `none` and `legacy`."""
    mounted: bool
    recordsize: int
    quota: int
    """0 for none, also for the next three."""
    refquota: int
    reservation: int
    refreservation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetList:
    filesystems: list[Filesystem]
    volumes: list[Volume]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    name: str
    """DATASET@TAG."""
    guid: int
    createtxg: int
    """Equal for all snapshots of one step."""
    creation: int
    used: int
    """Bytes that only its destruction would free."""
    referenced: int
    holds: int = 0
    """Number of holds; ZfsEngine.holds has the tags."""
    clones: tuple[str, ...] = ()
    properties: Mapping[str, Property] = field(default_factory=dict)

    @property
    def dataset(self) -> str:
        return self.name.split("@", 1)[0]

    @property
    def tag(self) -> str:
        return self.name.split("@", 1)[1]


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold on a snapshot, which prevents its destruction (zfs-hold(8))."""

    tag: str
    created: int


class DependantKind(StrEnum):
    CHILD = "child"
    SNAPSHOT = "snapshot"
    CLONE = "clone"


@dataclass(frozen=True, slots=True)
class Dependant:
    """An object that must be destroyed or promoted before the dataset or snapshot can be destroyed."""

    name: str
    kind: DependantKind
    of: str
    """Direct dependency: a clone's origin, a snapshot's dataset, a child's parent."""
