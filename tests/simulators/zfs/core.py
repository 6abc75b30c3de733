# SPDX-License-Identifier: Apache-2.0
"""Common to all parts of the simulator: lock, clock, lookup, injected failures, state file."""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate

from appliance.zfs import names
from appliance.zfs.errors import (
    DatasetExists,
    DifferentPools,
    NoSuchDataset,
    NoSuchPool,
    NoSuchSnapshot,
    OutOfSpace,
    PoolUnavailable,
    ZfsError,
)
from appliance.zfs.model import DiskHealth, Property, Source
from appliance.zfs.properties import SHOWN, On
from simulators.zfs import state
from simulators.zfs.space import Figures, SpaceMap, parent_of
from simulators.zfs.state import DatasetState, Machine, PoolState, SnapshotState

_CACHED_LISTS = 16
DatasetInPool = tuple[PoolState, str, DatasetState]
"""Pool, path of the dataset in it, dataset."""


class Core:
    """State, and what every operation does first and last."""

    def __init__(self, machine: Machine, *, clock: Callable[[], float] = time.time, path: Path | None = None) -> None:
        self.machine = machine
        self.clock = clock
        self.lock = threading.RLock()
        self._path = path
        self._spaces: dict[str, tuple[int, SpaceMap]] = {}
        self._version = 0
        self._figures: Figures = {}
        self._lists: dict[object, tuple[int, list[Any]]] = {}
        self.smart: dict[str, DiskHealth] = {}
        """SMART data by path, set by tests."""
        self.failures: dict[str, list[ZfsError]] = {}
        self.delays: dict[str, list[float]] = {}
        self.waits: dict[str, list[threading.Event]] = {}
        self.hanging: dict[str, threading.Event] = {}
        """Pools whose operations wait for the event, except `pools`."""
        self.sent: set[str] = set()
        """Snapshots that `zfs send` reads, set by tests."""
        if path is not None:
            state.save(machine, path)

    def changed(self, pool: PoolState | None = None) -> None:
        """Ends a change: next transaction group, state file."""
        self._version += 1
        if pool is not None:
            pool.txg += 1
        if self._path is not None:
            state.save(self.machine, self._path)

    def space_of(self, pool: PoolState) -> SpaceMap:
        version, space = self._spaces.get(pool.name, (-1, None))
        if space is None or version != self._version:
            space = SpaceMap(pool, self.machine.devices, self._figures)
            self._spaces[pool.name] = (self._version, space)
        return space

    def cached[T](self, key: object, make: Callable[[], list[T]]) -> list[T]:
        """A list that is made again only after a change: 10,000 snapshots take a while."""
        version, rows = self._lists.get(key, (-1, []))
        if version != self._version:
            rows = make()
            if len(self._lists) > _CACHED_LISTS:
                self._lists.clear()
            self._lists[key] = (self._version, rows)
        return list(rows)

    def touched(self) -> None:
        """Recomputes space, because the next step of a change depends on it."""
        self._version += 1

    def new_guid(self) -> int:
        """64 bits, different ones every time, the same on every run."""
        self.machine.guids_given += 1
        digest = hashlib.sha256(self.machine.guids_given.to_bytes(8, "big")).digest()
        return int.from_bytes(digest[:8], "big")

    def now(self) -> int:
        """Seconds."""
        return int(self.clock())

    # --- lookup

    def pool_state(self, name: str) -> PoolState:
        """An imported pool. Raises NoSuchPool, PoolUnavailable."""
        for pool in self.machine.pools:
            if pool.imported and pool.name == name:
                if pool.suspended:
                    raise PoolUnavailable(name, "suspended: its devices do not answer")
                return pool
        raise NoSuchPool(name)

    def find(self, name: str) -> DatasetInPool:
        """A dataset. Raises NoSuchDataset, also for a missing pool."""
        names.dataset_name(name)
        root, _, path = name.partition("/")
        try:
            pool = self.pool_state(root)
        except NoSuchPool:
            raise NoSuchDataset(name) from None
        if path not in pool.datasets:
            raise NoSuchDataset(name)
        return pool, path, pool.datasets[path]

    def find_parent_of_new(self, name: str) -> tuple[PoolState, str]:
        """Pool and path for a new dataset. Raises DatasetExists; NoSuchDataset for a missing parent."""
        names.new_dataset_name(name)
        root, _, path = name.partition("/")
        pool, _, parent = self.find(f"{root}/{parent_of(path)}".rstrip("/"))
        if parent.is_volume:
            raise NoSuchDataset(pool.full_name(parent_of(path)))
        if path in pool.datasets:
            raise DatasetExists(name)
        return pool, path

    def find_snapshot(self, name: str) -> tuple[PoolState, str, DatasetState, SnapshotState]:
        """A snapshot. Raises NoSuchSnapshot, also for a missing dataset."""
        names.snapshot_name(name)
        dataset_name, _, tag = name.partition("@")
        try:
            pool, path, dataset = self.find(dataset_name)
        except NoSuchDataset:
            raise NoSuchSnapshot(name) from None
        for snapshot in dataset.snapshots:
            if snapshot.tag == tag:
                return pool, path, dataset, snapshot
        raise NoSuchSnapshot(name)

    def check_one_pool(self, datasets: list[str]) -> None:
        """Raises DifferentPools."""
        if len({names.pool_of(name) for name in datasets}) > 1:
            raise DifferentPools(tuple(datasets))

    def clones_of(self, pool: PoolState, snapshot: SnapshotState) -> list[str]:
        """Paths, sorted."""
        return sorted(path for path, dataset in pool.datasets.items() if dataset.origin == snapshot.guid)

    def snapshot_by_guid(self, pool: PoolState, guid: int) -> tuple[str, DatasetState, int] | None:
        """Path and dataset of a snapshot, and its index there."""
        for path, dataset in pool.datasets.items():
            for index, snapshot in enumerate(dataset.snapshots):
                if snapshot.guid == guid:
                    return path, dataset, index
        return None

    # --- properties

    def effective(self, pool: PoolState, path: str, name: str) -> Property | None:
        """Value and source of a native property of SHOWN or a user property; None if unset or not of this kind of dataset."""
        native = SHOWN.get(name)
        kind = On.VOLUME if pool.datasets[path].is_volume else On.FILESYSTEM
        if native is not None and not native.on & kind:
            return None
        at = path
        while True:
            dataset = pool.datasets[at]
            current = None
            if name in dataset.local:
                current = Property(dataset.local[name], Source.LOCAL)
            elif name in dataset.received and name not in dataset.received_hidden:
                current = Property(dataset.received[name], Source.RECEIVED)
            if current is not None:
                if at == path:
                    return current
                value = current.value
                if name == "mountpoint" and value.startswith("/"):
                    value = f"{value.rstrip('/')}/{path.removeprefix(at).lstrip('/')}"
                return Property(value, Source.INHERITED, pool.full_name(at))
            if not at or (native is not None and not native.inherited):
                break
            at = parent_of(at)
        if native is None:
            return None
        default = f"/{pool.full_name(path)}" if name == "mountpoint" else native.default
        return Property(default, Source.DEFAULT)

    def user_properties(self, pool: PoolState, path: str) -> dict[str, Property]:
        """Properties of the dataset and of those above."""
        properties: dict[str, Property] = {}
        at = path
        while True:
            dataset = pool.datasets[at]
            for name in {*dataset.local, *dataset.received}:
                if names.is_user_property(name) and name not in properties:
                    effective = self.effective(pool, path, name)
                    if effective is not None:
                        properties[name] = effective
            if not at:
                return properties
            at = parent_of(at)

    def encryption_root(self, pool: PoolState, path: str) -> tuple[str, DatasetState] | None:
        """The encryption root, or None for an unencrypted dataset. A clone has its origin's (zfs-load-key(8))."""
        at = path
        while pool.datasets[at].algorithm is None:
            origin = self.snapshot_by_guid(pool, pool.datasets[at].origin) if pool.datasets[at].origin else None
            if origin is not None:
                at = origin[0]
                continue
            if not at or pool.datasets[at].local.get("encryption") == "off":
                return None
            at = parent_of(at)
        return at, pool.datasets[at]

    def need_room(self, pool: PoolState, path: str, size: int, name: str) -> None:
        """Raises OutOfSpace if `used` of a dataset cannot grow by `size`."""
        space = self.space_of(pool)
        if size > space.room(path):
            raise OutOfSpace(name, quota=space.quota_is_short(path, size))


def operation[S: Core, **P, R](method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorates every operation: injected failure, delay or wait, then the lock."""
    name = method.__name__

    @functools.wraps(method)
    def around(self: S, /, *arguments: P.args, **options: P.kwargs) -> R:
        if delays := self.delays.get(name):
            time.sleep(delays.pop(0))
        if waits := self.waits.get(name):
            waits.pop(0).wait()
        if failures := self.failures.get(name):
            raise failures.pop(0)
        for pool, answers in list(self.hanging.items()):
            if name in _OF_ALL_POOLS and not (arguments or options.get("root")) or pool in _named((arguments, options)):
                answers.wait()
        with self.lock:
            return method(self, *arguments, **options)

    return around


_OF_ALL_POOLS = ("datasets", "snapshots")
"""Without a root."""


def _named(value: Any) -> set[str]:
    """Pools of all names in the arguments."""
    if isinstance(value, str):
        return {value.partition("/")[0].partition("@")[0]}
    if isinstance(value, dict):
        return _named(list(value.values()))
    return set().union(*map(_named, value)) if isinstance(value, (list, tuple)) else set()
