# SPDX-License-Identifier: Apache-2.0
"""Base class of jobs, and steps that several kinds share.

`plan` checks and decides without changes; `run` executes. After a crash `run` starts again from the beginning, so each step
checks whether it was done before.
"""

import contextlib
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from types import get_original_bases
from typing import Any, ClassVar, get_args

from msgspec import UNSET, UnsetType

from appliance.dataplane.target import TargetError
from appliance.domain import datastores as domain
from appliance.domain import identity, jobs
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError
from appliance.domain.hosts import group
from appliance.domain.jobs import Claims, Plan, Result
from appliance.domain.requests import Request
from appliance.worker.context import Context
from appliance.zfs import errors as zfs
from appliance.zfs.model import Filesystem, KeyStatus, Volume
from appliance.zfs.names import pool_of

Advance = Callable[[str, int], None]
"""Reports a step and the percent done before it. Raises Cancelled when cancelling was requested."""


_log = logging.getLogger(__name__)
CLOSING_SECONDS = 60.0
"""For commands that were running; the target itself has waited 20 s for them."""
_SERVERS = ("zvaai-target ", "ganesha.nfsd ")
"""Programs that have a datastore open until its operations end: the admin does not stop them."""


class Cancelled(Exception):  # noqa: N818  # not a failure
    """The job was cancelled between two steps."""


class Abandoned(Exception):  # noqa: N818  # not a failure
    """An admin has abandoned the job. Its changes remain."""


class Stopping(Exception):  # noqa: N818  # not a failure
    """The worker ends; the job is resumed at its next start."""


class Operation[R: Request, P: Plan](ABC):
    """A kind of job: `R` is its request, `P` its plan, which is stored until its end."""

    kind: ClassVar[str]
    request: ClassVar[type[Request]]
    plan_type: ClassVar[type[Plan]]
    cancellable: ClassVar[bool] = False
    """At any moment, also while it runs."""

    def __init_subclass__(cls) -> None:
        for base in get_original_bases(cls):
            arguments = get_args(base)
            if len(arguments) == 2 and all(isinstance(argument, type) for argument in arguments):
                cls.request, cls.plan_type = arguments

    @abstractmethod
    def plan(self, context: Context, request: R) -> P:
        """Checks the request and decides; nothing changes. Raises DomainError, ZfsError."""

    @abstractmethod
    def run(self, context: Context, plan: P, job_id: str, advance: Advance) -> Result:
        """Does it. After a crash it is run again from its beginning. Raises DomainError, ZfsError."""

    def undo(self, context: Context, plan: P) -> bool:
        """After a `run` that failed: removes partial results. Whether nothing is left of them; most jobs cannot say so."""
        return False


AnyOperation = Operation[Any, Any]
"""The row of a job has its kind. So the type of its plan is known only after the row, which is JSON, was read."""
Operations = Mapping[str, AnyOperation]


def by_kind(*operations: AnyOperation) -> Operations:
    return {operation.kind: operation for operation in operations}


class DatastoreResult(Result, frozen=True, kw_only=True):
    """Result of a job about one datastore. `problem`: why it is not `served`; not a failure, as the reconciler tries again."""

    datastore: str
    served: bool | UnsetType = UNSET
    problem: str | None | UnsetType = UNSET
    snapshot: str | UnsetType = UNSET
    dataset: str | UnsetType = UNSET
    problems: list[str] | UnsetType = UNSET


def unused(
    context: Context, store: Datastore, force: bool, doing: str, groups: Collection[str] = (), clients: Collection[str] = ()
) -> None:
    """Refused while hosts are logged in, unless forced: then target and NFS server need not answer. Hosts of `groups`, and within
    `clients`, retain the datastore.
    """
    hosts = [] if force else context.logged_in(store.uuid or "", groups, clients)
    if hosts:
        raise ConflictError(f"hosts that see {store.name} are logged in; {doing}", hosts, can_force=True)


def ensure_folder(context: Context, name: str) -> None:
    """The file system that datastores lie below; itself it holds nothing."""
    if context.scan(60).dataset(name) is not None:
        return
    with contextlib.suppress(zfs.DatasetExists):
        context.engine.create_filesystem(name, properties={"canmount": "off", "mountpoint": "none"})


def ensure_encryption_root(context: Context, name: str, identifier: str) -> None:
    """The file system above all encrypted datastores, with a stored key that is loaded."""
    try:
        filesystem = context.engine.filesystem(name)
    except zfs.NoSuchDataset:
        context.keys.create_encryption_root(name, identifier)
        return
    if filesystem.encryption is None or filesystem.encryption.root != name:
        text = "the file system for encrypted datastores exists, and is not encrypted"
        raise ConflictError(f"{text}. Rename or destroy {name}, then try again")
    if filesystem.encryption.key_status != KeyStatus.AVAILABLE:
        context.keys.load_stored_key(name)


def serve(context: Context, uuid: str, pools: Collection[str], cause: str) -> DatastoreResult:
    """Reads the job's pools again and reconciles. Reports whether the datastore is served, and problems: they are not a failure,
    as the reconciler tries again.
    """
    try:
        context.scan_pools(pools)
        outcome = context.reconciling.reconcile(cause, _kind(context, uuid), pools)
    except DomainError as error:
        return DatastoreResult(datastore=uuid, served=False, problem=str(error))
    failure = next((failure for failure in outcome.failures if failure.subject == uuid), None)
    if failure is None and uuid not in context.reconciling.serving:
        return served_as_before(context, uuid)
    return DatastoreResult(datastore=uuid, served=failure is None, problem=failure.text if failure else None)


def served_as_before(context: Context, uuid: str) -> DatastoreResult:
    """Like `serve`, from the last run, for changes that do not affect serving."""
    served = uuid in context.reconciling.serving
    problem = None if served else "neither the target nor the NFS server serves it"
    return DatastoreResult(datastore=uuid, served=served, problem=problem)


def problems_serving(context: Context, cause: str, *, pool: str | None = None, uuid: str | None = None) -> list[str]:
    """Reconciles; returns failures to serve or remove the datastores of a pool, or a datastore.

    The job has succeeded all the same: the reconciler retries.
    """
    try:
        failures = context.reconciling.reconcile(cause).failures
        stores = [store for store in context.datastores(60) if store.pool == pool]
        subjects = {pool, uuid} | {subject for store in stores for subject in (store.uuid, store.copy_of)}
        return [failure.text for failure in failures if failure.subject in subjects]
    except DomainError as error:
        return [str(error)]


def _kind(context: Context, uuid: str | None) -> str | None:
    return next((store.kind for store in context.datastores(3600) if store.uuid == uuid), None)


def still_unused(context: Context, uuid: str, force: bool, number: int | None = None) -> None:
    """Repeats the check of `plan` while the datastore is served (a LUN: with this number)."""
    if force:
        return
    kind = _kind(context, uuid)
    if kind != domain.VMFS and number is None and (clients := context.mounted_by(uuid)):
        raise ConflictError("hosts have mounted it", clients, can_force=True)
    if kind == domain.NFS:
        return
    luns = [lun.lun for target in context.target.targets() for lun in target.luns if lun.lun.uuid == uuid]
    if not any(number in (None, lun.number) for lun in luns):
        return
    if hosts := context.logged_in(uuid):
        raise ConflictError("hosts that see it have logged in", hosts, can_force=True)


def out_of_service(context: Context, uuid: str, pools: Collection[str], force: bool) -> None:
    """Ends the service of a datastore, and waits until its volume or files are closed. The job's `out_of_service` prevents a new
    start. Refused while hosts use it, unless forced: they may have logged in after the request.
    """
    still_unused(context, uuid, force)
    outcome = context.reconciling.reconcile("out of service", _kind(context, uuid), pools)
    problem = next((failure.text for failure in outcome.failures if failure.subject == uuid and not failure.still_open), None)
    if problem:
        raise ConflictError(problem)
    _wait_until_closed(context, uuid)


def _wait_until_closed(context: Context, uuid: str) -> None:
    """Waits until no process has the volume open, by the engine: the target reports that only once, to the first caller."""
    dataset = next((store.dataset for store in context.datastores(3600) if store.uuid == uuid), "")
    limit = time.monotonic() + CLOSING_SECONDS
    while dataset:
        try:
            who = context.engine.holders(dataset)
        except zfs.NoSuchDataset:  # destroyed by hand
            return
        except zfs.HoldersUnknown as error:
            who = (str(error),)
        if not who:
            return
        if time.monotonic() > limit:
            others = [program for program in who if "(process " in program and not program.startswith(_SERVERS)]
            reason = f" in {', '.join(others)}. Stop the program, then try again" if others else ". Its operations have not ended"
            raise ConflictError(f"{dataset} is still open{reason}", who)
        time.sleep(0.1)


def in_service(context: Context, job_id: str) -> None:
    """Ends `out_of_service`, also for a run that is resumed after this. Raises Abandoned: then it remains out of service."""
    with context.store.session() as session:
        if jobs.job(session, job_id).state not in jobs.ACTIVE:
            raise Abandoned
        jobs.note(session, job_id, out_of_service=[], done=True)


def dataset_of(context: Context, name: str) -> Volume | Filesystem:
    """By its name, whichever kind it is. Raises NoSuchDataset."""
    try:
        return context.engine.volume(name)
    except zfs.NoSuchDataset:
        return context.engine.filesystem(name)


def is_made(context: Context, dataset: str, uuid: str) -> bool:
    """Whether the dataset exists and was made by this job. Raises ConflictError for another owner."""
    try:
        claimed = context.engine.properties(dataset).get(identity.UUID)
    except zfs.NoSuchDataset:
        return False
    if claimed is None or claimed.value != uuid:
        raise ConflictError(f"Dataset {dataset} exists and is not this datastore. Use another name, or rename the dataset")
    return True


def identity_properties(name: str, uuid: str, soft_threshold: int | None, numbers: Mapping[str, str]) -> dict[str, str]:
    """Identity properties except the GUID, which makes them count. `numbers` are those of its kind."""
    properties = {identity.UUID: uuid, identity.NAME: name, **numbers}
    if soft_threshold is not None:
        properties[identity.SOFT_THRESHOLD] = str(soft_threshold)
    return properties


def complete(context: Context, dataset: str, guid: int | None = None) -> None:
    """Makes the identity count. `guid`: of the dataset, if known."""
    value = str(guid) if guid is not None else context.engine.properties(dataset)["guid"].value
    context.engine.set_properties(dataset, {identity.GUID: value})


def choose_lun(context: Context, requested: int | None, previous: int | None = None) -> int:
    """The requested number, the previous one, or a free one; none that a running job has chosen."""
    stores = context.datastores(60)
    with context.store.reading() as session:
        if requested is not None:
            domain.check_lun(session, requested)
        pending = {claims.lun for claims in pending_claims(context)}
        if requested is not None and requested in pending:
            raise ConflictError(f"LUN {requested} is taken by a running job")
        return domain.free_lun(session, stores, requested if requested is not None else previous, pending)


def pending_claims(context: Context) -> list[Claims]:
    with context.store.reading() as session:
        return [jobs.plan_of(job).claims for job in jobs.active(session)]


def check_name(context: Context, stores: list[Datastore], name: str, but: str | None = None) -> None:
    domain.check_name(stores, name, but)
    if any(claims.name is not None and claims.name.lower() == name.lower() for claims in pending_claims(context)):
        raise ConflictError("a running job creates a datastore of this name", [name], field_name="name")


def names_of(context: Context, datasets: Iterable[str]) -> list[str]:
    """Names of the datastores on these datasets, for users; for other datasets the dataset's name."""
    known = context.datastores(60)
    stores = {store.dataset: store.name + (" (deleted)" if store.state == "deleted" else "") for store in known}
    return [stores.get(dataset, dataset) for dataset in datasets]


def check_groups(context: Context, groups: Collection[str] | None) -> None:
    with context.store.reading() as session:
        for group_id in groups or ():
            try:
                group(session, group_id)
            except NotFoundError as error:
                raise InvalidError("host_groups", str(error), "identifiers of host groups") from error


def origin_guid(context: Context, origin: str | None) -> int | None:
    """GUID of a clone's origin, if the snapshot was taken for a clone: it is destroyed with its last clone."""
    snapshot = next((snapshot for snapshot in context.scan(60).snapshots if snapshot.name == origin), None)
    temporary = (
        snapshot is not None and re.fullmatch(r"clone-[0-9a-f]{8}", snapshot.tag) and identity.CREATED_BY in snapshot.properties
    )
    return snapshot.guid if snapshot is not None and temporary else None


def destroy_origin(context: Context, guid: int | None, pools: Collection[str]) -> None:
    """By its GUID: its dataset may have another name by now. What still hangs on it, holds it or sends it keeps it.

    A replica in another pool has the same GUID, and is not destroyed.
    """
    if guid is None:
        return
    for snapshot in context.scan_pools(pools).snapshots:
        if snapshot.guid == guid and pool_of(snapshot.name) in pools and not snapshot.clones:
            with contextlib.suppress(zfs.HasDependants, zfs.SnapshotHeld, zfs.DatasetBusy):
                context.engine.destroy_snapshots([snapshot.name])


def forget_reservations(context: Context, dataset: str, uuid: str) -> None:
    """Removes its LUN's file of persistent reservations. An error is ignored, because it has only some hundred bytes."""
    pool = next((pool for pool in context.scan(60).pools if pool.name == dataset.split("/", 1)[0]), None)
    if pool is None:
        return
    try:
        context.target.forget_registrations(context.folder(pool), uuid)
    except TargetError as error:
        _log.warning("cannot remove the reservations of %s from %s: %s", uuid, context.folder(pool), error)


def take_back(context: Context, dataset: str, uuid: str) -> bool:
    """Destroys a dataset without identity. Returns whether it no longer exists."""
    if is_made(context, dataset, uuid):
        if identity.GUID in context.engine.properties(dataset):
            return False  # it is complete: its presentation does not change
        context.engine.destroy(dataset)
    with context.store.session() as session:
        domain.forget(session, uuid)
    return True
