# SPDX-License-Identifier: Apache-2.0
"""Snapshots by the clock: when one is due, what it is called, which are too old."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from appliance.database.models import Schedule
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.journal import Finding, settle
from appliance.zfs.model import Snapshot

SCHEDULES = 256


def schedule(session: Session, schedule_id: str) -> Schedule:
    """By its identifier. Raises NotFoundError."""
    found = session.get(Schedule, schedule_id)
    if found is None:
        raise NotFoundError("schedule", schedule_id)
    return found


def check_datastores(stores: Sequence[Datastore], wanted: Sequence[str]) -> None:
    """All are there, in one pool: else no snapshot of them could be taken in one step. Raises InvalidError."""
    active = {store.id: store for store in stores if store.state == "active"}
    allowed = "identifiers of active datastores of one pool"
    absent = sorted(set(wanted) - active.keys())
    if absent:
        raise InvalidError("datastores", f"there is no active datastore {', '.join(absent[:5])}", allowed)
    pools = sorted({active[one].pool for one in wanted})
    if len(pools) > 1:
        raise InvalidError("datastores", f"they are in several pools: {', '.join(pools)}", allowed)


def add(session: Session, *, name: str, datastores: Sequence[str], every_minutes: int, keep: int, enabled: bool) -> Schedule:
    """The first snapshot is taken at once."""
    _check_name(session, name, None)
    if (session.scalar(select(func.count()).select_from(Schedule)) or 0) >= SCHEDULES:
        raise ConflictError(f"there are {SCHEDULES} schedules already")
    added = Schedule(
        id=str(uuid.uuid4()),
        name=name,
        datastores=list(dict.fromkeys(datastores)),
        every_minutes=every_minutes,
        keep=keep,
        enabled=enabled,
        created_at=time.time(),
    )
    session.add(added)
    session.flush()
    return added


def change(
    session: Session,
    schedule_id: str,
    *,
    name: str | None,
    datastores: Sequence[str] | None,
    every_minutes: int | None,
    keep: int | None,
    enabled: bool | None,
) -> Schedule:
    """Changes what is given."""
    changed = schedule(session, schedule_id)
    if name is not None:
        _check_name(session, name, schedule_id)
        changed.name = name
    if datastores is not None:
        changed.datastores = list(dict.fromkeys(datastores))
    if every_minutes is not None:
        changed.every_minutes = every_minutes
    if keep is not None:
        changed.keep = keep
    if enabled is not None:
        changed.enabled = enabled
    return changed


def delete(session: Session, schedule_id: str) -> None:
    """Its snapshots stay; its alerts do not."""
    session.delete(schedule(session, schedule_id))
    for area in (f"schedule-{schedule_id}", f"schedule-missing-{schedule_id}"):
        settle(session, area, [])


def _check_name(session: Session, name: str, own: str | None) -> None:
    taken = session.scalar(select(Schedule).where(Schedule.name == name))
    if taken is not None and taken.id != own:
        raise ConflictError("the name is taken", [name])


def due(one: Schedule, now: float) -> bool:
    """Whether it is time; what was missed while the appliance was off is taken once."""
    return one.enabled and (one.last_at is None or now >= one.last_at + 60 * one.every_minutes)


def snapshot_name(one: Schedule, now: float) -> str:
    """By schedule and time, UTC."""
    return f"auto-{one.id[:8]}-{time.strftime('%Y-%m-%d_%H%M%S', time.gmtime(now))}"


def taken(session: Session, schedule_id: str, now: float, missing: Sequence[str]) -> None:
    """It was its time. An alert tells of datastores that are not there."""
    found = session.get(Schedule, schedule_id)
    if found is None:
        return
    found.last_at = now
    text = f"schedule {found.name}: {len(missing)} of its datastores are not there: {', '.join(missing[:5])}"
    area = f"schedule-missing-{schedule_id}"
    settle(session, area, [Finding(f"{area}:gone", "warning", found.name, text, "change the schedule")] if missing else [])


def ended(session: Session, schedule_id: str, problem: str | None) -> None:
    """Its snapshots were taken, or were not: an alert says so."""
    found = session.get(Schedule, schedule_id)
    if found is None:
        return
    area = f"schedule-{schedule_id}"
    text = f"schedule {found.name}: {problem}"
    settle(session, area, [Finding(f"{area}:failed", "warning", found.name, text, "see its last job")] if problem else [])


def surplus(snapshots: Iterable[Snapshot], kept: Mapping[str, int]) -> list[Snapshot]:
    """Those of a schedule's own beyond the number it keeps of each datastore; never held ones or those with clones."""
    own: dict[tuple[str, str], list[Snapshot]] = {}
    for snapshot in snapshots:
        mark = snapshot.properties.get("zvaai:schedule")
        if mark is not None and mark.value in kept and snapshot.tag.startswith(f"auto-{mark.value[:8]}-"):
            own.setdefault((snapshot.dataset, mark.value), []).append(snapshot)
    found = []
    for (_dataset, schedule_id), taken_ones in own.items():
        old = sorted(taken_ones, key=lambda one: one.createtxg)[: -kept[schedule_id]]
        found += [snapshot for snapshot in old if not snapshot.holds and not snapshot.clones]
    return found
