# SPDX-License-Identifier: Apache-2.0
"""Objects that the iSCSI target serves, as its control socket reports them (zvol_target/docs/control.md)."""

from __future__ import annotations

from dataclasses import dataclass

Access = tuple[str, ...] | None
"""Admitted initiators by name; empty: none, None: all."""


class TargetError(Exception):
    """Any failure of the target."""


class TargetUnreachableError(TargetError):
    """The daemon does not answer. The caller must check whether a change was made."""


class TargetRefusedError(TargetError):
    """The daemon refused; `code` is from its table of errors."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


NOT_FOUND = -32001
TAKEN = -32002
NOT_SERVED = -32003


@dataclass(frozen=True)
class AdoptedNames:
    """Names of a LUN from its former target: `designation` of `luns.create`."""

    serial_number: str
    designators: tuple[str, ...]
    vendor: str | None = None


@dataclass(frozen=True)
class Lun:
    """The desired LUN: parameters of `luns.create`; other parameters have the daemon's defaults."""

    number: int
    uuid: str
    path: str
    initiators: Access = ()
    soft_threshold: int | None = None
    """Percent of its size."""
    read_only: bool = False
    provisioning: str = "thin"
    """"thick" or "thin": the target shares no blocks of a thick one."""
    reservations: str | None = None
    """Folder for persistent reservations. With it they survive a restart of the target and the removal of the LUN."""
    product: str = "zvaai volume"
    designation: AdoptedNames | None = None
    """Part of its identity: a LUN with other names is another LUN."""
    guid: int | None = None
    """GUID of the volume's dataset: another dataset with its name is not served. None: any."""

    def is_unit_of(self, other: Lun) -> bool:
        """Whether it is the same disk for hosts, with the same data; other parameters may differ."""
        same_data = not self.is_other_volume(self.uuid, other.guid)
        return same_data and (self.uuid, self.designation) == (other.uuid, other.designation)

    def is_other_volume(self, uuid: str, guid: int | None) -> bool:
        """Whether it has this UUID, and certainly not the volume with this GUID."""
        return self.uuid == uuid and self.guid != guid and None not in (self.guid, guid)


CHANGING_TOGETHER = (
    ("read_only",),
    ("path", "guid", "soft_threshold"),
    ("provisioning",),
    ("reservations",),
    ("product",),
)
"""Parameters of a LUN that change in one step, so that a refusal does not block the others."""


@dataclass(frozen=True)
class ServedLun:
    """The state of a LUN. `size` is None unless it is serving."""

    lun: Lun
    state: str
    reason: str
    size: int | None
    naa: str
    """Empty for a LUN with other kinds of names."""
    serial_number: str
    dataset_guid: int | None = None
    """GUID of another dataset at its path."""
    write_through: bool = False
    """Linux drops the flushes of its zvol: a power cut loses writes, except with sync=always."""


@dataclass(frozen=True)
class LunSpace:
    """Bytes of a LUN on disk, by the pool's block reference table; None where unknown."""

    allocated_bytes: int
    shared_bytes: int | None
    unique_bytes: int
    unique_exact: bool
    """False: `unique_bytes` is an upper bound."""
    snapshot_bytes: int | None
    """Part of these that a snapshot also holds."""
    as_of: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Account:
    """A CHAP account of a host; the target never returns the secret."""

    name: str
    initiators: tuple[str, ...] | None
    """Initiators that may use it; None: all."""


@dataclass(frozen=True)
class ServedTarget:
    name: str
    initiators: Access
    luns: tuple[ServedLun, ...] = ()
    chap_required: bool = False
    accounts: tuple[Account, ...] = ()
    mutual: str | None = None
    """Name of the target's own account for mutual CHAP."""


@dataclass(frozen=True)
class Portal:
    """An address where the target listens. Portal groups are different target ports, and so different paths."""

    address: str
    """With port; an unspecified address is every address of its family."""
    group_tag: int = 1
    advertised: str | None = None
    """Address that discovery reports, behind NAT."""
    problem: str = ""


@dataclass(frozen=True)
class HostGroup:
    name: str
    initiators: tuple[str, ...]
    disabled: tuple[str, ...]


@dataclass(frozen=True)
class LoggedIn:
    initiator: str
    target: str
    peer: str
    portal: str
    logged_in_at: float
    account: str | None
    portal_group: int | None = None


@dataclass(frozen=True)
class UnknownInitiator:
    """An initiator that no target permits; `at`: time of its last login attempt or discovery."""

    initiator: str
    address: str
    at: float


@dataclass(frozen=True)
class Status:
    version: str
    uptime_seconds: float
    portals: tuple[str, ...]
    luns_serving: int
    luns_failed: int
    sessions: int
