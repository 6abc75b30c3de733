# SPDX-License-Identifier: Apache-2.0
"""Requests for jobs: one type for each, from the body of HTTP to the operation that plans it."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BaseModel

from appliance.domain.errors import InvalidError
from appliance.zfs.model import VdevSpec


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of them. A field that defaults to UNSET is not changed unless it is given; null has a meaning of its own there."""

    @classmethod
    def of(cls, body: BaseModel, **path: str) -> Self:
        """From a body, and what the path names. Raises InvalidError for what this request does not have."""
        defaults = {field.name: field.default for field in msgspec.structs.fields(cls)}
        given: dict[str, object] = dict(path)
        for name, value in body.model_dump().items():
            if name not in defaults:
                if value not in (None, False):
                    raise InvalidError(name, f"{cls.__name__} has no such field", ", ".join(defaults))
            elif name in body.model_fields_set or defaults[name] is not UNSET:
                given[name] = value
        return msgspec.convert(given, cls)


# --- datastores


class ShownRequest(Request, frozen=True, kw_only=True):
    """How hosts see a datastore: `lun` is of VMFS; `clients`, `versions` and `squash` are of NFS. Null: as before, or usual."""

    host_groups: list[str] | None = None
    lun: int | None = None
    clients: list[str] | None = None
    versions: list[str] | None = None
    squash: str | None = None


class CreateDatastore(ShownRequest, frozen=True, kw_only=True):
    """A new one. `size` in bytes; `soft_threshold` in percent of it."""

    kind: Literal["vmfs", "nfs"] = "vmfs"
    name: str
    pool: str
    size: int
    block_size: int | None = None
    record_size: int | None = None
    thick: bool = False
    compression: str = "lz4"
    sync: str = "standard"
    soft_threshold: int | None = None
    encrypted: bool = False


class ChangeDatastore(Request, frozen=True, kw_only=True):
    id: str
    name: str | None = None
    soft_threshold: int | None | UnsetType = UNSET
    lun: int | None = None
    host_groups: list[str] | None = None
    clients: list[str] | None = None
    versions: list[str] | None = None
    squash: str | None = None
    thick: bool | None = None
    force: bool = False


class GrowDatastore(Request, frozen=True, kw_only=True):
    """To `size` bytes."""

    id: str
    size: int


class SetQuota(Request, frozen=True, kw_only=True):
    """Of an NFS datastore, in bytes."""

    id: str
    size: int


class DeleteDatastore(Request, frozen=True, kw_only=True):
    id: str
    force: bool = False


class RestoreDatastore(ShownRequest, frozen=True, kw_only=True):
    """A deleted one, with its own name unless another is given."""

    id: str
    name: str | None = None


class PurgeDatastore(Request, frozen=True, kw_only=True):
    id: str


class AdoptDataset(ShownRequest, frozen=True, kw_only=True):
    """`known_as`: see designation.known_as."""

    dataset: str
    name: str
    identity: Literal["new", "keep"] = "new"
    known_as: Mapping[str, Any] | None = None


class ForgetDatastore(Request, frozen=True, kw_only=True):
    id: str
    force: bool = False


# --- snapshots


class CreateSnapshots(Request, frozen=True, kw_only=True):
    """Of datastores of one pool; `schedule` is the one that takes them. Nobody can destroy them for `protect_days`."""

    name: str
    datastores: list[str]
    schedule: str | None = None
    protect_days: int = 0


class DeleteSnapshot(Request, frozen=True, kw_only=True):
    id: str
    snapshot: str


class RetireSnapshots(Request, frozen=True, kw_only=True):
    """By retention: full `names` of snapshots of a pool; `about` are their datastores. Protection of the `expired` has ended."""

    pool: str
    names: list[str]
    about: list[str]
    expired: list[str] = []


class RollBack(Request, frozen=True, kw_only=True):
    """Datastore `id` to a snapshot. `destroy`: newer snapshots that go. `may_destroy`: whether the caller may destroy any."""

    id: str
    snapshot: str
    force: bool = False
    destroy: list[str] = []
    may_destroy: bool = False


class CloneDatastore(ShownRequest, frozen=True, kw_only=True):
    """Of a snapshot of datastore `id`, or of now."""

    id: str
    name: str
    snapshot: str | None = None


class PromoteDatastore(Request, frozen=True, kw_only=True):
    id: str


class HoldSnapshot(Request, frozen=True, kw_only=True):
    id: str
    snapshot: str
    tag: str


class ReleaseSnapshot(Request, frozen=True, kw_only=True):
    id: str
    snapshot: str
    tag: str


# --- pools


class PlanPool(Request, frozen=True, kw_only=True):
    """The layout that creating, or with `extend` extending, would give. No job."""

    name: str
    vdevs: list[VdevSpec]
    extend: bool = False
    force: bool = False


class CreatePool(Request, frozen=True, kw_only=True):
    """On empty devices. A device's block is 2 to the power of `ashift` bytes, which can't be changed later."""

    name: str
    vdevs: list[VdevSpec]
    ashift: int = 12
    autotrim: bool = False
    force: bool = False


class DestroyPool(Request, frozen=True, kw_only=True):
    """One without datastores; `force`: with the other datasets that are in it."""

    pool: str
    force: bool = False


class ExtendPool(Request, frozen=True, kw_only=True):
    name: str
    vdevs: list[VdevSpec]
    force: bool = False


class ChangePool(Request, frozen=True, kw_only=True):
    """Thresholds of capacity alerts, in percent. Null is the usual."""

    pool: str
    warning_percent: int | None | UnsetType = UNSET
    critical_percent: int | None | UnsetType = UNSET


class ReplaceDevice(Request, frozen=True, kw_only=True):
    """`device` by path, name or GUID."""

    pool: str
    device: str
    new_device: str
    force: bool = False


class ChangeDevice(Request, frozen=True, kw_only=True):
    """`clear` resets its error counters."""

    pool: str
    device: str
    action: Literal["offline", "online", "clear"]


class AttachDevice(Request, frozen=True, kw_only=True):
    """`device` by path, name or GUID, which `new_device` then mirrors."""

    pool: str
    device: str
    new_device: str
    force: bool = False


class DetachDevice(Request, frozen=True, kw_only=True):
    """From its mirror; `device` by path, name or GUID."""

    pool: str
    device: str


class RemoveDevice(Request, frozen=True, kw_only=True):
    """A spare, cache or log; `device` by path, name or GUID."""

    pool: str
    device: str


class TrimPool(Request, frozen=True, kw_only=True):
    pool: str
    action: Literal["start", "stop"]


class UpgradePool(Request, frozen=True, kw_only=True):
    pool: str


class ImportPool(Request, frozen=True, kw_only=True):
    """`pool` by name or GUID."""

    pool: str
    new_name: str | None = None
    force: bool = False


class ExportPool(Request, frozen=True, kw_only=True):
    """Its datastores go out of service first."""

    pool: str
    force: bool = False


class ScrubPool(Request, frozen=True, kw_only=True):
    """Starts, pauses or stops it. `schedule` is the one that starts it."""

    pool: str
    action: Literal["start", "pause", "stop"]
    schedule: str | None = None


# --- others


class CloneFile(Request, frozen=True, kw_only=True):
    """A file of NFS datastore `id`, by paths in it."""

    id: str
    source: str
    destination: str
    fast: bool = False


class RestoreVm(Request, frozen=True, kw_only=True):
    """From a snapshot of NFS datastore `id`: the VM's folder, by its path in the snapshot, to folder `name` next to it."""

    id: str
    snapshot: str
    folder: str
    name: str


class CreateBundle(Request, frozen=True, kw_only=True):
    """A support bundle."""
