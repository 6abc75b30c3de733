"""Where a simulated pool's space is, by the rules of zfsprops(7): used, its four parts, available, quotas, reservations."""

from __future__ import annotations

from dataclasses import replace

from appliance.zfs.model import Redundancy, Role, Space
from appliance.zfs.simulator.blocks import born_after, gone_from, total
from appliance.zfs.simulator.state import DatasetState, Device, PoolState, SnapshotState, Top

SLOP_SHIFT = 5
"""spa_slop_shift: a 32nd of the pool stays free for what must always go."""
MAX_SLOP = 128 << 30

_PARITY = {Redundancy.RAIDZ1: 1, Redundancy.RAIDZ2: 2, Redundancy.RAIDZ3: 3}


def top_size(top: Top, devices: dict[str, Device]) -> int:
    """Raw bytes of a top-level vdev, parity included."""
    sizes = [devices[leaf.path].size for leaf in top.leaves if leaf.path in devices] or [0]
    return min(sizes) * (len(top.leaves) if top.redundancy in _PARITY else 1)


def usable_size(top: Top, devices: dict[str, Device]) -> int:
    """Bytes of data it can hold."""
    raw, count = top_size(top, devices), len(top.leaves)
    return raw * (count - _PARITY.get(top.redundancy, 0)) // count if top.redundancy in _PARITY else raw


class SpaceMap:
    """Space of all datasets of one pool, computed once for a state of it."""

    def __init__(self, pool: PoolState, devices: dict[str, Device]) -> None:
        self._pool = pool
        data = [top for top in pool.tops if top.role in {Role.DATA, Role.SPECIAL, Role.DEDUP}]
        self.raw = sum(top_size(top, devices) for top in data)
        usable = sum(usable_size(top, devices) for top in data)
        self.usable = usable - min(usable >> SLOP_SHIFT, MAX_SLOP)
        self._ratio = self.raw / usable if usable else 1.0
        self._origins = {snapshot.guid: snapshot for dataset in pool.datasets.values() for snapshot in dataset.snapshots}
        self.spaces: dict[str, Space] = {}
        self._children: dict[str, int] = {}
        # Those below come first.
        for path in sorted(pool.datasets, key=lambda path: path.count("/") + bool(path), reverse=True):
            space = self._space(path, pool.datasets[path])
            self.spaces[path] = space
            if path:
                charge = max(space.used, size_of(pool.datasets[path], "reservation"))
                parent = parent_of(path)
                self._children[parent] = self._children.get(parent, 0) + charge
        for path in sorted(pool.datasets):
            self._set_available(path)

    @property
    def allocated(self) -> int:
        """Raw bytes in use; reservations are not."""
        held = sum(space.used_by_dataset + space.used_by_snapshots for space in self.spaces.values())
        return int(held * self._ratio)

    def _space(self, path: str, dataset: DatasetState) -> Space:
        origin = self._origins.get(dataset.origin)
        newest = dataset.snapshots[-1].createtxg if dataset.snapshots else (origin.createtxg if origin else 0)
        unique = born_after(dataset.blocks, newest)
        by_dataset = total(dataset.blocks) - shared_with_origin(dataset.blocks, origin)
        by_snapshots = snapshots_space(dataset, origin)
        by_reservation = max(0, size_of(dataset, "refreservation") - unique)
        by_children = self._children.get(path, 0)
        referenced = total(dataset.blocks)
        return Space(
            used=by_dataset + by_snapshots + by_reservation + by_children,
            available=0,
            referenced=referenced,
            used_by_dataset=by_dataset,
            used_by_snapshots=by_snapshots,
            used_by_children=by_children,
            used_by_refreservation=by_reservation,
            logical_used=by_dataset + by_snapshots + by_children,
            logical_referenced=referenced,
            written=unique,
            compress_ratio=1.0,
        )

    def _set_available(self, path: str) -> None:
        space, dataset = self.spaces[path], self._pool.datasets[path]
        available = self.room(path) + space.used_by_refreservation
        refquota = size_of(dataset, "refquota")
        if refquota:
            available = min(available, max(0, refquota - space.referenced))
        self.spaces[path] = replace(space, available=available)

    def room(self, path: str) -> int:
        """Bytes by which `used` of a dataset may grow: what the pool, quotas above and reservations on the way leave."""
        space, dataset = self.spaces[path], self._pool.datasets[path]
        above = self.room(parent_of(path)) if path else max(0, self.usable - space.used)
        own = max(0, size_of(dataset, "reservation") - space.used) if path else 0
        quota = size_of(dataset, "quota")
        return min(above + own, max(0, quota - space.used)) if quota else above + own

    def quota_is_short(self, path: str, size: int) -> bool:
        """Whether it is a quota, and not the pool, that leaves less than `size`."""
        pool_free = max(0, self.usable - self.spaces[""].used)
        return self.room(path) < size <= pool_free


def parent_of(path: str) -> str:
    """Path of the dataset above; the root's is itself."""
    return path.rpartition("/")[0]


def size_of(dataset: DatasetState, name: str) -> int:
    """A property that is a size and not inherited; 0 for none."""
    value = dataset.local.get(name, dataset.received.get(name, "0"))
    return int(value) if value.isdigit() else 0


def shared_with_origin(blocks: tuple[tuple[int, int], ...], origin: SnapshotState | None) -> int:
    """Bytes that belong to the origin."""
    if origin is None:
        return 0
    theirs = dict(origin.blocks)
    return sum(min(size, theirs.get(born, 0)) for born, size in blocks if born <= origin.createtxg)


def snapshots_space(dataset: DatasetState, origin: SnapshotState | None) -> int:
    """Bytes only snapshots refer to: all that any of them has and the dataset and its origin have not."""
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
