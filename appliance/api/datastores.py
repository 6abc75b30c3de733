"""VMFS datastores, and the volumes they could be made of."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import ForceQuery, ListQuery
from appliance.api.schemas.datastores import (
    AdoptAsked,
    DatastoreAsked,
    DatastoreChange,
    DatastorePage,
    DatastoreQuery,
    DatastoreTold,
    GrowAsked,
    RestoreAsked,
    VolumePage,
)
from appliance.api.schemas.journal import JobTold
from appliance.domain.access import Role
from appliance.domain.errors import NotFoundError

resource = Resource("datastores")


def find(call: Call, datastore_id: str) -> DatastoreTold:
    """By its identifier. Raises NotFoundError."""
    for store in call.services.worker.call("datastores"):
        if store["id"] == datastore_id:
            return DatastoreTold.model_validate(store)
    raise NotFoundError("datastore", datastore_id)


@resource.operation("GET", "/datastores", role=Role.VIEWER, query=DatastoreQuery, answer=DatastorePage)
def list_datastores(call: Call, query: DatastoreQuery) -> BaseModel:
    """Active ones, deleted ones that can be restored, and copies, which are not served."""
    stores = [store for store in call.services.worker.call("datastores") if query.state in (None, store["state"])]
    return DatastorePage.model_validate(page(stores, query, lambda store: f"{store['name']}\0{store['id']}"))


@resource.operation(
    "POST", "/datastores", role=Role.OPERATOR, audit="datastore.create", body=DatastoreAsked, answer=JobTold, status=202
)
def create_datastore(call: Call, body: DatastoreAsked) -> BaseModel:
    """An empty VMFS datastore, served to the host groups as soon as the job has ended."""
    return call.submit("datastore.create", **body.model_dump())


@resource.operation("GET", "/datastores/<datastore_id>", role=Role.VIEWER, answer=DatastoreTold)
def read_datastore(call: Call, datastore_id: str) -> BaseModel:
    """One of them."""
    return find(call, datastore_id)


@resource.operation(
    "PATCH",
    "/datastores/<datastore_id>",
    role=Role.OPERATOR,
    audit="datastore.change",
    body=DatastoreChange,
    answer=JobTold,
    status=202,
)
def change_datastore(call: Call, datastore_id: str, body: DatastoreChange) -> BaseModel:
    """Name, threshold, LUN number, host groups. Taking it away from hosts that are logged in needs `force`."""
    call.match(find(call, datastore_id))
    return call.submit("datastore.change", id=datastore_id, **body.model_dump(exclude_unset=True))


@resource.operation(
    "DELETE",
    "/datastores/<datastore_id>",
    role=Role.OPERATOR,
    audit="datastore.delete",
    query=ForceQuery,
    answer=JobTold,
    status=202,
)
def delete_datastore(call: Call, datastore_id: str, query: ForceQuery) -> BaseModel:
    """Puts it aside, from where it can be restored until it is purged. Refused while hosts are logged in, unless forced."""
    call.match(find(call, datastore_id))
    return call.submit("datastore.delete", id=datastore_id, force=query.force)


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/grow",
    role=Role.OPERATOR,
    audit="datastore.grow",
    body=GrowAsked,
    answer=JobTold,
    status=202,
)
def grow_datastore(call: Call, datastore_id: str, body: GrowAsked) -> BaseModel:
    """Makes it larger; hosts are told."""
    return call.submit("datastore.grow", id=datastore_id, size=body.size)


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/restore",
    role=Role.OPERATOR,
    audit="datastore.restore",
    body=RestoreAsked,
    answer=JobTold,
    status=202,
)
def restore_datastore(call: Call, datastore_id: str, body: RestoreAsked) -> BaseModel:
    """A deleted one comes back with the same identity."""
    return call.submit("datastore.restore", id=datastore_id, **body.model_dump())


@resource.operation(
    "POST", "/datastores/<datastore_id>/purge", role=Role.ADMIN, audit="datastore.purge", answer=JobTold, status=202
)
def purge_datastore(call: Call, datastore_id: str) -> BaseModel:
    """Destroys a deleted one with its snapshots. There is no way back."""
    return call.submit("datastore.purge", id=datastore_id)


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/forget",
    role=Role.ADMIN,
    audit="datastore.forget",
    query=ForceQuery,
    answer=JobTold,
    status=202,
)
def forget_datastore(call: Call, datastore_id: str, query: ForceQuery) -> BaseModel:
    """Gives up a missing one: its LUN number and host groups are free again."""
    return call.submit("datastore.forget", id=datastore_id, force=query.force)


@resource.operation("GET", "/volumes", role=Role.VIEWER, query=ListQuery, answer=VolumePage)
def list_volumes(call: Call, query: ListQuery) -> BaseModel:
    """All volumes; those without a datastore can be adopted."""
    return VolumePage.model_validate(page(call.services.worker.call("volumes"), query, lambda volume: str(volume["dataset"])))


@resource.operation(
    "POST", "/volumes/adopt", role=Role.ADMIN, audit="datastore.adopt", body=AdoptAsked, answer=JobTold, status=202
)
def adopt_volume(call: Call, body: AdoptAsked) -> BaseModel:
    """Makes a datastore of a volume that is none, or of a copy."""
    return call.submit("datastore.adopt", **body.model_dump())
