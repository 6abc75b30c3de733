# SPDX-License-Identifier: Apache-2.0
"""What all parts of the simulator share: the lock, the clock, finding things, failures to order, saving."""

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

_LISTS_KEPT = 16
Found = tuple[PoolState, str, DatasetState]
"""A pool, the path of a dataset in it, the dataset."""


class Core:
    """State and what every operation does around itself."""

    def __init__(self, machine: Machine, *, clock: Callable[[], float] = time.time, path: Path | None = None) -> None:
        self.machine = machine
        self.clock = clock
        self.lock = threading.RLock()
        self._path = path
        self._spaces: dict[str, tuple[int, SpaceMap]] = {}
        self._version = 0
        self._figures: Figures = {}
        self._told: dict[object, tuple[int, list[Any]]] = {}
        self.smart: dict[str, DiskHealth] = {}
        """What disks say of themselves, by path."""
        self.failures: dict[str, list[ZfsError]] = {}
        self.delays: dict[str, list[float]] = {}
        self.waits: dict[str, list[threading.Event]] = {}
        self.hanging: dict[str, threading.Event] = {}
        """Pools whose operations do not end before the event, but for `pools`."""
        if path is not None:
            state.save(machine, path)

    def changed(self, pool: PoolState | None = None) -> None:
        """After every change: the next txg, and the file."""
        self._version += 1
        if pool is not None:
            pool.txg += 1
        if self._path is not None:
            state.save(self.machine, self._path)

    def space_of(self, pool: PoolState) -> SpaceMap:
        """Of its present state."""
        version, space = self._spaces.get(pool.name, (-1, None))
        if space is None or version != self._version:
            space = SpaceMap(pool, self.machine.devices, self._figures)
            self._spaces[pool.name] = (self._version, space)
        return space

    def once[T](self, what: object, tell: Callable[[], list[T]]) -> list[T]:
        """A list that is made anew only after a change: of 10,000 snapshots it takes a while."""
        version, told = self._told.get(what, (-1, []))
        if version != self._version:
            told = tell()
            if len(self._told) > _LISTS_KEPT:
                self._told.clear()
            self._told[what] = (self._version, told)
        return list(told)

    def touched(self) -> None:
        """After a step of a change whose space counts in the next step."""
        self._version += 1

    def new_guid(self) -> int:
        """64 bits, different ones every time, the same on every run."""
        self.machine.guids_given += 1
        digest = hashlib.sha256(self.machine.guids_given.to_bytes(8, "big")).digest()
        return int.from_bytes(digest[:8], "big")

    def now(self) -> int:
        """Seconds."""
        return int(self.clock())

    # --- finding

    def pool_state(self, name: str) -> PoolState:
        """An imported pool that answers."""
        for pool in self.machine.pools:
            if pool.imported and pool.name == name:
                if pool.suspended:
                    raise PoolUnavailable(name, "suspended: its devices do not answer")
                return pool
        raise NoSuchPool(name)

    def find(self, name: str) -> Found:
        """A dataset. Raises NoSuchDataset, also when there is no such pool."""
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
        """Pool and path for a dataset to be made. Raises DatasetExists, NoSuchDataset for what is above."""

        names.new_dataset_name(name)
        root, _, path = name.partition("/")
        pool, _, parent = self.find(f"{root}/{parent_of(path)}".rstrip("/"))
        if parent.is_volume:
            raise NoSuchDataset(pool.full_name(parent_of(path)))
        if path in pool.datasets:
            raise DatasetExists(name)
        return pool, path

    def find_snapshot(self, name: str) -> tuple[PoolState, str, DatasetState, SnapshotState]:
        """A snapshot. Raises NoSuchSnapshot, also when there is no such dataset."""
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

    def one_pool(self, wanted: list[str]) -> None:
        """Raises DifferentPools."""
        if len({names.pool_of(name) for name in wanted}) > 1:
            raise DifferentPools(tuple(wanted))

    def clones_of(self, pool: PoolState, snapshot: SnapshotState) -> list[str]:
        """Paths, sorted."""
        return sorted(path for path, dataset in pool.datasets.items() if dataset.origin == snapshot.guid)

    def snapshot_by_guid(self, pool: PoolState, guid: int) -> tuple[str, DatasetState, int] | None:
        """Path and dataset it belongs to, and its index there."""
        for path, dataset in pool.datasets.items():
            for index, snapshot in enumerate(dataset.snapshots):
                if snapshot.guid == guid:
                    return path, dataset, index
        return None

    # --- properties

    def effective(self, pool: PoolState, path: str, name: str) -> Property | None:
        """Value and source of a native of SHOWN or a user property; None when the kind has not it or it is not set."""
        native = SHOWN.get(name)
        kind = On.VOLUME if pool.datasets[path].is_volume else On.FILESYSTEM
        if native is not None and not native.on & kind:
            return None
        at = path
        while True:
            dataset = pool.datasets[at]
            found = None
            if name in dataset.local:
                found = Property(dataset.local[name], Source.LOCAL)
            elif name in dataset.received and name not in dataset.received_hidden:
                found = Property(dataset.received[name], Source.RECEIVED)
            if found is not None:
                if at == path:
                    return found
                value = found.value
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
        """All that are set on the dataset or above."""
        found: dict[str, Property] = {}
        at = path
        while True:
            dataset = pool.datasets[at]
            for name in {*dataset.local, *dataset.received}:
                if names.is_user_property(name) and name not in found:
                    effective = self.effective(pool, path, name)
                    if effective is not None:
                        found[name] = effective
            if not at:
                return found
            at = parent_of(at)

    def encryption_root(self, pool: PoolState, path: str) -> tuple[str, DatasetState] | None:
        """Whose key it is, or None when it is not encrypted."""
        at = path
        while pool.datasets[at].algorithm is None:
            if not at:
                return None
            at = parent_of(at)
        return at, pool.datasets[at]

    def need_room(self, pool: PoolState, path: str, size: int, name: str) -> None:
        """Raises OutOfSpace when a dataset's `used` can't grow by so much."""
        space = self.space_of(pool)
        if size > space.room(path):
            raise OutOfSpace(name, quota=space.quota_is_short(path, size))


def operation[S: Core, **P, R](method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Around every operation: the failure, delay or wait that was ordered for it, then the lock."""
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
    """Pools of all names in arguments."""
    if isinstance(value, str):
        return {value.partition("/")[0].partition("@")[0]}
    if isinstance(value, dict):
        return _named(list(value.values()))
    return set().union(*map(_named, value)) if isinstance(value, (list, tuple)) else set()
