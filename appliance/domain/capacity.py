"""When space gets short: alerts before it is too late. What hosts are told and refused, the target decides by itself."""

from __future__ import annotations

from collections.abc import Iterable

from appliance.domain.datastores import VMFS, Datastore, Inventory
from appliance.domain.journal import Finding
from appliance.domain.pool_health import FINE

WARNING_PERCENT, CRITICAL_PERCENT = 80, 90


def findings(inventory: Inventory, stores: Iterable[Datastore]) -> list[Finding]:
    """Of pools by how full they are and how they are; of datastores by their own threshold; of what is not served."""
    found = []
    for pool in inventory.pools:
        percent = 100 * pool.allocated // pool.size if pool.size else 0
        if percent >= WARNING_PERCENT:
            severity = "critical" if percent >= CRITICAL_PERCENT else "warning"
            remedy = "add vdevs, or delete snapshots and datastores; at the headroom thin datastores take no more"
            found.append(
                Finding(f"capacity:pool:{pool.name}", severity, pool.name, f"pool {pool.name} is {percent} % full", remedy)
            )
        # What is wrong with its devices and data is told by pool_health, once.
        by_devices = any(leaf.health not in FINE for vdev in pool.vdevs for leaf in vdev.devices())
        if pool.health not in ("ONLINE", "DEGRADED") or (pool.health == "DEGRADED" and not by_devices):
            severity = "warning" if pool.health == "DEGRADED" else "critical"
            found.append(
                Finding(
                    f"capacity:health:{pool.name}",
                    severity,
                    pool.name,
                    f"pool {pool.name} is {pool.health}: {pool.status}",
                    pool.action,
                )
            )
    for store in stores:
        percent = 100 * store.referenced // store.size if store.size else 0
        if store.state == "active" and store.soft_threshold is not None and percent >= store.soft_threshold:
            text = f"datastore {store.name} uses {percent} % of its size; its threshold is {store.soft_threshold} %"
            found.append(Finding(f"capacity:datastore:{store.id}", "warning", store.id, text, "grow it, or move machines away"))
        if store.state == "active" and store.thick and store.reserved < store.size:
            text = f"datastore {store.name} is to be thick, and {store.reserved} of {store.size} bytes are reserved for it"
            found.append(Finding(f"capacity:thick:{store.id}", "critical", store.id, text, "make room in the pool"))
        if store.state == "missing":
            kept = f"LUN {store.lun}" if store.kind == VMFS else f"export {store.export} ({store.share})"
            text = f"{kept} is kept for a datastore ({store.id}) of which no dataset can be seen"
            remedy = "import its pool, or forget it: zvaai datastore forget"
            found.append(Finding(f"capacity:missing:{store.id}", "warning", store.id, text, remedy))
        if store.state == "copy":
            text = f"{store.dataset} looks like datastore {store.name} and is not served: {store.copy_reason}"
            found.append(
                Finding(
                    f"capacity:copy:{store.dataset}",
                    "warning",
                    store.dataset,
                    text,
                    "adopt it with a new identity, or destroy it",
                )
            )
    return found
