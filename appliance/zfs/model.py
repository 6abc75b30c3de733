# SPDX-License-Identifier: Apache-2.0
"""What a ZfsEngine tells of: pools, datasets, snapshots. Values only, no way back to the engine.

Sizes are bytes, times are seconds since 1970 (UTC), GUIDs are unsigned 64-bit: strings at the API's edge. Names of fields are
OpenZFS's own (zfsprops(7), zpoolprops(7), vdevprops(7)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

# --- properties


class Source(StrEnum):
    """Where a property's value comes from (zfs-get(8), SOURCE)."""

    LOCAL = "local"
    RECEIVED = "received"
    INHERITED = "inherited"
    DEFAULT = "default"
    TEMPORARY = "temporary"
    NONE = "none"
    """The value is told, not set: `used`."""


@dataclass(frozen=True, slots=True)
class Property:
    """A value as `zfs get -p` prints it: sizes in bytes, "none", "on"."""

    value: str
    source: Source
    inherited_from: str | None = None
    """The dataset that has it set, for INHERITED."""


Properties = Mapping[str, Property]

USER_PROPERTY_PREFIX = "zvaai:"


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
    """A spare that stands in for another device."""


class Role(StrEnum):
    """What a top-level vdev is for (zpoolconcepts(7), Virtual Devices)."""

    DATA = "data"
    LOG = "log"
    CACHE = "cache"
    SPARE = "spare"
    SPECIAL = "special"
    DEDUP = "dedup"


class Redundancy(StrEnum):
    """How the devices of a vdev to be made hold the data."""

    STRIPE = "stripe"
    MIRROR = "mirror"
    RAIDZ1 = "raidz1"
    RAIDZ2 = "raidz2"
    RAIDZ3 = "raidz3"


@dataclass(frozen=True, slots=True, kw_only=True)
class VdevSpec:
    """A vdev to be made. STRIPE takes any number of devices and makes each a vdev of its own; CACHE and SPARE are STRIPE."""

    devices: tuple[str, ...]
    """Absolute paths, best those of /dev/disk/by-id: they survive another cabling."""
    redundancy: Redundancy = Redundancy.STRIPE
    role: Role = Role.DATA


@dataclass(frozen=True, slots=True, kw_only=True)
class Vdev:
    """A vdev of a pool, with those below it."""

    name: str
    """"mirror-0", "raidz1-1", "replacing-0"; a device's path."""
    kind: str
    """"mirror", "raidz", "disk", "file", "replacing", "spare", "missing", ..."""
    guid: int
    health: Health
    role: Role = Role.DATA
    path: str | None = None
    """Of a device."""
    size: int = 0
    """Of a top-level vdev: what it can hold; of a device: its own size, or 0 where OpenZFS does not tell it."""
    allocated: int = 0
    """0 below a top-level vdev."""
    read_errors: int = 0
    write_errors: int = 0
    checksum_errors: int = 0
    slow_ios: int = 0
    trim: str = ""
    """Of a device: "active", "suspended", "canceled" or "complete"; empty when it was never trimmed, or can't be."""
    trim_progress: float = 0.0
    """From 0 to 1."""
    was: str | None = None
    """The path a missing device had."""
    vdevs: tuple[Vdev, ...] = ()

    def devices(self) -> tuple[Vdev, ...]:
        """All devices at or below it."""
        return tuple(leaf for vdev in self.vdevs for leaf in vdev.devices()) if self.vdevs else (self,)


class ScanState(StrEnum):
    """How far a scrub or resilver is."""

    SCANNING = "scanning"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The running or else the last scrub or resilver of a pool (zpool-scrub(8), zpool-status(8))."""

    function: str
    """"scrub" or "resilver"."""
    state: ScanState
    started: int
    ended: int | None = None
    to_examine: int = 0
    examined: int = 0
    issued: int = 0
    """Bytes read and checked: with `to_examine`, the progress."""
    processed: int = 0
    """Bytes repaired or resilvered."""
    errors: int = 0
    """That could not be repaired."""

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        if self.state == ScanState.FINISHED or (self.to_examine == 0 and self.state != ScanState.CANCELED):
            return 1.0
        return min(1.0, self.issued / self.to_examine) if self.to_examine else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """An imported pool."""

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
    altroot: str | None = None
    error_count: int = 0
    """Files and blocks known to be damaged."""
    status: str = ""
    """What `zpool status` says is wrong; empty when nothing is."""
    action: str = ""
    """What it says to do."""
    scan: Scan | None = None
    vdevs: tuple[Vdev, ...] = ()
    """Top-level vdevs of every role, spares and cache devices too."""
    bclone_used: int = 0
    """Space of the blocks that are cloned, counted once."""
    bclone_saved: int = 0
    """Space that cloning saves."""
    bclone_ratio: float = 1.0
    features: Mapping[str, FeatureState] = field(default_factory=dict)
    autotrim: bool = False
    of_the_system: bool = False
    """It carries the running system, so the root helper changes nothing in it. The helper sets this."""


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
    """Only what is ONLINE or DEGRADED can be imported."""
    status: str = ""
    action: str = ""
    last_host: str | None = None
    """The other system that used it last and did not export it: importing needs `force`."""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What `create_pool` and `add_vdevs` do, or with `dry_run` would do."""

    pool: str
    layout: tuple[str, ...]
    """Lines of the resulting layout, indented as `zpool status` prints them."""
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A block device that could be a pool's."""

    path: str
    """The name to use: below /dev/disk/by-id where there is one."""
    device: str
    """The kernel's name: /dev/sda."""
    size: int
    model: str = ""
    serial: str = ""
    rotational: bool = False
    used_by: str | None = None
    """"pool tank", "mounted on /boot", "ext4", "partitions"; None when nothing is seen on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskHealth:
    """What a disk says of itself by SMART. None is what it does not tell."""

    available: bool
    reason: str = ""
    """Why it tells nothing: it has none, or is asleep."""
    asleep: bool = False
    unanswered: bool = False
    """It was asked and failed to answer: whether it has SMART, and what it would say, is not known."""
    passed: bool | None = None
    """Its own verdict: False for a disk that will fail, or has."""
    temperature: int | None = None
    """Degrees Celsius."""
    temperature_limit: int | None = None
    """Where the disk names one beyond which it must not be."""
    power_on_hours: int | None = None
    reallocated: int | None = None
    """Sectors that were put elsewhere: ATA attribute 5; SCSI's grown defects."""
    pending: int | None = None
    """Sectors that can't be read and wait for a write: ATA attribute 197."""
    uncorrectable: int | None = None
    """Errors that were not corrected: ATA attribute 198, SCSI's error counters, NVMe's media errors."""
    wear: int | None = None
    """Percent of its life that are used; may be more than 100."""
    spare: int | None = None
    """Percent of NVMe's spare blocks that are left."""
    spare_limit: int | None = None
    critical_warning: int = 0
    """NVMe's bits (NVM Express, SMART / Health Information Log Page)."""


# --- datasets


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Where a dataset's space is (zfsprops(7)); `used` is the sum of the four used_by_*."""

    used: int
    available: int
    referenced: int
    used_by_dataset: int
    used_by_snapshots: int
    used_by_children: int
    used_by_refreservation: int
    logical_used: int
    logical_referenced: int
    written: int
    """Since the newest snapshot."""
    compress_ratio: float


class KeyStatus(StrEnum):
    """Of an encrypted dataset's key."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"


class KeyFormat(StrEnum):
    """zfsprops(7), keyformat."""

    RAW = "raw"
    """32 bytes."""
    HEX = "hex"
    """64 hexadecimal digits."""
    PASSPHRASE = "passphrase"
    """8 to 512 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """How a dataset is encrypted."""

    algorithm: str
    root: str
    """The dataset whose key it is, itself or one above: load_key and unload_key take this one."""
    key_format: KeyFormat
    key_status: KeyStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEncryption:
    """How a dataset is to be encrypted. The key stays out of logs, of `repr` and of the audit."""

    key: bytes = field(repr=False)
    key_format: KeyFormat = KeyFormat.RAW
    algorithm: str = "aes-256-gcm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What file systems and volumes have in common."""

    name: str
    guid: int
    createtxg: int
    creation: int
    space: Space
    origin: str | None = None
    """The snapshot it is a clone of."""
    encryption: Encryption | None = None
    properties: Properties = field(default_factory=dict)
    """The native properties of properties.SHOWN that the kind has, and all user properties, set or inherited."""

    @property
    def pool(self) -> str:
        """Name of the pool."""
        return self.name.split("/", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(Dataset):
    """A zvol."""

    volsize: int
    volblocksize: int
    refreservation: int
    """0 for a thin volume."""

    @property
    def device(self) -> str:
        """The link udev makes; it comes some milliseconds after the volume."""
        return f"/dev/zvol/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem(Dataset):
    """A file system."""

    mountpoint: str | None
    """None for `none` and `legacy`."""
    mounted: bool
    recordsize: int
    quota: int
    """0 for none; so for the next three."""
    refquota: int
    reservation: int
    refreservation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetList:
    """Of one moment, each sorted by name."""

    filesystems: list[Filesystem]
    volumes: list[Volume]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot."""

    name: str
    """DATASET@TAG."""
    guid: int
    createtxg: int
    """The same for all that were made in one step."""
    creation: int
    used: int
    """What its destruction alone would free."""
    referenced: int
    holds: int = 0
    """How many: `holds` tells which."""
    clones: tuple[str, ...] = ()
    defer_destroy: bool = False
    properties: Mapping[str, Property] = field(default_factory=dict)
    """User properties whose names were asked for."""

    @property
    def dataset(self) -> str:
        """What it is a snapshot of."""
        return self.name.split("@", 1)[0]

    @property
    def tag(self) -> str:
        """The part behind @."""
        return self.name.split("@", 1)[1]


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold on a snapshot: it can't be destroyed (zfs-hold(8))."""

    tag: str
    created: int


class DependantKind(StrEnum):
    """What hangs on a dataset or snapshot."""

    CHILD = "child"
    SNAPSHOT = "snapshot"
    CLONE = "clone"


@dataclass(frozen=True, slots=True)
class Dependant:
    """Something that has to go, or to be promoted, before the dataset or snapshot can be destroyed."""

    name: str
    kind: DependantKind
    of: str
    """What it hangs on directly: a clone's origin, a snapshot's dataset, a child's parent."""
