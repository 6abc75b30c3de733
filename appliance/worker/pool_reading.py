# SPDX-License-Identifier: Apache-2.0
"""Reads datasets and snapshots of each pool in a separate thread, so that a pool that hangs delays no other."""

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from appliance.domain.pool_health import UNSEEN
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import EngineUnavailable, NoSuchDataset, NoSuchPool, PoolUnavailable, ZfsError
from appliance.zfs.model import Filesystem, Health, Pool, Snapshot, Volume

SHORTEST_LIMIT = 2.0
"""Seconds."""
_STEP_S = 0.2
_TIMES = 4
"""A pool hangs if it takes this many times as long as its last reading, and as the other pools now."""


@dataclass(frozen=True)
class Content:
    """Content of all pools. A pool that does not answer or cannot be read has the health SUSPENDED and no content."""

    pools: tuple[Pool, ...]
    filesystems: tuple[Filesystem, ...]
    volumes: tuple[Volume, ...]
    snapshots: tuple[Snapshot, ...]


@dataclass
class _Reading:
    pool: str
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    gone: bool = False
    suspended: bool = False
    filesystems: Sequence[Filesystem] = ()
    volumes: Sequence[Volume] = ()
    snapshots: Sequence[Snapshot] = ()
    error: BaseException | None = None


class PoolReading:
    """Readings of an engine. `read` is called by one thread at a time, `read_again` by any."""

    def __init__(self, engine: ZfsEngine, user_properties: Sequence[str]) -> None:
        self._engine, self._user_properties = engine, tuple(user_properties)
        self._changed = threading.Condition()
        self._pools: Sequence[Pool] = ()
        self._newest: dict[str, _Reading] = {}
        self._hanging: dict[str, _Reading] = {}
        """Readings that exceeded their time and have not ended. No other reading of these pools starts."""

    def read(self) -> None:
        """Reads all that answers. Raises ZfsError."""
        pools = self._engine.pools()
        with self._changed:
            hanging = {name: reading for name, reading in self._hanging.items() if reading.ended is None}
            # A late reading gives the next one its time. Otherwise a slow pool would exceed the shortest limit each time.
            for name in self._hanging.keys() - hanging.keys():
                self._newest.setdefault(name, self._hanging[name])
            self._hanging = hanging
        readings = [_Reading(pool.name) for pool in pools if pool.health not in UNSEEN and pool.name not in hanging]
        if len(readings) == 1 and len(pools) == 1:
            self._read(readings[0])
        else:
            for reading in readings:
                threading.Thread(target=self._read, args=(reading,), name=f"reading {reading.pool}", daemon=True).start()
            self._wait(readings)
        with self._changed:
            self._hanging = hanging | {reading.pool: reading for reading in readings if reading.ended is None}
            done = [reading for reading in readings if reading.ended is not None]
            for reading in done:
                if reading.error is not None and not _is_of_pool(reading.error):
                    raise reading.error
            newer = [
                reading
                for reading in self._newest.values()
                if any(reading.pool == other.pool and reading.began > other.began for other in done)
            ]
            self._pools, self._newest = pools, {reading.pool: reading for reading in (*done, *newer)}

    def read_again(self, pools: Collection[str]) -> None:
        """These alone, in this thread, however long they take. Raises ZfsError."""
        for pool in pools:
            reading = _Reading(pool)
            self._read(reading)
            if reading.error is not None:
                raise reading.error
            with self._changed:
                before = self._newest.get(pool)
                if before is None or before.began < reading.began:
                    self._newest[pool] = reading

    def content(self) -> Content:
        with self._changed:
            readings = [self._newest[pool.name] for pool in self._pools if pool.name in self._newest]
            gone, suspended = (
                {reading.pool for reading in readings if reading.gone},
                {reading.pool for reading in readings if reading.suspended},
            )
            return Content(
                pools=tuple(
                    replace(pool, health=Health.SUSPENDED) if pool.name in suspended else self._from_last_reading(pool)
                    for pool in self._pools
                    if pool.name not in gone
                ),
                filesystems=tuple(dataset for reading in readings for dataset in reading.filesystems),
                volumes=tuple(dataset for reading in readings for dataset in reading.volumes),
                snapshots=tuple(snapshot for reading in readings for snapshot in reading.snapshots),
            )

    def _from_last_reading(self, pool: Pool) -> Pool:
        newest = self._newest.get(pool.name)
        if newest is not None and newest.error is not None:
            return replace(pool, health=Health.SUSPENDED, status=f"The pool cannot be read: {newest.error}")
        if pool.name not in self._hanging:
            return pool
        seconds = time.monotonic() - self._hanging[pool.name].began
        status = f"The pool does not answer: it is being read for {round(seconds)} s."
        return replace(pool, health=Health.SUSPENDED, status=status, unread_seconds=seconds)

    def _read(self, reading: _Reading) -> None:
        try:
            datasets = self._engine.datasets(reading.pool)
            reading.filesystems, reading.volumes = datasets.filesystems, datasets.volumes
            reading.snapshots = self._engine.snapshots(reading.pool, user_properties=self._user_properties)
        except (NoSuchDataset, NoSuchPool, PoolUnavailable) as error:  # after the list of pools was read
            reading.suspended = isinstance(error, PoolUnavailable)
            reading.gone = not reading.suspended
            reading.filesystems, reading.volumes, reading.snapshots = (), (), ()
        except Exception as error:  # noqa: BLE001  # raised in the caller's thread
            reading.error = error
            reading.filesystems, reading.volumes, reading.snapshots = (), (), ()
        finally:
            with self._changed:
                reading.ended = time.monotonic()
                self._changed.notify_all()

    def _wait(self, readings: Sequence[_Reading]) -> None:
        """Waits until all have ended or hang. A single pool has the full time, as it delays no other.

        Time in which this thread does not run does not count: then the whole machine may have been stopped.
        """
        waited = 0.0
        with self._changed:
            while left := [reading for reading in readings if reading.ended is None]:
                others = max((reading.ended - reading.began for reading in readings if reading.ended is not None), default=None)
                if others is not None:
                    longest = max(others, *(self._lasted(reading.pool) for reading in left))
                    if waited >= max(SHORTEST_LIMIT, _TIMES * longest):
                        return
                began = time.monotonic()
                self._changed.wait(_STEP_S)
                waited += min(time.monotonic() - began, _STEP_S)

    def _lasted(self, pool: str) -> float:
        """Zero after an error: a pool that hangs until a time limit must not delay the others that long each time."""
        before = self._newest.get(pool)
        return before.ended - before.began if before is not None and before.ended is not None and before.error is None else 0.0


def _is_of_pool(error: BaseException) -> bool:
    """Whether other pools can be read, as with a property of this pool that is not UTF-8: zfs cuts its output off there."""
    return isinstance(error, ZfsError) and not isinstance(error, EngineUnavailable)
