# SPDX-License-Identifier: Apache-2.0
"""History: performance and capacity over time."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from appliance.api.operation import Call, Resource, page
from appliance.api.schemas.common import ListQuery
from appliance.api.schemas.history import (
    DatastoreHistoryResponse,
    DatastoreLoadPage,
    HistoryQuery,
    HistoryResponse,
    PoolHistoryResponse,
)
from appliance.domain import hosts
from appliance.domain.access import Role
from appliance.domain.errors import NotFoundError

resource = Resource("history")


def _read(call: Call, kind: str, identifier: str, query: HistoryQuery, forecast: bool = False) -> Any:
    return call.services.worker.call("history", key=f"{kind}-{identifier}", forecast=forecast, **query.model_dump())


@resource.operation(
    "GET", "/datastores/<datastore_id>/history", role=Role.VIEWER, query=HistoryQuery, answer=DatastoreHistoryResponse
)
def read_datastore_history(call: Call, datastore_id: str, query: HistoryQuery) -> BaseModel:
    """Operations, throughput, latency, offloads and space of a datastore over time."""
    if not call.services.worker.call("datastores", id=datastore_id):
        raise NotFoundError("datastore", datastore_id)
    return DatastoreHistoryResponse.model_validate(_read(call, "datastore", datastore_id, query))


@resource.operation("GET", "/load", role=Role.VIEWER, query=ListQuery, answer=DatastoreLoadPage)
def list_load(call: Call, query: ListQuery) -> BaseModel:
    """Operations and throughput of each datastore over the last 10 s."""
    return DatastoreLoadPage.model_validate(page(call.services.worker.call("load"), query, lambda one: str(one["datastore"])))


@resource.operation("GET", "/hosts/<host_id>/history", role=Role.VIEWER, query=HistoryQuery, answer=HistoryResponse)
def read_host_history(call: Call, host_id: str, query: HistoryQuery) -> BaseModel:
    """Operations, throughput, latency and offloads of a host over time."""
    with call.services.store.reading() as session:
        hosts.host(session, host_id)
    return HistoryResponse.model_validate(_read(call, "host", host_id, query))


@resource.operation("GET", "/pools/<name>/history", role=Role.VIEWER, query=HistoryQuery, answer=PoolHistoryResponse)
def read_pool_history(call: Call, name: str, query: HistoryQuery) -> BaseModel:
    """Operations, throughput, latency, offloads and space of a pool over time, and the day it is full."""
    for pool in call.services.worker.call("pools"):
        if pool["name"] == name:
            return PoolHistoryResponse.model_validate(_read(call, "pool", str(pool["guid"]), query, forecast=True))
    raise NotFoundError("pool", name)
