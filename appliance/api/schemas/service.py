# SPDX-License-Identifier: Apache-2.0
"""The appliance itself: status, readiness, settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer
from appliance.domain.fields import Bytes, Model, Time


class TargetStateResponse(Answer):
    """The iSCSI target."""

    running: bool
    version: str
    portals: list[str]
    luns_serving: int
    luns_failed: int
    sessions: int
    problem: str | None


class PoolStateResponse(Answer):
    """A pool, in short."""

    name: str
    health: str
    size: Bytes
    """Raw, with the parity of RAID-Z."""
    usable: Bytes | None
    """Size for data; null if the pool cannot be read."""
    used_percent: int
    """With reserved space, if that leaves clearly less room than the disks."""
    problem: str
    warning_percent: int
    critical_percent: int


class StatusResponse(Answer):
    """Overview of the appliance."""

    version: str
    target: TargetStateResponse
    pools: list[PoolStateResponse]
    storage_problem: str | None
    reconciled_at: Time | None
    reconcile_problem: str | None
    unacknowledged_alerts: int
    """Open alerts that need action: not acknowledged, and more severe than `info`."""
    active_jobs: int


class CertificateResponse(Answer):
    """The certificate that nginx presents. The appliance creates and renews self-signed certificates."""

    subject: str
    issuer: str
    names: list[str]
    """DNS names and addresses that it is for."""
    not_before: Time
    not_after: Time
    fingerprint: str
    """SHA-256, in pairs of hexadecimal digits."""
    self_signed: bool


class CertificateUpdate(Model):
    """A certificate of an authority, with its key; both PEM."""

    certificate: Annotated[str, Field(max_length=65536)]
    """The server's certificate, then its issuers."""
    private_key: Annotated[str, Field(max_length=16384)]
    """Without a passphrase."""


class CheckResponse(Answer):
    """A check for one thing that keeps offloads from working."""

    id: str
    title: str
    result: Literal["ok", "warning", "failed", "unknown"]
    evidence: str
    remedy: str
    subject: str


class HostCommandsResponse(Answer):
    """Commands for one host, in addition to those for all."""

    host: str
    esxcli: list[str]


class ReadinessResponse(Answer):
    """All checks, and commands to paste on each host once."""

    checks: list[CheckResponse]
    esxcli: list[str]
    target: str
    """iSCSI name of the target."""
    portals: list[str]
    """Where hosts reach it: advertised addresses, and for "every address" those of this server."""
    hosts: list[HostCommandsResponse]


class IscsiSettingsResponse(Answer):
    """CHAP of the iSCSI target. While it is required, a host without a secret cannot log in."""

    chap_required: bool
    target_chap_name: str | None
    """By which the target proves itself to hosts that request that (mutual CHAP), while CHAP is required."""


class IscsiSettingsUpdate(Model):
    """`force`: also if hosts without a secret are logged in."""

    chap_required: bool
    force: bool = False


class ReconcileResponse(Answer):
    """Drift, and failures to repair it."""

    differences: list[str]
    failures: list[FailureResponse]


class FailureResponse(Answer):
    """A step that was refused."""

    subject: str
    text: str


class OffloadsResponse(Answer):
    """Counters of the target by LUN (zvol_target/docs/control.md), and of the NFS server by export.

    Those of the NFS server are in docs/vaai_nas.md; `datastore` is the exported datastore. `nfs_problem` says why they
    can't be had.
    """

    luns: list[dict[str, object]]
    exports: list[dict[str, object]]
    nfs_problem: str | None
    totals: dict[str, dict[str, object]]
    """Bytes by kind of all `luns` and of all `exports` that there ever were: they never fall."""


class HealthResponse(Answer):
    """The process answers."""

    status: Literal["ok"]
