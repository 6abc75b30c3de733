# SPDX-License-Identifier: Apache-2.0
"""Jobs on snapshots: create, destroy, roll back, clone."""

import contextlib
import time
from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from appliance.domain import datastores as domain
from appliance.domain import identity, jobs, requests, retention, schedules
from appliance.domain.errors import ConflictError, ForbiddenError, NotFoundError
from appliance.domain.jobs import Plan, Result
from appliance.worker import encryption, steps, thick
from appliance.worker.context import Context
from appliance.worker.datastores import DatastorePlan, of_datastore
from appliance.worker.kinds import KINDS, Layout, Shown, check_fields, mount_path
from appliance.worker.steps import Advance, DatastoreResult, Operation, by_kind
from appliance.worker.vm_operations import RestoreVm
from appliance.zfs import errors as zfs
from appliance.zfs.model import Snapshot

_AT_ONCE = 500


class SnapshotResult(Result, frozen=True, kw_only=True):
    """Full names."""

    snapshots: list[str] | UnsetType = UNSET
    destroyed: int | UnsetType = UNSET


class SnapshotsPlan(Plan, frozen=True, kw_only=True):
    """Full names of snapshots of one pool. They cannot be destroyed before `protected_until`, in seconds since 1970."""

    names: list[str]
    protected_until: int | None = None


class TakeSnapshot(Operation[requests.SnapshotCreate, SnapshotsPlan]):
    """Creates snapshots of one or more datastores of a pool, in one atomic step."""

    kind = "snapshot.create"

    def plan(self, context: Context, request: requests.SnapshotCreate) -> SnapshotsPlan:
        stores = context.datastores(60)
        chosen = [domain.find(stores, identifier, "active") for identifier in dict.fromkeys(request.datastores)]
        if len({store.pool for store in chosen}) > 1:
            text = "Cannot take one snapshot of datastores in several pools. Take one snapshot for each pool"
            raise ConflictError(text, sorted({store.pool for store in chosen}))
        names = [f"{store.dataset}@{request.name}" for store in chosen]
        existing = {snapshot.name for snapshot in context.scan(60).snapshots}
        if existing & set(names):
            raise ConflictError("the snapshot exists", sorted(existing & set(names)))
        about = tuple(store.id for store in chosen)
        return SnapshotsPlan(
            subject=f"snapshot {request.name} of {about[0]}", pools=(chosen[0].pool,), names=names,
            protected_until=int(time.time()) + request.protect_days * 86400 if request.protect_days else None,
            schedule=request.schedule, about=about,
        )  # fmt: skip

    def run(self, context: Context, plan: SnapshotsPlan, job_id: str, advance: Advance) -> SnapshotResult:
        advance("taking the snapshot", 10)
        properties = {identity.CREATED_BY: job_id}
        if plan.schedule:
            properties[retention.SCHEDULE] = plan.schedule
        if plan.protected_until:
            properties[retention.PROTECT] = str(plan.protected_until)
        try:
            context.engine.snapshot(plan.names, properties=properties)
        except zfs.SnapshotExists:
            made = context.engine.properties(plan.names[0]).get(identity.CREATED_BY)
            if made is None or made.value != job_id:
                raise
        except zfs.OutOfSpace as error:
            raise thick.snapshot_refused(context, plan.names) from error
        if plan.protected_until:
            with contextlib.suppress(zfs.HoldExists):  # the job was resumed
                context.engine.hold(plan.names, retention.PROTECTED)
        context.scan_pools(plan.pools)
        return SnapshotResult(snapshots=plan.names)


def _snapshot_of(context: Context, datastore: str, snapshot: str) -> tuple[domain.Datastore, str]:
    store = domain.find(context.datastores(), datastore, "active")
    name = f"{store.dataset}@{snapshot}"
    if name not in {snapshot.name for snapshot in context.scan(60).snapshots}:
        raise NotFoundError("snapshot", name)
    return store, name


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def _tags(context: Context, snapshot: Snapshot) -> list[str]:
    return [hold.tag for hold in context.engine.holds(snapshot.name)]


def held(context: Context, snapshots: Sequence[Snapshot]) -> ConflictError:
    """Why these can't be destroyed, and what to do."""
    tags = {snapshot.name: _tags(context, snapshot) for snapshot in snapshots}
    blocking = [f"{name} ({', '.join(its)})" for name, its in tags.items()]
    protected = [snapshot for snapshot in snapshots if retention.PROTECTED in tags[snapshot.name]]
    if until := [at for snapshot in protected if (at := retention.protected_until(snapshot)) is not None]:
        reason = f"Cannot destroy protected snapshots. Their protection ends at {_utc(max(until))}, and cannot be ended before"
        return ConflictError(reason, blocking)
    return ConflictError("Cannot destroy snapshots that are held. Release the holds first", blocking)


def _restoring(context: Context) -> dict[str, str]:
    """Snapshots that VMs are being restored from, and the job of each. Other jobs do not wait for these: they have no pool."""
    with context.store.reading() as session:
        return {str(job.parameters.get("snapshot")): job.id for job in jobs.active(session) if job.kind == RestoreVm.kind}


class DeletionPlan(SnapshotsPlan, frozen=True, kw_only=True):
    """`existed`: how many of them existed when the job began; noted for a resume."""

    existed: int | None = None


class DeleteSnapshots(Operation[requests.DeletionCreate, DeletionPlan]):
    """Destroys snapshots of a datastore, all of them or none. Refused while one is held, protected or read, or has clones."""

    kind = "snapshot.delete"

    def plan(self, context: Context, request: requests.DeletionCreate) -> DeletionPlan:
        store = domain.find(context.datastores(), request.id, "active")
        existing = {snapshot.tag: snapshot for snapshot in context.scan(60).snapshots if snapshot.dataset == store.dataset}
        tags = list(dict.fromkeys(request.names))
        if missing := [tag for tag in tags if tag not in existing]:
            raise NotFoundError("snapshot", ", ".join(missing[:5]))
        chosen = [existing[tag] for tag in tags]
        restoring = _restoring(context)
        blocked = [each for each in chosen if each.holds or each.clones or each.name in restoring]
        if blocking := [_blocking(context, snapshot, restoring.get(snapshot.name)) for snapshot in blocked]:
            reason = "Cannot delete snapshots that are held, protected or being read, or have clones. Leave them out"
            raise ConflictError(f"{reason}, or first release the holds, purge the clones, and wait for the jobs", blocking)
        names = [snapshot.name for snapshot in chosen]
        return DeletionPlan(subject=f"{store.id}@{tags[0]}", pools=(store.pool,), names=names, about=(store.id,))

    def run(self, context: Context, plan: DeletionPlan, job_id: str, advance: Advance) -> SnapshotResult:
        """A missing snapshot is not an error, unless all are missing. A promotion while the job waits gives them to the clone."""
        advance("destroying snapshots", 10)
        if reading := [f"{name} (job {by})" for name, by in _restoring(context).items() if name in plan.names]:
            raise ConflictError("Cannot delete snapshots from which a VM is being restored by now", reading)
        existed = plan.existed
        if existed is None:
            existing = {snapshot.name for snapshot in context.scan_pools(plan.pools).snapshots}
            existed = len(existing.intersection(plan.names))
            if not existed:
                raise NotFoundError("snapshot", ", ".join(plan.names[:5]))
            with context.store.session() as session:
                jobs.note(session, job_id, existed=existed)
        context.engine.destroy_snapshots(plan.names)
        context.scan_pools(plan.pools)
        return SnapshotResult(destroyed=existed)


def _blocking(context: Context, snapshot: Snapshot, restoring: str | None) -> str:
    """Name, and what prevents the deletion: "before (held: audit; clone: copy)"."""
    tags = _tags(context, snapshot) if snapshot.holds else []
    until = retention.protected_until(snapshot) if retention.PROTECTED in tags else None
    reasons = [f"protected until {_utc(until)}"] if until is not None else []
    reasons += [f"held: {tag}" for tag in tags if tag != retention.PROTECTED]
    reasons += [f"clone: {clone}" for clone in steps.names_of(context, snapshot.clones)]
    reasons += [f"job {restoring} restores a VM from it"] if restoring is not None else []
    return f"{snapshot.tag} ({'; '.join(reasons)})"


class RetirePlan(SnapshotsPlan, frozen=True, kw_only=True):
    """The protection of the `expired` has ended."""

    expired: list[str] = []


class Retire(Operation[requests.RetireSnapshots, RetirePlan]):
    """Destroys snapshots of one pool that schedules do not retain, in few steps."""

    kind = "snapshot.retention"

    def plan(self, context: Context, request: requests.RetireSnapshots) -> RetirePlan:
        subject, about, pools = f"retention of {request.pool}", tuple(request.about), (request.pool,)
        return RetirePlan(subject=subject, pools=pools, names=request.names, expired=request.expired, about=about)

    def run(self, context: Context, plan: RetirePlan, job_id: str, advance: Advance) -> SnapshotResult:
        """Does not destroy snapshots with new holds or clones, or that are being sent or read by the restore of a VM: a later run
        tries again. Nor what its schedule retains by now, or of a schedule that is paused or deleted by now.
        """
        destroyed = 0
        self._end_protection(context, plan, advance)
        for begin in range(0, len(plan.names), _AT_ONCE):
            advance("destroying snapshots", 10 + 80 * begin // len(plan.names))
            with context.store.reading() as session:
                rules = schedules.rules(session)
            destroyable = {snapshot.name for snapshot in retention.surplus(context.scan_pools(plan.pools).snapshots, rules)}
            destroyable -= _restoring(context).keys()
            names = [name for name in plan.names[begin : begin + _AT_ONCE] if name in destroyable]
            while names:
                try:
                    context.engine.destroy_snapshots(names)
                except (zfs.SnapshotHeld, zfs.HasDependants, zfs.DatasetBusy) as held:  # just now, or by `zfs send`
                    names.remove(held.name)
                else:
                    destroyed += len(names)
                    break
        context.scan_pools(plan.pools)
        return SnapshotResult(destroyed=destroyed)

    def _end_protection(self, context: Context, plan: RetirePlan, advance: Advance) -> None:
        """Each release waits for a transaction group, and the pool's other jobs wait too: so many snapshots at once."""
        gone = (zfs.NoSuchSnapshot, zfs.NoSuchDataset, zfs.NoSuchHold)
        for begin in range(0, len(plan.expired), _AT_ONCE):
            advance("ending the protection", 10 * begin // len(plan.expired))
            names = plan.expired[begin : begin + _AT_ONCE]
            try:
                context.engine.release(names, retention.PROTECTED)
            except gone:  # one of them, and then none was released
                for name in names:
                    with contextlib.suppress(*gone):
                        context.engine.release([name], retention.PROTECTED)
        held = [snapshot.name for snapshot in context.scan_pools(plan.pools).snapshots if snapshot.holds] if plan.expired else []
        for name in set(plan.expired).intersection(held):
            # Its other hold keeps it, and it would count as protected until a time that has passed.
            with contextlib.suppress(*gone):
                context.engine.inherit_property(name, retention.PROTECT)


class RollbackPlan(Plan, frozen=True, kw_only=True):
    """Rollback to the snapshot `name`, which destroys the `newer` ones. `done` is recorded once hosts may write again."""

    uuid: str
    kind: str
    name: str
    newer: list[str]
    force: bool
    done: bool = False


class Rollback(Operation[requests.RollbackCreate, RollbackPlan]):
    """Rolls a datastore back to a snapshot. Later writes are lost.

    Refused while hosts are logged in, unless forced. Newer snapshots are destroyed only if the request of an admin names them,
    and none that is held, protected or cloned.
    """

    kind = "snapshot.rollback"

    def plan(self, context: Context, request: requests.RollbackCreate) -> RollbackPlan:
        """Refused while hosts are logged in, unless forced, and while newer snapshots are not named, or are held or cloned."""
        store, name = _snapshot_of(context, request.id, request.snapshot)
        force = request.force
        snapshots = [snapshot for snapshot in context.scan(60).snapshots if snapshot.dataset == store.dataset]
        position = next(index for index, snapshot in enumerate(snapshots) if snapshot.name == name)
        newer = snapshots[position + 1 :]
        clones = [clone for snapshot in newer for clone in snapshot.clones]
        if clones:
            # Not by a promotion, which would take the snapshot of the request from the datastore too.
            reason = f"Cannot roll back {store.name} to {request.snapshot}: newer snapshots have clones. Delete and purge these"
            raise ConflictError(f"{reason}; or clone {request.snapshot} and use that clone", steps.names_of(context, clones))
        if with_holds := [snapshot for snapshot in newer if snapshot.holds]:
            raise held(context, with_holds)
        unseen = [snapshot.tag for snapshot in newer if snapshot.tag not in request.destroy]
        if unseen:
            raise ConflictError("newer snapshots would be destroyed, and the request does not name them", unseen)
        if newer and not request.may_destroy:
            names = ", ".join(snapshot.tag for snapshot in newer[:5])
            raise ForbiddenError(f"only an admin may roll back to {request.snapshot}: that destroys {names}")
        steps.unused(context, store, force, "their cached data does not match the data after a rollback")
        return RollbackPlan(
            subject=store.id, pools=(store.pool,), uuid=store.id, kind=store.kind, name=name,
            newer=[snapshot.name for snapshot in newer], out_of_service=(store.id,), force=force,
        )  # fmt: skip

    def run(self, context: Context, plan: RollbackPlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Out of service, rollback, in service. After hosts may write again, a resumed job does not roll back a second time."""
        if not plan.done:
            self._roll_back(context, plan, advance)
            steps.in_service(context, job_id)
        advance("serving it", 80)
        return steps.serve(context, plan.uuid, plan.pools, self.kind)

    def _roll_back(self, context: Context, plan: RollbackPlan, advance: Advance) -> None:
        # Only snapshots in the request are destroyed: a newer one is a conflict, and no host loses its LUN for it.
        dataset = plan.name.split("@", 1)[0]
        snapshots = context.engine.snapshots(dataset, recursive=False)
        names = [snapshot.name for snapshot in snapshots]
        unseen = set(names[names.index(plan.name) + 1 :] if plan.name in names else ()) - set(plan.newer)
        if held := [snapshot.name for snapshot in snapshots if snapshot.holds and snapshot.name in plan.newer]:
            raise ConflictError("a newer snapshot is held by now", held)
        if unseen:
            raise ConflictError("a newer snapshot was taken meanwhile", sorted(unseen))
        advance("taking it out of service", 10)
        steps.out_of_service(context, plan.uuid, plan.pools, plan.force)
        advance("rolling back", 50)
        KINDS[plan.kind].closed(context, dataset)
        try:
            context.engine.rollback(plan.name, destroy=plan.newer)
        except zfs.OutOfSpace as error:
            raise thick.rollback_refused(steps.names_of(context, [dataset])[0], error) from error


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


class Clone(Operation[requests.CloneCreate, ClonePlan]):
    """Clones a datastore at once. The clone has its own identity, so hosts must resignature VMFS on it."""

    kind = "snapshot.clone"

    def plan(self, context: Context, request: requests.CloneCreate) -> ClonePlan:
        stores = context.datastores(60)
        store = domain.find(stores, request.id, "active")
        steps.check_name(context, stores, request.name)
        steps.check_groups(context, request.host_groups)
        uuid, kind = domain.new_uuid(), KINDS[store.kind]
        check_fields(kind, request)
        if request.snapshot:
            _, snapshot = _snapshot_of(context, request.id, request.snapshot)
        else:
            snapshot = f"{store.dataset}@clone-{uuid[:8]}"
        encryption.check_clone(context, stores, store)
        dataset = domain.dataset_name(domain.root_of(store.dataset, store.encryption_root), request.name, uuid)
        if store.thick:
            thick.check_properties(context, dataset, store.block_size if store.kind == domain.NFS else None)
        shown = kind.decide_shown(context, request, request.name, uuid, None)
        return ClonePlan(
            subject=uuid, pools=(store.pool,), uuid=uuid, source=store.id, about=(store.id,), dataset=dataset,
            name=request.name, snapshot=snapshot, take=not request.snapshot, soft_threshold=store.soft_threshold,
            layout=kind.decide_clone(store), shown=shown, claims=shown.claims(request.name),
        )  # fmt: skip

    def run(self, context: Context, plan: ClonePlan, job_id: str, advance: Advance) -> DatastoreResult:
        dataset, uuid = plan.dataset, plan.uuid
        advance("cloning", 10)
        steps.ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not steps.is_made(context, dataset, uuid):
            if plan.take:
                try:
                    context.engine.snapshot([plan.snapshot], properties={identity.CREATED_BY: job_id})
                except zfs.SnapshotExists:  # its name is of this job's own random identity
                    pass
                except zfs.OutOfSpace as error:
                    raise thick.snapshot_refused(context, [plan.snapshot]) from error
            numbers = plan.shown.numbers(thick=plan.layout.thick)
            user_properties = steps.identity_properties(plan.name, uuid, plan.soft_threshold, numbers)
            native = plan.layout.clone_properties(mount_path(context, plan.name, uuid))
            try:
                context.engine.clone(plan.snapshot, dataset, properties={**native, **user_properties})
            except zfs.OutOfSpace as error:
                raise thick.made_refused(context, "clone to", plan.name, dataset, plan.layout.refreservation) from error
        advance("storing the identity", 50)
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        steps.complete(context, dataset)
        advance("serving it", 70)
        return replace(steps.serve(context, uuid, plan.pools, self.kind), snapshot=plan.snapshot)

    def undo(self, context: Context, plan: ClonePlan) -> bool:
        """Destroys the volume if it has no identity, and the snapshot that was taken for it."""
        undone = steps.take_back(context, plan.dataset, plan.uuid)
        if plan.take:
            context.scan_pools(plan.pools)
            steps.destroy_origin(context, steps.origin_guid(context, plan.snapshot), plan.pools)
        return undone


class PromotePlan(DatastorePlan, frozen=True, kw_only=True):
    """`origin`: the snapshot that it is a clone of. It becomes the clone's own, and keeps its GUID."""

    origin: str
    origin_guid: str | None


class Promote(Operation[requests.PromoteDatastore, PromotePlan]):
    """Makes a clone independent of its origin, so that the origin can be purged. The shared snapshots become the clone's.

    The origin then is a clone itself. No data is copied, and hosts notice nothing.
    """

    kind = "datastore.promote"

    def plan(self, context: Context, request: requests.PromoteDatastore) -> PromotePlan:
        """The datastore must be a clone, and must not have a snapshot with the same name."""
        store = domain.find(context.datastores(), request.id, "active")
        inventory = context.scan(60)
        clone = inventory.dataset(store.dataset)
        if clone is None or clone.origin is None:
            raise ConflictError(f"Cannot promote {store.name}: it is not a clone")
        source, _, tag = clone.origin.partition("@")
        of_source = [snapshot.tag for snapshot in inventory.snapshots if snapshot.dataset == source]
        moving = of_source[: of_source.index(tag) + 1] if tag in of_source else [tag]
        tags = {snapshot.tag for snapshot in inventory.snapshots if snapshot.dataset == store.dataset}
        if twice := [name for name in moving if name in tags]:
            reason = f"Cannot promote {store.name}: it has snapshots of the same name as its origin. Delete one of each pair"
            raise ConflictError(reason, twice)
        sources = [store.id for store in context.datastores(60) if store.dataset == source]
        guid = next((str(snapshot.guid) for snapshot in inventory.snapshots if snapshot.name == clone.origin), None)
        return PromotePlan(**of_datastore(store), about=tuple(sources), origin=clone.origin, origin_guid=guid)

    def run(self, context: Context, plan: PromotePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """One call. If the clone has the snapshot, it was promoted before a crash. Else another clone was promoted meanwhile."""
        advance("promoting it", 10)
        origin = context.engine.properties(plan.dataset).get("origin")
        if origin is not None and origin.value == plan.origin:
            source = plan.origin.partition("@")[0]
            if reading := [f"{name} (job {by})" for name, by in _restoring(context).items() if name.startswith(f"{source}@")]:
                raise ConflictError("A VM is being restored from a snapshot that could become the clone's", reading)
            context.engine.promote(plan.dataset)
        elif plan.origin_guid not in {str(each.guid) for each in context.engine.snapshots(plan.dataset, recursive=False)}:
            (name,) = steps.names_of(context, [plan.dataset])
            raise ConflictError(f"Cannot promote {name}: its origin has changed meanwhile. Promote it again")
        context.scan_pools(plan.pools)
        return DatastoreResult(datastore=plan.uuid)


OPERATIONS = by_kind(TakeSnapshot(), DeleteSnapshots(), Retire(), Rollback(), Clone(), Promote())
