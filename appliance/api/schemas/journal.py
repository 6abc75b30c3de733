# SPDX-License-Identifier: Apache-2.0
"""Jobs, alerts, audit, the server's journal."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.schemas.common import ListQuery
from appliance.api.types import Answer
from appliance.domain.fields import Name, Time
from appliance.worker.server_log import Priority, Unit


class JobQuery(ListQuery):
    """Filter: all given fields must match."""

    state: Literal["queued", "running", "succeeded", "failed", "cancelled"] | None = None
    active: bool = False
    """Only jobs that wait or run."""
    subject: Annotated[str, Field(min_length=1, max_length=200, pattern=r'^[^\x00-\x1f"]+$')] | None = None
    """Jobs of this object, such as a datastore's identifier, of its files and snapshots, and jobs that need it."""


class AlertQuery(ListQuery):
    """Filter."""

    open: bool = True


class JobProblemResponse(Answer):
    """Why it failed."""

    code: str
    text: str
    undone: bool = False
    """Whether nothing is left of what it has half made. False if that is not known."""
    left: str | None = None
    """Why what it has half made could not be taken back, and may be there still."""


class JobResponse(Answer):
    """Long work, and how far it is. `succeeded` says that storage and configuration are changed. `result` says what hosts get:
    if `served` is false, or `problem` or `problems` are not empty, the worker retries the rest every 60 s.
    """

    id: str
    kind: str
    subject: str
    name: str
    """Name of the subject when the job was queued: "gold1@before"."""
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    step: str
    percent: int
    problem: JobProblemResponse | None
    result: dict[str, object] | None
    actor: str
    created_at: Time
    started_at: Time | None
    ended_at: Time | None


class AlertResponse(Answer):
    """Something to know of."""

    id: int
    key: str
    severity: Literal["info", "warning", "critical"]
    subject: str
    text: str
    remedy: str
    raised_at: Time
    cleared_at: Time | None
    acknowledged_at: Time | None
    acknowledged_by: str | None


UnixTime = Annotated[float, Field(ge=0, le=1e11)]


class AuditQuery(ListQuery):
    """Filter of audit entries: all given fields must match. Times in seconds since 1970."""

    actor: Name | None = None
    """A user's name."""
    action: Annotated[str, Field(max_length=64, pattern=r"^[a-z_-]+(\.[a-z_-]+)?$")] | None = None
    """One, as "datastore.create", or all of a kind, as "datastore"."""
    refused: bool | None = None
    """Whether it was answered with a problem."""
    since: UnixTime | None = None
    until: UnixTime | None = None


class AuditResponse(Answer):
    """An action or an attempt, with its user."""

    id: int
    at: Time
    actor: str
    token: str | None
    """Name of the API token that was used; null for a session."""
    address: str
    action: str
    subject: str
    name: str
    """Name of the subject at that time."""
    before: dict[str, object] | None
    after: dict[str, object] | None
    status: int | None
    """HTTP status; null while the request is running, and after a crash during it."""


class LogQuery(ListQuery):
    """Filter. Times in seconds since 1970."""

    unit: Unit | None = None
    priority: Priority | None = None
    """This one and more severe ones."""
    since: UnixTime | None = None
    until: UnixTime | None = None
    text: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")] | None = None
    """Part of the entry, in upper or lower case."""


class LogResponse(Answer):
    """An entry of the journal."""

    at: Time
    unit: str
    priority: Priority
    text: str
