# SPDX-License-Identifier: Apache-2.0
"""Numbers for datastores that are found without one: they came with their pool, or the database was lost."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from appliance.dataplane import reconcile as planes
from appliance.dataplane.target import Lun, ServedLun
from appliance.domain import datastores as domain
from appliance.domain import exports, identity, jobs, kept_initiators
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.errors import DomainError
from appliance.worker import nfs_serving
from appliance.worker.wanted import is_unnumbered

if TYPE_CHECKING:
    from appliance.worker.context import Context


def present_found(context: Context, inventory: Inventory, stores: Sequence[Datastore], undecided: Collection[str] = ()) -> None:
    """A datastore that came with its pool gets the number it had, or a free one; an admin says who sees it.

    One that target or NFS server still has, since it is only the database that does not know it, keeps its hosts. None gets the
    number at which hosts see one of the `undecided` (older_numbers.Followed).
    """
    active = [store for store in stores if store.state == "active" and store.uuid]
    found = [store for store in active if (store.lun if store.kind == domain.VMFS else store.export) is None]
    if not found:
        return
    datasets = {one.name: one for one in (*inventory.volumes, *inventory.filesystems)}
    files = context.nfs.files() if any(store.kind == domain.NFS for store in found) else {}
    there = luns_there(context) if any(store.kind == domain.VMFS for store in found) else {}
    using = {store.uuid for store in found} | set(undecided)
    numbers_used = {uuid: lun.number for uuid, lun in (there or {}).items() if uuid in using}
    doubtful = {one for store in stores if store.uuid in undecided for one in (store.export, store.share) if one is not None}
    of_others = {store.lun for store in stores if store.lun is not None}
    with context.store.session() as session:
        # What a job did after this was looked at is not seen here: one that it deleted gets no number.
        making = jobs.subjects_since(session, inventory.looked_at)
        pending = [jobs.plan_of(job).claims for job in jobs.active(session)]
        luns, numbers, shares = ([getattr(one, key) for one in pending] for key in ("lun", "export", "share"))
        for store in found:
            if not store.uuid or store.uuid in making or store.dataset not in datasets:
                continue
            kept = identity.judge(datasets[store.dataset])
            if not isinstance(kept, identity.Identity):
                continue
            if store.kind == domain.VMFS:
                lun = there.get(store.uuid) if there is not None else None
                if there is None or (lun is not None and lun.number in {*of_others, *luns}):
                    continue  # it can't be told who sees it; or hosts use it under a number that is another's: unnumbered tells
                others = [number for uuid, number in numbers_used.items() if uuid != store.uuid]
                _present_lun(session, kept, lun, [*luns, *others])
            elif doubtful.intersection((kept.export, kept.share)):
                continue  # it may be its own
            elif kept.export is None or files.get(kept.export, "-").strip():  # else who may can't be read yet: nfs_serving tells
                other_numbers, other_shares = nfs_serving.kept_by_files(files, kept, store.dataset, store.guid)
                share = exports.free_share(session, store.name, store.uuid, kept.share, [*shares, *other_shares])
                number = exports.free_number(session, kept.export, [*numbers, *other_numbers])
                exported = nfs_serving.as_exported(files, store, number, share)
                exports.show(session, store.uuid, number, share, **exported)
                if clients := exported.get("clients"):
                    exports.tell_kept(session, store.uuid, clients)


def luns_there(context: Context) -> dict[str, Lun] | None:
    """What the target serves, by UUID; None while it does not answer."""
    with contextlib.suppress(DomainError):
        return {lun.lun.uuid: lun.lun for one in context.served_targets() for lun in one.luns}
    return None


def _present_lun(session: Session, kept: identity.Identity, there: Lun | None, taken: Sequence[int | None]) -> None:
    """Under the number at which the target serves it, else the one it had, else a free one; to who sees it there."""
    wanted = there.number if there is not None else domain.kept_lun(kept)
    domain.present(session, kept.uuid, domain.free_lun(session, wanted, taken), None)
    if kept.uuid in kept_initiators.forgotten(session):
        kept_initiators.remember_no_longer(session, {kept.uuid})
    elif there is not None and there.initiators:
        kept_initiators.keep(session, kept.uuid, there.initiators)


def unnumbered(stores: Sequence[Datastore], served: Mapping[str, ServedLun]) -> list[planes.Failure]:
    """Of LUNs under numbers that the database, which is older than they are, keeps for datastores that are missing."""
    missing = {store.lun: store.uuid for store in stores if store.state == "missing" and store.lun is not None}
    failures = []
    for store in stores:
        lun = served.get(store.uuid or "")
        if lun is None or not is_unnumbered(store):
            continue
        number = lun.lun.number
        if number in missing:
            text = f"datastore {store.name} is served as LUN {number}"
            text = f"{text}, which the database keeps for {missing[number]}, which is missing"
            remedy = f"if that is lost: zvaai datastore forget {missing[number]}; till then the LUN stays as it is"
            failures.append(planes.Failure(lun.lun.uuid, text, remedy=remedy))
    return failures
