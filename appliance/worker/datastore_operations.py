# SPDX-License-Identifier: Apache-2.0
"""Jobs that create and change datastores: a class per kind of job."""

from collections.abc import Sequence
from shlex import quote

import msgspec

from appliance import decoding
from appliance.domain import datastores as domain
from appliance.domain import exports, identity, requests
from appliance.domain.capacity import ROOM_REMEDY
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.jobs import Claims
from appliance.worker import encryption, steps, thick
from appliance.worker.context import Context
from appliance.worker.datastores import DatastorePlan, of_datastore
from appliance.worker.kinds import KINDS, FilesystemLayout, Layout, Shown, check_fields, mount_path
from appliance.worker.steps import Advance, DatastoreResult, Operation, by_kind
from appliance.zfs import errors as zfs


class CreatePlan(DatastorePlan, frozen=True, kw_only=True):
    """`key` identifies the encryption key, if the datastore is encrypted."""

    name: str
    key: str | None
    soft_threshold: int | None
    layout: Layout
    shown: Shown


class Create(Operation[requests.DatastoreCreate, CreatePlan]):
    """Creates an empty datastore for VMFS (a zvol) or NFS (a file system), and serves it to its hosts."""

    kind = "datastore.create"

    def plan(self, context: Context, request: requests.DatastoreCreate) -> CreatePlan:
        kind = KINDS[request.kind]
        check_fields(kind, request)
        if all(pool.name != request.pool for pool in context.scan(60).pools):
            context.scan()  # another user can have created the pool
        stores = context.datastores(60)
        steps.check_name(context, stores, request.name)
        steps.check_groups(context, request.host_groups)
        pool = next((pool for pool in context.scan(60).pools if pool.name == request.pool), None)
        if pool is None:
            raise InvalidError(
                "pool", f"there is no pool {request.pool!r}", ", ".join(pool.name for pool in context.scan(60).pools) or "none"
            )
        uuid = domain.new_uuid()
        root = f"{pool.name}/{domain.ENCRYPTED}" if request.encrypted else pool.name
        dataset = domain.dataset_name(root, request.name, uuid)
        if request.encrypted:
            encryption.check_exported(context, stores, pool.name)
        layout = kind.decide_new(request, pool)
        if request.thick:
            thick.check_properties(context, dataset, layout.record_size if isinstance(layout, FilesystemLayout) else None)
        shown = kind.decide_shown(context, request, request.name, uuid, None)
        return CreatePlan(
            subject=uuid, pools=(pool.name,), uuid=uuid, dataset=dataset, name=request.name,
            key=domain.new_uuid() if request.encrypted else None, soft_threshold=request.soft_threshold, layout=layout,
            shown=shown, claims=shown.claims(request.name),
        )  # fmt: skip

    def run(self, context: Context, plan: CreatePlan, job_id: str, advance: Advance) -> DatastoreResult:
        dataset, uuid = plan.dataset, plan.uuid
        advance("creating its dataset", 10)
        if plan.key:
            steps.ensure_encryption_root(context, dataset.rsplit("/", 1)[0], plan.key)
        else:
            steps.ensure_folder(context, dataset.rsplit("/", 1)[0])
        user_properties = steps.identity_properties(
            plan.name, uuid, plan.soft_threshold, plan.shown.numbers(thick=plan.layout.thick)
        )
        guid = None
        try:
            guid = plan.layout.make(context, dataset, mount_path(context, plan.name, uuid), user_properties)
        except zfs.DatasetExists:
            steps.is_made(context, dataset, uuid)  # made before a crash, or it raises
        except zfs.OutOfSpace as error:
            raise thick.made_refused(context, "create", plan.name, dataset, plan.layout.refreservation) from error
        advance("storing the identity", 50)
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        steps.complete(context, dataset, guid)
        advance("serving it", 70)
        return steps.serve(context, uuid, plan.pools, self.kind)

    def undo(self, context: Context, plan: CreatePlan) -> bool:
        """Destroys the dataset if it has no identity."""
        return steps.take_back(context, plan.dataset, plan.uuid)


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """None changes nothing. A threshold of None takes it away."""

    name: str | None
    lun: int | None
    soft_threshold: int | msgspec.UnsetType | None = msgspec.UNSET
    host_groups: list[str] | None
    clients: list[str] | None
    thick: bool | None


class ChangePlan(DatastorePlan, frozen=True, kw_only=True):
    """`changes` of the request; the other fields are the earlier state of the datastore. `loses`: hosts may lose it. `was_thick`
    is None if an earlier change to thick was not completed.
    """

    changes: Changes
    kind: str
    number: int | None
    export: int | None
    share: str | None
    called: str
    was_thick: bool | None
    size: int
    loses: bool
    force: bool

    @property
    def becomes(self) -> bool | None:
        """Thick (true), thin (false), or unchanged (None)."""
        return None if self.changes.thick == self.was_thick else self.changes.thick


def _shown_after(
    store: domain.Datastore, groups: Sequence[str] | None, clients: Sequence[str] | None
) -> tuple[Sequence[str], Sequence[str]]:
    """Host groups and clients after a change; None changes nothing."""
    return store.host_groups if groups is None else groups, store.clients if clients is None else clients


class Change(Operation[requests.DatastoreUpdate, ChangePlan]):
    """Changes name, threshold, LUN number, host groups or thick; of NFS also clients.

    Taking it away from hosts that use it needs `force`. The path that hosts mount stays when an NFS datastore gets another name.
    """

    kind = "datastore.change"

    def plan(self, context: Context, request: requests.DatastoreUpdate) -> ChangePlan:
        stores = context.datastores()
        store = domain.find(stores, request.id, "active")
        if request.name is not None:
            steps.check_name(context, stores, request.name, store.id)
        steps.check_groups(context, request.host_groups)
        check_fields(KINDS[store.kind], request)
        if request.thick is not None:
            thick.check_change(context, store, request)
        if request.lun is not None and request.lun != store.lun:
            steps.choose_lun(context, request.lun)
            steps.unused(context, store, request.force, "another LUN number takes it away from them")
        clients = None if request.clients is None else exports.check_clients(request.clients)
        groups_after, clients_after = _shown_after(store, request.host_groups, clients)
        loses = bool(set(store.host_groups) - set(groups_after) or set(store.clients) - set(clients_after))
        if loses:
            doing = "fewer host groups or clients take it away from them"
            steps.unused(context, store, request.force, doing, groups_after, clients_after)
        given = request.model_dump(exclude=set() if "soft_threshold" in request.model_fields_set else {"soft_threshold"})
        if clients is not None:
            given["clients"] = clients
        return ChangePlan(
            **of_datastore(store), changes=decoding.convert(given, Changes), kind=store.kind, number=store.lun,
            export=store.export, share=store.share, called=store.name, size=store.size,
            was_thick=None if store.thick and store.becoming_thick else store.thick, becoming_thick=bool(request.thick),
            loses=loses, force=request.force, claims=Claims(name=request.name, lun=request.lun),
        )  # fmt: skip

    def run(self, context: Context, plan: ChangePlan, job_id: str, advance: Advance) -> DatastoreResult:
        changes, dataset, uuid = plan.changes, plan.dataset, plan.uuid
        if plan.loses and not plan.force:
            store = domain.find(context.datastores(3600), uuid, "active")
            if users := context.logged_in(uuid, *_shown_after(store, changes.host_groups, changes.clients)):
                raise ConflictError("hosts use it by now", users, can_force=True)
        if changes.lun not in (None, plan.number):
            steps.still_unused(context, uuid, plan.force, plan.number)
        advance("storing settings with the data", 10)
        stored = ((changes.name, identity.NAME), (changes.lun, identity.LUN), (changes.soft_threshold, identity.SOFT_THRESHOLD))
        properties = {name: str(value) for value, name in stored if value not in (None, msgspec.UNSET)}
        properties |= identity.switched(changes.thick)
        if plan.becomes is False:
            thick.make_thin(context, plan.kind, dataset, plan.size)
        elif plan.becomes:
            context.engine.set_properties(dataset, thick.begin(plan.kind, plan.size))
        elif properties:
            context.engine.set_properties(dataset, properties)
        if changes.soft_threshold is None:
            context.engine.inherit_property(dataset, identity.SOFT_THRESHOLD)
        number = changes.lun if changes.lun is not None else plan.number
        with context.store.session() as session:
            if number is not None:
                domain.present(session, uuid, number, changes.host_groups)
            elif plan.export is not None and plan.share is not None:
                exports.show(session, uuid, plan.export, plan.share, groups=changes.host_groups, clients=changes.clients)
        advance("updating the target" if number is not None else "updating the NFS server", 60)
        served = steps.serve(context, uuid, plan.pools, self.kind)
        if plan.becomes:
            if not served.served:
                raise ConflictError(f"Cannot make {plan.called} thick: it is not served. {served.problem}")
            advance("counting its shared blocks", 80)
            thick.make_thick(context, domain.find(context.datastores(60), uuid, "active"))
            context.scan_pools(plan.pools)
        return served

    def undo(self, context: Context, plan: ChangePlan) -> bool:
        """Makes the datastore thin again. Its other changes remain."""
        if plan.becomes and steps.is_made(context, plan.dataset, plan.uuid):
            thick.make_thin(context, plan.kind, plan.dataset, plan.size)
            steps.serve(context, plan.uuid, plan.pools, self.kind)
        return False


class SizePlan(DatastorePlan, frozen=True, kw_only=True):
    """A new size in bytes. Of an NFS datastore the rest is how it was."""

    size: int
    was: int
    thick: bool
    called: str
    export: int | None


def _sized(store: domain.Datastore, size: int) -> SizePlan:
    return SizePlan(**of_datastore(store), size=size, was=store.size, thick=store.thick, called=store.name, export=store.export)


class Grow(Operation[requests.SizeUpdate, SizePlan]):
    """Grows a VMFS datastore. The target reports the new size to its hosts."""

    kind = "datastore.grow"

    def plan(self, context: Context, request: requests.SizeUpdate) -> SizePlan:
        store = domain.find(context.datastores(), request.id, "active")
        if store.kind == domain.NFS:
            raise ConflictError("an NFS datastore has a quota, and no size: set its quota", [store.name])
        domain.check_size(request.size, store.block_size)
        if request.size < store.size:
            allowed = domain.size_or_more(store.size, store.block_size)
            raise InvalidError("size", "a datastore cannot shrink: VMFS would lose the data at its end", allowed)
        return _sized(store, request.size)

    def run(self, context: Context, plan: SizePlan, job_id: str, advance: Advance) -> DatastoreResult:
        advance("growing the volume", 10)
        try:
            context.engine.grow_volume(plan.dataset, plan.size)
        except zfs.OutOfSpace as error:
            lacking = thick.missing(context, plan.dataset, plan.size)
            raise ConflictError(f"Cannot grow: the pool lacks {lacking}. {ROOM_REMEDY}") from error
        advance("updating the target", 60)
        served = steps.serve(context, plan.uuid, plan.pools, self.kind)
        with context.store.reading() as session:
            stores = domain.datastores(context.scan(3600), session)
        lun = next((store.lun for store in stores if store.uuid == plan.uuid), None)
        if served.served and lun is not None:
            context.target.refresh_lun(context.target_name, lun)
        return served


class Quota(Operation[requests.QuotaUpdate, SizePlan]):
    """Changes the quota of an NFS datastore, never below its used space or what the files of a thick one need."""

    kind = "datastore.quota"

    def plan(self, context: Context, request: requests.QuotaUpdate) -> SizePlan:
        """OpenZFS refuses it too, but says less."""
        store = domain.find(context.datastores(), request.id, "active")
        if store.kind != domain.NFS:
            raise ConflictError("a VMFS datastore has a size, and no quota: grow it", [store.name])
        if store.becoming_thick:
            remedy = f"Wait for it, or make the datastore thin: zvaai datastore change {quote(store.name)} --thin"
            raise ConflictError(f"Cannot change the quota: the change to thick is not complete. {remedy}")
        domain.check_size(request.size)
        if store.thick and request.size < store.size:
            thick.check_smaller(context, store.name, store.export, request.size)
        elif not store.thick and request.size < store.referenced:
            raise InvalidError("size", "the quota would be below the used space", domain.size_or_more(store.referenced))
        return _sized(store, request.size)

    def run(self, context: Context, plan: SizePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Hosts see the new size at their next query. For a thick datastore the NFS server gets the new size."""
        advance("setting the quota", 10)
        if not plan.thick:
            context.engine.set_properties(plan.dataset, {"refquota": str(plan.size)})
            context.scan_pools(plan.pools)
            return steps.served_as_before(context, plan.uuid)
        thick.resize(context, plan.dataset, plan.size)
        advance("updating the NFS server", 60)
        served = steps.serve(context, plan.uuid, plan.pools, self.kind)
        if plan.size < plan.was:  # files may have grown until the NFS server knew
            thick.check_smaller(context, plan.called, plan.export, plan.size)
        return served

    def undo(self, context: Context, plan: SizePlan) -> bool:
        """Restores the size of a thick datastore."""
        if not plan.thick or not steps.is_made(context, plan.dataset, plan.uuid):
            return False
        context.engine.set_properties(plan.dataset, thick.sized(plan.was, thick=True))
        steps.serve(context, plan.uuid, plan.pools, self.kind)
        return True


OPERATIONS = by_kind(Create(), Change(), Grow(), Quota())
