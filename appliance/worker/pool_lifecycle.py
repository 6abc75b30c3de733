# SPDX-License-Identifier: Apache-2.0
"""What jobs do with a whole pool beside its creation, import and export: destroy, trim, upgrade."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from appliance.domain import datastores as domain
from appliance.domain import requests, retention
from appliance.domain.errors import ConflictError
from appliance.worker import reservations
from appliance.worker.context import Context
from appliance.worker.pool_operations import PoolPlan, PoolResult, find_pool, subject_of
from appliance.worker.snapshot_operations import held
from appliance.worker.steps import Advance, Operation, by_kind
from appliance.zfs import configuration_copies
from appliance.zfs.model import Redundancy, Role, VdevSpec

OWN = (
    domain.FOLDER,
    domain.TRASH,
    domain.ENCRYPTED,
    f"{domain.ENCRYPTED}/{domain.TRASH}",
    reservations.DATASET,
    configuration_copies.DATASET,
)
"""File systems of a pool that the appliance makes itself."""


class DestroyPlan(PoolPlan, frozen=True, kw_only=True):
    """`guid`: another pool of the name is not meant."""

    guid: str


class DestroyPool(Operation[requests.DestroyPool, DestroyPlan]):
    """Destroys a pool that has no datastores."""

    kind = "pool.destroy"

    def plan(self, context: Context, request: requests.DestroyPool) -> DestroyPlan:
        """Refused while it has datastores or protected snapshots, and other datasets unless forced."""
        pool = find_pool(context, request.pool)
        inventory = context.look(60)
        here = [store for store in context.datastores() if store.pool == pool.name and store.state in ("active", "deleted")]
        if here:
            reason = f"Cannot destroy pool {pool.name}: it has datastores. Delete and purge them first"
            raise ConflictError(reason, sorted(store.name for store in here))
        own = [one for one in inventory.snapshots if one.name.startswith((f"{pool.name}/", f"{pool.name}@"))]
        if kept := [one for one in own if retention.protected_until(one) is not None]:
            raise held(context, kept)
        found = [one.name for one in (*inventory.filesystems, *inventory.volumes) if one.name.startswith(f"{pool.name}/")]
        others = sorted(name for name in found if name.partition("/")[2] not in OWN)
        if others and not request.force:
            raise ConflictError(f"Cannot destroy pool {pool.name}: it has other datasets", others, can_force=True)
        name = pool.name
        return DestroyPlan(subject=subject_of(name), pools=(name,), pool=name, guid=str(pool.guid))

    def run(self, context: Context, plan: DestroyPlan, job_id: str, advance: Advance) -> PoolResult:
        """One call; a pool that is gone was destroyed before a crash."""
        advance("destroying it", 10)
        if any(str(pool.guid) == plan.guid for pool in context.engine.pools()):
            context.engine.destroy_pool(plan.pool)
        context.look()
        return PoolResult(pool=plan.pool)


class TrimPlan(PoolPlan, frozen=True, kw_only=True):
    """`start` or `stop`."""

    action: str


class TrimPool(Operation[requests.TrimPool, TrimPlan]):
    """Starts or stops the trim of a pool. The pool shows its progress."""

    kind = "pool.trim"

    def plan(self, context: Context, request: requests.TrimPool) -> TrimPlan:
        """The pool must be imported."""
        name = find_pool(context, request.pool).name
        return TrimPlan(subject=subject_of(name), pools=(name,), pool=name, action=request.action)

    def run(self, context: Context, plan: TrimPlan, job_id: str, advance: Advance) -> PoolResult:
        """One call."""
        advance(plan.action, 10)
        (context.engine.trim_start if plan.action == "start" else context.engine.trim_stop)(plan.pool)
        context.look()
        return PoolResult(pool=plan.pool)


class UpgradeResult(PoolResult, frozen=True, kw_only=True):
    """Features that were not enabled before."""

    features: list[str] | UnsetType = UNSET


class UpgradePool(Operation[requests.UpgradePool, PoolPlan]):
    """Enables all features of this OpenZFS. Older versions can't import the pool afterwards."""

    kind = "pool.upgrade"

    def plan(self, context: Context, request: requests.UpgradePool) -> PoolPlan:
        """The pool must be imported."""
        name = find_pool(context, request.pool).name
        return PoolPlan(subject=subject_of(name), pools=(name,), pool=name)

    def run(self, context: Context, plan: PoolPlan, job_id: str, advance: Advance) -> UpgradeResult:
        """One call, which may be made again."""
        advance("upgrading it", 10)
        enabled = context.engine.upgrade_pool(plan.pool)
        context.look()
        return UpgradeResult(pool=plan.pool, features=list(enabled))


def warnings(vdevs: Sequence[VdevSpec]) -> list[str]:
    """What a layout lacks that an admin should know before the pool is created."""
    single = [one for one in vdevs if one.redundancy == Redundancy.STRIPE and one.role in (Role.DATA, Role.SPECIAL, Role.DEDUP)]
    devices = [device for one in single for device in one.devices]
    if not devices:
        return []
    return [f"No redundancy: if {' or '.join(devices[:5])} fails, all data of the pool is lost. Use a mirror or raidz."]


OPERATIONS = by_kind(DestroyPool(), TrimPool(), UpgradePool())
