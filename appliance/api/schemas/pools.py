# SPDX-License-Identifier: Apache-2.0
"""Pools and their disks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer, Bytes, Guid, Model, Time, Versioned


class VdevTold(Answer):
    """A vdev with those below it."""

    name: str
    kind: str
    guid: Guid
    health: str
    role: str
    path: str | None
    size: Bytes
    allocated: Bytes
    read_errors: int
    write_errors: int
    checksum_errors: int
    trim: Literal["", "active", "suspended", "canceled", "complete"]
    """Empty for a device that was never trimmed, or can't be."""
    trim_progress: float
    vdevs: list[VdevTold] = []


class ScanTold(Answer):
    """The running or else the last scrub or resilver."""

    function: str
    state: str
    started: Time
    ended: Time | None
    progress: float
    errors: int


class PoolTold(Versioned):
    """An imported pool."""

    MEASURED = frozenset(
        {
            "health", "size", "allocated", "free", "fragmentation", "readonly", "error_count", "status", "action", "scan",
            "vdevs", "upgradable", "bclone_used", "bclone_saved", "bclone_ratio",
        }
    )  # fmt: skip
    name: str
    guid: Guid
    health: str
    size: Bytes
    allocated: Bytes
    free: Bytes
    fragmentation: int
    readonly: bool
    error_count: int
    status: str
    action: str
    scan: ScanTold | None
    vdevs: list[VdevTold]
    ashift: int
    autotrim: bool
    upgradable: bool
    """This OpenZFS has features that the pool has not enabled."""
    of_the_system: bool
    """It carries the running system, so the appliance changes nothing in it."""
    bclone_used: Bytes
    bclone_saved: Bytes
    bclone_ratio: float
    warning_percent: int = 80
    """How full it is when an alert warns, and its hosts are told."""
    critical_percent: int = 90


class PoolPage(Answer):
    """Pools."""

    items: list[PoolTold]
    next_cursor: str | None


Device = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
PoolName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]


class SmartTold(Answer):
    """What a disk says of itself by SMART; null is what it does not tell. One without has `available` false, and the reason."""

    available: bool
    reason: str
    asleep: bool
    passed: bool | None
    temperature: int | None
    temperature_limit: int | None
    power_on_hours: int | None
    reallocated: int | None
    pending: int | None
    uncorrectable: int | None
    wear: int | None
    spare: int | None
    spare_limit: int | None
    critical_warning: int
    asked_at: Time


class DiskTold(Answer):
    """A block device that could be a pool's; `used_by` says by what it is used."""

    path: str
    device: str
    size: Bytes
    model: str
    serial: str
    rotational: bool
    used_by: str | None
    smart: SmartTold | None
    """Null until it was asked."""


class DiskPage(Answer):
    """Disks, by path."""

    items: list[DiskTold]
    next_cursor: str | None


class ImportableTold(Answer):
    """A pool on the machine's devices that is not imported; with a `last_host` importing needs force."""

    name: str
    guid: Guid
    health: str
    status: str
    action: str
    last_host: str | None
    devices: list[str]


class ImportablePage(Answer):
    """Pools that can be imported."""

    items: list[ImportableTold]
    next_cursor: str | None


class VdevAsked(Model):
    """A vdev to make; a stripe makes each device one of its own."""

    devices: Annotated[list[Device], Field(min_length=1, max_length=64)]
    redundancy: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"] = "stripe"
    role: Literal["data", "log", "cache", "spare", "special", "dedup"] = "data"


Vdevs = Annotated[list[VdevAsked], Field(min_length=1, max_length=32)]


class PoolAsked(Model):
    """A new pool. `force` overrides what a device carries, never that it is in use now.

    Blocks of its devices have 2 to the power of `ashift` bytes, which can't be changed later: 12 (4 KiB) fits nearly all disks.
    """

    name: PoolName
    vdevs: Vdevs
    ashift: Annotated[int, Field(ge=9, le=16)] = 12
    autotrim: bool = False
    force: bool = False


class ExtendAsked(Model):
    """Vdevs to add."""

    vdevs: Vdevs
    force: bool = False


class PlanAsked(Model):
    """What would be made, or with `extend` added."""

    name: PoolName
    vdevs: Vdevs
    extend: bool = False
    force: bool = False


class PlanTold(Answer):
    """The layout as `zpool status` would print it."""

    layout: list[str]
    warnings: list[str]


Percent = Annotated[int, Field(ge=1, le=100)]


class PoolChange(Model):
    """What is not given stays; null is the usual: 80 and 90."""

    warning_percent: Percent | None = None
    critical_percent: Percent | None = None


class ReplaceAsked(Model):
    """`device` is a name or GUID that the pool tells."""

    device: Device
    new_device: Device
    force: bool = False


class DeviceName(Model):
    """A device that the pool tells, by name, path or GUID."""

    device: Device


class TrimRequest(Model):
    """What to do."""

    action: Literal["start", "stop"]


class DeviceAsked(Model):
    """What to do with a device that the pool tells, by name or GUID."""

    device: Device
    action: Literal["offline", "online", "clear"]


class ImportAsked(Model):
    """`pool` is a name or GUID."""

    pool: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
    new_name: PoolName | None = None
    force: bool = False


class ScrubAsked(Model):
    """What to do."""

    action: Literal["start", "pause", "stop"]
