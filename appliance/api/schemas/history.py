# SPDX-License-Identifier: Apache-2.0
"""History of datastores, hosts and pools."""

from typing import Literal

from pydantic import Field

from appliance.api.types import Answer
from appliance.domain.fields import Model, Time

Values = list[float | None]


class HistoryQuery(Model):
    """`range` ends at `end`, or now. It has at most `points` points."""

    range: Literal["hour", "day", "week", "month", "year"] = "day"
    end: float | None = Field(None, ge=0, le=1 << 36)
    """Seconds since 1970."""
    points: int = Field(720, ge=10, le=720)


class LoadSeriesResponse(Answer):
    """Operations, and bytes, by the second. Latency of reads and writes: the median is averaged over a point, p99 is its maximum.

    Latency without reads and writes is null.
    """

    read_operations: Values
    write_operations: Values
    read_bytes: Values
    write_bytes: Values
    cloned_bytes: Values
    copied_bytes: Values
    zeroed_bytes: Values
    unmapped_bytes: Values
    p50_ms: Values
    p99_ms: Values


class LoadResponse(Answer):
    """A point is the time `step_seconds` before it; `start` is the first point."""

    start: Time
    step_seconds: int
    series: LoadSeriesResponse


class CapacitySeriesResponse(Answer):
    """Bytes. Pools have no `snapshot_bytes`. Used of a pool includes reserved space; its size is usable space, without parity."""

    used_bytes: Values
    snapshot_bytes: Values
    size_bytes: Values


class CapacityResponse(Answer):
    """Use of storage over time; the fields mean the same as in LoadResponse."""

    start: Time
    step_seconds: int
    series: CapacitySeriesResponse


class HistoryResponse(Answer):
    """History of a host: no capacity."""

    load: LoadResponse


class DatastoreHistoryResponse(HistoryResponse):
    """History of a datastore."""

    capacity: CapacityResponse


class PoolHistoryResponse(DatastoreHistoryResponse):
    """History of a pool. `full_at` is the day when it is full, if use grows as in the last 30 days.

    It is null if use does not grow, with less than a day of history, or beyond five years.
    """

    full_at: Time | None
