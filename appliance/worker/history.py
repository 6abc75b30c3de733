# SPDX-License-Identifier: Apache-2.0
"""Collects history: every 10 s the counters of target and NFS server, every minute the usage of pools and datastores.

Samples are written once a minute, or before a read: one write of six values costs as much as one of a single value.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import select

from appliance.database.models import Host
from appliance.database.series import Layout, Part, Sample, SeriesFiles
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.domain import capacity, hosts, statistics
from appliance.domain.datastores import NFS, Datastore
from appliance.domain.errors import DomainError
from appliance.domain.history import CAPACITY, DAY_S, IO, PEAKS, RANGES, RATES, STEP_S, Counters, full_at
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors

_WRITTEN_S = 60
_NEWEST_S = 120.0
"""Oldest inventory that serves, in seconds: the scheduler scans storage every minute, so that history does not."""
_RETENTION_S = 30 * DAY_S
"""Retention of the history of a deleted subject."""
_TREND_POINTS = 720
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatastoreLoadResponse:
    """Load of a datastore, by the second, over the last 10 s."""

    datastore: str
    operations: float
    bytes: float


class History:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._files = SeriesFiles(context.configuration.state_directory / "history")
        self._lock = threading.Lock()
        self._before: dict[tuple[str, str], Counters] = {}
        self._at = 0
        self._load: dict[str, list[float | None]] = {}
        """Values of RATES at `_at`, by key."""
        self._pending: dict[tuple[str, Layout], list[Sample]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.write()

    def read(self, key: str, range_: str, points: int, end: float | None) -> tuple[Part, Part]:
        """Load and capacity of a subject; `end` in seconds since 1970, None for now."""
        now = time.time()
        until = min(end or now, now)
        self.write(key)
        rates, peaks, use = (self._files.read(key, layout, until, RANGES[range_], points) for layout in (RATES, PEAKS, CAPACITY))
        return replace(rates, series={**rates.series, **peaks.series}), use

    def full_at(self, key: str) -> float | None:
        """When a pool will be full, if its use grows as in the last 30 days; as domain.history.full_at."""
        trend = self._files.read(key, CAPACITY, time.time(), RANGES["month"], _TREND_POINTS)
        times = [trend.start + trend.step_seconds * place for place in range(len(trend.series["used_bytes"]))]
        return full_at(times, trend.series["used_bytes"], trend.series["size_bytes"])

    def load(self) -> list[DatastoreLoadResponse]:
        if time.time() - self._at > 3 * STEP_S:  # the target is away
            return []
        prefix = datastore_key("")
        rows = [(key.removeprefix(prefix), rates) for key, rates in sorted(self._load.items()) if key.startswith(prefix)]
        counted = [(store_id, [value for value in rates[: len(IO)] if value is not None]) for store_id, rates in rows]
        return [DatastoreLoadResponse(store_id, sum(io[:2]), sum(io[2:])) for store_id, io in counted if len(io) == len(IO)]

    def write(self, key: str | None = None) -> None:
        with self._lock:
            chosen = [sample_key for sample_key in self._pending if key in (None, sample_key[0])]
            for name, layout in chosen:
                self._files.append(name, layout, self._pending.pop((name, layout)))

    # --- collecting

    def _run(self) -> None:
        while not self._stopping.wait(STEP_S - time.time() % STEP_S):
            now = int(time.time()) // STEP_S * STEP_S
            try:
                self.collect(now)
                if now % _WRITTEN_S == 0:
                    self.write()
                if now % DAY_S == 0:
                    self._files.remove_unused(_RETENTION_S)
            except DomainError as error:
                _log.info("history: %s", error)
            except Exception:
                _log.exception("history")

    def collect(self, now: int) -> None:
        """Takes a sample of all subjects, at a multiple of STEP_S. Raises DomainError."""
        stores = self._context.datastores(_NEWEST_S)
        if now % CAPACITY.step == 0:
            self._capacity(now, stores)
        counted, bounds = self._counters(stores)
        seconds, before = now - self._at, self._before
        self._before, self._at, self._load = counted, now, {}
        if seconds > 3 * STEP_S:  # the worker or the target was away
            return
        sums: dict[str, Counters] = {}
        pools = self._pool_keys(stores)
        for row, counters in counted.items():
            grown = counters.growth(before[row]) if row in before else None
            for key in (row[0], pools.get(row[0])):
                if grown is not None and key is not None:
                    sums.setdefault(key, Counters()).add(grown)
        for key, total in sums.items():
            self._load[key] = self._grew(key, now, seconds, total, bounds)

    def _grew(self, key: str, now: int, seconds: int, grown: Counters, bounds: list[int]) -> list[float | None]:
        """A late sample also counts for the missed ones. Returns the values of RATES."""
        rates, peaks = grown.rates(seconds, bounds), grown.peaks(bounds)
        for at in range(now - seconds + STEP_S, now + 1, STEP_S):
            self._take(key, RATES, at, rates)
            self._take(key, PEAKS, at, peaks)
        return rates

    def _take(self, key: str, layout: Layout, now: int, values: list[float | None]) -> None:
        with self._lock:
            self._pending.setdefault((key, layout), []).append((now, values))

    def _capacity(self, now: int, stores: Iterable[Datastore]) -> None:
        roots = capacity.roots_of(self._context.inventory)
        for pool in self._context.inventory.pools:
            if (root := roots.get(pool.name)) is not None:
                used, usable = capacity.room(pool, root)
                self._take(pool_key(pool.guid), CAPACITY, now, [used, None, usable])
        for store in stores:
            if store.state == "active":
                self._take(datastore_key(store.id), CAPACITY, now, [store.referenced, store.snapshot_bytes, store.size])

    def _pool_keys(self, stores: Iterable[Datastore]) -> dict[str, str]:
        guids = {pool.name: pool.guid for pool in self._context.inventory.pools}
        return {datastore_key(store.id): pool_key(guids[store.pool]) for store in stores if store.pool in guids}

    def _counters(self, stores: Iterable[Datastore]) -> tuple[dict[tuple[str, str], Counters], list[int]]:
        """Counters of each datastore, and of each initiator and address of a host, by key and name; and the bounds of latency,
        which target and NFS server share. Omits a data plane that does not answer.
        """
        counters_by_row: dict[tuple[str, str], Counters] = {}
        bounds: list[int] = []

        def add(key: str | None, counters: Counters, name: str = "") -> None:
            if key is not None:
                counters_by_row.setdefault((key, name), Counters()).add(counters)

        with self._context.store.reading() as session:
            by_name = {iqn: host_key(host) for host, iqns in hosts.all_initiators(session).items() for iqn in iqns}
            by_name |= {address: host_key(host.id) for host in session.scalars(select(Host)) for address in host.addresses}
        with contextlib.suppress(DomainError), as_domain_errors():
            result = statistics.of_target(self._context.target.statistics(self._context.target_name))
            bounds = result.bounds
            for row in result.stores:
                add(datastore_key(row.subject), Counters.of_row(row))
            for row in result.hosts:
                add(by_name.get(row.subject), Counters.of_row(row), row.subject)
        active = [store for store in stores if store.kind == NFS and store.state == "active"]
        exports = {path: store.id for store in active for path in (store.path, store.share) if path}
        if exports:
            with contextlib.suppress(GaneshaUnreachableError):
                result = statistics.of_nfs(self._context.files.counters())
                bounds = result.bounds
                for store in active:  # an unused export has no row
                    add(datastore_key(store.id), Counters())
                for row in result.stores:
                    if (store_id := exports.get(row.subject)) is not None:
                        add(datastore_key(store_id), Counters.of_row(row))
                for row in result.hosts:
                    add(by_name.get(row.subject), Counters.of_row(row), row.subject)
        return counters_by_row, bounds


def datastore_key(identifier: str) -> str:
    return f"datastore-{identifier}"


def host_key(identifier: str) -> str:
    return f"host-{identifier}"


def pool_key(guid: int) -> str:
    """Key of a pool: its name can change."""
    return f"pool-{guid}"
