# SPDX-License-Identifier: Apache-2.0
"""Client of the iSCSI target's control socket (zvol_target/docs/control.md): JSON-RPC 2.0, a message a line."""

from __future__ import annotations

import itertools
import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

Access = tuple[str, ...] | None
"""Admitted initiators by name; empty: none, None: all."""

_LONGEST_ANSWER = 64 << 20


class TargetError(Exception):
    """Any failure of the target."""


class TargetUnreachableError(TargetError):
    """The daemon does not answer. The caller must check whether a change was made."""


class TargetRefusedError(TargetError):
    """The daemon refused; `code` is from its table of errors."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


NOT_THERE = -32001
TAKEN = -32002
NOT_SERVED = -32003
_NO_METHOD = -32601


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
    """Percent of its size; 0: set in bytes by an admin."""
    write_cache: bool = False
    read_only: bool = False
    provisioning: str = "thin"
    """"thick" or "thin": the target shares no blocks of a thick one."""
    reservations: str | None = None
    """Folder for persistent reservations that must survive a power loss."""
    product: str = "zvaai volume"
    """PRODUCT IDENTIFICATION."""
    designation: AdoptedNames | None = None
    """Part of its identity: a LUN with other names is another LUN."""
    guid: int | None = None
    """GUID of the volume's dataset: another dataset with its name is not served. None: any."""

    def is_unit_of(self, other: Lun) -> bool:
        """Whether it is the same disk for hosts, with the same data; other parameters may differ."""
        same_data = self.guid == other.guid or None in (self.guid, other.guid)
        return same_data and (self.uuid, self.designation) == (other.uuid, other.designation)


CHANGING_TOGETHER = (
    ("write_cache",),
    ("read_only",),
    ("path", "guid", "soft_threshold"),
    ("provisioning",),
    ("reservations",),
    ("product",),
)
"""Parameters of a LUN that change in one step, so that a refusal does not block the others."""


@dataclass(frozen=True)
class Registrations:
    """Who is registered with a LUN by persistent reservations: initiator ports."""

    initiators: tuple[str, ...]
    survive: bool
    """A loss of power, and so also that the LUN is taken away and comes back."""


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
    found_guid: int | None = None
    """GUID of another dataset at its path."""


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
    """The state of an iSCSI target."""

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
    """Why the target cannot listen there."""


@dataclass(frozen=True)
class HostGroup:
    """Hosts with their disabled offloads."""

    name: str
    initiators: tuple[str, ...]
    disabled: tuple[str, ...]


@dataclass(frozen=True)
class LoggedIn:
    """A session of an initiator."""

    initiator: str
    target: str
    peer: str
    portal: str
    since: float
    account: str | None
    portal_group: int | None = None


@dataclass(frozen=True)
class UnknownInitiator:
    """An initiator that no target admits; `at`: when it last tried to log in or looked for targets."""

    initiator: str
    address: str
    at: float


@dataclass(frozen=True)
class Status:
    """What runs."""

    version: str
    uptime_seconds: float
    portals: tuple[str, ...]
    luns_serving: int
    luns_failed: int
    sessions: int
    details: dict[str, Any] = field(default_factory=dict)


class TargetControl(ABC):
    """Operations of the target. Any method raises TargetUnreachableError or TargetRefusedError."""

    @abstractmethod
    def status(self) -> Status:
        """What runs."""

    @abstractmethod
    def targets(self) -> list[ServedTarget]:
        """All iSCSI targets with their LUNs."""

    @abstractmethod
    def create_target(self, name: str) -> None:
        """Creates a target that admits no initiator, unless it exists."""

    @abstractmethod
    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Sets the initiators that may log in, or that see the LUN. Ends sessions that are no longer admitted."""

    @abstractmethod
    def create_lun(self, target: str, lun: Lun) -> None:
        """Serves a LUN. Refused if its path cannot be opened."""

    @abstractmethod
    def change_lun(self, target: str, lun: Lun, fields: Sequence[str]) -> None:
        """Changes an entry of CHANGING_TOGETHER, while hosts use the LUN."""

    @abstractmethod
    def delete_lun(self, target: str, number: int) -> bool | None:
        """Removes a LUN. Returns whether its path is closed; None (unknown) for a missing LUN."""

    @abstractmethod
    def registrations(self, target: str, number: int) -> Registrations:
        """Registrations of persistent reservations; none for a missing LUN, or if unknown since the daemon's start."""

    @abstractmethod
    def forget_registrations(self, folder: str, uuid: str) -> bool:
        """Removes the registrations of a destroyed LUN from the folder; returns whether there were any."""

    @abstractmethod
    def refresh_lun(self, target: str, number: int) -> None:
        """Reads its size again; a missing LUN is no error."""

    @abstractmethod
    def lun_space(self, uuid: str) -> LunSpace | None:
        """Counts its blocks, within about a second; None if the daemon cannot."""

    @abstractmethod
    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        """Sets a CHAP account for at least one initiator. The first account makes CHAP required."""

    @abstractmethod
    def delete_account(self, target: str, name: str) -> None:
        """A missing one is no error."""

    @abstractmethod
    def require_chap(self, target: str, required: bool) -> None:
        """Sets whether CHAP is required; refused while there are accounts."""

    @abstractmethod
    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """Sets the target's own account for mutual CHAP. Refused without an account of a host."""

    @abstractmethod
    def delete_mutual(self, target: str, name: str) -> None:
        """A missing one is no error."""

    @abstractmethod
    def portals(self) -> tuple[list[Portal], bool]:
        """All portals, and whether the daemon's command line sets them."""

    @abstractmethod
    def create_portal(self, portal: Portal) -> None:
        """Adds a portal, unless it exists."""

    @abstractmethod
    def change_portal(self, address: str, portal: Portal) -> None:
        """Replaces the portal at an address. Connections stay while their portal group has a portal."""

    @abstractmethod
    def delete_portal(self, address: str) -> None:
        """Removes a portal. Connections stay while their portal group has a portal."""

    @abstractmethod
    def host_groups(self) -> list[HostGroup]:
        """All."""

    @abstractmethod
    def set_host_group(self, group: HostGroup) -> None:
        """By its name."""

    @abstractmethod
    def delete_host_group(self, name: str) -> None:
        """A missing one is no error."""

    @abstractmethod
    def sessions(self, target: str) -> list[LoggedIn]:
        """Normal sessions of a target."""

    @abstractmethod
    def unknown_initiators(self) -> list[UnknownInitiator]:
        """The latest first, 32 at most."""

    @abstractmethod
    def statistics(self, target: str) -> dict[str, Any]:
        """Response of `statistics.get`."""

    @abstractmethod
    def set_pool(self, pool: str, soft_threshold: int, headroom_bytes: int | None) -> None:
        """Sets a pool's soft threshold for thin LUNs in percent, and its headroom; None: the daemon's default."""

    @abstractmethod
    def space(self) -> dict[str, Any]:
        """Response of `space.get`."""


def _access(value: Any) -> Access:
    return None if value == "any" else tuple(value)


class TargetSocket(TargetControl):
    """The real daemon. Thread-safe: each call has its own connection."""

    def __init__(self, control: Path, timeout_s: float = 60) -> None:
        self._path = control
        self._timeout_s = timeout_s
        self._ids = itertools.count(1)

    def _call(self, method: str, **parameters: Any) -> Any:
        request = json.dumps({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": parameters})
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(self._timeout_s)
                connection.connect(str(self._path))
                connection.sendall(request.encode() + b"\n")
                with connection.makefile("rb", 1 << 20) as lines:
                    line = lines.readline(_LONGEST_ANSWER)
            answer = msgspec.json.decode(line)  # some MiB with many LUNs
        except (OSError, ValueError) as error:
            raise TargetUnreachableError(f"the iSCSI target does not answer at {self._path}: {error}") from error
        if "error" in answer:
            raise TargetRefusedError(int(answer["error"]["code"]), str(answer["error"]["message"]))
        return answer["result"]

    def _unless_missing(self, method: str, **parameters: Any) -> Any:
        try:
            return self._call(method, **parameters)
        except TargetRefusedError as error:
            if error.code != NOT_THERE:
                raise
            return None

    def status(self) -> Status:
        response = self._call("status")
        return Status(
            version=response["version"],
            uptime_seconds=response["uptime_seconds"],
            portals=tuple(portal["address"] for portal in response["portals"]),
            luns_serving=response["luns_serving"],
            luns_failed=response["luns_failed"],
            sessions=response["sessions"],
            details=response,
        )

    def targets(self) -> list[ServedTarget]:
        """All iSCSI targets with their LUNs."""
        return [
            ServedTarget(
                name=target["name"],
                initiators=_access(target["initiators"]),
                luns=tuple(_served(lun) for lun in target["luns"]),
                chap_required=target["accounts"]["required"],
                accounts=tuple(_account(account) for account in target["accounts"]["incoming"]),
                mutual=_name(target["accounts"]["mutual"]),
            )
            for target in self._call("targets.list")["targets"]
        ]

    def create_target(self, name: str) -> None:
        """Creates a target that admits no initiator, unless it exists."""
        try:
            self._call("targets.create", name=name)
        except TargetRefusedError as error:
            if error.code != TAKEN:  # it exists, with another access list
                raise

    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Who may log in, or sees the LUN."""
        which = {} if lun is None else {"number": lun}
        self._call("access.set", target=target, initiators=list(initiators), **which)

    def create_lun(self, target: str, lun: Lun) -> None:
        content: dict[str, Any] = {"number": lun.number, "uuid": lun.uuid, "path": lun.path}
        content["initiators"] = "any" if lun.initiators is None else list(lun.initiators)
        if lun.designation is not None:
            content["designation"] = {name: value for name, value in asdict(lun.designation).items() if value is not None}
        for together in CHANGING_TOGETHER:
            content |= {name: value for name in together if (value := _value(lun, name)) is not None}
        self._call("luns.create", target=target, lun=content)

    def change_lun(self, target: str, lun: Lun, fields: Sequence[str]) -> None:
        """One entry of CHANGING_TOGETHER."""
        self._call("luns.change", target=target, number=lun.number, **{name: _value(lun, name) for name in fields})

    def delete_lun(self, target: str, number: int) -> bool | None:
        """Whether its path is closed."""
        response = self._unless_missing("luns.delete", target=target, number=number)
        return None if response is None else bool(response["closed"])

    def registrations(self, target: str, number: int) -> Registrations:
        try:
            response = self._unless_missing("reservations.list", target=target, number=number)
        except TargetRefusedError as error:
            if error.code != NOT_SERVED:  # failed since the start: registrations may be in its file
                raise
            response = None
        if response is None:
            return Registrations((), survive=True)
        ports = sorted({registration["initiator_port"] for registration in response["registrations"]})
        return Registrations(tuple(ports), survive=bool(response["survives_power_loss"]))

    def forget_registrations(self, folder: str, uuid: str) -> bool:
        """Removes what a LUN left."""
        return bool(self._call("reservations.forget", directory=folder, uuid=uuid)["forgotten"])

    def refresh_lun(self, target: str, number: int) -> None:
        self._unless_missing("luns.refresh", target=target, number=number)

    def lun_space(self, uuid: str) -> LunSpace | None:
        """Counts its blocks."""
        try:
            response = self._call("lun.space", uuid=uuid)
        except TargetRefusedError as error:
            if error.code not in (_NO_METHOD, NOT_THERE, NOT_SERVED):
                raise
            return None
        if response.get("unique_bytes") is None:
            return None
        return LunSpace(**{name: response.get(name) for name in LunSpace.__dataclass_fields__})

    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        """A CHAP account."""
        self._call("accounts.set", target=target, name=name, secret=secret, initiators=list(initiators))

    def delete_account(self, target: str, name: str) -> None:
        """A missing one is no error."""
        self._unless_missing("accounts.delete", target=target, name=name)

    def require_chap(self, target: str, required: bool) -> None:
        """Whether CHAP is."""
        self._call("accounts.require", target=target, required=required)

    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """The target's own account for mutual CHAP."""
        self._call("accounts.set", target=target, name=name, secret=secret, mutual=True)

    def delete_mutual(self, target: str, name: str) -> None:
        """A missing one is no error."""
        self._unless_missing("accounts.delete", target=target, name=name, mutual=True)

    def portals(self) -> tuple[list[Portal], bool]:
        """Those that listen, and those that cannot."""
        response = self._call("portals.list")
        listening = [Portal(entry["address"], entry["group_tag"], entry.get("advertised")) for entry in response["portals"]]
        failed = [
            Portal(entry["address"], entry["group_tag"], entry.get("advertised"), str(entry["reason"]))
            for entry in response["failed"]
        ]  # fmt: skip
        return [*listening, *failed], bool(response["fixed"])

    def create_portal(self, portal: Portal) -> None:
        self._call("portals.create", **_portal(portal))

    def change_portal(self, address: str, portal: Portal) -> None:
        """Puts another in its place."""
        self._call("portals.change", address=address, portal=_portal(portal))

    def delete_portal(self, address: str) -> None:
        self._call("portals.delete", address=address)

    def host_groups(self) -> list[HostGroup]:
        return [
            HostGroup(group["name"], () if group["initiators"] == "any" else tuple(group["initiators"]), tuple(group["disabled"]))
            for group in self._call("host_groups.list")["host_groups"]
        ]

    def set_host_group(self, group: HostGroup) -> None:
        self._call("host_groups.set", name=group.name, initiators=list(group.initiators), disabled=list(group.disabled))

    def delete_host_group(self, name: str) -> None:
        """A missing one is no error."""
        self._unless_missing("host_groups.delete", name=name)

    def sessions(self, target: str) -> list[LoggedIn]:
        """Normal sessions of a target."""
        response = self._unless_missing("sessions.list", target=target)
        return [
            LoggedIn(
                session["initiator"],
                session["target"],
                session["peer"],
                session["portal"],
                float(session["since"]),
                session["account"],
                session["portal_group_tag"],
            )
            for session in (response["sessions"] if response else ())
            if session["type"] == "normal"
        ]

    def unknown_initiators(self) -> list[UnknownInitiator]:
        found = self._call("unknown_initiators.list")["initiators"]
        return [UnknownInitiator(one["initiator"], one["address"], float(one["at"])) for one in found]

    def statistics(self, target: str) -> dict[str, Any]:
        response = self._unless_missing("statistics.get", target=target)
        return dict(response) if response else {"luns": [], "sessions": [], "hosts": []}

    def set_pool(self, pool: str, soft_threshold: int, headroom_bytes: int | None) -> None:
        self._call("space.set_pool", pool=pool, soft_threshold={"percent": soft_threshold}, headroom_bytes=headroom_bytes)

    def space(self) -> dict[str, Any]:
        return dict(self._call("space.get"))


def _value(lun: Lun, name: str) -> Any:
    """Value for luns.create and luns.change."""
    if name == "soft_threshold":
        return None if lun.soft_threshold is None else {"percent": lun.soft_threshold}
    if name == "guid":
        return None if lun.guid is None else str(lun.guid)
    return getattr(lun, name)


def _adopted_names(response: dict[str, Any] | None) -> AdoptedNames | None:
    return AdoptedNames(response["serial_number"], tuple(response["designators"]), response.get("vendor")) if response else None


def _portal(portal: Portal) -> dict[str, Any]:
    more = {} if portal.advertised is None else {"advertised": portal.advertised}
    return {"address": portal.address, "group_tag": portal.group_tag, **more}


def _name(response: Any) -> str | None:
    return response.get("name") if isinstance(response, dict) else response


def _account(response: dict[str, Any]) -> Account:
    return Account(response["name"], _access(response["initiators"]))


def _served(response: dict[str, Any]) -> ServedLun:
    threshold = response.get("soft_threshold")
    return ServedLun(
        lun=Lun(
            number=response["number"],
            uuid=response["uuid"],
            path=response["path"],
            initiators=_access(response["initiators"]),
            soft_threshold=threshold.get("percent", 0) if threshold else None,
            write_cache=response["write_cache"],
            read_only=response["read_only"],
            provisioning=response.get("provisioning", ""),
            reservations=response.get("reservations"),
            product=response["product"],
            designation=_adopted_names(response.get("designation")),
            guid=_guid(response.get("guid")),
        ),
        state=response["state"],
        reason=response.get("reason", ""),
        size=response.get("size_bytes"),
        naa=response["naa"] or "",
        serial_number=response["serial_number"],
        found_guid=_guid(response.get("found_guid")),
    )


def _guid(response: str | None) -> int | None:
    return None if response is None else int(response)
