# SPDX-License-Identifier: Apache-2.0
"""History: performance and capacity over time."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas import history as schemas
from appliance.api.schemas.common import ListQuery, Page
from appliance.domain import hosts
from appliance.domain.access import Role
from appliance.domain.datastores import find
from appliance.domain.errors import NotFoundError
from appliance.worker.history import DatastoreLoadResponse, datastore_key, host_key, pool_key

resource = Resource("history")


@resource.operation("GET", "/datastores/<datastore_id>/history", role=Role.VIEWER)
def read_datastore_history(call: Call, datastore_id: str, query: schemas.HistoryQuery) -> schemas.DatastoreHistoryResponse:
    """Operations, throughput, latency, offloads and space of a datastore over time."""
    find(call.worker.datastores(), datastore_id)
    load, capacity = call.worker.history.read(datastore_key(datastore_id), query.range, query.points, query.end)
    return schemas.DatastoreHistoryResponse.model_validate({"load": load, "capacity": capacity})


@resource.operation("GET", "/load", role=Role.VIEWER)
def list_load(call: Call, query: ListQuery) -> Page[DatastoreLoadResponse]:
    """Operations and throughput of each datastore over the last 10 s."""
    return page(DatastoreLoadResponse, call.worker.history.load(), query, lambda load: load.datastore)


@resource.operation("GET", "/hosts/<host_id>/history", role=Role.VIEWER)
def read_host_history(call: Call, host_id: str, query: schemas.HistoryQuery) -> schemas.HistoryResponse:
    """Operations, throughput, latency and offloads of a host over time."""
    with call.context.store.reading() as session:
        hosts.host(session, host_id)
    load, _ = call.worker.history.read(host_key(host_id), query.range, query.points, query.end)
    return schemas.HistoryResponse.model_validate({"load": load})


@resource.operation("GET", "/pools/<name>/history", role=Role.VIEWER)
def read_pool_history(call: Call, name: str, query: schemas.HistoryQuery) -> schemas.PoolHistoryResponse:
    """Operations, throughput, latency, offloads and space of a pool over time, and the day it is full."""
    history = call.worker.history
    for pool in call.worker.inventory().pools:
        if pool.name == name:
            key = pool_key(pool.guid)
            load, capacity = history.read(key, query.range, query.points, query.end)
            return schemas.PoolHistoryResponse.model_validate(
                {"load": load, "capacity": capacity, "full_at": history.full_at(key)}
            )
    raise NotFoundError("pool", name)
