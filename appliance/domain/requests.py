# SPDX-License-Identifier: Apache-2.0
"""Requests for jobs: one type for each, which is the body of HTTP too, and what the operation gets that plans it."""

import contextlib
import ipaddress
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from appliance.domain.designation import NamesCreate
from appliance.domain.fields import BytesInput, DatastoreName, Identifier, Lun, Model, Percent, SnapshotName
from appliance.zfs.model import MAX_DEVICES, Redundancy, Role, VdevSpec


class Request(Model):
    """Values of the HTTP path, and those that only the appliance sets, are private attributes: a body cannot contain them."""

    def of(self, **values: Any) -> Self:
        """Sets the private attributes of these names."""
        for name, value in values.items():
            setattr(self, f"_{name}", value)
        return self


class OfDatastore(Request):
    _id: str = PrivateAttr("")

    @property
    def id(self) -> str:
        return self._id


class OfSnapshot(OfDatastore):
    _snapshot: str = PrivateAttr("")

    @property
    def snapshot(self) -> str:
        return self._snapshot


class OfPool(Request):
    _pool: str = PrivateAttr("")

    @property
    def pool(self) -> str:
        return self._pool


# --- datastores

Groups = Annotated[list[Identifier], Field(max_length=256)]
Clients = Annotated[list[Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[0-9A-Fa-f:./]+$")]], Field(max_length=256)]
Kind = Literal["vmfs", "nfs"]


def _is_anyone(client: str) -> bool:
    with contextlib.suppress(ValueError):  # reported elsewhere
        return ipaddress.ip_network(client, strict=False).prefixlen == 0
    return False


class ShownRequest(Request):
    """How hosts see a datastore. `lun` is of VMFS, the rest but `host_groups` of NFS. Null: as before, or the default.

    Access for any host that reaches the server needs `anyone`.
    """

    anyone: bool = False
    clients: Clients | None = None
    lun: Lun | None = None
    host_groups: Groups | None = None

    @field_validator("clients")
    @classmethod
    def _anyone(cls, clients: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if not info.data.get("anyone") and (wide := [client for client in clients or () if _is_anyone(client)]):
            raise ValueError(f"{', '.join(wide)} lets any host that reaches the server mount it; anyone (--anyone) allows that")
        return clients


class DatastoreCreate(ShownRequest):
    """A new datastore: `size` in bytes, 1 GiB to 64 TiB, a multiple of 1 MiB. `soft_threshold` in percent of it.

    `lun` and `block_size` are of VMFS; `record_size` and `clients` (addresses and networks, in addition to the addresses of the
    host groups) of NFS. `thick`: all its space is reserved, and it shares no blocks.
    """

    kind: Kind = "vmfs"
    name: DatastoreName
    pool: Annotated[str, Field(min_length=1, max_length=255)]
    size: BytesInput
    block_size: Literal[8192, 16384, 32768, 65536, 131072] | None = None
    record_size: Literal[8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576] | None = None
    thick: bool = False
    compression: Literal["lz4", "zstd", "zstd-fast", "off"] = "lz4"
    sync: Literal["standard", "always"] = "standard"
    soft_threshold: Percent | None = None
    encrypted: bool = False


class DatastoreUpdate(ShownRequest, OfDatastore):
    """Fields to change; a `soft_threshold` of null takes it away.

    `thick` is changed alone: to thick only while it shares no blocks, and the pool has room; to thin at any time.
    """

    name: DatastoreName | None = None
    soft_threshold: Percent | None = None
    thick: bool | None = None
    force: bool = False


class SizeUpdate(OfDatastore):
    """The new size in bytes."""

    size: BytesInput


class QuotaUpdate(OfDatastore):
    """The new quota in bytes, larger or smaller; not below what the datastore holds."""

    size: BytesInput


class DeleteDatastore(OfDatastore):
    force: bool = False


class RestoreCreate(ShownRequest, OfDatastore):
    """Restores it from the trash. Null: as before its deletion, without groups that are deleted since."""

    name: DatastoreName | None = None


class PurgeDatastore(OfDatastore):
    pass


class ForgetDatastore(OfDatastore):
    force: bool = False


class PromoteDatastore(OfDatastore):
    pass


class AdoptionCreate(ShownRequest):
    """A volume or file system that is not a datastore, or a copy; `keep` takes the identity it claims, if no other has it.

    With that it takes the place of what it is a copy of: fields that are left out are as hosts saw the original.

    `known_as` are the names hosts know it by from another target, which it keeps. `force`: also while hosts use the original.
    """

    dataset: Annotated[str, Field(min_length=1, max_length=255)]
    name: DatastoreName
    identity: Literal["new", "keep"] = "new"
    known_as: NamesCreate | None = None
    force: bool = False


# --- snapshots

ExistingSnapshot = Annotated[str, Field(min_length=1, max_length=255)]
"""Other programs take snapshots too, with any name that OpenZFS allows."""


class SnapshotCreate(Request):
    """Snapshots of one or several datastores of a pool, in one atomic step."""

    name: SnapshotName
    datastores: Annotated[list[Identifier], Field(min_length=1, max_length=256)]
    protect_days: Annotated[int, Field(ge=0, le=3650)] = 0
    """Days in which the snapshots cannot be destroyed."""
    _schedule: str | None = PrivateAttr(None)
    """The schedule that takes them."""

    @property
    def schedule(self) -> str | None:
        return self._schedule


class DeletionCreate(OfDatastore):
    """`names`: snapshots of the datastore, as its list names them."""

    names: Annotated[list[ExistingSnapshot], Field(min_length=1, max_length=10_000)]


class RetireSnapshots(Request):
    """By retention: full `names` of snapshots of a pool; `about` are their datastores. Protection of the `expired` has ended."""

    pool: str
    names: list[str]
    about: list[str]
    expired: list[str] = []


class RollbackCreate(OfSnapshot):
    """`destroy`: newer snapshots that may be destroyed. `force`: also while hosts are logged in."""

    force: bool = False
    destroy: Annotated[list[ExistingSnapshot], Field(max_length=10_000)] = []
    _may_destroy: bool = PrivateAttr(False)

    @property
    def may_destroy(self) -> bool:
        """Whether the caller may destroy newer snapshots."""
        return self._may_destroy


class CloneCreate(ShownRequest, OfDatastore):
    """An instant copy, of a snapshot or of now."""

    name: DatastoreName
    snapshot: ExistingSnapshot | None = None


class HoldCreate(OfSnapshot):
    """`tag` says who needs the snapshot, or what for; those that begin with zvaai are the appliance's own."""

    tag: SnapshotName


class ReleaseSnapshot(OfSnapshot):
    _tag: str = PrivateAttr("")

    @property
    def tag(self) -> str:
        return self._tag


# --- pools

Device = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
PoolName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]


class VdevCreate(Model):
    """A vdev to create; in a stripe each device is a separate vdev."""

    devices: Annotated[list[Device], Field(min_length=1, max_length=MAX_DEVICES)]
    redundancy: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"] = "stripe"
    role: Literal["data", "log", "cache", "spare", "special", "dedup"] = "data"


class VdevsCreate(Request):
    vdevs: Annotated[list[VdevCreate], Field(min_length=1, max_length=MAX_DEVICES)]
    force: bool = False

    @property
    def specs(self) -> list[VdevSpec]:
        return [
            VdevSpec(devices=tuple(vdev.devices), redundancy=Redundancy(vdev.redundancy), role=Role(vdev.role))
            for vdev in self.vdevs
        ]


class PoolCreate(VdevsCreate):
    """A new pool. `force` overrides what a device carries, never that it is in use now.

    Blocks of its devices have 2 to the power of `ashift` bytes, which can't be changed later: 12 (4 KiB) fits nearly all disks.
    """

    name: PoolName
    ashift: Annotated[int, Field(ge=9, le=16)] = 12
    autotrim: bool = False


class PlanCreate(VdevsCreate):
    """The layout that would be created, or with `extend` added."""

    name: PoolName
    extend: bool = False


class ExtensionCreate(OfPool, VdevsCreate):
    """Vdevs to add."""


class DestroyPool(OfPool):
    force: bool = False


class UpgradePool(OfPool):
    pass


class ExportPool(OfPool):
    force: bool = False


Thresholds = Annotated[int, Field(ge=1, le=100)]


class PoolUpdate(OfPool):
    """Omitted fields do not change; null sets the default: 80 and 90."""

    warning_percent: Thresholds | None = None
    critical_percent: Thresholds | None = None


class ReplacementCreate(OfPool):
    """`device` is a name or GUID from the pool's vdevs."""

    device: Device
    new_device: Device
    force: bool = False


class AttachmentCreate(ReplacementCreate):
    """`device` is a name or GUID from the pool's vdevs."""


class DeviceUpdate(OfPool):
    """Action on a device of the pool, given by name or GUID. `clear` resumes a suspended pool and clears all its devices."""

    device: Device
    action: Literal["offline", "online", "clear"]


class DetachmentCreate(OfPool):
    """A device of the pool, by name, path or GUID."""

    device: Device


class RemovalCreate(DetachmentCreate):
    """A spare, a cache or a log device, by name, path or GUID."""


class TrimCreate(OfPool):
    action: Literal["start", "stop"]


class ImportCreate(Request):
    """`pool` is a name or GUID."""

    pool: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
    new_name: PoolName | None = None
    force: bool = False


class ScrubCreate(OfPool):
    action: Literal["start", "pause", "stop"]
    _schedule: str | None = PrivateAttr(None)
    """The schedule that starts it."""

    @property
    def schedule(self) -> str | None:
        return self._schedule


# --- others

FilePath = Annotated[str, Field(min_length=1, max_length=1023)]


class FileCloneCreate(OfDatastore):
    """One file to a new name, both paths in the datastore, as in `vm/disk-flat.vmdk`. The folder has to be there, the name not.

    `fast` shares all blocks or is refused; otherwise what can't be shared is copied.
    """

    source: FilePath
    destination: FilePath
    fast: bool = False


class RestoreVmCreate(OfSnapshot):
    """`folder`: the VM's, by its path in the snapshot. `name`: of the restored VM, and of its folder, next to the original."""

    folder: Annotated[str, Field(min_length=1, max_length=1023)]
    name: Annotated[str, Field(min_length=1, max_length=200)]


class CreateBundle(Request):
    """A support bundle."""
