"""Connections, bounded: how many, how many of one address, how long each may say nothing, send its request or take an answer.

gunicorn's worker with threads has no such limits of its own: its `timeout` is for the process, not for a connection.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from selectors import EVENT_READ
from socket import socket
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

from appliance.api import certificate

SILENT_S = 5.0
"""Until the first byte."""
READ_S = 20.0
"""For TLS handshake, head and body of a request together."""
WRITE_S = 30.0
"""For an answer, and a second more for so many bytes of it:"""
SLOWEST_BYTES_PER_S = 64 << 10
CERTIFICATE_LOOKED_AT_S = 3600.0
_RECORD = 16 << 10
_log = logging.getLogger(__name__)


class TimedSocket(ssl.SSLSocket):
    """TLS with a limit for a whole request and a whole answer, however small the pieces in which they come and go."""

    _until = 0.0

    def begin(self) -> None:
        """A request begins."""
        self._until = time.monotonic() + READ_S

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """What has come; nothing, as if the other side had gone, when the time is over."""
        left = self._until - time.monotonic()
        if left <= 0:
            return b""
        self.settimeout(left)
        try:
            return super().recv(buflen, flags)
        except TimeoutError:
            self._until = 0
            return b""

    def sendall(self, data: Any, flags: int = 0) -> None:
        """All of it. Raises BrokenPipeError when the other side takes it too slowly."""
        with memoryview(data).cast("B") as left:
            until = time.monotonic() + WRITE_S + len(left) / SLOWEST_BYTES_PER_S
            sent = 0
            while sent < len(left):
                self.settimeout(max(0.001, until - time.monotonic()))
                try:
                    sent += self.send(left[sent : sent + _RECORD], flags)
                except TimeoutError as error:
                    raise BrokenPipeError(errno.EPIPE, "the answer is taken too slowly") from error


class Tls:
    """gunicorn's `ssl_context`: one context for all connections, with the appliance's own certificate renewed in time."""

    def __init__(self, own: Path | None) -> None:
        self._own = own
        self._context: ssl.SSLContext | None = None
        self._made = 0.0

    def __call__(self, _settings: Any, make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        """Made anew once in a while, for a certificate that was replaced; the one before when that can't be read."""
        now = time.monotonic()
        if self._context is None or now - self._made > CERTIFICATE_LOOKED_AT_S:
            try:
                if self._own is not None:
                    certificate.ensure(self._own)
                context = make()
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                context.sslsocket_class = TimedSocket
                self._context = context
            except OSError:
                if self._context is None:
                    raise
                _log.exception("the certificate; the one before is used")
            self._made = now
        return self._context


def network_of(address: str) -> str:
    """What counts as one address: of IPv6 who has one has 2**64."""
    found = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    return str(found if found.version == 4 else ipaddress.ip_network(f"{found}/64", strict=False))


class Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """One, that tells when it is closed."""

    def __init__(self, worker: Worker, accepted: socket, client: Any, server: Any) -> None:
        super().__init__(worker.cfg, accepted, client, server)
        self.network = network_of(client[0])
        self.silent_until = time.monotonic() + SILENT_S
        self._worker = worker

    def close(self) -> None:
        """Once or several times."""
        super().close()
        self._worker.gone(self)


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's, with the limits."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._open: set[Connection] = set()
        self._of_network: Counter[str] = Counter()
        self._silent: dict[Connection, None] = {}
        self._counting = threading.Lock()
        super().__init__(*arguments, **named)
        # So that one address does not have all threads; a browser takes six.
        self._most_of_one = max(6, self.cfg.threads * 2 // 3)

    @property
    def nr_conns(self) -> int:
        """gunicorn counts up and down in several threads; here it is looked at."""
        return len(self._open)

    @nr_conns.setter
    def nr_conns(self, _counted: int) -> None:
        pass

    def gone(self, connection: Connection) -> None:
        """It was closed."""
        with self._counting:
            if connection in self._open:
                self._open.remove(connection)
                self._of_network[connection.network] -= 1
                if not self._of_network[connection.network]:
                    del self._of_network[connection.network]

    def accept(self, server: Any, listener: socket) -> None:
        """One more, unless its address has enough."""
        try:
            accepted, client = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                _log.warning("a connection was not taken: %s", error)
                time.sleep(0.1)  # without descriptors it would be asked for again at once
            return
        connection = Connection(self, accepted, client, server)
        with self._counting:
            taken = self._of_network[connection.network] < self._most_of_one
            if taken:
                self._open.add(connection)
                self._of_network[connection.network] += 1
        if not taken:
            accepted.close()
            return
        self._silent[connection] = None
        with self._lock:
            self.poller.register(accepted, EVENT_READ, partial(self.on_client_socket_readable, connection))

    def on_client_socket_readable(self, conn: Connection, client: socket) -> None:
        """It says something."""
        self._silent.pop(conn, None)
        super().on_client_socket_readable(conn, client)

    def enqueue_req(self, conn: Connection) -> None:
        """To a thread. Who has reset the connection already must not end the process."""
        try:
            super().enqueue_req(conn)
        except OSError as error:
            _log.debug("a connection ended: %s", error)
            conn.close()

    def handle(self, conn: Connection) -> Any:
        """In a thread: its time begins."""
        conn.sock.begin()
        return super().handle(conn)

    def murder_keepalived(self) -> None:
        """At each turn: those that were kept, and those that have said nothing at all; of these the oldest when all are taken."""
        super().murder_keepalived()
        now = time.monotonic()
        for connection in list(self._silent):
            if connection.silent_until > now and self.nr_conns < self.worker_connections:
                return
            del self._silent[connection]
            with self._lock:
                self.poller.unregister(connection.sock)
            connection.close()
