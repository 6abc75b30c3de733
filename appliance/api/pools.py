"""Pools."""

from __future__ import annotations

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas import JobTold, ListQuery, PoolPage, PoolTold, ScrubAsked
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
    "POST", "/pools/<name>/scrub", role=Role.OPERATOR, audit="pool.scrub", body=ScrubAsked, answer=JobTold, status=202
)
def scrub(call: Call, name: str, body: ScrubAsked) -> BaseModel:
    """Starts, pauses or stops the scrub; the pool tells how far it is."""
    return call.submit("pool.scrub", pool=name, action=body.action)
