# SPDX-License-Identifier: Apache-2.0
"""What jobs do with snapshots: taking, destroying, rolling back, cloning."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from appliance.domain import datastores as domain
from appliance.domain import identity
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.worker import thick
from appliance.worker.context import Context
from appliance.worker.kinds import KINDS, kind_of, only_own
from appliance.worker.steps import (
    Advance,
    Operation,
    Parameters,
    Plan,
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


class TakeSnapshot(Operation):
    """Of one or several datastores of a pool, in one atomic step."""

    kind = "snapshot.create"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """All have to be there, in one pool, without such a snapshot."""
        stores = context.datastores()
        if not re.fullmatch(TAG, asked["name"]):
            raise InvalidError(
                "name", "not a name of a snapshot", "1 to 64 of A-Z, a-z, 0-9, '_', '.', ':', '-', the first a letter or digit"
            )
        chosen = [domain.find(stores, one, "active") for one in dict.fromkeys(asked["datastores"])]
        if len({store.pool for store in chosen}) > 1:
            raise ConflictError("one step is of one pool", sorted({store.pool for store in chosen}))
        names = [f"{store.dataset}@{asked['name']}" for store in chosen]
        there = {snapshot.name for snapshot in context.look(60).snapshots}
        if there & set(names):
            raise ConflictError("there is such a snapshot", sorted(there & set(names)))
        about = [store.id for store in chosen]
        return Plan(
            f"snapshot {asked['name']} of {about[0]}", {"names": names, "schedule": asked.get("schedule"), "about": about}
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One step."""
        advance("taking it", 10)
        properties = {identity.CREATED_BY: job_id}
        if decided.get("schedule"):
            properties["zvaai:schedule"] = decided["schedule"]
        try:
            context.engine.snapshot(decided["names"], properties=properties)
        except zfs.SnapshotExists:
            made = context.engine.properties(decided["names"][0]).get(identity.CREATED_BY)
            if made is None or made.value != job_id:
                raise
        except zfs.OutOfSpace as error:
            raise thick.snapshot_refused(context, decided["names"]) from error
        context.look()
        return {"snapshots": decided["names"]}


def _snapshot_of(context: Context, asked: Parameters) -> tuple[domain.Datastore, str]:
    store = domain.find(context.datastores(), asked["id"], "active")
    name = f"{store.dataset}@{asked['snapshot']}"
    if name not in {snapshot.name for snapshot in context.look(60).snapshots}:
        raise NotFoundError("snapshot", name)
    return store, name


def _tags(context: Context, snapshot: Snapshot) -> list[str]:
    return [hold.tag for hold in context.engine.holds(snapshot.name)]


class DeleteSnapshot(Operation):
    """Destroys one."""

    kind = "snapshot.delete"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Refused while clones depend on it, or it is held."""
        store, name = _snapshot_of(context, asked)
        found = next(snapshot for snapshot in context.look(60).snapshots if snapshot.name == name)
        if found.clones:
            raise ConflictError("clones depend on it", found.clones)
        if found.holds:
            raise ConflictError("it is held", _tags(context, found))
        return Plan(f"{store.id}@{asked['snapshot']}", {"name": name, "about": [store.id]})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """One that is gone is well."""
        advance("destroying it", 10)
        context.engine.destroy_snapshots([decided["name"]])
        context.look()
        return {"snapshot": decided["name"]}


class Retire(Operation):
    """Destroys what schedules keep no longer, of one pool, in few steps."""

    kind = "snapshot.retention"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """`names` are full names of snapshots, `about` the datastores they are of."""
        return Plan(f"retention of {asked['pool']}", {"names": asked["names"], "about": asked["about"]})

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """What is held or was cloned meanwhile stays."""
        destroyed = 0
        for begin in range(0, len(decided["names"]), _AT_ONCE):
            advance("destroying them", 10 + 80 * begin // len(decided["names"]))
            there = {one.name for one in context.look().snapshots if not one.holds and not one.clones}
            names = [name for name in decided["names"][begin : begin + _AT_ONCE] if name in there]
            with contextlib.suppress(zfs.SnapshotHeld, zfs.HasDependants):  # in this moment: the next round sees it
                context.engine.destroy_snapshots(names)
                destroyed += len(names)
        context.look()
        return {"destroyed": destroyed}


class Rollback(Operation):
    """Puts a datastore back to a snapshot. What was written since is lost."""

    kind = "snapshot.rollback"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Refused while hosts are logged in or newer snapshots would go, unless forced; while those are held or cloned, too."""
        store, name = _snapshot_of(context, asked)
        force = bool(asked.get("force"))
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
        return Plan(
            store.id,
            {
                "kind": store.kind,
                "uuid": store.uuid,
                "name": name,
                "newer": [snapshot.name for snapshot in newer],
                "out_of_service": [store.uuid],
                "force": force,
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Out of service, back, in service again. Once hosts may write again it is not done a second time."""
        if not decided.get("done"):
            self._roll_back(context, decided, advance)
            in_service(context, job_id)
        advance("serving it", 80)
        return {"datastore": decided["uuid"], **serve(context, decided["uuid"], self.kind)}

    def _roll_back(self, context: Context, decided: Parameters, advance: Advance) -> None:
        # Only what was shown is destroyed: one taken meanwhile is in the way, and no host loses its LUN for that.
        dataset = decided["name"].split("@", 1)[0]
        found = context.engine.snapshots(dataset, recursive=False)
        own = [snapshot.name for snapshot in found]
        unseen = set(own[own.index(decided["name"]) + 1 :] if decided["name"] in own else ()) - set(decided["newer"])
        if held := [snapshot.name for snapshot in found if snapshot.holds and snapshot.name in decided["newer"]]:
            raise ConflictError("a newer snapshot is held by now", held)
        if unseen:
            raise ConflictError("a newer snapshot was taken meanwhile", sorted(unseen), can_force=True)
        advance("taking it out of service", 10)
        out_of_service(context, decided["uuid"], decided["force"])
        advance("putting it back", 50)
        nothing_late(context, dataset)
        kind_of(decided).closed(context, dataset)
        context.engine.rollback(decided["name"], destroy=decided["newer"])
        nothing_late(context, dataset)


class Clone(Operation):
    """An instant copy of a datastore with an identity of its own. Hosts have to resignature VMFS on it."""

    kind = "snapshot.clone"

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """From a snapshot, or from now."""
        stores = context.datastores()
        store = domain.find(stores, asked["id"], "active")
        check_name(context, stores, asked["name"])
        check_groups(context, asked.get("host_groups"))
        uuid, kind = domain.new_uuid(), KINDS[store.kind]
        only_own(kind, asked)
        if asked.get("snapshot"):
            _, snapshot = _snapshot_of(context, asked)
        else:
            snapshot = clone_snapshot(store.dataset, uuid)
        dataset = domain.dataset_name(store.pool, asked["name"], uuid, encrypted=domain.is_below_root(store.dataset))
        if store.thick:
            thick.check_dedup(context, dataset)
        return Plan(
            uuid,
            {
                "kind": kind.name,
                "uuid": uuid,
                "name": asked["name"],
                "source": store.uuid,
                "about": [store.id],
                "snapshot": snapshot,
                "take": not asked.get("snapshot"),
                "dataset": dataset,
                "soft_threshold": store.soft_threshold,
                "compression": store.compression or "lz4",
                "sync": store.sync or "standard",
                **kind.decide_clone(store, asked["name"], uuid),
                **kind.decide_shown(context, asked, asked["name"], uuid, None),
            },
        )

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Snapshot, clone, identity, target or NFS server."""
        dataset, uuid, kind = decided["dataset"], decided["uuid"], kind_of(decided)
        advance("cloning", 10)
        ensure_folder(context, dataset.rsplit("/", 1)[0])
        if not own_dataset(context, dataset, uuid):
            if decided["take"]:
                try:
                    context.engine.snapshot([decided["snapshot"]], properties={identity.CREATED_BY: job_id})
                except zfs.SnapshotExists:  # its name is of this job's own random identity
                    pass
                except zfs.OutOfSpace as error:
                    raise thick.snapshot_refused(context, [decided["snapshot"]]) from error
            own = identity_properties(decided["name"], uuid, decided["soft_threshold"], kind.numbers(decided))
            try:
                context.engine.clone(decided["snapshot"], dataset, properties={**kind.clone_properties(decided), **own})
            except zfs.OutOfSpace as error:
                raise thick.made_refused(context, "clone to", decided) from error
        advance("giving it its identity", 50)
        with context.store.session() as session:
            kind.show(session, decided)
        complete(context, dataset)
        advance("serving it", 70)
        return {"datastore": uuid, "snapshot": decided["snapshot"], **serve(context, uuid, self.kind)}

    def undo(self, context: Context, decided: Parameters) -> None:
        """No volume without an identity stays, nor the snapshot that was taken for it."""
        take_back(context, decided["dataset"], decided["uuid"])
        if decided["take"]:
            context.look()
            destroy_origin(context, origin_guid(context, decided["snapshot"]))


OPERATIONS: Mapping[str, Operation] = {
    operation.kind: operation for operation in (TakeSnapshot(), DeleteSnapshot(), Retire(), Rollback(), Clone())
}
