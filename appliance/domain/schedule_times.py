# SPDX-License-Identifier: Apache-2.0
"""At which moments a schedule is due: slots at a time of day in a time zone, which do not drift.

A day's slots begin at the schedule's time of day. On the day that a clock change makes longer or shorter, the number of slots of
an interval below a day follows the length of the day. Of schedules of several days the first is Monday, 5 January 1970, so that a
week begins on Monday.
"""

import datetime as dt
import re
import zoneinfo
from functools import cache

from appliance.domain.errors import InvalidError

DAY = 1440
"""Minutes."""
AHEAD_S = 900.0
"""A clock that is set back by less makes nothing due again."""
LEAST, MOST = 5, 366 * DAY
AT = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_FIRST_MONDAY = dt.date(1970, 1, 5).toordinal()


@cache
def zone(name: str) -> zoneinfo.ZoneInfo:
    """A time zone of the IANA database. Raises InvalidError."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidError(
            "time_zone",
            f"there is no time zone {name!r}",
            "a name such as UTC or Europe/Berlin; for US/Eastern and its like, apt install tzdata-legacy",
        ) from None


def check(every_minutes: int, at: str, time_zone: str) -> None:
    """Raises InvalidError."""
    whole = every_minutes % DAY == 0 if every_minutes > DAY else DAY % every_minutes == 0
    if not LEAST <= every_minutes <= MOST or not whole:
        allowed = "5, 10, 15, 20, 30, 60, 90, 120, 180, 240, 360, 480, 720, or whole days of 1440"
        raise InvalidError("every_minutes", "neither a part of a day nor whole days", allowed)
    if not re.fullmatch(AT, at):
        raise InvalidError("at", "not a time of day", "HH:MM, from 00:00 to 23:59")
    zone(time_zone)


def slots(now: float, every_minutes: int, at: str, time_zone: str) -> tuple[float, float]:
    """The newest slot at or before `now`, and the slot after it; all are seconds since 1970."""
    where = zone(time_zone)
    hour, minute = (int(part) for part in at.split(":"))

    def begin(day: int) -> float:
        date = dt.date.fromordinal(day)
        return dt.datetime(date.year, date.month, date.day, hour, minute, tzinfo=where).timestamp()

    day = dt.datetime.fromtimestamp(now, where).toordinal()
    if begin(day) > now:
        day -= 1
    if every_minutes >= DAY:  # also on a day of 25 hours
        days = every_minutes // DAY
        day -= (day - _FIRST_MONDAY) % days
        return begin(day), begin(day + days)
    interval = 60 * every_minutes
    latest = begin(day) + (now - begin(day)) // interval * interval
    return latest, min(latest + interval, begin(day + 1))


def is_due(now: float, last_slot: float | None, slot: float) -> bool:
    """Whether to use a slot. A last slot in the future does not delay it: the clock was wrong then."""
    return last_slot is None or last_slot < slot or last_slot > now + AHEAD_S
