# SPDX-License-Identifier: Apache-2.0
"""Space of a simulated pool by the rules of zfsprops(7): used and its four parts, available, quotas, reservations."""

from __future__ import annotations

from typing import NamedTuple

from appliance.zfs.model import Redundancy, Role, Space
from simulators.zfs.blocks import born_after, gone_from, total
from simulators.zfs.state import DatasetState, Device, PoolState, SnapshotState, Top

SLOP_SHIFT = 5
"""spa_slop_shift: a 32nd of the pool is reserved for operations that must always succeed."""
MAX_SLOP = 128 << 30

_PARITY = {Redundancy.RAIDZ1: 1, Redundancy.RAIDZ2: 2, Redundancy.RAIDZ3: 3}


def top_size(top: Top, devices: dict[str, Device]) -> int:
    """Raw bytes of a top-level vdev, parity included."""
    sizes = [devices[leaf.path].size for leaf in top.leaves if leaf.path in devices] or [0]
    return min(sizes) * (len(top.leaves) if top.redundancy in _PARITY else 1)


def usable_size(top: Top, devices: dict[str, Device]) -> int:
    """Data capacity in bytes."""
    raw, count = top_size(top, devices), len(top.leaves)
    return raw * (count - _PARITY.get(top.redundancy, 0)) // count if top.redundancy in _PARITY else raw


class Usage(NamedTuple):
    """Space of a dataset without its children."""

    by_dataset: int
    by_snapshots: int
    by_reservation: int
    referenced: int
    unique: int
    """Born after its newest snapshot."""

    @property
    def used(self) -> int:
        return self.by_dataset + self.by_snapshots + self.by_reservation


Figures = dict[int, tuple[object, Usage]]
"""Cache of usage by GUID, with its input; it outlives a SpaceMap."""


class SpaceMap:
    """Space of all datasets of one pool, computed once for a state of it."""

    def __init__(self, pool: PoolState, devices: dict[str, Device], figures: Figures) -> None:
        self._pool = pool
        data = [top for top in pool.tops if top.role in {Role.DATA, Role.SPECIAL, Role.DEDUP}]
        self.raw = sum(top_size(top, devices) for top in data)
        usable = sum(usable_size(top, devices) for top in data)
        self.usable = usable - min(usable >> SLOP_SHIFT, MAX_SLOP)
        self._ratio = self.raw / usable if usable else 1.0
        origin_guids = {dataset.origin for dataset in pool.datasets.values() if dataset.origin}
        snapshots = (snapshot for dataset in pool.datasets.values() for snapshot in dataset.snapshots) if origin_guids else ()
        origins = {snapshot.guid: snapshot for snapshot in snapshots if snapshot.guid in origin_guids}
        self._usage = {path: _usage_of(dataset, origins, figures) for path, dataset in pool.datasets.items()}
        self._children = dict.fromkeys(pool.datasets, 0)
        # Children first.
        for path in sorted(pool.datasets, key=lambda path: path.count("/"), reverse=True):
            if path:
                charge = max(self.used(path), size_of(pool.datasets[path], "reservation"))
                self._children[parent_of(path)] += charge

    def used(self, path: str) -> int:
        """Space of a dataset with its children."""
        return self._usage[path].used + self._children[path]

    @property
    def allocated(self) -> int:
        """Raw bytes in use; reservations are not."""
        return int(sum(usage.by_dataset + usage.by_snapshots for usage in self._usage.values()) * self._ratio)

    def space(self, path: str) -> Space:
        """Space of a dataset, as reported."""
        usage, children, dataset = self._usage[path], self._children[path], self._pool.datasets[path]
        available = self.room(path) + usage.by_reservation
        if refquota := size_of(dataset, "refquota"):
            available = min(available, max(0, refquota - usage.referenced))
        return Space(
            used=usage.used + children,
            available=available,
            referenced=usage.referenced,
            used_by_dataset=usage.by_dataset,
            used_by_snapshots=usage.by_snapshots,
            used_by_children=children,
            used_by_refreservation=usage.by_reservation,
            written=usage.unique,
        )

    def room(self, path: str) -> int:
        """Bytes by which `used` of a dataset may grow, after pool, quotas and reservations of it and those above."""
        used, dataset = self.used(path), self._pool.datasets[path]
        above = self.room(parent_of(path)) if path else max(0, self.usable - used)
        reserved = max(0, size_of(dataset, "reservation") - used) if path else 0
        quota = size_of(dataset, "quota")
        return min(above + reserved, max(0, quota - used)) if quota else above + reserved

    def quota_is_short(self, path: str, size: int) -> bool:
        """Whether a quota, and not the pool, leaves less than `size`."""
        return self.room(path) < size <= max(0, self.usable - self.used(""))


def _usage_of(dataset: DatasetState, origins: dict[int, SnapshotState], figures: Figures) -> Usage:
    snapshots, reserved = dataset.snapshots, size_of(dataset, "refreservation")
    ends = (snapshots[0].guid, snapshots[-1].guid) if snapshots else None
    source = (dataset.blocks, len(snapshots), ends, dataset.origin, reserved)
    known = figures.get(dataset.guid)
    if known is not None and known[0] == source:
        return known[1]
    origin = origins.get(dataset.origin)
    newest = snapshots[-1].createtxg if snapshots else (origin.createtxg if origin else 0)
    unique, referenced = born_after(dataset.blocks, newest), total(dataset.blocks)
    usage = Usage(
        by_dataset=referenced - shared_with_origin(dataset.blocks, origin),
        by_snapshots=snapshots_space(dataset, origin),
        by_reservation=max(0, reserved - unique),
        referenced=referenced,
        unique=unique,
    )
    figures[dataset.guid] = (source, usage)
    return usage


def parent_of(path: str) -> str:
    """Path of the parent; the root is its own parent."""
    return path.rpartition("/")[0]


def size_of(dataset: DatasetState, name: str) -> int:
    """A size property that is not inherited; 0 for none."""
    value = dataset.local.get(name, dataset.received.get(name, "0"))
    return int(value) if value.isdigit() else 0


def shared_with_origin(blocks: tuple[tuple[int, int], ...], origin: SnapshotState | None) -> int:
    """Bytes that belong to the origin."""
    if origin is None:
        return 0
    theirs = dict(origin.blocks)
    return sum(min(size, theirs.get(born, 0)) for born, size in blocks if born <= origin.createtxg)


def snapshots_space(dataset: DatasetState, origin: SnapshotState | None) -> int:
    """Bytes that only snapshots refer to: neither the dataset nor its origin has them."""
    seen: dict[int, int] = {}
    for snapshot in dataset.snapshots:
        for born, size in snapshot.blocks:
            seen[born] = max(seen.get(born, 0), size)
    live = dict(dataset.blocks)
    theirs = dict(origin.blocks) if origin else {}
    first = origin.createtxg if origin else 0
    return sum(max(0, size - max(live.get(born, 0), theirs.get(born, 0) if born <= first else 0)) for born, size in seen.items())


def snapshot_used(dataset: DatasetState, index: int, origin: SnapshotState | None) -> int:
    """Bytes that only this snapshot refers to."""
    snapshot = dataset.snapshots[index]
    before = dataset.snapshots[index - 1].createtxg if index else (origin.createtxg if origin else 0)
    after = dataset.snapshots[index + 1].blocks if index + 1 < len(dataset.snapshots) else dataset.blocks
    return gone_from(snapshot.blocks, after, before)
