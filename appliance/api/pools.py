# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from dataclasses import asdict, fields

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import pools as schemas
from appliance.api.schemas.common import ForceQuery, ListQuery, Page
from appliance.api.schemas.journal import JobResponse
from appliance.domain import requests
from appliance.domain.access import Role
from appliance.domain.capacity import Thresholds
from appliance.domain.disks import DiskReport
from appliance.domain.errors import ForbiddenError, NotFoundError
from appliance.worker import pool_operations
from appliance.zfs.model import Pool

resource = Resource("pools")


@resource.operation("GET", "/pools", role=Role.VIEWER)
def list_pools(call: Call, query: ListQuery) -> Page[schemas.PoolResponse]:
    """Imported pools with their vdevs, space and last scan."""
    return page(schemas.PoolResponse, call.worker.pools(), query, lambda row: row[0].name, lambda row: _shown(*row))


def _shown(pool: Pool, limits: Thresholds) -> schemas.PoolResponse:
    values = {field.name: getattr(pool, field.name) for field in fields(pool)} | {"upgradable": pool.upgradable}
    return schemas.PoolResponse.model_validate(values | {"warning_percent": limits.warning, "critical_percent": limits.critical})


@resource.operation("GET", "/pools/<name>", role=Role.VIEWER)
def read_pool(call: Call, name: str) -> schemas.PoolResponse:
    """A pool."""
    for pool, limits in call.worker.pools():
        if pool.name == name:
            return _shown(pool, limits)
    raise NotFoundError("pool", name)


@resource.job("PATCH", "/pools/<name>", Role.OPERATOR, "pool.change", matches=True)
def change_pool(call: Call, name: str, body: schemas.PoolUpdate) -> JobResponse:
    """Sets the pool's capacity alert thresholds. They are stored with the pool."""
    call.match(read_pool(call, name))
    return call.submit(requests.ChangePool.of(body, pool=name))


@resource.job("POST", "/pools/<name>/scrub", Role.OPERATOR, "pool.scrub")
def scrub(call: Call, name: str, body: schemas.ScrubRequest) -> JobResponse:
    """Starts, pauses or stops the scrub. The pool shows its progress."""
    return call.submit(requests.ScrubPool(pool=name, action=body.action))


def _only_admins(call: Call, force: bool) -> None:
    if force and call.who.role < Role.ADMIN:
        raise ForbiddenError("only an admin may force this: it destroys what the device carries")


@resource.job("POST", "/pools/<name>/trim", Role.OPERATOR, "pool.trim")
def trim(call: Call, name: str, body: schemas.TrimRequest) -> JobResponse:
    """Starts or stops the trim of a pool. Its devices show the progress."""
    return call.submit(requests.TrimPool(pool=name, action=body.action))


@resource.job("POST", "/pools/<name>/upgrade", Role.ADMIN, "pool.upgrade")
def upgrade_pool(call: Call, name: str) -> JobResponse:
    """Enables all features of this OpenZFS. Older versions can't import the pool afterwards."""
    return call.submit(requests.UpgradePool(pool=name))


@resource.job("DELETE", "/pools/<name>", Role.ADMIN, "pool.destroy", matches=True)
def destroy_pool(call: Call, name: str, query: ForceQuery) -> JobResponse:
    """Destroys a pool that has no datastores. Refused while it has other datasets, unless forced."""
    call.match(read_pool(call, name))
    return call.submit(requests.DestroyPool(pool=name, force=query.force))


@resource.operation("GET", "/disks", role=Role.VIEWER)
def list_disks(call: Call, query: ListQuery) -> Page[schemas.DiskResponse]:
    """Block devices that could be a pool's, and by what they are used."""
    return page(schemas.DiskResponse, call.worker.watch.disks(), query, lambda report: report.disk.path, _disk)


def _disk(report: DiskReport) -> schemas.DiskResponse:
    smart = None if report.smart is None else {**asdict(report.smart), "read_at": report.read_at}
    return schemas.DiskResponse.model_validate({**asdict(report.disk), "smart": smart})


@resource.operation("GET", "/importable-pools", role=Role.VIEWER)
def list_importable(call: Call, query: ListQuery) -> Page[schemas.ImportableResponse]:
    """Pools on the machine's devices that are not imported."""
    pools = sorted(call.context.engine.importable(), key=lambda pool: pool.guid)
    return page(schemas.ImportableResponse, pools, query, lambda pool: f"{pool.guid:020}")


@resource.operation("POST", "/pools/plan", role=Role.ADMIN, audit="pool.plan")
def plan_pool(call: Call, body: schemas.PlanCreate) -> schemas.PlanResponse:
    """The layout that making or extending would give. Refused as that would be; changes nothing."""
    request = requests.PlanPool.of(body)
    layout = pool_operations.dry_run(call.context, request)
    return schemas.PlanResponse(layout=layout, warnings=pool_operations.warnings(request.vdevs))


@resource.job("POST", "/pools", Role.ADMIN, "pool.create")
def create_pool(call: Call, body: schemas.PoolCreate) -> JobResponse:
    """A new pool on empty disks."""
    return call.submit(requests.CreatePool.of(body))


@resource.job("POST", "/pools/import", Role.ADMIN, "pool.import")
def import_pool(call: Call, body: schemas.ImportRequest) -> JobResponse:
    """With its datastores, which keep their identities."""
    return call.submit(requests.ImportPool.of(body))


@resource.job("POST", "/pools/<name>/export", Role.ADMIN, "pool.export")
def export_pool(call: Call, name: str, query: ForceQuery) -> JobResponse:
    """Its datastores go out of service first. Refused while hosts are logged in, unless forced."""
    return call.submit(requests.ExportPool(pool=name, force=query.force))


@resource.job("POST", "/pools/<name>/extend", Role.ADMIN, "pool.extend")
def extend_pool(call: Call, name: str, body: schemas.ExtendRequest) -> JobResponse:
    """By more vdevs. Only spares, cache and log devices can be taken out again."""
    return call.submit(requests.ExtendPool.of(body, name=name))


@resource.job("POST", "/pools/<name>/replace", Role.OPERATOR, "pool.replace")
def replace_device(call: Call, name: str, body: schemas.ReplaceRequest) -> JobResponse:
    """Starts the resilver onto a new device; the pool shows its progress. Only an admin may force it onto a device with data."""
    _only_admins(call, body.force)
    return call.submit(requests.ReplaceDevice.of(body, pool=name))


@resource.job("POST", "/pools/<name>/attach", Role.OPERATOR, "pool.attach")
def attach_device(call: Call, name: str, body: schemas.ReplaceRequest) -> JobResponse:
    """Attaches a new device to a single one, or to a mirror, and starts the resilver. Only an admin may force it."""
    _only_admins(call, body.force)
    return call.submit(requests.AttachDevice.of(body, pool=name))


@resource.job("POST", "/pools/<name>/detach", Role.ADMIN, "pool.detach")
def detach_device(call: Call, name: str, body: schemas.DeviceName) -> JobResponse:
    """Detaches a device from its mirror, or ends a replacement."""
    return call.submit(requests.DetachDevice(pool=name, device=body.device))


@resource.job("POST", "/pools/<name>/remove", Role.ADMIN, "pool.remove")
def remove_device(call: Call, name: str, body: schemas.DeviceName) -> JobResponse:
    """Removes a spare, a cache or a log device; a mirror of logs as a whole."""
    return call.submit(requests.RemoveDevice(pool=name, device=body.device))


@resource.job("POST", "/pools/<name>/device", Role.OPERATOR, "pool.device")
def change_device(call: Call, name: str, body: schemas.DeviceUpdate) -> JobResponse:
    """Offline, online, or its error counters cleared."""
    return call.submit(requests.ChangeDevice.of(body, pool=name))
