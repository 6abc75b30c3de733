# SPDX-License-Identifier: Apache-2.0
"""Data of the history: counters of target and NFS server, their rates, latency by percentile, and the day a pool is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from appliance.database.series import ARCHIVES, AVERAGE, MAX, SLOW_ARCHIVES, Layout
from appliance.domain.statistics import Row

STEP_S = 10
HOUR_S, DAY_S = 3600, 86400
RANGES = {"hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S, "year": 365 * DAY_S}
IO = ("read_operations", "write_operations", "read_bytes", "write_bytes")
OFFLOADS = ("cloned_bytes", "copied_bytes", "zeroed_bytes", "unmapped_bytes")
RATES = Layout("rates", (*IO, *OFFLOADS, "p50_ms"), AVERAGE, ARCHIVES)
PEAKS = Layout("peaks", ("p99_ms",), MAX, ARCHIVES)
"""The worst of a time matters, so it is not averaged."""
CAPACITY = Layout("capacity", ("used_bytes", "snapshot_bytes", "size_bytes"), AVERAGE, SLOW_ARCHIVES)
_SHORTEST_TREND_S, _LONGEST_FORECAST_S = DAY_S, 5 * 365 * DAY_S


@dataclass
class Counters:
    """Increasing counters of a LUN or export, or their sum. None for values that are not counted."""

    io: list[int] = field(default_factory=lambda: [0] * len(IO))
    offloads: list[int] = field(default_factory=lambda: [0] * len(OFFLOADS))
    latency: list[int] = field(default_factory=list)
    """Reads and writes, by the buckets that target and NFS server have in common."""

    @classmethod
    def of_row(cls, row: Row) -> Counters:
        """Counters of a LUN, an export or a host. The NFS server has no zeroed and no unmapped bytes."""
        read, write = row.operations["read"], row.operations["write"]
        return cls(
            io=[read.operations, write.operations, read.bytes, write.bytes],
            offloads=[row.offload.get(name, 0) for name in OFFLOADS],
            latency=_sum(read.latency.counts, write.latency.counts),
        )

    def add(self, other: Counters) -> None:
        self.io = _sum(self.io, other.io)
        self.offloads = _sum(self.offloads, other.offloads)
        self.latency = _sum(self.latency, other.latency)

    def growth(self, before: Counters) -> Counters | None:
        """The increase; None after a restart of the counters."""
        io, offloads = _grown(self.io, before.io), _grown(self.offloads, before.offloads)
        latency = _grown(self.latency, before.latency)
        return None if io is None or offloads is None or latency is None else Counters(io, offloads, latency)

    def rates(self, seconds: float, bounds: Sequence[int]) -> list[float | None]:
        return [*(value / seconds for value in (*self.io, *self.offloads)), percentile(bounds, self.latency, 0.5)]

    def peaks(self, bounds: Sequence[int]) -> list[float | None]:
        return [percentile(bounds, self.latency, 0.99)]


def _sum(first: Sequence[int], other: Sequence[int]) -> list[int]:
    longer, shorter = (first, other) if len(first) >= len(other) else (other, first)
    return [value + shorter[place] if place < len(shorter) else value for place, value in enumerate(longer)]


def _grown(now: Sequence[int], before: Sequence[int]) -> list[int] | None:
    """None if one decreased. Buckets of zero can be missing at the end."""
    if len(now) < len(before):
        return None
    grown = [value - (before[place] if place < len(before) else 0) for place, value in enumerate(now)]
    return None if any(value < 0 for value in grown) else grown


def percentile(bounds: Sequence[int], counts: Sequence[int], part: float) -> float | None:
    """Milliseconds, from buckets with upper bounds in microseconds; the last bucket has none. Operations count as evenly
    distributed in their bucket, and those above the last bound as that bound. None without operations.
    """
    total = sum(counts)
    if not total:
        return None
    rank, passed = part * total, 0
    for place, count in enumerate(counts):
        if count and passed + count >= rank:
            low = bounds[place - 1] if place else 0
            high = bounds[place] if place < len(bounds) else low
            return (low + (high - low) * (rank - passed) / count) / 1000
        passed += count
    return None


def full_at(times: Sequence[float], used: Sequence[float | None], size: Sequence[float | None]) -> float | None:
    """When usage reaches the size, by a least-squares line, in seconds since 1970. None with less than a day of values, without
    an increase, or beyond five years.
    """
    known = [(at, value) for at, value in zip(times, used, strict=True) if value is not None]
    sizes = [value for value in size if value is not None]
    if len(known) < 2 or not sizes or known[-1][0] - known[0][0] < _SHORTEST_TREND_S:
        return None
    middle = sum(at for at, _ in known) / len(known)
    mean = sum(value for _, value in known) / len(known)
    spread = sum((at - middle) ** 2 for at, _ in known)
    slope = sum((at - middle) * (value - mean) for at, value in known) / spread
    now, left = known[-1][0], sizes[-1] - known[-1][1]
    if slope <= 0 or left / slope > _LONGEST_FORECAST_S:
        return None
    return now + max(0.0, left) / slope
