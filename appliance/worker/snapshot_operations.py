# SPDX-License-Identifier: Apache-2.0
"""What jobs do with snapshots: taking, destroying, rolling back, cloning."""

from __future__ import annotations

import contextlib
import re

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from appliance.domain import datastores as domain
from appliance.domain import identity, requests
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.jobs import Plan, Result
from appliance.worker import thick
from appliance.worker.context import Context
from appliance.worker.kinds import KINDS, Layout, Shown, mount_path, only_own
from appliance.worker.steps import (
    Advance,
    DatastoreResult,
    Operation,
    by_kind,
    check_groups,
    check_name,
    clone_snapshot,
    complete,
    destroy_origin,
    ensure_folder,
    identity_properties,
    in_service,
    nothing_late,
    origin_guid,
    out_of_service,
    own_dataset,
    serve,
    take_back,
    unreserved,
    unused,
)  # fmt: skip
from appliance.zfs import errors as zfs
from appliance.zfs.model import Snapshot

_AT_ONCE = 500
TAG = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}"


class SnapshotResult(Result, frozen=True, kw_only=True):
    """Full names."""

    snapshot: str | UnsetType = UNSET
    snapshots: list[str] | UnsetType = UNSET
    destroyed: int | UnsetType = UNSET


class SnapshotsPlan(Plan, frozen=True, kw_only=True):
    """Full names of snapshots of one pool."""

    names: list[str]


class TakeSnapshot(Operation[requests.CreateSnapshots, SnapshotsPlan]):
    """Of one or several datastores of a pool, in one atomic step."""

    kind = "snapshot.create"

    def plan(self, context: Context, request: requests.CreateSnapshots) -> SnapshotsPlan:
        """All have to be there, in one pool, without such a snapshot."""
        stores = context.datastores()
        if not re.fullmatch(TAG, request.name):
            raise InvalidError(
                "name", "not a name of a snapshot", "1 to 64 of A-Z, a-z, 0-9, '_', '.', ':', '-', the first a letter or digit"
            )
        chosen = [domain.find(stores, one, "active") for one in dict.fromkeys(request.datastores)]
        if len({store.pool for store in chosen}) > 1:
            raise ConflictError("one step is of one pool", sorted({store.pool for store in chosen}))
        names = [f"{store.dataset}@{request.name}" for store in chosen]
        there = {snapshot.name for snapshot in context.look(60).snapshots}
        if there & set(names):
            raise ConflictError("there is such a snapshot", sorted(there & set(names)))
        about = tuple(store.id for store in chosen)
        return SnapshotsPlan(
            subject=f"snapshot {request.name} of {about[0]}",
            pools=(chosen[0].pool,),
            names=names,
            schedule=request.schedule,
            about=about,
        )

    def run(self, context: Context, plan: SnapshotsPlan, job_id: str, advance: Advance) -> SnapshotResult:
        """One step."""
        advance("taking it", 10)
        properties = {identity.CREATED_BY: job_id}
        if plan.schedule:
            properties["zvaai:schedule"] = plan.schedule
        try:
            context.engine.snapshot(plan.names, properties=properties)
        except zfs.SnapshotExists:
            made = context.engine.properties(plan.names[0]).get(identity.CREATED_BY)
            if made is None or made.value != job_id:
                raise
        except zfs.OutOfSpace as error:
            raise thick.snapshot_refused(context, plan.names) from error
        context.look()
        return SnapshotResult(snapshots=plan.names)


def _snapshot_of(context: Context, datastore: str, snapshot: str) -> tuple[domain.Datastore, str]:
    store = domain.find(context.datastores(), datastore, "active")
    name = f"{store.dataset}@{snapshot}"
    if name not in {one.name for one in context.look(60).snapshots}:
        raise NotFoundError("snapshot", name)
    return store, name


def _tags(context: Context, snapshot: Snapshot) -> list[str]:
    return [hold.tag for hold in context.engine.holds(snapshot.name)]


class SnapshotPlan(Plan, frozen=True, kw_only=True):
    """Its full name."""

    name: str


class DeleteSnapshot(Operation[requests.DeleteSnapshot, SnapshotPlan]):
    """Destroys one."""

    kind = "snapshot.delete"

    def plan(self, context: Context, request: requests.DeleteSnapshot) -> SnapshotPlan:
        """Refused while clones depend on it, or it is held."""
        store, name = _snapshot_of(context, request.id, request.snapshot)
        found = next(snapshot for snapshot in context.look(60).snapshots if snapshot.name == name)
        if found.clones:
            raise ConflictError("clones depend on it", found.clones)
        if found.holds:
            raise ConflictError("it is held", _tags(context, found))
        return SnapshotPlan(subject=f"{store.id}@{request.snapshot}", pools=(store.pool,), name=name, about=(store.id,))

    def run(self, context: Context, plan: SnapshotPlan, job_id: str, advance: Advance) -> SnapshotResult:
        """One that is gone is well."""
        advance("destroying it", 10)
        context.engine.destroy_snapshots([plan.name])
        context.look()
        return SnapshotResult(snapshot=plan.name)


class Retire(Operation[requests.RetireSnapshots, SnapshotsPlan]):
    """Destroys what schedules keep no longer, of one pool, in few steps."""

    kind = "snapshot.retention"

    def plan(self, context: Context, request: requests.RetireSnapshots) -> SnapshotsPlan:
        """As the schedules say."""
        subject, about = f"retention of {request.pool}", tuple(request.about)
        return SnapshotsPlan(subject=subject, pools=(request.pool,), names=request.names, about=about)

    def run(self, context: Context, plan: SnapshotsPlan, job_id: str, advance: Advance) -> SnapshotResult:
        """What is held or was cloned meanwhile stays."""
        destroyed = 0
        for begin in range(0, len(plan.names), _AT_ONCE):
            advance("destroying them", 10 + 80 * begin // len(plan.names))
            there = {one.name for one in context.look().snapshots if not one.holds and not one.clones}
            names = [name for name in plan.names[begin : begin + _AT_ONCE] if name in there]
            with contextlib.suppress(zfs.SnapshotHeld, zfs.HasDependants):  # in this moment: the next round sees it
                context.engine.destroy_snapshots(names)
                destroyed += len(names)
        context.look()
        return SnapshotResult(destroyed=destroyed)


class RollbackPlan(Plan, frozen=True, kw_only=True):
    """To the snapshot `name`, destroying the `newer` ones. `done` is noted once hosts may write again."""

    uuid: str
    kind: str
    name: str
    newer: list[str]
    force: bool
    done: bool = False


class Rollback(Operation[requests.RollBack, RollbackPlan]):
    """Puts a datastore back to a snapshot. What was written since is lost."""

    kind = "snapshot.rollback"

    def plan(self, context: Context, request: requests.RollBack) -> RollbackPlan:
        """Refused while hosts are logged in or newer snapshots would go, unless forced; while those are held or cloned, too."""
        store, name = _snapshot_of(context, request.id, request.snapshot)
        force = request.force
        own = [snapshot for snapshot in context.look(60).snapshots if snapshot.dataset == store.dataset]
        position = next(index for index, snapshot in enumerate(own) if snapshot.name == name)
        newer = own[position + 1 :]
        clones = [clone for snapshot in newer for clone in snapshot.clones]
        if clones:
            raise ConflictError("clones depend on newer snapshots", clones)
        if held := [f"{snapshot.name} ({', '.join(_tags(context, snapshot))})" for snapshot in newer if snapshot.holds]:
            raise ConflictError("newer snapshots are held: release them first", held)
        if newer and not force:
            raise ConflictError("newer snapshots would be destroyed", [snapshot.name for snapshot in newer], can_force=True)
        unused(context, store, force, "what they have in memory does not fit the data after a rollback")
        unreserved(context, store, force)
        return RollbackPlan(
            subject=store.id,
            pools=(store.pool,),
            uuid=store.id,
            kind=store.kind,
            name=name,
            newer=[snapshot.name for snapshot in newer],
            out_of_service=(store.id,),
            force=force,
        )

    def run(self, context: Context, plan: RollbackPlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Out of service, back, in service again. Once hosts may write again it is not done a second time."""
        if not plan.done:
            self._roll_back(context, plan, advance)
            in_service(context, job_id)
        advance("serving it", 80)
        return serve(context, plan.uuid, self.kind)

    def _roll_back(self, context: Context, plan: RollbackPlan, advance: Advance) -> None:
        # Only what was shown is destroyed: one taken meanwhile is in the way, and no host loses its LUN for that.
        dataset = plan.name.split("@", 1)[0]
        found = context.engine.snapshots(dataset, recursive=False)
        own = [snapshot.name for snapshot in found]
        unseen = set(own[own.index(plan.name) + 1 :] if plan.name in own else ()) - set(plan.newer)
        if held := [snapshot.name for snapshot in found if snapshot.holds and snapshot.name in plan.newer]:
            raise ConflictError("a newer snapshot is held by now", held)
        if unseen:
            raise ConflictError("a newer snapshot was taken meanwhile", sorted(unseen), can_force=True)
        advance("taking it out of service", 10)
        out_of_service(context, plan.uuid, plan.force)
        advance("putting it back", 50)
        nothing_late(context, dataset)
        KINDS[plan.kind].closed(context, dataset)
        context.engine.rollback(plan.name, destroy=plan.newer)
        nothing_late(context, dataset)


class ClonePlan(Plan, frozen=True, kw_only=True):
    """`take`: the snapshot is taken for this clone alone."""

    uuid: str
    source: str
    dataset: str
    name: str
    snapshot: str
    take: bool
    soft_threshold: int | None
    layout: Layout
    shown: Shown


class Clone(Operation[requests.CloneDatastore, ClonePlan]):
    """An instant copy of a datastore with an identity of its own. Hosts have to resignature VMFS on it."""

    kind = "snapshot.clone"

    def plan(self, context: Context, request: requests.CloneDatastore) -> ClonePlan:
        """From a snapshot, or from now."""
        stores = context.datastores()
        store = domain.find(stores, request.id, "active")
        check_name(context, stores, request.name)
        check_groups(context, request.host_groups)
        uuid, kind = domain.new_uuid(), KINDS[store.kind]
        only_own(kind, request)
        if request.snapshot:
            _, snapshot = _snapshot_of(context, request.id, request.snapshot)
        else:
            snapshot = clone_snapshot(store.dataset, uuid)
        dataset = domain.dataset_name(store.pool, request.name, uuid, encrypted=domain.is_below_root(store.dataset))
        if store.thick:
            thick.check_dedup(context, dataset)
        shown = kind.decide_shown(context, request, request.name, uuid, None)
        return ClonePlan(
            subject=uuid,
            pools=(store.pool,),
            uuid=uuid,
            source=store.id,
            about=(store.id,),
            dataset=dataset,
            name=request.name,
            snapshot=snapshot,
            take=not request.snapshot,
            soft_threshold=store.soft_threshold,
            layout=kind.decide_clone(store),
            shown=shown,
            claims=shown.claims(request.name),
        )

    def run(self, context: Context, plan: ClonePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Snapshot, clone, identity, target or NFS server."""
        dataset, uuid = plan.dataset, plan.uuid
        advance("cloning", 10)
        ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_dataset(context, dataset, uuid):
            if plan.take:
                try:
                    context.engine.snapshot([plan.snapshot], properties={identity.CREATED_BY: job_id})
                except zfs.SnapshotExists:  # its name is of this job's own random identity
                    pass
                except zfs.OutOfSpace as error:
                    raise thick.snapshot_refused(context, [plan.snapshot]) from error
            numbers = plan.shown.numbers(thick=plan.layout.thick)
            own = identity_properties(plan.name, uuid, plan.soft_threshold, numbers)
            native = plan.layout.clone_properties(mount_path(context, plan.name, uuid))
            try:
                context.engine.clone(plan.snapshot, dataset, properties={**native, **own})
            except zfs.OutOfSpace as error:
                raise thick.made_refused(context, "clone to", plan.name, dataset, plan.layout.refreservation) from error
        advance("giving it its identity", 50)
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        complete(context, dataset)
        advance("serving it", 70)
        return replace(serve(context, uuid, self.kind), snapshot=plan.snapshot)

    def undo(self, context: Context, plan: ClonePlan) -> None:
        """No volume without an identity stays, nor the snapshot that was taken for it."""
        take_back(context, plan.dataset, plan.uuid)
        if plan.take:
            context.look()
            destroy_origin(context, origin_guid(context, plan.snapshot))


OPERATIONS = by_kind(TakeSnapshot(), DeleteSnapshot(), Retire(), Rollback(), Clone())
