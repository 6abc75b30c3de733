# SPDX-License-Identifier: Apache-2.0
"""Rates and latency of counters, and the day a pool is full."""

import pytest

from appliance.domain.history import DAY_S, HOUR_S, Counters, full_at, percentile
from appliance.domain.statistics import row

BOUNDS = [1000, 2000, 4000]


def test_latency_is_spread_inside_its_bucket() -> None:
    assert percentile(BOUNDS, [], 0.5) is None and percentile(BOUNDS, [0, 0], 0.99) is None
    assert percentile(BOUNDS, [0, 100], 0.5) == 1.5
    assert percentile(BOUNDS, [98, 0, 2], 0.99) == 3.0
    assert percentile(BOUNDS, [0, 0, 0, 5], 0.5) == 4.0, "beyond the last bound"


def test_a_decrease_means_a_restart() -> None:
    before = Counters([10, 0, 4096, 0], [0, 0, 0, 0], [10])
    assert Counters([9, 0, 4096, 0], [0, 0, 0, 0], [9]).growth(before) is None
    assert Counters([10, 0, 4096, 0], [0, 0, 0, 0], []).growth(before) is None, "a histogram that is shorter"
    grown = Counters([30, 5, 8192, 512], [7, 0, 0, 0], [10, 25]).growth(before)
    assert grown == Counters([20, 5, 4096, 512], [7, 0, 0, 0], [0, 25])
    assert grown.rates(10, BOUNDS) == [2, 0.5, 409.6, 51.2, 0.7, 0, 0, 0, 1.5]
    assert grown.peaks(BOUNDS) == [1.99]


def test_an_export_has_no_zeroed_bytes() -> None:
    offload = {"cloned_bytes": 100, "copied_bytes": 50, "hole_bytes": 9, "reserved_bytes": 9, "fallback_bytes": {}}
    read = {"operations": 20, "bytes": 4096, "latency": {"counts": [0, 20]}}
    counters = Counters.of_row(row({"export": "/files", "read": read, "write": {}, "offload": offload}, "export"))
    grown = counters.growth(Counters())
    assert grown is not None and grown.rates(10, BOUNDS) == [2, 0, 409.6, 0, 10, 5, 0, 0, 1.5]


def test_a_sum_has_the_counters_of_all_its_parts() -> None:
    total = Counters()
    total.add(Counters(offloads=[1, 0, 0, 0]))
    total.add(Counters([1, 2, 3, 4], [1, 0, 0, 0], [0, 1]))
    total.add(Counters([1, 2, 3, 4], [1, 0, 0, 0], [5]))
    assert total == Counters([2, 4, 6, 8], [3, 0, 0, 0], [5, 1])


@pytest.mark.parametrize(
    ("grows_by_hour", "hours", "expected_hours"),
    [(10, 48, 100 - 1), (10, 12, None), (0, 48, None), (-1, 48, None), (0.001, 48, None)],
)
def test_the_day_a_pool_is_full(grows_by_hour: float, hours: int, expected_hours: float | None) -> None:
    """A straight line; with less than a day, without growth and beyond five years there is no forecast."""
    times = [place * HOUR_S for place in range(hours)]
    used: list[float | None] = [grows_by_hour * place + 10 for place in range(hours)]
    used[5] = None
    result = full_at(times, used, [1000.0] * hours)
    assert result == (None if expected_hours is None else pytest.approx(expected_hours * HOUR_S))


def test_a_pool_that_is_full_is_full_now() -> None:
    times = [0.0, DAY_S, 2.0 * DAY_S]
    assert full_at(times, [10, 20, 30], [30, 30, 30]) == 2 * DAY_S
