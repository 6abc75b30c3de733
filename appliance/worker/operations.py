# SPDX-License-Identifier: Apache-2.0
"""Jobs on datastores: a class per kind of job."""

from __future__ import annotations

import re
import time

import msgspec
from sqlalchemy import select

from appliance.database.models import HostGroup
from appliance.dataplane import export_file
from appliance.domain import datastores as domain
from appliance.domain import designation, exports, identity, requests
from appliance.domain.designation import Designation
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.jobs import Claims, Plan
from appliance.domain.thick import without_slack
from appliance.worker import encryption, reservations, thick
from appliance.worker.context import Context
from appliance.worker.kinds import KINDS, Layout, Shown, dataset_kind, mount_path, only_own
from appliance.worker.steps import (
    Advance,
    DatastoreResult,
    Operation,
    by_kind,
    check_groups,
    check_name,
    choose_lun,
    complete,
    dataset_of,
    destroy_origin,
    ensure_encryption_root,
    ensure_folder,
    forget_reservations,
    identity_properties,
    names_of,
    origin_guid,
    out_of_service,
    own_dataset,
    pending_claims,
    problems_serving,
    serve,
    served_as_before,
    still_unused,
    take_back,
    unreserved,
    unused,
)  # fmt: skip
from appliance.zfs import configuration_copies
from appliance.zfs import errors as zfs
from appliance.zfs.model import Dataset, Filesystem, Source, Volume


class DatastorePlan(Plan, frozen=True, kw_only=True):
    """Of a job about one datastore."""

    uuid: str
    dataset: str


class CreatePlan(DatastorePlan, frozen=True, kw_only=True):
    """`key` identifies the encryption key, if the datastore is encrypted."""

    name: str
    key: str | None
    soft_threshold: int | None
    layout: Layout
    shown: Shown


class Create(Operation[requests.CreateDatastore, CreatePlan]):
    """An empty datastore with its own identity, served: a zvol for VMFS, or a file system for NFS."""

    kind = "datastore.create"

    def plan(self, context: Context, request: requests.CreateDatastore) -> CreatePlan:
        kind = KINDS[request.kind]
        only_own(kind, request)
        if all(pool.name != request.pool for pool in context.scan(60).pools):
            context.scan()  # somebody else may have made the pool
        stores = context.datastores(60)
        check_name(context, stores, request.name)
        check_groups(context, request.host_groups)
        pool = next((pool for pool in context.scan(60).pools if pool.name == request.pool), None)
        if pool is None:
            raise InvalidError(
                "pool", f"there is no pool {request.pool!r}", ", ".join(pool.name for pool in context.scan(60).pools) or "none"
            )
        uuid = domain.new_uuid()
        dataset = domain.dataset_name(pool.name, request.name, uuid, encrypted=request.encrypted)
        if request.encrypted:
            encryption.check_exported(context, stores, pool.name)
        if request.thick:
            thick.check_dedup(context, dataset)
        layout = kind.decide_new(request, pool)
        shown = kind.decide_shown(context, request, request.name, uuid, None)
        return CreatePlan(
            subject=uuid,
            pools=(pool.name,),
            uuid=uuid,
            dataset=dataset,
            name=request.name,
            key=domain.new_uuid() if request.encrypted else None,
            soft_threshold=request.soft_threshold,
            layout=layout,
            shown=shown,
            claims=shown.claims(request.name),
        )

    def run(self, context: Context, plan: CreatePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Dataset, identity, numbers, target or NFS server."""
        dataset, uuid = plan.dataset, plan.uuid
        advance("creating its dataset", 10)
        if plan.key:
            ensure_encryption_root(context, dataset.rsplit("/", 1)[0], plan.key)
        else:
            ensure_folder(context, dataset.rsplit("/", 1)[0])
        own = identity_properties(plan.name, uuid, plan.soft_threshold, plan.shown.numbers(thick=plan.layout.thick))
        guid = None
        try:
            guid = plan.layout.make(context, dataset, mount_path(context, plan.name, uuid), own)
        except zfs.DatasetExists:
            own_dataset(context, dataset, uuid)  # made before a crash, or it raises
        except zfs.OutOfSpace as error:
            raise thick.made_refused(context, "create", plan.name, dataset, plan.layout.refreservation) from error
        advance("giving it its identity", 50)
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        complete(context, dataset, guid)
        advance("serving it", 70)
        return serve(context, uuid, plan.pools, self.kind)

    def undo(self, context: Context, plan: CreatePlan) -> None:
        """No dataset without an identity stays."""
        take_back(context, plan.dataset, plan.uuid)


class ChangePlan(DatastorePlan, frozen=True, kw_only=True):
    """`changes` as they were requested; the rest is how the datastore was then. `loses`: hosts may lose it."""

    changes: requests.ChangeDatastore
    kind: str
    number: int | None
    export: int | None
    share: str | None
    called: str
    was_thick: bool
    size: int
    loses: bool
    force: bool

    @property
    def becomes(self) -> bool | None:
        """Thick (true), thin (false), or stays what it is."""
        return None if self.changes.thick == self.was_thick else self.changes.thick


class Change(Operation[requests.ChangeDatastore, ChangePlan]):
    """Name, threshold, LUN number, host groups, thick or thin; of an NFS datastore clients, versions, squash."""

    kind = "datastore.change"

    def plan(self, context: Context, request: requests.ChangeDatastore) -> ChangePlan:
        """Taking it away from hosts that are logged in needs force."""
        stores = context.datastores()
        store = domain.find(stores, request.id, "active")
        if request.name is not None:
            check_name(context, stores, request.name, store.id)
        check_groups(context, request.host_groups)
        only_own(KINDS[store.kind], request)
        if request.thick is not None:
            thick.check_change(context, store, request)
        if request.lun is not None and request.lun != store.lun:
            choose_lun(context, request.lun)
            unused(context, store, request.force, "another LUN number takes it away from them")
            unreserved(context, store, request.force)
        groups = request.host_groups
        fewer_groups = groups is not None and bool(set(store.host_groups) - set(groups))
        if fewer_groups:
            unused(context, store, request.force, "fewer host groups may take it away from them")
        narrower = store.kind == domain.NFS and _takes_away(store, request)
        if narrower:
            unused(context, store, request.force, "fewer clients, fewer versions or squashing may take it away from them")
        if request.clients is not None:
            request = msgspec.structs.replace(request, clients=exports.check_clients(request.clients))
        return ChangePlan(
            subject=store.id,
            pools=(store.pool,),
            uuid=store.id,
            dataset=store.dataset,
            changes=request,
            kind=store.kind,
            number=store.lun,
            export=store.export,
            share=store.share,
            called=store.name,
            was_thick=store.thick,
            becoming_thick=bool(request.thick),
            size=store.size,
            loses=fewer_groups or narrower,
            force=request.force,
            claims=Claims(name=request.name, lun=request.lun),
        )

    def run(self, context: Context, plan: ChangePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Properties in one step, then who serves it."""
        changes, dataset, uuid = plan.changes, plan.dataset, plan.uuid
        if plan.loses and not plan.force and (users := context.logged_in(uuid)):
            raise ConflictError("hosts use it by now", users, can_force=True)
        if changes.lun not in (None, plan.number):
            still_unused(context, uuid, plan.force, plan.number)
        advance("setting what is kept with the data", 10)
        kept = ((changes.name, identity.NAME), (changes.lun, identity.LUN), (changes.soft_threshold, identity.SOFT_THRESHOLD))
        properties = {name: str(value) for value, name in kept if value not in (None, msgspec.UNSET)}
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
                exports.show(
                    session,
                    uuid,
                    plan.export,
                    plan.share,
                    groups=changes.host_groups,
                    versions=changes.versions,
                    squash=changes.squash,
                    clients=changes.clients,
                )
        advance("telling who serves it", 60)
        served = serve(context, uuid, plan.pools, self.kind)
        if plan.becomes:
            if not served.served:
                raise ConflictError(f"Cannot make {plan.called} thick: it is not served. {served.problem}")
            advance("counting its shared blocks", 80)
            thick.make_thick(context, domain.find(context.datastores(60), uuid, "active"))
            context.scan_pools(plan.pools)
        return served

    def undo(self, context: Context, plan: ChangePlan) -> None:
        if plan.becomes and own_dataset(context, plan.dataset, plan.uuid):
            thick.make_thin(context, plan.kind, plan.dataset, plan.size)
            serve(context, plan.uuid, plan.pools, self.kind)


def _takes_away(store: domain.Datastore, request: requests.ChangeDatastore) -> bool:
    """Whether an NFS datastore's clients may lose something."""
    fewer = ((store.clients, request.clients), (store.versions, request.versions))
    if any(after is not None and set(before) - set(after) for before, after in fewer):
        return True
    return request.squash not in (None, "none", store.squash)


class SizePlan(DatastorePlan, frozen=True, kw_only=True):
    """A new size in bytes. Of an NFS datastore the rest is how it was."""

    kind: str
    size: int
    was: int
    thick: bool
    called: str
    export: int | None


def _sized(store: domain.Datastore, size: int) -> SizePlan:
    return SizePlan(
        subject=store.id,
        pools=(store.pool,),
        uuid=store.id,
        dataset=store.dataset,
        kind=store.kind,
        size=size,
        was=store.size,
        thick=store.thick,
        called=store.name,
        export=store.export,
    )


class Grow(Operation[requests.GrowDatastore, SizePlan]):
    """A larger volume, or quota; hosts see it at once."""

    kind = "datastore.grow"

    def plan(self, context: Context, request: requests.GrowDatastore) -> SizePlan:
        store = domain.find(context.datastores(), request.id, "active")
        if store.kind == domain.NFS:
            if request.size < store.size:
                raise InvalidError("size", "this is less than now: set its quota", f"{store.size} or more")
            return Quota().plan(context, requests.SetQuota(id=request.id, size=request.size))
        domain.check_size(request.size, store.block_size)
        if request.size < store.size:
            raise InvalidError(
                "size", "a datastore does not get smaller: VMFS would lose what is at its end", f"{store.size} or more"
            )
        return _sized(store, request.size)

    def run(self, context: Context, plan: SizePlan, job_id: str, advance: Advance) -> DatastoreResult:
        if plan.kind == domain.NFS:
            return Quota().run(context, plan, job_id, advance)
        advance("growing the volume", 10)
        try:
            context.engine.grow_volume(plan.dataset, plan.size)
        except zfs.OutOfSpace as error:
            lacking = thick.missing(context, plan.dataset, plan.size)
            raise ConflictError(f"Cannot grow: the pool lacks {lacking} bytes. Add vdevs, or delete data") from error
        advance("telling the target", 60)
        served = serve(context, plan.uuid, plan.pools, self.kind)
        with context.store.reading() as session:
            stores = domain.datastores(context.scan(3600), session)
        lun = next((store.lun for store in stores if store.uuid == plan.uuid), None)
        if served.served and lun is not None:
            context.target.refresh_lun(context.configuration.target.name, lun)
        return served

    def undo(self, context: Context, plan: SizePlan) -> None:
        """Of NFS, as Quota does."""
        if plan.kind == domain.NFS:
            Quota().undo(context, plan)


class Quota(Operation[requests.SetQuota, SizePlan]):
    """Of an NFS datastore: larger or smaller, never below what it has, or what the files of a thick one need."""

    kind = "datastore.quota"

    def plan(self, context: Context, request: requests.SetQuota) -> SizePlan:
        """OpenZFS refuses it too, but says less."""
        store = domain.find(context.datastores(), request.id, "active")
        if store.kind != domain.NFS:
            raise ConflictError("a VMFS datastore has a size, and no quota: grow it", [store.name])
        domain.check_quota(request.size)
        if store.thick and request.size < store.size:
            thick.check_smaller(context, store.name, store.export, request.size)
        elif not store.thick and request.size < store.referenced:
            raise InvalidError("size", "the quota would be below what it holds", f"{store.referenced} or more")
        return _sized(store, request.size)

    def run(self, context: Context, plan: SizePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Hosts see the new size at their next query. For a thick datastore the NFS server gets the new size."""
        advance("setting the quota", 10)
        if not plan.thick:
            context.engine.set_properties(plan.dataset, {"refquota": str(plan.size)})
            context.scan_pools(plan.pools)
            return served_as_before(context, plan.uuid)
        thick.resize(context, plan.dataset, plan.size, plan.was)
        advance("telling the NFS server", 60)
        served = serve(context, plan.uuid, plan.pools, self.kind)
        if plan.size < plan.was:  # files may have grown until the NFS server knew
            thick.check_smaller(context, plan.called, plan.export, plan.size)
        return served

    def undo(self, context: Context, plan: SizePlan) -> None:
        """Of a thick one, to its size before."""
        if plan.thick and own_dataset(context, plan.dataset, plan.uuid):
            context.engine.set_properties(plan.dataset, thick.sized(plan.was, thick=True))
            serve(context, plan.uuid, plan.pools, self.kind)


class DeletePlan(DatastorePlan, frozen=True, kw_only=True):
    """`trash`: the dataset's name in the trash."""

    kind: str
    trash: str
    force: bool
    shown_to: str


class Delete(Operation[requests.DeleteDatastore, DeletePlan]):
    """Moves a datastore to the trash: no longer served, restorable until it is purged."""

    kind = "datastore.delete"

    def plan(self, context: Context, request: requests.DeleteDatastore) -> DeletePlan:
        """Refused while hosts are logged in, unless forced."""
        store = domain.find(context.datastores(), request.id, "active")
        unused(context, store, request.force, "deleting it takes it away from them")
        unreserved(context, store, request.force)
        trash = domain.trash_name(store.dataset)
        if not trash.endswith(f"-{store.id[:8]}"):
            trash = f"{trash}-{store.id[:8]}"
        return DeletePlan(
            subject=store.id,
            pools=(store.pool,),
            uuid=store.id,
            dataset=store.dataset,
            kind=store.kind,
            trash=trash,
            out_of_service=(store.id,),
            force=request.force,
            shown_to=identity.ShownTo(
                host_groups=store.host_groups, clients=store.clients, versions=store.versions or None, squash=store.squash
            ).to_property(),
        )

    def run(self, context: Context, plan: DeletePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Out of service, mark, rename."""
        advance("taking it out of service", 10)
        out_of_service(context, plan.uuid, plan.pools, plan.force)
        advance("moving it to the trash", 50)
        ensure_folder(context, plan.trash.rsplit("/", 1)[0])
        if not own_dataset(context, plan.trash, plan.uuid):
            marks = {identity.DELETED: str(int(time.time())), identity.SHOWN_TO: plan.shown_to}
            context.engine.set_properties(plan.dataset, marks)
            KINDS[plan.kind].before_trash(context, plan.dataset)
            context.engine.rename(plan.dataset, plan.trash)
        with context.store.session() as session:
            domain.forget(session, plan.uuid)
        context.scan_pools(plan.pools)
        return DatastoreResult(datastore=plan.uuid, dataset=plan.trash)

    def undo(self, context: Context, plan: DeletePlan) -> None:
        """A dataset that was not moved is not deleted."""
        if own_dataset(context, plan.dataset, plan.uuid):
            _unmark(context, plan.dataset)
            KINDS[plan.kind].after_trash(context, plan.dataset)


class RestorePlan(DatastorePlan, frozen=True, kw_only=True):
    """From `trash` to `dataset`."""

    kind: str
    name: str
    trash: str
    shown: Shown


class Restore(Operation[requests.RestoreDatastore, RestorePlan]):
    """Restores a datastore from the trash, with the same identity."""

    kind = "datastore.restore"

    def plan(self, context: Context, request: requests.RestoreDatastore) -> RestorePlan:
        """Its name may be taken meanwhile: then another is needed."""
        stores = context.datastores()
        store = domain.find(stores, request.id, "deleted")
        name = request.name or store.name
        check_name(context, stores, name)
        check_groups(context, request.host_groups)
        found, kind = context.scan(60).dataset(store.dataset), KINDS[store.kind]
        only_own(kind, request)
        kept = identity.judge(found) if found else None
        kept = kept if isinstance(kept, identity.Identity) else None
        shown = kind.decide_shown(context, _as_before(context, request, kept), name, store.id, kept)
        return RestorePlan(
            subject=store.id,
            pools=(store.pool,),
            uuid=store.id,
            dataset=domain.dataset_name(store.pool, name, store.id, encrypted=domain.is_below_root(store.dataset)),
            kind=kind.name,
            name=name,
            trash=store.dataset,
            shown=shown,
            claims=shown.claims(name),
        )

    def run(self, context: Context, plan: RestorePlan, job_id: str, advance: Advance) -> DatastoreResult:
        dataset, uuid = plan.dataset, plan.uuid
        advance("putting it back", 10)
        ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_dataset(context, dataset, uuid):
            context.engine.rename(plan.trash, dataset)
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        context.engine.set_properties(dataset, {identity.NAME: plan.name, **plan.shown.numbers(thick=None)})
        KINDS[plan.kind].after_trash(context, dataset)
        _unmark(context, dataset)
        advance("serving it", 60)
        return serve(context, uuid, plan.pools, self.kind)


def _as_before(context: Context, request: requests.RestoreDatastore, kept: identity.Identity | None) -> requests.RestoreDatastore:
    """What it does not say, as it was before the deletion."""
    before = (kept.shown_to if kept else None) or identity.ShownTo()
    with context.store.reading() as session:
        there = set(session.scalars(select(HostGroup.id)))
    groups = [group_id for group_id in before.host_groups if group_id in there]
    return msgspec.structs.replace(
        request,
        host_groups=groups if request.host_groups is None else request.host_groups,
        clients=list(before.clients) or None if request.clients is None else request.clients,
        versions=list(before.versions or ()) or None if request.versions is None else request.versions,
        squash=request.squash or before.squash,
    )


def _unmark(context: Context, dataset: str) -> None:
    """It is deleted no more; the deletion's own mark goes last."""
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
        """Refused while clones depend on it, or snapshots of it are held."""
        store = domain.find(context.datastores(), request.id, "deleted")
        if held := [one.name for one in context.scan(60).snapshots if one.dataset == store.dataset and one.holds]:
            raise ConflictError("snapshots of it are held: release them first", held)
        clones = [found.name for found in context.engine.dependants(store.dataset) if found.kind == "clone"]
        if clones:
            raise ConflictError("clones depend on its snapshots; promote them, or purge them first", names_of(context, clones))
        return PurgePlan(
            subject=store.id,
            pools=(store.pool,),
            uuid=store.id,
            dataset=store.dataset,
            kind=store.kind,
            origin=origin_guid(context, store.origin),
        )

    def run(self, context: Context, plan: PurgePlan, job_id: str, advance: Advance) -> DatastoreResult:
        """Destroys the dataset, if its GUID matches, and the snapshot that was taken only for it."""
        advance("destroying it", 10)
        if own_dataset(context, plan.dataset, plan.uuid):
            context.engine.destroy(plan.dataset, with_snapshots=True)
        if plan.kind == domain.VMFS:
            forget_reservations(context, plan.dataset, plan.uuid)
        destroy_origin(context, plan.origin, plan.pools)
        with context.store.session() as session:
            domain.forget(session, plan.uuid)
        context.scan_pools(plan.pools)
        return DatastoreResult(datastore=plan.uuid)


class AdoptPlan(DatastorePlan, frozen=True, kw_only=True):
    """`known`: how the database had it; `before`: properties that go, and `mounted`, as they were."""

    name: str
    guid: str
    shown: Shown
    known: Shown | None
    designation: str | None
    thick: bool
    before: dict[str, str]
    mounted: bool


class Adopt(Operation[requests.AdoptDataset, AdoptPlan]):
    """Makes a datastore of a dataset that is none, or of a copy: with a new identity, or the one it claims if nobody has it."""

    kind = "datastore.adopt"
    _left = (identity.DELETED, identity.SHOWN_TO, identity.SOFT_THRESHOLD, identity.THICK, designation.PROPERTY)
    """Of what it was a copy of; goes before its identity counts."""

    def plan(self, context: Context, request: requests.AdoptDataset) -> AdoptPlan:
        """Two with one identity are never made."""
        stores = context.datastores()
        found = context.scan(60).dataset(request.dataset)
        if found is None:
            raise InvalidError("dataset", f"there is no dataset {request.dataset!r}", "the name of a volume or file system")
        kind = dataset_kind(found)
        only_own(kind, request)
        store = next((store for store in stores if store.dataset == found.name), None)
        if store is not None and store.state != "copy":
            raise ConflictError(f"it is a datastore already, and {store.state}", [store.name])
        check_name(context, stores, request.name)
        check_groups(context, request.host_groups)
        if isinstance(found, Volume):
            domain.check_size(found.volsize, 512)
            is_thick = found.refreservation >= found.volsize
        elif found.name.partition("/")[2] in (
            "",
            domain.FOLDER,
            domain.TRASH,
            reservations.DATASET,
            configuration_copies.DATASET,
        ):
            raise InvalidError("dataset", "this is no datastore's: it is the pool's or the appliance's own", "another one")
        elif below := [one.name for one in context.engine.dependants(found.name) if one.kind == "child"]:
            raise ConflictError("datasets lie below it, which a datastore has not", below)
        else:
            is_thick = bool(identity.claimed_thick(found)) and without_slack(found.refquota) > 0
        kind.adoptable(context, found)
        if is_thick:
            thick.check_dedup(context, found.name)
        uuid, keeps = domain.new_uuid(), request.identity == "keep"
        if keeps:
            if store is None or not store.copy_of or not re.fullmatch(r"[0-9a-f-]{36}", store.copy_of):
                raise InvalidError("identity", "the dataset claims none", "new")
            uuid = store.copy_of
            self._nobody_else(stores, uuid, found.name)
        names = self._names(context, request, found, stores)
        known = kind.known(context, uuid)
        kept = identity.claimed_numbers(found, uuid, request.name) if keeps else None
        shown = kind.decide_shown(context, request, request.name, uuid, kept)
        own = {name: value for name, value in found.properties.items() if value.source in (Source.LOCAL, Source.RECEIVED)}
        as_property = designation.to_property(names) if names else None
        return AdoptPlan(
            subject=uuid,
            pools=(found.pool,),
            uuid=uuid,
            dataset=found.name,
            name=request.name,
            guid=str(found.guid),
            shown=shown,
            known=known,
            designation=as_property,
            thick=is_thick,
            before={name: own[name].value for name in self._left if name in own},
            mounted=isinstance(found, Filesystem) and found.mounted,
            claims=shown.claims(request.name, as_property),
        )

    @staticmethod
    def _nobody_else(stores: list[domain.Datastore], uuid: str, dataset: str) -> None:
        there = [other for other in stores if other.state != "missing" and other.dataset != dataset]
        others = [other.dataset for other in there if uuid in (other.uuid, other.copy_of)]
        if others:
            raise ConflictError("another dataset has or claims this identity; two LUNs with one corrupt VMFS", others)

    @staticmethod
    def _names(
        context: Context, request: requests.AdoptDataset, found: Dataset, stores: list[domain.Datastore]
    ) -> Designation | None:
        """Names from another target, which must not belong to another datastore or planned job."""
        names = identity.claimed_designation(found) if request.identity == "keep" else None
        if request.known_as:
            if names is not None:
                raise InvalidError("known_as", "the identity that is kept has names already", "identity new, or nothing here")
            if not isinstance(found, Volume):
                raise InvalidError("known_as", "only a volume has the names of a disk", "nothing here")
            names = designation.known_as(request.known_as)
        if names is None:
            return None
        domain.check_designation(stores, names, found.name)
        for claims in pending_claims(context):
            other = designation.of_property(claims.designation) if claims.designation else None
            if other is not None and (common := sorted(names.names & other.names)):
                raise ConflictError("a job under way gives another datastore these names", common)
        return names

    def run(self, context: Context, plan: AdoptPlan, job_id: str, advance: Advance) -> DatastoreResult:
        """What its kind needs, identity in one step, then who serves it."""
        advance("giving it its identity", 10)
        dataset, uuid = plan.dataset, plan.uuid
        found = dataset_of(context, dataset)
        if str(found.guid) != plan.guid:
            raise ConflictError("the dataset is another one than at the request", [dataset])
        self._nobody_else(context.datastores(), uuid, dataset)  # a pool may have been imported since the request
        properties = dataset_kind(found).adopting(context, found, mount_path(context, plan.name, uuid))
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        own = identity_properties(plan.name, uuid, None, plan.shown.numbers(thick=plan.thick))
        if plan.designation:
            own[designation.PROPERTY] = plan.designation
        for left in self._left:
            context.engine.inherit_property(dataset, left)
        context.engine.set_properties(dataset, {**properties, **own, identity.GUID: plan.guid})
        advance("serving it", 60)
        return serve(context, uuid, plan.pools, self.kind)

    def undo(self, context: Context, plan: AdoptPlan) -> None:
        """The number of what is no datastore is free again, if it was, and the dataset is as it was."""
        if any(store.uuid == plan.uuid and store.state == "active" for store in context.datastores()):
            return
        with context.store.session() as session:
            if plan.known is not None:
                plan.known.show(session, plan.uuid)
            else:
                domain.forget(session, plan.uuid)
        found = context.scan_pools(plan.pools).dataset(plan.dataset)
        if found is None or str(found.guid) != plan.guid:
            return
        if plan.before:
            context.engine.set_properties(found.name, plan.before)
        if isinstance(found, Filesystem) and plan.mounted and not found.mounted:
            context.engine.mount(found.name)


class ForgetPlan(Plan, frozen=True, kw_only=True):
    """`export`: its number, if it was an NFS datastore."""

    uuid: str
    export: int | None
    force: bool


class Forget(Operation[requests.ForgetDatastore, ForgetPlan]):
    """A missing datastore: its LUN number and host groups are free again, and hosts find no LUN any more."""

    kind = "datastore.forget"

    def plan(self, context: Context, request: requests.ForgetDatastore) -> ForgetPlan:
        """Its pool may only be away: refused while hosts are logged in that are shown it, unless forced."""
        store = domain.find(context.datastores(), request.id, "missing")
        unused(context, store, request.force, "they do not get it back with its pool")
        unreserved(context, store, request.force)
        return ForgetPlan(subject=store.id, pools=(), uuid=store.id, force=request.force, export=store.export)

    def run(self, context: Context, plan: ForgetPlan, job_id: str, advance: Advance) -> DatastoreResult:
        """One that has come back meanwhile stays."""
        stores = context.datastores()
        if any(store.uuid == plan.uuid and store.state != "missing" for store in stores):
            raise ConflictError("it is not missing any more", [plan.uuid])
        still_unused(context, plan.uuid, plan.force)
        advance("forgetting it", 10)
        if plan.export is not None:  # while its pool is away the reconciler leaves alone what it does not know
            export = export_file.read(context.nfs.files().get(plan.export, ""))
            if export is None or export.dataset not in {store.dataset for store in stores if store.state == "active"}:
                context.nfs.forget(plan.export)
        with context.store.session() as session:
            domain.forget(session, plan.uuid)
        return DatastoreResult(datastore=plan.uuid, problems=problems_serving(context, self.kind))


OPERATIONS = by_kind(Create(), Change(), Grow(), Quota(), Delete(), Restore(), Purge(), Adopt(), Forget())
