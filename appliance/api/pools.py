# SPDX-License-Identifier: Apache-2.0
"""Pools."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import ForceQuery, ListQuery
from appliance.api.schemas.journal import JobTold
from appliance.api.schemas.pools import (
    DeviceAsked,
    DiskPage,
    ExtendAsked,
    ImportablePage,
    ImportAsked,
    PlanAsked,
    PlanTold,
    PoolAsked,
    PoolChange,
    PoolPage,
    PoolTold,
    ReplaceAsked,
    ScrubAsked,
)
from appliance.domain import requests
from appliance.domain.access import Role
from appliance.domain.errors import NotFoundError

resource = Resource("pools")


@resource.operation("GET", "/pools", role=Role.VIEWER, query=ListQuery, answer=PoolPage)
def list_pools(call: Call, query: ListQuery) -> BaseModel:
    """Imported pools with their vdevs, space and last scan."""
    return PoolPage.model_validate(page(call.services.worker.call("pools"), query, lambda pool: str(pool["name"])))


@resource.operation("GET", "/pools/<name>", role=Role.VIEWER, answer=PoolTold)
def read_pool(call: Call, name: str) -> BaseModel:
    """One pool."""
    for pool in call.services.worker.call("pools"):
        if pool["name"] == name:
            return PoolTold.model_validate(pool)
    raise NotFoundError("pool", name)


@resource.operation(
    "PATCH", "/pools/<name>", role=Role.OPERATOR, audit="pool.change", body=PoolChange, answer=JobTold, status=202, matches=True
)
def change_pool(call: Call, name: str, body: PoolChange) -> BaseModel:
    """How full it may be before alerts and hosts are told. Kept with the pool."""
    call.match(read_pool(call, name))
    return call.submit(requests.ChangePool.of(body, pool=name))


@resource.operation(
    "POST", "/pools/<name>/scrub", role=Role.OPERATOR, audit="pool.scrub", body=ScrubAsked, answer=JobTold, status=202
)
def scrub(call: Call, name: str, body: ScrubAsked) -> BaseModel:
    """Starts, pauses or stops the scrub; the pool tells how far it is."""
    return call.submit(requests.ScrubPool(pool=name, action=body.action))


@resource.operation("GET", "/disks", role=Role.VIEWER, query=ListQuery, answer=DiskPage)
def list_disks(call: Call, query: ListQuery) -> BaseModel:
    """Block devices that could be a pool's, and by what they are used."""
    return DiskPage.model_validate(page(call.services.worker.call("disks"), query, lambda disk: str(disk["path"])))


@resource.operation("GET", "/importable-pools", role=Role.VIEWER, query=ListQuery, answer=ImportablePage)
def list_importable(call: Call, query: ListQuery) -> BaseModel:
    """Pools on the machine's devices that are not imported."""
    pools = sorted(call.services.worker.call("importable"), key=lambda pool: int(pool["guid"]))
    return ImportablePage.model_validate(page(pools, query, lambda pool: f"{pool['guid']:020}"))


@resource.operation("POST", "/pools/plan", role=Role.ADMIN, audit="pool.plan", body=PlanAsked, answer=PlanTold)
def plan_pool(call: Call, body: PlanAsked) -> BaseModel:
    """The layout that making or extending would give. Refused as that would be; changes nothing."""
    return PlanTold(layout=call.services.worker.call("pool_plan", **body.model_dump()))


@resource.operation("POST", "/pools", role=Role.ADMIN, audit="pool.create", body=PoolAsked, answer=JobTold, status=202)
def create_pool(call: Call, body: PoolAsked) -> BaseModel:
    """A new pool on empty disks."""
    return call.submit(requests.CreatePool.of(body))


@resource.operation("POST", "/pools/import", role=Role.ADMIN, audit="pool.import", body=ImportAsked, answer=JobTold, status=202)
def import_pool(call: Call, body: ImportAsked) -> BaseModel:
    """With its datastores, which keep their identities."""
    return call.submit(requests.ImportPool.of(body))


@resource.operation(
    "POST", "/pools/<name>/export", role=Role.ADMIN, audit="pool.export", query=ForceQuery, answer=JobTold, status=202
)
def export_pool(call: Call, name: str, query: ForceQuery) -> BaseModel:
    """Its datastores go out of service first. Refused while hosts are logged in, unless forced."""
    return call.submit(requests.ExportPool(pool=name, force=query.force))


@resource.operation(
    "POST", "/pools/<name>/extend", role=Role.ADMIN, audit="pool.extend", body=ExtendAsked, answer=JobTold, status=202
)
def extend_pool(call: Call, name: str, body: ExtendAsked) -> BaseModel:
    """By more vdevs. Only spares, cache and log devices can be taken out again."""
    return call.submit(requests.ExtendPool.of(body, name=name))


@resource.operation(
    "POST", "/pools/<name>/replace", role=Role.OPERATOR, audit="pool.replace", body=ReplaceAsked, answer=JobTold, status=202
)
def replace_device(call: Call, name: str, body: ReplaceAsked) -> BaseModel:
    """Begins the resilver onto a new device; the pool tells how far it is."""
    return call.submit(requests.ReplaceDevice.of(body, pool=name))


@resource.operation(
    "POST", "/pools/<name>/device", role=Role.OPERATOR, audit="pool.device", body=DeviceAsked, answer=JobTold, status=202
)
def change_device(call: Call, name: str, body: DeviceAsked) -> BaseModel:
    """Offline, online, or its error counters cleared."""
    return call.submit(requests.ChangeDevice.of(body, pool=name))
