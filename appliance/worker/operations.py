"""What jobs do with datastores: one class for each kind."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from appliance.domain import datastores as domain
from appliance.domain import identity
from appliance.domain.errors import ConflictError, InvalidError
from appliance.worker.context import Context
from appliance.worker.steps import (
    Advance,
    Operation,
    Parameters,
    Plan,
    check_groups,
    check_name,
    choose_lun,
    complete,
    destroy_origin,
    ensure_folder,
    identity_properties,
    origin_guid,
    out_of_service,
    own_volume,
    serve,
    still_unused,
    take_back,
    unreserved,
    unused,
)  # fmt: skip


class Create(Operation):
    """An empty VMFS datastore: a zvol with its own identity, served."""

    kind = "datastore.create"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Names, sizes, space, numbers."""
        stores = context.datastores()
        name, size = asked["name"], asked["size"]
        block_size = asked.get("block_size") or domain.BLOCK_SIZE
        check_name(context, stores, name)
        domain.check_size(size, block_size)
        check_groups(context, asked.get("host_groups"))
        pool = next((pool for pool in context.look(60).pools if pool.name == asked["pool"]), None)
        if pool is None:
            raise InvalidError(
                "pool", f"there is no pool {asked['pool']!r}", ", ".join(pool.name for pool in context.look(60).pools) or "none"
            )
        if asked.get("thick") and size > pool.free:
            raise ConflictError(f"the pool has not the space for a thick datastore: {pool.free} bytes are free", [pool.name])
        uuid = domain.new_uuid()
        return Plan(
            uuid,
            {
                "uuid": uuid,
                "name": name,
                "dataset": domain.dataset_name(pool.name, name, uuid),
                "size": size,
                "block_size": block_size,
                "thick": bool(asked.get("thick")),
                "compression": asked.get("compression") or "lz4",
                "sync": asked.get("sync") or "standard",
                "soft_threshold": asked.get("soft_threshold"),
                "lun": choose_lun(context, asked.get("lun")),
                "host_groups": asked.get("host_groups") or [],
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Volume, identity, number, target."""
        dataset, uuid = decided["dataset"], decided["uuid"]
        advance("creating the volume", 10)
        ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_volume(context, dataset, uuid):
            own = identity_properties(decided["name"], uuid, decided["lun"], decided["soft_threshold"], decided["thick"])
            native = {"compression": decided["compression"], "sync": decided["sync"]}
            context.engine.create_volume(
                dataset, decided["size"], volblocksize=decided["block_size"], thick=decided["thick"], properties={**native, **own}
            )
        advance("giving it its identity", 50)
        with context.store.session() as session:
            domain.present(session, uuid, decided["lun"], decided["host_groups"])
        complete(context, dataset)
        advance("serving it", 70)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}

    def undo(self, context: Context, decided: Parameters) -> None:
        """No volume without an identity stays."""
        take_back(context, decided["dataset"], decided["uuid"])


class Change(Operation):
    """Name, threshold, LUN number, host groups."""

    kind = "datastore.change"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Taking it away from hosts that are logged in needs force."""
        stores = context.datastores()
        store = domain.find(stores, asked["id"], "active")
        if asked.get("name") is not None:
            check_name(context, stores, asked["name"], store.id)
        check_groups(context, asked.get("host_groups"))
        lun = asked.get("lun")
        if lun is not None and lun != store.lun:
            choose_lun(context, lun)
            unused(context, store, asked.get("force", False), "another LUN number takes it away from them")
            unreserved(context, store, asked.get("force", False))
        groups = asked.get("host_groups")
        if groups is not None and set(store.host_groups) - set(groups):
            unused(context, store, asked.get("force", False), "fewer host groups may take it away from them")
        decided = {key: asked[key] for key in ("name", "soft_threshold", "lun", "host_groups") if key in asked}
        taken = {key: decided[key] for key in ("name", "lun") if decided.get(key) is not None}  # for others that are asked for
        kept = {"uuid": store.uuid, "dataset": store.dataset, "number": store.lun, "force": bool(asked.get("force"))}
        return Plan(store.id, {**taken, **kept, "changes": decided})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Properties in one step, then the target."""
        changes, dataset, uuid = decided["changes"], decided["dataset"], decided["uuid"]
        if changes.get("lun") not in (None, decided["number"]):
            still_unused(context, uuid, decided.get("force", True), decided["number"])
        advance("setting what is kept with the data", 10)
        properties = {}
        if changes.get("name") is not None:
            properties[identity.NAME] = changes["name"]
        if changes.get("lun") is not None:
            properties[identity.LUN] = str(changes["lun"])
        if changes.get("soft_threshold") is not None:
            properties[identity.SOFT_THRESHOLD] = str(changes["soft_threshold"])
        if properties:
            context.engine.set_properties(dataset, properties)
        if "soft_threshold" in changes and changes["soft_threshold"] is None:
            context.engine.inherit_property(dataset, identity.SOFT_THRESHOLD)
        number = changes.get("lun") if changes.get("lun") is not None else decided["number"]
        if number is not None:
            with context.store.session() as session:
                domain.present(session, uuid, number, changes.get("host_groups"))
        advance("telling the target", 60)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}


class Grow(Operation):
    """A larger volume; hosts see it at once."""

    kind = "datastore.grow"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Never smaller."""
        store = domain.find(context.datastores(), asked["id"], "active")
        domain.check_size(asked["size"], store.block_size)
        if asked["size"] < store.size:
            raise InvalidError(
                "size", "a datastore does not get smaller: VMFS would lose what is at its end", f"{store.size} or more"
            )
        return Plan(store.id, {"uuid": store.uuid, "dataset": store.dataset, "size": asked["size"]})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Volume, then target."""
        advance("growing the volume", 10)
        context.engine.grow_volume(decided["dataset"], decided["size"])
        advance("telling the target", 60)
        served = serve(context, decided["uuid"], self.kind)
        with context.store.reading() as session:
            lun = next(
                (store.lun for store in domain.datastores(context.look(3600), session) if store.uuid == decided["uuid"]), None
            )
        if served["served"] and lun is not None:
            context.target.refresh_lun(context.configuration.target.name, lun)
        return {"datastore": decided["uuid"], **served}


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
                "uuid": store.uuid,
                "dataset": store.dataset,
                "aside": aside,
                "out_of_service": [store.uuid],
                "force": bool(asked.get("force")),
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Target, mark, rename."""
        dataset, aside = decided["dataset"], decided["aside"]
        advance("taking it out of service", 10)
        out_of_service(context, decided["uuid"], decided["force"])
        advance("putting it aside", 50)
        ensure_folder(context, aside.rsplit("/", 1)[0])
        if not own_volume(context, aside, decided["uuid"]):
            context.engine.set_properties(dataset, {identity.DELETED: str(int(time.time()))})
            context.engine.rename(dataset, aside)
        with context.store.session() as session:
            domain.forget(session, decided["uuid"])
        context.look()
        return {"datastore": decided["uuid"], "dataset": aside}

    def undo(self, context: Context, decided: Parameters) -> None:
        """What is still at its place is not deleted."""
        if own_volume(context, decided["dataset"], decided["uuid"]):
            context.engine.inherit_property(decided["dataset"], identity.DELETED)


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
        volume = context.look(60).volume(store.dataset)
        wanted = domain.kept_lun(volume) if volume else None
        return Plan(
            store.id,
            {
                "uuid": store.uuid,
                "name": name,
                "aside": store.dataset,
                "dataset": domain.dataset_name(store.pool, name, store.id),
                "lun": choose_lun(context, asked.get("lun"), wanted),
                "host_groups": asked.get("host_groups") or [],
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Rename, mark, target."""
        dataset, uuid = decided["dataset"], decided["uuid"]
        advance("putting it back", 10)
        ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_volume(context, dataset, uuid):
            context.engine.rename(decided["aside"], dataset)
        with context.store.session() as session:
            domain.present(session, uuid, decided["lun"], decided["host_groups"])
        context.engine.set_properties(dataset, {identity.NAME: decided["name"], identity.LUN: str(decided["lun"])})
        context.engine.inherit_property(dataset, identity.DELETED)
        advance("serving it", 60)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}


class Purge(Operation):
    """Destroys a deleted datastore with its snapshots. There is no way back."""

    kind = "datastore.purge"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Refused while clones depend on it."""
        store = domain.find(context.datastores(), asked["id"], "deleted")
        clones = [found.name for found in context.engine.dependants(store.dataset) if found.kind == "clone"]
        if clones:
            raise ConflictError("clones depend on its snapshots; delete and purge them first", clones)
        return Plan(store.id, {"uuid": store.uuid, "dataset": store.dataset, "origin": origin_guid(context, store.origin)})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Destroys it, if it is still the one, and the snapshot that was taken for it alone."""
        advance("destroying it", 10)
        if own_volume(context, decided["dataset"], decided["uuid"]):
            context.engine.destroy(decided["dataset"], with_snapshots=True)
        destroy_origin(context, decided.get("origin"))
        with context.store.session() as session:
            domain.forget(session, decided["uuid"])
        context.look()
        return {"datastore": decided["uuid"]}


class Adopt(Operation):
    """Makes a datastore of a volume that is none, or of a copy: with a new identity, or the one it claims if nobody has it."""

    kind = "datastore.adopt"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Two with one identity are never made."""
        stores = context.datastores()
        volume = context.look(60).volume(asked["dataset"])
        if volume is None:
            raise InvalidError("dataset", f"there is no volume {asked['dataset']!r}", "the name of a volume")
        store = next((store for store in stores if store.dataset == volume.name), None)
        if store is not None and store.state != "copy":
            raise ConflictError(f"it is a datastore already, and {store.state}", [store.name])
        check_name(context, stores, asked["name"])
        domain.check_size(volume.volsize, 512)
        check_groups(context, asked.get("host_groups"))
        uuid = domain.new_uuid()
        if asked.get("identity") == "keep":
            if store is None or not store.copy_of or not re.fullmatch(r"[0-9a-f-]{36}", store.copy_of):
                raise InvalidError("identity", "the volume claims none", "new")
            uuid = store.copy_of
            others = [other.dataset for other in stores if uuid in (other.uuid, other.copy_of) and other.dataset != volume.name]
            if others:
                raise ConflictError("another dataset has or claims this identity; two LUNs with one corrupt VMFS", others)
        lun = choose_lun(context, asked.get("lun"))
        return Plan(
            uuid,
            {"uuid": uuid, "name": asked["name"], "dataset": volume.name, "guid": str(volume.guid), "lun": lun,
             "thick": True if volume.refreservation >= volume.volsize else None if volume.refreservation else False,
             "host_groups": asked.get("host_groups") or []},
        )  # fmt: skip

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Identity in one step, then the target."""
        advance("giving it its identity", 10)
        dataset, uuid = decided["dataset"], decided["uuid"]
        if str(context.engine.volume(dataset).guid) != decided["guid"]:
            raise ConflictError("the volume is another one than when this was asked", [dataset])
        with context.store.session() as session:
            domain.present(session, uuid, decided["lun"], decided["host_groups"])
        own = identity_properties(decided["name"], uuid, decided["lun"], None, decided.get("thick"))
        for left in (identity.DELETED, identity.SOFT_THRESHOLD, identity.THICK):  # of what it was a copy of
            context.engine.inherit_property(dataset, left)
        context.engine.set_properties(dataset, {**own, identity.GUID: decided["guid"]})
        advance("serving it", 60)
        return {"datastore": uuid, **serve(context, uuid, self.kind)}

    def undo(self, context: Context, decided: Parameters) -> None:
        """The number of what is no datastore is free again."""
        context.look()
        if not any(store.uuid == decided["uuid"] and store.state == "active" for store in context.datastores()):
            with context.store.session() as session:
                domain.forget(session, decided["uuid"])


class Forget(Operation):
    """A missing datastore: its LUN number and host groups are free again, and hosts find no LUN any more."""

    kind = "datastore.forget"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Its pool may only be away: refused while hosts are logged in that are shown it, unless forced."""
        store = domain.find(context.datastores(), asked["id"], "missing")
        unused(context, store, asked.get("force", False), "they do not get it back with its pool")
        unreserved(context, store, asked.get("force", False))
        return Plan(store.id, {"uuid": store.uuid, "force": bool(asked.get("force"))})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One that has come back meanwhile stays."""
        if any(store.uuid == decided["uuid"] and store.state != "missing" for store in context.datastores()):
            raise ConflictError("it is not missing any more", [decided["uuid"]])
        still_unused(context, decided["uuid"], decided["force"])
        advance("forgetting it", 10)
        with context.store.session() as session:
            domain.forget(session, decided["uuid"])
        outcome = context.reconcile(self.kind)
        return {"datastore": decided["uuid"], "problems": [failure.text for failure in outcome.failures]}


OPERATIONS: Mapping[str, Operation] = {
    operation.kind: operation for operation in (Create(), Change(), Grow(), Delete(), Restore(), Purge(), Adopt(), Forget())
}
