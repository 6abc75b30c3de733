"""When space gets short: alerts before it is too late. What hosts are told and refused, the target decides by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.domain.datastores import VMFS, Datastore, Inventory
from appliance.domain.errors import InvalidError
from appliance.domain.journal import Finding
from appliance.domain.pool_health import FINE
from appliance.zfs.model import Dataset, Source

WARNING_PERCENT, CRITICAL_PERCENT = 80, 90
WARNING, CRITICAL = "zvaai:pool_warning", "zvaai:pool_critical"
"""User properties of a pool's root dataset: percent of the pool."""


@dataclass(frozen=True)
class Thresholds:
    """How full a pool is, in percent, when an alert warns and its hosts are told, and when the alert is critical."""

    warning: int = WARNING_PERCENT
    critical: int = CRITICAL_PERCENT

    def check(self) -> None:
        """Raises InvalidError."""
        if not 1 <= self.warning <= self.critical <= 100:
            told = f"{self.warning} and {self.critical}"
            raise InvalidError("warning_percent", f"warning and critical would be {told}", "1 to 100, warning not above critical")


def thresholds_of(root: Dataset | None) -> Thresholds:
    """As set at a pool's root dataset itself; what nobody has set, or is no such value, is the usual."""

    def percent(name: str, usual: int) -> int:
        found = root.properties.get(name) if root else None
        own = found is not None and found.source in (Source.LOCAL, Source.RECEIVED)
        return int(found.value) if own and found and found.value.isdecimal() and len(found.value) <= 3 else usual

    told = Thresholds(percent(WARNING, WARNING_PERCENT), percent(CRITICAL, CRITICAL_PERCENT))
    try:
        told.check()
    except InvalidError:
        return Thresholds()
    return told


def thresholds(inventory: Inventory) -> dict[str, Thresholds]:
    """Of each pool, by name."""
    names = {pool.name for pool in inventory.pools}
    roots = {one.name: one for one in inventory.filesystems if one.name in names}
    return {name: thresholds_of(roots.get(name)) for name in names}


def findings(inventory: Inventory, stores: Iterable[Datastore]) -> list[Finding]:
    """Of pools by how full they are and how they are; of datastores by their own threshold; of what is not served."""
    found = []
    limits = thresholds(inventory)
    for pool in inventory.pools:
        percent = 100 * pool.allocated // pool.size if pool.size else 0
        if percent >= limits[pool.name].warning:
            severity = "critical" if percent >= limits[pool.name].critical else "warning"
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
