# SPDX-License-Identifier: Apache-2.0
"""Jobs in the database: plan, progress and result. The executor of appliance.worker runs them."""

import time
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, delete, func, or_, select, update
from sqlalchemy.orm import Session

from appliance import decoding
from appliance.database.models import Job
from appliance.domain import designation, rows
from appliance.domain.errors import ConflictError
from appliance.domain.journal import publish

QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELLED = "queued", "running", "succeeded", "failed", "cancelled"
ACTIVE = (QUEUED, RUNNING)
ABANDONED = "abandoned"
"""Code of the problem of an abandoned job."""
QUEUE = 1000
RETAINED = 5_000


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Names and numbers that no other job may use before this one ends."""

    name: str | None = None
    lun: int | None = None
    export: int | None = None
    share: str | None = None
    designation: str | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of a job before it begins, so that it can be resumed after a crash. Each operation adds fields."""

    subject: str
    """The changed object: one job at a time for each."""
    pools: tuple[str, ...]
    """Names of the changed pools: one job at a time for each. Without pools, it waits for no job of a pool."""
    uuid: str | None = None
    source: str | None = None
    dataset: str | None = None
    about: tuple[str, ...] = ()
    """Other datastores that it needs."""
    out_of_service: tuple[str, ...] = ()
    """Datastores that it takes away from hosts until it ends."""
    becoming_thick: bool = False
    schedule: str | None = None
    claims: Claims = Claims()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a job. UNSET fields are omitted."""


def plan_of(job: Job) -> Plan:
    """Common part of a job's plan; only its subject if this version cannot read the plan."""
    try:
        return decoding.convert(job.parameters, Plan)
    except msgspec.ValidationError:
        return Plan(subject=job.subject, pools=())


def check(session: Session, subject: str) -> None:
    """Raises ConflictError while another job is under way for the subject, or too many wait."""
    busy(session, subject)
    if (session.scalar(select(func.count()).select_from(Job).where(Job.state.in_(ACTIVE))) or 0) >= QUEUE:
        raise ConflictError(f"{QUEUE} jobs are waiting")


def submit(session: Session, job_id: str, kind: str, plan: Plan, actor: str, key: str | None = None, name: str = "") -> Job:
    """A new job, of this identifier. Raises ConflictError, see `check`."""
    check(session, plan.subject)
    sequence = (session.scalar(select(func.max(Job.sequence))) or 0) + 1
    job = Job(
        id=job_id, sequence=sequence, kind=kind, subject=plan.subject, name=name, parameters=msgspec.to_builtins(plan),
        state=QUEUED, step="", percent=0, cancel=False, actor=actor, key=key, created_at=time.time(),
    )  # fmt: skip
    session.add(job)
    session.flush()
    if sequence % 200 == 0:
        old = (Job.sequence <= sequence - RETAINED, Job.state.not_in(ACTIVE))
        # An abandoned job can still have datastores out of service.
        session.execute(delete(Job).where(*old, Job.problem["code"].as_string().is_distinct_from(ABANDONED)))
    _changed(session, job)
    return job


def in_the_way(session: Session, plan: Plan) -> None:
    """Raises ConflictError while a job deletes a datastore that this job needs, or makes it thick, and in the other order."""
    taken, needed = set(plan.out_of_service), set(plan.about)
    for other in active(session) if taken or needed or plan.becoming_thick else ():
        its = plan_of(other)
        fills = _fills(plan, its) or _fills(its, plan)
        if fills or taken & {other.subject, *its.about} or needed & set(its.out_of_service):
            raise ConflictError(f"Another job ({other.kind}) is changing it. Wait for it: zvaai job wait {other.id}")


def _fills(writer: Plan, other: Plan) -> bool:
    """Whether it writes files, uncounted, while the other job makes their datastore thick. A job with pools waits."""
    return other.becoming_thick and not writer.pools and other.subject in writer.about


def busy(session: Session, subject: str) -> None:
    """Raises ConflictError while a job is under way for the subject."""
    other = session.scalar(select(Job).where(Job.subject == subject, Job.state.in_(ACTIVE)))
    if other is not None:
        raise ConflictError(f"Another job ({other.kind}) is changing it. Wait for it: zvaai job wait {other.id}")


def check_ended(session: Session, schedule: str, key: str) -> None:
    """Raises ConflictError while another job of this schedule than that of `key` is under way."""
    for other in active(session):
        if plan_of(other).schedule == schedule and other.key != key:
            raise ConflictError(f"the previous run has not ended. Wait for it: zvaai job wait {other.id}")


def job_of_key(session: Session, key: str | None) -> str | None:
    """The job that the same request began, if it was sent before."""
    return session.scalar(select(Job.id).where(Job.key == key)) if key is not None else None


def forget_keys(session: Session, before: float) -> None:
    """Forgets the keys of requests whose jobs ended before this time (seconds since 1970)."""
    session.execute(update(Job).where(Job.ended_at < before, Job.key.is_not(None)).values(key=None))


def job(session: Session, job_id: str) -> Job:
    return rows.existing(session, Job, job_id, "job")


def active(session: Session) -> list[Job]:
    return list(session.scalars(select(Job).where(Job.state.in_(ACTIVE)).order_by(Job.sequence)))


def is_about(subject: str) -> ColumnElement[bool]:
    """Jobs of this object, of its files and snapshots, and jobs that need it."""
    part = (Job.subject.startswith(f"{subject}{separator}", autoescape=True) for separator in "/@")
    needed = Job.parameters["about"].as_string().contains(f'"{subject}"', autoescape=True)
    return or_(Job.subject == subject, *part, needed)


def subjects_after(session: Session, at: float) -> set[str]:
    """Subjects of jobs that are running, or ended after this time (seconds since 1970)."""
    return set(session.scalars(select(Job.subject).where(Job.state.in_(ACTIVE) | (Job.ended_at >= at))))


def about_after(session: Session, at: float) -> set[str]:
    """Subjects and datasets of jobs that are running, or ended after this time: data read in between may be an intermediate
    state. Jobs that only wait are not included, as they have changed nothing.
    """
    recent = session.scalars(select(Job).where((Job.state == RUNNING) | (Job.ended_at >= at)))
    return {name for job in recent for name in (job.subject, plan_of(job).dataset) if name}


def is_claimed(session: Session, claims: Claims) -> bool:
    keys = set(_claimed(claims))
    return bool(keys) and any(keys & set(_claimed(plan_of(job).claims)) for job in active(session))


def _claimed(claims: Claims) -> list[tuple[str, str | int]]:
    name = claims.name.lower() if claims.name is not None else None
    names = designation.of_property(claims.designation) if claims.designation else None
    values = (
        ("name", name), ("lun", claims.lun), ("export", claims.export), ("share", claims.share),
        *(("designation", each) for each in (names.names if names else ())),
    )  # fmt: skip
    return [(what, value) for what, value in values if value is not None]


def note(session: Session, job_id: str, **fields: object) -> None:
    """Writes these fields of its plan, for a run that is resumed."""
    noted = job(session, job_id)
    noted.parameters = {**noted.parameters, **fields}


def begin(session: Session, job_id: str) -> Job:
    begun = job(session, job_id)
    begun.state = RUNNING
    begun.started_at = begun.started_at or time.time()
    _changed(session, begun)
    return begun


def advance(session: Session, job_id: str, step: str, percent: int) -> None:
    """Records a job's progress. The same progress is published once."""
    running = job(session, job_id)
    if (running.step, running.percent) == (step, percent):
        return
    running.step, running.percent = step, percent
    _changed(session, running)


def end(
    session: Session, job_id: str, state: str, *, result: Result | None = None, problem: dict[str, Any] | None = None
) -> None:
    ended = job(session, job_id)
    ended.state, ended.problem, ended.ended_at = state, problem, time.time()
    ended.result = msgspec.to_builtins(result) if result is not None else None
    if state == SUCCEEDED:
        ended.percent = 100
        for earlier in session.scalars(_abandoned().where(Job.sequence < ended.sequence)):
            out = plan_of(earlier).out_of_service
            is_over = (ended.subject, ended.kind) == (earlier.subject, earlier.kind)  # repeated: it holds no datastore back
            if is_over or ended.subject in out:
                note(session, earlier.id, out_of_service=[] if is_over else [uuid for uuid in out if uuid != ended.subject])
    _changed(session, ended)


def ask_to_cancel(session: Session, job_id: str) -> Job:
    """Cancels a queued job at once, and a running one unless it has begun to change something. Raises ConflictError. The clone of
    a file can be cancelled at any moment before its end.
    """
    cancelled = job(session, job_id)
    if cancelled.state not in ACTIVE:
        raise ConflictError(f"the job has {cancelled.state}")
    cancelled.cancel = True
    if cancelled.state == QUEUED:
        cancelled.state, cancelled.ended_at = CANCELLED, time.time()
    _changed(session, cancelled)
    return cancelled


def abandon(session: Session, job_id: str, actor: str) -> Job:
    """Ends a running job whose pool hangs. Its datastores remain out of service. Raises ConflictError. Its last step can still
    complete when the pool answers again.
    """
    abandoned = job(session, job_id)
    if abandoned.state != RUNNING:
        raise ConflictError(f"Cannot abandon the job: it is {abandoned.state}. Only a running job can be abandoned")
    text = f"abandoned by {actor} at step '{abandoned.step}'. The step may still be done when the pool answers"
    if plan_of(abandoned).out_of_service:
        text = f"{text}. Its datastores remain out of service. When the pool answers, repeat the job"
    end(session, job_id, FAILED, problem={"code": ABANDONED, "text": text, "left": None})
    return abandoned


def _abandoned() -> Select[tuple[Job]]:
    return select(Job).where(Job.state == FAILED, Job.problem["code"].as_string() == ABANDONED)


def end_abandoned_exports(session: Session, guid: str) -> None:
    """The pool is imported: its abandoned exports no longer hold back its datastores."""
    for exported in session.scalars(_abandoned().where(Job.kind == "pool.export", Job.parameters["guid"].as_string() == guid)):
        note(session, exported.id, out_of_service=[])


def out_of_service(session: Session) -> set[str]:
    """Datastores that no host may see: a running or abandoned job has removed them, and no later job has succeeded."""
    running = session.scalars(select(Job).where(Job.state == RUNNING))
    return {uuid for job in running for uuid in plan_of(job).out_of_service} | out_by_abandoned(session).keys()


def out_by_abandoned(session: Session) -> dict[str, Job]:
    """Datastores that an abandoned job has removed, with the job."""
    return {uuid: job for job in session.scalars(_abandoned()) for uuid in plan_of(job).out_of_service}


def _changed(session: Session, changed: Job) -> None:
    how_far = {"state": changed.state, "step": changed.step, "percent": changed.percent}
    publish(session, "job", changed.id, job_kind=changed.kind, about=changed.subject, **how_far)
