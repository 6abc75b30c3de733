# SPDX-License-Identifier: Apache-2.0
"""Snapshots, clones, rollbacks, schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.schemas.datastores import ClientsAsked, Groups, Squash, Versions
from appliance.api.types import Answer, Bytes, DatastoreName, Guid, Identifier, Lun, Model, Name, SnapshotName, Time, Versioned


class SnapshotTold(Answer):
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


class SnapshotPage(Answer):
    """Snapshots, oldest first."""

    items: list[SnapshotTold]
    next_cursor: str | None


class HoldTold(Answer):
    """A hold on a snapshot. `of`: a user's, the appliance's own, or that of a `zfs send`; only the first is released here."""

    tag: str
    created_at: Time
    of: Literal["user", "appliance", "openzfs"]


class HoldPage(Answer):
    """Holds, by tag."""

    items: list[HoldTold]
    next_cursor: str | None


class HoldAsked(Model):
    """`tag` says who needs the snapshot, or what for; those that begin with zvaai are the appliance's own."""

    tag: SnapshotName


class SnapshotAsked(Model):
    """Snapshots of one or several datastores of a pool, in one atomic step."""

    name: SnapshotName
    datastores: Annotated[list[Identifier], Field(min_length=1, max_length=256)]


class CloneAsked(ClientsAsked):
    """An instant copy, of a snapshot or of now."""

    name: DatastoreName
    snapshot: SnapshotName | None = None
    lun: Lun | None = None
    host_groups: Groups = []
    versions: Versions | None = None
    squash: Squash | None = None


class RollbackAsked(Model):
    """`force`: also while hosts are logged in, and destroying newer snapshots."""

    force: bool = False


class ScheduleTold(Versioned):
    """Snapshots by the clock."""

    MEASURED = frozenset({"last_at"})
    id: str
    name: str
    datastores: list[str]
    every_minutes: int
    keep: int
    enabled: bool
    last_at: Time | None
    created_at: Time


class SchedulePage(Answer):
    """Schedules, by name."""

    items: list[ScheduleTold]
    next_cursor: str | None


class ScheduleAsked(Model):
    """Snapshots of datastores of a pool in one atomic step, every so many minutes; the newest `keep` of each are kept."""

    name: Name
    datastores: Annotated[list[Identifier], Field(min_length=1, max_length=256)]
    every_minutes: int = Field(ge=5, le=525600)
    keep: int = Field(ge=1, le=1000)
    enabled: bool = True


class ScheduleChange(Model):
    """What to change."""

    name: Name | None = None
    datastores: Annotated[list[Identifier], Field(min_length=1, max_length=256)] | None = None
    every_minutes: int | None = Field(None, ge=5, le=525600)
    keep: int | None = Field(None, ge=1, le=1000)
    enabled: bool | None = None
