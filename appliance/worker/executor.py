# SPDX-License-Identifier: Apache-2.0
"""Runs jobs, one after the other and some beside, and takes up those a crash has interrupted."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Union

import msgspec
from sqlalchemy.orm import Session

from appliance import logs
from appliance.database.models import Job
from appliance.domain import datastores, jobs, jobs_ended, schedules
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
    under_way,
)
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.steps import Cancelled, Operation, Operations, Stopping
from appliance.worker.under_way import NOT_NOTED, NOT_WITNESSED, UnderWay
from appliance.zfs.errors import ZfsError
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
_TAKE_DISKS = frozenset(("pool.create", "pool.import"))
"""Kinds of jobs that may take disks of a pool that is not imported, and so tells nothing."""
_AS_IT_WAS = "it had begun by the database, and whatever it had done by then was not taken back"
_log = logging.getLogger(__name__)


def request_of(received: object) -> Request:
    """From the worker's socket. Raises InvalidError for what is no request for a job."""
    try:
        found: Request = msgspec.convert(received, _REQUESTS)
    except msgspec.ValidationError as error:
        raise InvalidError("request", str(error), "a request for a job") from error
    return found


def _by_database(job: Job) -> str | None:
    """What may be left of a job that is not begun again; None where it had not begun."""
    return _AS_IT_WAS if job.state == jobs.RUNNING else None


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
        self._under_way = UnderWay(context.notes)
        self.sorted_out = threading.Event()
        """What is under way by the database may be taken up, or has failed, and that is noted."""
        self._taken_up: set[str] = set()
        """Jobs from before the start that have not begun since."""
        self._taking_up = threading.Lock()

    def start(self) -> None:
        """Begins with what was under way."""
        self._thread.start()

    def _sort_out(self) -> None:
        """Jobs of an older copy of the database fail: nobody asks for them now, and what they would take back may be in use."""
        noted = self._under_way.at_start()
        with self._under_way.lock, self._context.store.session() as session:
            own = jobs_ended.count(session)
            since = self._under_way.read() - set(noted.jobs)
            active = [job for job in jobs.active(session) if job.id not in since]
            is_new = own.number == 0 and not jobs.has_others(session, since)
        behind = under_way.missed(noted, own)
        if behind is None and is_new:  # the one before it was lost; a copy of before ends were counted has jobs
            behind = 0
        others = active if behind else [job for job in active if job.id not in noted.jobs]
        self._taken_up = {job.id for job in active} - {job.id for job in others}
        if others or behind or behind is None:
            tell = behind != 0 or not under_way.is_newest(noted, own)
            self._fail(others, under_way.older(behind) if behind else NOT_NOTED, behind, tell=tell)
        self._note()
        try:
            self._after(others)
        finally:
            self._mark()
            self.sorted_out.set()

    def _fail(self, others: Sequence[Job], why: str, behind: int | None, *, tell: bool = True) -> None:
        """All in one step with what may `tell` that the database is older: from then on it is not."""
        with self._context.store.session() as session:
            before = jobs_ended.count(session)
            for job in others:
                self._end_in(session, job, jobs.FAILED, None, {**to_wire(ConflictError(why)), "left": _by_database(job)})
            # Its own ends come on top, so that a disk of in between knows less than the pools, too.
            jobs_ended.follow(session, before.number + (behind or 0) + len(others))
            if tell:
                jobs_ended.tell_older(session, behind, len(others))

    def _after(self, others: Sequence[Job]) -> None:
        if any(jobs.plan_of(job).out_of_service for job in others):
            self._back_in_service()
        for job in others:
            self._context.settling.ended(job)

    def _may_begin(self, job: Job) -> bool:
        """Whether a job from before the start may still be taken up: a pool that has come since may know better.

        If not, all of them have failed. Raises ZfsError.
        """
        with self._taking_up:
            if job.id not in self._taken_up:
                return True
            noted = self._under_way.now()
            with self._context.store.reading() as session:
                own = jobs_ended.known(session)
                left = [one for one in jobs.active(session) if one.id in self._taken_up]
            behind = under_way.missed(noted, own) if own else 0
            takes_disks = job.kind in _TAKE_DISKS and job.parameters.get("force", False)
            if behind:
                self._fail(left, under_way.older(behind), behind)
                self._taken_up.clear()
            elif takes_disks and not under_way.is_witnessed(self._under_way.at_start()):
                left = [job]
                self._end(job, jobs.FAILED, problem={**to_wire(ConflictError(NOT_WITNESSED)), "left": _by_database(job)})
                self._taken_up.discard(job.id)
            else:
                self._taken_up.discard(job.id)
                return True
        self._note()
        self._after(left)
        self._mark()
        return False

    def _note(self) -> None:
        """What has ended need not be taken up again."""
        try:
            with self._under_way.lock:
                with self._context.store.reading() as session:
                    active, ended = [job.id for job in jobs.active(session)], jobs_ended.known(session)
                if ended is not None:
                    self._under_way.keep(active, ended)
        except ZfsError as error:
            _log.warning("noting which jobs are under way: %s", error)
        except Exception:  # no job's fault: what has ended stays noted until the next one ends
            _log.exception("noting which jobs are under way")

    def _mark(self) -> None:
        """How many have ended, in the pools: after all that hosts wait for, as it takes as long as they take to write."""
        try:
            self._under_way.mark()
        except ZfsError as error:
            _log.warning("noting in pools how many jobs have ended: %s", error)
        except Exception:  # no job's fault: the next turn tries again
            _log.exception("noting in pools how many jobs have ended")

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
        with self._under_way.lock:
            with self._context.store.reading() as session:
                if not self._is_free(session, plan, until):
                    return None
                active, ended = [one.id for one in jobs.active(session)], jobs_ended.known(session)
            if ended is None:
                with self._context.store.session() as session:
                    ended = jobs_ended.count(session)
            try:
                # In no transaction: the helper may take long, and all who write would wait. Noted in vain does no harm.
                self._under_way.add(job_id, active, ended)
            except ZfsError as error:
                raise UnavailableError(f"it can't be noted, and so is not begun: {error}") from error
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
        if not self.sorted_out.is_set():
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
        if not self.sorted_out.is_set():
            self._sort_out()
        self._start_beside()
        job = self._next()
        if job is None:
            with self._wake:
                if not self._stopping.is_set() and self._next() is None:
                    self._wake.wait(5)
            self._note()  # queued jobs are cancelled by the API
            self._mark()
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
            self._end(job, jobs.FAILED, problem={**to_wire(ConflictError(_UNKNOWN)), "left": _by_database(job)})
            return
        if not self._may_begin(job):
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
        self._mark()

    def _back_in_service(self) -> None:
        try:
            self._context.reconciling.reconcile("back in service")
        except DomainError as error:  # told as an alert, and tried again
            _log.warning("reconciling after a job: %s", error)

    def _end(self, job: Job, state: str, *, result: Result | None = None, problem: dict[str, Any] | None = None) -> None:
        with self._context.store.session() as session:
            self._end_in(session, job, state, result, problem)
        self._note()

    @staticmethod
    def _end_in(session: Session, job: Job, state: str, result: Result | None, problem: dict[str, Any] | None) -> None:
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
