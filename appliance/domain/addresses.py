# SPDX-License-Identifier: Apache-2.0
"""Addresses by which hosts reach this server: those of its interfaces, and portals at "every address" resolved to them."""

import array
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_SIOCGIFCONF = 0x8912  # netdevice(7)
_IFREQ = struct.Struct("16s4x4s16x")
"""struct ifreq of a 64-bit system with a sockaddr_in: name; family and port are skipped; IPv4 address."""
_MOST = 1024
_IF_INET6 = Path("/proc/self/net/if_inet6")
"""A line for own IPv6 address: address, index, prefix length, scope, flags, interface."""
_GLOBAL = "00"


@dataclass(frozen=True)
class Address:
    interface: str
    address: str


def local_addresses() -> list[Address]:
    """All addresses except loopback and link-local ones, IPv4 first. Empty if the process has no access to the network."""
    addresses = [*_ipv4(), *_ipv6()]
    return [
        address for address in addresses if not (ip := ipaddress.ip_address(address.address)).is_loopback and not ip.is_link_local
    ]


def _ipv4() -> Iterator[Address]:
    room = array.array("B", bytes(_IFREQ.size * _MOST))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            listed = fcntl.ioctl(probe, _SIOCGIFCONF, struct.pack("iP", len(room), room.buffer_info()[0]))
    except OSError:
        return
    used = struct.unpack("iP", listed)[0]
    for name, packed in _IFREQ.iter_unpack(room.tobytes()[:used]):
        yield Address(name.rstrip(b"\0").decode(errors="replace"), socket.inet_ntoa(packed))


def _ipv6() -> Iterator[Address]:
    try:
        lines = _IF_INET6.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        packed, _, _, scope, _, interface = line.split()
        if scope == _GLOBAL:
            yield Address(interface, str(ipaddress.IPv6Address(bytes.fromhex(packed))))


def split_portal(portal: str) -> tuple[str, int]:
    """Address and port of "192.0.2.1:3260" or "[2001:db8::1]:3260". Raises ValueError."""
    host, _, port = portal.rpartition(":")
    address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    if (address.version == 6) != host.startswith("["):
        raise ValueError(f"{portal}: an IPv6 address stands in brackets, as in [2001:db8::1]:3260")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{portal}: the port is missing, as in 192.0.2.1:3260")
    return str(address), int(port)


def join_portal(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def covers(portal: str, local: str) -> bool:
    """Whether a portal listens at this address and port: an unspecified address is every address of its family."""
    (address, port), (used_address, used_port) = split_portal(portal), split_portal(local)
    listens, used = ipaddress.ip_address(address), ipaddress.ip_address(used_address)
    return port == used_port and (listens == used or (listens.is_unspecified and listens.version == used.version))


def reachable(portals: Sequence[str], local: Sequence[Address]) -> list[str]:
    """Portals at addresses that hosts can use, each once: "every address" becomes each address of that family."""
    resolved: dict[str, None] = {}
    for portal in portals:
        address, port = split_portal(portal)
        ip = ipaddress.ip_address(address)
        if ip.is_unspecified:
            same = [mine.address for mine in local if (":" in mine.address) == (ip.version == 6)]
            resolved.update({join_portal(mine, port): None for mine in same})
        elif not ip.is_loopback:
            resolved[join_portal(address, port)] = None
    return list(resolved)


def paths(portals: Sequence[str], local: Sequence[Address]) -> int:
    """Number of interfaces through which hosts reach these portals. An address without interface, such as an advertised one,
    counts separately.
    """
    interfaces = {local_address.address: local_address.interface for local_address in local}
    return len({interfaces.get(address, address) for address, _ in map(split_portal, reachable(portals, local))})


def nearest(local: Sequence[Address], clients: Sequence[str]) -> str | None:
    """The local address that shares the longest prefix with one of these addresses or networks."""
    best, chosen = -1, None
    for address in local:
        mine = ipaddress.ip_address(address.address)
        for client in clients or ("0.0.0.0/0",):
            other = ipaddress.ip_network(client, strict=False)
            if other.version == mine.version or not clients:
                common = 0 if not clients else mine.max_prefixlen - (int(mine) ^ int(other.network_address)).bit_length()
                if common > best:
                    best, chosen = common, address.address
    return chosen
