# SPDX-License-Identifier: Apache-2.0
"""The snapshots that a schedule retains: the newest ones, and the newest of each hour, day, week and month."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from appliance.domain import schedule_times
from appliance.domain.errors import InvalidError
from appliance.zfs.model import Snapshot, Source

SCHEDULE = "zvaai:schedule"
"""User property of a snapshot: the schedule that took it."""
PROTECT = "zvaai:protect"
"""User property of a snapshot: end of its protection, in seconds since 1970. It has the hold PROTECTED until then."""
PROTECTED = "zvaai-protect"
"""Tag of the hold: OpenZFS destroys no snapshot with a hold (zfs-hold(8)). Only the worker releases it."""
TIERS = ("hourly", "daily", "weekly", "monthly")
_TAKEN_AT = re.compile(r".+_\d{4}-\d\d-\d\d_\d{6}Z")


@dataclass(frozen=True)
class Retention:
    """How many snapshots of each datastore a schedule retains. Tiers count the hours, days, ... that have a snapshot."""

    keep: int
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    time_zone: str = "UTC"

    def is_lower(self, other: Retention) -> bool:
        return any(getattr(self, name) < getattr(other, name) for name in ("keep", *TIERS))

    def retained(self, snapshots: Sequence[Snapshot]) -> set[str]:
        newest = sorted(snapshots, key=lambda snapshot: snapshot.createtxg, reverse=True)
        stay = {snapshot.name for snapshot in newest[: self.keep]}
        where = schedule_times.zone(self.time_zone)
        for tier in TIERS:
            stay |= _first_of_each(newest, getattr(self, tier), _BUCKETS[tier], where)
        return stay


_BUCKETS: Mapping[str, Callable[[dt.datetime], tuple[int, ...]]] = {
    "hourly": lambda at: (at.year, at.month, at.day, at.hour, at.fold),
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
}


def _first_of_each(
    newest: Sequence[Snapshot], count: int, bucket: Callable[[dt.datetime], tuple[int, ...]], where: dt.tzinfo
) -> set[str]:
    """The newest snapshot of each of the newest `count` periods with a snapshot."""
    by_period: dict[tuple[int, ...], str] = {}
    for snapshot in newest:
        period = bucket(dt.datetime.fromtimestamp(snapshot.creation, where))
        if period not in by_period and len(by_period) < count:
            by_period[period] = snapshot.name
    return set(by_period.values())


def is_of_schedule(snapshot: Snapshot, schedule_id: str) -> bool:
    """Whether the schedule took it: by its mark and the form of its name."""
    mark = snapshot.properties.get(SCHEDULE)
    if mark is None or mark.source != Source.LOCAL:  # received: taken by another appliance's schedule
        return False
    return mark.value == schedule_id and _TAKEN_AT.fullmatch(snapshot.tag) is not None


def surplus(snapshots: Iterable[Snapshot], rules: Mapping[str, Retention]) -> list[Snapshot]:
    """Snapshots that their schedule does not retain, without held ones and those with clones."""
    by_schedule: dict[tuple[str, str], list[Snapshot]] = {}
    for snapshot in snapshots:
        mark = snapshot.properties.get(SCHEDULE)
        if mark is not None and mark.value in rules and is_of_schedule(snapshot, mark.value):
            by_schedule.setdefault((snapshot.dataset, mark.value), []).append(snapshot)
    not_retained = []
    for (_dataset, schedule_id), taken in by_schedule.items():
        try:
            stay = rules[schedule_id].retained(taken)
        except InvalidError:  # its time zone is unknown; an alert says so
            continue
        not_retained += [
            snapshot for snapshot in taken if snapshot.name not in stay and not snapshot.holds and not snapshot.clones
        ]
    return not_retained


def protected_until(snapshot: Snapshot) -> float | None:
    """End of its protection, in seconds since 1970; None if it is not protected."""
    protected = snapshot.properties.get(PROTECT)
    return (
        float(protected.value)
        if protected is not None and re.fullmatch(r"\d{1,11}", protected.value) and snapshot.holds
        else None
    )


def expired(snapshots: Iterable[Snapshot], now: float) -> list[Snapshot]:
    """Snapshots whose protection has ended and that still have the hold."""
    return [snapshot for snapshot in snapshots if (until := protected_until(snapshot)) is not None and until <= now]
