# SPDX-License-Identifier: Apache-2.0
"""Jobs that delete datastores, restore and purge deleted ones, and forget missing ones."""

import time

from sqlalchemy import select

from appliance.database.models import HostGroup
from appliance.domain import datastores as domain
from appliance.domain import identity, requests
from appliance.domain.errors import ConflictError
from appliance.domain.jobs import Plan
from appliance.domain.pool_health import LOST, unlisted
from appliance.worker import steps
from appliance.worker.context import Context
from appliance.worker.datastores import DatastorePlan, of_datastore
from appliance.worker.kinds import KINDS, Shown, check_fields
from appliance.worker.pools import find_pool
from appliance.worker.snapshot_operations import held
from appliance.worker.steps import Advance, DatastoreResult, Operation, by_kind


class DeletePlan(DatastorePlan, frozen=True, kw_only=True):
    kind: str
    force: bool
    shown_to: str


class Delete(Operation[requests.DeleteDatastore, DeletePlan]):
    """Marks a datastore as deleted. It can be restored until it is purged. Refused while hosts use it, unless forced.

    Its dataset retains its name: a full pool has no space for another parent.
    """

    kind = "datastore.delete"

    def plan(self, context: Context, request: requests.DeleteDatastore) -> DeletePlan:
        store = domain.find(context.datastores(), request.id, "active")
        steps.unused(context, store, request.force, "deleting it takes it away from them")
        return DeletePlan(
            **of_datastore(store),
            kind=store.kind,
            out_of_service=(store.id,),
            force=request.force,
            shown_to=identity.ShownTo(host_groups=store.host_groups, clients=store.clients).to_property(),
        )

    def run(self, context: Context, plan: DeletePlan, job_id: str, advance: Advance) -> DatastoreResult:
        advance("taking it out of service", 10)
        steps.out_of_service(context, plan.uuid, plan.pools, plan.force)
        advance("marking it as deleted", 50)
        KINDS[plan.kind].before_trash(context, plan.dataset)
        marks = {identity.DELETED: str(int(time.time())), identity.SHOWN_TO: plan.shown_to}
        context.engine.set_properties(plan.dataset, marks)
        with context.store.session() as session:
            domain.forget(session, plan.uuid)
        context.scan_pools(plan.pools)
        return DatastoreResult(datastore=plan.uuid, dataset=plan.dataset)

    def undo(self, context: Context, plan: DeletePlan) -> bool:
        """A dataset that was not marked is not deleted."""
        if not steps.is_made(context, plan.dataset, plan.uuid) or identity.DELETED in context.engine.properties(plan.dataset):
            return False
        KINDS[plan.kind].after_trash(context, plan.dataset)
        return True


class RestorePlan(DatastorePlan, frozen=True, kw_only=True):
    kind: str
    name: str
    shown: Shown


class Restore(Operation[requests.RestoreCreate, RestorePlan]):
    """Restores a datastore from the trash, with the same identity."""

    kind = "datastore.restore"

    def plan(self, context: Context, request: requests.RestoreCreate) -> RestorePlan:
        """Its name may be taken meanwhile: then another is needed."""
        stores = context.datastores()
        store = domain.find(stores, request.id, "deleted")
        name = request.name or store.name
        steps.check_name(context, stores, name)
        steps.check_groups(context, request.host_groups)
        dataset, kind = context.scan(60).dataset(store.dataset), KINDS[store.kind]
        check_fields(kind, request)
        recorded = identity.judge(dataset) if dataset else None
        recorded = recorded if isinstance(recorded, identity.Identity) else None
        shown = kind.decide_shown(context, _as_before(context, request, recorded), name, store.id, recorded)
        return RestorePlan(**of_datastore(store), kind=kind.name, name=name, shown=shown, claims=shown.claims(name))

    def run(self, context: Context, plan: RestorePlan, job_id: str, advance: Advance) -> DatastoreResult:
        dataset, uuid = plan.dataset, plan.uuid
        advance("restoring the dataset", 10)
        context.engine.set_properties(dataset, {identity.NAME: plan.name, **plan.shown.numbers(thick=None)})
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        KINDS[plan.kind].after_trash(context, dataset)
        _unmark(context, dataset)
        advance("serving it", 60)
        return steps.serve(context, uuid, plan.pools, self.kind)


def _as_before(context: Context, request: requests.RestoreCreate, recorded: identity.Identity | None) -> requests.RestoreCreate:
    """Adds values from before the deletion to a request without them."""
    before = (recorded.shown_to if recorded else None) or identity.ShownTo()
    with context.store.reading() as session:
        existing = set(session.scalars(select(HostGroup.id)))
    groups = [group_id for group_id in before.host_groups if group_id in existing]
    shown = {"host_groups": groups, "clients": list(before.clients) or None}
    return request.model_copy(update={name: value for name, value in shown.items() if getattr(request, name) is None})


def _unmark(context: Context, dataset: str) -> None:
    """Removes the marks of the deletion. The DELETED property is removed last."""
    context.engine.inherit_property(dataset, identity.SHOWN_TO)
    context.engine.inherit_property(dataset, identity.DELETED)


class PurgePlan(DatastorePlan, frozen=True, kw_only=True):
    """`origin`: the GUID of the snapshot that was taken for it alone."""

    kind: str
    origin: int | None


class Purge(Operation[requests.PurgeDatastore, PurgePlan]):
    """Destroys a deleted datastore with its snapshots. This cannot be undone."""

    kind = "datastore.purge"

    def plan(self, context: Context, request: requests.PurgeDatastore) -> PurgePlan:
        store = domain.find(context.datastores(), request.id, "deleted")
        snapshots = [snapshot for snapshot in context.scan(60).snapshots if snapshot.dataset == store.dataset]
        if with_holds := [snapshot for snapshot in snapshots if snapshot.holds]:
            raise held(context, with_holds)
        clones = [dependant.name for dependant in context.engine.dependants(store.dataset) if dependant.kind == "clone"]
        if clones:
            raise ConflictError(
                "clones depend on its snapshots; promote them, or purge them first", steps.names_of(context, clones)
            )
        return PurgePlan(**of_datastore(store), kind=store.kind, origin=steps.origin_guid(context, store.origin))

    def run(self, context: Context, plan: PurgePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Destroys the dataset, if its GUID matches, and the snapshot that was taken only for it."""
        advance("destroying it", 10)
        find_pool(context, plan.pools[0])  # in a pool that was exported meanwhile no dataset exists either
        if steps.is_made(context, plan.dataset, plan.uuid):
            context.engine.destroy(plan.dataset, with_snapshots=True)
        if plan.kind == domain.VMFS:
            steps.forget_reservations(context, plan.dataset, plan.uuid)
        steps.destroy_origin(context, plan.origin, plan.pools)
        with context.store.session() as session:
            domain.forget(session, plan.uuid)
        context.scan_pools(plan.pools)
        return DatastoreResult(datastore=plan.uuid)


class ForgetPlan(Plan, frozen=True, kw_only=True):
    uuid: str
    force: bool


class Forget(Operation[requests.ForgetDatastore, ForgetPlan]):
    """Forgets a missing datastore: its LUN number and host groups are free again."""

    kind = "datastore.forget"

    def plan(self, context: Context, request: requests.ForgetDatastore) -> ForgetPlan:
        """Refused while a pool cannot be read, and, unless forced, while hosts of it are logged in: its pool may only be away."""
        store = domain.find(context.datastores(), request.id, "missing")
        if hidden := [pool.name for pool in context.scan(60).pools if unlisted(pool)]:
            raise ConflictError(f"Cannot forget it: a pool that cannot be read can have it. {LOST}", hidden)
        steps.unused(context, store, request.force, "they do not get it back with its pool")
        return ForgetPlan(subject=store.id, pools=(), uuid=store.id, force=request.force)

    def run(self, context: Context, plan: ForgetPlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Does nothing for a datastore that exists again."""
        stores = context.datastores()
        if any(store.uuid == plan.uuid and store.state != "missing" for store in stores):
            raise ConflictError("it is not missing any more", [plan.uuid])
        steps.still_unused(context, plan.uuid, plan.force)
        advance("forgetting it", 10)
        with context.store.session() as session:
            domain.forget(session, plan.uuid)
        return DatastoreResult(datastore=plan.uuid, problems=steps.problems_serving(context, self.kind, uuid=plan.uuid))


OPERATIONS = by_kind(Delete(), Restore(), Purge(), Forget())
