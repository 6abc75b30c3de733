# SPDX-License-Identifier: Apache-2.0
"""Retained snapshots: the newest, and the newest of each hour, day, week and month."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from appliance.domain.retention import PROTECT, SCHEDULE, Retention, expired, protected_until, surplus
from appliance.zfs.model import Property, Snapshot, Source

ID = "5a1f0c9e-0000-4000-8000-000000000000"
START = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp())
STANDARD = Retention(1, hourly=24, daily=14, weekly=8, monthly=12)


def taken(creation: int, txg: int, schedule: str = ID, holds: int = 0, source: Source = Source.LOCAL) -> Snapshot:
    """A snapshot of a schedule."""
    name = f"tank/a@nightly_{time.strftime('%Y-%m-%d_%H%M%SZ', time.gmtime(creation))}"
    properties = {SCHEDULE: Property(schedule, source)}
    return Snapshot(
        name=name, guid=txg, createtxg=txg, creation=creation, used=0, referenced=0, holds=holds, properties=properties
    )


def hours(count: int) -> list[Snapshot]:
    """One snapshot an hour."""
    return [taken(START + 3600 * hour, hour) for hour in range(count)]


def left(snapshots: Sequence[Snapshot], rule: Retention) -> list[Snapshot]:
    """Retained snapshots, oldest first."""
    gone = {snapshot.name for snapshot in surplus(snapshots, {ID: rule})}
    return [snapshot for snapshot in snapshots if snapshot.name not in gone]


def test_a_year_of_hourly_snapshots() -> None:
    stored = left(hours(365 * 24), STANDARD)
    times = [dt.datetime.fromtimestamp(snapshot.creation, dt.UTC) for snapshot in stored]
    assert len({(at.date(), at.hour) for at in times[-24:]}) == 24 and times[-24].day == times[-1].day
    assert {at.date() for at in times} >= {times[-1].date() - dt.timedelta(days=days) for days in range(14)}
    assert len({at.isocalendar()[:2] for at in times}) >= 8 and {at.month for at in times} == set(range(1, 13))
    assert 24 + 13 + 6 + 9 <= len(stored) <= 24 + 14 + 8 + 12


def test_pruning_each_hour_ends_at_the_same_as_pruning_once() -> None:
    stored: list[Snapshot] = []
    for hour in hours(60 * 24):
        stored = left([*stored, hour], STANDARD)
    assert stored == left(hours(60 * 24), STANDARD)


def test_days_are_those_of_the_time_zone() -> None:
    """23:30 and 00:30 in Berlin are one day in UTC."""
    evening = int(dt.datetime(2026, 7, 1, 21, 30, tzinfo=dt.UTC).timestamp())
    snapshots = [taken(evening, 1), taken(evening + 3600, 2)]
    assert len(left(snapshots, Retention(1, daily=2, time_zone="Europe/Berlin"))) == 2
    assert len(left(snapshots, Retention(1, daily=2))) == 1


def test_others_stay() -> None:
    """Snapshots of other schedules, manual ones, held ones, received ones, and those with clones."""
    snapshots = hours(4)
    held, cloned = taken(START, 10, holds=1), taken(START + 1, 11)
    cloned = Snapshot(**{name: getattr(cloned, name) for name in Snapshot.__slots__} | {"clones": ("tank/clone",)})
    by_hand = Snapshot(
        name="tank/a@mine", guid=1, createtxg=12, creation=START, used=0, referenced=0, properties=snapshots[0].properties
    )
    other = taken(START + 2, 13, schedule="another")
    received = taken(START + 3, 5, source=Source.RECEIVED)
    gone = surplus([*snapshots, held, cloned, by_hand, other, received], {ID: Retention(1)})
    assert {snapshot.name for snapshot in gone} == {snapshot.name for snapshot in snapshots}


def test_protection_ends() -> None:
    until = {PROTECT: Property(str(START + 100), Source.LOCAL)}
    held = Snapshot(name="a@b", guid=1, createtxg=1, creation=START, used=0, referenced=0, holds=1, properties=until)
    free = Snapshot(name="a@c", guid=1, createtxg=1, creation=START, used=0, referenced=0, properties=until)
    assert expired([held, free], START + 99) == [] and expired([held, free], START + 100) == [held]
    never = {PROTECT: Property("999999999999", Source.LOCAL)}
    assert protected_until(replace(held, properties=never)) is None, "no date has that year"


@given(
    st.lists(st.integers(0, 400 * 86400), min_size=1, max_size=60),
    st.builds(Retention, st.integers(1, 5), *(st.integers(0, 5) for _ in range(4))),
)
def test_the_newest_always_stay_and_no_more_than_the_sum(ages: list[int], rule: Retention) -> None:
    snapshots = [taken(START + age, txg) for txg, age in enumerate(dict.fromkeys(sorted(ages)))]
    stored = left(snapshots, rule)
    assert snapshots[-rule.keep :] == stored[-rule.keep :]
    assert len(stored) <= rule.keep + rule.hourly + rule.daily + rule.weekly + rule.monthly
