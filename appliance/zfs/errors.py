# SPDX-License-Identifier: Apache-2.0
"""What a ZfsEngine raises: one class for each thing a caller may act on, with the values it needs for that.

Every engine raises the same classes, and the root helper carries them over its socket by `code` and fields. The text of an error
says what happened and what to do; nothing was changed unless the class says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import ClassVar, dataclass_transform


@dataclass_transform(eq_default=False)
class ZfsError(Exception):
    """Any failure of a ZFS operation. Each subclass is a dataclass."""

    code: ClassVar[str]
    """Name of the class on the wire and in the API's problem+json: NoSuchPool is "no_such_pool"."""
    text: ClassVar[str]
    """A format of str.format, for the fields."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __str__(self) -> str:
        return self.text.format(**self.details())

    def details(self) -> dict[str, object]:
        """The fields, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # all are dataclasses


# --- names and values: the caller's to mend


class InvalidName(ZfsError):
    """A name that ZFS does not allow (zfsconcepts(7), zpool-create(8))."""

    name: str
    reason: str
    text = "{name!r} is not a name ZFS allows: {reason}"


class InvalidProperty(ZfsError):
    """A property that does not exist there, may not be set, or not to this value (zfsprops(7), zpoolprops(7))."""

    property: str
    value: str
    reason: str
    allowed: tuple[str, ...] = ()
    """The values allowed, or one text that tells the range; empty when no value is."""

    def __str__(self) -> str:
        allowed = f" (allowed: {', '.join(self.allowed)})" if self.allowed else ""
        return f"{self.property}={self.value!r}: {self.reason}{allowed}"


class InvalidLayout(ZfsError):
    """Vdevs that make no pool, or none that should be made without `force`."""

    reason: str
    can_force: bool = False

    def __str__(self) -> str:
        return f"{self.reason}{' (force overrides this)' if self.can_force else ''}"


# --- what is not there


class NoSuchPool(ZfsError):
    """No pool of this name is imported, or can be."""

    pool: str
    text = "no pool {pool}"


class NoSuchDataset(ZfsError):
    """No file system or volume of this name, or it is of the other kind."""

    name: str
    text = "no dataset {name}"


class NoSuchSnapshot(ZfsError):
    """No snapshot of this name."""

    name: str
    text = "no snapshot {name}"


class NoSuchHold(ZfsError):
    """The snapshot has no hold of this tag."""

    name: str
    tag: str
    text = "{name} has no hold {tag!r}"


class NoSuchDevice(ZfsError):
    """The device is not there, or not part of the pool."""

    device: str
    pool: str = ""
    """The pool it is no part of; empty when it does not exist."""

    def __str__(self) -> str:
        return f"{self.device} is not part of pool {self.pool}" if self.pool else f"no device {self.device}"


# --- what is in the way


class PoolExists(ZfsError):
    """A pool of this name is imported already."""

    pool: str
    text = "a pool named {pool} is imported already"


class DatasetExists(ZfsError):
    """The name is taken by a file system or volume."""

    name: str
    text = "{name} exists already"


class SnapshotExists(ZfsError):
    """The name is taken by a snapshot."""

    name: str
    text = "{name} exists already"


class HoldExists(ZfsError):
    """The snapshot has a hold of this tag."""

    name: str
    tag: str
    text = "{name} has a hold {tag!r} already"


class DatasetBusy(ZfsError):
    """A program has the volume open, or uses the mounted file system."""

    name: str
    holders: tuple[str, ...] = ()
    """Who, as far as it can be seen: "zvaai-target (process 4711)"."""

    def __str__(self) -> str:
        return f"{self.name} is in use{' by ' + ', '.join(self.holders) if self.holders else ''}"


class HoldersUnknown(ZfsError):
    """Whether a program has the dataset open could not be found out, so nothing was done to it."""

    name: str
    reason: str
    text = "cannot find out whether a program has {name} open: {reason}. Try again"


class HasDependants(ZfsError):
    """Snapshots, children or clones hang on it: see ZfsEngine.dependants."""

    name: str
    dependants: tuple[str, ...]
    """The first 100 names, sorted."""

    def __str__(self) -> str:
        more = ", ..." if len(self.dependants) > 5 else ""
        return f"{self.name} has dependants: {', '.join(self.dependants[:5])}{more}"


class SnapshotHeld(ZfsError):
    """A hold keeps the snapshot: release it first."""

    name: str
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} is held{' by ' + ', '.join(self.tags) if self.tags else ''}"


class NewerSnapshots(ZfsError):
    """A rollback would destroy these snapshots, and was not told to."""

    name: str
    newer: tuple[str, ...]
    """Names of snapshots, oldest first."""

    def __str__(self) -> str:
        return f"{self.name} is not the newest snapshot: a rollback would destroy {', '.join(self.newer)}"


class NotAClone(ZfsError):
    """Only what was made by `clone` can be promoted."""

    name: str
    text = "{name} is not a clone"


class DifferentPools(ZfsError):
    """One atomic step, and a clone or a rename, stay inside one pool."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"not in one pool: {', '.join(self.names[:5])}"


class DeviceInUse(ZfsError):
    """The device belongs to a pool, is mounted, or carries data of something else."""

    device: str
    by: str
    can_force: bool
    """Whether `force` overrides this: never while the device is in use now."""
    text = "{device} is in use: {by}"


class DeviceTooSmall(ZfsError):
    """It cannot take the place of the other device."""

    device: str
    text = "{device} is too small"


class InsufficientReplicas(ZfsError):
    """Without this device the pool could not serve its data."""

    pool: str
    device: str
    text = "pool {pool} has no other copy of what is on {device}"


class ScanRunning(ZfsError):
    """A scrub or a resilver of the pool runs already."""

    pool: str
    function: str
    """"scrub" or "resilver"."""
    text = "a {function} of pool {pool} is running"


class NoScanRunning(ZfsError):
    """There is no scrub to pause or to stop."""

    pool: str
    text = "no scrub of pool {pool} is running"


# --- space


class OutOfSpace(ZfsError):
    """The pool, or a quota above, has not the space asked for."""

    name: str
    quota: bool = False
    """Whether a quota is in the way, not the pool's space."""

    def __str__(self) -> str:
        return f"{self.name}: {'a quota does not leave' if self.quota else 'the pool has not'} the space this needs"


# --- encryption


class KeyNotLoaded(ZfsError):
    """The dataset is encrypted and its key is not loaded."""

    name: str
    text = "the key of {name} is not loaded"


class KeyLoaded(ZfsError):
    """The key is loaded already."""

    name: str
    text = "the key of {name} is loaded already"


class WrongKey(ZfsError):
    """The key does not fit, or is not of the dataset's key format."""

    name: str
    text = "this is not the key of {name}"


class NoKeptKey(ZfsError):
    """The appliance has not the key of this encryption root."""

    name: str
    text = "the key of {name} is not here: bring it, as it was exported from the server that made it"


class KeyToldAlready(ZfsError):
    """Somebody has shown that he has the key: it is not told again."""

    name: str
    text = "the key of {name} was exported and confirmed, and is not told again"


class NotEncryptionRoot(ZfsError):
    """The dataset is not encrypted, or its key is that of the dataset above."""

    name: str
    root: str = ""
    """The dataset whose key it is; empty when the dataset is not encrypted."""

    def __str__(self) -> str:
        return f"{self.name} uses the key of {self.root}" if self.root else f"{self.name} is not encrypted"


# --- the pool or the engine can't do it now


class PoolUnavailable(ZfsError):
    """The pool is suspended, faulted or read-only. What was asked for may have been done in part."""

    pool: str
    reason: str
    text = "pool {pool}: {reason}"


class PoolBusy(ZfsError):
    """Another change of the pool is running. Nothing was changed."""

    pool: str
    operation: str
    text = "pool {pool} is busy: {operation} has not ended. Try again when it has"


class PoolInUseElsewhere(ZfsError):
    """The pool was last used by another system and not exported: import it with `force` once that system is known to be off."""

    pool: str
    host: str = ""

    def __str__(self) -> str:
        return f"pool {self.pool} was last used by {self.host or 'another system'} and not exported"


class Timeout(ZfsError):
    """The time limit passed. Whether the change was made has to be looked up."""

    operation: str
    seconds: float
    text = "{operation}: no end within {seconds:g} s; whether it was done has to be looked up"


class NotSupported(ZfsError):
    """This OpenZFS, this pool's features or this kind of dataset can't do it."""

    reason: str
    text = "{reason}"


class Refused(ZfsError):
    """The root helper does not do this for its caller: an argument beyond its bounds, or a caller it does not serve."""

    reason: str
    text = "refused by the helper: {reason}"


class EngineUnavailable(ZfsError):
    """No OpenZFS module is loaded, or the helper does not answer. Whether a change was made has to be looked up."""

    reason: str
    text = "{reason}"


class UnexpectedFailure(ZfsError):
    """A failure with no class of its own: the text is OpenZFS's. Whether a part was done has to be looked up."""

    operation: str
    output: str
    """At most 2,000 characters."""
    text = "{operation}: {output}"


def error_classes() -> dict[str, type[ZfsError]]:
    """All of them, by code."""
    return {error.code: error for error in ZfsError.__subclasses__()}
