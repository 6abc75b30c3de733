# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from dataclasses import asdict, fields

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import pools as schemas
from appliance.api.schemas.common import ListQuery, Page
from appliance.domain import requests
from appliance.domain.access import Role
from appliance.domain.capacity import Thresholds, fullness, room
from appliance.domain.disks import DiskReport
from appliance.domain.errors import ForbiddenError, NotFoundError
from appliance.worker import pool_operations
from appliance.zfs.model import Filesystem, Pool

resource = Resource("pools", name="pool")


@resource.operation("GET", "/pools", role=Role.VIEWER)
def list_pools(call: Call, query: ListQuery) -> Page[schemas.PoolResponse]:
    """Imported pools with their vdevs, space and last scan."""
    return page(schemas.PoolResponse, call.worker.pools(), query, lambda row: row[0].name, lambda row: _shown(*row))


def _shown(pool: Pool, limits: Thresholds, root: Filesystem | None) -> schemas.PoolResponse:
    values = {field.name: getattr(pool, field.name) for field in fields(pool)}
    values |= {
        "upgradable": pool.upgradable, "available": root.space.available if root else None,
        "usable": room(pool, root)[1] if root else None,
        "used_percent": fullness(pool, root)[0], "warning_percent": limits.warning, "critical_percent": limits.critical,
    }  # fmt: skip
    return schemas.PoolResponse.model_validate(values)


@resource.operation("GET", "/pools/<name>", role=Role.VIEWER)
def read_pool(call: Call, name: str) -> schemas.PoolResponse:
    """A pool."""
    for row in call.worker.pools():
        if row[0].name == name:
            return _shown(*row)
    raise NotFoundError("pool", name)


def _only_admins_force(call: Call, request: requests.ReplacementCreate) -> None:
    if request.force and call.who.role < Role.ADMIN:
        raise ForbiddenError("only an admin may force this: it destroys what the device carries")


@resource.operation("GET", "/disks", role=Role.VIEWER)
def list_disks(call: Call, query: ListQuery) -> Page[schemas.DiskResponse]:
    """Block devices that could be a pool's, and by what they are used."""
    return page(schemas.DiskResponse, call.worker.watch.disks(), query, lambda report: report.disk.path, _disk)


def _disk(report: DiskReport) -> schemas.DiskResponse:
    smart = None if report.smart is None else {**asdict(report.smart), "severity": report.severity, "read_at": report.read_at}
    return schemas.DiskResponse.model_validate({**asdict(report.disk), "smart": smart})


@resource.operation("GET", "/importable-pools", role=Role.VIEWER)
def list_importable(call: Call, query: ListQuery) -> Page[schemas.ImportableResponse]:
    """Pools on the machine's devices that are not imported."""
    pools = sorted(call.context.engine.importable(), key=lambda pool: pool.guid)
    return page(schemas.ImportableResponse, pools, query, lambda pool: f"{pool.guid:020}")


@resource.operation("POST", "/pools/plan", role=Role.ADMIN, audit="pool.plan")
def plan_pool(call: Call, body: requests.PlanCreate) -> schemas.PlanResponse:
    """The layout that making or extending would give. Refused as that would be; changes nothing."""
    layout = pool_operations.dry_run(call.context, body.name, body.specs, force=body.force, extend=body.extend)
    warnings = pool_operations.warnings(body.specs)
    if not body.extend:
        warnings += pool_operations.slow_writes(body.specs, (report.disk for report in call.worker.watch.disks()))
    return schemas.PlanResponse(layout=layout, warnings=warnings)


resource.job("POST", "/pools", Role.ADMIN, requests.PoolCreate)
resource.job("PATCH", "/pools/<name>", Role.OPERATOR, requests.PoolUpdate, matches=read_pool)
resource.job("DELETE", "/pools/<name>", Role.ADMIN, requests.DestroyPool, query=True, matches=read_pool)
resource.job("POST", "/pools/import", Role.ADMIN, requests.ImportCreate)
resource.job("POST", "/pools/<name>/export", Role.ADMIN, requests.ExportPool, query=True)
resource.job("POST", "/pools/<name>/extend", Role.ADMIN, requests.ExtensionCreate)
resource.job("POST", "/pools/<name>/scrub", Role.OPERATOR, requests.ScrubCreate)
resource.job("POST", "/pools/<name>/trim", Role.OPERATOR, requests.TrimCreate)
resource.job("POST", "/pools/<name>/upgrade", Role.ADMIN, requests.UpgradePool)
resource.job("POST", "/pools/<name>/replace", Role.OPERATOR, requests.ReplacementCreate, check=_only_admins_force)
resource.job("POST", "/pools/<name>/attach", Role.OPERATOR, requests.AttachmentCreate, check=_only_admins_force)
resource.job("POST", "/pools/<name>/detach", Role.ADMIN, requests.DetachmentCreate)
resource.job("POST", "/pools/<name>/remove", Role.ADMIN, requests.RemovalCreate)
resource.job("POST", "/pools/<name>/device", Role.OPERATOR, requests.DeviceUpdate)
