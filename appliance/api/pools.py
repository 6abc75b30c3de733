# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from __future__ import annotations

from dataclasses import asdict, fields

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import ForceQuery, ListQuery
from appliance.api.schemas.journal import JobResponse
from appliance.api.schemas.pools import (
    DeviceName,
    DeviceUpdate,
    DiskPage,
    DiskResponse,
    ExtendRequest,
    ImportablePage,
    ImportRequest,
    PlanCreate,
    PlanResponse,
    PoolCreate,
    PoolPage,
    PoolResponse,
    PoolUpdate,
    ReplaceRequest,
    ScrubRequest,
    TrimRequest,
)
from appliance.domain import requests
from appliance.domain.access import Role
from appliance.domain.capacity import Thresholds
from appliance.domain.disks import DiskReport
from appliance.domain.errors import ForbiddenError, NotFoundError
from appliance.worker import pool_operations
from appliance.worker.pools import vdevs_of
from appliance.zfs.model import Pool

resource = Resource("pools")


@resource.operation("GET", "/pools", role=Role.VIEWER, query=ListQuery, answer=PoolPage)
def list_pools(call: Call, query: ListQuery) -> BaseModel:
    """Imported pools with their vdevs, space and last scan."""
    return PoolPage.model_validate(page(call.worker.pools(), query, lambda one: one[0].name).each(lambda one: _shown(*one)))


def _shown(pool: Pool, limits: Thresholds) -> PoolResponse:
    own = {field.name: getattr(pool, field.name) for field in fields(pool)} | {"upgradable": pool.upgradable}
    return PoolResponse.model_validate(own | {"warning_percent": limits.warning, "critical_percent": limits.critical})


@resource.operation("GET", "/pools/<name>", role=Role.VIEWER, answer=PoolResponse)
def read_pool(call: Call, name: str) -> BaseModel:
    """A pool."""
    for pool, limits in call.worker.pools():
        if pool.name == name:
            return _shown(pool, limits)
    raise NotFoundError("pool", name)


@resource.operation(
    "PATCH",
    "/pools/<name>",
    role=Role.OPERATOR,
    audit="pool.change",
    body=PoolUpdate,
    answer=JobResponse,
    status=202,
    matches=True,
)
def change_pool(call: Call, name: str, body: PoolUpdate) -> BaseModel:
    """Sets the pool's capacity alert thresholds. They are stored with the pool."""
    call.match(read_pool(call, name))
    return call.submit(requests.ChangePool.of(body, pool=name))


@resource.operation(
    "POST", "/pools/<name>/scrub", role=Role.OPERATOR, audit="pool.scrub", body=ScrubRequest, answer=JobResponse, status=202
)
def scrub(call: Call, name: str, body: ScrubRequest) -> BaseModel:
    """Starts, pauses or stops the scrub. The pool shows its progress."""
    return call.submit(requests.ScrubPool(pool=name, action=body.action))


def _only_admins(call: Call, force: bool) -> None:
    if force and call.who.role < Role.ADMIN:
        raise ForbiddenError("only an admin may force this: it destroys what the device carries")


@resource.operation(
    "POST", "/pools/<name>/trim", role=Role.OPERATOR, audit="pool.trim", body=TrimRequest, answer=JobResponse, status=202
)
def trim(call: Call, name: str, body: TrimRequest) -> BaseModel:
    """Starts or stops the trim of a pool. Its devices show the progress."""
    return call.submit(requests.TrimPool(pool=name, action=body.action))


@resource.operation("POST", "/pools/<name>/upgrade", role=Role.ADMIN, audit="pool.upgrade", answer=JobResponse, status=202)
def upgrade_pool(call: Call, name: str) -> BaseModel:
    """Enables all features of this OpenZFS. Older versions can't import the pool afterwards."""
    return call.submit(requests.UpgradePool(pool=name))


@resource.operation(
    "DELETE",
    "/pools/<name>",
    role=Role.ADMIN,
    audit="pool.destroy",
    query=ForceQuery,
    answer=JobResponse,
    status=202,
    matches=True,
)
def destroy_pool(call: Call, name: str, query: ForceQuery) -> BaseModel:
    """Destroys a pool that has no datastores. Refused while it has other datasets, unless forced."""
    call.match(read_pool(call, name))
    return call.submit(requests.DestroyPool(pool=name, force=query.force))


@resource.operation("GET", "/disks", role=Role.VIEWER, query=ListQuery, answer=DiskPage)
def list_disks(call: Call, query: ListQuery) -> BaseModel:
    """Block devices that could be a pool's, and by what they are used."""
    return DiskPage.model_validate(page(call.worker.watch.disks(), query, lambda one: one.disk.path).each(_disk))


def _disk(report: DiskReport) -> DiskResponse:
    smart = None if report.smart is None else {**asdict(report.smart), "read_at": report.read_at}
    return DiskResponse.model_validate({**asdict(report.disk), "smart": smart})


@resource.operation("GET", "/importable-pools", role=Role.VIEWER, query=ListQuery, answer=ImportablePage)
def list_importable(call: Call, query: ListQuery) -> BaseModel:
    """Pools on the machine's devices that are not imported."""
    pools = sorted(call.worker.importable(), key=lambda pool: pool.guid)
    return ImportablePage.model_validate(page(pools, query, lambda pool: f"{pool.guid:020}"))


@resource.operation("POST", "/pools/plan", role=Role.ADMIN, audit="pool.plan", body=PlanCreate, answer=PlanResponse)
def plan_pool(call: Call, body: PlanCreate) -> BaseModel:
    """The layout that making or extending would give. Refused as that would be; changes nothing."""
    request = requests.PlanPool.of(body)
    layout = pool_operations.dry_run(call.context, request)
    return PlanResponse(layout=layout, warnings=pool_operations.warnings(vdevs_of(request.vdevs)))


@resource.operation("POST", "/pools", role=Role.ADMIN, audit="pool.create", body=PoolCreate, answer=JobResponse, status=202)
def create_pool(call: Call, body: PoolCreate) -> BaseModel:
    """A new pool on empty disks."""
    return call.submit(requests.CreatePool.of(body))


@resource.operation(
    "POST", "/pools/import", role=Role.ADMIN, audit="pool.import", body=ImportRequest, answer=JobResponse, status=202
)
def import_pool(call: Call, body: ImportRequest) -> BaseModel:
    """With its datastores, which keep their identities."""
    return call.submit(requests.ImportPool.of(body))


@resource.operation(
    "POST", "/pools/<name>/export", role=Role.ADMIN, audit="pool.export", query=ForceQuery, answer=JobResponse, status=202
)
def export_pool(call: Call, name: str, query: ForceQuery) -> BaseModel:
    """Its datastores go out of service first. Refused while hosts are logged in, unless forced."""
    return call.submit(requests.ExportPool(pool=name, force=query.force))


@resource.operation(
    "POST", "/pools/<name>/extend", role=Role.ADMIN, audit="pool.extend", body=ExtendRequest, answer=JobResponse, status=202
)
def extend_pool(call: Call, name: str, body: ExtendRequest) -> BaseModel:
    """By more vdevs. Only spares, cache and log devices can be taken out again."""
    return call.submit(requests.ExtendPool.of(body, name=name))


@resource.operation(
    "POST", "/pools/<name>/replace", role=Role.OPERATOR, audit="pool.replace", body=ReplaceRequest, answer=JobResponse, status=202
)
def replace_device(call: Call, name: str, body: ReplaceRequest) -> BaseModel:
    """Starts the resilver onto a new device; the pool shows its progress. Only an admin may force it onto a device with data."""
    _only_admins(call, body.force)
    return call.submit(requests.ReplaceDevice.of(body, pool=name))


@resource.operation(
    "POST", "/pools/<name>/attach", role=Role.OPERATOR, audit="pool.attach", body=ReplaceRequest, answer=JobResponse, status=202
)
def attach_device(call: Call, name: str, body: ReplaceRequest) -> BaseModel:
    """Attaches a new device to a single one, or to a mirror, and starts the resilver. Only an admin may force it."""
    _only_admins(call, body.force)
    return call.submit(requests.AttachDevice.of(body, pool=name))


@resource.operation(
    "POST", "/pools/<name>/detach", role=Role.ADMIN, audit="pool.detach", body=DeviceName, answer=JobResponse, status=202
)
def detach_device(call: Call, name: str, body: DeviceName) -> BaseModel:
    """Detaches a device from its mirror, or ends a replacement."""
    return call.submit(requests.DetachDevice(pool=name, device=body.device))


@resource.operation(
    "POST", "/pools/<name>/remove", role=Role.ADMIN, audit="pool.remove", body=DeviceName, answer=JobResponse, status=202
)
def remove_device(call: Call, name: str, body: DeviceName) -> BaseModel:
    """Removes a spare, a cache or a log device; a mirror of logs as a whole."""
    return call.submit(requests.RemoveDevice(pool=name, device=body.device))


@resource.operation(
    "POST", "/pools/<name>/device", role=Role.OPERATOR, audit="pool.device", body=DeviceUpdate, answer=JobResponse, status=202
)
def change_device(call: Call, name: str, body: DeviceUpdate) -> BaseModel:
    """Offline, online, or its error counters cleared."""
    return call.submit(requests.ChangeDevice.of(body, pool=name))
