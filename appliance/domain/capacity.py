# SPDX-License-Identifier: Apache-2.0
"""Alerts for when space gets short. The target decides by itself when to warn hosts and when to refuse their writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from types import MappingProxyType

from appliance.domain.datastores import VMFS, Datastore, Inventory
from appliance.domain.errors import InvalidError
from appliance.domain.identity import UUID, has_its_guid, is_surely_another
from appliance.domain.journal import Finding
from appliance.domain.pool_health import FINE, LOST, unlisted
from appliance.zfs.model import Dataset, Filesystem, Pool, Source

COPY_REMEDY = (
    "bring the original back; or, if it is lost, let a copy take its place (zvaai datastore adopt DATASET NAME --keep-identity), "
    "or be another datastore (without --keep-identity)"
)
"""Remedy for a copy that may be the only data left."""
LUN_REMEDY = "zvaai pool list; zpool status. The target tries again by itself. Its log: zvaai logs --unit zvaai-target"
"""Remedy for a LUN that the target cannot serve."""
ROOM_REMEDY = "Add vdevs, delete snapshots, or purge deleted datastores (zvaai datastore list --state deleted)"
"""Remedy for a pool without space. A deleted datastore keeps its space until it is purged."""
WARNING_PERCENT, CRITICAL_PERCENT = 80, 90
RESERVED_PERCENT = 5
"""OpenZFS holds back some 3 % of a pool: with less difference, only the use of the disks is reported."""
MIB = 1 << 20
CLEARED_BELOW_PERCENT = 2
"""Snapshots and UNMAP move a pool around a threshold: without this each crossing would be a mail."""
UNREAD_S = 60.0
"""After a boot, many snapshots on hard disks are read for longer than the pools of SSDs: such a pool does not hang."""
WARNING, CRITICAL = "zvaai:pool_warning", "zvaai:pool_critical"
"""User properties of a pool's root dataset: percent of the pool."""


@dataclass(frozen=True)
class Thresholds:
    """Percentages used at which an alert warns (hosts are warned too), and at which it is critical."""

    warning: int = WARNING_PERCENT
    critical: int = CRITICAL_PERCENT

    def check(self) -> None:
        """Raises InvalidError."""
        if not 1 <= self.warning <= self.critical <= 100:
            both = f"{self.warning} and {self.critical}"
            raise InvalidError("warning_percent", f"warning and critical would be {both}", "1 to 100, warning not above critical")


def thresholds_of(root: Dataset | None) -> Thresholds:
    """Thresholds set at a pool's root dataset itself; defaults for missing and invalid values."""

    def percent(name: str, usual: int) -> int:
        prop = root.properties.get(name) if root else None
        is_set = prop is not None and prop.source in (Source.LOCAL, Source.RECEIVED)
        return int(prop.value) if is_set and prop and prop.value.isdecimal() and len(prop.value) <= 3 else usual

    thresholds = Thresholds(percent(WARNING, WARNING_PERCENT), percent(CRITICAL, CRITICAL_PERCENT))
    try:
        thresholds.check()
    except InvalidError:
        return Thresholds()
    return thresholds


def roots_of(inventory: Inventory) -> dict[str, Filesystem]:
    """The root dataset of each pool that can be read, by the pool's name."""
    names = {pool.name for pool in inventory.pools}
    return {filesystem.name: filesystem for filesystem in inventory.filesystems if filesystem.name in names}


def thresholds(inventory: Inventory, before: Mapping[int, Thresholds] = MappingProxyType({})) -> dict[str, Thresholds]:
    """Thresholds of each pool, by name. For a pool whose root dataset cannot be read because it is suspended, those of `before`,
    by GUID.
    """
    roots = roots_of(inventory)
    visible = {pool.name: thresholds_of(roots[pool.name]) for pool in inventory.pools if pool.name in roots}
    known = {pool.name: before[pool.guid] for pool in inventory.pools if pool.guid in before}
    return known | visible


def _severity(percent: int, limit: Thresholds, before: str | None) -> str | None:
    """By the thresholds. With an open alert of severity `before` it lowers only CLEARED_BELOW_PERCENT below one."""
    if percent >= limit.critical - (CLEARED_BELOW_PERCENT if before == "critical" else 0):
        return "critical"
    return "warning" if percent >= limit.warning - (CLEARED_BELOW_PERCENT if before else 0) else None


def room(pool: Pool, root: Dataset) -> tuple[int, int]:
    """Bytes used or reserved, and usable bytes: those of datasets, without parity and what OpenZFS holds back."""
    # For datasets a block counts as often as it is cloned. With parity they can use less than `size`; with dedup they seem to
    # use more.
    usable = max(0, min(root.space.used + root.space.available - pool.bclone_saved, pool.size))
    return max(0, usable - root.space.available), usable


def fullness(pool: Pool, root: Dataset | None) -> tuple[int, str]:
    """Used percent of a pool, and a text about it. It counts reserved space if that leaves clearly less room than the disks."""
    percent = 100 * pool.allocated // pool.size if pool.size else 0
    if root is not None:
        used, usable = room(pool, root)
        taken = 100 * used // usable if usable else percent
        if taken > percent + RESERVED_PERCENT:
            return taken, f"{taken} % of pool {pool.name} are used or reserved ({percent} % are used)"
    return percent, f"pool {pool.name} is {percent} % full"


def is_full(root: Dataset, *, before: bool) -> bool:
    """Whether less than the target's default headroom is left (zvol_target/docs/space.md). After an open alert (`before`), 5/4 of
    it must be left.
    """
    total = root.space.used + root.space.available
    headroom = min(max(total // 64, 64 * MIB), 4096 * MIB, total // 8)
    return root.space.available < headroom + (headroom // 4 if before else 0)


def findings(
    inventory: Inventory,
    stores: Sequence[Datastore],
    before: Mapping[int, Thresholds] = MappingProxyType({}),
    opened: Mapping[str, str] = MappingProxyType({}),
) -> list[Finding]:
    """Findings about pools by their usage and health, about datastores by their thresholds, and about datastores that are not
    served. `before` as for `thresholds`; `opened` has the severities of open alerts by key.
    """
    findings = []
    limits, roots = thresholds(inventory, before), roots_of(inventory)
    for pool in inventory.pools:
        root = roots.get(pool.name)
        (percent, text), limit = fullness(pool, root), limits.get(pool.name, Thresholds())
        key = f"capacity:pool:{pool.name}"
        if severity := _severity(percent, limit, opened.get(key)):
            findings.append(Finding(key, severity, pool.name, text, ROOM_REMEDY))
        # A separate key: who acknowledged that the pool gets full does not know yet that it is full.
        key = f"capacity:full:{pool.name}"
        has_thin = any(store.pool == pool.name and store.state == "active" and not store.thick for store in stores)
        if root is not None and has_thin and is_full(root, before=key in opened):
            text = f"Pool {pool.name} is full: thin datastores take no new data, and ESXi pauses VMs that need space"
            findings.append(Finding(key, "critical", pool.name, text, ROOM_REMEDY))
        key = f"capacity:health:{pool.name}"
        if 0 < pool.unread_seconds < UNREAD_S and opened.get(key) != "critical":
            continue
        # Faults of its devices and data are reported by pool_health.
        by_devices = any(leaf.health not in FINE for leaf in pool.devices())
        if pool.health not in ("ONLINE", "DEGRADED") or (pool.health == "DEGRADED" and not by_devices):
            severity = "warning" if pool.health == "DEGRADED" else "critical"
            findings.append(
                Finding(
                    key,
                    severity,
                    pool.name,
                    f"pool {pool.name} is {pool.health}: {pool.status}",
                    pool.action,
                )
            )
    for store in stores:
        percent = 100 * store.referenced // store.size if store.size else 0
        key, threshold = f"capacity:datastore:{store.id}", store.soft_threshold
        lowered = CLEARED_BELOW_PERCENT if key in opened else 0
        if store.state == "active" and threshold is not None and percent >= threshold - lowered:
            text = f"datastore {store.name} uses {percent} % of its size; its threshold is {threshold} %"
            command = f"zvaai datastore {'grow' if store.kind == VMFS else 'quota'} {quote(store.name)} SIZE"
            remedy = f"Move VMs to another datastore, or run: {command}"
            findings.append(Finding(key, "warning", store.id, text, remedy))
        if store.state == "active" and (store.becoming_thick or (store.thick and store.reserved < store.guaranteed)):
            had = f"{store.reserved} of {store.guaranteed}"
            text, remedy = f"Thick datastore {store.name} has {had} bytes reserved: the pool lacks the rest", ROOM_REMEDY
            if store.becoming_thick:
                text = f"Datastore {store.name} was not made thick, and not thin again: {had} bytes are reserved"
                remedy = f"Repeat the change, or make it thin: zvaai datastore change {quote(store.name)} --thin"
            findings.append(Finding(f"capacity:thick:{store.id}", "critical", store.id, text, remedy))
    for store in absent(inventory.pools, stores):
        address = f"LUN {store.lun}" if store.kind == VMFS else f"export {store.export} ({store.share})"
        of_pool = f" of pool {store.former_pool}" if store.former_pool else ""
        text = f"datastore {store.name}{of_pool} is missing. {address} is reserved for it"
        findings.append(Finding(f"capacity:missing:{store.id}", "critical", store.id, text, absent_remedy(store)))
    return findings + _copies(inventory, stores)


def absent(pools: Iterable[Pool], stores: Iterable[Datastore]) -> list[Datastore]:
    """Missing datastores. Without those of a pool that cannot be listed, or of no known pool: their datasets can be in it."""
    hidden = {pool.name for pool in pools if unlisted(pool)}
    missing = [store for store in stores if store.state == "missing"]
    return [store for store in missing if not hidden or (store.former_pool and store.former_pool not in hidden)]


def absent_remedy(store: Datastore) -> str:
    pool = quote(store.former_pool) if store.former_pool else "POOL"
    return f"Import its pool: zvaai pool import {pool}. Or give it up: zvaai datastore forget {store.id}"


def copy_remedy(pools: Iterable[Pool]) -> str:
    """For a copy that may be the only data left. It must not replace data in a pool that only cannot be listed."""
    hidden = ", ".join(pool.name for pool in pools if unlisted(pool))
    return f"Pool {hidden} cannot be read, and can have the original. {LOST}" if hidden else COPY_REMEDY


def copy_remedies(stores: Sequence[Datastore], datasets: Mapping[str, Dataset], pools: Iterable[Pool]) -> dict[str, str]:
    """Remedies for copies that are a problem, by dataset. A replica is one only if its original is missing here: not next to the
    original, and not on a standby server.
    """
    existing = {store.uuid for store in stores if store.state in ("active", "deleted")}
    missing = {store.uuid for store in stores if store.state == "missing"}
    remedies, otherwise = {}, copy_remedy(pools)
    for store in stores:
        dataset = datasets.get(store.dataset)
        if store.state != "copy" or (dataset is not None and store.copy_of not in missing and _is_replica(dataset)):
            continue
        is_new = store.copy_of in existing and dataset is not None and not has_its_guid(dataset)
        remedies[store.dataset] = f"zvaai datastore adopt {quote(store.dataset)} NAME --group GROUP" if is_new else otherwise
    return remedies


def _is_replica(dataset: Dataset) -> bool:
    """By `zfs send -p`, or by a tool that sets the properties itself, as syncoid does. A child that inherits is none."""
    return is_surely_another(dataset) and dataset.properties[UUID].source != Source.INHERITED


def _copies(inventory: Inventory, stores: Sequence[Datastore]) -> list[Finding]:
    copies = {store.dataset: store for store in stores if store.state == "copy"}
    if not copies:
        return []
    datasets: dict[str, Dataset] = {dataset.name: dataset for dataset in (*inventory.volumes, *inventory.filesystems)}
    findings, perhaps_last = [], copy_remedy(inventory.pools)
    for name, remedy in copy_remedies(stores, datasets, inventory.pools).items():
        store = copies[name]
        served = "" if remedy == perhaps_last else " and is not served"  # otherwise its LUN or export can still exist
        text = f"{name} looks like datastore {store.name}{served}: {store.copy_reason}"
        findings.append(Finding(f"capacity:copy:{name}", "warning", name, text, remedy))
    return findings
