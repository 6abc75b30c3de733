"""What a kind of job is, and the steps that several kinds have in common.

`plan` looks, refuses and decides, and changes nothing; `run` does it. A `run` is taken up again from its beginning after a
crash, so each of its steps finds out whether it was done before.
"""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from appliance.domain import datastores as domain
from appliance.domain import identity, jobs
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError
from appliance.domain.hosts import group
from appliance.worker.context import Context, as_domain_errors
from appliance.zfs import errors as zfs

Parameters = dict[str, Any]
Advance = Callable[[str, int], None]
"""Tells of a step and the percent done before it; raises Cancelled when somebody asked for that."""


class Cancelled(Exception):  # noqa: N818  # not a failure
    """The job was cancelled between two steps."""


@dataclass(frozen=True)
class Plan:
    """What will be done: what it is about, and every decision made for it."""

    subject: str
    parameters: Parameters


class Operation(ABC):
    """A kind of job."""

    kind: ClassVar[str]

    @abstractmethod
    def plan(self, context: Context, asked: Parameters) -> Plan:
        """Raises DomainError; nothing changes."""

    @abstractmethod
    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """Does it; what it made. Raises DomainError, ZfsError."""

    def undo(self, context: Context, decided: Parameters) -> None:  # noqa: B027  # nothing for most
        """After a `run` that failed: takes away what it has half made. Nothing for most."""


def unused(context: Context, store: Datastore, force: bool, doing: str) -> None:
    """Refused while hosts are logged in, unless forced."""
    hosts = context.logged_in(store.uuid or "")
    if hosts and not force:
        raise ConflictError(f"hosts are logged in that see {store.name}; {doing}", hosts, can_force=True)


def ensure_folder(context: Context, name: str) -> None:
    """The file system that datastores lie below; itself it holds nothing."""
    with contextlib.suppress(zfs.DatasetExists):
        context.engine.create_filesystem(name, properties={"canmount": "off", "mountpoint": "none"})


def serve(context: Context, uuid: str | None, cause: str) -> Parameters:
    """Reconciles; says whether the datastore is served, and else why not. That is no failure of the job: it is tried again."""
    try:
        _wait_for_device(context, uuid)
        outcome = context.reconcile(cause)
    except DomainError as error:
        return {"served": False, "problem": str(error)}
    problem = next((failure.text for failure in outcome.failures if failure.subject == uuid), None)
    if problem is None and uuid not in context.serving:
        problem = "the target does not serve it"
    return {"served": problem is None, "problem": problem}


def _wait_for_device(context: Context, uuid: str | None) -> None:
    """udev makes the link of a new or renamed volume some milliseconds after; later than 10 s is for the reconciler."""
    device = next((store.device for store in context.datastores() if store.uuid == uuid), "")
    limit = time.monotonic() + 10
    while device and not os.path.exists(device) and time.monotonic() < limit:  # noqa: PTH110
        time.sleep(0.05)


def out_of_service(context: Context, uuid: str, force: bool) -> None:
    """The target does not serve it any more, and has its volume closed. The job's `out_of_service` keeps it so.

    Refused while hosts are logged in that see it, unless forced: they may have come since the job was asked for.
    """
    with as_domain_errors():
        there = any(lun.lun.uuid == uuid for target in context.target.targets() for lun in target.luns)
    hosts = context.logged_in(uuid) if there and not force else []
    if hosts:
        raise ConflictError("hosts have logged in that see it", hosts, can_force=True)
    outcome = context.reconcile("out of service")
    problem = next((failure.text for failure in outcome.failures if failure.subject == uuid), None)
    if problem:
        raise ConflictError(problem)


def in_service(context: Context, job_id: str) -> None:
    """What `out_of_service` began ends: it is done, for a run that is taken up again after this too."""
    with context.store.session() as session:
        job = jobs.job(session, job_id)
        job.parameters = {**job.parameters, "out_of_service": [], "done": True}


def own_volume(context: Context, dataset: str, uuid: str) -> bool:
    """Whether the volume is there, made by this job before. Raises ConflictError when it is somebody else's."""
    try:
        volume = context.engine.volume(dataset)
    except zfs.NoSuchDataset:
        return False
    claimed = volume.properties.get(identity.UUID)
    if claimed is None or claimed.value != uuid:
        raise ConflictError("the dataset is there, and is another one", [dataset])
    return True


def identity_properties(name: str, uuid: str, lun: int, soft_threshold: int | None) -> dict[str, str]:
    """What is set on its dataset, but for the GUID, with which it counts."""
    properties = {identity.UUID: uuid, identity.NAME: name, identity.LUN: str(lun)}
    if soft_threshold is not None:
        properties[identity.SOFT_THRESHOLD] = str(soft_threshold)
    return properties


def complete(context: Context, dataset: str) -> None:
    """From now on its identity counts."""
    context.engine.set_properties(dataset, {identity.GUID: str(context.engine.volume(dataset).guid)})


def choose_lun(context: Context, asked: int | None, wanted: int | None = None) -> int:
    """The number asked for, the one it had, or a free one; none that a job under way has chosen."""
    with context.store.reading() as session:
        if asked is not None:
            domain.check_lun(session, asked)
        pending = pending_values(context, "lun")
        if asked is not None and asked in pending:
            raise ConflictError(f"LUN {asked} is taken by a job under way")
        return domain.free_lun(session, asked if asked is not None else wanted, pending)


def pending_values(context: Context, parameter: str) -> set[Any]:
    """Values that jobs under way have decided for."""
    with context.store.reading() as session:
        return {job.parameters[parameter] for job in jobs.active(session) if parameter in job.parameters}


def check_name(context: Context, stores: list[Datastore], name: str, own: str | None = None) -> None:
    """Nobody has it, or is about to."""
    domain.check_name(stores, name, own)
    if any(str(pending).lower() == name.lower() for pending in pending_values(context, "name")):
        raise ConflictError("a job under way makes a datastore of this name", [name])


def check_groups(context: Context, groups: list[str] | None) -> None:
    """All of them are there."""
    with context.store.reading() as session:
        for group_id in groups or ():
            try:
                group(session, group_id)
            except NotFoundError as error:
                raise InvalidError("host_groups", str(error), "identifiers of host groups") from error


def take_back(context: Context, dataset: str, uuid: str) -> None:
    """Destroys a volume that a job has made and not completed."""
    if own_volume(context, dataset, uuid) and identity.GUID not in context.engine.volume(dataset).properties:
        context.engine.destroy(dataset)
    with context.store.session() as session:
        domain.forget(session, uuid)
