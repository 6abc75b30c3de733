# SPDX-License-Identifier: Apache-2.0
"""Files of NFS datastores: list and clone them through the NFS server. This module accesses no file."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import asdict

from appliance import decoding
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.vaai_nas import FileJob, FilePage, FileRefusedError
from appliance.domain import datastores as domain
from appliance.domain import jobs, requests
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, DomainError, InvalidError, StorageError
from appliance.domain.fields import Bytes, Time
from appliance.domain.files import check_path
from appliance.domain.jobs import Plan, Result
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Cancelled, Operation, by_kind

MEASURING_SECONDS = 10.0
"""Time limit of the statistics of a page's files; the rest is reported as unknown."""
_FORGOTTEN = ("interrupted", "not_found")
"""The NFS server was restarted, or has had many jobs in the meantime: a clone that was not complete does not exist."""


@dataclass(frozen=True)
class Admitted:
    """Admitted space of an NFS datastore's files; None if unknown. `problem` has the reason if it may be wrong or unknown."""

    admitted: int | None
    counting: bool
    problem: str


@dataclass(frozen=True)
class FileResponse:
    """A VMDK file that holds data, by its path in the datastore.

    Sizes in bytes, as of `as_of`: of the file (`total`), of its blocks (`allocated`), of those that nothing else shares
    (`unique`, an upper bound unless `unique_exact`), that a snapshot also holds (`snapshot`), and that are `deduplicated`. Null
    is what the NFS server had no time to find out.
    """

    path: str
    total: Bytes
    allocated: Bytes
    unique: Bytes | None
    unique_exact: bool
    snapshot: Bytes | None
    deduplicated: Bytes | None
    as_of: Time | None


def exported(context: Context, datastore_id: str, newest: float = 0) -> tuple[Datastore, int]:
    """An active NFS datastore, and the number of its export; `newest` as of Context.datastores. Raises DomainError."""
    store = domain.find(context.datastores(newest), datastore_id, "active")
    if store.kind != domain.NFS or store.export is None:
        raise ConflictError("a VMFS datastore has its files inside of VMFS, where only hosts see them", [store.name])
    return store, store.export


def admitted(context: Context, store: Datastore) -> Admitted:
    try:
        space = context.files.space(store.export or 0)
    except (FileRefusedError, GaneshaUnreachableError) as error:
        return Admitted(None, counting=False, problem=str(error))
    wrong = (space.thick, space.size if space.thick else 0) != (store.thick, store.size if store.thick else 0)
    problem = "the NFS server has another size of it" if wrong else space.problem
    return Admitted(space.admitted, space.counting, problem)


def refusal(error: FileRefusedError, name: str, paths: Mapping[str, str]) -> DomainError:  # noqa: PLR0911  # a table
    """The domain error for a refusal by the NFS server; `paths` are the request's fields."""
    field = error.field if error.field in paths else None
    reason = error.reason.removesuffix("; nothing was changed")  # common to all refusals
    if error.status == "stale":
        return ConflictError(f"The NFS server does not export {name} now. Run: zvaai reconcile")
    if field is not None and error.status == "exists":
        return ConflictError(f"{field}: {reason}", [paths[field]], field_name=field)
    if field == "source" and error.status == "not_found":
        return InvalidError(field, "there is no such file", "a file of the datastore")
    if field == "destination" and error.status in ("not_found", "not_directory"):
        return InvalidError(field, "there is no such folder", "a new name in a folder of the datastore")
    if field is not None and error.status in ("invalid", "is_directory", "not_directory", "access", "name_too_long"):
        return InvalidError(field, reason, "a file" if field == "source" else "a new name in a folder of the datastore")
    if error.status == "not_supported":
        remedy = "Repeat without --fast (in the console: a full clone): blocks that cannot be shared are then copied"
        return ConflictError(f"Cannot clone in {name}: {reason}. {remedy}", field_name="fast")
    if error.status == "input_output":
        return StorageError(error.status, reason)
    return ConflictError(reason, [name])


def listed(context: Context, datastore: str, after: str, limit: int) -> tuple[list[FileResponse], FilePage]:
    """A page of an NFS datastore's VMDK files. Values that were not measured in time are None."""
    store, export = exported(context, datastore, context.configuration.worker.inventory_seconds)
    try:
        page = context.files.files(export, after, limit)
    except FileRefusedError as error:
        raise refusal(error, store.name, {}) from error
    until = time.monotonic() + MEASURING_SECONDS
    rows = []
    for listed_file in page.files:
        file = FileResponse(listed_file.path, listed_file.total, listed_file.allocated, None, False, None, None, None)
        left = until - time.monotonic()
        if left > 0:
            try:
                file = FileResponse(listed_file.path, **asdict(context.files.statistics(export, listed_file.path, left)))
            except FileRefusedError:  # it was removed, or is busy
                pass
            except GaneshaUnreachableError:
                until = 0
        rows.append(file)
    return rows, page


class CloneFilePlan(Plan, frozen=True, kw_only=True):
    """Paths in the datastore. `begun` and `clone`, the number of the NFS server's job, are noted while it runs."""

    datastore: str
    name: str
    export: int
    source_path: str
    destination: str
    fast: bool
    begun: bool = False
    clone: int | None = None

    @property
    def paths(self) -> dict[str, str]:
        return {"source": self.source_path, "destination": self.destination}


class CloneFileResult(Result, frozen=True, kw_only=True):
    """How each byte went, and why bytes were copied. Bytes as digits."""

    datastore: str
    source: str
    destination: str
    total_bytes: str
    cloned_bytes: str
    copied_bytes: str
    hole_bytes: str
    copied_because: dict[str, str]


class CloneFile(Operation[requests.FileCloneCreate, CloneFilePlan]):
    """Clones one file by the NFS server. The job can be cancelled, and reports the bytes cloned and copied."""

    kind = "file.clone"
    cancellable = True

    def plan(self, context: Context, request: requests.FileCloneCreate) -> CloneFilePlan:
        """The NFS server checks the rest when it begins."""
        store, export = exported(context, request.id)
        check_path("source", request.source)
        check_path("destination", request.destination)
        # Claims the datastore, so that it cannot be deleted in the meantime. Other jobs for it can run.
        return CloneFilePlan(
            subject=f"{store.id}/{request.destination}", pools=(), about=(store.id,), datastore=store.id, name=store.name,
            export=export, source_path=request.source, destination=request.destination, fast=request.fast,
        )  # fmt: skip

    def run(self, context: Context, plan: CloneFilePlan, job_id: str, advance: Advance) -> CloneFileResult:
        """Starts the clone, or continues that of an earlier run, and polls it until its end."""
        try:
            advance("querying the NFS server", 0)
        except Cancelled:
            if not _noted(context, job_id)[1]:
                raise
        try:
            job, cancelled = _watch(context, plan, job_id, advance)
        except FileRefusedError as error:
            if error.status == "stale" and _noted(context, job_id)[0] is not None:
                text = (
                    "the NFS server does not export it any more, and has ended its clones: check whether the destination exists"
                )
                raise ConflictError(text, [plan.destination]) from error
            raise refusal(error, plan.name, plan.paths) from error
        if job.state == "complete":
            return _result(plan, job)
        if cancelled and job.status == "cancelled":
            raise Cancelled
        raise refusal(FileRefusedError(job.status, job.reason), plan.name, {})


def _watch(context: Context, plan: CloneFilePlan, job_id: str, advance: Advance) -> tuple[FileJob, bool]:
    """The NFS server's job after its end, and whether it was cancelled on request. Raises FileRefusedError, ConflictError."""
    job = _begin(context, plan, job_id)
    pause, cancelled = 0.02, False
    while job.active:
        try:
            advance("cloning", 1 + 98 * job.done_bytes // max(job.total_bytes, job.done_bytes, 1))
        except Cancelled:
            cancelled = True
        try:
            if cancelled:
                job = context.files.cancel(plan.export, job.job)
            else:
                time.sleep(pause)
                pause = min(1.0, pause * 1.5)
                job = context.files.job(plan.export, job.job)
        except FileRefusedError as error:
            if error.status not in _FORGOTTEN:
                raise
            job = _begin(context, plan, job_id)
    return job, cancelled


def _begin(context: Context, plan: CloneFilePlan, job_id: str) -> FileJob:
    """The NFS server's job for ours: its request id is our identifier. Raises FileRefusedError, ConflictError."""
    known, before = _noted(context, job_id)
    if known is not None:
        try:
            return context.files.job(plan.export, known)
        except FileRefusedError as error:
            if error.status not in _FORGOTTEN:
                raise
    _note(context, job_id, begun=True)
    try:
        request = uuid.UUID(job_id).hex
        job = context.files.clone(plan.export, plan.source_path, plan.destination, request=request, fast=plan.fast)
    except FileRefusedError as error:
        if error.status == "exists" and before:
            text = (
                "the NFS server was restarted meanwhile. The destination exists, and is complete if this job created it: check it"
            )
            raise ConflictError(text, [plan.destination]) from error
        raise
    _note(context, job_id, clone=job.job)
    return job


def _noted(context: Context, job_id: str) -> tuple[int | None, bool]:
    with context.store.reading() as session:
        noted = decoding.convert(jobs.job(session, job_id).parameters, CloneFilePlan)
    return noted.clone, noted.begun


def _note(context: Context, job_id: str, **noted: int | bool) -> None:
    with context.store.session() as session:
        jobs.note(session, job_id, **noted)


def _result(plan: CloneFilePlan, job: FileJob) -> CloneFileResult:
    return CloneFileResult(
        datastore=plan.datastore, source=plan.source_path, destination=plan.destination, total_bytes=str(job.total_bytes),
        cloned_bytes=str(job.cloned_bytes), copied_bytes=str(job.copied_bytes), hole_bytes=str(job.hole_bytes),
        copied_because={reason: str(count) for reason, count in job.fallback_bytes.items() if count},
    )  # fmt: skip


OPERATIONS = by_kind(CloneFile())
