# SPDX-License-Identifier: Apache-2.0
"""Slots of schedules lie at a time of day in a time zone, whatever the clock does, and do not drift."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.domain import schedule_times
from appliance.domain.errors import InvalidError
from appliance.domain.schedule_times import DAY, is_due, slots

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> float:
    """Seconds since 1970."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("now", "every", "begin", "zone", "slot"),
    [
        ("2026-11-25 22:00:00", DAY, "22:00", "UTC", "2026-11-25 22:00:00"),
        ("2026-11-25 21:59:59", DAY, "22:00", "UTC", "2026-11-24 22:00:00"),
        ("2026-07-01 12:07:00", 15, "00:00", BERLIN, "2026-07-01 12:00:00"),
        ("2026-07-01 12:07:00", 60, "00:30", BERLIN, "2026-07-01 11:30:00"),
        ("2026-11-25 10:00:00", 7 * DAY, "02:00", BERLIN, "2026-11-23 02:00:00"),  # a Monday
        ("2026-10-25 23:30:00", DAY, "00:00", BERLIN, "2026-10-25 00:00:00"),  # a day of 25 hours
        ("2026-03-29 12:00:00", DAY, "02:30", BERLIN, "2026-03-29 02:30:00"),  # a time that this day does not have
        ("2026-10-25 23:30:00", DAY, "00:00", BERLIN, "2026-10-25 00:00:00"),  # 24.5 hours later
    ],
)
def test_slots(now: str, every: int, begin: str, zone: str, slot: str) -> None:
    assert slots(at(now, zone), every, begin, zone)[0] == at(slot, zone)


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-06-01", 24), ("2026-10-25", 25)])
def test_each_hour_of_a_day_has_a_slot(day: str, hours: int) -> None:
    midnight = at(f"{day} 00:00:00", BERLIN)
    next_day = at(str(dt.date.fromisoformat(day) + dt.timedelta(days=1)) + " 00:00:00", BERLIN)
    pairs = {slots(now, 60, "00:00", BERLIN) for now in range(int(midnight), int(next_day), 300)}
    latest, following = ({pair[which] for pair in pairs} for which in (0, 1))
    assert len(latest) == hours and max(latest) < next_day
    assert following == latest - {midnight} | {next_day}


@given(
    st.floats(0, 4e9),
    st.sampled_from([5, 10, 15, 20, 30, 60, 90, 120, 240, 360, 720, DAY, 2 * DAY, 7 * DAY, 28 * DAY]),
    st.integers(0, DAY - 1),
    st.sampled_from(["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"]),
)
def test_a_slot_is_never_ahead_never_old_and_found_again(now: float, every: int, minute: int, zone: str) -> None:
    begin = f"{minute // 60:02}:{minute % 60:02}"
    schedule_times.check(every, begin, zone)
    slot, following = slots(now, every, begin, zone)
    assert now - 60 * (every + DAY) < slot <= now < following  # a clock change, or a day that a country skipped
    assert slots(slot, every, begin, zone) == (slot, following)
    assert slots(following, every, begin, zone)[0] == following


def test_a_clock_that_was_ahead_does_not_stop_a_schedule() -> None:
    slot = at("2026-11-25 22:00:00")
    assert is_due(slot + 60, None, slot) and is_due(slot + 60, slot - DAY * 60, slot)
    assert not is_due(slot + 60, slot, slot)
    assert is_due(slot + 60, slot + 365 * 86400, slot), "the last one was taken a year ahead"


@pytest.mark.parametrize(
    ("every", "begin", "zone", "field"),
    [
        (7, "00:00", "UTC", "every_minutes"),
        (DAY + 60, "00:00", "UTC", "every_minutes"),
        (1, "00:00", "UTC", "every_minutes"),
        (60, "24:00", "UTC", "at"),
        (60, "0:0", "UTC", "at"),
        (60, "00:00", "Europe/Atlantis", "time_zone"),
        (60, "00:00", "../../etc/passwd", "time_zone"),
        (60, "00:00", "", "time_zone"),
    ],
)
def test_invalid_times(every: int, begin: str, zone: str, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        schedule_times.check(every, begin, zone)
    assert caught.value.field_name == field
