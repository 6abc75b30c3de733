# SPDX-License-Identifier: Apache-2.0
"""Jobs on holds of snapshots."""

import contextlib

from appliance.domain import datastores as domain
from appliance.domain import holds, requests
from appliance.domain.errors import NotFoundError
from appliance.domain.jobs import Plan, Result
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Operation, by_kind
from appliance.zfs import errors as zfs
from appliance.zfs.model import Hold as HoldOfSnapshot


def listed(context: Context, datastore: str, snapshot: str, newest: float) -> list[HoldOfSnapshot]:
    """Holds of a snapshot by their tags, `newest` as in Context.scan. Raises NotFoundError, UnavailableError."""
    store = domain.find(context.datastores(newest), datastore)
    try:
        return context.engine.holds(f"{store.dataset}@{snapshot}")
    except (zfs.NoSuchSnapshot, zfs.InvalidName) as error:
        raise NotFoundError("snapshot", snapshot) from error


class HoldPlan(Plan, frozen=True, kw_only=True):
    name: str
    tag: str


class HoldResult(Result, frozen=True, kw_only=True):
    snapshot: str
    tag: str


def _plan(store: domain.Datastore, snapshot: str, tag: str) -> HoldPlan:
    return HoldPlan(
        subject=f"{store.id}@{snapshot}", pools=(store.pool,), about=(store.id,), name=f"{store.dataset}@{snapshot}", tag=tag
    )


def _tags(context: Context, datastore: str, snapshot: str) -> list[str]:
    return [hold.tag for hold in listed(context, datastore, snapshot, newest=60)]


def _done(context: Context, plan: HoldPlan) -> HoldResult:
    context.scan_pools(plan.pools)
    return HoldResult(snapshot=plan.name, tag=plan.tag)


class Hold(Operation[requests.HoldCreate, HoldPlan]):
    """Adds a hold: the snapshot cannot be destroyed by a request, a schedule, a rollback, or with its datastore."""

    kind = "snapshot.hold"

    def plan(self, context: Context, request: requests.HoldCreate) -> HoldPlan:
        store = domain.find(context.datastores(), request.id, "active")
        holds.check_new(request.tag, _tags(context, request.id, request.snapshot))
        return _plan(store, request.snapshot, request.tag)

    def run(self, context: Context, plan: HoldPlan, job_id: str, advance: Advance) -> HoldResult:
        advance("holding it", 10)
        with contextlib.suppress(zfs.HoldExists):  # a job that was resumed may have done it
            context.engine.hold([plan.name], plan.tag)
        return _done(context, plan)


class Release(Operation[requests.ReleaseSnapshot, HoldPlan]):
    """Releases a hold. Refused for holds of the appliance and of `zfs send`: they end by themselves."""

    kind = "snapshot.release"

    def plan(self, context: Context, request: requests.ReleaseSnapshot) -> HoldPlan:
        store = domain.find(context.datastores(), request.id, "active", "deleted")
        holds.check_release(request.tag, _tags(context, request.id, request.snapshot))
        return _plan(store, request.snapshot, request.tag)

    def run(self, context: Context, plan: HoldPlan, job_id: str, advance: Advance) -> HoldResult:
        advance("releasing it", 10)
        with contextlib.suppress(zfs.NoSuchHold):  # a job that was resumed may have done it
            context.engine.release([plan.name], plan.tag)
        return _done(context, plan)


OPERATIONS = by_kind(Hold(), Release())
