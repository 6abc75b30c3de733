# SPDX-License-Identifier: Apache-2.0
"""Snapshots of datastores, clones, rollback."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import ListQuery
from appliance.api.schemas.journal import JobResponse
from appliance.api.schemas.snapshots import (
    CloneCreate,
    HoldCreate,
    HoldPage,
    RollbackRequest,
    SnapshotCreate,
    SnapshotPage,
    SnapshotResponse,
)
from appliance.domain import holds, requests
from appliance.domain.access import Role
from appliance.domain.retention import protected_until
from appliance.worker import hold_operations
from appliance.zfs.model import Snapshot

resource = Resource("snapshots")


@resource.operation("GET", "/datastores/<datastore_id>/snapshots", role=Role.VIEWER, query=ListQuery, answer=SnapshotPage)
def list_snapshots(call: Call, datastore_id: str, query: ListQuery) -> BaseModel:
    """Snapshots of a datastore, oldest first."""
    found = [(f"{one.creation:012}{index:08}", one) for index, one in enumerate(call.worker.snapshots(datastore_id))]
    return SnapshotPage.model_validate(page(found, query, lambda one: one[0]).each(lambda one: _shown(datastore_id, one[1])))


def _shown(datastore_id: str, snapshot: Snapshot) -> SnapshotResponse:
    return SnapshotResponse(
        datastore=datastore_id, name=snapshot.tag, full_name=snapshot.name, guid=snapshot.guid, created_at=snapshot.creation,
        used=snapshot.used, referenced=snapshot.referenced, holds=snapshot.holds, clones=list(snapshot.clones),
        protected_until=protected_until(snapshot),
    )  # fmt: skip


@resource.operation(
    "POST", "/snapshots", role=Role.OPERATOR, audit="snapshot.create", body=SnapshotCreate, answer=JobResponse, status=202
)
def create_snapshots(call: Call, body: SnapshotCreate) -> BaseModel:
    """Creates snapshots of one or more datastores of a pool, in one atomic step."""
    return call.submit(requests.CreateSnapshots.of(body))


@resource.operation(
    "DELETE",
    "/datastores/<datastore_id>/snapshots/<name>",
    role=Role.ADMIN,
    audit="snapshot.delete",
    answer=JobResponse,
    status=202,
)
def delete_snapshot(call: Call, datastore_id: str, name: str) -> BaseModel:
    """Refused while clones depend on it, or it is held."""
    return call.submit(requests.DeleteSnapshot(id=datastore_id, snapshot=name))


@resource.operation(
    "GET", "/datastores/<datastore_id>/snapshots/<name>/holds", role=Role.VIEWER, query=ListQuery, answer=HoldPage
)
def list_holds(call: Call, datastore_id: str, name: str, query: ListQuery) -> BaseModel:
    """Holds of a snapshot, by tag."""
    found = page(hold_operations.listed(call.context, datastore_id, name, call.worker.fresh), query, lambda one: one.tag)
    return HoldPage.model_validate(
        found.each(lambda one: {"tag": one.tag, "created_at": one.created, "of": holds.owner(one.tag)})
    )


@resource.operation(
    "POST", "/datastores/<datastore_id>/snapshots/<name>/holds", role=Role.OPERATOR, audit="snapshot.hold",
    body=HoldCreate, answer=JobResponse, status=202,
)  # fmt: skip
def hold_snapshot(call: Call, datastore_id: str, name: str, body: HoldCreate) -> BaseModel:
    """Adds a hold: the snapshot cannot be destroyed by a request, a schedule, a rollback, or with its datastore."""
    return call.submit(requests.HoldSnapshot(id=datastore_id, snapshot=name, tag=body.tag))


@resource.operation(
    "DELETE", "/datastores/<datastore_id>/snapshots/<name>/holds/<tag>", role=Role.ADMIN, audit="snapshot.release",
    answer=JobResponse, status=202,
)  # fmt: skip
def release_snapshot(call: Call, datastore_id: str, name: str, tag: str) -> BaseModel:
    """A hold. Refused for those of the appliance itself, and of `zfs send`: they end with what they are for."""
    return call.submit(requests.ReleaseSnapshot(id=datastore_id, snapshot=name, tag=tag))


@resource.operation(
    "POST", "/datastores/<datastore_id>/snapshots/<name>/rollback", role=Role.OPERATOR, audit="snapshot.rollback",
    body=RollbackRequest, answer=JobResponse, status=202,
)  # fmt: skip
def roll_back(call: Call, datastore_id: str, name: str, body: RollbackRequest) -> BaseModel:
    """Rolls a datastore back. Later writes are lost.

    Refused while hosts are logged in, unless forced. An admin may destroy newer snapshots, by name or with `force`, but none
    that is held, protected or cloned.
    """
    may_destroy = call.who.role >= Role.ADMIN
    request = requests.RollBack(
        id=datastore_id, snapshot=name, force=body.force, destroy=list(body.destroy), may_destroy=may_destroy
    )
    return call.submit(request)


@resource.operation(
    "POST",
    "/datastores/<datastore_id>/clone",
    role=Role.OPERATOR,
    audit="snapshot.clone",
    body=CloneCreate,
    answer=JobResponse,
    status=202,
)
def clone_datastore(call: Call, datastore_id: str, body: CloneCreate) -> BaseModel:
    """An instant copy with an identity of its own; hosts resignature it."""
    return call.submit(requests.CloneDatastore.of(body, id=datastore_id))


@resource.operation(
    "POST", "/datastores/<datastore_id>/promote", role=Role.OPERATOR, audit="datastore.promote", answer=JobResponse, status=202
)
def promote_datastore(call: Call, datastore_id: str) -> BaseModel:
    """Makes a clone independent of its origin, so that the origin can be purged. The shared snapshots become the clone's."""
    return call.submit(requests.PromoteDatastore(id=datastore_id))
