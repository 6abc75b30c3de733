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

Access = tuple[str, ...] | None
"""Who is admitted: initiators by name, nobody when empty; None stands for any."""

_LONGEST_ANSWER = 64 << 20


class TargetError(Exception):
    """Any failure of the target."""


class TargetUnreachableError(TargetError):
    """The daemon does not answer. Whether a change was made has to be looked up."""


class TargetRefusedError(TargetError):
    """The daemon refused, by the code of its table of errors."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


NOT_THERE = -32001
TAKEN = -32002
NOT_SERVED = -32003
_NO_METHOD = -32601


@dataclass(frozen=True)
class KeptNames:
    """Names that hosts know a LUN by from another target: as `designation` of `luns.create` has them."""

    serial_number: str
    designators: tuple[str, ...]
    vendor: str | None = None


@dataclass(frozen=True)
class Lun:
    """What a LUN is to be: as `luns.create` has it, with the daemon's own choice for what is not here."""

    number: int
    uuid: str
    path: str
    initiators: Access = ()
    soft_threshold: int | None = None
    """Percent of its size; 0 stands for one that somebody has set in bytes."""
    write_cache: bool = False
    read_only: bool = False
    provisioning: str = "thin"
    """"thick" or "thin": the target shares no blocks of a thick one."""
    reservations: str | None = None
    """Folder for the persistent reservations that hosts want to survive a loss of power."""
    product: str = "zvaai volume"
    """PRODUCT IDENTIFICATION."""
    designation: KeptNames | None = None
    """Of its identity: a LUN with other names is another one."""
    guid: int | None = None
    """Of the dataset that the volume has to be: another one under its name is not served. None: whatever is there."""

    def is_unit_of(self, other: Lun) -> bool:
        """Whether it is the same disk to hosts, with the same data, whatever else is different."""
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
"""What of a LUN is changed in one step: the rest does not wait for what is refused."""


@dataclass(frozen=True)
class Registrations:
    """Who is registered with a LUN by persistent reservations: initiator ports."""

    initiators: tuple[str, ...]
    survive: bool
    """A loss of power, and so also that the LUN is taken away and comes back."""


@dataclass(frozen=True)
class ServedLun:
    """What a LUN is. `size` is None unless it is serving."""

    lun: Lun
    state: str
    reason: str
    size: int | None
    naa: str
    """Empty for one that keeps other kinds of names."""
    serial_number: str
    found_guid: int | None = None
    """Of the dataset that is at its path instead of its own."""


@dataclass(frozen=True)
class LunSpace:
    """Bytes of a LUN on disk, by the pool's block reference table; None where unknown."""

    allocated_bytes: int
    shared_bytes: int | None
    unique_bytes: int
    unique_exact: bool
    """Else `unique_bytes` is an upper bound."""
    snapshot_bytes: int | None
    """Of these, what a snapshot also holds."""
    as_of: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Account:
    """A CHAP account of a host; the secret is never told back."""

    name: str
    initiators: tuple[str, ...] | None
    """Who may use it; None stands for any."""


@dataclass(frozen=True)
class ServedTarget:
    """An iSCSI target as it is."""

    name: str
    initiators: Access
    luns: tuple[ServedLun, ...] = ()
    chap_required: bool = False
    accounts: tuple[Account, ...] = ()
    mutual: str | None = None
    """Name of the CHAP account by which the target proves itself to hosts that request that."""


@dataclass(frozen=True)
class Portal:
    """Where the target listens. Hosts of different groups use different target ports, so paths."""

    address: str
    """With port; an unspecified address is every address of its family."""
    group_tag: int = 1
    advertised: str | None = None
    """What discovery reports instead, behind a translator of addresses."""
    problem: str = ""
    """Why the target cannot listen there."""


@dataclass(frozen=True)
class HostGroup:
    """Hosts and the offloads they are not offered."""

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
    """The target, as far as the appliance needs it. Any method raises TargetUnreachableError or TargetRefusedError."""

    @abstractmethod
    def status(self) -> Status:
        """What runs."""

    @abstractmethod
    def targets(self) -> list[ServedTarget]:
        """All iSCSI targets with their LUNs."""

    @abstractmethod
    def create_target(self, name: str) -> None:
        """One that admits nobody; it may be there already."""

    @abstractmethod
    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Who may log in; or of those, who sees the LUN. Sessions of who is not admitted any more end."""

    @abstractmethod
    def create_lun(self, target: str, lun: Lun) -> None:
        """Serves it. Refused when its path can't be opened."""

    @abstractmethod
    def change_lun(self, target: str, lun: Lun, fields: Sequence[str]) -> None:
        """One entry of CHANGING_TOGETHER, while hosts use it."""

    @abstractmethod
    def delete_lun(self, target: str, number: int) -> bool | None:
        """Takes it away. Whether its path is closed; None, so unknown, for one that is not there, which is well."""

    @abstractmethod
    def registrations(self, target: str, number: int) -> Registrations:
        """By persistent reservations; nobody where there is no such LUN, or nothing is known since the daemon started."""

    @abstractmethod
    def forget_registrations(self, folder: str, uuid: str) -> bool:
        """Removes what a LUN that is gone for good left in the folder for persistent reservations; whether there was anything."""

    @abstractmethod
    def refresh_lun(self, target: str, number: int) -> None:
        """Looks at its size now; one that is not there is well."""

    @abstractmethod
    def lun_space(self, uuid: str) -> LunSpace | None:
        """Counts its blocks, within about a second; None if the daemon cannot."""

    @abstractmethod
    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        """A CHAP account that these initiators may use, one at least. From the first on CHAP is required."""

    @abstractmethod
    def delete_account(self, target: str, name: str) -> None:
        """One that is not there is well."""

    @abstractmethod
    def require_chap(self, target: str, required: bool) -> None:
        """Whether CHAP is; "not" is refused while there are accounts."""

    @abstractmethod
    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """The account by which the target proves itself. Refused without an account of a host."""

    @abstractmethod
    def delete_mutual(self, target: str, name: str) -> None:
        """One that is not there is well."""

    @abstractmethod
    def portals(self) -> tuple[list[Portal], bool]:
        """All; and whether they are fixed by the daemon's command line."""

    @abstractmethod
    def create_portal(self, portal: Portal) -> None:
        """Listens there too. The same portal may be there already."""

    @abstractmethod
    def change_portal(self, address: str, portal: Portal) -> None:
        """Puts another in the place of the one at this address. Connections stay while their portal group has a portal."""

    @abstractmethod
    def delete_portal(self, address: str) -> None:
        """Stops listening there. Connections stay while their portal group has a portal."""

    @abstractmethod
    def host_groups(self) -> list[HostGroup]:
        """All."""

    @abstractmethod
    def set_host_group(self, group: HostGroup) -> None:
        """By its name."""

    @abstractmethod
    def delete_host_group(self, name: str) -> None:
        """One that is not there is well."""

    @abstractmethod
    def sessions(self, target: str) -> list[LoggedIn]:
        """Normal sessions of a target."""

    @abstractmethod
    def statistics(self, target: str) -> dict[str, Any]:
        """`statistics.get`, as the daemon tells it."""

    @abstractmethod
    def set_pool(self, pool: str, soft_threshold: int, headroom_bytes: int | None) -> None:
        """The percent of a pool at which hosts of its thin LUNs are told, and what is kept back; None for the daemon's choice."""

    @abstractmethod
    def space(self) -> dict[str, Any]:
        """`space.get`, as the daemon tells it."""


def _access(value: Any) -> Access:
    return None if value == "any" else tuple(value)


class TargetSocket(TargetControl):
    """The real daemon. For several threads at once: each call has a connection of its own."""

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
                with connection.makefile("rb") as lines:
                    line = lines.readline(_LONGEST_ANSWER)
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise TargetUnreachableError(f"the iSCSI target does not answer at {self._path}: {error}") from error
        if "error" in answer:
            raise TargetRefusedError(int(answer["error"]["code"]), str(answer["error"]["message"]))
        return answer["result"]

    def _gone_is_well(self, method: str, **parameters: Any) -> Any:
        try:
            return self._call(method, **parameters)
        except TargetRefusedError as error:
            if error.code != NOT_THERE:
                raise
            return None

    def status(self) -> Status:
        """What runs."""
        told = self._call("status")
        return Status(
            version=told["version"],
            uptime_seconds=told["uptime_seconds"],
            portals=tuple(portal["address"] for portal in told["portals"]),
            luns_serving=told["luns_serving"],
            luns_failed=told["luns_failed"],
            sessions=told["sessions"],
            details=told,
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
        """One that admits nobody; it may be there already."""
        try:
            self._call("targets.create", name=name)
        except TargetRefusedError as error:
            if error.code != TAKEN:  # there, with another access list
                raise

    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Who may log in, or sees the LUN."""
        which = {} if lun is None else {"number": lun}
        self._call("access.set", target=target, initiators=list(initiators), **which)

    def create_lun(self, target: str, lun: Lun) -> None:
        """Serves it."""
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
        told = self._gone_is_well("luns.delete", target=target, number=number)
        return None if told is None else bool(told["closed"])

    def registrations(self, target: str, number: int) -> Registrations:
        """By persistent reservations."""
        try:
            told = self._gone_is_well("reservations.list", target=target, number=number)
        except TargetRefusedError as error:
            if error.code != NOT_SERVED:  # failed since the start: what there may be is in its file
                raise
            told = None
        if told is None:
            return Registrations((), survive=True)
        ports = sorted({one["initiator_port"] for one in told["registrations"]})
        return Registrations(tuple(ports), survive=bool(told["survives_power_loss"]))

    def forget_registrations(self, folder: str, uuid: str) -> bool:
        """Removes what a LUN left."""
        return bool(self._call("reservations.forget", directory=folder, uuid=uuid)["forgotten"])

    def refresh_lun(self, target: str, number: int) -> None:
        """Looks at its size now."""
        self._gone_is_well("luns.refresh", target=target, number=number)

    def lun_space(self, uuid: str) -> LunSpace | None:
        """Counts its blocks."""
        try:
            told = self._call("lun.space", uuid=uuid)
        except TargetRefusedError as error:
            if error.code not in (_NO_METHOD, NOT_THERE, NOT_SERVED):
                raise
            return None
        if told.get("unique_bytes") is None:
            return None
        return LunSpace(**{name: told.get(name) for name in LunSpace.__dataclass_fields__})

    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        """A CHAP account."""
        self._call("accounts.set", target=target, name=name, secret=secret, initiators=list(initiators))

    def delete_account(self, target: str, name: str) -> None:
        """One that is not there is well."""
        self._gone_is_well("accounts.delete", target=target, name=name)

    def require_chap(self, target: str, required: bool) -> None:
        """Whether CHAP is."""
        self._call("accounts.require", target=target, required=required)

    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """The account by which the target proves itself."""
        self._call("accounts.set", target=target, name=name, secret=secret, mutual=True)

    def delete_mutual(self, target: str, name: str) -> None:
        """One that is not there is well."""
        self._gone_is_well("accounts.delete", target=target, name=name, mutual=True)

    def portals(self) -> tuple[list[Portal], bool]:
        """Those that listen, and those that cannot."""
        told = self._call("portals.list")
        listening = [Portal(one["address"], one["group_tag"], one.get("advertised")) for one in told["portals"]]
        failed = [
            Portal(one["address"], one["group_tag"], one.get("advertised"), str(one["reason"])) for one in told["failed"]
        ]  # fmt: skip
        return [*listening, *failed], bool(told["fixed"])

    def create_portal(self, portal: Portal) -> None:
        """Listens there too."""
        self._call("portals.create", **_portal(portal))

    def change_portal(self, address: str, portal: Portal) -> None:
        """Puts another in its place."""
        self._call("portals.change", address=address, portal=_portal(portal))

    def delete_portal(self, address: str) -> None:
        """Stops listening there."""
        self._call("portals.delete", address=address)

    def host_groups(self) -> list[HostGroup]:
        """All."""
        return [
            HostGroup(group["name"], () if group["initiators"] == "any" else tuple(group["initiators"]), tuple(group["disabled"]))
            for group in self._call("host_groups.list")["host_groups"]
        ]

    def set_host_group(self, group: HostGroup) -> None:
        """By its name."""
        self._call("host_groups.set", name=group.name, initiators=list(group.initiators), disabled=list(group.disabled))

    def delete_host_group(self, name: str) -> None:
        """One that is not there is well."""
        self._gone_is_well("host_groups.delete", name=name)

    def sessions(self, target: str) -> list[LoggedIn]:
        """Normal sessions of a target."""
        told = self._gone_is_well("sessions.list", target=target)
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
            for session in (told["sessions"] if told else ())
            if session["type"] == "normal"
        ]

    def statistics(self, target: str) -> dict[str, Any]:
        """`statistics.get`."""
        told = self._gone_is_well("statistics.get", target=target)
        return dict(told) if told else {"luns": [], "sessions": [], "hosts": []}

    def set_pool(self, pool: str, soft_threshold: int, headroom_bytes: int | None) -> None:
        """`space.set_pool`."""
        self._call("space.set_pool", pool=pool, soft_threshold={"percent": soft_threshold}, headroom_bytes=headroom_bytes)

    def space(self) -> dict[str, Any]:
        """`space.get`."""
        return dict(self._call("space.get"))


def _value(lun: Lun, name: str) -> Any:
    """As luns.create and luns.change have it."""
    if name == "soft_threshold":
        return None if lun.soft_threshold is None else {"percent": lun.soft_threshold}
    if name == "guid":
        return None if lun.guid is None else str(lun.guid)
    return getattr(lun, name)


def _kept_names(told: dict[str, Any] | None) -> KeptNames | None:
    return KeptNames(told["serial_number"], tuple(told["designators"]), told.get("vendor")) if told else None


def _portal(portal: Portal) -> dict[str, Any]:
    more = {} if portal.advertised is None else {"advertised": portal.advertised}
    return {"address": portal.address, "group_tag": portal.group_tag, **more}


def _name(told: Any) -> str | None:
    """Of the mutual account."""
    return told.get("name") if isinstance(told, dict) else told


def _account(told: dict[str, Any]) -> Account:
    return Account(told["name"], _access(told["initiators"]))


def _served(told: dict[str, Any]) -> ServedLun:
    threshold = told.get("soft_threshold")
    return ServedLun(
        lun=Lun(
            number=told["number"],
            uuid=told["uuid"],
            path=told["path"],
            initiators=_access(told["initiators"]),
            soft_threshold=threshold.get("percent", 0) if threshold else None,
            write_cache=told["write_cache"],
            read_only=told["read_only"],
            provisioning=told.get("provisioning", ""),
            reservations=told.get("reservations"),
            product=told["product"],
            designation=_kept_names(told.get("designation")),
            guid=_guid(told.get("guid")),
        ),
        state=told["state"],
        reason=told.get("reason", ""),
        size=told.get("size_bytes"),
        naa=told["naa"] or "",
        serial_number=told["serial_number"],
        found_guid=_guid(told.get("found_guid")),
    )


def _guid(told: str | None) -> int | None:
    return None if told is None else int(told)
