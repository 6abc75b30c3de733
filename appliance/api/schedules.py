"""Snapshots by the clock."""

from __future__ import annotations

from pydantic import BaseModel
from sqlalchemy import select

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import Empty, ListQuery
from appliance.api.schemas.snapshots import ScheduleAsked, ScheduleChange, SchedulePage, ScheduleTold
from appliance.database.models import Schedule
from appliance.domain import schedules
from appliance.domain.access import Role

resource = Resource("schedules")


@resource.operation("GET", "/schedules", role=Role.VIEWER, query=ListQuery, answer=SchedulePage)
def list_schedules(call: Call, query: ListQuery) -> BaseModel:
    """All of them."""
    with call.services.store.reading() as session:
        found = session.scalars(select(Schedule).order_by(Schedule.name)).all()
        return SchedulePage.model_validate(page(found, query, lambda one: one.name))


@resource.operation(
    "POST", "/schedules", role=Role.OPERATOR, audit="schedule.create", body=ScheduleAsked, answer=ScheduleTold, status=201
)
def create_schedule(call: Call, body: ScheduleAsked) -> BaseModel:
    """Its first snapshot is taken at once."""
    with call.services.store.session() as session:
        told = ScheduleTold.model_validate(schedules.add(session, **body.model_dump()))
    call.subject = told.id
    call.changed()
    return told


@resource.operation("GET", "/schedules/<schedule_id>", role=Role.VIEWER, answer=ScheduleTold)
def read_schedule(call: Call, schedule_id: str) -> BaseModel:
    """One of them."""
    with call.services.store.reading() as session:
        return ScheduleTold.model_validate(schedules.schedule(session, schedule_id))


@resource.operation(
    "PATCH", "/schedules/<schedule_id>", role=Role.OPERATOR, audit="schedule.change", body=ScheduleChange, answer=ScheduleTold
)
def change_schedule(call: Call, schedule_id: str, body: ScheduleChange) -> BaseModel:
    """What is given."""
    with call.services.store.session() as session:
        call.match(ScheduleTold.model_validate(schedules.schedule(session, schedule_id)))
        return ScheduleTold.model_validate(schedules.change(session, schedule_id, **body.model_dump()))


@resource.operation("DELETE", "/schedules/<schedule_id>", role=Role.OPERATOR, audit="schedule.delete", answer=Empty)
def delete_schedule(call: Call, schedule_id: str) -> BaseModel:
    """Its snapshots stay."""
    with call.services.store.session() as session:
        call.match(ScheduleTold.model_validate(schedules.schedule(session, schedule_id)))
        schedules.delete(session, schedule_id)
    return Empty()
