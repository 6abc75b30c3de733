# SPDX-License-Identifier: Apache-2.0
"""The worker's Unix socket. Messages are JSON, a line each: `{"method", "params"}`, then `{"result"}` or `{"error"}`.

It answers root, and the HTTP process by the user it runs as (SO_PEERCRED of unix(7)). That user has one method, `request`
(appliance/api/wire.py): an attacker in the HTTP process can send what any client can send, and no more. Root also has
`zfs_event`, for the zedlet (packaging/zed).
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import socket
import socketserver
import struct
import threading
from pathlib import Path
from select import POLLRDHUP, poll

import msgspec

from appliance import decoding, logs
from appliance.api.execution import Outcome, carry_out, failed
from appliance.api.wire import METHOD, HttpRequest, Reply, Stream, encoded
from appliance.domain.errors import DomainError, ForbiddenError, InternalError, NotFoundError, to_wire
from appliance.worker.service import Service

LONGEST_REQUEST = 8 << 20
"""A body of 1 MiB, and what escapes add."""
CONNECTIONS = 64
IDLE_S = 60
STALLED_S = 30
"""For the HTTP process to take a part of a stream."""
ROOT = 0
ZFS_EVENT = "zfs_event"
_log = logging.getLogger(__name__)


class _Message(msgspec.Struct):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    request: str | None = None


class _Connection(socketserver.StreamRequestHandler):
    timeout = IDLE_S
    server: WorkerServer

    def handle(self) -> None:
        credentials = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _process, user, _group = struct.unpack("3i", credentials)
        if user not in (ROOT, self.server.api_user):
            _log.warning("user %d is not admitted", user)
            return
        while True:
            try:
                line = self.rfile.readline(LONGEST_REQUEST + 1)
            except OSError:
                return
            if not line.endswith(b"\n"):
                return
            self._respond(line, user)

    def _respond(self, line: bytes, user: int) -> None:
        answer: dict[str, object]
        try:
            message = decoding.decode(line, _Message)
            logs.of_request(message.request)
            if message.method == METHOD:
                self._carry_out(decoding.decode(message.params, HttpRequest))
                return
            if user != ROOT:
                raise ForbiddenError(f"only root has the method {message.method!r}")
            if message.method != ZFS_EVENT:
                raise NotFoundError("method", message.method)
            stored = self.server.service.watch.event(decoding.decode(message.params, dict[str, object]))
            answer = {"result": {"stored": stored}}
        except DomainError as error:
            answer = {"error": to_wire(error)}
        except Exception:
            _log.exception("a request")
            answer = {"error": to_wire(InternalError())}
        self.wfile.write(encoded(answer) + b"\n")

    def _carry_out(self, sent: HttpRequest) -> None:
        try:
            outcome = carry_out(self.server.service, sent)
        except Exception:
            _log.exception("%s", sent.operation)
            outcome = failed()
        content = outcome.content
        if isinstance(content, bytes):
            self.wfile.write(_head(outcome, len(content)) + content)
        elif isinstance(content, Path):
            with content.open("rb") as file:
                outcome.headers["Content-Length"] = str(os.fstat(file.fileno()).st_size)
                socket.send_fds(self.connection, [_head(outcome, None)], [file.fileno()])
        else:
            self._stream(outcome, content)

    def _stream(self, outcome: Outcome, stream: Stream) -> None:
        """Ends when the HTTP process closes its end, which it does when the client has disconnected."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self.connection, [_head(outcome, None)], [theirs.fileno()])
        except OSError:
            ours.close()
        feed(ours, stream)


def feed(connection: socket.socket, stream: Stream) -> None:
    """Writes the stream until it ends or its reader has closed. Closes both."""
    try:
        with connection, contextlib.suppress(OSError):
            gone = poll()
            gone.register(connection, POLLRDHUP)
            connection.settimeout(STALLED_S)
            for part in stream.parts(lambda: bool(gone.poll(0))):
                connection.sendall(part)
    except ValueError:  # the HTTP process ended before it received the descriptor
        _log.debug("a stream has no reader")
    finally:
        stream.close()


def _head(outcome: Outcome, length: int | None) -> bytes:
    return encoded(Reply(status=outcome.status, headers=outcome.headers, length=length, cookie=outcome.cookie)) + b"\n"


def user_of(name: str) -> int | None:
    """Number of the HTTP process's user; None if the system has no such user: then only root is accepted."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        _log.warning("there is no user %s: only root can reach the worker", name)
        return None


_Accepted = socket.socket | tuple[bytes, socket.socket]


class WorkerServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Listens until it is shut down. The mode of its folder decides who can connect."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, service: Service, api_user: int | None = None) -> None:
        self.service, self.api_user = service, api_user
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        before = os.umask(0o111)
        try:
            super().__init__(str(path), _Connection)
        finally:
            os.umask(before)

    def process_request(self, request: _Accepted, client_address: object) -> None:
        """Handles a request in a thread; closes the connection if all are busy."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: _Accepted, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: _Accepted, client_address: object) -> None:
        """A client that disconnects early is not a failure."""
        _log.debug("a connection ended", exc_info=True)
