# SPDX-License-Identifier: Apache-2.0
"""Pools and their disks."""

from __future__ import annotations

from typing import Literal

from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Bytes, Guid, Time


class VdevResponse(Answer):
    """A vdev with those below it."""

    name: str
    kind: str
    guid: Guid
    health: str
    role: str
    path: str | None
    was: str | None
    """Former path of a missing device, whose name is its GUID."""
    size: Bytes
    allocated: Bytes
    read_errors: int
    write_errors: int
    checksum_errors: int
    trim: Literal["", "active", "suspended", "canceled", "complete"]
    """Empty for a device that was never trimmed, or can't be."""
    vdevs: list[VdevResponse] = []


class ScanResponse(Answer):
    """The running or else the last scrub or resilver."""

    function: str
    state: str
    started: Time
    ended: Time | None
    progress: float
    repaired: Bytes
    """Bytes repaired by a scrub, or written by a resilver."""
    errors: int
    """Errors that could not be repaired."""


class PoolResponse(Versioned):
    """An imported pool."""

    MEASURED = frozenset(
        {
            "health", "size", "allocated", "free", "available", "fragmentation", "readonly", "error_count", "status", "action",
            "scan", "vdevs", "upgradable", "bclone_used", "bclone_saved", "used_percent",
            "usable",
        }
    )  # fmt: skip
    name: str
    guid: Guid
    health: str
    size: Bytes
    """Raw, as `allocated` and `free`: with the parity of RAID-Z."""
    allocated: Bytes
    free: Bytes
    available: Bytes | None
    """For new data, without parity and reservations; null if the pool cannot be read."""
    usable: Bytes | None
    """Size for data, without parity; the part that is not `available` is used or reserved. Null if the pool cannot be read."""
    used_percent: int
    """With reserved space, if that leaves clearly less room than the disks. Alerts compare it with their thresholds."""
    fragmentation: int
    readonly: bool
    error_count: int
    status: str
    action: str
    scan: ScanResponse | None
    vdevs: list[VdevResponse]
    ashift: int
    autotrim: bool
    upgradable: bool
    """This OpenZFS has features that the pool has not enabled."""
    of_the_system: bool
    """The pool has the running system, so the appliance never changes it."""
    bclone_used: Bytes
    bclone_saved: Bytes
    warning_percent: int
    """Percentage used at which an alert is raised and hosts get a warning."""
    critical_percent: int


class SmartResponse(Answer):
    """SMART data of a disk; null if the disk reports none. Without SMART, `available` is false, with the reason."""

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
    severity: Literal["warning", "critical"] | None
    """The worst severity of what alerts report about the disk, also after an acknowledgement. Null: nothing to report."""
    read_at: Time


class DiskResponse(Answer):
    """A block device that could be a pool's; `used_by` says by what it is used."""

    path: str
    device: str
    size: Bytes
    model: str
    serial: str
    rotational: bool
    used_by: str | None
    in_use: bool
    """True for a disk that no pool can take. Old content, which `force` overwrites, does not count."""
    smart: SmartResponse | None
    """Null until the disk was read."""


class ImportableResponse(Answer):
    """A pool on the machine's devices that is not imported; with a `last_host` importing needs force.

    A `last_host` "unknown" means that the pool was being resilvered: importing needs force only if it was not exported.
    """

    name: str
    guid: Guid
    health: str
    status: str
    action: str
    last_host: str | None
    devices: list[str]


class PlanResponse(Answer):
    """The layout as `zpool status` would print it."""

    layout: list[str]
    warnings: list[str]
