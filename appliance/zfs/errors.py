# SPDX-License-Identifier: Apache-2.0
"""Errors of a ZfsEngine: a class for each case that a caller handles, with its values.

Every engine raises the same classes, and the root helper carries them over its socket by `code` and fields. The text
of an error has the reason and the remedy; nothing was changed, unless the class says otherwise.
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
    """Text with str.format placeholders for the fields."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __str__(self) -> str:
        return self.text.format(**self.details())

    def details(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # all are dataclasses


# --- names and values: errors of the caller


class InvalidName(ZfsError):
    """A name that ZFS does not allow (zfsconcepts(7), zpool-create(8))."""

    name: str
    reason: str
    text = "{name!r} is not a name ZFS allows: {reason}"


class InvalidProperty(ZfsError):
    """A property that does not exist, must not be set, or not to this value (zfsprops(7), zpoolprops(7))."""

    property: str
    value: str
    reason: str
    allowed: tuple[str, ...] = ()
    """Allowed values, or a text with the range; empty if no value is allowed."""

    def __str__(self) -> str:
        allowed = f" (allowed: {', '.join(self.allowed)})" if self.allowed else ""
        return f"{self.property}={self.value!r}: {self.reason}{allowed}"


class InvalidLayout(ZfsError):
    reason: str
    can_force: bool = False

    def __str__(self) -> str:
        return f"{self.reason}{' (force overrides this)' if self.can_force else ''}"


# --- missing objects


class NoSuchPool(ZfsError):
    pool: str
    text = "no pool {pool}"


class NoSuchDataset(ZfsError):
    """No file system or volume of this name, or it is of the other kind."""

    name: str
    text = "no dataset {name}"


class NoSuchSnapshot(ZfsError):
    name: str
    text = "no snapshot {name}"


class NoSuchHold(ZfsError):
    name: str
    tag: str
    text = "{name} has no hold {tag!r}"


class NoSuchDevice(ZfsError):
    """The device does not exist, or is not part of the pool."""

    device: str
    pool: str = ""
    """The pool without the device; empty if the device does not exist."""

    def __str__(self) -> str:
        return f"{self.device} is not part of pool {self.pool}" if self.pool else f"no device {self.device}"


# --- conflicts


class PoolExists(ZfsError):
    pool: str
    text = "a pool named {pool} is imported already"


class DatasetExists(ZfsError):
    name: str
    text = "{name} exists already"


class SnapshotExists(ZfsError):
    name: str
    text = "{name} exists already"


class HoldExists(ZfsError):
    name: str
    tag: str
    text = "{name} has a hold {tag!r} already"


class DatasetBusy(ZfsError):
    """A program has the volume open, or uses the mounted file system."""

    name: str
    holders: tuple[str, ...] = ()
    """Known holders, for instance "zvaai-target (process 4711)"."""

    def __str__(self) -> str:
        return f"{self.name} is in use{' by ' + ', '.join(self.holders) if self.holders else ''}"


class HoldersUnknown(ZfsError):
    """It is unknown whether a program has the dataset open, so nothing was done."""

    name: str
    reason: str
    text = "cannot find out whether a program has {name} open: {reason}. Try again"


class HasDependants(ZfsError):
    """Snapshots, children or clones depend on it: see ZfsEngine.dependants."""

    name: str
    dependants: tuple[str, ...]
    """The first 100 names, sorted."""

    def __str__(self) -> str:
        more = ", ..." if len(self.dependants) > 5 else ""
        return f"others depend on {self.name}: {', '.join(self.dependants[:5])}{more}"


class SnapshotHeld(ZfsError):
    name: str
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} is held{' by ' + ', '.join(self.tags) if self.tags else ''}"


class NewerSnapshots(ZfsError):
    """A rollback would destroy these snapshots without permission."""

    name: str
    newer: tuple[str, ...]
    """Names of snapshots, oldest first."""

    def __str__(self) -> str:
        return f"{self.name} is not the newest snapshot: a rollback would destroy {', '.join(self.newer)}"


class NotAClone(ZfsError):
    name: str
    text = "{name} is not a clone"


class DifferentPools(ZfsError):
    """An atomic step and a clone are limited to one pool."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"not in one pool: {', '.join(self.names[:5])}"


class DeviceInUse(ZfsError):
    """The device belongs to a pool, is mounted, or has other data."""

    device: str
    by: str
    can_force: bool
    """Whether `force` overrides this; False while the device is in use."""
    text = "{device} is in use: {by}"


class DeviceTooSmall(ZfsError):
    device: str
    text = "{device} is too small"


class DeviceFaulted(ZfsError):
    """It was set online, and does not work."""

    device: str
    pool: str
    text = "{device} of pool {pool} does not work. Clear its errors, or replace it"


class InsufficientReplicas(ZfsError):
    """Without this device the pool could not serve its data."""

    pool: str
    device: str
    text = "pool {pool} has no other copy of the data on {device}"


class ScanRunning(ZfsError):
    pool: str
    function: str
    """"scrub" or "resilver"."""
    text = "a {function} of pool {pool} is running"


class NoScanRunning(ZfsError):
    pool: str
    text = "no scrub of pool {pool} is running"


# --- space


class OutOfSpace(ZfsError):
    name: str
    quota: bool = False
    """Whether a quota is the limit, not the pool."""

    def __str__(self) -> str:
        return f"{self.name}: {'a quota does not leave' if self.quota else 'the pool has not'} the space this needs"


# --- encryption


class KeyNotLoaded(ZfsError):
    name: str
    text = "the key of {name} is not loaded"


class KeyLoaded(ZfsError):
    name: str
    text = "the key of {name} is loaded already"


class WrongKey(ZfsError):
    """The key does not fit, or is not of the dataset's key format."""

    name: str
    text = "this is not the key of {name}"


class NoStoredKey(ZfsError):
    name: str
    text = "this server does not have the key of {name}"


class KeyConfirmed(ZfsError):
    """A user has confirmed a copy of the key: it is not exported again."""

    name: str
    text = "the key of {name} was exported and confirmed, and is not shown again"


class NotEncryptionRoot(ZfsError):
    """The dataset is not encrypted, or uses the key of a dataset above."""

    name: str
    root: str = ""
    """The encryption root; empty if the dataset is not encrypted."""

    def __str__(self) -> str:
        return f"{self.name} uses the key of {self.root}" if self.root else f"{self.name} is not encrypted"


# --- pool or engine unavailable


class PoolUnavailable(ZfsError):
    """The pool is suspended, faulted or read-only. The request may be done in part."""

    pool: str
    reason: str
    text = "pool {pool}: {reason}"


class PoolBusy(ZfsError):
    """Another change of the pool is running. Nothing was changed."""

    pool: str
    operation: str
    text = "pool {pool} is busy: {operation} has not ended. Try again when it has"


class PoolInUseElsewhere(ZfsError):
    """Another system used the pool last and did not export it. If that system is off, import with `force`."""

    pool: str
    host: str = ""

    def __str__(self) -> str:
        return f"Cannot import {self.pool}: {self.host or 'another system'} used it last and did not export it"


class Timeout(ZfsError):
    """The time limit passed. The caller must check whether the change was made."""

    operation: str
    seconds: float
    text = "{operation} did not end within {seconds:g} s and may still take effect. Check before you repeat it"


class NotSupported(ZfsError):
    """This OpenZFS, this pool's features or this kind of dataset does not support it."""

    reason: str
    text = "{reason}"


class Refused(ZfsError):
    """The root helper refuses an argument outside its limits, or the caller."""

    reason: str
    text = "refused by the helper: {reason}"


class EngineUnavailable(ZfsError):
    """No OpenZFS module is loaded, or the helper does not answer. The caller must check whether a change was made."""

    reason: str
    text = "{reason}"


class UnexpectedFailure(ZfsError):
    """A failure without a class, with OpenZFS's text. The caller must check whether a part was done."""

    operation: str
    output: str
    """At most 2,000 characters."""
    text = "{operation}: {output}"


def error_classes() -> dict[str, type[ZfsError]]:
    return {error.code: error for error in ZfsError.__subclasses__()}
