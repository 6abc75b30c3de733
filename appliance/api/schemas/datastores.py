"""Datastores and volumes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.schemas.common import ListQuery
from appliance.api.types import Answer, Bytes, BytesAsked, DatastoreName, Guid, Identifier, Lun, Model, Percent, Time

Groups = Annotated[list[Identifier], Field(max_length=256)]


class DatastoreQuery(ListQuery):
    """Which of them."""

    state: Literal["active", "deleted", "copy", "missing"] | None = None


class DatastoreTold(Answer):
    """A VMFS datastore; a deleted one that can be restored; a copy of one, which is not served, with the reason; a missing one.

    A missing one keeps its LUN number until its pool is there again, or it is forgotten. `thick` is what it is to be, `reserved`
    what the target has reserved for it.
    """

    id: str
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
    copy_reason: str | None
    copy_of: str | None
    host_groups: list[str]


class DatastorePage(Answer):
    """Datastores, by name."""

    items: list[DatastoreTold]
    next_cursor: str | None


class DatastoreAsked(Model):
    """A new VMFS datastore: `size` in bytes, 1 GiB to 64 TiB, a multiple of 1 MiB. `soft_threshold` in percent of it."""

    name: DatastoreName
    pool: Annotated[str, Field(min_length=1, max_length=255)]
    size: BytesAsked
    block_size: Literal[8192, 16384, 32768, 65536, 131072] = 65536
    thick: bool = False
    compression: Literal["lz4", "zstd", "zstd-fast", "off"] = "lz4"
    sync: Literal["standard", "always", "disabled"] = "standard"
    soft_threshold: Percent | None = None
    lun: Lun | None = None
    host_groups: Groups = []


class DatastoreChange(Model):
    """What to change; a `soft_threshold` of null takes it away."""

    name: DatastoreName | None = None
    soft_threshold: Percent | None = None
    lun: Lun | None = None
    host_groups: Groups | None = None
    force: bool = False


class GrowAsked(Model):
    """The new size in bytes."""

    size: BytesAsked


class RestoreAsked(Model):
    """Back from aside. Hosts see it when `host_groups` say so."""

    name: DatastoreName | None = None
    lun: Lun | None = None
    host_groups: Groups = []


class AdoptAsked(Model):
    """A volume that is no datastore, or a copy; `keep` takes the identity it claims, if no other dataset has it."""

    dataset: Annotated[str, Field(min_length=1, max_length=255)]
    name: DatastoreName
    identity: Literal["new", "keep"] = "new"
    lun: Lun | None = None
    host_groups: Groups = []


class VolumeTold(Answer):
    """A volume, and the datastore it is."""

    dataset: str
    size: Bytes
    block_size: int
    guid: Guid
    datastore: str | None


class VolumePage(Answer):
    """Volumes, by name."""

    items: list[VolumeTold]
    next_cursor: str | None
