# SPDX-License-Identifier: Apache-2.0
"""Snapshots of datastores, clones, rollback."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import snapshots as schemas
from appliance.api.schemas.common import ListQuery, Page
from appliance.api.schemas.journal import JobResponse
from appliance.domain import holds, requests
from appliance.domain.access import Role
from appliance.domain.retention import protected_until
from appliance.worker import hold_operations
from appliance.zfs.model import Snapshot

resource = Resource("snapshots")
_LATEST = 10**11
"""Seconds since 1970: later than any snapshot."""


@resource.operation("GET", "/datastores/<datastore_id>/snapshots", role=Role.VIEWER)
def list_snapshots(call: Call, datastore_id: str, query: ListQuery) -> Page[schemas.SnapshotResponse]:
    """Snapshots of a datastore, oldest first."""
    snapshots = [
        (f"{snapshot.creation:012}{index:08}", snapshot) for index, snapshot in enumerate(call.worker.snapshots(datastore_id))
    ]
    return page(
        schemas.SnapshotResponse,
        snapshots,
        query,
        lambda numbered: numbered[0],
        lambda numbered: _shown(datastore_id, numbered[1]),
    )


@resource.operation("GET", "/snapshots", role=Role.VIEWER)
def search_snapshots(call: Call, query: schemas.SnapshotQuery) -> Page[schemas.SnapshotResponse]:
    """Snapshots of all datastores, newest first."""
    stores = {store.dataset: store for store in call.worker.datastores()}
    words = query.search.lower().split()
    matching = [
        (f"{_LATEST - snapshot.creation:012}{snapshot.name}", stores[snapshot.dataset].id, snapshot)
        for snapshot in call.worker.inventory().snapshots
        if snapshot.dataset in stores and all(word in f"{stores[snapshot.dataset].name}@{snapshot.tag}".lower() for word in words)
    ]
    matching.sort(key=lambda keyed: keyed[0])
    return page(schemas.SnapshotResponse, matching, query, lambda keyed: keyed[0], lambda keyed: _shown(keyed[1], keyed[2]))


def _shown(datastore_id: str, snapshot: Snapshot) -> schemas.SnapshotResponse:
    return schemas.SnapshotResponse(
        datastore=datastore_id, name=snapshot.tag, full_name=snapshot.name, guid=snapshot.guid, created_at=snapshot.creation,
        used=snapshot.used, referenced=snapshot.referenced, holds=snapshot.holds, clones=list(snapshot.clones),
        protected_until=protected_until(snapshot),
    )  # fmt: skip


@resource.job("POST", "/snapshots", Role.OPERATOR, "snapshot.create")
def create_snapshots(call: Call, body: schemas.SnapshotCreate) -> JobResponse:
    """Creates snapshots of one or more datastores of a pool, in one atomic step."""
    return call.submit(requests.CreateSnapshots.of(body))


@resource.job("DELETE", "/datastores/<datastore_id>/snapshots/<name>", Role.ADMIN, "snapshot.delete")
def delete_snapshot(call: Call, datastore_id: str, name: str) -> JobResponse:
    """Refused while clones depend on it, or it is held."""
    return call.submit(requests.DeleteSnapshot(id=datastore_id, snapshot=name))


@resource.operation("GET", "/datastores/<datastore_id>/snapshots/<name>/holds", role=Role.VIEWER)
def list_holds(call: Call, datastore_id: str, name: str, query: ListQuery) -> Page[schemas.HoldResponse]:
    """Holds of a snapshot, by tag."""
    listed = hold_operations.listed(call.context, datastore_id, name, call.worker.fresh)
    return page(
        schemas.HoldResponse, listed, query, lambda hold: hold.tag,
        lambda hold: {"tag": hold.tag, "created_at": hold.created, "of": holds.owner(hold.tag)},
    )  # fmt: skip


@resource.job("POST", "/datastores/<datastore_id>/snapshots/<name>/holds", Role.OPERATOR, "snapshot.hold")
def hold_snapshot(call: Call, datastore_id: str, name: str, body: schemas.HoldCreate) -> JobResponse:
    """Adds a hold: the snapshot cannot be destroyed by a request, a schedule, a rollback, or with its datastore."""
    return call.submit(requests.HoldSnapshot(id=datastore_id, snapshot=name, tag=body.tag))


@resource.job("DELETE", "/datastores/<datastore_id>/snapshots/<name>/holds/<tag>", Role.ADMIN, "snapshot.release")
def release_snapshot(call: Call, datastore_id: str, name: str, tag: str) -> JobResponse:
    """A hold. Refused for those of the appliance itself, and of `zfs send`: they end with what they are for."""
    return call.submit(requests.ReleaseSnapshot(id=datastore_id, snapshot=name, tag=tag))


@resource.job("POST", "/datastores/<datastore_id>/snapshots/<name>/rollback", Role.OPERATOR, "snapshot.rollback")
def roll_back(call: Call, datastore_id: str, name: str, body: schemas.RollbackRequest) -> JobResponse:
    """Rolls a datastore back. Later writes are lost.

    Refused while hosts are logged in, unless forced. An admin may destroy newer snapshots, by name or with `force`, but none
    that is held, protected or cloned.
    """
    may_destroy = call.who.role >= Role.ADMIN
    request = requests.RollBack(
        id=datastore_id, snapshot=name, force=body.force, destroy=list(body.destroy), may_destroy=may_destroy
    )
    return call.submit(request)


@resource.job("POST", "/datastores/<datastore_id>/clone", Role.OPERATOR, "snapshot.clone")
def clone_datastore(call: Call, datastore_id: str, body: schemas.CloneCreate) -> JobResponse:
    """An instant copy with an identity of its own; hosts resignature it."""
    return call.submit(requests.CloneDatastore.of(body, id=datastore_id))


@resource.job("POST", "/datastores/<datastore_id>/promote", Role.OPERATOR, "datastore.promote")
def promote_datastore(call: Call, datastore_id: str) -> JobResponse:
    """Makes a clone independent of its origin, so that the origin can be purged. The shared snapshots become the clone's."""
    return call.submit(requests.PromoteDatastore(id=datastore_id))
