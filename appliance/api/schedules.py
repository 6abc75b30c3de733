# SPDX-License-Identifier: Apache-2.0
"""Snapshots and scrubs by the clock."""

import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas.common import EmptyResponse, ListQuery, Page
from appliance.api.schemas.journal import JobResponse
from appliance.api.schemas.snapshots import RoomResponse, ScheduleResponse
from appliance.database.models import Schedule
from appliance.domain import requests, schedules
from appliance.domain.access import Role
from appliance.domain.errors import ConflictError
from appliance.worker import thick

resource = Resource("schedules")


def _shown(row: Schedule) -> ScheduleResponse:
    columns = {name: getattr(row, name) for name in Schedule.__table__.columns.keys()}  # noqa: SIM118  # no dictionary
    return ScheduleResponse.model_validate({**columns, "next_at": schedules.next_at(row, time.time())})


@resource.operation("GET", "/schedules", role=Role.VIEWER)
def list_schedules(call: Call, session: Session, query: ListQuery) -> Page[ScheduleResponse]:
    """All of them."""
    rows = session.scalars(select(Schedule).order_by(Schedule.name)).all()
    return page(ScheduleResponse, rows, query, lambda schedule: schedule.name, _shown)


@resource.operation("POST", "/schedules", role=Role.OPERATOR, audit="schedule.create", status=201)
def create_schedule(call: Call, body: schedules.ScheduleCreate) -> ScheduleResponse:
    """Creates a schedule. Its first snapshot is taken at once. The datastores must be active and in one pool."""
    call.worker.check_scheduled(body.datastores, body.pool)
    with call.changing() as session:
        call.changed()
        return _shown(schedules.add(session, body))


@resource.operation("GET", "/schedules/<schedule_id>", role=Role.VIEWER)
def read_schedule(call: Call, session: Session, schedule_id: str) -> ScheduleResponse:
    """A schedule."""
    return _shown(schedules.schedule(session, schedule_id))


@resource.operation("PATCH", "/schedules/<schedule_id>", role=Role.OPERATOR, audit="schedule.change", matches=True)
def change_schedule(call: Call, schedule_id: str, body: schedules.ScheduleUpdate) -> ScheduleResponse:
    """Changes the given fields. Only an admin may change its time, shorten its interval, or lower what it retains or protects."""
    if body.datastores is not None:
        with call.context.store.reading() as session:
            schedules.schedule(session, schedule_id)
        call.worker.check_scheduled(body.datastores)
    with call.changing() as session:
        call.match(_shown(schedules.schedule(session, schedule_id)))
        values = body.model_dump(exclude_none=True)
        may_destroy = call.who.role >= Role.ADMIN
        return _shown(schedules.change(session, schedule_id, values, may_destroy=may_destroy))


@resource.operation("GET", "/schedules/<schedule_id>/room", role=Role.VIEWER)
def read_room(call: Call, schedule_id: str) -> RoomResponse:
    """Shows the room that the next snapshots need in the pool: a snapshot of a thick datastore reserves what it holds."""
    with call.context.store.reading() as session:
        row = schedules.schedule(session, schedule_id)
    return RoomResponse.model_validate(thick.room(call.context, row.datastores))


@resource.operation("POST", "/schedules/<schedule_id>/run", role=Role.ADMIN, audit="schedule.run", status=202)
def run_schedule(call: Call, schedule_id: str) -> JobResponse:
    """Takes its snapshots now, or starts its scrub, also while it is disabled. Its next slot stays the same.

    The new snapshots take the places of older ones that it retains.
    """
    with call.context.store.reading() as session:
        row = schedules.schedule(session, schedule_id)
    if row.kind == schedules.SCRUB:
        return call.submit(requests.ScrubCreate(action="start").of(pool=str(row.pool), schedule=row.id))
    active = {store.id for store in call.worker.datastores() if store.state == "active"}
    chosen = [identifier for identifier in row.datastores if identifier in active]
    if not chosen:
        raise ConflictError("none of its datastores exists", row.datastores)
    name = schedules.snapshot_name(row, time.time())
    days = row.protect_days
    return call.submit(requests.SnapshotCreate(name=name, datastores=chosen, protect_days=days).of(schedule=row.id))


@resource.operation("DELETE", "/schedules/<schedule_id>", role=Role.OPERATOR, audit="schedule.delete", matches=True)
def delete_schedule(call: Call, session: Session, schedule_id: str) -> EmptyResponse:
    """Its snapshots stay."""
    call.match(_shown(schedules.schedule(session, schedule_id)))
    schedules.delete(session, schedule_id)
    return EmptyResponse()
