# SPDX-License-Identifier: Apache-2.0
"""The network of the server, and pings of hosts."""

from typing import Literal

from appliance.api.types import Answer


class InterfaceResponse(Answer):
    """A network interface. `speed` is in Mbit/s."""

    name: str
    kind: str
    """ethernet, or the kind of a virtual one: bond, vlan, bridge."""
    state: Literal["up", "no link", "down"]
    mac: str
    mtu: int
    speed: int | None
    addresses: list[str]
    """With prefix length."""
    members: list[str]
    """Interfaces of a bond or bridge."""
    detail: str
    """Mode of a bond; number and carrier of a VLAN."""


class TimeSynchronization(Answer):
    """Time synchronisation; null if unknown."""

    synchronized: bool | None
    zone: str | None


class NetworkResponse(Answer):
    """The network of the server, read-only: Cockpit or nmtui changes it."""

    hostname: str
    dns_servers: list[str]
    search_domains: list[str]
    time: TimeSynchronization
    interfaces: list[InterfaceResponse]


class PingResponse(Answer):
    """Packets that pass between the server and an address of a host, without fragmentation. `text` says it for people."""

    address: str
    interface: str | None
    mtu: int | None
    """Largest packet of the interface, in bytes."""
    largest: int | None
    """Bytes of the largest packet that passes; null if none was answered."""
    result: Literal["ok", "failed"]
    text: str
