# SPDX-License-Identifier: Apache-2.0
"""Datastores of both kinds, and the volumes and file systems they could be made of."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import ForceQuery, ListQuery
from appliance.api.schemas.datastores import (
    AdoptRequest,
    DatastoreCreate,
    DatastorePage,
    DatastoreQuery,
    DatastoreResponse,
    DatastoreSpace,
    DatastoreUpdate,
    FilesystemPage,
    FilesystemResponse,
    GrowRequest,
    KeyExportCreate,
    KeyPage,
    KeyResponse,
    KeySecret,
    KeyUpdate,
    QuotaUpdate,
    RestoreRequest,
    VolumePage,
    VolumeResponse,
)
from appliance.api.schemas.journal import JobResponse
from appliance.api.sessions import confirm_password
from appliance.domain import datastores, requests
from appliance.domain.access import Role
from appliance.domain.errors import NotFoundError
from appliance.worker import encryption

resource = Resource("datastores")


def find(call: Call, datastore_id: str) -> DatastoreResponse:
    """By its identifier. Raises NotFoundError."""
    return DatastoreResponse.model_validate(datastores.find(call.worker.datastores(), datastore_id))


@resource.operation("GET", "/datastores", role=Role.VIEWER, query=DatastoreQuery, answer=DatastorePage)
def list_datastores(call: Call, query: DatastoreQuery) -> BaseModel:
    """Active ones, deleted ones that can be restored, and copies, which are not served."""
    stores = [one for one in call.worker.datastores() if query.state in (None, one.state) and query.kind in (None, one.kind)]
    return DatastorePage.model_validate(page(stores, query, lambda store: f"{store.name}\0{store.id}"))


@resource.operation(
    "POST", "/datastores", role=Role.OPERATOR, audit="datastore.create", body=DatastoreCreate, answer=JobResponse, status=202
)
def create_datastore(call: Call, body: DatastoreCreate) -> BaseModel:
    """An empty datastore for VMFS or NFS, served to its hosts as soon as the job has ended."""
    return call.submit(requests.CreateDatastore.of(body))


@resource.operation("GET", "/datastores/<datastore_id>", role=Role.VIEWER, answer=DatastoreResponse)
def read_datastore(call: Call, datastore_id: str) -> BaseModel:
    """A datastore."""
    return find(call, datastore_id)


@resource.operation("GET", "/datastores/<datastore_id>/space", role=Role.VIEWER, answer=DatastoreSpace, conflicts=True)
def read_space(call: Call, datastore_id: str) -> BaseModel:
    """Shared space of a VMFS datastore, or space of an NFS datastore's files. May take a second."""
    store, found = call.worker.space(datastore_id)
    if found is None:
        return DatastoreSpace(thick=store.thick, size=store.size, allocated=store.referenced, unique=store.referenced)
    counted = {name.removesuffix("_bytes"): value for name, value in vars(found).items()}
    return DatastoreSpace.model_validate({"thick": store.thick, "size": store.size, **counted})


@resource.operation(
    "PATCH",
    "/datastores/<datastore_id>",
    role=Role.OPERATOR,
    audit="datastore.change",
    body=DatastoreUpdate,
    answer=JobResponse,
    status=202,
    matches=True,
)
def change_datastore(call: Call, datastore_id: str, body: DatastoreUpdate) -> BaseModel:
    """Name, threshold, host groups; LUN number; thick; of NFS clients, versions, squash. To take from who uses it needs `force`.

    The path that hosts mount stays when an NFS datastore gets another name.
    """
    call.match(find(call, datastore_id))
    return call.submit(requests.ChangeDatastore.of(body, id=datastore_id))


@resource.operation(
    "DELETE",
    "/datastores/<datastore_id>",
    role=Role.OPERATOR,
    audit="datastore.delete",
    query=ForceQuery,
    answer=JobResponse,
    status=202,
    matches=True,
)
def delete_datastore(call: Call, datastore_id: str, query: ForceQuery) -> BaseModel:
    """Moves it to the trash. It can be restored until it is purged. Refused while hosts use it, unless forced."""
    call.match(find(call, datastore_id))
    return call.submit(requests.DeleteDatastore(id=datastore_id, force=query.force))


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/grow",
    role=Role.OPERATOR,
    audit="datastore.grow",
    body=GrowRequest,
    answer=JobResponse,
    status=202,
    matches=True,
)
def grow_datastore(call: Call, datastore_id: str, body: GrowRequest) -> BaseModel:
    """Grows the datastore. The target reports the new size to its hosts."""
    call.match(find(call, datastore_id))
    return call.submit(requests.GrowDatastore(id=datastore_id, size=body.size))


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/quota",
    role=Role.OPERATOR,
    audit="datastore.quota",
    body=QuotaUpdate,
    answer=JobResponse,
    status=202,
    matches=True,
)
def set_quota(call: Call, datastore_id: str, body: QuotaUpdate) -> BaseModel:
    """Changes the quota of an NFS datastore, never below its used space."""
    call.match(find(call, datastore_id))
    return call.submit(requests.SetQuota(id=datastore_id, size=body.size))


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/restore",
    role=Role.OPERATOR,
    audit="datastore.restore",
    body=RestoreRequest,
    answer=JobResponse,
    status=202,
    matches=True,
)
def restore_datastore(call: Call, datastore_id: str, body: RestoreRequest) -> BaseModel:
    """A deleted one comes back with the same identity."""
    call.match(find(call, datastore_id))
    return call.submit(requests.RestoreDatastore.of(body, id=datastore_id))


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/purge",
    role=Role.ADMIN,
    audit="datastore.purge",
    answer=JobResponse,
    status=202,
    matches=True,
)
def purge_datastore(call: Call, datastore_id: str) -> BaseModel:
    """Destroys a deleted one with its snapshots. There is no way back."""
    call.match(find(call, datastore_id))
    return call.submit(requests.PurgeDatastore(id=datastore_id))


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/forget",
    role=Role.ADMIN,
    audit="datastore.forget",
    query=ForceQuery,
    answer=JobResponse,
    status=202,
    matches=True,
)
def forget_datastore(call: Call, datastore_id: str, query: ForceQuery) -> BaseModel:
    """Gives up a missing one: its LUN number and host groups are free again."""
    call.match(find(call, datastore_id))
    return call.submit(requests.ForgetDatastore(id=datastore_id, force=query.force))


@resource.operation("GET", "/volumes", role=Role.VIEWER, query=ListQuery, answer=VolumePage)
def list_volumes(call: Call, query: ListQuery) -> BaseModel:
    """All volumes; those without a datastore can be adopted."""
    known = _datastores_by_dataset(call)
    found = page(call.worker.inventory().volumes, query, lambda volume: volume.name)
    return VolumePage.model_validate(
        found.each(
            lambda one: VolumeResponse(
                dataset=one.name, size=one.volsize, block_size=one.volblocksize, guid=one.guid, datastore=known.get(one.name)
            )
        )
    )


def _datastores_by_dataset(call: Call) -> dict[str, str]:
    return {store.dataset: store.id for store in call.worker.datastores()}


@resource.operation(
    "POST", "/volumes/adopt", role=Role.ADMIN, audit="datastore.adopt", body=AdoptRequest, answer=JobResponse, status=202
)
def adopt_volume(call: Call, body: AdoptRequest) -> BaseModel:
    """Makes a datastore of a volume or a file system that is none, or of a copy."""
    return call.submit(requests.AdoptDataset.of(body))


@resource.operation("GET", "/filesystems", role=Role.VIEWER, query=ListQuery, answer=FilesystemPage)
def list_filesystems(call: Call, query: ListQuery) -> BaseModel:
    """All file systems but those of the appliance itself; those without a datastore can be adopted (volumes/adopt)."""
    known = _datastores_by_dataset(call)
    found = page(call.worker.filesystems(), query, lambda one: one.name)
    return FilesystemPage.model_validate(
        found.each(
            lambda one: FilesystemResponse(
                dataset=one.name,
                used=one.space.used,
                quota=one.refquota,
                record_size=one.recordsize,
                mountpoint=one.mountpoint,
                guid=one.guid,
                datastore=known.get(one.name),
            )  # fmt: skip
        )
    )


def _key(call: Call, pool: str) -> KeyResponse:
    for key in encryption.listed(call.context, call.worker.fresh):
        if key.pool == pool:
            return KeyResponse.model_validate(key)
    raise NotFoundError("encryption of pool", pool)


@resource.operation("GET", "/encryption-keys", role=Role.VIEWER, query=ListQuery, answer=KeyPage)
def list_keys(call: Call, query: ListQuery) -> BaseModel:
    """Keys of pools with encrypted datastores: whether they are loaded, stored, exported and confirmed."""
    return KeyPage.model_validate(page(encryption.listed(call.context, call.worker.fresh), query, lambda key: key.pool))


@resource.operation(
    "POST", "/encryption-keys/<pool>/export", role=Role.ADMIN, audit="key.export", body=KeyExportCreate, answer=KeySecret
)
def export_key(call: Call, pool: str, body: KeyExportCreate) -> BaseModel:
    """Returns the key, until it is confirmed. Keep it where the pool's disks and this server are not."""
    confirm_password(call, body.password, "password")
    return KeySecret(pool=pool, secret=call.worker.export_key(pool))


@resource.operation(
    "POST",
    "/encryption-keys/<pool>/confirm",
    role=Role.ADMIN,
    audit="key.confirm",
    body=KeyUpdate,
    answer=KeyResponse,
    matches=True,
)
def confirm_key(call: Call, pool: str, body: KeyUpdate) -> BaseModel:
    """Confirms that you have stored the key. It can't be exported again."""
    call.match(_key(call, pool))
    call.worker.confirm_key(pool, bytes.fromhex(body.secret))
    return _key(call, pool)


@resource.operation(
    "PUT", "/encryption-keys/<pool>", role=Role.ADMIN, audit="key.keep", body=KeyUpdate, answer=KeyResponse, matches=True
)
def keep_key(call: Call, pool: str, body: KeyUpdate) -> BaseModel:
    """Stores the key of a pool from another server, and serves the pool's datastores."""
    call.match(_key(call, pool))
    call.worker.store_key(pool, bytes.fromhex(body.secret))
    return _key(call, pool)
