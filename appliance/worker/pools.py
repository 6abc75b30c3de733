# SPDX-License-Identifier: Apache-2.0
"""Common to all jobs on pools."""

from abc import abstractmethod
from typing import ClassVar, TypedDict

from msgspec import UNSET, UnsetType

from appliance.domain.errors import ConflictError, NotFoundError
from appliance.domain.jobs import Plan, Result
from appliance.domain.requests import Request
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Operation
from appliance.zfs.model import Pool, Vdev
from appliance.zfs.names import whole_disk


def find_pool(context: Context, name: str) -> Pool:
    """An imported pool. Raises NotFoundError."""
    for pool in context.scan().pools:
        if pool.name == name:
            return pool
    raise NotFoundError("pool", name)


def is_device(path: str | None, name: str) -> bool:
    """Whether a path in a pool is the named device or its first partition, which OpenZFS creates on a whole disk."""
    return path is not None and name in (path, whole_disk(path))


def has_device(pool: Pool, name: str) -> bool:
    return any(is_device(device.path, name) for device in pool.devices())


def find_device(pool: Pool, name: str) -> Vdev:
    """By path, name, or GUID. Raises NotFoundError, ConflictError."""
    matching = [
        device
        for device in pool.devices()
        if name in (device.name, str(device.guid)) or is_device(device.path, name) or is_device(device.was, name)
    ]
    if not matching:
        raise NotFoundError(f"device of pool {pool.name}", name)
    if len(matching) > 1:  # the old and the new disk of one bay
        raise ConflictError("several have this path; say its GUID", [str(device.guid) for device in matching])
    return matching[0]


class PoolPlan(Plan, frozen=True, kw_only=True):
    pool: str


class ActionPlan(PoolPlan, frozen=True, kw_only=True):
    action: str


class _OfPool(TypedDict):
    subject: str
    pools: tuple[str, ...]
    pool: str


def of_pool(name: str) -> _OfPool:
    return {"subject": f"pool {name}", "pools": (name,), "pool": name}


class PoolResult(Result, frozen=True, kw_only=True):
    """`problems`: failures to serve or remove its datastores."""

    pool: str
    problems: list[str] | UnsetType = UNSET
    not_mounted: list[str] | UnsetType = UNSET
    """After an import: file systems with a mountpoint outside the appliance's folder."""


class PoolChange[R: Request, P: PoolPlan](Operation[R, P]):
    """One call of the engine, which can be repeated after a crash."""

    step: ClassVar[str]

    @abstractmethod
    def change(self, context: Context, plan: P) -> None:
        """Makes the call."""

    def run(self, context: Context, plan: P, job_id: str, advance: Advance) -> PoolResult:
        advance(self.step, 10)
        self.change(context, plan)
        context.scan()
        return PoolResult(pool=plan.pool)
