# SPDX-License-Identifier: Apache-2.0
"""Scheduled snapshots and scrubs: settings of schedules, due times, names of snapshots."""

import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from appliance.database.models import Job, Schedule
from appliance.domain import rows, schedule_times
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, ForbiddenError, InvalidError
from appliance.domain.fields import Identifier, Model, Name
from appliance.domain.journal import Finding, open_alerts, update_alerts
from appliance.domain.requests import PoolName
from appliance.domain.retention import SCHEDULE, Retention, is_of_schedule, surplus
from appliance.zfs.model import Snapshot

SCHEDULES = 256
SCRUB = "scrub"
FAILED_JOBS = "zvaai job list --state failed"
OVERDUE = "schedule-overdue"
PAUSED = "schedule-paused"
OVERDUE_GRACE_S = 300.0
"""A job may wait and take so long."""


def schedule(session: Session, schedule_id: str) -> Schedule:
    return rows.existing(session, Schedule, schedule_id, "schedule")


def check_datastores(stores: Sequence[Datastore], selected: Sequence[str]) -> None:
    """All datastores must exist, in one pool: otherwise one step cannot take all snapshots. Raises InvalidError."""
    active = {store.id: store for store in stores if store.state == "active"}
    allowed = "identifiers of active datastores of one pool"
    absent = sorted(set(selected) - active.keys())
    if absent:
        raise InvalidError("datastores", f"there is no active datastore {', '.join(absent[:5])}", allowed)
    pools = sorted({active[identifier].pool for identifier in selected})
    if len(pools) > 1:
        raise InvalidError("datastores", f"they are in several pools: {', '.join(pools)}", allowed)


At = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
TimeZone = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$")]
Every = Annotated[int, Field(ge=5, le=527040)]
Keep = Annotated[int, Field(ge=1, le=1000)]
Tier = Annotated[int, Field(ge=0, le=1000)]
Days = Annotated[int, Field(ge=0, le=3650)]
Scheduled = Annotated[list[Identifier], Field(max_length=256)]


class ScheduleCreate(Model):
    """Snapshots of `datastores` of one pool, in one atomic step, or with kind `scrub` the scrub of a `pool`.

    It runs at `at` in `time_zone`, and from there each `every_minutes`: a part of a day, or whole days. It retains the newest
    `keep` snapshots of each datastore, and the newest of so many hours, days, weeks and months. A snapshot that it took can't be
    destroyed for `protect_days`, by nobody.
    """

    name: Name
    kind: Literal["snapshot", "scrub"] = "snapshot"
    datastores: Scheduled = []
    pool: PoolName | None = None
    every_minutes: Every
    at: At = "00:00"
    time_zone: TimeZone = "UTC"
    keep: Keep = 1
    hourly: Tier = 0
    daily: Tier = 0
    weekly: Tier = 0
    monthly: Tier = 0
    protect_days: Days = 0
    enabled: bool = True

    def check(self) -> None:
        """Raises InvalidError."""
        schedule_times.check(self.every_minutes, self.at, self.time_zone)
        if self.kind == SCRUB:
            if self.pool is None or self.datastores:
                raise InvalidError("pool", "a scrub is of one pool", "its name, and no datastores")
            if self.every_minutes < schedule_times.DAY:
                raise InvalidError("every_minutes", "a pool is not scrubbed more than once a day", "whole days of 1440")
        elif self.pool is not None or not self.datastores:
            raise InvalidError("datastores", "snapshots are of datastores", "identifiers of datastores, and no pool")


class ScheduleUpdate(Model):
    """Fields to change."""

    name: Name | None = None
    datastores: Scheduled | None = None
    every_minutes: Every | None = None
    at: At | None = None
    time_zone: TimeZone | None = None
    keep: Keep | None = None
    hourly: Tier | None = None
    daily: Tier | None = None
    weekly: Tier | None = None
    monthly: Tier | None = None
    protect_days: Days | None = None
    enabled: bool | None = None


def retention(row: Schedule) -> Retention:
    return Retention(row.keep, row.hourly, row.daily, row.weekly, row.monthly, row.time_zone)


def rules(session: Session) -> dict[str, Retention]:
    """What the enabled schedules retain, by their identifiers."""
    return {row.id: retention(row) for row in session.scalars(select(Schedule).where(Schedule.enabled))}


def add(session: Session, new: ScheduleCreate) -> Schedule:
    """The first snapshot is taken at once, the first scrub in the next slot. Raises InvalidError, ConflictError."""
    new.check()
    rows.check_name(session, Schedule, new.name)
    if (session.scalar(select(func.count()).select_from(Schedule)) or 0) >= SCHEDULES:
        raise ConflictError(f"there are {SCHEDULES} schedules already")
    values = {**new.model_dump(), "datastores": list(dict.fromkeys(new.datastores))}
    now = time.time()
    added = Schedule(id=str(uuid.uuid4()), **values, created_at=now, attempted_at=now if new.kind == SCRUB else None)
    session.add(added)
    session.flush()
    return added


def change(session: Session, schedule_id: str, values: Mapping[str, Any], *, may_destroy: bool) -> Schedule:
    """Changes the given values. Scrubs at other times start in the next slot.

    Raises ForbiddenError for changes that destroy snapshots, unless the caller may do so.
    """
    changed = schedule(session, schedule_id)
    before = ScheduleCreate.model_construct(**{name: getattr(changed, name) for name in ScheduleCreate.model_fields})
    after, retained = before.model_copy(update=dict(values)), retention(changed)
    if values != {"enabled": False}:  # possible also if its time zone is no longer known
        after.check()
    if after.name != before.name:
        rows.check_name(session, Schedule, after.name, schedule_id)
    for name in values:
        setattr(changed, name, list(dict.fromkeys(after.datastores)) if name == "datastores" else getattr(after, name))
    slots = [(settings.at, settings.time_zone, settings.every_minutes, settings.enabled) for settings in (before, after)]
    if after.kind == SCRUB and slots[0] != slots[1]:  # it starts in its next slot, as a new schedule does
        changed.attempted_at = time.time()
    failed, missing = areas(schedule_id)
    update_alerts(session, missing, [])  # the next slot raises it again
    if not changed.enabled:
        update_alerts(session, failed, [])
    paused = any(alert.key == f"{PAUSED}:{schedule_id}" for alert in open_alerts(session, PAUSED))
    if paused and after.enabled and not may_destroy:
        raise ForbiddenError(f"only an admin may resume {changed.name} after the recovery: that destroys snapshots")
    update_paused(session)
    lower = retention(changed).is_lower(retained) or after.every_minutes < before.every_minutes
    # Another time makes it due again: each new snapshot displaces an older one.
    moved = before.kind != SCRUB and (after.at, after.time_zone) != (before.at, before.time_zone)
    if (lower or moved or after.protect_days < before.protect_days) and not may_destroy:
        raise ForbiddenError(
            "only an admin may change the time of a schedule, shorten its interval, or lower what it retains or protects: that"
            " destroys snapshots"
        )
    return changed


def areas(schedule_id: str) -> tuple[str, str]:
    """Areas of its alerts: of a failed run, and of missing datastores."""
    return f"schedule-{schedule_id}", f"schedule-missing-{schedule_id}"


def delete(session: Session, schedule_id: str) -> None:
    """Deletes a schedule and its alerts, but not its snapshots."""
    session.delete(schedule(session, schedule_id))
    for area in areas(schedule_id):
        update_alerts(session, area, [])
    update_paused(session)


def update_paused(session: Session, recovered: Iterable[Snapshot] = ()) -> None:
    """After a recovery, pauses schedules that would destroy some of the `recovered` snapshots at once, with an alert for each.

    In the recovered configuration a schedule may retain less, and nobody has confirmed that. The alert ends once the schedule is
    enabled or deleted.
    """
    session.flush()
    paused = {f"{PAUSED}:{row}" for row in session.scalars(select(Schedule.id).where(~Schedule.enabled))}
    enabled = {row.id: row for row in session.scalars(select(Schedule).where(Schedule.enabled))}
    too_many = Counter(
        snapshot.properties[SCHEDULE].value
        for snapshot in surplus(recovered, {key: retention(row) for key, row in enabled.items()})
    )
    findings = []
    for key, count in too_many.items():
        row = enabled[key]
        row.enabled = False
        text = f"schedule {row.name} is paused since the recovery: it would destroy snapshots that it does not retain ({count})"
        remedy = f"Check what it retains, then run: zvaai schedule change {quote(row.name)} --enable"
        findings.append(Finding(f"{PAUSED}:{key}", "warning", row.name, text, remedy))
    update_alerts(session, PAUSED, findings, paused)


def slot(row: Schedule, now: float) -> float:
    return schedule_times.slots(now, row.every_minutes, row.at, row.time_zone)[0]


def due(row: Schedule, now: float) -> bool:
    """Whether the schedule is due. Several slots that were missed while the appliance was off count as one."""
    return row.enabled and schedule_times.is_due(now, row.attempted_at, slot(row, now))


def next_at(row: Schedule, now: float) -> float | None:
    """The slot of the next run, in the past for a schedule that is due; None if it is disabled or its time zone is not known."""
    try:
        latest, following = schedule_times.slots(now, row.every_minutes, row.at, row.time_zone)
    except InvalidError:
        return None
    return (latest if due(row, now) else following) if row.enabled else None


def snapshot_name(row: Schedule, now: float) -> str:
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", row.name).strip("-.")[:40] or "schedule"
    return f"{name}_{time.strftime('%Y-%m-%d_%H%M%SZ', time.gmtime(now))}"


def attempted(session: Session, schedule_id: str, used: float, missing: Mapping[str, str], *, away: bool) -> None:
    """A job for this slot is queued. An alert lists missing datastores: identifiers and names. `away`: a pool is not imported."""
    row = session.get(Schedule, schedule_id)
    if row is None:
        return
    if row.attempted_at != used:  # no retry needs the keys; after the clock was ahead, the same slots come again
        session.execute(update(Job).where(Job.key.startswith(f"schedule {schedule_id} ", autoescape=True)).values(key=None))
    row.attempted_at = used
    text = f"schedule {row.name}: {len(missing)} of its datastores do not exist: {', '.join(list(missing.values())[:5])}"
    area = areas(schedule_id)[1]
    if away:
        remedy = "Import the pool of the datastores: zvaai pool import POOL"
    elif len(missing) == len(row.datastores):
        remedy = f"Restore or add a datastore, or run: zvaai schedule delete {quote(row.name)}"
    else:  # by identifiers: another datastore can have the name of a deleted one
        without = " ".join(f"--remove-datastore {store}" for store in missing)
        remedy = f"zvaai schedule change {quote(row.name)} {without}"
    update_alerts(session, area, [Finding(f"{area}:gone", "warning", row.name, text, remedy)] if missing else [])


def ended(
    session: Session,
    schedule_id: str,
    problem: str | None,
    now: float | None = None,
    remedy: str = FAILED_JOBS,
) -> None:
    """Records the end of a run; raises an alert if it failed."""
    row = session.get(Schedule, schedule_id)
    if row is None:
        return
    if problem is None:
        row.last_at = time.time() if now is None else now
    area = areas(schedule_id)[0]
    text = f"schedule {row.name}: {problem}"
    update_alerts(session, area, [Finding(f"{area}:failed", "warning", row.name, text, remedy)] if problem else [])


def overdue(
    schedules: Iterable[Schedule], snapshots: Iterable[Snapshot], stores: Mapping[str, Datastore], now: float
) -> list[Finding]:
    """Of schedules whose newest snapshot of a datastore, or last scrub, is older than two intervals.

    `stores` are the datastores that can be seen, by dataset: of others it is not known how old their snapshots are.
    """
    newest: dict[tuple[str, str], float] = {}
    for snapshot in snapshots:
        mark = snapshot.properties.get(SCHEDULE)
        if mark is not None and snapshot.dataset in stores and is_of_schedule(snapshot, mark.value):
            key = (mark.value, stores[snapshot.dataset].id)
            newest[key] = max(newest.get(key, 0.0), float(snapshot.creation))
    findings = []
    for row in schedules:
        limit = now - 2 * 60 * row.every_minutes - OVERDUE_GRACE_S
        if not row.enabled or row.created_at > limit:
            continue
        if row.kind == SCRUB:
            late = max(row.last_at or 0, row.created_at) < limit
            text = f"schedule {row.name}: no scrub of pool {row.pool} was started for two intervals"
        else:
            names, last = {store.id: store.name for store in stores.values()}, row.last_at or 0  # of a datastore added later
            old = [names[store] for store in row.datastores if store in names and newest.get((row.id, store), last) < limit]
            late = bool(old)
            text = f"schedule {row.name}: the newest snapshot is older than two intervals, of {', '.join(old[:5])}"
        if late:
            remedy = "See the jobs of the schedule, and the alerts of the pool."
            findings.append(Finding(f"{OVERDUE}:{row.id}", "warning", row.name, text, remedy))
    return findings
