# SPDX-License-Identifier: Apache-2.0
"""Connections, bounded: how many, how many of one address, how long each may say nothing, send its request or take an answer.

gunicorn's worker with threads gives a thread to whoever has sent a byte. Here one thread, the worker's own, shakes hands, reads
and sends what is left of answers for all connections; the others get whole requests only. So who is slow holds nobody up.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import logging
import os
import time
from collections import Counter, deque
from concurrent.futures import Future
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from selectors import EVENT_READ, EVENT_WRITE
from socket import socket
from ssl import SSLWantReadError, SSLWantWriteError
from typing import Any

from gunicorn.http import RequestParser
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

from appliance.api.application import LONGEST_BODY
from appliance.api.framing import Framing, Refusal
from appliance.api.problems import MEDIA_TYPE, problem
from appliance.api.tls import PatientSocket

CONNECTIONS = 256
"""In all; of one address two thirds."""
SILENT_S = 5.0
"""Until the first byte."""
READ_S = 20.0
"""For TLS handshake, head and body of a request together."""
LEAVE_S = 2.0
"""After a refusal, for the other side to read it."""
REFUSED_AT_ONCE = 16
"""Connections too many that are told so; more are closed without a word."""
LARGE_AT_ONCE = 16
"""Requests with long bodies."""
_READS = 4
"""At a turn, so that who sends much does not keep others waiting."""
_log = logging.getLogger(__name__)

TOO_MANY = Refusal(429, "too_many_requests", "too many connections of this address are open", 1)
TOO_LARGE_NOW = Refusal(503, "unavailable", "too many requests with long bodies are on their way", 1)
TOO_SLOW = Refusal(408, "too_slow", "the request took too long to arrive")


def network_of(address: str) -> str:
    """What counts as one address: of IPv6 who has one has 2**64."""
    found = ipaddress.ip_address(address.split("%", 1)[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    return str(found if found.version == 4 else ipaddress.ip_network(f"{found}/64", strict=False))


def answer_of(refusal: Refusal) -> bytes:
    """The whole answer."""
    body = json.dumps(problem(refusal.status, refusal.code, refusal.detail, retry_after=refusal.retry_after)).encode()
    retry = f"Retry-After: {refusal.retry_after}\r\n" if refusal.retry_after is not None else ""
    head = (
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\nContent-Type: {MEDIA_TYPE}\r\n{retry}"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class State(Enum):
    """Of a connection."""

    READING = auto()
    """The handshake, a request, or nothing yet."""
    RUNNING = auto()
    """A thread has it, or it waits for one."""
    FLUSHING = auto()
    """The answer is being taken."""
    LEAVING = auto()
    """It was refused."""


class Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """One."""

    sock: PatientSocket
    parser: RequestParser | None

    def __init__(self, cfg: Any, accepted: socket, client: Any, server: Any, network: str, surplus: bool) -> None:
        """Raises OSError when the other side has gone already."""
        super().__init__(cfg, accepted, client, server)
        self.sock = ssl_wrap_socket(self.sock, cfg)
        self.network, self.surplus = network, surplus
        self.framing = Framing(LONGEST_BODY)
        self.state = State.READING
        self.until = time.monotonic() + SILENT_S
        self.shaken = self.begun = self.large = self.kept = self.refused = False
        self.watched = 0

    def init(self) -> None:
        """For a thread; its socket never blocks."""
        self.initialized = True
        if self.parser is None:
            self.parser = RequestParser(self.cfg, self.sock, self.client)

    def read(self) -> int:
        """What has come; for which event it is to be asked again. Raises OSError when it has ended."""
        try:
            if not self.shaken:
                self.sock.do_handshake()
                self.shaken = True
            for _ in range(_READS):
                if self.framing.whole or self.framing.refusal:
                    break
                data = self.sock.received()
                if not data:
                    raise ConnectionAbortedError
                self.framing.feed(data)
        except SSLWantWriteError:
            return EVENT_WRITE
        except SSLWantReadError:
            pass
        return EVENT_READ


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's, of which the threads carry out requests and nothing else."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._open: dict[Connection, None] = {}
        self._of_network: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        self._waiting: dict[str, deque[Connection]] = {}
        self._finished: deque[Future[Any]] = deque()
        self._wake = -1
        # So that one address has not everything; a browser takes six connections.
        self._most_of_one = max(6, self.worker_connections * 2 // 3)
        self._most_running_of_one = max(4, self.cfg.threads * 2 // 3)
        self._most_large_of_one = LARGE_AT_ONCE * 2 // 3

    # --- the loop

    def run(self) -> None:
        """Until it is told to stop; what is under way then has a while to end."""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.poller.register(self._wake, EVENT_READ, self._woken)
        for listener in self.sockets:
            listener.setblocking(False)
            self.poller.register(listener, EVENT_READ, partial(self.accept, listener.getsockname()))
        while self.alive and self.is_parent_alive():
            self.notify()
            self._turn(1.0)
        for listener in self.sockets:
            self.poller.unregister(listener)
            listener.close()
        until = time.monotonic() + self.cfg.graceful_timeout
        while time.monotonic() < until and any(one.state in (State.RUNNING, State.FLUSHING) for one in self._open):
            self._turn(0.1)
        self.tpool.shutdown(wait=False, cancel_futures=True)
        self.poller.close()

    def _turn(self, seconds: float) -> None:
        for key, _ in self.poller.select(seconds):
            key.data(key.fileobj)
        now = time.monotonic()
        for connection in [one for one in self._open if one.state is not State.RUNNING and one.until <= now]:
            if connection.state is State.READING and connection.framing.begun:
                self._refuse(connection, TOO_SLOW)
            else:
                self._end(connection)

    # --- coming and going

    def accept(self, server: Any, listener: socket) -> None:
        """One more. Where all are taken, one that has not said anything goes for it, or the one that has said least lately."""
        try:
            accepted, client = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                _log.warning("a connection was not taken: %s", error)
                time.sleep(0.1)  # without descriptors it would be asked for again at once
            return
        network = network_of(client[0])
        surplus = self._of_network[network] >= self._most_of_one
        if surplus and sum(one.surplus for one in self._open) >= REFUSED_AT_ONCE:
            accepted.close()
            return
        if len(self._open) >= self.worker_connections:
            reading = [one for one in self._open if one.state in (State.READING, State.LEAVING)]
            if not reading:
                accepted.close()
                return
            self._end(min(reading, key=lambda one: (one.framing.begun, one.until)))
        try:
            connection = Connection(self.cfg, accepted, client, server, network, surplus)
        except OSError as error:
            _log.debug("a connection ended: %s", error)
            accepted.close()
            return
        self._open[connection] = None
        self._of_network[network] += not surplus
        self._watch(connection, EVENT_READ)

    def _end(self, connection: Connection) -> None:
        self._watch(connection, 0)
        self._release(connection)
        if self._open.pop(connection, connection) is None and not connection.surplus:
            _less(self._of_network, connection.network)
        connection.close()

    def _watch(self, connection: Connection, events: int) -> None:
        if events == connection.watched:
            return
        if not events:
            self.poller.unregister(connection.sock)
        elif connection.watched:
            self.poller.modify(connection.sock, events, partial(self._event, connection))
        else:
            self.poller.register(connection.sock, events, partial(self._event, connection))
        connection.watched = events

    # --- what happens on a connection

    def _event(self, connection: Connection, _socket: Any = None) -> None:
        try:
            if connection.state is State.READING:
                self._read(connection)
            elif connection.state is State.FLUSHING:
                self._flush(connection)
            elif connection.state is State.LEAVING and connection.sock.has_gone():
                self._end(connection)
        except (OSError, ValueError) as error:
            _log.debug("a connection ended: %s", error)
            self._end(connection)

    def _read(self, connection: Connection) -> None:
        if not connection.begun:
            connection.begun, connection.until = True, time.monotonic() + READ_S
        wanted, framing = connection.read(), connection.framing
        if framing.refusal is not None:
            self._refuse(connection, framing.refusal)
        elif connection.surplus and framing.begun:
            self._refuse(connection, TOO_MANY)
        elif framing.large and not connection.large and not self._reserve(connection):
            self._refuse(connection, TOO_LARGE_NOW)
        elif framing.whole:
            self._watch(connection, 0)
            connection.sock.held += framing.take()
            connection.state = State.RUNNING
            self._give_thread(connection)
        else:
            if framing.expects:
                framing.expects = False
                connection.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._watch(connection, wanted)

    def _reserve(self, connection: Connection) -> bool:
        connection.large = self._large.total() < LARGE_AT_ONCE and self._large[connection.network] < self._most_large_of_one
        self._large[connection.network] += connection.large
        return connection.large

    def _release(self, connection: Connection) -> None:
        if connection.large:
            connection.large = False
            _less(self._large, connection.network)

    def _refuse(self, connection: Connection, refusal: Refusal) -> None:
        connection.kept, connection.refused = False, True
        try:
            connection.sock.sendall(answer_of(refusal))
            self._begin_flush(connection)
        except (OSError, ValueError):
            self._end(connection)

    def _begin_flush(self, connection: Connection) -> None:
        connection.state, connection.until = State.FLUSHING, connection.sock.flushed_until()
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        if not connection.sock.flush():
            self._watch(connection, EVENT_WRITE)
        elif connection.kept:
            connection.state, connection.begun = State.READING, False
            connection.until = time.monotonic() + self.cfg.keepalive
            self._watch(connection, EVENT_READ)
            if connection.framing.begun:  # it has sent the next one already
                self._event(connection)
        elif connection.refused:
            connection.sock.leave()
            connection.state, connection.until = State.LEAVING, time.monotonic() + LEAVE_S
            self._watch(connection, EVENT_READ)
        else:
            self._end(connection)

    # --- threads

    def _give_thread(self, connection: Connection) -> None:
        if self._running[connection.network] >= self._most_running_of_one:
            self._waiting.setdefault(connection.network, deque()).append(connection)
            return
        self._running[connection.network] += 1
        connection.init()
        future = self.tpool.submit(self.handle, connection)
        future.connection = connection
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[Any]) -> None:
        """In the thread."""
        self._finished.append(future)
        os.eventfd_write(self._wake, 1)

    def _woken(self, wake: int) -> None:
        os.eventfd_read(wake)
        while self._finished:
            self._finish(self._finished.popleft())

    def _finish(self, future: Future[Any]) -> None:
        connection: Connection = future.connection  # type: ignore[attr-defined]
        _less(self._running, connection.network)
        self._release(connection)
        waiting = self._waiting.get(connection.network)
        if waiting:
            self._give_thread(waiting.popleft())
            if not waiting:
                del self._waiting[connection.network]
        try:
            connection.kept = bool(future.result()[0]) and self.alive
            self._begin_flush(connection)
        except Exception as error:
            _log.debug("a connection ended: %s", error)
            self._end(connection)


def _less(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if counter[name] <= 0:
        del counter[name]
