# SPDX-License-Identifier: Apache-2.0
"""What a ZfsEngine raises: one class for each thing a caller may act on, with the values it needs for that.

Every engine raises the same classes, and the root helper carries them over its socket by `code` and fields. The text of an error
says what happened and what to do; nothing was changed unless the class says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar


class ZfsError(Exception):
    """Any failure of a ZFS operation."""

    code: ClassVar[str]
    """Name of the class on the wire and in the API's problem+json."""

    def details(self) -> dict[str, object]:
        """The fields, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # all are dataclasses


# --- names and values: the caller's to mend


@dataclass(eq=False)
class InvalidName(ZfsError):
    """A name that ZFS does not allow (zfsconcepts(7), zpool-create(8))."""

    name: str
    reason: str
    code: ClassVar[str] = "invalid_name"

    def __str__(self) -> str:
        return f"{self.name!r} is not a name ZFS allows: {self.reason}"


@dataclass(eq=False)
class InvalidProperty(ZfsError):
    """A property that does not exist there, may not be set, or not to this value (zfsprops(7), zpoolprops(7))."""

    property: str
    value: str
    reason: str
    allowed: tuple[str, ...] = ()
    """The values allowed, or one text that tells the range; empty when no value is."""
    code: ClassVar[str] = "invalid_property"

    def __str__(self) -> str:
        allowed = f" (allowed: {', '.join(self.allowed)})" if self.allowed else ""
        return f"{self.property}={self.value!r}: {self.reason}{allowed}"


@dataclass(eq=False)
class InvalidLayout(ZfsError):
    """Vdevs that make no pool, or none that should be made without `force`."""

    reason: str
    can_force: bool = False
    code: ClassVar[str] = "invalid_layout"

    def __str__(self) -> str:
        return f"{self.reason}{' (force overrides this)' if self.can_force else ''}"


# --- what is not there


@dataclass(eq=False)
class NoSuchPool(ZfsError):
    """No pool of this name is imported, or can be."""

    pool: str
    code: ClassVar[str] = "no_such_pool"

    def __str__(self) -> str:
        return f"no pool {self.pool}"


@dataclass(eq=False)
class NoSuchDataset(ZfsError):
    """No file system or volume of this name, or it is of the other kind."""

    name: str
    code: ClassVar[str] = "no_such_dataset"

    def __str__(self) -> str:
        return f"no dataset {self.name}"


@dataclass(eq=False)
class NoSuchSnapshot(ZfsError):
    """No snapshot of this name."""

    name: str
    code: ClassVar[str] = "no_such_snapshot"

    def __str__(self) -> str:
        return f"no snapshot {self.name}"


@dataclass(eq=False)
class NoSuchHold(ZfsError):
    """The snapshot has no hold of this tag."""

    name: str
    tag: str
    code: ClassVar[str] = "no_such_hold"

    def __str__(self) -> str:
        return f"{self.name} has no hold {self.tag!r}"


@dataclass(eq=False)
class NoSuchDevice(ZfsError):
    """The device is not there, or not part of the pool."""

    device: str
    pool: str = ""
    """The pool it is no part of; empty when it does not exist."""
    code: ClassVar[str] = "no_such_device"

    def __str__(self) -> str:
        return f"{self.device} is not part of pool {self.pool}" if self.pool else f"no device {self.device}"


# --- what is in the way


@dataclass(eq=False)
class PoolExists(ZfsError):
    """A pool of this name is imported already."""

    pool: str
    code: ClassVar[str] = "pool_exists"

    def __str__(self) -> str:
        return f"a pool named {self.pool} is imported already"


@dataclass(eq=False)
class DatasetExists(ZfsError):
    """The name is taken by a file system or volume."""

    name: str
    code: ClassVar[str] = "dataset_exists"

    def __str__(self) -> str:
        return f"{self.name} exists already"


@dataclass(eq=False)
class SnapshotExists(ZfsError):
    """The name is taken by a snapshot."""

    name: str
    code: ClassVar[str] = "snapshot_exists"

    def __str__(self) -> str:
        return f"{self.name} exists already"


@dataclass(eq=False)
class HoldExists(ZfsError):
    """The snapshot has a hold of this tag."""

    name: str
    tag: str
    code: ClassVar[str] = "hold_exists"

    def __str__(self) -> str:
        return f"{self.name} has a hold {self.tag!r} already"


@dataclass(eq=False)
class DatasetBusy(ZfsError):
    """A program has the volume open, or uses the mounted file system."""

    name: str
    holders: tuple[str, ...] = ()
    """Who, as far as it can be seen: "zvaai-target (process 4711)"."""
    code: ClassVar[str] = "dataset_busy"

    def __str__(self) -> str:
        return f"{self.name} is in use{' by ' + ', '.join(self.holders) if self.holders else ''}"


@dataclass(eq=False)
class HoldersUnknown(ZfsError):
    """Whether a program has the dataset open could not be found out, so nothing was done to it."""

    name: str
    reason: str
    code: ClassVar[str] = "holders_unknown"

    def __str__(self) -> str:
        return f"cannot find out whether a program has {self.name} open: {self.reason}. Try again"


@dataclass(eq=False)
class HasDependants(ZfsError):
    """Snapshots, children or clones hang on it: see ZfsEngine.dependants."""

    name: str
    dependants: tuple[str, ...]
    """The first 100 names, sorted."""
    code: ClassVar[str] = "has_dependants"

    def __str__(self) -> str:
        more = ", ..." if len(self.dependants) > 5 else ""
        return f"{self.name} has dependants: {', '.join(self.dependants[:5])}{more}"


@dataclass(eq=False)
class SnapshotHeld(ZfsError):
    """A hold keeps the snapshot: release it first."""

    name: str
    tags: tuple[str, ...] = ()
    code: ClassVar[str] = "snapshot_held"

    def __str__(self) -> str:
        return f"{self.name} is held{' by ' + ', '.join(self.tags) if self.tags else ''}"


@dataclass(eq=False)
class NewerSnapshots(ZfsError):
    """A rollback would destroy these snapshots, and was not told to."""

    name: str
    newer: tuple[str, ...]
    """Names of snapshots, oldest first."""
    code: ClassVar[str] = "newer_snapshots"

    def __str__(self) -> str:
        return f"{self.name} is not the newest snapshot: a rollback would destroy {', '.join(self.newer)}"


@dataclass(eq=False)
class NotAClone(ZfsError):
    """Only what was made by `clone` can be promoted."""

    name: str
    code: ClassVar[str] = "not_a_clone"

    def __str__(self) -> str:
        return f"{self.name} is not a clone"


@dataclass(eq=False)
class DifferentPools(ZfsError):
    """One atomic step, and a clone or a rename, stay inside one pool."""

    names: tuple[str, ...]
    code: ClassVar[str] = "different_pools"

    def __str__(self) -> str:
        return f"not in one pool: {', '.join(self.names[:5])}"


@dataclass(eq=False)
class DeviceInUse(ZfsError):
    """The device belongs to a pool, is mounted, or carries data of something else."""

    device: str
    by: str
    can_force: bool
    """Whether `force` overrides this: never while the device is in use now."""
    code: ClassVar[str] = "device_in_use"

    def __str__(self) -> str:
        return f"{self.device} is in use: {self.by}"


@dataclass(eq=False)
class DeviceTooSmall(ZfsError):
    """It cannot take the place of the other device."""

    device: str
    code: ClassVar[str] = "device_too_small"

    def __str__(self) -> str:
        return f"{self.device} is too small"


@dataclass(eq=False)
class InsufficientReplicas(ZfsError):
    """Without this device the pool could not serve its data."""

    pool: str
    device: str
    code: ClassVar[str] = "insufficient_replicas"

    def __str__(self) -> str:
        return f"pool {self.pool} has no other copy of what is on {self.device}"


@dataclass(eq=False)
class ScanRunning(ZfsError):
    """A scrub or a resilver of the pool runs already."""

    pool: str
    function: str
    """"scrub" or "resilver"."""
    code: ClassVar[str] = "scan_running"

    def __str__(self) -> str:
        return f"a {self.function} of pool {self.pool} is running"


@dataclass(eq=False)
class NoScanRunning(ZfsError):
    """There is no scrub to pause or to stop."""

    pool: str
    code: ClassVar[str] = "no_scan_running"

    def __str__(self) -> str:
        return f"no scrub of pool {self.pool} is running"


# --- space


@dataclass(eq=False)
class OutOfSpace(ZfsError):
    """The pool, or a quota above, has not the space asked for."""

    name: str
    quota: bool = False
    """Whether a quota is in the way, not the pool's space."""
    code: ClassVar[str] = "out_of_space"

    def __str__(self) -> str:
        return f"{self.name}: {'a quota does not leave' if self.quota else 'the pool has not'} the space this needs"


# --- encryption


@dataclass(eq=False)
class KeyNotLoaded(ZfsError):
    """The dataset is encrypted and its key is not loaded."""

    name: str
    code: ClassVar[str] = "key_not_loaded"

    def __str__(self) -> str:
        return f"the key of {self.name} is not loaded"


@dataclass(eq=False)
class KeyLoaded(ZfsError):
    """The key is loaded already."""

    name: str
    code: ClassVar[str] = "key_loaded"

    def __str__(self) -> str:
        return f"the key of {self.name} is loaded already"


@dataclass(eq=False)
class WrongKey(ZfsError):
    """The key does not fit, or is not of the dataset's key format."""

    name: str
    code: ClassVar[str] = "wrong_key"

    def __str__(self) -> str:
        return f"this is not the key of {self.name}"


@dataclass(eq=False)
class NoKeptKey(ZfsError):
    """The appliance has not the key of this encryption root."""

    name: str
    code: ClassVar[str] = "no_kept_key"

    def __str__(self) -> str:
        return f"the key of {self.name} is not here: bring it, as it was exported from the server that made it"


@dataclass(eq=False)
class KeyToldAlready(ZfsError):
    """Somebody has shown that he has the key: it is not told again."""

    name: str
    code: ClassVar[str] = "key_told_already"

    def __str__(self) -> str:
        return f"the key of {self.name} was exported and confirmed, and is not told again"


@dataclass(eq=False)
class NotEncryptionRoot(ZfsError):
    """The dataset is not encrypted, or its key is that of the dataset above."""

    name: str
    root: str = ""
    """The dataset whose key it is; empty when the dataset is not encrypted."""
    code: ClassVar[str] = "not_encryption_root"

    def __str__(self) -> str:
        return f"{self.name} uses the key of {self.root}" if self.root else f"{self.name} is not encrypted"


# --- the pool or the engine can't do it now


@dataclass(eq=False)
class PoolUnavailable(ZfsError):
    """The pool is suspended, faulted or read-only. What was asked for may have been done in part."""

    pool: str
    reason: str
    code: ClassVar[str] = "pool_unavailable"

    def __str__(self) -> str:
        return f"pool {self.pool}: {self.reason}"


@dataclass(eq=False)
class PoolBusy(ZfsError):
    """Another change of the pool is running. Nothing was changed."""

    pool: str
    operation: str
    code: ClassVar[str] = "pool_busy"

    def __str__(self) -> str:
        return f"pool {self.pool} is busy: {self.operation} has not ended. Try again when it has"


@dataclass(eq=False)
class PoolInUseElsewhere(ZfsError):
    """The pool was last used by another system and not exported: import it with `force` once that system is known to be off."""

    pool: str
    host: str = ""
    code: ClassVar[str] = "pool_in_use_elsewhere"

    def __str__(self) -> str:
        return f"pool {self.pool} was last used by {self.host or 'another system'} and not exported"


@dataclass(eq=False)
class Timeout(ZfsError):
    """The time limit passed. Whether the change was made has to be looked up."""

    operation: str
    seconds: float
    code: ClassVar[str] = "timeout"

    def __str__(self) -> str:
        return f"{self.operation}: no end within {self.seconds:g} s; whether it was done has to be looked up"


@dataclass(eq=False)
class NotSupported(ZfsError):
    """This OpenZFS, this pool's features or this kind of dataset can't do it."""

    reason: str
    code: ClassVar[str] = "not_supported"

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class Refused(ZfsError):
    """The root helper does not do this for its caller: an argument beyond its bounds, or a caller it does not serve."""

    reason: str
    code: ClassVar[str] = "refused"

    def __str__(self) -> str:
        return f"refused by the helper: {self.reason}"


@dataclass(eq=False)
class EngineUnavailable(ZfsError):
    """No OpenZFS module is loaded, or the helper does not answer. Whether a change was made has to be looked up."""

    reason: str
    code: ClassVar[str] = "engine_unavailable"

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class UnexpectedFailure(ZfsError):
    """A failure with no class of its own: the text is OpenZFS's. Whether a part was done has to be looked up."""

    operation: str
    output: str
    """At most 2,000 characters."""
    code: ClassVar[str] = "unexpected_failure"

    def __str__(self) -> str:
        return f"{self.operation}: {self.output}"


def error_classes() -> dict[str, type[ZfsError]]:
    """All of them, by code."""
    return {error.code: error for error in ZfsError.__subclasses__()}
