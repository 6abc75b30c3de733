# SPDX-License-Identifier: Apache-2.0
"""Datastores of both kinds, and the volumes and file systems they could be made of."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from appliance.api.schemas.common import ListQuery
from appliance.api.types import (
    Answer,
    Bytes,
    BytesInput,
    DatastoreName,
    Guid,
    Identifier,
    Lun,
    Model,
    Password,
    Percent,
    Time,
    Versioned,
)

Groups = Annotated[list[Identifier], Field(max_length=256)]


Clients = Annotated[list[Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[0-9A-Fa-f:./]+$")]], Field(max_length=256)]
Versions = Annotated[list[Literal["3", "4"]], Field(min_length=1, max_length=2)]
Squash = Literal["none", "root", "all"]
Kind = Literal["vmfs", "nfs"]


class DatastoreQuery(ListQuery):
    """Filter of datastores."""

    kind: Kind | None = None
    state: Literal["active", "deleted", "copy", "missing"] | None = None


class DesignationResponse(Answer):
    """Names that hosts know a datastore by from another target, and that it keeps."""

    vendor: str
    product: str
    serial_number: str
    designators: list[str]


class DatastoreResponse(Versioned):
    """A datastore; a deleted one that can be restored; a copy of one, which is not served, with the reason; a missing one.

    `kind` is vmfs (a LUN) or nfs (an export). A missing one keeps its LUN number, or its export's number and share, until its
    pool is there again, or it is forgotten. `thick`: its whole size is reserved, and it shares no blocks. `reserved` is its
    refreservation. Of an NFS datastore `size` is its quota (0: none), without the slack of a thick one, `block_size` its record
    size, `share` the path that hosts mount, and `clients` the addresses that may mount it in addition to its host groups.
    `previous_host_groups` and `previous_clients` are those of a deleted one, which a restore brings back.
    """

    MEASURED = frozenset({"reserved", "used", "referenced", "snapshot_bytes", "available", "key_status"})
    id: str
    kind: Kind
    state: Literal["active", "deleted", "copy", "missing"]
    name: str
    dataset: str
    pool: str
    guid: Guid
    uuid: str | None
    size: Bytes
    block_size: int
    thick: bool
    reserved: Bytes
    used: Bytes
    referenced: Bytes
    snapshot_bytes: Bytes
    compression: str
    sync: str
    origin: str | None
    created_at: Time
    lun: int | None
    soft_threshold: int | None
    deleted_at: Time | None
    previous_host_groups: list[str]
    previous_clients: list[str]
    copy_reason: str | None
    copy_of: str | None
    host_groups: list[str]
    designation: DesignationResponse | None
    available: Bytes
    export: int | None
    share: str | None
    versions: list[str]
    squash: str | None
    clients: list[str]
    encryption: str | None
    key_status: Literal["available", "unavailable"] | None


class DatastoreSpace(Answer):
    """VMFS: bytes on disk in the last synced state. NFS: space of its files. Null is unknown, or of the other kind.

    `unique` is an upper bound unless `unique_exact`. `snapshot` are bytes that a snapshot also holds. `admitted` is the sum
    of the files' sizes, each rounded up to the record size, and 16 KiB a file: of a thick datastore at most `size`. While the NFS
    server is `counting`, files of a thick datastore grow by 1 MiB only. `problem` says why `admitted` may be wrong or unknown.
    """

    thick: bool
    size: Bytes
    allocated: Bytes | None = None
    shared: Bytes | None = None
    unique: Bytes | None = None
    unique_exact: bool = False
    snapshot: Bytes | None = None
    as_of: Time | None = None
    admitted: Bytes | None = None
    counting: bool = False
    problem: str = ""


class ClientAccess(Model):
    """Clients of NFS. Access for any host that reaches the server needs `anyone`."""

    anyone: Annotated[bool, Field(exclude=True)] = False
    clients: Clients | None = None

    @field_validator("clients")
    @classmethod
    def _anyone(cls, clients: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if not info.data.get("anyone") and (wide := [client for client in clients or () if client.endswith("/0")]):
            raise ValueError(f"{', '.join(wide)} lets any host that reaches the server mount it; anyone (--anyone) allows that")
        return clients


class DatastoreCreate(ClientAccess):
    """A new datastore: `size` in bytes, 1 GiB to 64 TiB, a multiple of 1 MiB. `soft_threshold` in percent of it.

    `lun` and `block_size` are of VMFS; `record_size`, `clients` (addresses and networks, in addition to the addresses of the
    host groups), `versions` and `squash` (who is nobody on the server; ESXi needs "none") of NFS. `thick`: all its space is
    reserved, and it shares no blocks.
    """

    kind: Kind = "vmfs"
    name: DatastoreName
    pool: Annotated[str, Field(min_length=1, max_length=255)]
    size: BytesInput
    block_size: Literal[8192, 16384, 32768, 65536, 131072] | None = None
    record_size: Literal[8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576] | None = None
    thick: bool = False
    compression: Literal["lz4", "zstd", "zstd-fast", "off"] = "lz4"
    sync: Literal["standard", "always", "disabled"] = "standard"
    soft_threshold: Percent | None = None
    lun: Lun | None = None
    host_groups: Groups = []
    versions: Versions | None = None
    squash: Squash | None = None
    encrypted: bool = False


class DatastoreUpdate(ClientAccess):
    """Fields to change; a `soft_threshold` of null takes it away.

    `thick` is changed alone: to thick only while it shares no blocks, and the pool has room; to thin at any time.
    """

    name: DatastoreName | None = None
    soft_threshold: Percent | None = None
    lun: Lun | None = None
    host_groups: Groups | None = None
    versions: Versions | None = None
    squash: Squash | None = None
    thick: bool | None = None
    force: bool = False


class GrowRequest(Model):
    """The new size in bytes."""

    size: BytesInput


class QuotaUpdate(Model):
    """The new quota in bytes, larger or smaller; not below what the datastore holds."""

    size: BytesInput


class RestoreRequest(ClientAccess):
    """Restores it from the trash. Null: as before its deletion, without groups that are deleted since."""

    name: DatastoreName | None = None
    lun: Lun | None = None
    host_groups: Groups | None = None
    versions: Versions | None = None
    squash: Squash | None = None


Shown = Annotated[str, Field(max_length=16, pattern=r"^[ -~]*$")]
Text = Annotated[str, Field(min_length=1, max_length=253)]
Digits = Annotated[str, Field(min_length=1, max_length=34, pattern=r"^(0x)?[0-9A-Fa-f]+$")]
PageText = Annotated[str, Field(min_length=8, max_length=16384)]


class LioNames(Model):
    """LIO: values in its configfs folder wwn: `vpd_unit_serial`, `product_id`, `vendor_id` and `company_id`."""

    system: Literal["lio"]
    unit_serial: Annotated[str, Field(min_length=8, max_length=128, pattern=r"^[ -~]+$")]
    model: Annotated[str, Field(min_length=1, max_length=16, pattern=r"^[ -~]+$")]
    vendor: Shown = "LIO-ORG"
    company_id: Digits = "001405"


class ScstNames(Model):
    """SCST: the device's attributes with these names."""

    system: Literal["scst"]
    usn: Text
    t10_vend_id: Shown
    vend_specific_id: Text
    prod_id: Shown
    t10_dev_id: Text | None = None
    eui64_id: Digits | None = None
    naa_id: Digits | None = None


class PageNames(Model):
    """Any target: vital product data pages 80h and 83h that a host reads, in hexadecimal; vendor and product of INQUIRY."""

    system: Literal["pages"]
    page_80: PageText
    page_83: PageText
    vendor: Shown
    product: Shown


class GivenNames(Model):
    """Names in the target's format."""

    system: Literal["given"]
    serial_number: Text
    designators: Annotated[list[Text], Field(min_length=1, max_length=8)]
    vendor: Shown = "ZVAAI"
    product: Shown = "zvaai volume"


class AdoptRequest(ClientAccess):
    """A volume or file system that is no datastore, or a copy; `keep` takes the identity it claims, if no other has it.

    With that it takes the place of what it is a copy of: fields that are left out are as hosts saw the original.

    `known_as` are the names hosts know it by from another target, which it keeps.
    """

    dataset: Annotated[str, Field(min_length=1, max_length=255)]
    name: DatastoreName
    identity: Literal["new", "keep"] = "new"
    known_as: Annotated[LioNames | ScstNames | PageNames | GivenNames, Field(discriminator="system")] | None = None
    lun: Lun | None = None
    host_groups: Groups | None = None
    versions: Versions | None = None
    squash: Squash | None = None


class VolumeResponse(Answer):
    """A volume, and the datastore it is."""

    dataset: str
    size: Bytes
    block_size: int
    guid: Guid
    datastore: str | None


class FilesystemResponse(Answer):
    """A file system, and the datastore it is."""

    dataset: str
    used: Bytes
    quota: Bytes
    record_size: int
    mountpoint: str | None
    guid: Guid
    datastore: str | None


class KeyResponse(Versioned):
    """The key of a pool's encrypted datastores. If `stored` is false, an admin must supply it. `confirmed_at` ends export."""

    pool: str
    dataset: str
    algorithm: str
    key_status: Literal["available", "unavailable"]
    stored: bool
    exported_at: Time | None
    confirmed_at: Time | None


class KeySecret(Answer):
    """A key in hexadecimal digits."""

    pool: str
    secret: str


class KeyExportCreate(Model):
    """Shows that it is the user who exports the key, and not a program that has the session or the token."""

    password: Password
    """The caller's own."""


class KeyUpdate(Model):
    """A key as it was exported: 64 hexadecimal digits."""

    secret: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")]
