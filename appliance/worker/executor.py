# SPDX-License-Identifier: Apache-2.0
"""Runs jobs, one after the other and some beside, and takes up those a crash has interrupted."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any, Union

import msgspec
from sqlalchemy.orm import Session

from appliance import logs
from appliance.database.models import Job
from appliance.domain import datastores, jobs, recovery, schedules
from appliance.domain.errors import ConflictError, DomainError, InternalError, InvalidError, UnavailableError, to_wire
from appliance.domain.jobs import Plan, Result
from appliance.domain.requests import Request
from appliance.worker import (
    file_operations,
    hold_operations,
    operations,
    pool_operations,
    snapshot_operations,
    support,
)
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.steps import Cancelled, Operation, Operations, Stopping
from appliance.zfs.model import Health

OPERATIONS: Operations = {
    **operations.OPERATIONS, **snapshot_operations.OPERATIONS, **pool_operations.OPERATIONS, **support.OPERATIONS,
    **file_operations.OPERATIONS, **hold_operations.OPERATIONS,
}  # fmt: skip
BY_REQUEST: Mapping[type[Request], Operation[Any, Any]] = {operation.request: operation for operation in OPERATIONS.values()}
_REQUESTS: Any = Union[tuple(BY_REQUEST)]  # noqa: UP007  # of so many as there are
_UNKNOWN = "this version does not know jobs of this kind. Nothing was done or undone by it: request it again if you still need it"
_TRIES = 5
_TRIES_BESIDE = 40
"""About five minutes: who is waited for may be started anew, and tells then."""
_BESIDE = 4
"""Jobs that wait beside others, at once."""
_log = logging.getLogger(__name__)


def request_of(received: object) -> Request:
    """From the worker's socket. Raises InvalidError for what is no request for a job."""
    try:
        found: Request = msgspec.convert(received, _REQUESTS)
    except msgspec.ValidationError as error:
        raise InvalidError("request", str(error), "a request for a job") from error
    return found


class Executor:
    """The one thread that changes storage, and some for jobs that only wait."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wake = threading.Condition()
        self._submitting = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs")
        self._beside: dict[str, threading.Thread] = {}
        """By the jobs that they have."""
        self._at_work: set[str] = set()
        """Jobs that run, or have ended, and what comes after their end has not."""

    def start(self) -> None:
        """Begins with what was under way."""
        self._thread.start()

    def stop(self) -> None:
        """Waits for the job under way; those beside are taken up again at the next start."""
        self._stopping.set()
        with self._wake:
            self._wake.notify_all()
            beside = list(self._beside.values())
        for thread in (self._thread, *beside):
            thread.join()

    def submit(self, request: Request, actor: str, *, key: str | None = None, until: float | None = None) -> str:
        """Checks a request and queues it; the job's identifier. Raises DomainError, and then nothing has changed.

        A `key` that was there before is that job's. After `until` (of the monotonic clock) nobody waits any more, and nothing
        is queued.
        """
        operation = BY_REQUEST[type(request)]
        kind = operation.kind
        with self._submitting, as_domain_errors():
            with self._context.store.reading() as session:
                before = jobs.asked_before(session, key)
                recovery.check_inactive(session)
            if before is not None:
                return before
            job_id = None
            while job_id is None:
                plan = operation.plan(self._context, request)
                if kind.startswith(("datastore.", "snapshot.")):
                    self._check_pools(plan)
                job_id = self._queue(kind, plan, actor, key, until)
            _log.info("job %s (%s of %s) is queued", job_id, kind, plan.subject)
        with self._wake:
            self._wake.notify_all()
        self._start_beside()
        return job_id

    def _queue(self, kind: str, plan: Plan, actor: str, key: str | None, until: float | None) -> str | None:
        """A job's identifier; None where what was planned is not free any more: the reconciler may have given a number away."""
        job_id = str(uuid.uuid4())
        with self._context.store.session() as session:
            if not self._is_free(session, plan, until):
                return None
            jobs.submit(session, job_id, kind, plan, actor, key)
        return job_id

    def _is_free(self, session: Session, plan: Plan, until: float | None) -> bool:
        """Whether number and path that were planned are free still. Raises DomainError where the job can't be begun now."""
        if until is not None and time.monotonic() > until:
            raise UnavailableError("it took too long to look at the storage; nothing was begun")
        jobs.check(session, plan.subject)
        for also in (plan.uuid, plan.source):
            if also and also != plan.subject:
                jobs.busy(session, also)
        jobs.in_the_way(session, plan)
        return not datastores.given_away(session, plan.uuid, plan.claims.lun, plan.claims.export, plan.claims.share)

    def _check_pools(self, plan: Plan) -> None:
        """Refuses what would wait for a pool that does not answer, and fail then."""
        suspended = {pool.name for pool in self._context.look(60).pools if pool.health == Health.SUSPENDED}
        if stuck := sorted(suspended.intersection(plan.pools)):
            raise ConflictError(
                "the pool is suspended: mend its devices, then clear it (zvaai pool device POOL DEVICE clear)", stuck
            )

    def _next(self, *, beside: bool = False) -> Job | None:
        with self._context.store.reading() as session:
            fitting = (job for job in jobs.active(session) if self._is_beside(job) == beside)
            return next((job for job in fitting if job.id not in self._beside), None)

    @staticmethod
    def _is_beside(job: Job) -> bool:
        operation = OPERATIONS.get(job.kind)
        return operation is not None and operation.beside

    def _start_beside(self) -> None:
        """Each job in a thread of its own, as long as they are few."""
        if not self._context.recovery.allows_jobs:
            return
        try:
            with self._wake:
                while not self._stopping.is_set() and len(self._beside) < _BESIDE and (job := self._next(beside=True)):
                    self._beside[job.id] = threading.Thread(target=self._run_beside, args=(job,), name=f"job {job.id[:8]}")
                    self._beside[job.id].start()
        except Exception:  # as below: it is tried again with the next turn
            _log.exception("jobs beside others")

    def _run_beside(self, job: Job) -> None:
        try:
            self._whole(job)
        except Exception:  # as below: it is taken up again
            _log.exception("the thread of job %s", job.id)
            self._stopping.wait(1)
        finally:
            with self._wake:
                del self._beside[job.id]
            self._start_beside()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception:  # a full disk, a locked database: it must go on when that is over
                _log.exception("the jobs' thread")
                self._stopping.wait(1)

    def _turn(self) -> None:
        self._start_beside()
        job = self._next() if self._context.recovery.allows_jobs else None
        if job is None:
            with self._wake:
                if not self._context.recovery.allows_jobs:
                    self._wake.wait(0.1)
                elif not self._stopping.is_set() and self._next() is None:
                    self._wake.wait(5)
            self._context.settling.consider()
            return
        self._whole(job)

    def is_at_work(self, job_id: str) -> bool:
        """Whether it runs, or has ended, and what comes after its end has not."""
        with self._wake:
            return job_id in self._at_work

    def _whole(self, job: Job) -> None:
        with self._wake:
            self._at_work.add(job.id)
        try:
            self._run_and_settle(job)
        finally:
            with self._wake:
                self._at_work.discard(job.id)

    def _run_and_settle(self, job: Job) -> None:
        logs.of_request(f"job-{job.id}")
        try:
            operation = OPERATIONS[job.kind]
            plan = msgspec.convert(job.parameters, operation.plan_type)
        except (KeyError, msgspec.ValidationError) as error:
            _log.warning("job %s (%s): %s", job.id, job.kind, error)
            self._end(job, jobs.FAILED, problem={**to_wire(ConflictError(_UNKNOWN)), "left": None})
            return
        _log.info("%s of %s begins", job.kind, job.subject)
        try:
            self._one(job.id, operation, plan)
        except Exception:
            _log.exception("job %s (%s)", job.id, job.kind)
            left = self._undo(operation, plan)
            self._end(job, jobs.FAILED, problem={**to_wire(InternalError()), "left": left})
        if plan.out_of_service:
            self._back_in_service()
        self._context.settling.ended(job)

    def _back_in_service(self) -> None:
        try:
            self._context.reconciling.reconcile("back in service")
        except DomainError as error:  # told as an alert, and tried again
            _log.warning("reconciling after a job: %s", error)

    def _end(self, job: Job, state: str, *, result: Result | None = None, problem: dict[str, Any] | None = None) -> None:
        with self._context.store.session() as session:
            jobs.end(session, job.id, state, result=result, problem=problem)
            _log.info("%s of %s has %s%s", job.kind, job.subject, state, f": {problem['text']}" if problem else "")
            if schedule := jobs.plan_of(job).schedule:
                schedules.ended(session, schedule, problem["text"] if problem else None)

    def _one[P: Plan](self, job_id: str, operation: Operation[Any, P], plan: P) -> None:
        with self._context.store.session() as session:
            job = jobs.job(session, job_id)
            if job.state not in jobs.ACTIVE:
                return None
            resumed = job.state == jobs.RUNNING
            jobs.begin(session, job_id)

        begun, attempt = [0], 1

        def advance(step: str, percent: int) -> None:
            with self._context.store.session() as session:
                # What has begun comes to its end: half of it would be worse than either.
                begun[0] = max(begun[0], percent)
                if jobs.job(session, job_id).cancel and (operation.beside or (percent <= 10 and not resumed and attempt == 1)):
                    raise Cancelled
                if operation.beside and self._stopping.is_set():
                    raise Stopping
                jobs.advance(session, job_id, step, percent)

        while True:
            try:
                with as_domain_errors():
                    result = operation.run(self._context, plan, job_id, advance)
            except Cancelled:
                return self._end(job, jobs.CANCELLED)
            except Stopping:
                return None
            except UnavailableError as error:
                # What may still come true in ZFS must not do so under hosts: then it is tried until it is known.
                unsure = bool(plan.out_of_service) and begun[0] >= 50
                attempt += 1
                if (unsure or attempt <= (_TRIES_BESIDE if operation.beside else _TRIES)) and not self._stopping.wait(
                    min(8.0, 0.5 * 2 ** min(attempt, 8))
                ):
                    continue
                if self._stopping.is_set():
                    return None  # still running in the database: taken up again at the next start
                problem: DomainError = error
            except DomainError as error:
                problem = error
            else:
                return self._end(job, jobs.SUCCEEDED, result=result)
            left = self._undo(operation, plan)
            return self._end(job, jobs.FAILED, problem={**to_wire(problem), "left": left})

    def _undo[P: Plan](self, operation: Operation[Any, P], plan: P) -> str | None:
        """Why what the job has half made could not be taken back, and may be there still; None where nothing is known to be."""
        left = None
        try:
            with as_domain_errors():
                operation.undo(self._context, plan)
        except DomainError as error:
            _log.warning("taking back %s: %s", operation.kind, error)
            left = str(error)
        except Exception:
            _log.exception("taking back %s", operation.kind)
            left = str(InternalError())
        with contextlib.suppress(DomainError), as_domain_errors():
            self._context.look()
        return left
