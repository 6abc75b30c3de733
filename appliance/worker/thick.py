"""Thick VMFS datastores: a zvol with its ordinary refreservation. Its blocks are never shared.

The appliance sets the refreservation, and the reconciler sets it again where it is missing. The target never touches it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from appliance.domain import datastores as domain
from appliance.domain import identity
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError
from appliance.worker.errors import as_domain_errors
from appliance.zfs import errors as zfs
from appliance.zfs.model import Volume
from appliance.zfs.properties import thick_refreservation

if TYPE_CHECKING:
    from appliance.worker.context import Context
    from appliance.worker.steps import Parameters

COUNT_SECONDS = 60.0
"""For the target to count: blocks that were written just now have to be on disk, and a large LUN has many."""
_POLL_SECONDS = 1.0


def reserve_again(context: Context, stores: Sequence[Datastore], changing: Collection[str]) -> tuple[str, ...]:
    """Sets what is missing, except where a job is `changing` it. If there is no room, capacity.findings raises the alert."""
    done = []
    for store in stores:
        thick = store.kind == domain.VMFS and store.state == "active" and store.thick_stated
        if thick and store.uuid not in changing and store.reserved < store.size:
            with contextlib.suppress(zfs.OutOfSpace, zfs.NoSuchDataset):
                context.engine.set_properties(store.dataset, {"refreservation": "auto"})
                done.append(f"thick datastore {store.name} had {store.reserved} of {store.size} bytes reserved")
    return tuple(done)


def make_thick(context: Context, name: str, dataset: str, uuid: str) -> None:
    """The target treats the LUN as thick already, so that nothing new is shared. Raises ConflictError if blocks are shared."""
    limit = time.monotonic() + COUNT_SECONDS
    with as_domain_errors():
        space = context.target.lun_space(uuid)
        while space is not None and not space.unique_exact and time.monotonic() < limit:
            time.sleep(_POLL_SECONDS)
            space = context.target.lun_space(uuid)
    if space is None or not space.unique_exact or space.shared_bytes is None:
        reason = f"the target could not count its shared blocks exactly within {COUNT_SECONDS:g} s"
        raise ConflictError(f"Cannot make {name} thick: {reason}. Copy its VMs to a new thick datastore")
    if space.shared_bytes:
        reason = f"{space.shared_bytes} of its bytes are shared with clones or copies"
        raise ConflictError(f"Cannot make {name} thick: {reason}. Delete these, or copy its VMs to a new thick datastore")
    try:
        context.engine.set_properties(dataset, {"refreservation": "auto"})
    except zfs.OutOfSpace as error:
        lacking = missing(context.engine.volume(dataset))
        raise ConflictError(f"Cannot make {name} thick: the pool lacks {lacking} bytes. Add vdevs, or delete data") from error


def make_thin(context: Context, dataset: str) -> None:
    """In one step: the reconciler sets no refreservation of a thin datastore."""
    context.engine.set_properties(dataset, {identity.THICK: "off", "refreservation": "none"})


def missing(volume: Volume) -> int:
    """About what the pool lacks for the refreservation: OpenZFS compares the growth with the space outside of it."""
    own = volume.space.used_by_dataset
    growth = max(own, thick_refreservation(volume.volsize, volume.volblocksize)) - max(own, volume.refreservation)
    outside = volume.space.available - max(0, volume.refreservation - own)
    return max(1, growth - max(0, outside))


def snapshot_refused(context: Context, names: Sequence[str]) -> ConflictError:
    """OpenZFS reserves again what the snapshot then holds, up to the refreservation."""
    found = [context.look(60).dataset(name.partition("@")[0]) for name in names]
    needed = {one.name: min(one.space.used_by_dataset, one.refreservation) for one in found if one and one.refreservation}
    told = ", ".join(f"{size} bytes for {name}" for name, size in needed.items()) or "more space"
    text = f"Cannot take the snapshot: it needs {told}, and the pool has less. Add vdevs, or delete data"
    return ConflictError(text, list(needed))


def clone_refused(decided: Parameters) -> ConflictError:
    """A thick clone has a refreservation of its own."""
    needed = f"{decided['refreservation']} bytes reserved" if decided.get("refreservation") else "more space"
    return ConflictError(f"Cannot clone: the clone needs {needed}, and the pool has less. Add vdevs, or delete data")
