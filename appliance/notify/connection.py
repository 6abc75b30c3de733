# SPDX-License-Identifier: Apache-2.0
"""Connections to receivers that an admin named: where they may lead, and how long they may take.

An admin could otherwise use the appliance to reach what only the appliance can: services on its loopback, and those of
link-local addresses (of clouds). So the name is resolved here, each address checked, and the connection made to that very
address. No proxy of the environment is used.
"""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
CONNECT_S = 5.0
TOTAL_S = 15.0
"""From the request for the receiver's addresses to the end of its answer."""
RESOLVERS = 16
_RESOLVING = threading.BoundedSemaphore(RESOLVERS)
MOST_ADDRESSES = 3


@dataclass(frozen=True)
class Outcome:
    """Result of one attempt. It is delivered if there is no problem, or if it is partial."""

    status: int | None
    """Status of the receiver's answer, by HTTP or SMTP; None without an answer."""
    problem: str | None
    refused: bool = False
    """The receiver answered that it will not take it: trying again hardly helps."""
    partial: bool = False
    """Some recipients have it, and would get it again with each attempt. The problem is of the others."""


class NotAllowedError(Exception):
    """The receiver has only addresses to which the appliance does not connect."""


def may_go_to(address: str, plain: bool, trusted: Sequence[Network]) -> bool:
    """Loopback and link-local addresses, and any without TLS, are for trusted networks only."""
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if any(ip.version == network.version and ip in network for network in trusted):
        return True
    special = ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast or ip.is_reserved
    return not plain and not special


def allowed(host: str, port: int, plain: bool, trusted: Sequence[Network], until: float) -> list[str]:
    """Addresses of a name that may be connected to. Raises TimeoutError, OSError, NotAllowedError."""
    addresses = _resolved(host, port, until)
    good = [address for address in addresses if may_go_to(address, plain, trusted)]
    if not good:
        why = "only trusted networks are reached without TLS" if plain else "the address is the appliance's own or link-local"
        raise NotAllowedError(f"{', '.join(addresses[:5])}: {why} ([alerts] trusted_networks in /etc/zvaai/appliance.toml)")
    return good[:MOST_ADDRESSES]


@contextlib.contextmanager
def connecting(host: str, port: int, plain: bool, trusted: Sequence[Network]) -> Iterator[tuple[Bounded, list[str]]]:
    """A connection to make, and the addresses for it; all of it ends after TOTAL_S. Raises as `allowed` does."""
    until = time.monotonic() + TOTAL_S
    addresses = allowed(host, port, plain, trusted, until)
    with Bounded(max(0.0, until - time.monotonic())) as bounded:
        yield bounded, addresses


def _resolved(host: str, port: int, until: float) -> list[str]:
    """Addresses of a name. getaddrinfo(3) has no time limit and cannot be ended, so one of few other threads waits for it.

    Raises TimeoutError, OSError.
    """
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return [host]
    if not _RESOLVING.acquire(blocking=False):
        raise OSError(f"{RESOLVERS} names are being resolved, and none is answered")
    answers: queue.SimpleQueue[list[str] | OSError | ValueError] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(entry[4][0]) for entry in entries)))
        except (OSError, ValueError) as error:
            answers.put(error)
        finally:
            _RESOLVING.release()

    threading.Thread(target=resolve, name="resolving", daemon=True).start()
    try:
        answer = answers.get(timeout=max(0.0, until - time.monotonic()))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


class Bounded:
    """A connection that is cut when its time is over, whatever it is at: a receiver could otherwise answer a byte at a time."""

    def __init__(self, seconds: float) -> None:
        self.stream: socket.socket | None = None
        self._over = threading.Event()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Bounded:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        if self.stream is not None:
            with contextlib.suppress(OSError):
                self.stream.close()
        if self._over.is_set() and error is not None:
            raise TimeoutError from error

    def _cut(self) -> None:
        self._over.set()
        if self.stream is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.stream, socket.SHUT_RDWR)

    def _keep(self, stream: socket.socket) -> None:
        """Takes the stream that `_cut` is to cut. Raises TimeoutError if that was called before."""
        self.stream = stream
        if self._over.is_set():
            raise TimeoutError

    def connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        """To the first that answers. Raises OSError."""
        problem: OSError | None = None
        for address in addresses:
            try:
                stream = socket.create_connection((address, port), CONNECT_S)
            except OSError as error:
                problem = error
                continue
            stream.settimeout(TOTAL_S)
            self._keep(stream)
            return stream
        assert problem is not None
        raise problem

    def encrypt(self, context: ssl.SSLContext, host: str) -> socket.socket:
        """TLS, with the receiver's certificate checked against its name. Raises OSError."""
        assert self.stream is not None
        stream = context.wrap_socket(self.stream, server_hostname=host, do_handshake_on_connect=False)
        self._keep(stream)
        stream.do_handshake()
        return stream
