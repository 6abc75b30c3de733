# SPDX-License-Identifier: Apache-2.0
"""Datastores of both kinds, and the volumes and file systems they could be made of."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import datastores as schemas
from appliance.api.schemas.common import ListQuery, Page
from appliance.api.sessions import confirm_password
from appliance.domain import datastores, requests
from appliance.domain.access import Role
from appliance.domain.errors import NotFoundError
from appliance.worker import encryption
from appliance.zfs.model import Filesystem, Volume

resource = Resource("datastores", datastore_id="id")


def find(call: Call, datastore_id: str) -> schemas.DatastoreResponse:
    """By its identifier. Raises NotFoundError."""
    return schemas.DatastoreResponse.model_validate(datastores.find(call.worker.datastores(), datastore_id))


@resource.operation("GET", "/datastores", role=Role.VIEWER)
def list_datastores(call: Call, query: schemas.DatastoreQuery) -> Page[schemas.DatastoreResponse]:
    """Active ones, deleted ones that can be restored, and copies, which are not served."""
    stores = [
        store for store in call.worker.datastores() if query.state in (None, store.state) and query.kind in (None, store.kind)
    ]
    return page(schemas.DatastoreResponse, stores, query, lambda store: f"{store.name}\0{store.id}")


@resource.operation("GET", "/datastores/<datastore_id>", role=Role.VIEWER)
def read_datastore(call: Call, datastore_id: str) -> schemas.DatastoreResponse:
    """A datastore."""
    return find(call, datastore_id)


@resource.operation("GET", "/datastores/<datastore_id>/space", role=Role.VIEWER, conflicts=True)
def read_space(call: Call, datastore_id: str) -> schemas.DatastoreSpaceResponse:
    """Shared space of a VMFS datastore, or space of an NFS datastore's files. May take a second."""
    store, space, problem = call.worker.space(datastore_id)
    if space is None:
        unique = None if problem else store.referenced
        return schemas.DatastoreSpaceResponse(
            thick=store.thick, size=store.size, allocated=store.referenced, unique=unique, problem=problem
        )
    counted = {name.removesuffix("_bytes"): value for name, value in vars(space).items()}
    return schemas.DatastoreSpaceResponse.model_validate({"thick": store.thick, "size": store.size, **counted})


@resource.operation("GET", "/volumes", role=Role.VIEWER)
def list_volumes(call: Call, query: ListQuery) -> Page[schemas.VolumeResponse]:
    """All volumes; those without a datastore can be adopted."""
    known = _datastores_by_dataset(call)

    def shown(volume: Volume) -> dict[str, object]:
        sizes = {"size": volume.volsize, "block_size": volume.volblocksize}
        return {"dataset": volume.name, **sizes, "guid": volume.guid, "datastore": known.get(volume.name)}

    return page(schemas.VolumeResponse, call.worker.inventory().volumes, query, lambda volume: volume.name, shown)


def _datastores_by_dataset(call: Call) -> dict[str, str]:
    return {store.dataset: store.id for store in call.worker.datastores()}


@resource.operation("GET", "/filesystems", role=Role.VIEWER)
def list_filesystems(call: Call, query: ListQuery) -> Page[schemas.FilesystemResponse]:
    """All file systems but those of the appliance itself; those without a datastore can be adopted (volumes/adopt)."""
    known = _datastores_by_dataset(call)

    def shown(filesystem: Filesystem) -> dict[str, object]:
        sizes = {"used": filesystem.space.used, "quota": filesystem.refquota, "record_size": filesystem.recordsize}
        named = {"dataset": filesystem.name, "guid": filesystem.guid, "datastore": known.get(filesystem.name)}
        return {**named, **sizes, "mountpoint": filesystem.mountpoint}

    return page(schemas.FilesystemResponse, call.worker.filesystems(), query, lambda filesystem: filesystem.name, shown)


def _key(call: Call, pool: str) -> schemas.KeyResponse:
    for key in encryption.listed(call.context, call.worker.fresh):
        if key.pool == pool:
            return schemas.KeyResponse.model_validate(key)
    raise NotFoundError("encryption of pool", pool)


def _root(call: Call, pool: str) -> str:
    return encryption.root(call.context, call.worker.fresh, pool).name


@resource.operation("GET", "/encryption-keys", role=Role.VIEWER)
def list_keys(call: Call, query: ListQuery) -> Page[schemas.KeyResponse]:
    """Keys of pools with encrypted datastores: whether they are loaded, stored, exported and confirmed."""
    return page(schemas.KeyResponse, encryption.listed(call.context, call.worker.fresh), query, lambda key: key.pool)


@resource.operation("POST", "/encryption-keys/<pool>/export", role=Role.ADMIN, audit="key.export")
def export_key(call: Call, pool: str, body: schemas.KeyExportCreate) -> schemas.KeySecretResponse:
    """Returns the key, until it is confirmed. Keep it where the pool's disks and this server are not."""
    confirm_password(call, body.password, "password")
    return schemas.KeySecretResponse(pool=pool, secret=call.context.keys.export_key(_root(call, pool)))


@resource.operation("POST", "/encryption-keys/<pool>/confirm", role=Role.ADMIN, audit="key.confirm", matches=True)
def confirm_key(call: Call, pool: str, body: schemas.KeyUpdate) -> schemas.KeyResponse:
    """Confirms that you have stored the key. It can't be exported again."""
    call.match(_key(call, pool))
    call.context.keys.confirm_key(_root(call, pool), bytes.fromhex(body.secret))
    return _key(call, pool)


@resource.operation("PUT", "/encryption-keys/<pool>", role=Role.ADMIN, audit="key.keep", matches=True)
def keep_key(call: Call, pool: str, body: schemas.KeyUpdate) -> schemas.KeyResponse:
    """Stores the key of a pool from another server, and serves the pool's datastores."""
    call.match(_key(call, pool))
    call.context.keys.store_key(_root(call, pool), bytes.fromhex(body.secret))
    call.worker.scheduler.request()
    return _key(call, pool)


resource.job("POST", "/datastores", Role.OPERATOR, requests.DatastoreCreate)
resource.job("PATCH", "/datastores/<datastore_id>", Role.OPERATOR, requests.DatastoreUpdate, matches=find)
resource.job("DELETE", "/datastores/<datastore_id>", Role.OPERATOR, requests.DeleteDatastore, query=True, matches=find)
resource.job("POST", "/datastores/<datastore_id>/grow", Role.OPERATOR, requests.SizeUpdate, matches=find)
resource.job("POST", "/datastores/<datastore_id>/quota", Role.OPERATOR, requests.QuotaUpdate, matches=find)
resource.job("POST", "/datastores/<datastore_id>/restore", Role.OPERATOR, requests.RestoreCreate, matches=find)
resource.job("POST", "/datastores/<datastore_id>/purge", Role.ADMIN, requests.PurgeDatastore, matches=find)
resource.job("POST", "/datastores/<datastore_id>/forget", Role.ADMIN, requests.ForgetDatastore, query=True, matches=find)
resource.job("POST", "/datastores/<datastore_id>/clone", Role.OPERATOR, requests.CloneCreate)
resource.job("POST", "/datastores/<datastore_id>/promote", Role.ADMIN, requests.PromoteDatastore)
resource.job("POST", "/volumes/adopt", Role.ADMIN, requests.AdoptionCreate)
