# SPDX-License-Identifier: Apache-2.0
"""Measurements for /metrics and the support bundle. A part that does not answer is None."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass

from appliance.dataplane.ganesha import ExportRefusedError, GaneshaUnreachableError
from appliance.domain import exports
from appliance.domain.datastores import Datastore
from appliance.domain.errors import DomainError
from appliance.domain.statistics import Json
from appliance.worker import nfs_serving
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.zfs.model import Pool


@dataclass(frozen=True)
class Storage:
    """Pools and datastores, and the number of snapshots by dataset."""

    pools: list[Pool]
    datastores: list[Datastore]
    snapshots: dict[str, int]


@dataclass(frozen=True)
class Target:
    """Status of the target, sessions by initiator, and its responses of `statistics.get` and `space.get`."""

    version: str
    uptime_seconds: float
    luns_serving: int
    luns_failed: int
    sessions: dict[str, int]
    statistics: Json
    space: Json


@dataclass(frozen=True)
class Export:
    """An export, and how many clients may be using it."""

    datastore: str
    export: int
    share: str
    served: bool
    clients: int


@dataclass(frozen=True)
class Nfs:
    """The NFS server: its exports, clients heard of lately, its response of `statistics.get`, and datastores by path."""

    exports: list[Export] | None
    clients: int
    counters: Json | None
    paths: dict[str, str]


@dataclass(frozen=True)
class Measures:
    """Storage, data planes as they are now, and the last reconciliation. `nfs` is None without NFS datastores too."""

    storage: Storage | None
    target: Target | None
    nfs: Nfs | None
    reconciled_at: float | None
    reconcile_problem: str | None


def collect(context: Context, newest: float) -> Measures:
    """Storage not older than `newest` seconds; target and NFS server as they are now."""
    storage, target, nfs = None, None, None
    with contextlib.suppress(DomainError):
        stores, inventory = context.datastores(newest), context.scan(newest)
        storage = Storage(list(inventory.pools), stores, dict(Counter(one.dataset for one in inventory.snapshots)))
    with contextlib.suppress(DomainError), as_domain_errors():
        status, sessions = context.target.status(), dict(Counter(session.initiator for session in context.sessions()))
        target = Target(
            status.version, status.uptime_seconds, status.luns_serving, status.luns_failed, sessions,
            context.target.statistics(context.configuration.target.name), context.target.space(),
        )  # fmt: skip
    with contextlib.suppress(DomainError):
        nfs = _nfs(context, newest)
    return Measures(storage, target, nfs, context.reconciling.at or None, context.reconciling.problem)


def _nfs(context: Context, newest: float) -> Nfs | None:
    exported = [store for store in context.datastores(newest) if store.export is not None and store.state == "active"]
    if not exported:
        return None
    found, now_there, counters = None, 0, None
    with contextlib.suppress(GaneshaUnreachableError, ExportRefusedError):
        served, clients = {one.export_id: one for one in context.nfs.served() if one.served}, context.nfs.clients()
        with context.store.reading() as session:
            names = {store.id: exports.addresses(session, store.host_groups) for store in exported}
        now_there = sum(clients.now - client.seen_at < exports.IDLE_SECONDS for client in clients.known)
        found = []
        for store in exported:
            export = served.get(store.export or 0)
            users = nfs_serving.using(export, clients, names[store.id], store.clients) if export else []
            found.append(Export(store.id, store.export or 0, store.share or "", export is not None, len(users)))
    with contextlib.suppress(GaneshaUnreachableError):
        counters = context.files.counters()
    return Nfs(found, now_there, counters, {path: store.id for store in exported for path in (store.path, store.share) if path})
