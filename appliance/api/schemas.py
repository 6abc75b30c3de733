"""What the API takes and gives, by resource."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.api.types import (
    Answer,
    Bytes,
    BytesAsked,
    DatastoreName,
    Guid,
    Identifier,
    Lun,
    Model,
    Name,
    Password,
    Percent,
    SnapshotName,
    Time,
)

RoleName = Literal["viewer", "operator", "admin"]
Offload = Literal["compare_and_write", "extended_copy", "write_same", "unmap", "token"]
Groups = Annotated[list[Identifier], Field(max_length=256)]


class Empty(Answer):
    """Nothing to tell."""


class FieldProblem(Answer):
    """What is wrong with one field."""

    field: str
    reason: str
    allowed: str = ""


class Problem(Answer):
    """RFC 9457. `code` names the kind of problem for programs."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] = []
    blocking: list[str] = []
    can_force: bool = False
    retry_after: int | None = None


# --- lists


class ListQuery(Model):
    """A page of a list: as many as `limit`, after where `cursor` points."""

    limit: int = Field(100, ge=1, le=500)
    cursor: str | None = Field(None, max_length=512)


class DatastoreQuery(ListQuery):
    """Which of them."""

    state: Literal["active", "deleted", "copy", "missing"] | None = None


class JobQuery(ListQuery):
    """Which of them."""

    state: Literal["queued", "running", "succeeded", "failed", "cancelled"] | None = None


class AlertQuery(ListQuery):
    """Which of them."""

    open: bool = True


class ForceQuery(Model):
    """`force` does what is otherwise refused because hosts are logged in."""

    force: bool = False


# --- who


class SetupState(Answer):
    """Whether the first admin is still to be made."""

    needed: bool


class SetupAsked(Model):
    """The first admin, with the one-time code that the server printed."""

    code: str = Field(max_length=64)
    name: Name
    password: Password


class LoginAsked(Model):
    """A user's name and password."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Password


class SessionTold(Answer):
    """Who is logged in. `csrf_token` goes into the header X-CSRF-Token of what changes something; null for API tokens."""

    user: str
    name: str
    role: RoleName
    csrf_token: str | None


class UserTold(Answer):
    """A user."""

    id: str
    name: str
    role: RoleName
    disabled: bool
    created_at: Time


class UserPage(Answer):
    """Users."""

    items: list[UserTold]
    next_cursor: str | None


class UserAsked(Model):
    """A new user."""

    name: Name
    role: RoleName
    password: Password


class UserChange(Model):
    """What to change."""

    role: RoleName | None = None
    password: Password | None = None
    disabled: bool | None = None
    end_tokens: bool = False
    """All the user's API tokens end; sessions end with a new password anyway."""


class PasswordChange(Model):
    """One's own password."""

    current: Password
    new: Password
    end_tokens: bool = False
    """One's API tokens end too."""


class TokenTold(Answer):
    """An API token; its secret is told once, when it is made."""

    id: str
    name: str
    scope: RoleName
    created_at: Time
    expires_at: Time
    used_at: Time | None


class TokenPage(Answer):
    """Tokens."""

    items: list[TokenTold]
    next_cursor: str | None


class TokenAsked(Model):
    """A new token of one's own."""

    name: Name
    scope: RoleName
    days: int = Field(ge=1, le=366)
    password: Password | None = None
    """One's own. Without it a session makes none, and a token none that lives longer than itself."""


class TokenMade(TokenTold):
    """With its secret, for the header `Authorization: Bearer SECRET`."""

    secret: str


# --- jobs, alerts, audit


class JobProblem(Answer):
    """Why it failed."""

    code: str
    text: str


class JobTold(Answer):
    """Long work, and how far it is."""

    id: str
    kind: str
    subject: str
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    step: str
    percent: int
    problem: JobProblem | None
    result: dict[str, Any] | None
    actor: str
    created_at: Time
    started_at: Time | None
    ended_at: Time | None


class JobPage(Answer):
    """Jobs, the newest first."""

    items: list[JobTold]
    next_cursor: str | None


class AlertTold(Answer):
    """Something to know of."""

    id: int
    key: str
    severity: Literal["warning", "critical"]
    subject: str
    text: str
    remedy: str
    raised_at: Time
    cleared_at: Time | None
    acknowledged_at: Time | None
    acknowledged_by: str | None


class AlertPage(Answer):
    """Alerts, the newest first."""

    items: list[AlertTold]
    next_cursor: str | None


class AuditTold(Answer):
    """Who did or tried what."""

    id: int
    at: Time
    actor: str
    address: str
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    status: int | None
    """As answered; null while it is under way, and for ever where the service died meanwhile."""


class AuditPage(Answer):
    """The audit, the newest first."""

    items: list[AuditTold]
    next_cursor: str | None


# --- storage


class VdevTold(Answer):
    """A vdev with those below it."""

    name: str
    kind: str
    guid: Guid
    health: str
    role: str
    path: str | None
    size: Bytes
    allocated: Bytes
    read_errors: int
    write_errors: int
    checksum_errors: int
    vdevs: list[VdevTold] = []


class ScanTold(Answer):
    """The running or else the last scrub or resilver."""

    function: str
    state: str
    started: Time
    ended: Time | None
    progress: float
    errors: int


class PoolTold(Answer):
    """An imported pool."""

    name: str
    guid: Guid
    health: str
    size: Bytes
    allocated: Bytes
    free: Bytes
    fragmentation: int
    readonly: bool
    error_count: int
    status: str
    action: str
    scan: ScanTold | None
    vdevs: list[VdevTold]
    bclone_used: Bytes
    bclone_saved: Bytes
    bclone_ratio: float


class PoolPage(Answer):
    """Pools."""

    items: list[PoolTold]
    next_cursor: str | None


Device = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
PoolName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]


class DiskTold(Answer):
    """A block device that could be a pool's; `used_by` says by what it is used."""

    path: str
    device: str
    size: Bytes
    model: str
    serial: str
    rotational: bool
    used_by: str | None


class DiskPage(Answer):
    """Disks, by path."""

    items: list[DiskTold]
    next_cursor: str | None


class ImportableTold(Answer):
    """A pool on the machine's devices that is not imported; with a `last_host` importing needs force."""

    name: str
    guid: Guid
    health: str
    status: str
    action: str
    last_host: str | None
    devices: list[str]


class ImportablePage(Answer):
    """Pools that can be imported."""

    items: list[ImportableTold]
    next_cursor: str | None


class VdevAsked(Model):
    """A vdev to make; a stripe makes each device one of its own."""

    devices: Annotated[list[Device], Field(min_length=1, max_length=64)]
    redundancy: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"] = "stripe"
    role: Literal["data", "log", "cache", "spare", "special", "dedup"] = "data"


Vdevs = Annotated[list[VdevAsked], Field(min_length=1, max_length=32)]


class PoolAsked(Model):
    """A new pool. `force` overrides what a device carries, never that it is in use now."""

    name: PoolName
    vdevs: Vdevs
    force: bool = False


class ExtendAsked(Model):
    """Vdevs to add."""

    vdevs: Vdevs
    force: bool = False


class PlanAsked(Model):
    """What would be made, or with `extend` added."""

    name: PoolName
    vdevs: Vdevs
    extend: bool = False
    force: bool = False


class PlanTold(Answer):
    """The layout as `zpool status` would print it."""

    layout: list[str]


class ReplaceAsked(Model):
    """`device` is a name or GUID that the pool tells."""

    device: Device
    new_device: Device
    force: bool = False


class DeviceAsked(Model):
    """What to do with a device that the pool tells, by name or GUID."""

    device: Device
    action: Literal["offline", "online", "clear"]


class ImportAsked(Model):
    """`pool` is a name or GUID."""

    pool: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")]
    new_name: PoolName | None = None
    force: bool = False


class ScrubAsked(Model):
    """What to do."""

    action: Literal["start", "pause", "stop"]


class DatastoreTold(Answer):
    """A VMFS datastore; a deleted one that can be restored; a copy of one, which is not served, with the reason; a missing one.

    A missing one keeps its LUN number until its pool is there again, or it is forgotten. `thick` is what it is to be, `reserved`
    what the target has reserved for it.
    """

    id: str
    state: Literal["active", "deleted", "copy", "missing"]
    name: str
    dataset: str
    pool: str
    guid: Guid
    uuid: str | None
    size: Bytes
    block_size: int
    thick: bool
    reserved: Bytes
    used: Bytes
    referenced: Bytes
    snapshot_bytes: Bytes
    compression: str
    sync: str
    origin: str | None
    created_at: Time
    lun: int | None
    soft_threshold: int | None
    deleted_at: Time | None
    copy_reason: str | None
    copy_of: str | None
    host_groups: list[str]


class DatastorePage(Answer):
    """Datastores, by name."""

    items: list[DatastoreTold]
    next_cursor: str | None


class DatastoreAsked(Model):
    """A new VMFS datastore: `size` in bytes, 1 GiB to 64 TiB, a multiple of 1 MiB. `soft_threshold` in percent of it."""

    name: DatastoreName
    pool: Annotated[str, Field(min_length=1, max_length=255)]
    size: BytesAsked
    block_size: Literal[8192, 16384, 32768, 65536, 131072] = 65536
    thick: bool = False
    compression: Literal["lz4", "zstd", "zstd-fast", "off"] = "lz4"
    sync: Literal["standard", "always", "disabled"] = "standard"
    soft_threshold: Percent | None = None
    lun: Lun | None = None
    host_groups: Groups = []


class DatastoreChange(Model):
    """What to change; a `soft_threshold` of null takes it away."""

    name: DatastoreName | None = None
    soft_threshold: Percent | None = None
    lun: Lun | None = None
    host_groups: Groups | None = None
    force: bool = False


class GrowAsked(Model):
    """The new size in bytes."""

    size: BytesAsked


class RestoreAsked(Model):
    """Back from aside. Hosts see it when `host_groups` say so."""

    name: DatastoreName | None = None
    lun: Lun | None = None
    host_groups: Groups = []


class AdoptAsked(Model):
    """A volume that is no datastore, or a copy; `keep` takes the identity it claims, if no other dataset has it."""

    dataset: Annotated[str, Field(min_length=1, max_length=255)]
    name: DatastoreName
    identity: Literal["new", "keep"] = "new"
    lun: Lun | None = None
    host_groups: Groups = []


class VolumeTold(Answer):
    """A volume, and the datastore it is."""

    dataset: str
    size: Bytes
    block_size: int
    guid: Guid
    datastore: str | None


class VolumePage(Answer):
    """Volumes, by name."""

    items: list[VolumeTold]
    next_cursor: str | None


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


class SnapshotAsked(Model):
    """Snapshots of one or several datastores of a pool, in one atomic step."""

    name: SnapshotName
    datastores: Annotated[list[Identifier], Field(min_length=1, max_length=256)]


class CloneAsked(Model):
    """An instant copy, of a snapshot or of now."""

    name: DatastoreName
    snapshot: SnapshotName | None = None
    lun: Lun | None = None
    host_groups: Groups = []


class RollbackAsked(Model):
    """`force`: also while hosts are logged in, and destroying newer snapshots."""

    force: bool = False


class ScheduleTold(Answer):
    """Snapshots by the clock."""

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


# --- hosts


class Chap(Model):
    """How a host proves itself. The secret is never told back."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
    secret: Annotated[str, Field(min_length=12, max_length=255, pattern=r"^[ -~]+$")]


Iqns = Annotated[list[Annotated[str, Field(min_length=1, max_length=223)]], Field(max_length=32)]
Addresses = Annotated[list[Annotated[str, Field(min_length=2, max_length=45)]], Field(max_length=32)]


class HostTold(Answer):
    """An ESXi host."""

    id: str
    name: str
    group: str | None
    iqns: list[str]
    addresses: list[str]
    chap_name: str | None
    created_at: Time


class HostPage(Answer):
    """Hosts, by name."""

    items: list[HostTold]
    next_cursor: str | None


class HostAsked(Model):
    """A new host."""

    name: Name
    group: Identifier | None = None
    iqns: Iqns = []
    addresses: Addresses = []
    chap: Chap | None = None


class HostChange(Model):
    """What to change; a `group` of null takes it out of its group. `force`: also while it is logged in."""

    name: Name | None = None
    group: Identifier | None = None
    iqns: Iqns | None = None
    addresses: Addresses | None = None
    force: bool = False


class GroupTold(Answer):
    """A host group."""

    id: str
    name: str
    disabled_offloads: list[Offload]
    hosts: list[str]
    created_at: Time


class GroupPage(Answer):
    """Host groups, by name."""

    items: list[GroupTold]
    next_cursor: str | None


class GroupAsked(Model):
    """A new host group."""

    name: Name
    disabled_offloads: Annotated[list[Offload], Field(max_length=5)] = []


class GroupChange(Model):
    """What to change."""

    name: Name | None = None
    disabled_offloads: Annotated[list[Offload], Field(max_length=5)] | None = None


class SessionOfHost(Answer):
    """An iSCSI session."""

    initiator: str
    target: str
    peer: str
    portal: str
    since: Time
    account: str | None


class SessionPage(Answer):
    """Who is logged in, by which path."""

    items: list[SessionOfHost]
    next_cursor: str | None


# --- the appliance


class TargetState(Answer):
    """The iSCSI target."""

    running: bool
    version: str
    portals: list[str]
    luns_serving: int
    luns_failed: int
    sessions: int
    problem: str | None


class PoolState(Answer):
    """A pool, in short."""

    name: str
    health: str
    size: Bytes
    free: Bytes
    problem: str


class StatusTold(Answer):
    """What an admin wants to know first."""

    version: str
    worker: bool
    worker_problem: str | None
    target: TargetState | None
    pools: list[PoolState]
    storage_problem: str | None
    reconciled_at: Time | None
    reconcile_problem: str | None
    open_alerts: int
    active_jobs: int


class CheckTold(Answer):
    """One thing that keeps offloads from working, looked at."""

    id: str
    title: str
    result: Literal["ok", "warning", "failed", "unknown"]
    evidence: str
    remedy: str
    subject: str


class ReadinessTold(Answer):
    """All checks, and what to type on each host once."""

    checks: list[CheckTold]
    esxcli: list[str]


class IscsiSettings(Model):
    """Whether hosts have to prove themselves. While it is true, a host without a secret can't log in."""

    chap_required: bool


class ReconcileTold(Answer):
    """What was not as it should be, and what could not be mended."""

    differences: list[str]
    failures: list[FieldlessFailure]


class FieldlessFailure(Answer):
    """A step that was refused."""

    subject: str
    text: str


class OffloadsTold(Answer):
    """Counters of the target, by LUN, session and host: zvol_target/docs/control.md, statistics.get."""

    luns: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    hosts: list[dict[str, Any]]


class Healthy(Answer):
    """That it answers."""

    status: Literal["ok"]


ReconcileTold.model_rebuild()
