# SPDX-License-Identifier: Apache-2.0
"""Addresses by which hosts reach this server: those of its interfaces, and portals at "every address" resolved to them."""

import array
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_SIOCGIFCONF, _SIOCGIFFLAGS, _SIOCGIFNETMASK = 0x8912, 0x8913, 0x891B  # netdevice(7)
_IFF_RUNNING = 0x40
_IFREQ = struct.Struct("16sH2x4s16x")
"""struct ifreq of a 64-bit system with a sockaddr_in: name; family; the port is skipped; IPv4 address."""
_MOST = 1024
_INTERFACES = Path("/sys/class/net")
_IF_INET6 = Path("/proc/self/net/if_inet6")
"""A line for own IPv6 address: address, index, prefix length, scope, flags, interface."""
_GLOBAL = "00"


@dataclass(frozen=True)
class Address:
    interface: str
    address: str
    network: str | None = None
    """As in 192.0.2.0/24."""
    internal: bool = False
    """On a bridge without a network card, such as Docker's: hosts do not reach it."""
    linked: bool = True
    """False if its interface is down, or its cable is unplugged."""


def local_addresses() -> list[Address]:
    """All addresses except loopback and link-local ones, IPv4 first. Empty if the process has no access to the network."""
    return [
        replace(address, internal=_is_internal(_INTERFACES / address.interface), linked=_is_linked(address.interface))
        for address in (*_ipv4(), *_ipv6())
        if not (ip := ipaddress.ip_address(address.address)).is_loopback and not ip.is_link_local
    ]


def _is_internal(interface: Path) -> bool:
    """Members with a device are network cards; those on lower interfaces are VLANs and bonds. Containers and VMs have neither."""
    members = [interface.parent / member.name for member in interface.glob("brif/*")]
    outward = any((member / "device").exists() or any(member.glob("lower_*")) for member in members)
    return (interface / "bridge").is_dir() and not outward


def _is_linked(interface: str) -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            answer = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack("16s24x", interface.encode()))
    except OSError:  # the interface no longer exists
        return False
    return bool(struct.unpack_from("H", answer, 16)[0] & _IFF_RUNNING)


def _ipv4() -> Iterator[Address]:
    room = array.array("B", bytes(_IFREQ.size * _MOST))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            listed = fcntl.ioctl(probe, _SIOCGIFCONF, struct.pack("iP", len(room), room.buffer_info()[0]))
            used = struct.unpack("iP", listed)[0]
            for name, family, packed in _IFREQ.iter_unpack(room.tobytes()[:used]):
                try:
                    mask = _IFREQ.unpack(fcntl.ioctl(probe, _SIOCGIFNETMASK, _IFREQ.pack(name, family, packed)))[2]
                except OSError:  # the address no longer exists, or its label is not an interface's name
                    mask = b"\xff" * 4
                address = socket.inet_ntoa(packed)
                interface = name.rstrip(b"\0").decode(errors="replace").partition(":")[0]  # the rest is the label of an alias
                yield Address(interface, address, _network(address, socket.inet_ntoa(mask)))
    except OSError:
        return


def _network(address: str, mask: str) -> str:
    return str(ipaddress.ip_network(f"{address}/{mask}", strict=False))


def _ipv6() -> Iterator[Address]:
    try:
        lines = _IF_INET6.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        packed, _, length, scope, _, interface = line.split()
        if scope == _GLOBAL:
            address = str(ipaddress.IPv6Address(bytes.fromhex(packed)))
            yield Address(interface, address, _network(address, str(int(length, 16))))


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
            usable = [mine.address for mine in local if mine.linked and not mine.internal]
            resolved.update({join_portal(mine, port): None for mine in usable if (":" in mine) == (ip.version == 6)})
        elif not ip.is_loopback:
            resolved[join_portal(address, port)] = None
    return list(resolved)


def obstacle(portal: str, local: Sequence[Address]) -> str:
    """Why hosts cannot reach a portal at one address, although it listens: a socket stays when its address goes. "" if none is
    known. Link-local addresses are not in `local`.
    """
    ip = ipaddress.ip_address(split_portal(portal)[0])
    if ip.is_unspecified or ip.is_loopback or ip.is_link_local:
        return ""
    mine = next((each for each in local if each.address == str(ip)), None)
    if mine is None:
        return "this server does not have its address"
    return "" if mine.linked else f"its network interface {mine.interface} has no link"


def paths(portals: Sequence[str], local: Sequence[Address]) -> int:
    """Number of paths by which hosts reach these portals: of interfaces, or of networks if these are fewer. Of two interfaces in
    one network Linux uses one to answer. Addresses that this server does not have, or without a link, do not count.
    """
    known = {each.address: each for each in local if each.linked}
    used = [known[address] for address, _ in map(split_portal, reachable(portals, local)) if address in known]
    return min(len({each.interface for each in used}), len({each.network or each.address for each in used}))


def nearest(local: Sequence[Address], clients: Sequence[str]) -> str | None:
    """The local address that shares the longest prefix with one of these. Bits behind a netmask do not count.

    Of equals that of most clients, then the first: hosts must keep the address by which they know a datastore, and a further host
    seldom changes it. Internal addresses come last, and serve only their own network.
    """
    best, chosen = (-1, 0), None
    for address in sorted(local, key=lambda each: each.internal):
        mine, network = ipaddress.ip_address(address.address), ipaddress.ip_network(address.network or address.address)
        shared = []
        for client in clients or ("0.0.0.0/0",):
            other = ipaddress.ip_network(client, strict=False)
            if other.version == mine.version or not clients:
                same = mine.max_prefixlen - (int(mine) ^ int(other.network_address)).bit_length()
                shared.append(min(same, network.prefixlen, other.prefixlen))
        longest = max(shared, default=-1)
        rank = longest, shared.count(longest)
        if rank > best and (longest == network.prefixlen or not address.internal):
            best, chosen = rank, address.address
    return chosen
