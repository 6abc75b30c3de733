# SPDX-License-Identifier: Apache-2.0
"""Thick datastores: storage reserved for every byte, and no block shared. One rule for LUNs and NFS datastores.

The appliance sets quota and refreservation, and the reconciler sets the refreservation again where it is missing. No data plane
touches them: the target and the NFS server only know that a datastore is thick, and share nothing of it from then on.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from appliance.dataplane.vaai_nas import FileRefusedError, SharedSpace
from appliance.domain import datastores as domain
from appliance.domain import identity
from appliance.domain.capacity import ROOM_REMEDY
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.fields import Bytes
from appliance.domain.requests import DatastoreUpdate
from appliance.domain.thick import with_slack
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.zfs import errors as zfs
from appliance.zfs.model import Filesystem, Pool, Property, Volume
from appliance.zfs.properties import thick_refreservation

LUN_SECONDS, FILES_SECONDS = 60.0, 600.0
"""Time for target and NFS server to count shared blocks, which needs a sync of recent writes."""
PARITY_RECORD_SIZE = 131072
"""Of a thick NFS datastore on raidz or draid. OpenZFS counts what is taken as if each record had this size."""
_POLL_SECONDS = 1.0
_log = logging.getLogger(__name__)


# --- checks


def check_room(pool: Pool, needed: int) -> None:
    if needed > pool.free:
        text = f"the pool has not the space for a thick datastore: {needed} bytes are needed, and {pool.free} are free"
        raise ConflictError(text, [pool.name])


def check_change(context: Context, store: Datastore, request: DatastoreUpdate) -> None:
    given = request.model_dump(exclude={"thick", "force", "anyone"}, exclude_none=True)
    others = sorted(given)
    if others:
        raise InvalidError("thick", f"it is changed alone, not with {', '.join(others)}", "in a separate request")
    if request.thick:
        if not store.size:
            raise ConflictError("it has no size that could be reserved: set its quota first", [store.name])
        check_properties(context, store.dataset, store.block_size if store.kind == domain.NFS else None)


def check_properties(context: Context, dataset: str, record_size: int | None) -> None:
    """Refuses a dataset, or the name of a new one, whose blocks would be shared by deduplication, or are stored more than once. A
    file system, which has a record size, is refused too if its files take more than their size for another reason: the NFS server
    counts sizes, and its quota what is taken.
    """
    existing, properties = _existing(context, dataset)
    dedup = properties.get("dedup")
    if dedup is not None and dedup.value != "off":
        reason = f"its blocks would be deduplicated (dedup={dedup.value}), and thick storage shares none"
        raise ConflictError(f"{reason}. Make it thin, or run: zfs set dedup=off {quote(existing)}")
    copies = properties.get("copies")
    if copies is not None and copies.value != "1":  # OpenZFS reserves a volume's size once
        reason = f"its data would take {copies.value} times its size (copies={copies.value})"
        raise ConflictError(f"{reason}. Make it thin, or run: zfs set copies=1 {quote(existing)}")
    name = dataset.partition("/")[0]
    if record_size is None:
        return
    if record_size < PARITY_RECORD_SIZE and any(pool.name == name and has_parity(pool) for pool in context.scan(60).pools):
        reason = f"on raidz and draid, records of {record_size} bytes can take more than their size"
        raise ConflictError(f"{reason}. Use a new datastore of record size {PARITY_RECORD_SIZE} or more, or make it thin", [name])


def has_parity(pool: Pool) -> bool:
    return any(vdev.kind.startswith(("raidz", "draid")) for vdev in pool.vdevs)


def _existing(context: Context, dataset: str) -> tuple[str, Mapping[str, Property]]:
    """A dataset and its properties; if it does not exist, its future parent's."""
    while True:
        try:
            return dataset, context.engine.properties(dataset)
        except zfs.NoSuchDataset:
            dataset, below, _ = dataset.rpartition("/")
            if not below:
                raise


# --- properties


def sized(size: int, *, thick: bool) -> dict[str, str]:
    """Properties that limit an NFS datastore to its size, and reserve it if it is thick. A size of 0 means no limit."""
    if thick:
        return dict.fromkeys(("refquota", "refreservation"), str(with_slack(size)))
    return {"refquota": str(size) if size else "none", "refreservation": "none"}


def reserve_again(context: Context, stores: Sequence[Datastore]) -> tuple[str, ...]:
    """Sets missing refreservations. If the space is missing, capacity.findings raises the alert."""
    done = []
    for store in stores:
        thick = store.state == "active" and store.thick and store.thick_stated and not store.becoming_thick
        if thick and store.reserved < store.guaranteed:
            try:
                context.engine.set_properties(store.dataset, _reservation(store))
                if context.engine.properties(store.dataset)[identity.THICK].value != "on":  # a job made it thin meanwhile
                    context.engine.set_properties(store.dataset, {"refreservation": "none"})
                    continue
            except zfs.ZfsError as problem:  # the others are reconciled
                _log.warning("thick datastore %s: %s", store.name, problem)
            else:
                done.append(f"thick datastore {store.name} had {store.reserved} of {store.guaranteed} bytes reserved")
    return tuple(done)


def _reservation(store: Datastore) -> dict[str, str]:
    return {"refreservation": "auto" if store.kind == domain.VMFS else str(with_slack(store.size))}


def begin(kind: str, size: int) -> dict[str, str]:
    """Properties set before the data plane treats it as thick; the reservation follows when no blocks are shared."""
    wider = {} if kind == domain.VMFS else {"refquota": str(with_slack(size))}
    return {identity.THICK: identity.BECOMING, **wider}


def make_thin(context: Context, kind: str, dataset: str, size: int) -> None:
    """In one step: the reconciler sets no refreservation of a thin datastore."""
    properties = {"refreservation": "none"}
    if kind != domain.VMFS:  # metadata can be in the slack
        used = context.engine.filesystem(dataset).space.referenced
        properties = sized(max(size, domain.rounded_up(used)), thick=False)
    context.engine.set_properties(dataset, {identity.THICK: "off", **properties})


def make_thick(context: Context, store: Datastore) -> None:
    """The data plane treats it as thick already, so that nothing new is shared. Raises ConflictError if blocks are shared."""
    count = _count_lun if store.kind == domain.VMFS else _count_files
    try:
        with as_domain_errors():
            count(context, store)
        try:
            context.engine.set_properties(store.dataset, {identity.THICK: "on", **_reservation(store)})
        except zfs.OutOfSpace as error:
            raise ConflictError(f"the pool lacks {missing(context, store.dataset, store.size)}. {ROOM_REMEDY}") from error
    except ConflictError as error:
        raise ConflictError(f"Cannot make {store.name} thick: {error}") from error


def _count_lun(context: Context, store: Datastore) -> None:
    uuid, limit = store.uuid or "", time.monotonic() + LUN_SECONDS
    space = context.target.lun_space(uuid)
    while space is not None and not space.unique_exact and time.monotonic() < limit:
        time.sleep(_POLL_SECONDS)
        space = context.target.lun_space(uuid)
    if space is None or not space.unique_exact or space.shared_bytes is None:
        raise _uncounted("the target", LUN_SECONDS)
    _nothing_shared(space.shared_bytes, 0)


def _count_files(context: Context, store: Datastore) -> None:
    limit, export = time.monotonic() + FILES_SECONDS, store.export or 0
    try:
        space = _until(lambda: context.files.space(export), lambda counted: not counted.counting, limit)
        if not space.thick or space.size != store.size:
            raise ConflictError("the NFS server does not follow. See its log")
        if space.admitted > space.size:
            text = f"its files need {space.admitted} bytes, and it has {space.size}"
            raise ConflictError(f"{text}. Grow it, or delete files")
        context.files.shared(export, restart=True)
        shared: SharedSpace = _until(lambda: context.files.shared(export), lambda counted: counted.complete, limit)
    except FileRefusedError as error:
        raise ConflictError(f"the NFS server could not count its shared blocks: {error}") from error
    _nothing_shared(shared.shared, shared.deduplicated)


def _until[T](ask: Callable[[], T], ended: Callable[[T], bool], limit: float) -> T:
    while not ended(answer := ask()):
        if time.monotonic() >= limit:
            raise _uncounted("the NFS server", FILES_SECONDS)
        time.sleep(_POLL_SECONDS)
    return answer


def _uncounted(who: str, seconds: float) -> ConflictError:
    reason = f"{who} could not count its shared blocks exactly within {seconds:g} s"
    return ConflictError(f"{reason}. Copy its VMs to a new thick datastore")


def _nothing_shared(shared: int, deduplicated: int) -> None:
    if shared:
        reason = f"{shared} of its bytes are shared with clones or copies"
        raise ConflictError(f"{reason}. Delete these, or copy its VMs to a new thick datastore")
    if deduplicated:
        raise ConflictError(f"{deduplicated} of its bytes are deduplicated. Copy its VMs to a new thick datastore")


# --- another size


def check_smaller(context: Context, name: str, export: int | None, size: int) -> None:
    """Refuses less than what its files were admitted. Raises UnavailableError if the NFS server does not answer."""
    try:
        space = context.files.space(export or 0)
    except FileRefusedError as error:
        raise ConflictError(
            f"Cannot make {name} smaller: the NFS server does not report the space of its files: {error}"
        ) from error
    if space.counting:
        raise ConflictError(f"Cannot make {name} smaller: the NFS server still counts what its files need. Try again later")
    if space.admitted > size:
        raise InvalidError("size", f"its files need {space.admitted} bytes", domain.size_or_more(space.admitted))


def resize(context: Context, dataset: str, size: int) -> None:
    """Resizes a thick NFS datastore. OpenZFS sets one property after the other: without space for the second the job's undo
    restores both.
    """
    try:
        context.engine.set_properties(dataset, sized(size, thick=True))
    except zfs.OutOfSpace as error:
        raise ConflictError(f"Cannot resize: the pool lacks {missing(context, dataset, size)}. {ROOM_REMEDY}") from error


def missing(context: Context, dataset: str, size: int) -> str:
    """Approximate bytes that the pool lacks for the refreservation: OpenZFS compares the growth with the space outside of it. On
    raidz and draid a volume's refreservation is larger than estimated, so no figure is given.
    """
    parent = context.engine.filesystem(dataset.rpartition("/")[0])
    inventory = context.scan()
    current = inventory.dataset(dataset)
    if current is None:
        raise zfs.NoSuchDataset(dataset)
    target = thick_refreservation(size, current.volblocksize) if isinstance(current, Volume) else with_slack(size)
    used = current.space.written  # what a snapshot shares does not count
    lacking = max(used, target) - max(used, current.refreservation) - parent.space.available
    estimated = isinstance(current, Volume) and any(pool.name == current.pool and has_parity(pool) for pool in inventory.pools)
    return "the space" if estimated or lacking <= 0 else f"{lacking} bytes"


# --- refusals of OpenZFS


def snapshot_room(dataset: Volume | Filesystem) -> int:
    """Bytes that a snapshot needs: OpenZFS reserves again what was written since the one before, up to the refreservation."""
    return dataset.refreservation - dataset.space.used_by_refreservation


@dataclass(frozen=True)
class DatastoreRoomResponse:
    """Space for the next snapshot of a thick datastore, at most its size."""

    datastore: str
    name: str
    needed: Bytes


@dataclass(frozen=True)
class Room:
    """Space that snapshots of datastores of one pool need together, and the space of the pool."""

    available: int
    datastores: list[DatastoreRoomResponse]

    @property
    def needed(self) -> int:
        return sum(datastore.needed for datastore in self.datastores)


def room(context: Context, datastores: Collection[str]) -> Room:
    """Space that snapshots of datastores of one pool need together, and the pool's space outside of all reservations."""
    inventory, rows = context.scan(60), []
    available = 0
    for store in context.datastores(60):
        dataset = inventory.dataset(store.dataset) if store.id in datastores else None
        if dataset is None:
            continue
        above = inventory.dataset(store.pool)
        available = above.space.available if above is not None else 0
        if dataset.refreservation:
            rows.append(DatastoreRoomResponse(store.id, store.name, snapshot_room(dataset)))
    return Room(available, rows)


def snapshot_refused(context: Context, names: Sequence[str]) -> ConflictError:
    datasets = [context.scan(60).dataset(name.partition("@")[0]) for name in names]
    needed = {dataset.name: snapshot_room(dataset) for dataset in datasets if dataset and dataset.refreservation}
    needs = ", ".join(f"{size} bytes for {name}" for name, size in needed.items()) or "more space"
    return ConflictError(f"Cannot take the snapshot: it needs {needs}, and the pool has less. {ROOM_REMEDY}")


def rollback_refused(name: str, error: zfs.OutOfSpace) -> ConflictError:
    """Nothing was destroyed or changed."""
    if error.quota:
        remedy = f"Raise its quota: zvaai datastore quota {quote(name)} SIZE"
        return ConflictError(f"Cannot roll back {name}: the snapshot has more data than its quota. {remedy}")
    needs = "what was written since the snapshot must be reserved again, and the pool has less space"
    remedy = f"Make it thin first: zvaai datastore change {quote(name)} --thin --wait"
    return ConflictError(f"Cannot roll back {name}: {needs}. {remedy}")


def made_refused(context: Context, doing: str, name: str, dataset: str, refreservation: int) -> ConflictError:
    """A new datastore or a clone: a thick one has a separate refreservation, in bytes; 0 if unknown."""
    above = context.engine.filesystem(dataset.rpartition("/")[0])
    missed = refreservation - above.space.available
    lacking = f", and the pool lacks {missed} of them" if missed > 0 else ""
    needed = f"{refreservation} bytes reserved" if refreservation else "more space"
    return ConflictError(f"Cannot {doing} {name}: it needs {needed}{lacking}. {ROOM_REMEDY}")
