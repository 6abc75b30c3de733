# SPDX-License-Identifier: Apache-2.0
"""Datastores of both kinds, and the volumes and file systems they could be made of."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.schemas.common import ListQuery
from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Bytes, Guid, Model, Password, Time
from appliance.domain.requests import Kind


class DatastoreQuery(ListQuery):
    """Filter of datastores."""

    kind: Kind | None = None
    state: Literal["active", "deleted", "copy", "missing"] | None = None


class DesignationResponse(Answer):
    """Vendor, product and serial number of INQUIRY, and the designators of the LUN, as hosts see them."""

    serial_number: str
    designators: list[str]
    vendor: str
    product: str


class DatastoreResponse(Versioned):
    """A datastore: active; deleted, to be restored; a copy, which is not served, with the reason; or missing.

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
    clients: list[str]
    encryption: str | None
    key_status: Literal["available", "unavailable"] | None


class DatastoreSpaceResponse(Answer):
    """VMFS: bytes on disk in the last synced state. NFS: space of its files. Null is unknown, or of the other kind.

    `unique` is an upper bound unless `unique_exact`. `snapshot` are bytes that a snapshot also holds. `admitted` is the sum
    of the files' sizes, each rounded up to the record size, and 16 KiB a file: of a thick datastore at most `size`. While the NFS
    server is `counting`, a file of a thick datastore can grow by 1 MiB at a time. `problem` says why these
    bytes may be wrong or are unknown.
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


class KeySecretResponse(Answer):
    """A key in hexadecimal digits."""

    pool: str
    secret: str


class KeyExportCreate(Model):
    """Shows that it is the user who exports the key, and not a program that has the session or the token."""

    password: Password
    """The caller's own."""


class KeyUpdate(Model):
    """An exported key: 64 hexadecimal digits."""

    secret: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")]
