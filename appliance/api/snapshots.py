# SPDX-License-Identifier: Apache-2.0
"""Snapshots of datastores, clones, rollback."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import snapshots as schemas
from appliance.api.schemas.common import ListQuery, Page
from appliance.domain import holds, requests
from appliance.domain.access import Role
from appliance.domain.retention import SCHEDULE, is_of_schedule, protected_until
from appliance.worker import hold_operations
from appliance.zfs.model import Snapshot

resource = Resource("snapshots", datastore_id="id", name="snapshot")
_LATEST = 10**11
"""Seconds since 1970: later than any snapshot."""


@resource.operation("GET", "/datastores/<datastore_id>/snapshots", role=Role.VIEWER)
def list_snapshots(call: Call, datastore_id: str, query: ListQuery) -> Page[schemas.SnapshotResponse]:
    """Snapshots of a datastore, oldest first, whatever the clock showed: a rollback destroys those behind."""
    snapshots = [(f"{snapshot.createtxg:020}{snapshot.tag}", snapshot) for snapshot in call.worker.snapshots(datastore_id)]
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
    mark = snapshot.properties.get(SCHEDULE)
    return schemas.SnapshotResponse(
        datastore=datastore_id, name=snapshot.tag, full_name=snapshot.name, guid=snapshot.guid, created_at=snapshot.creation,
        used=snapshot.used, referenced=snapshot.referenced, holds=snapshot.holds, clones=list(snapshot.clones),
        schedule=mark.value if mark is not None and is_of_schedule(snapshot, mark.value) else None,
        protected_until=protected_until(snapshot),
    )  # fmt: skip


@resource.operation("GET", "/datastores/<datastore_id>/snapshots/<name>/holds", role=Role.VIEWER)
def list_holds(call: Call, datastore_id: str, name: str, query: ListQuery) -> Page[schemas.HoldResponse]:
    """Holds of a snapshot, by tag."""
    listed = hold_operations.listed(call.context, datastore_id, name, call.worker.fresh)
    return page(
        schemas.HoldResponse, listed, query, lambda hold: hold.tag,
        lambda hold: {"tag": hold.tag, "created_at": hold.created, "of": holds.owner(hold.tag)},
    )  # fmt: skip


def _set_may_destroy(call: Call, request: requests.RollbackCreate) -> None:
    request.of(may_destroy=call.who.role >= Role.ADMIN)


_SNAPSHOT = "/datastores/<datastore_id>/snapshots/<name>"
resource.job("POST", "/snapshots", Role.OPERATOR, requests.SnapshotCreate)
resource.job("POST", "/datastores/<datastore_id>/snapshots/delete", Role.ADMIN, requests.DeletionCreate)
resource.job("POST", f"{_SNAPSHOT}/holds", Role.OPERATOR, requests.HoldCreate)
resource.job("DELETE", f"{_SNAPSHOT}/holds/<tag>", Role.ADMIN, requests.ReleaseSnapshot)
resource.job("POST", f"{_SNAPSHOT}/rollback", Role.OPERATOR, requests.RollbackCreate, check=_set_may_destroy)
