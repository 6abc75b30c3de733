# SPDX-License-Identifier: Apache-2.0
"""Measurements for /metrics and the support bundle. A part that does not answer is null."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import asdict
from typing import Any

from appliance.dataplane.ganesha import ExportRefusedError, GaneshaUnreachableError
from appliance.domain import exports
from appliance.domain.errors import DomainError
from appliance.worker import nfs_serving
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors


def collect(context: Context, newest: float) -> dict[str, Any]:
    """Storage not older than `newest` seconds; target and NFS server as they are now. `nfs` is null without NFS datastores."""
    result: dict[str, Any] = {
        "storage": None,
        "target": None,
        "nfs": None,
        "reconciled_at": context.reconciling.at or None,
        "reconcile_problem": context.reconciling.problem,
    }
    with contextlib.suppress(DomainError):
        result["storage"] = _storage(context, newest)
    with contextlib.suppress(DomainError), as_domain_errors():
        name = context.configuration.target.name
        status = context.target.status()
        result["target"] = {
            "version": status.version,
            "uptime_seconds": status.uptime_seconds,
            "luns_serving": status.luns_serving,
            "luns_failed": status.luns_failed,
            "sessions": dict(Counter(session.initiator for session in context.target.sessions(name))),
            "statistics": context.target.statistics(name),
            "space": context.target.space(),
        }
    with contextlib.suppress(DomainError):
        result["nfs"] = _nfs(context, newest)
    return result


def _nfs(context: Context, newest: float) -> dict[str, Any] | None:
    """Exports with their number of users as ganesha reports them, and offload counters; null if unavailable."""
    exported = [store for store in context.datastores(newest) if store.export is not None and store.state == "active"]
    if not exported:
        return None
    result: dict[str, Any] = {"exports": None, "clients": None, "counters": None}
    with contextlib.suppress(GaneshaUnreachableError, ExportRefusedError):
        served, clients = {one.export_id: one for one in context.nfs.served() if one.served}, context.nfs.clients()
        with context.store.reading() as session:
            names = {store.id: exports.addresses(session, store.host_groups) for store in exported}
        result["clients"] = sum(clients.now - client.seen_at < exports.IDLE_SECONDS for client in clients.known)
        result["exports"] = [
            {"datastore": store.id, "export": store.export, "share": store.share, "served": store.export in served,
             "clients": len(nfs_serving.using(served[store.export or 0], clients, names[store.id], store.clients))
             if store.export in served else 0}
            for store in exported
        ]  # fmt: skip
    with contextlib.suppress(GaneshaUnreachableError):
        result["counters"] = context.files.counters()
    result["paths"] = {path: store.id for store in exported for path in (store.path, store.share) if path}
    return result


def _storage(context: Context, newest: float) -> dict[str, Any]:
    stores = context.datastores(newest)
    inventory = context.scan(newest)
    taken = Counter(snapshot.dataset for snapshot in inventory.snapshots)
    return {
        "pools": [{**asdict(pool), "features": {}} for pool in inventory.pools],
        "datastores": [{**asdict(store), "snapshots": taken[store.dataset]} for store in stores],
    }
