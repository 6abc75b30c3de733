# SPDX-License-Identifier: Apache-2.0
"""Runs jobs, one at a time for each pool, and resumes those that a crash has interrupted."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Mapping
from shlex import quote

import msgspec
from sqlalchemy.orm import Session

from appliance import decoding, logs
from appliance.database.models import Job
from appliance.domain import datastores, jobs, recovery, schedules
from appliance.domain.errors import ConflictError, DomainError, InternalError, UnavailableError, to_wire
from appliance.domain.jobs import Plan, Result
from appliance.domain.requests import Request
from appliance.worker import (
    adoption,
    datastore_operations,
    device_operations,
    file_operations,
    hold_operations,
    pool_operations,
    snapshot_operations,
    support,
    trash_operations,
    vm_operations,
)
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.steps import Abandoned, AnyOperation, Cancelled, Operations, Stopping
from appliance.zfs.model import Health

OPERATIONS: Operations = {
    **datastore_operations.OPERATIONS, **trash_operations.OPERATIONS, **adoption.OPERATIONS, **snapshot_operations.OPERATIONS,
    **hold_operations.OPERATIONS, **pool_operations.OPERATIONS, **device_operations.OPERATIONS, **file_operations.OPERATIONS,
    **vm_operations.OPERATIONS, **support.OPERATIONS,
}  # fmt: skip
BY_REQUEST: Mapping[type[Request], AnyOperation] = {operation.request: operation for operation in OPERATIONS.values()}
_UNKNOWN = "this version does not know jobs of this kind. Nothing was done or undone by it: request it again if you still need it"
_TRIES = 5
_TRIES_CANCELLABLE = 40
"""About five minutes, because the other process may be restarting."""
_WITHOUT_POOL = 4
"""Concurrent jobs without a pool: clones of files, restores of VMs, support bundles."""
_AT_ONCE = device_operations.ChangeDevice.kind
"""Without a pool, it clears errors of a suspended pool, in which the others may hang."""
_POLL_SECONDS = 5.0
"""Queued jobs are cancelled, and jobs abandoned, in the database."""
_RECOVERY_SECONDS = 0.1
"""Until the first comparison with the copies on the pools has ended, no job begins."""
STOP_SECONDS = 100.0
"""Less than TimeoutStopSec of zvaai-worker.service."""
_log = logging.getLogger(__name__)


class Executor:
    """A queue of jobs for each pool: one change of a pool at a time, pools concurrently.

    Jobs of a pool run in the order of their requests. A job of several pools waits until it is the first of each, so there
    is no deadlock. A job without a pool waits only while _WITHOUT_POOL others of these run, and a change of a device never.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wake = threading.Condition()
        self._committing = threading.Lock()
        """From the last check of a plan until it is stored. Planning, which may scan storage, does not hold it."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler")
        self._running: dict[str, threading.Thread] = {}
        """By the jobs that they run. An abandoned job remains here until its thread has ended."""

    def start(self) -> None:
        """Resumes the jobs that were running."""
        self._thread.start()

    def stop(self) -> None:
        """Waits for running jobs, STOP_SECONDS at most: those of a pool that hangs are resumed at the next start."""
        self._stopping.set()
        with self._wake:
            self._wake.notify_all()
        self._thread.join()
        until = time.monotonic() + STOP_SECONDS
        for thread in list(self._running.values()):
            thread.join(max(0.0, until - time.monotonic()))

    def submit(self, request: Request, actor: str, *, key: str | None = None, until: float | None = None) -> str:
        """Checks a request and queues it; the job's identifier. Raises DomainError, and then nothing has changed.

        A known `key` returns its job. After `until` (monotonic clock) the caller has given up, and nothing is queued.
        """
        operation = BY_REQUEST[type(request)]
        with as_domain_errors():
            job_id = None
            while job_id is None:
                with self._context.store.reading() as session:
                    recovery.check_inactive(session)
                    if before := jobs.job_of_key(session, key):
                        return before
                plan = operation.plan(self._context, request)
                if operation.kind.startswith(("datastore.", "snapshot.")):
                    self._check_pools(plan)
                job_id = self._queue(operation.kind, plan, self._name(operation.kind, request, plan), actor, key, until)
        _log.info("job %s (%s of %s) is queued", job_id, operation.kind, plan.subject)
        self.wake()
        return job_id

    def wake(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _name(self, kind: str, request: Request, plan: Plan) -> str:
        """Current name of the job's subject: "gold1", "gold1@before", or the name of the new object."""
        names = {store.id: store.name for store in self._context.datastores(60)}
        stores = list(dict.fromkeys(names[identifier] for identifier in (plan.subject, *plan.about) if identifier in names))
        given = getattr(request, "name", None) or ""
        if kind.startswith("snapshot.") and stores and given:
            return f"{', '.join(stores)}@{given}"[:512]
        return (", ".join(stores) or given or plan.subject)[:512]

    def _queue(self, kind: str, plan: Plan, name: str, actor: str, key: str | None, until: float | None) -> str | None:
        """Identifier of the job. None if another request was faster, or took a planned name or number: plan again."""
        job_id = str(uuid.uuid4())
        with self._committing, self._context.store.session() as session:
            if jobs.job_of_key(session, key) or not self._is_free(session, plan, until):
                return None
            jobs.submit(session, job_id, kind, plan, actor, key, name)
        return job_id

    def _is_free(self, session: Session, plan: Plan, until: float | None) -> bool:
        """Whether the planned number and path are still free. Raises DomainError if the job cannot start now."""
        if until is not None and time.monotonic() > until:
            raise UnavailableError("the scan of the storage took too long; nothing was started")
        jobs.check(session, plan.subject)
        for also in (plan.uuid, plan.source):
            if also and also != plan.subject:
                jobs.busy(session, also)
        jobs.in_the_way(session, plan)
        if jobs.is_claimed(session, plan.claims):
            return False
        return not datastores.given_away(session, plan.uuid, plan.claims.lun, plan.claims.export, plan.claims.share)

    def _check_pools(self, plan: Plan) -> None:
        """Refuses a job that would wait for an unresponsive pool and then fail."""
        suspended = {pool.name: pool.status for pool in self._context.scan(60).pools if pool.health == Health.SUSPENDED}
        if stuck := sorted(suspended.keys() & set(plan.pools)):
            remedy = f"If a device has failed, repair it. Then run: zvaai pool device {quote(stuck[0])} DEVICE clear"
            raise ConflictError(" ".join([f"Pool {stuck[0]} is suspended.", suspended[stuck[0]], remedy]))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._wake:
                    if not self._context.recovery.allows_jobs:
                        self._wake.wait(_RECOVERY_SECONDS)
                    elif not self._stopping.is_set() and not self._begin():
                        self._wake.wait(_POLL_SECONDS)
            except Exception:  # a full disk, a locked database: try again later
                _log.exception("the scheduler of jobs")
                self._stopping.wait(1)

    def _begin(self) -> bool:
        """Starts a thread for each job that can run now. Returns whether one was started. The caller holds `_wake`."""
        with self._context.store.reading() as session:
            active = jobs.active(session)
        taken: set[str] = set()
        without_pool = sum(job.id in self._running and not jobs.plan_of(job).pools for job in active)
        started = False
        for job in active:
            pools = set(jobs.plan_of(job).pools)
            waits = bool(pools & taken) if pools else without_pool >= _WITHOUT_POOL and job.kind != _AT_ONCE
            taken |= pools
            if waits or job.id in self._running:
                continue
            without_pool += not pools
            started = True
            thread = threading.Thread(target=self._in_thread, args=(job,), name=f"job {job.id[:8]}", daemon=True)
            thread.start()
            self._running[job.id] = thread
        return started

    def _in_thread(self, job: Job) -> None:
        try:
            self._run_job(job)
            self._context.alerts.job_ended()
        except Exception:  # as above: the job is resumed
            _log.exception("the thread of job %s", job.id)
            self._stopping.wait(1)
        except BaseException:
            self._stopping.set()
            raise
        finally:
            with self._wake:
                del self._running[job.id]
                self._wake.notify_all()

    def is_at_work(self, job_id: str) -> bool:
        """Whether its thread is running: it may have ended in the database, but not its follow-up work."""
        with self._wake:
            return job_id in self._running

    def _run_job(self, job: Job) -> None:
        logs.of_request(f"job-{job.id}")
        try:
            operation = OPERATIONS[job.kind]
            plan = decoding.convert(job.parameters, operation.plan_type)
        except (KeyError, msgspec.ValidationError) as error:
            _log.warning("job %s (%s): %s", job.id, job.kind, error)
            self._end(job, jobs.FAILED, error=ConflictError(_UNKNOWN))
            return
        _log.info("%s of %s begins", job.kind, job.subject)
        try:
            self._carry_out(job.id, operation, plan)
        except Exception:
            _log.exception("job %s (%s)", job.id, job.kind)
            undone, left = self._undo(operation, plan)
            self._end(job, jobs.FAILED, error=InternalError(), undone=undone, left=left)
        if plan.out_of_service:
            self._back_in_service(plan)

    def _back_in_service(self, plan: Plan) -> None:
        try:
            self._context.scan_pools(plan.pools)
            self._context.reconciling.reconcile("back in service", pools=plan.pools)
        except DomainError as error:  # an alert shows it, and it is tried again
            _log.warning("reconciling after a job: %s", error)

    def _end(
        self, job: Job, state: str, *, result: Result | None = None,
        error: DomainError | None = None, undone: bool = False, left: str | None = None,
    ) -> None:  # fmt: skip
        """`error`: why it failed; `undone`, `left`: see `_undo`."""
        with self._context.store.session() as session:
            if jobs.job(session, job.id).state not in jobs.ACTIVE:
                _log.warning("%s of %s has %s after it was abandoned", job.kind, job.subject, state)
                return
            problem = None if error is None else {**to_wire(error), "undone": undone, "left": left}
            jobs.end(session, job.id, state, result=result, problem=problem)
            _log.info("%s of %s has %s%s", job.kind, job.subject, state, "" if error is None else f": {error}")
            if schedule := jobs.plan_of(job).schedule:
                schedules.ended(session, schedule, None if error is None else str(error))

    def _carry_out(self, job_id: str, operation: AnyOperation, plan: Plan) -> None:
        with self._context.store.session() as session:
            job = jobs.job(session, job_id)
            if job.state not in jobs.ACTIVE:
                return None
            resumed = job.state == jobs.RUNNING
            jobs.begin(session, job_id)

        begun, attempt = [job.percent], 1

        def advance(step: str, percent: int) -> None:
            with self._context.store.session() as session:
                # A started step is completed: half of it would be worse than all or nothing.
                begun[0] = max(begun[0], percent)
                current = jobs.job(session, job_id)
                if current.state not in jobs.ACTIVE:
                    raise Abandoned
                if current.cancel and (operation.cancellable or (percent <= 10 and not resumed and attempt == 1)):
                    raise Cancelled
                if operation.cancellable and self._stopping.is_set():
                    raise Stopping
                jobs.advance(session, job_id, step, percent)

        while True:
            problem: DomainError
            try:
                with as_domain_errors():
                    result = operation.run(self._context, plan, job_id, advance)
                return self._end(job, jobs.SUCCEEDED, result=result)
            except Cancelled:
                return self._end(job, jobs.CANCELLED)
            except (Stopping, Abandoned):
                return None
            except UnavailableError as error:
                problem = error
                # The change may still be done, and must not be under hosts: it is repeated until the result is known.
                unsure = bool(plan.out_of_service) and begun[0] >= 50
                attempt += 1
                if unsure or attempt <= (_TRIES_CANCELLABLE if operation.cancellable else _TRIES):
                    self._stopping.wait(min(8.0, 0.5 * 2 ** min(attempt, 8)))
                    if not self._stopping.is_set() and not self._is_abandoned(job_id):
                        with self._context.store.reading() as session:  # with what it has noted, as if it were resumed
                            plan = decoding.convert(jobs.job(session, job_id).parameters, operation.plan_type)
                        continue
                if self._stopping.is_set() or self._is_abandoned(job_id):
                    return None  # if it is still running in the database, it is resumed at the next start
            except DomainError as error:
                problem = error
            undone, left = self._undo(operation, plan)
            return self._end(job, jobs.FAILED, error=problem, undone=undone, left=left)

    def _is_abandoned(self, job_id: str) -> bool:
        with self._context.store.reading() as session:
            return jobs.job(session, job_id).state not in jobs.ACTIVE

    def _undo(self, operation: AnyOperation, plan: Plan) -> tuple[bool, str | None]:
        """Whether nothing is left of the job's partial results, and why they could not be removed."""
        undone, left = False, None
        try:
            with as_domain_errors():
                undone = operation.undo(self._context, plan)
        except DomainError as error:
            _log.warning("taking back %s: %s", operation.kind, error)
            left = str(error)
        except Exception:
            _log.exception("taking back %s", operation.kind)
            left = str(InternalError())
        with contextlib.suppress(DomainError), as_domain_errors():
            self._context.scan_pools(plan.pools)
        return undone, left
