# SPDX-License-Identifier: Apache-2.0
"""Jobs, alerts, audit, the server's journal."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.pages import after, before_number, newest_first
from appliance.api.schemas import journal as schemas
from appliance.api.schemas.common import Page
from appliance.database.models import Alert, AuditEntry, Job
from appliance.domain import jobs, journal
from appliance.domain.access import Role
from appliance.domain.errors import InvalidError
from appliance.worker import server_log

resource = Resource("journal")


@resource.operation("GET", "/jobs", role=Role.VIEWER)
def list_jobs(call: Call, session: Session, query: schemas.JobQuery) -> Page[schemas.JobResponse]:
    """Jobs, the newest first."""
    chosen = select(Job).where(Job.sequence < before_number(query)).order_by(Job.sequence.desc()).limit(query.limit + 1)
    if query.state is not None:
        chosen = chosen.where(Job.state == query.state)
    if query.active:
        chosen = chosen.where(Job.state.in_(jobs.ACTIVE))
    if query.subject is not None:
        chosen = chosen.where(jobs.is_about(query.subject))
    return newest_first(schemas.JobResponse, session.scalars(chosen), query, lambda job: job.sequence)


@resource.operation("GET", "/jobs/<job_id>", role=Role.VIEWER)
def read_job(call: Call, session: Session, job_id: str) -> schemas.JobResponse:
    """A job."""
    return schemas.JobResponse.model_validate(jobs.job(session, job_id))


@resource.operation("POST", "/jobs/<job_id>/cancel", role=Role.OPERATOR, audit="job.cancel")
def cancel_job(call: Call, session: Session, job_id: str) -> schemas.JobResponse:
    """Cancels a waiting job. A file clone or VM restore stops, and its partial result is removed. Other jobs run to their end."""
    return schemas.JobResponse.model_validate(jobs.ask_to_cancel(session, job_id))


@resource.operation("POST", "/jobs/<job_id>/abandon", role=Role.ADMIN, audit="job.abandon")
def abandon_job(call: Call, session: Session, job_id: str) -> schemas.JobResponse:
    """Gives up a running job whose pool hangs, so that other jobs can run. Its datastores stay out of service."""
    return schemas.JobResponse.model_validate(jobs.abandon(session, job_id, call.who.name))


@resource.operation("GET", "/alerts", role=Role.VIEWER)
def list_alerts(call: Call, session: Session, query: schemas.AlertQuery) -> Page[schemas.AlertResponse]:
    """Alerts, the newest first. By default only open alerts."""
    chosen = select(Alert).where(Alert.id < before_number(query)).order_by(Alert.id.desc()).limit(query.limit + 1)
    if query.open:
        chosen = chosen.where(Alert.cleared_at.is_(None))
    return newest_first(schemas.AlertResponse, session.scalars(chosen), query, lambda alert: alert.id)


@resource.operation("POST", "/alerts/<int:alert_id>/acknowledge", role=Role.OPERATOR, audit="alert.acknowledge")
def acknowledge_alert(call: Call, session: Session, alert_id: int) -> schemas.AlertResponse:
    """Acknowledges the alert: an admin handles it."""
    return schemas.AlertResponse.model_validate(journal.acknowledge(session, min(alert_id, 1 << 62), call.who.name))


@resource.operation("GET", "/audit", role=Role.ADMIN)
def list_audit(call: Call, session: Session, query: schemas.AuditQuery) -> Page[schemas.AuditResponse]:
    """Audit entries, newest first."""
    chosen = select(AuditEntry).where(AuditEntry.id < before_number(query)).order_by(AuditEntry.id.desc()).limit(query.limit + 1)
    if query.actor is not None:
        chosen = chosen.where(AuditEntry.actor.icontains(query.actor, autoescape=True))
    if query.action is not None:
        of_kind = AuditEntry.action.startswith(f"{query.action}.", autoescape=True)
        chosen = chosen.where((AuditEntry.action == query.action) | of_kind)
    if query.refused is not None:
        chosen = chosen.where(AuditEntry.status >= 400 if query.refused else AuditEntry.status < 400)
    if query.since is not None:
        chosen = chosen.where(AuditEntry.at >= query.since)
    if query.until is not None:
        chosen = chosen.where(AuditEntry.at <= query.until)
    return newest_first(schemas.AuditResponse, session.scalars(chosen), query, lambda entry: entry.id)


@resource.operation("GET", "/logs", role=Role.ADMIN)
def list_logs(call: Call, query: schemas.LogQuery) -> Page[schemas.LogResponse]:
    """The server's journal, newest first: zvaai, zvol_clone, NFS server, ZED, nginx, and the kernel's lines of OpenZFS."""
    cursor = after(query)
    if cursor is not None and not server_log.CURSOR.fullmatch(cursor):
        raise InvalidError("cursor", "not a cursor of this list", "next_cursor of the page before")
    chosen = server_log.Filter(**query.model_dump(exclude={"limit", "cursor"}), after=cursor)
    return newest_first(schemas.LogResponse, server_log.newest(chosen, query.limit + 1), query, lambda entry: entry.cursor)
