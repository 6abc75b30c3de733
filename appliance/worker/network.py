# SPDX-License-Identifier: Apache-2.0
"""The network of this server, as it is: interfaces, host name, DNS, time synchronisation. Cockpit or nmtui changes it."""

import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import open_dbus_connection
from jeepney.wrappers import DBusErrorResponse, unwrap_msg

from appliance import decoding
from appliance.domain.errors import UnavailableError

_TIMEOUT_S = 10
_TIME = "org.freedesktop.timedate1"
_OUTWARD = ("ethernet", "bond", "vlan")
"""Kinds of interfaces that lead out of this server."""
_RESOLVERS = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""The first contains the real servers if systemd-resolved is the local one."""


@dataclass(frozen=True)
class InterfaceResponse:
    """A network interface. `speed` is in Mbit/s, None if unknown. `addresses` have a prefix length; no link-local ones."""

    name: str
    kind: str
    """ethernet, or the kind of a virtual one: bond, vlan, bridge, veth."""
    state: Literal["up", "no link", "down"]
    mac: str
    mtu: int
    speed: int | None
    addresses: list[str]
    members: list[str]
    """Interfaces of a bond or bridge."""
    detail: str
    """Mode of a bond; number and carrier of a VLAN."""


@dataclass(frozen=True)
class ClockResponse:
    """Time synchronisation; None if unknown."""

    synchronized: bool | None
    zone: str | None


@dataclass(frozen=True)
class Network:
    hostname: str
    dns_servers: list[str]
    search_domains: list[str]
    time: ClockResponse
    interfaces: list[InterfaceResponse]


class _Address(msgspec.Struct):
    local: str = ""
    prefixlen: int = 0
    scope: str = ""


class _LinkInfo(msgspec.Struct):
    info_kind: str = ""
    info_data: dict[str, object] = {}


class _Link(msgspec.Struct):
    """An element in the output of `ip -json -details address`."""

    ifname: str
    mtu: int
    flags: list[str]
    link_type: str
    address: str = ""
    link: str | None = None
    master: str | None = None
    linkinfo: _LinkInfo = msgspec.field(default_factory=_LinkInfo)
    addr_info: list[_Address] = []


def read(bus: str) -> Network:
    """Now; `bus` is the address of the message bus. Raises UnavailableError."""
    servers, search = _resolver()
    return Network(socket.gethostname(), servers, search, clock(bus), interfaces())


def interfaces() -> list[InterfaceResponse]:
    """All but loopback. Raises UnavailableError."""
    command = ["ip", "-json", "-details", "address", "show"]
    try:
        printed = subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S).stdout
        links = [link for link in decoding.decode(printed, list[_Link]) if link.link_type != "loopback"]
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        raise UnavailableError(f"the network interfaces cannot be read: {error}") from error
    return [_interface(link, [other.ifname for other in links if other.master == link.ifname]) for link in links]


def _interface(link: _Link, members: list[str]) -> InterfaceResponse:
    kind, data = link.linkinfo.info_kind, link.linkinfo.info_data
    detail = ""
    if kind == "vlan":
        detail = f"{data.get('id')} of {link.link}"
    elif kind == "bond":
        detail = str(data.get("mode", ""))
    state: Literal["up", "no link", "down"] = (
        "down" if "UP" not in link.flags else "up" if "LOWER_UP" in link.flags else "no link"
    )
    return InterfaceResponse(
        name=link.ifname, kind=kind or "ethernet", state=state, mac=link.address, mtu=link.mtu, speed=_speed(link.ifname),
        addresses=[f"{address.local}/{address.prefixlen}" for address in link.addr_info if address.scope != "link"],
        members=members, detail=detail,
    )  # fmt: skip


def lost_links() -> dict[str, str]:
    """Interfaces in use without a link, by name, each with its use: members of bonds, and interfaces with an address.

    Only network cards, and bonds, VLANs and bridges on them: a bridge of containers has no link while none runs. Raises
    UnavailableError.
    """
    all_ = {interface.name: interface for interface in interfaces()}
    bonds = {member: bond for bond in all_.values() if bond.kind == "bond" for member in bond.members}
    lost = {}
    for name, interface in all_.items():
        lower = interface.members if interface.kind == "bridge" else [name]
        if interface.state != "no link" or not any(all_[each].kind in _OUTWARD for each in lower):
            continue
        addresses = ", ".join(address.partition("/")[0] for address in interface.addresses)
        if name in bonds and bonds[name].state != "down":
            lost[name] = f"a member of {bonds[name].name}"
        elif addresses:
            lost[name] = f"with the address {addresses}"
    return lost


def _speed(name: str) -> int | None:
    try:
        speed = int(Path("/sys/class/net", name, "speed").read_text())
    except (OSError, ValueError):  # EINVAL: without a link there is no speed
        return None
    return speed if speed > 0 else None


def _resolver() -> tuple[list[str], list[str]]:
    for file in _RESOLVERS:
        try:
            words = [line.split() for line in file.read_text().splitlines()]
        except OSError:
            continue
        servers = [line[1] for line in words if line[:1] == ["nameserver"] and len(line) > 1]
        search = [name for line in words if line[:1] in (["search"], ["domain"]) for name in line[1:]]
        return servers, search
    return [], []


def clock(bus: str) -> ClockResponse:
    """Clock state from systemd-timedated, which knows any daemon that sets the kernel's clock."""
    values = properties(bus, _TIME, "/org/freedesktop/timedate1", _TIME)
    return ClockResponse(values.get("NTPSynchronized"), values.get("Timezone"))


def properties(bus: str, name: str, path: str, interface: str) -> dict[str, Any]:
    """Properties of an object on the message bus; empty without an answer."""
    place = DBusAddress(path, bus_name=name, interface="org.freedesktop.DBus.Properties")
    message = new_method_call(place, "GetAll", "s", (interface,))
    try:
        with open_dbus_connection(bus=bus) as connection:
            (answer,) = unwrap_msg(connection.send_and_get_reply(message, timeout=_TIMEOUT_S))
    except (OSError, KeyError, DBusErrorResponse):
        return {}
    return {key: value for key, (_signature, value) in answer.items()}
