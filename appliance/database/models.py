# SPDX-License-Identifier: Apache-2.0
"""The tables. Times are seconds since 1970, by the server's clock; lists and objects are JSON."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON}


class Setting(Base):
    __tablename__ = "settings"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]


class Installation(Base):
    """The only row, which identifies the database. `generation` counts changes of the configuration (generation.py).

    `sealed_key` opens the copies of the configuration on pools; it is sealed with the appliance's own key. `recovery_seal` is the
    same key, sealed with the recovery key, which is stored nowhere. Both are null until the first admin is made.
    """

    __tablename__ = "installation"
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    generation: Mapped[int]
    sealed_key: Mapped[str | None]
    recovery_seal: Mapped[str | None]
    recovery_reason: Mapped[str | None]
    """Why the appliance is in recovery mode; null if it is not."""
    decided_generation: Mapped[int] = mapped_column(default=0)
    """Highest generation on the pools when an admin decided: copies up to it are older. At least 1 after a decision."""


class PublishedCopy(Base):
    """A copy of the configuration that was written to pools, or was about to be. Only the newest are stored."""

    __tablename__ = "published_copies"
    generation: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str]


class User(Base):
    """Who may log in. `role` is viewer, operator or admin. `totp_secret` is sealed; of recovery codes the hashes are here.

    `source` is where the password is: "local", or a login of domain/logins.py.
    """

    __tablename__ = "users"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    source: Mapped[str] = mapped_column(default="local")
    password_hash: Mapped[str | None]
    totp_secret: Mapped[str | None]
    totp_used: Mapped[int] = mapped_column(default=0)
    """Time step of the last code, which is not taken again."""
    recovery_codes: Mapped[list[str]] = mapped_column(default=list)
    disabled: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[float]


class LoginSession(Base):
    """A browser's session. Of its cookie only the hash is here."""

    __tablename__ = "sessions"
    hash: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    address: Mapped[str]
    created_at: Mapped[float]
    used_at: Mapped[float]


class Token(Base):
    """An API token. Of its secret only the hash is here. `scope` is the most it may do, whatever its user may."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    scope: Mapped[str]
    hash: Mapped[str]
    created_at: Mapped[float]
    expires_at: Mapped[float]
    used_at: Mapped[float | None]


class LoginFailure(Base):
    """Failed logins by user and address, by address, or by user: too many cause a delay."""

    __tablename__ = "login_failures"
    key: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]
    last_at: Mapped[float] = mapped_column(index=True)
    locked_until: Mapped[float]


class HostGroup(Base):
    """Hosts that see the same datastores. `disabled` are the offloads they are not offered."""

    __tablename__ = "host_groups"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    disabled: Mapped[list[str]]
    created_at: Mapped[float]


class Host(Base):
    """An ESXi host. `chap_secret` is sealed; `chap_revision` counts its changes, `chap_applied` is the revision that the target
    has.
    """

    __tablename__ = "hosts"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    group_id: Mapped[str | None] = mapped_column(ForeignKey("host_groups.id"), index=True)
    addresses: Mapped[list[str]]
    chap_name: Mapped[str | None]
    chap_secret: Mapped[str | None]
    chap_revision: Mapped[int] = mapped_column(default=0)
    chap_applied: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[float]


class HostInitiator(Base):
    """An iSCSI name of a host; a name belongs to one host."""

    __tablename__ = "host_initiators"
    iqn: Mapped[str] = mapped_column(primary_key=True)
    host_id: Mapped[str] = mapped_column(ForeignKey("hosts.id", ondelete="CASCADE"), index=True)


class Presentation(Base):
    """Presentation of a VMFS datastore, by UUID: the LUN number is the same for all hosts.

    `name` and `pool` are the last known ones, for when the datastore is missing; empty before the first reconciliation.
    """

    __tablename__ = "presentations"
    datastore: Mapped[str] = mapped_column(primary_key=True)
    lun: Mapped[int] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(default="")
    pool: Mapped[str] = mapped_column(default="")


class PresentationGroup(Base):
    """A host group that sees a datastore."""

    __tablename__ = "presentation_groups"
    datastore: Mapped[str] = mapped_column(ForeignKey("presentations.datastore", ondelete="CASCADE"), primary_key=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("host_groups.id"), primary_key=True, index=True)


class Export(Base):
    """Presentation of an NFS datastore, by UUID: number and share are the same for all hosts; `name` and `pool` as above."""

    __tablename__ = "exports"
    datastore: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(unique=True)
    share: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(default="")
    pool: Mapped[str] = mapped_column(default="")
    clients: Mapped[list[str]]


class ExportGroup(Base):
    """A host group whose addresses may mount an NFS datastore."""

    __tablename__ = "export_groups"
    datastore: Mapped[str] = mapped_column(ForeignKey("exports.datastore", ondelete="CASCADE"), primary_key=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("host_groups.id"), primary_key=True, index=True)


class Job(Base):
    """Long work. `parameters` hold every decision, made before it begins, so that it can be taken up again after a crash.

    `key` is the request's idempotency key: a repeated request finds the same job.
    """

    __tablename__ = "jobs"
    id: Mapped[str] = mapped_column(primary_key=True)
    sequence: Mapped[int] = mapped_column(unique=True)
    kind: Mapped[str]
    subject: Mapped[str] = mapped_column(index=True)
    name: Mapped[str] = mapped_column(default="")
    """Name of the subject when the job was queued, for users: "gold1@before"."""
    parameters: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(index=True)
    step: Mapped[str] = mapped_column(default="")
    percent: Mapped[int] = mapped_column(default=0)
    cancel: Mapped[bool] = mapped_column(default=False)
    problem: Mapped[dict[str, Any] | None]
    result: Mapped[dict[str, Any] | None]
    actor: Mapped[str]
    key: Mapped[str | None] = mapped_column(unique=True)
    created_at: Mapped[float]
    started_at: Mapped[float | None]
    ended_at: Mapped[float | None] = mapped_column(index=True)


class AuditEntry(Base):
    """An action or attempt of a user. `status` is null until its end, and remains null if the process died."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[float]
    actor: Mapped[str]
    token: Mapped[str | None]
    """Name of the API token that the actor used; null for a session."""
    address: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    name: Mapped[str] = mapped_column(default="")
    """Name of the subject at that time."""
    before: Mapped[dict[str, Any] | None]
    after: Mapped[dict[str, Any] | None]
    status: Mapped[int | None]


class Alert(Base):
    """A problem for an admin, until `cleared_at`. Each `key` has at most one open alert."""

    __tablename__ = "alerts"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str]
    severity: Mapped[str]
    subject: Mapped[str]
    text: Mapped[str]
    remedy: Mapped[str]
    raised_at: Mapped[float]
    cleared_at: Mapped[float | None]
    acknowledged_at: Mapped[float | None]
    acknowledged_by: Mapped[str | None]
    __table_args__ = (Index("ix_alerts_key_cleared_at", "key", "cleared_at"),)


class Receiver(Base):
    """Gets alerts of a severity and above: webhook or e-mail by the scheme of `url`.

    `url` and `secret` are sealed: the latter signs for webhooks, or is the password of a mail server. `certificate` (PEM) is the
    authority's that signs the receiver's. `sender`, `recipients` and `user` are of e-mail.
    """

    __tablename__ = "receivers"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    url: Mapped[str]
    secret: Mapped[str]
    severity: Mapped[str]
    certificate: Mapped[str | None]
    enabled: Mapped[bool]
    sender: Mapped[str] = mapped_column(default="")
    recipients: Mapped[list[str]]
    user: Mapped[str | None]
    created_at: Mapped[float]


class Delivery(Base):
    """A notification for a receiver. `body` is sent unchanged with `event` on each attempt; `status` is the last HTTP status."""

    __tablename__ = "deliveries"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    receiver_id: Mapped[str] = mapped_column(ForeignKey("receivers.id", ondelete="CASCADE"), index=True)
    event: Mapped[str]
    kind: Mapped[str]
    body: Mapped[str]
    state: Mapped[str] = mapped_column(index=True)
    attempts: Mapped[int]
    refusals: Mapped[int] = mapped_column(default=0)
    """How often in a row it was answered that it won't be taken."""
    status: Mapped[int | None]
    problem: Mapped[str | None]
    created_at: Mapped[float]
    due_at: Mapped[float]
    ended_at: Mapped[float | None]


class Event(Base):
    """A change, for the subscribers of the event stream. Only the newest are retained."""

    __tablename__ = "events"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[float]
    kind: Mapped[str]
    subject: Mapped[str]
    data: Mapped[dict[str, Any]]


class IdempotencyKey(Base):
    """The answer to a request that may be sent again. `status` is null while the first is under way."""

    __tablename__ = "idempotency_keys"
    actor: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    status: Mapped[int | None]
    headers: Mapped[dict[str, Any]]
    body: Mapped[str]
    created_at: Mapped[float] = mapped_column(index=True)


class Schedule(Base):
    """Snapshots of datastores in one atomic step, or the scrub of a pool, by the clock (domain/schedules.py: ScheduleCreate)."""

    __tablename__ = "schedules"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    datastores: Mapped[list[str]]
    pool: Mapped[str | None]
    every_minutes: Mapped[int]
    at: Mapped[str]
    time_zone: Mapped[str]
    keep: Mapped[int]
    hourly: Mapped[int]
    daily: Mapped[int]
    weekly: Mapped[int]
    monthly: Mapped[int]
    protect_days: Mapped[int]
    enabled: Mapped[bool]
    last_at: Mapped[float | None]
    """When its last job that succeeded ended."""
    attempted_at: Mapped[float | None]
    """The last slot for which a job was queued."""
    created_at: Mapped[float]
