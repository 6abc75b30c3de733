# SPDX-License-Identifier: Apache-2.0
"""Numbers of LUNs and exports: assigned to datastores of imported pools, and stored in their properties."""

import logging
from collections.abc import Sequence

from sqlalchemy import update

from appliance.database.models import Export, Presentation
from appliance.domain import datastores as domain
from appliance.domain import exports, identity, jobs
from appliance.domain.datastores import Datastore, Inventory
from appliance.worker.context import Context
from appliance.zfs.errors import ZfsError

_log = logging.getLogger(__name__)


def give_numbers(context: Context, inventory: Inventory, stores: Sequence[Datastore]) -> None:
    """Assigns a number to each active datastore without one in the database: the number in its properties if that is free,
    otherwise another one. No host sees it until an admin grants access.
    """
    active = [store for store in stores if store.state == "active" and store.uuid]
    unnumbered = [store for store in active if (store.lun if store.kind == domain.VMFS else store.export) is None]
    if not unnumbered:
        return
    datasets = {dataset.name: dataset for dataset in (*inventory.volumes, *inventory.filesystems)}
    with context.store.session() as session:
        # The inventory may be older than the end of a job that deleted the datastore.
        changing = jobs.subjects_after(session, inventory.scanned_at)
        pending = [jobs.plan_of(job).claims for job in jobs.active(session)]
        luns, numbers, shares = ([getattr(claims, key) for claims in pending] for key in ("lun", "export", "share"))
        for store in unnumbered:
            if not store.uuid or store.uuid in changing or store.dataset not in datasets:
                continue
            claim = identity.judge(datasets[store.dataset])
            if not isinstance(claim, identity.Identity):
                continue
            if store.kind == domain.VMFS:
                number = domain.free_lun(session, stores, domain.recorded_lun(claim), luns)
                domain.present(session, claim.uuid, number, None)
            else:
                share = exports.free_share(session, store.name, claim.uuid, claim.share, shares)
                remembered = {other.recorded_export for other in stores}
                number = exports.free_number(session, remembered, claim.export, numbers)
                exports.show(session, claim.uuid, number, share)


def store_numbers(context: Context, inventory: Inventory, stores: Sequence[Datastore]) -> None:
    """Sets the properties of each dataset to the number that the database has, so that the number moves with the pool.

    The database gets name and pool, which no other place has once the pool is away.
    """
    _store_origins(context, stores)
    datasets = {dataset.name: dataset for dataset in (*inventory.volumes, *inventory.filesystems)}
    desired = {store.dataset: _numbers(store) for store in stores if store.state == "active" and store.dataset in datasets}
    differing = {name: numbers for name, numbers in desired.items() if identity.differs(datasets[name], numbers)}
    if not differing:
        return
    with context.store.reading() as session:
        changing = jobs.about_after(session, inventory.scanned_at)
    for name in differing.keys() - changing:
        try:
            context.engine.set_properties(name, differing[name])
        except ZfsError as error:  # the next reconciliation tries again
            _log.warning("cannot store the number of %s with its data: %s", name, error)


def _store_origins(context: Context, stores: Sequence[Datastore]) -> None:
    with context.store.reading() as session:
        origins = domain.Shown.read(session).origins
    active = [store for store in stores if store.state == "active"]
    differing = [store for store in active if origins.get(store.id, (store.name, store.pool)) != (store.name, store.pool)]
    if not differing:
        return
    with context.store.session() as session:
        for store in differing:
            table = Presentation if store.kind == domain.VMFS else Export
            session.execute(update(table).where(table.datastore == store.id).values(name=store.name, pool=store.pool))


def _numbers(store: Datastore) -> dict[str, str]:
    if store.kind == domain.VMFS:
        return {identity.LUN: str(store.lun)} if store.lun is not None else {}
    return {identity.EXPORT: str(store.export), identity.SHARE: store.share} if store.export is not None and store.share else {}
