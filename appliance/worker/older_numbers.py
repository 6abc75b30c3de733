# SPDX-License-Identifier: Apache-2.0
"""Numbers of LUNs and exports on which database, data and who serves them do not agree.

Hosts know a LUN by the number under which the target shows it, and the number it was given last lies with its data. So where both
say otherwise the database is an older copy, put back by hand, and follows; where hosts have what the database says, or a backup
was restored, what lies with the data is set. As long as it can't be told who is right (a job is about it, the target does not
answer), what is served stays as it is, and nothing is forgotten or set.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Export, Presentation
from appliance.dataplane import export_file
from appliance.domain import datastores as domain
from appliance.domain import identity, jobs, older_numbers
from appliance.domain.datastores import Datastore, Inventory
from appliance.worker.presenting import luns_there
from appliance.zfs.errors import ZfsError

if TYPE_CHECKING:
    from appliance.worker.context import Context

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Followed:
    """What came of it."""

    changed: bool = False
    """Whether the database says something else now."""
    undecided: frozenset[str] = frozenset()
    """Datastores, by UUID, of which it can't be told yet: what target and NFS server serve of them stays as it is."""


@dataclass(frozen=True)
class _Found:
    """What is known of the LUNs of active datastores, by UUID."""

    stores: Mapping[str, Datastore]
    kept: Mapping[str, int]
    """Numbers that lie with the data."""
    served: Mapping[str, int]
    about: set[str]
    """What jobs are about: half of it may have been seen."""
    restored: set[str]
    """Those of which the database is right."""


def follow(context: Context, inventory: Inventory, stores: Sequence[Datastore]) -> Followed:
    """Makes numbers of an older database those that hosts know, and forgets there what was deleted since.

    `stores` are those of the `inventory`: a job that ended after this was looked at is not seen in either.
    """
    exported = _follow_exports(context, inventory, stores)
    luns = _follow_luns(context, inventory, stores)
    return Followed(luns.changed or exported.changed, luns.undecided | exported.undecided)


def _follow_luns(context: Context, inventory: Inventory, stores: Sequence[Datastore]) -> Followed:
    """LUN numbers, and what was deleted.

    Two that hosts see change places at once. One that hosts do not see gives way to one that they do, with an alert. What is in
    the way and can't be asked, as its pool is away, stays, and so does the LUN as the target has it (presenting.unnumbered).
    """
    luns = {store.uuid: store for store in stores if store.uuid and store.kind == domain.VMFS and store.state == "active"}
    datasets = {volume.name: volume for volume in inventory.volumes}
    kept = {
        uuid: number
        for uuid, store in luns.items()
        if store.dataset in datasets and (number := domain.own_lun(datasets[store.dataset])) is not None
    }
    gone = [store for store in stores if store.state == "deleted" and not store.lun == store.export is None]
    differing = {uuid for uuid, store in luns.items() if store.lun is not None and kept.get(uuid, store.lun) != store.lun}
    if not gone and not differing and all(store.lun is not None for store in luns.values()):
        return Followed()
    there = luns_there(context)
    if there is None:  # it may answer in a moment
        with context.store.reading() as session:
            right = older_numbers.restored(session) - older_numbers.awaited(session)
        return Followed(undecided=frozenset(luns) if differing - right else frozenset())
    served = {uuid: lun.number for uuid, lun in there.items()}
    with context.store.session() as session:
        about = jobs.subjects_since(session, inventory.looked_at)
        forgotten = _forget(context, session, [store for store in gone if store.uuid not in about], served)
        seen = {uuid for uuid in older_numbers.awaited(session) if uuid in kept and served.get(uuid) == kept[uuid]}
        followed = _follow(session, _Found(luns, kept, served, about, older_numbers.restored(session) - seen))
    return Followed(followed.changed or forgotten, followed.undecided)


def _forget(context: Context, session: Session, gone: Sequence[Datastore], served: Mapping[str, int]) -> bool:
    """What was deleted; whether any was forgotten. What a backup had of one is for when that is restored, if it is free."""
    restored = older_numbers.restored(session)
    files = context.nfs.files() if any(store.uuid in restored for store in gone) else {}
    exported = [one for text in files.values() if (one := export_file.read(text))]
    forgotten = False
    for store in gone:
        others = [one for one in exported if one.guid != store.guid]
        free = store.lun not in served.values() if store.kind == domain.VMFS else True
        free = free and not any(one.export_id == store.export or one.pseudo == store.share for one in others)
        if store.uuid is None or (store.uuid in restored and free):
            continue
        what = "the database, an older copy, had it shown to hosts still"
        if store.uuid in restored:
            what = "what the restored backup had for it is another's by now"
        domain.forget(session, store.uuid)
        older_numbers.tell_followed(session, store.uuid, f"it is deleted; {what}")
        forgotten = True
    return forgotten


def _follow(session: Session, found: _Found) -> Followed:
    rows = dict(session.execute(select(Presentation.datastore, Presentation.lun)).tuples().all())
    claims = _claims(rows, found)
    undecided = {uuid for uuid in claims if uuid in found.about}
    moves = {uuid: number for uuid, number in claims.items() if uuid not in undecided}
    yielding, stuck = _unblock(rows, moves, undecided, found)
    doubtful = {claims[uuid] for uuid in undecided} | {
        found.served[uuid] for uuid in found.stores.keys() & found.served.keys() & found.about - rows.keys()
    }
    undecided |= {uuid for uuid in found.stores.keys() & rows.keys() - moves.keys() - yielding.keys() if rows[uuid] in doubtful}
    if not moves and not yielding and not stuck:
        return Followed(undecided=frozenset(undecided))
    staying = {lun for uuid, lun in rows.items() if uuid not in yielding and uuid not in stuck and uuid not in moves}
    new = dict(moves)
    pending = {jobs.plan_of(job).claims.lun for job in jobs.active(session)}
    for uuid in yielding:
        others = {number for one, number in found.served.items() if one != uuid}
        taken = {*staying, *new.values(), *pending, *doubtful, *others}
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
        seen = "to hosts" if found.served.get(uuid) == number else "by what lies with its data"
        it = f"datastore {found.stores[uuid].name} is LUN {number} {seen}"
        text = f"{it}; the database, an older copy, had {rows[uuid]}, and follows"
        older_numbers.tell_followed(session, uuid, text)
    for uuid in yielding.keys() & new.keys():
        other = found.stores[yielding[uuid]].name
        it = f"datastore {found.stores[uuid].name} was to be LUN {rows[uuid]}"
        text = f"{it}, as which hosts see {other}: it is LUN {new[uuid]} now"
        older_numbers.tell_renumbered(session, uuid, text)
    return Followed(True, frozenset(undecided))


def _claims(rows: Mapping[str, int], found: _Found) -> dict[str, int]:
    """Numbers where target and data say something else than the database: as hosts see it, else as it lies with the data.

    Of two with one number the one that hosts see under it.
    """
    claims: dict[str, int] = {}
    known = found.stores.keys() & rows.keys() & found.kept.keys()
    differing = [uuid for uuid in known if rows[uuid] not in (found.kept[uuid], found.served.get(uuid))]
    for uuid in sorted(differing, key=lambda one: (one not in found.served, one)):
        number = found.served.get(uuid, found.kept[uuid])
        if uuid not in found.restored and number not in claims.values():
            claims[uuid] = number
    return claims


def _unblock(
    rows: Mapping[str, int], moves: dict[str, int], undecided: set[str], found: _Found
) -> tuple[dict[str, str], list[str]]:
    """Takes out of `moves` what can't be done, as the number is another's that stays.

    Who gives way, and to whom; and those that can't be moved, though hosts see them under that number. `undecided` gets those
    where the other one is itself, or a job is about it.
    """
    stuck: list[str] = []
    unnumbered = {found.served[uuid]: uuid for uuid in found.stores.keys() & found.served.keys() - rows.keys() - found.about}
    while True:
        claimed = unnumbered | {number: uuid for uuid, number in moves.items() if found.served.get(uuid) == number}
        may_yield = found.stores.keys() & rows.keys() - moves.keys() - undecided - found.about - found.restored
        yielding = {uuid: claimed[rows[uuid]] for uuid in may_yield.difference(stuck) if rows[uuid] in claimed}
        holders = {lun: uuid for uuid, lun in rows.items() if uuid not in (moves.keys() | yielding.keys() | set(stuck))}
        holders |= {number: uuid for uuid, number in found.served.items() if uuid not in rows}
        blocked = [uuid for uuid, number in moves.items() if number in holders]
        if not blocked:
            return yielding, stuck
        for uuid in blocked:
            number = moves.pop(uuid)
            if holders[number] in undecided or holders[number] in found.about:
                undecided.add(uuid)
            elif found.served.get(uuid) == number:
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


def _follow_exports(context: Context, inventory: Inventory, stores: Sequence[Datastore]) -> Followed:
    """Numbers and paths of exports that lie with the data and are in a file of the NFS server: handles of hosts have them.

    Where they are another's that stays, so do they.
    """
    datasets = {one.name: one for one in inventory.filesystems}
    mounted = {store.uuid: store for store in stores if store.uuid and store.kind == domain.NFS and store.state == "active"}
    differing: dict[str, tuple[int, str]] = {}
    for uuid, store in mounted.items():
        own = datasets.get(store.dataset)
        if own is None or store.export is None or not identity.differs(own, _numbers(store)):
            continue
        judged = identity.judge(own)
        if isinstance(judged, identity.Identity) and judged.export is not None and judged.share is not None:
            differing[uuid] = (judged.export, judged.share)
    if not differing:
        with context.store.reading() as session:
            told = older_numbers.in_the_way(session)
        if told:
            with context.store.session() as session:
                older_numbers.tell_in_the_way(session, {}, jobs.subjects_since(session, inventory.looked_at))
        return Followed()
    files = {number: file for number, text in context.nfs.files().items() if (file := export_file.read(text))}
    with context.store.session() as session:
        about = jobs.subjects_since(session, inventory.looked_at)
        right = older_numbers.restored(session) - older_numbers.awaited(session)
        rows = {row.datastore: row for row in session.scalars(select(Export))}
        claims = {
            uuid: (number, share)
            for uuid, (number, share) in differing.items()
            if uuid in rows
            and uuid not in right
            and (file := files.get(number)) is not None
            and (file.dataset, file.pseudo) == (mounted[uuid].dataset, share)
        }
        moves = {uuid: told for uuid, told in claims.items() if uuid not in about}
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
        doubtful = {one for uuid in claims.keys() - moves.keys() for one in claims[uuid]}
        waiting = {uuid: claim for uuid, claim in claims.items() if uuid not in moves and uuid not in about}
        holders = {uuid: {one for one, row in rows.items() if one not in moves and {row.number, row.share} & set(claim)}
                   for uuid, claim in waiting.items()}  # fmt: skip
        names = {store.uuid: store.name for store in stores}
        texts = {
            uuid: f"hosts mount datastore {mounted[uuid].name} as {share}, export {number}; the database, an older copy, has that"
            f" for {', '.join(sorted(names.get(one, one) for one in holders[uuid] - {uuid}))}: it stays so, and who may mount it"
            " can't be changed"
            for uuid, (number, share) in waiting.items()
        }
        unsure = about | {uuid for uuid in waiting if holders[uuid] & about}
        older_numbers.tell_in_the_way(session, texts, unsure)
        others = mounted.keys() & rows.keys() - moves.keys()
        undecided = claims.keys() - moves.keys()
        undecided |= {uuid for uuid in others if doubtful.intersection((rows[uuid].number, rows[uuid].share))}
    return Followed(bool(moves), frozenset(undecided))


def keep(context: Context, inventory: Inventory, stores: Sequence[Datastore], undecided: Collection[str]) -> None:
    """Sets what lies with the data to what the database says, where hosts see it so or a backup was restored."""
    datasets = {one.name: one for one in (*inventory.volumes, *inventory.filesystems)}
    shown = [store for store in stores if store.state == "active" and store.uuid and store.dataset in datasets]
    wanted = {store.uuid: _numbers(store) for store in shown if store.uuid and _numbers(store)}
    differing = [store for store in shown if identity.differs(datasets[store.dataset], wanted.get(store.uuid or "", {}))]
    with context.store.reading() as session:
        restored, awaited = older_numbers.restored(session), older_numbers.awaited(session)
        about = jobs.subjects_since(session, inventory.looked_at)
    if not differing and not restored:
        return
    seen = _as_hosts_see(context, differing)
    failed = set()
    for store in differing:
        uuid = store.uuid or ""
        if uuid in about or uuid in undecided or uuid not in restored | seen:
            continue
        try:
            context.engine.set_properties(store.dataset, wanted[uuid])
        except ZfsError as error:  # tried again with the next round
            _log.warning("the number of %s is not kept with its data: %s", store.name, error)
            failed.add(uuid)
    done = (restored & wanted.keys()) - about - failed - set(undecided)
    later = restored - wanted.keys() - awaited
    if done or later:
        with context.store.session() as session:
            # Not of what was restored once more meanwhile.
            older_numbers.remember_no_longer(session, {uuid for uuid in done if wanted[uuid] == _in_database(session, uuid)})
            older_numbers.remember_awaited(session, later)


def _numbers(store: Datastore) -> dict[str, str]:
    if store.kind == domain.VMFS:
        return {identity.LUN: str(store.lun)} if store.lun is not None else {}
    return {identity.EXPORT: str(store.export), identity.SHARE: store.share} if store.export is not None and store.share else {}


def _in_database(session: Session, uuid: str) -> dict[str, str]:
    lun, export = session.get(Presentation, uuid), session.get(Export, uuid)
    if lun is not None:
        return {identity.LUN: str(lun.lun)}
    return {identity.EXPORT: str(export.number), identity.SHARE: export.share} if export is not None else {}


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
