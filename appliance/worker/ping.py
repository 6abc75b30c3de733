# SPDX-License-Identifier: Apache-2.0
"""Whether packets of the full MTU pass between this server and a host: ICMP echo without fragmentation (RFC 792, RFC 4443)."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from appliance.domain.errors import UnavailableError
from appliance.worker import network

# ip(7) and ipv6(7); Python has no names for them. PROBE sets "do not fragment" and ignores the kernel's path MTU.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _IPV6_DONTFRAG, _PROBE = 10, 23, 62, 3
_HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence; the kernel sets checksum and identifier."""
_SMALL = 84
"""Bytes of a packet of ping(8) without options."""
_FIRST_S, _TIMEOUT_S = 1.0, 0.3
_TRIES = 2
_AT_ONCE = 8
_ANSWERS = 16
"""Read for one packet: late answers to others come too."""


@dataclass(frozen=True)
class PingResponse:
    """Packets that pass between this server and an address, without fragmentation."""

    address: str
    interface: str | None
    mtu: int | None
    """MTU of the interface, in bytes."""
    largest: int | None
    """Bytes of the largest packet that passes; None if none was answered."""
    result: Literal["ok", "failed"]
    text: str


def ping(addresses: Sequence[str]) -> list[PingResponse]:
    """Each address, concurrently: up to 10 s. Raises UnavailableError if this process may not ping."""
    interfaces = network.interfaces()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(lambda address: _reach(address, interfaces), addresses))


def _reach(address: str, interfaces: Sequence[network.InterfaceResponse]) -> PingResponse:
    try:
        with _Echo(address) as echo:
            interface = _with_address(interfaces, echo.source)
            if interface is None:
                return PingResponse(address, None, None, None, "failed", f"No network interface leads to {address}.")
            if not echo.passes(_SMALL, _FIRST_S):
                text = f"{address} does not answer. Check cable, VLAN and firewall."
                return PingResponse(address, interface.name, interface.mtu, None, "failed", text)
            largest = _largest(echo, interface.mtu)
    except PermissionError as error:
        raise UnavailableError("services may not ping: set net.ipv4.ping_group_range to 0 2147483647 (sysctl)") from error
    except OSError as error:
        return PingResponse(address, None, None, None, "failed", f"{address} cannot be reached: {error.strerror}.")
    if largest == interface.mtu:
        text = f"Packets of {largest} bytes, the MTU of {interface.name}, pass between this server and {address}."
        return PingResponse(address, interface.name, interface.mtu, largest, "ok", text)
    what = "Jumbo frames do" if interface.mtu > 1500 >= largest else f"Packets of {interface.mtu} bytes do"  # noqa: PLR2004
    text = (
        f"{what} not pass between this server and {address}: the largest packet that passes is {largest} bytes. "
        f"Set the MTU of {interface.name}, {interface.mtu}, on each switch port and on the host."
    )
    return PingResponse(address, interface.name, interface.mtu, largest, "failed", text)


def _with_address(interfaces: Sequence[network.InterfaceResponse], source: str) -> network.InterfaceResponse | None:
    for interface in interfaces:
        if any(address.split("/")[0] == source for address in interface.addresses):
            return interface
    return None


def _largest(echo: _Echo, mtu: int) -> int:
    passes, fails = _SMALL, mtu + 1
    candidate = mtu
    while fails - passes > 1:
        if any(echo.passes(candidate, _TIMEOUT_S) for _ in range(_TRIES)):
            passes = candidate
        else:
            fails = candidate
        candidate = (passes + fails) // 2
    return passes


class _Echo:
    """A socket that sends echo requests to one address. Raises OSError."""

    def __init__(self, address: str) -> None:
        six = ipaddress.ip_address(address).version == 6  # noqa: PLR2004
        family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
        self._request, self._reply, self._headers = (128, 129, 48) if six else (8, 0, 28)
        self._sequence = 0
        self._socket = socket.socket(family, socket.SOCK_DGRAM, protocol)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._socket)
            if six:
                self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PROBE)
                self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_DONTFRAG, 1)
            else:
                self._socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)
            self._socket.connect((address, 0))
            self.source: str = self._socket.getsockname()[0]
            stack.pop_all()

    def __enter__(self) -> _Echo:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def passes(self, size: int, seconds: float) -> bool:
        """Whether a packet of `size` bytes, with its IP header, is answered in time."""
        self._sequence += 1
        header = _HEADER.pack(self._request, 0, 0, 0, self._sequence)
        until = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError, OSError):  # too long for the interface or a router
            self._socket.send(header + bytes(size - self._headers))
            for _ in range(_ANSWERS):
                # 0 after a pause of this process: the answer can be among those that have arrived. Without more of them: OSError.
                self._socket.settimeout(max(until - time.monotonic(), 0))
                answer = self._socket.recv(1 << 16)
                kind, _, _, _, sequence = _HEADER.unpack_from(answer)
                if (kind, sequence) == (self._reply, self._sequence):
                    return True
        return False
