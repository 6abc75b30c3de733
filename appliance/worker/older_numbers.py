"""Numbers of LUNs and exports on which database, data and who serves them do not agree.

Hosts know a LUN by the number under which the target shows it, and the number it was given last lies with its data. So where both
say otherwise the database is an older copy, put back by hand, and follows; where hosts have what the database says, or a backup
was restored, what lies with the data is set.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Export, Presentation
from appliance.dataplane import export_file
from appliance.domain import datastores as domain
from appliance.domain import identity, jobs, older_numbers
from appliance.domain.datastores import Datastore
from appliance.worker.presenting import luns_there
from appliance.zfs.errors import ZfsError

if TYPE_CHECKING:
    from appliance.worker.context import Context

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Found:
    """What is known of the LUNs of active datastores, by UUID."""

    stores: Mapping[str, Datastore]
    kept: Mapping[str, int]
    """Numbers that lie with the data."""
    served: Mapping[str, int]


def follow(context: Context, stores: Sequence[Datastore]) -> bool:
    """Makes numbers of an older database those that hosts know, and forgets there what was deleted since; whether it did."""
    exported = _follow_exports(context, stores)  # no short cut: both
    return _follow_luns(context, stores) or exported


def _follow_luns(context: Context, stores: Sequence[Datastore]) -> bool:
    """LUN numbers, and what was deleted.

    Two that hosts see change places at once. One that hosts do not see gives way to one that they do, with an alert. What is in
    the way and can't be asked, as its pool is away, stays, and so does the LUN as the target has it (presenting.unnumbered).
    """
    luns = [store for store in stores if store.kind == domain.VMFS and store.state == "active"]
    datasets = {volume.name: volume for volume in context.inventory.volumes}
    kept = {
        store.uuid: number
        for store in luns
        if store.uuid and store.dataset in datasets and (number := domain.own_lun(datasets[store.dataset])) is not None
    }
    gone = [store.uuid for store in stores if store.state == "deleted" and not store.lun == store.export is None]
    if not gone and all(store.lun is not None and kept.get(store.uuid or "", store.lun) == store.lun for store in luns):
        return False
    there = luns_there(context)
    if there is None:
        return False
    with context.store.session() as session:
        # What a job did after this was looked at is not seen here.
        about = jobs.subjects_since(session, context.inventory.looked_at)
        forgotten = [uuid for uuid in gone if uuid and uuid not in about]
        for uuid in forgotten:
            domain.forget(session, uuid)
            older_numbers.tell_followed(session, uuid, "it is deleted; the database, an older copy, had it shown to hosts still")
        fixed = about | older_numbers.restored(session)
        found = _Found(
            {store.uuid: store for store in luns if store.uuid and store.uuid not in fixed},
            kept,
            {uuid: lun.number for uuid, lun in there.items()},
        )
        changed = _follow(session, found)
    return changed or bool(forgotten)


def _follow(session: Session, found: _Found) -> bool:
    rows = dict(session.execute(select(Presentation.datastore, Presentation.lun)).tuples().all())
    moves = _moves(rows, found)
    claimed = {number: uuid for uuid, number in moves.items() if found.served.get(uuid) == number}
    claimed |= {found.served[uuid]: uuid for uuid in found.stores if uuid not in rows and uuid in found.served}
    yielding = {uuid: lun for uuid, lun in rows.items() if uuid in found.stores and uuid not in moves and lun in claimed}
    stuck = _unblock({uuid: lun for uuid, lun in rows.items() if uuid not in yielding}, moves, found)
    if not moves and not yielding and not stuck:
        return False
    staying = {lun for uuid, lun in rows.items() if uuid not in yielding and uuid not in stuck and uuid not in moves}
    new = dict(moves)
    pending = {job.parameters.get("lun") for job in jobs.active(session)}
    for uuid in yielding:
        taken = {*staying, *new.values(), *pending, *(number for one, number in found.served.items() if one != uuid)}
        choices = (found.served.get(uuid), *range(domain.LUNS))
        number = next((one for one in choices if one is not None and one not in taken), None)
        if number is None:
            stuck.append(uuid)
        else:
            new[uuid] = number
    for uuid in stuck:
        domain.forget(session, uuid)
    _renumber(session, new)
    for uuid, number in moves.items():
        text = f"{found.stores[uuid].name} is LUN {number} to hosts; the database, an older copy, had {rows[uuid]}, and follows"
        older_numbers.tell_followed(session, uuid, text)
    for uuid in yielding.keys() & new.keys():
        other = found.stores[claimed[rows[uuid]]].name
        text = f"{found.stores[uuid].name} was to be LUN {rows[uuid]}, as which hosts see {other}: it is LUN {new[uuid]} now"
        older_numbers.tell_renumbered(session, uuid, text)
    return True


def _moves(rows: Mapping[str, int], found: _Found) -> dict[str, int]:
    """Where target and data say something else than the database; of two with one number the one that hosts see under it."""
    moves: dict[str, int] = {}
    differing = [uuid for uuid in found.stores.keys() & rows.keys() & found.kept.keys() if found.kept[uuid] != rows[uuid]]
    for uuid in sorted(differing, key=lambda one: (found.served.get(one) != found.kept[one], one)):
        if found.served.get(uuid) != rows[uuid] and found.kept[uuid] not in moves.values():
            moves[uuid] = found.kept[uuid]
    return moves


def _unblock(rows: Mapping[str, int], moves: dict[str, int], found: _Found) -> list[str]:
    """Takes out of `moves` what can't be done, as the number is another's that stays; those of them that hosts see under it."""
    stuck: list[str] = []
    while True:
        held = {lun for uuid, lun in rows.items() if uuid not in moves and uuid not in stuck}
        held |= {number for uuid, number in found.served.items() if uuid not in rows}
        blocked = [uuid for uuid, number in moves.items() if number in held]
        if not blocked:
            return stuck
        for uuid in blocked:
            if found.served.get(uuid) == moves.pop(uuid):
                stuck.append(uuid)


def _renumber(session: Session, new: Mapping[str, int]) -> None:
    """All at once: some may change places."""
    rows = {row.datastore: row for row in session.scalars(select(Presentation).where(Presentation.datastore.in_(new)))}
    for place, row in enumerate(rows.values()):
        row.lun = -1 - place
    session.flush()
    for uuid, row in rows.items():
        row.lun = new[uuid]
    session.flush()


def _follow_exports(context: Context, stores: Sequence[Datastore]) -> bool:
    """Numbers and paths of exports that lie with the data and are in a file of the NFS server: handles of hosts have them."""
    datasets = {one.name: one for one in context.inventory.filesystems}
    differing: dict[str, tuple[int, str]] = {}
    for store in stores:
        own = datasets.get(store.dataset) if store.kind == domain.NFS and store.state == "active" else None
        if own is None or not store.uuid or store.export is None or not identity.differs(own, _numbers(store)):
            continue
        judged = identity.judge(own)
        if isinstance(judged, identity.Identity) and judged.export is not None and judged.share is not None:
            differing[store.uuid] = (judged.export, judged.share)
    if not differing:
        return False
    places = {store.uuid: store.dataset for store in stores}
    files = {number: export_file.read(text) for number, text in context.nfs.files().items()}
    with context.store.session() as session:
        fixed = jobs.subjects_since(session, context.inventory.looked_at) | older_numbers.restored(session)
        rows = {row.datastore: row for row in session.scalars(select(Export))}
        moves = {
            uuid: (number, share)
            for uuid, (number, share) in differing.items()
            if uuid in rows
            and uuid not in fixed
            and (file := files.get(number)) is not None
            and (file.dataset, file.pseudo) == (places[uuid], share)
        }
        while True:
            staying = [row for uuid, row in rows.items() if uuid not in moves]
            held = {row.number for row in staying} | {row.share for row in staying}
            blocked = [uuid for uuid, told in moves.items() if held.intersection(told)]
            if not blocked:
                break
            for uuid in blocked:
                del moves[uuid]
        before = {uuid: (rows[uuid].number, rows[uuid].share) for uuid in moves}
        for place, uuid in enumerate(moves):
            rows[uuid].number, rows[uuid].share = -1 - place, f"\0{place}"
        session.flush()
        for uuid, (number, share) in moves.items():
            rows[uuid].number, rows[uuid].share = number, share
            text = f"hosts mount it as {share}, export {number}; the database, an older copy, had {before[uuid]}, and follows"
            older_numbers.tell_followed(session, uuid, text)
    return bool(moves)


def keep(context: Context, stores: Sequence[Datastore]) -> None:
    """Sets what lies with the data to what the database says, where hosts see it so or a backup was restored."""
    datasets = {one.name: one for one in (*context.inventory.volumes, *context.inventory.filesystems)}
    shown = [store for store in stores if store.state == "active" and store.uuid and store.dataset in datasets]
    wanted = {store.uuid: _numbers(store) for store in shown if store.uuid and _numbers(store)}
    differing = [store for store in shown if identity.differs(datasets[store.dataset], wanted.get(store.uuid or "", {}))]
    with context.store.reading() as session:
        restored = older_numbers.restored(session)
        about = jobs.subjects_since(session, context.inventory.looked_at)
    if not differing and not restored:
        return
    seen = _as_hosts_see(context, differing)
    failed = set()
    for store in differing:
        uuid = store.uuid or ""
        if uuid in about or uuid not in restored | seen:
            continue
        try:
            context.engine.set_properties(store.dataset, wanted[uuid])
        except ZfsError as error:  # tried again with the next round
            _log.warning("the number of %s is not kept with its data: %s", store.name, error)
            failed.add(uuid)
    if done := (restored & wanted.keys()) - about - failed:
        with context.store.session() as session:
            older_numbers.remember_no_longer(session, done)


def _numbers(store: Datastore) -> dict[str, str]:
    if store.kind == domain.VMFS:
        return {identity.LUN: str(store.lun)} if store.lun is not None else {}
    return {identity.EXPORT: str(store.export), identity.SHARE: store.share} if store.export is not None and store.share else {}


def _as_hosts_see(context: Context, stores: Sequence[Datastore]) -> set[str]:
    """Which of them target or NFS server have as the database says."""
    seen: set[str | None] = set()
    if any(store.kind == domain.VMFS for store in stores):
        there = luns_there(context) or {}
        seen = {store.uuid for store in stores if store.uuid in there and there[store.uuid].number == store.lun}
    if any(store.kind == domain.NFS for store in stores):
        files = {number: export_file.read(text) for number, text in context.nfs.files().items()}
        for store in stores:
            export = files.get(store.export or 0)
            if export is not None and (export.dataset, export.pseudo) == (store.dataset, store.share):
                seen.add(store.uuid)
    return {uuid for uuid in seen if uuid}
