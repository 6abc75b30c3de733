# SPDX-License-Identifier: Apache-2.0
"""Common to all jobs on datastores."""

from typing import TypedDict

from appliance.domain.datastores import Datastore
from appliance.domain.jobs import Plan


class DatastorePlan(Plan, frozen=True, kw_only=True):
    uuid: str
    dataset: str


class _OfDatastore(TypedDict):
    subject: str
    pools: tuple[str, ...]
    uuid: str
    dataset: str


def of_datastore(store: Datastore) -> _OfDatastore:
    return {"subject": store.id, "pools": (store.pool,), "uuid": store.id, "dataset": store.dataset}
