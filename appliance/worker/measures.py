"""What is measured, at one moment: for /metrics and the support bundle. A part that does not answer is null."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import asdict
from typing import Any

from appliance.domain.errors import DomainError
from appliance.worker.context import Context, as_domain_errors


def collect(context: Context, newest: float) -> dict[str, Any]:
    """Storage not older than `newest` seconds; the target as it is now."""
    told: dict[str, Any] = {
        "storage": None,
        "target": None,
        "reconciled_at": context.reconciled_at or None,
        "reconcile_problem": context.reconcile_problem,
    }
    with contextlib.suppress(DomainError):
        told["storage"] = _storage(context, newest)
    with contextlib.suppress(DomainError), as_domain_errors():
        name = context.configuration.target.name
        status = context.target.status()
        told["target"] = {
            "version": status.version,
            "uptime_seconds": status.uptime_seconds,
            "luns_serving": status.luns_serving,
            "luns_failed": status.luns_failed,
            "sessions": dict(Counter(session.initiator for session in context.target.sessions(name))),
            "statistics": context.target.statistics(name),
            "space": context.target.space(),
        }
    return told


def _storage(context: Context, newest: float) -> dict[str, Any]:
    stores = context.datastores(newest)
    inventory = context.look(newest)
    taken = Counter(snapshot.dataset for snapshot in inventory.snapshots)
    return {
        "pools": [{**asdict(pool), "features": {}} for pool in inventory.pools],
        "datastores": [{**asdict(store), "snapshots": taken[store.dataset]} for store in stores],
    }
