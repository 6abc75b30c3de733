# SPDX-License-Identifier: Apache-2.0
"""Snapshots, clones, rollbacks, schedules."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.schemas.common import ListQuery
from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Bytes, Guid, Identifier, Model, Name, Time
from appliance.domain.requests import PoolName
from appliance.worker.thick import RoomOfDatastore


class SnapshotResponse(Answer):
    """A snapshot of a datastore."""

    datastore: str
    name: str
    full_name: str
    guid: Guid
    created_at: Time
    used: Bytes
    referenced: Bytes
    holds: int
    clones: list[str]
    protected_until: Time | None
    """Nobody can destroy it before."""


class SnapshotQuery(ListQuery):
    """`search`: words that occur in DATASTORE@SNAPSHOT, in upper or lower case."""

    search: str = Field("", max_length=200, pattern=r"^[^\x00-\x1f]*$")


class HoldResponse(Answer):
    """A hold on a snapshot. `of`: a user's, the appliance's own, or that of a `zfs send`; only the first is released here."""

    tag: str
    created_at: Time
    of: Literal["user", "appliance", "openzfs"]


class ScheduleResponse(Versioned):
    """Snapshots of datastores, or scrubs of a pool, by the clock."""

    MEASURED = frozenset({"last_at"})
    id: str
    name: str
    kind: Literal["snapshot", "scrub"]
    datastores: list[str]
    pool: str | None
    every_minutes: int
    at: str
    time_zone: str
    keep: int
    hourly: int
    daily: int
    weekly: int
    monthly: int
    protect_days: int
    enabled: bool
    last_at: Time | None
    """When its last job that succeeded ended."""
    created_at: Time


class RoomResponse(Answer):
    """Space in the pool for the next snapshots of a schedule; thin datastores need none. With less they are refused."""

    needed: Bytes
    available: Bytes
    datastores: list[RoomOfDatastore]


At = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
TimeZone = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$")]
Every = Annotated[int, Field(ge=5, le=527040)]
Keep = Annotated[int, Field(ge=1, le=1000)]
Tier = Annotated[int, Field(ge=0, le=1000)]
Days = Annotated[int, Field(ge=0, le=3650)]
Scheduled = Annotated[list[Identifier], Field(max_length=256)]


class ScheduleCreate(Model):
    """Snapshots of `datastores` of one pool, in one atomic step, or with kind `scrub` the scrub of a `pool`.

    It runs at `at` in `time_zone`, and from there each `every_minutes`: a part of a day, or whole days. It retains the newest
    `keep` snapshots of each datastore, and the newest of so many hours, days, weeks and months. A snapshot that it took can't be
    destroyed for `protect_days`, by nobody.
    """

    name: Name
    kind: Literal["snapshot", "scrub"] = "snapshot"
    datastores: Scheduled = []
    pool: PoolName | None = None
    every_minutes: Every
    at: At = "00:00"
    time_zone: TimeZone = "UTC"
    keep: Keep = 1
    hourly: Tier = 0
    daily: Tier = 0
    weekly: Tier = 0
    monthly: Tier = 0
    protect_days: Days = 0
    enabled: bool = True


class ScheduleUpdate(Model):
    """Fields to change."""

    name: Name | None = None
    datastores: Scheduled | None = None
    every_minutes: Every | None = None
    at: At | None = None
    time_zone: TimeZone | None = None
    keep: Keep | None = None
    hourly: Tier | None = None
    daily: Tier | None = None
    weekly: Tier | None = None
    monthly: Tier | None = None
    protect_days: Days | None = None
    enabled: bool | None = None
