# SPDX-License-Identifier: Apache-2.0
"""Snapshots, clones, rollbacks, schedules."""

from typing import Literal

from pydantic import Field

from appliance.api.schemas.common import ListQuery
from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Bytes, Guid, Time
from appliance.worker.thick import DatastoreRoomResponse


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
    schedule: str | None
    """Identifier of the schedule that took it."""
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

    MEASURED = frozenset({"last_at", "next_at"})
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
    next_at: Time | None
    """When its next run is due; in the past for a run that waits. Null while it is disabled or its time zone is not known."""
    created_at: Time


class RoomResponse(Answer):
    """Space in the pool for the next snapshots of a schedule; thin datastores need none. With less they are refused."""

    needed: Bytes
    available: Bytes
    datastores: list[DatastoreRoomResponse]
