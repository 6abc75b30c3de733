# SPDX-License-Identifier: Apache-2.0
"""One POST to a receiver that an admin named: where it may go, how long it may take, how it is signed.

An admin could otherwise use the appliance to reach what only the appliance can: services on its loopback, and those of
link-local addresses (of clouds). So the name is resolved here, each address looked at, and the connection made to that very
address. No redirect is followed, no proxy of the environment taken, and of the answer nothing is kept but its status.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
CONNECT_S = 5.0
TOTAL_S = 15.0
"""From asking for the receiver's addresses to the end of its answer."""
RESOLVERS = 16
_RESOLVING = threading.BoundedSemaphore(RESOLVERS)
MOST_ADDRESSES = 3
_LONGEST_ANSWER = 64 << 10
_USER_AGENT = "zvaai"


@dataclass(frozen=True)
class Outcome:
    """Of a try. Delivered is what was answered with 200 to 299."""

    status: int | None
    problem: str | None


def sign(secret: str, event: str, timestamp: int, body: bytes) -> str:
    """Standard Webhooks: `v1,` and the HMAC-SHA256 of identifier, timestamp and body, by the secret's decoded part."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{event}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def may_go_to(address: str, plain: bool, trusted: Sequence[Network]) -> bool:
    """Loopback and link-local addresses, and any without TLS, are for trusted networks only."""
    found = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if any(found.version == network.version and found in network for network in trusted):
        return True
    own = found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast or found.is_reserved
    return not plain and not own


def deliver(
    url: str, secret: str, event: str, body: str, *, certificate: str | None = None, trusted: Sequence[Network] = ()
) -> Outcome:
    """Tries once. Never raises for what the receiver or the network does."""
    try:
        return Outcome(*_post(url, secret, event, body.encode(), certificate, trusted))
    except TimeoutError:
        return Outcome(None, f"no answer within {TOTAL_S:.0f} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Outcome(None, f"{type(error).__name__}: {error}"[:500])


def _post(
    url: str, secret: str, event: str, body: bytes, certificate: str | None, trusted: Sequence[Network]
) -> tuple[int | None, str | None]:
    parts = urlsplit(url)
    plain, host = parts.scheme == "http", parts.hostname or ""
    port = parts.port or (80 if plain else 443)
    until = time.monotonic() + TOTAL_S
    found = _resolved(host, port, until)
    allowed = [address for address in found if may_go_to(address, plain, trusted)]
    if not allowed:
        why = "http:// goes to trusted networks only" if plain else "it is the appliance's own or a link's"
        return None, f"{', '.join(found[:5])}: {why} ([webhooks] trusted_networks)"
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": _USER_AGENT,
        "Connection": "close",
        "webhook-id": event,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, event, timestamp, body),
    }
    with _Bounded(max(0.0, until - time.monotonic())) as bounded:
        connection: http.client.HTTPConnection
        stream = bounded.connect(allowed[:MOST_ADDRESSES], port)
        if plain:
            connection = http.client.HTTPConnection(host, port)
        else:
            context = ssl.create_default_context(cadata=certificate)
            connection = http.client.HTTPSConnection(host, port, context=context)
            stream = bounded.encrypt(context, host)
        connection.sock = stream
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read(_LONGEST_ANSWER)
        if 200 <= answer.status < 300:
            return answer.status, None
        return answer.status, f"answered {answer.status}"


def _resolved(host: str, port: int, until: float) -> list[str]:
    """Its addresses. getaddrinfo(3) has no limit and can't be ended: who waits is another thread, of which there are not many.

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
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(one[4][0]) for one in found)))
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


class _Bounded:
    """A connection that is cut when its time is over, whatever it is at: a receiver could otherwise answer a byte at a time."""

    def __init__(self, seconds: float) -> None:
        self._socket: socket.socket | None = None
        self._over = threading.Event()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> _Bounded:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timer.cancel()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        if self._over.is_set() and error is not None:
            raise TimeoutError from error

    def _cut(self) -> None:
        self._over.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        """To the first that answers. Raises OSError."""
        problem: OSError | None = None
        for address in addresses:
            try:
                self._socket = socket.create_connection((address, port), CONNECT_S)
                self._socket.settimeout(TOTAL_S)
                return self._socket
            except OSError as error:
                problem = error
        assert problem is not None
        raise problem

    def encrypt(self, context: ssl.SSLContext, host: str) -> socket.socket:
        """TLS, with the receiver's certificate checked against its name. Raises OSError."""
        assert self._socket is not None
        stream = context.wrap_socket(self._socket, server_hostname=host, do_handshake_on_connect=False)
        self._socket = stream
        stream.do_handshake()
        return stream
