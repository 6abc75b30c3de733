# SPDX-License-Identifier: Apache-2.0
"""Error messages of zfs and zpool as ZfsErrors.

The texts are those of libzfs of OpenZFS 2.3: libzfs_util.c, libzfs_crypto.c, zpool_main.c, zpool_vdev.c.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from shlex import quote

from appliance.zfs import errors
from appliance.zfs.errors import ZfsError
from appliance.zfs.names import pool_of

NOT_LOADED = "OpenZFS is not loaded. Run: modprobe zfs. If that fails: apt full-upgrade, then reboot"
"""DKMS builds OpenZFS only for kernels whose headers are installed, which are those of the newest."""


@dataclass(frozen=True, slots=True)
class Request:
    operation: str
    name: str = ""
    new_name: str = ""
    device: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def pool(self) -> str:
        return pool_of(self.name)


Maker = Callable[[Request, re.Match[str]], ZfsError]


def translate(request: Request, complaint: str) -> ZfsError:
    """The error for a message of zfs or zpool; UnexpectedFailure with the text of an unknown message."""
    for pattern, make in _KNOWN:
        if match := pattern.search(complaint):
            return make(request, match)
    return errors.UnexpectedFailure(request.operation, complaint.strip()[:2000] or "failed without a message")


def _missing(request: Request, name: str) -> ZfsError:
    if "@" in name:
        return errors.NoSuchSnapshot(name)
    return errors.NoSuchDataset(name)


def _missing_above(request: Request, _: re.Match[str]) -> ZfsError:
    return errors.NoSuchDataset((request.new_name or request.name).rpartition("/")[0])


def _exists(request: Request, match: re.Match[str]) -> ZfsError:
    name = request.new_name or request.name
    return errors.SnapshotExists(name) if "@" in name else errors.DatasetExists(name)


def _invalid_property(request: Request, match: re.Match[str]) -> ZfsError:
    name = match["property"]
    allowed = match.groupdict().get("allowed") or ""
    values = tuple(value.strip() for value in allowed.split("|") if value.strip())
    return errors.InvalidProperty(name, request.properties.get(name, ""), match[0].strip()[:300], values)


def _in_use(*, can_force: bool) -> Maker:
    def make(_: Request, match: re.Match[str]) -> ZfsError:
        return errors.DeviceInUse(match["device"], match["by"].strip(), can_force=can_force)

    return make


def _foreign(request: Request, match: re.Match[str]) -> ZfsError:
    host = re.search(r"Last accessed by (.*?) (?:\(hostid|at )", match[0])
    return errors.PoolInUseElsewhere(match["name"] or request.name, host[1] if host else "")


def _sectors(request: Request, _: re.Match[str]) -> ZfsError:
    """Of `zpool add`, whose new vdevs can have the pool's ashift, or of `attach` and `replace`, whose new disk cannot."""
    if request.device:
        return errors.NotSupported(f"{request.device} has larger sectors than the vdev allows. Use a disk with 512-byte sectors")
    pool = quote(request.pool)
    remedy = f"As root, read its ashift: zpool get ashift {pool} all-vdevs. Set that value: zpool set ashift=VALUE {pool}"
    return errors.NotSupported(f"Pool {request.pool} and the new disks differ in sector size. {remedy}. Then repeat")


def _layout(*, can_force: bool) -> Maker:
    return lambda _, match: errors.InvalidLayout(" ".join(match["reason"].split())[:500], can_force=can_force)


def _device(request: Request, match: re.Match[str]) -> ZfsError:
    return errors.NoSuchDevice(match["device"])


_DEVICE_IN_USE = r"(?P<device>/\S+) (?P<by>(?:is |contains |has |in use)[^\n]*)"
_QUOTED = r"'(?P<name>[^'\n]*)'"
_TABLE: tuple[tuple[str, Maker], ...] = (
    # the whole machine
    (r"ZFS modules are not loaded|/dev/zfs|Failed to initialize", lambda r, f: errors.EngineUnavailable(NOT_LOADED)),
    (r"permission denied", lambda r, f: errors.EngineUnavailable("not allowed: only root may do this")),
    (
        r"pool I/O is currently suspended|I/O suspended",
        lambda r, f: errors.PoolUnavailable(r.pool, "suspended: its devices do not answer"),
    ),
    # encryption, before names: its messages name datasets too
    (
        r"Incorrect key provided|must be 32 bytes|Raw key too (?:long|short)|Hex key|Passphrase too|[Kk]ey must be",
        lambda r, f: errors.WrongKey(r.name),
    ),
    (r"Key already loaded", lambda r, f: errors.KeyLoaded(r.name)),
    (
        r"key .*?not loaded|must be loaded|[Kk]ey unavailable|parent's key|Parent key",
        lambda r, f: errors.KeyNotLoaded(r.name),
    ),
    (r"is not encrypted|not an encrypted", lambda r, f: errors.NotEncryptionRoot(r.name)),
    # pools and devices
    (r"use '-f' to override the following errors:\n" + _DEVICE_IN_USE, _in_use(can_force=True)),
    (r"the following errors must be manually repaired:\n" + _DEVICE_IN_USE, _in_use(can_force=False)),
    (
        r"(?P<device>/\S+) (?P<by>is part of active pool[^\n]*|is reserved as a hot spare[^\n]*|"
        r"is currently mounted[^\n]*|is in use[^\n]*)",
        _in_use(can_force=False),
    ),
    (
        r"cannot (?:use|open) '(?P<device>[^']*)': (?:Device or resource busy|device is busy)",
        lambda r, f: errors.DeviceInUse(f["device"], "a program or the kernel has it open", can_force=False),
    ),
    (r"cannot (?:open|resolve path|stat) '?(?P<device>/[^'\n:]*)'?:? *(?:No such|no such|not a|Not a)", _device),
    (r"cannot resolve path '(?P<device>[^'\n]*)'", _device),
    (r"cannot relabel '(?P<device>[^'\n]*)': unable to open device", _device),
    (r"no such device '?(?P<device>/[^'\n]*)'?", _device),
    (r"no such device in pool|no such vdev", lambda r, f: errors.NoSuchDevice(r.device, r.pool)),
    (
        r"(?:is|are) less than the minimum size|device is too small|too small",
        lambda r, f: errors.DeviceTooSmall(r.device or "a device"),
    ),
    (
        r"one or more (?:vdevs|devices) (?:refer to the same device|is currently in use|are currently)",
        lambda r, f: errors.DeviceInUse(r.device or "a device", "it is named twice or in another pool", can_force=False),
    ),
    (r"use '-f' to override the following errors:\n(?P<reason>.*)", _layout(can_force=True)),
    (r"the following errors must be manually repaired:\n(?P<reason>.*)", _layout(can_force=False)),
    (r"invalid vdev specification:?(?P<reason>.*)", _layout(can_force=False)),
    (r"no valid replicas|insufficient replicas", lambda r, f: errors.InsufficientReplicas(r.pool, r.device)),
    (r"different physical sector sizes is not allowed", _sectors),
    (
        r"(?P<reason>only (?:inactive hot spares|hot spares|applicable to|top-level)[^\n]*|can only be attached[^\n]*|"
        r"root pool[^\n]*|"
        r"invalid config; all top-level vdevs must[^\n]*|operation not supported on this type of vdev|"
        r"can only attach to mirrors[^\n]*|not supported[^\n]*)",
        lambda r, f: errors.NotSupported(f"{r.device or r.name}: {f['reason']}"),
    ),
    (r"currently scrubbing", lambda r, f: errors.ScanRunning(r.name, "scrub")),
    (r"currently trimming", lambda r, f: errors.ScanRunning(r.name, "trim")),
    (r"no active trim", lambda r, f: errors.NoScanRunning(r.name)),
    (
        r"no devices in pool support trim[^\n]*|trim operations? (?:are |is )?not supported[^\n]*",
        lambda r, f: errors.NotSupported(f"no device of pool {r.name} supports trim"),
    ),
    (r"currently resilvering", lambda r, f: errors.ScanRunning(r.name, "resilver")),
    (r"no active scrub|scrub is paused", lambda r, f: errors.NoScanRunning(r.name)),
    (
        r"(?s)(?:cannot import '(?P<name>[^'\n]*)': )?pool was previously in use from another system.*|"
        r"is in use by another",
        _foreign,
    ),
    (
        r"a pool with that name (?:already exists|is already)|pool '[^']*' already exists|: pool already exists",
        lambda r, f: errors.PoolExists(r.new_name or r.name),
    ),
    (r"no such pool available|no such pool(?! or dataset)|no pools available to import", lambda r, f: errors.NoSuchPool(r.pool)),
    (
        r"(?:cannot import '(?P<name>[^'\n]*)'(?: as '[^'\n]*')?: )?"
        r"(?:one or more devices is currently unavailable|pool may be in use|insufficient|corrupted|is missing)",
        lambda r, f: errors.PoolUnavailable(f["name"] or r.name, "devices are missing or damaged"),
    ),
    (r"pool is read-only|read-only pool", lambda r, f: errors.PoolUnavailable(r.pool, "imported read-only")),
    # datasets
    (r"parent does not exist|no such parent", _missing_above),
    (
        r"cannot (?:open|create|destroy|get|set|mount|unmount|promote|list)?[^\n]*?"
        + _QUOTED
        + r": (?:dataset does not exist|no such pool or dataset)",
        lambda r, f: _missing(r, f["name"]),
    ),
    (r"does not exist|no datasets? available|could not find any snapshots", lambda r, f: _missing(r, r.name)),
    (r"(?:dataset|snapshot) already exists|is already a dataset|target dataset .*exists", _exists),
    (
        r"(?:pool or )?dataset is busy|target is busy|pool is busy|device is busy|is busy|currently mounted",
        lambda r, f: errors.DatasetBusy(r.name),
    ),
    (
        r"quota exceeded|[Dd]isc quota exceeded|disk quota exceeded",
        lambda r, f: errors.OutOfSpace(r.new_name or r.name, quota=True),
    ),
    (r"size is less than current used or reserved space", lambda r, f: errors.OutOfSpace(r.name, quota=True)),
    (r"out of space|size is greater than available space|no space left", lambda r, f: errors.OutOfSpace(r.new_name or r.name)),
    (r"has children|has dependent clones|has snapshots", lambda r, f: errors.HasDependants(r.name, ())),
    (r"not a cloned filesystem|not a clone", lambda r, f: errors.NotAClone(r.name)),
    (
        r"cross-device|must be in the same pool|source and target pools differ",
        lambda r, f: errors.DifferentPools((r.name, r.new_name)),
    ),
    # properties
    (r"'(?P<property>[^'\n]+)' must be one of '(?P<allowed>[^'\n]*)'", _invalid_property),
    (r"'(?P<property>[^'\n]+)' (?:must|does not|is readonly|cannot|property|is not)[^\n]*", _invalid_property),
    (r"(?:invalid|bad) property (?:value |name )?'(?P<property>[^'\n]+)'[^\n]*", _invalid_property),
    (
        r"volume size must be a multiple of volume block size|volume size",
        lambda r, f: errors.InvalidProperty("volsize", "", f[0]),
    ),
    (
        r"invalid character|invalid name|name is too long|empty component|trailing slash|missing dataset",
        lambda r, f: errors.InvalidName(r.new_name or r.name, f[0]),
    ),
    (
        r"legacy mountpoint|no mountpoint set|'canmount' property is set to 'off'|mountpoint or dataset is busy",
        lambda r, f: errors.NotSupported(f"{r.name} has no mountpoint, or canmount=off"),
    ),
)
_KNOWN = [(re.compile(pattern), make) for pattern, make in _TABLE]
