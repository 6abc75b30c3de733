# SPDX-License-Identifier: Apache-2.0
"""What jobs do with datastores: one class for each kind."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from appliance.dataplane import export_file
from appliance.domain import datastores as domain
from appliance.domain import designation, exports, identity
from appliance.domain.designation import Designation
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.thick import without_slack
from appliance.worker import reservations, thick
from appliance.worker.context import Context
from appliance.worker.kinds import KINDS, dataset_kind, kind_of, only_own
from appliance.worker.steps import (
    Advance,
    Operation,
    Parameters,
    Plan,
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
    origin_guid,
    out_of_service,
    own_dataset,
    pending_values,
    problems_serving,
    serve,
    served_as_before,
    still_unused,
    take_back,
    unreserved,
    unused,
)  # fmt: skip
from appliance.zfs import errors as zfs
from appliance.zfs.model import Dataset, Filesystem, Source, Volume


class Create(Operation):
    """An empty datastore with its own identity, served: a zvol for VMFS, or a file system for NFS."""

    kind = "datastore.create"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Names, sizes, space, numbers."""
        kind = kind_of(asked)
        only_own(kind, asked)
        stores = context.datastores()
        check_name(context, stores, asked["name"])
        check_groups(context, asked.get("host_groups"))
        pool = next((pool for pool in context.look(60).pools if pool.name == asked["pool"]), None)
        if pool is None:
            raise InvalidError(
                "pool", f"there is no pool {asked['pool']!r}", ", ".join(pool.name for pool in context.look(60).pools) or "none"
            )
        uuid = domain.new_uuid()
        dataset = domain.dataset_name(pool.name, asked["name"], uuid, encrypted=bool(asked.get("encrypted")))
        if asked.get("thick"):
            thick.check_dedup(context, dataset)
        return Plan(
            uuid,
            {
                "kind": kind.name,
                "uuid": uuid,
                "name": asked["name"],
                "dataset": dataset,
                "key": domain.new_uuid() if asked.get("encrypted") else None,
                "compression": asked.get("compression") or "lz4",
                "sync": asked.get("sync") or "standard",
                "soft_threshold": asked.get("soft_threshold"),
                **kind.decide_new(asked, asked["name"], uuid, pool),
                **kind.decide_shown(context, asked, asked["name"], uuid, None),
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Dataset, identity, numbers, target or NFS server."""
        dataset, uuid, kind = decided["dataset"], decided["uuid"], kind_of(decided)
        advance("creating its dataset", 10)
        if decided.get("key"):
            ensure_encryption_root(context, dataset.rsplit("/", 1)[0], decided["key"])
        else:
            ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_dataset(context, dataset, uuid):
            own = identity_properties(decided["name"], uuid, decided["soft_threshold"], kind.numbers(decided))
            try:
                kind.make(context, decided, own)
            except zfs.OutOfSpace as error:
                raise thick.made_refused(context, "create", decided) from error
        advance("giving it its identity", 50)
        with context.store.session() as session:
            kind.show(session, decided)
        complete(context, dataset)
        advance("serving it", 70)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}

    def undo(self, context: Context, decided: Parameters) -> None:
        """No dataset without an identity stays."""
        take_back(context, decided["dataset"], decided["uuid"])


class Change(Operation):
    """Name, threshold, LUN number, host groups, thick or thin; of an NFS datastore clients, versions, squash."""

    kind = "datastore.change"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Taking it away from hosts that are logged in needs force."""
        stores = context.datastores()
        store = domain.find(stores, asked["id"], "active")
        if asked.get("name") is not None:
            check_name(context, stores, asked["name"], store.id)
        check_groups(context, asked.get("host_groups"))
        only_own(KINDS[store.kind], asked)
        if asked.get("thick") is not None:
            thick.check_change(context, store, asked)
        lun = asked.get("lun")
        if lun is not None and lun != store.lun:
            choose_lun(context, lun)
            unused(context, store, asked.get("force", False), "another LUN number takes it away from them")
            unreserved(context, store, asked.get("force", False))
        groups = asked.get("host_groups")
        fewer_groups = groups is not None and bool(set(store.host_groups) - set(groups))
        if fewer_groups:
            unused(context, store, asked.get("force", False), "fewer host groups may take it away from them")
        if store.kind == domain.NFS and _takes_away(store, asked):
            unused(
                context, store, asked.get("force", False), "fewer clients, fewer versions or squashing may take it away from them"
            )
        fields = ("name", "soft_threshold", "lun", "host_groups", "clients", "versions", "squash", "thick")
        decided = {key: asked[key] for key in fields if key in asked}
        if decided.get("clients") is not None:
            decided["clients"] = exports.check_clients(decided["clients"])
        taken = {key: decided[key] for key in ("name", "lun") if decided.get(key) is not None}  # for others that are asked for
        kept = {"uuid": store.uuid, "dataset": store.dataset, "number": store.lun, "force": bool(asked.get("force"))}
        kept |= {"kind": store.kind, "exported": store.export, "path": store.share}
        kept |= {"called": store.name, "was_thick": store.thick, "size": store.size}
        kept |= {"loses": fewer_groups or (store.kind == domain.NFS and _takes_away(store, asked))}
        return Plan(store.id, {**taken, **kept, "changes": decided})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Properties in one step, then who serves it."""
        changes, dataset, uuid = decided["changes"], decided["dataset"], decided["uuid"]
        if decided.get("loses") and not decided["force"] and (users := context.logged_in(uuid)):
            raise ConflictError("hosts use it by now", users, can_force=True)
        if changes.get("lun") not in (None, decided["number"]):
            still_unused(context, uuid, decided.get("force", True), decided["number"])
        advance("setting what is kept with the data", 10)
        kept = (("name", identity.NAME), ("lun", identity.LUN), ("soft_threshold", identity.SOFT_THRESHOLD))
        properties = {name: str(changes[field]) for field, name in kept if changes.get(field) is not None}
        properties |= identity.switched(changes.get("thick"))
        if self._becomes(decided) is False:
            thick.make_thin(context, decided)
        elif self._becomes(decided):
            context.engine.set_properties(dataset, thick.begin(decided))
        elif properties:
            context.engine.set_properties(dataset, properties)
        if "soft_threshold" in changes and changes["soft_threshold"] is None:
            context.engine.inherit_property(dataset, identity.SOFT_THRESHOLD)
        number = changes.get("lun") if changes.get("lun") is not None else decided["number"]
        if number is not None:
            with context.store.session() as session:
                domain.present(session, uuid, number, changes.get("host_groups"))
        elif decided.get("exported") is not None:
            told = {key: changes.get(key) for key in ("versions", "squash", "clients")}
            with context.store.session() as session:
                groups = changes.get("host_groups")
                exports.show(session, uuid, decided["exported"], decided["path"], groups=groups, **told)
        advance("telling who serves it", 60)
        served = serve(context, uuid, self.kind)
        if self._becomes(decided):
            if not served["served"]:
                raise ConflictError(f"Cannot make {decided['called']} thick: it is not served. {served['problem']}")
            advance("counting its shared blocks", 80)
            thick.make_thick(context, decided)
            context.look()
        return {"datastore": uuid, **served}

    def undo(self, context: Context, decided: Parameters) -> None:
        """Back to thin."""
        if self._becomes(decided) and own_dataset(context, decided["dataset"], decided["uuid"]):
            thick.make_thin(context, decided)
            serve(context, decided["uuid"], self.kind)

    @staticmethod
    def _becomes(decided: Parameters) -> bool | None:
        """Thick (true), thin (false), or stays what it is."""
        wanted: bool | None = decided["changes"].get("thick")
        return None if wanted == decided["was_thick"] else wanted


def _takes_away(store: domain.Datastore, asked: Parameters) -> bool:
    """Whether an NFS datastore's clients may lose something."""
    fewer = (("clients", store.clients), ("versions", store.versions))
    if any(asked.get(field) is not None and set(before) - set(asked[field]) for field, before in fewer):
        return True
    return asked.get("squash") not in (None, "none", store.squash)


class Grow(Operation):
    """A larger volume, or quota; hosts see it at once."""

    kind = "datastore.grow"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Never smaller."""
        store = domain.find(context.datastores(), asked["id"], "active")
        if store.kind == domain.NFS:
            if asked["size"] < store.size:
                raise InvalidError("size", "this is less than now: set its quota", f"{store.size} or more")
            return Quota().plan(context, asked)
        domain.check_size(asked["size"], store.block_size)
        if asked["size"] < store.size:
            raise InvalidError(
                "size", "a datastore does not get smaller: VMFS would lose what is at its end", f"{store.size} or more"
            )
        return Plan(store.id, {"uuid": store.uuid, "dataset": store.dataset, "size": asked["size"]})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Volume, then target."""
        if decided.get("kind") == domain.NFS:
            return Quota().run(context, decided, job_id, advance)
        advance("growing the volume", 10)
        try:
            context.engine.grow_volume(decided["dataset"], decided["size"])
        except zfs.OutOfSpace as error:
            lacking = thick.missing(context, decided["dataset"], decided["size"])
            raise ConflictError(f"Cannot grow: the pool lacks {lacking} bytes. Add vdevs, or delete data") from error
        advance("telling the target", 60)
        served = serve(context, decided["uuid"], self.kind)
        with context.store.reading() as session:
            lun = next(
                (store.lun for store in domain.datastores(context.look(3600), session) if store.uuid == decided["uuid"]), None
            )
        if served["served"] and lun is not None:
            context.target.refresh_lun(context.configuration.target.name, lun)
        return {"datastore": decided["uuid"], **served}

    def undo(self, context: Context, decided: Parameters) -> None:
        """Of NFS, as Quota does."""
        if decided.get("kind") == domain.NFS:
            Quota().undo(context, decided)


class Quota(Operation):
    """Of an NFS datastore: larger or smaller, never below what it has, or what the files of a thick one need."""

    kind = "datastore.quota"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """OpenZFS refuses it too, but says less."""
        store = domain.find(context.datastores(), asked["id"], "active")
        if store.kind != domain.NFS:
            raise ConflictError("a VMFS datastore has a size, and no quota: grow it", [store.name])
        domain.check_quota(asked["size"])
        if store.thick and asked["size"] < store.size:
            thick.check_smaller(context, store.name, store.export, asked["size"])
        elif not store.thick and asked["size"] < store.referenced:
            raise InvalidError("size", "the quota would be below what it holds", f"{store.referenced} or more")
        decided = {"uuid": store.uuid, "dataset": store.dataset, "size": asked["size"], "kind": domain.NFS, "thick": store.thick}
        return Plan(store.id, {**decided, "called": store.name, "exported": store.export, "was": store.size})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Hosts see it when they look next. A thick one has the NFS server keep to its new size."""
        advance("setting the quota", 10)
        if not decided["thick"]:
            context.engine.set_properties(decided["dataset"], {"refquota": str(decided["size"])})
            context.look()
            return {"datastore": decided["uuid"], **served_as_before(context, decided["uuid"])}
        thick.resize(context, decided)
        advance("telling the NFS server", 60)
        served = serve(context, decided["uuid"], self.kind)
        if decided["size"] < decided["was"]:  # files may have grown until the NFS server knew
            thick.check_smaller(context, decided["called"], decided["exported"], decided["size"])
        return {"datastore": decided["uuid"], **served}

    def undo(self, context: Context, decided: Parameters) -> None:
        """Of a thick one, to its size before."""
        if decided["thick"] and own_dataset(context, decided["dataset"], decided["uuid"]):
            context.engine.set_properties(decided["dataset"], thick.sized(decided["was"], thick=True))
            serve(context, decided["uuid"], self.kind)


class Delete(Operation):
    """Puts it aside: not served any more, and restorable until it is purged."""

    kind = "datastore.delete"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Refused while hosts are logged in, unless forced."""
        store = domain.find(context.datastores(), asked["id"], "active")
        unused(context, store, asked.get("force", False), "deleting it takes it away from them")
        unreserved(context, store, asked.get("force", False))
        aside = domain.trash_name(store.dataset)
        if not aside.endswith(f"-{store.id[:8]}"):
            aside = f"{aside}-{store.id[:8]}"
        return Plan(
            store.id,
            {
                "kind": store.kind,
                "uuid": store.uuid,
                "dataset": store.dataset,
                "aside": aside,
                "out_of_service": [store.uuid],
                "force": bool(asked.get("force")),
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Out of service, mark, rename."""
        dataset, aside = decided["dataset"], decided["aside"]
        advance("taking it out of service", 10)
        out_of_service(context, decided["uuid"], decided["force"])
        advance("putting it aside", 50)
        ensure_folder(context, aside.rsplit("/", 1)[0])
        if not own_dataset(context, aside, decided["uuid"]):
            context.engine.set_properties(dataset, {identity.DELETED: str(int(time.time()))})
            kind_of(decided).aside(context, dataset)
            context.engine.rename(dataset, aside)
        with context.store.session() as session:
            domain.forget(session, decided["uuid"])
        context.look()
        return {"datastore": decided["uuid"], "dataset": aside}

    def undo(self, context: Context, decided: Parameters) -> None:
        """What is still at its place is not deleted."""
        if own_dataset(context, decided["dataset"], decided["uuid"]):
            context.engine.inherit_property(decided["dataset"], identity.DELETED)
            kind_of(decided).back(context, decided["dataset"])


class Restore(Operation):
    """Back from aside, with the same identity."""

    kind = "datastore.restore"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Its name may be taken meanwhile: then another is needed."""
        stores = context.datastores()
        store = domain.find(stores, asked["id"], "deleted")
        name = asked.get("name") or store.name
        check_name(context, stores, name)
        check_groups(context, asked.get("host_groups"))
        found, kind = context.look(60).dataset(store.dataset), KINDS[store.kind]
        only_own(kind, asked)
        kept = identity.judge(found) if found else None
        return Plan(
            store.id,
            {
                "kind": kind.name,
                "uuid": store.uuid,
                "name": name,
                "aside": store.dataset,
                "dataset": domain.dataset_name(store.pool, name, store.id, encrypted=domain.is_below_root(store.dataset)),
                **kind.decide_shown(context, asked, name, store.id, kept if isinstance(kept, identity.Identity) else None),
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Rename, mark, serve."""
        dataset, uuid, kind = decided["dataset"], decided["uuid"], kind_of(decided)
        advance("putting it back", 10)
        ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_dataset(context, dataset, uuid):
            context.engine.rename(decided["aside"], dataset)
        with context.store.session() as session:
            kind.show(session, decided)
        context.engine.set_properties(dataset, {identity.NAME: decided["name"], **kind.numbers(decided)})
        kind.back(context, dataset)
        context.engine.inherit_property(dataset, identity.DELETED)
        advance("serving it", 60)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}


class Purge(Operation):
    """Destroys a deleted datastore with its snapshots. There is no way back."""

    kind = "datastore.purge"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Refused while clones depend on it, or snapshots of it are held."""
        store = domain.find(context.datastores(), asked["id"], "deleted")
        if held := [one.name for one in context.look(60).snapshots if one.dataset == store.dataset and one.holds]:
            raise ConflictError("snapshots of it are held: release them first", held)
        clones = [found.name for found in context.engine.dependants(store.dataset) if found.kind == "clone"]
        if clones:
            raise ConflictError("clones depend on its snapshots; delete and purge them first", clones)
        about = {"kind": store.kind, "uuid": store.uuid, "dataset": store.dataset}
        return Plan(store.id, {**about, "origin": origin_guid(context, store.origin)})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Destroys it, if it is still the one, and the snapshot that was taken for it alone."""
        advance("destroying it", 10)
        if own_dataset(context, decided["dataset"], decided["uuid"]):
            context.engine.destroy(decided["dataset"], with_snapshots=True)
        if kind_of(decided).name == domain.VMFS:
            forget_reservations(context, decided["dataset"], decided["uuid"])
        destroy_origin(context, decided.get("origin"))
        with context.store.session() as session:
            domain.forget(session, decided["uuid"])
        context.look()
        return {"datastore": decided["uuid"]}


class Adopt(Operation):
    """Makes a datastore of a dataset that is none, or of a copy: with a new identity, or the one it claims if nobody has it."""

    kind = "datastore.adopt"
    _left = (identity.DELETED, identity.SOFT_THRESHOLD, identity.THICK, designation.PROPERTY)
    """Of what it was a copy of; goes before its identity counts."""

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Two with one identity are never made."""
        stores = context.datastores()
        found = context.look(60).dataset(asked["dataset"])
        if found is None:
            raise InvalidError("dataset", f"there is no dataset {asked['dataset']!r}", "the name of a volume or file system")
        kind = dataset_kind(found)
        only_own(kind, asked)
        store = next((store for store in stores if store.dataset == found.name), None)
        if store is not None and store.state != "copy":
            raise ConflictError(f"it is a datastore already, and {store.state}", [store.name])
        check_name(context, stores, asked["name"])
        check_groups(context, asked.get("host_groups"))
        if isinstance(found, Volume):
            domain.check_size(found.volsize, 512)
            is_thick = found.refreservation >= found.volsize
        elif found.name.partition("/")[2] in ("", domain.FOLDER, domain.TRASH, reservations.DATASET):
            raise InvalidError("dataset", "this is no datastore's: it is the pool's or the appliance's own", "another one")
        elif below := [one.name for one in context.engine.dependants(found.name) if one.kind == "child"]:
            raise ConflictError("datasets lie below it, which a datastore has not", below)
        else:
            is_thick = bool(identity.claimed_thick(found)) and without_slack(found.refquota) > 0
        kind.adoptable(context, found)
        if is_thick:
            thick.check_dedup(context, found.name)
        uuid = domain.new_uuid()
        if asked.get("identity") == "keep":
            if store is None or not store.copy_of or not re.fullmatch(r"[0-9a-f-]{36}", store.copy_of):
                raise InvalidError("identity", "the dataset claims none", "new")
            uuid = store.copy_of
            self._nobody_else(stores, uuid, found.name)
        names = self._names(context, asked, found, stores)
        kept = identity.claimed_numbers(found, uuid, asked["name"]) if asked.get("identity") == "keep" else None
        shown = kind.decide_shown(context, asked, asked["name"], uuid, kept)
        shown |= {"designation": designation.to_property(names) if names else None, "thick": is_thick}
        decided = {"kind": kind.name, "uuid": uuid, "name": asked["name"], "dataset": found.name, "guid": str(found.guid)}
        own = {name: value for name, value in found.properties.items() if value.source in (Source.LOCAL, Source.RECEIVED)}
        decided["before"] = {name: own[name].value for name in self._left if name in own}
        decided["mounted"] = isinstance(found, Filesystem) and found.mounted
        return Plan(uuid, {**decided, **shown})

    @staticmethod
    def _nobody_else(stores: list[domain.Datastore], uuid: str, dataset: str) -> None:
        there = [other for other in stores if other.state != "missing" and other.dataset != dataset]
        others = [other.dataset for other in there if uuid in (other.uuid, other.copy_of)]
        if others:
            raise ConflictError("another dataset has or claims this identity; two LUNs with one corrupt VMFS", others)

    @staticmethod
    def _names(context: Context, asked: Parameters, found: Dataset, stores: list[domain.Datastore]) -> Designation | None:
        """Of another target, that it keeps: no other datastore has one of them, or is about to."""
        names = identity.claimed_designation(found) if asked.get("identity") == "keep" else None
        if asked.get("known_as"):
            if names is not None:
                raise InvalidError("known_as", "the identity that is kept has names already", "identity new, or nothing here")
            if not isinstance(found, Volume):
                raise InvalidError("known_as", "only a volume has the names of a disk", "nothing here")
            names = designation.known_as(asked["known_as"])
        if names is None:
            return None
        domain.check_designation(stores, names, found.name)
        for pending in pending_values(context, "designation") - {None}:
            other = designation.of_property(str(pending))
            if other is not None and (common := sorted(names.names & other.names)):
                raise ConflictError("a job under way gives another datastore these names", common)
        return names

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """What its kind needs, identity in one step, then who serves it."""
        advance("giving it its identity", 10)
        dataset, uuid, kind = decided["dataset"], decided["uuid"], kind_of(decided)
        found = dataset_of(context, dataset)
        if str(found.guid) != decided["guid"]:
            raise ConflictError("the dataset is another one than when this was asked", [dataset])
        self._nobody_else(context.datastores(), uuid, dataset)  # a pool may have come since this was asked
        properties = kind.adopting(context, found, decided)
        with context.store.session() as session:
            kind.show(session, decided)
        own = identity_properties(decided["name"], uuid, None, kind.numbers(decided))
        if decided.get("designation"):
            own[designation.PROPERTY] = decided["designation"]
        for left in self._left:
            context.engine.inherit_property(dataset, left)
        context.engine.set_properties(dataset, {**properties, **own, identity.GUID: decided["guid"]})
        advance("serving it", 60)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}

    def undo(self, context: Context, decided: Parameters) -> None:
        """The number of what is no datastore is free again, if it was, and the dataset is as it was."""
        if any(store.uuid == decided["uuid"] and store.state == "active" for store in context.datastores()):
            return
        with context.store.session() as session:
            if decided.get("known"):
                kind_of(decided).show(session, {**decided, **decided["known"]})
            else:
                domain.forget(session, decided["uuid"])
        found = context.look().dataset(decided["dataset"])
        if found is None or str(found.guid) != decided["guid"]:
            return
        if decided.get("before"):
            context.engine.set_properties(found.name, decided["before"])
        if isinstance(found, Filesystem) and decided.get("mounted") and not found.mounted:
            context.engine.mount(found.name)


class Forget(Operation):
    """A missing datastore: its LUN number and host groups are free again, and hosts find no LUN any more."""

    kind = "datastore.forget"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Its pool may only be away: refused while hosts are logged in that are shown it, unless forced."""
        store = domain.find(context.datastores(), asked["id"], "missing")
        unused(context, store, asked.get("force", False), "they do not get it back with its pool")
        unreserved(context, store, asked.get("force", False))
        return Plan(store.id, {"uuid": store.uuid, "force": bool(asked.get("force")), "exported": store.export})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One that has come back meanwhile stays."""
        stores = context.datastores()
        if any(store.uuid == decided["uuid"] and store.state != "missing" for store in stores):
            raise ConflictError("it is not missing any more", [decided["uuid"]])
        still_unused(context, decided["uuid"], decided["force"])
        advance("forgetting it", 10)
        if decided.get("exported") is not None:  # while its pool is away the reconciler leaves alone what it does not know
            export = export_file.read(context.nfs.files().get(decided["exported"], ""))
            if export is None or export.dataset not in {store.dataset for store in stores if store.state == "active"}:
                context.nfs.forget(decided["exported"])
        with context.store.session() as session:
            domain.forget(session, decided["uuid"])
        return {"datastore": decided["uuid"], "problems": problems_serving(context, self.kind)}


OPERATIONS: Mapping[str, Operation] = {
    operation.kind: operation
    for operation in (Create(), Change(), Grow(), Quota(), Delete(), Restore(), Purge(), Adopt(), Forget())
}
