# SPDX-License-Identifier: Apache-2.0
"""The worker's Unix socket: JSON, a message a line; `{"method", "params"}` and `{"result"}` or `{"error"}`.

It answers root and the service's own user only.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
import struct
import threading
from pathlib import Path
from typing import Any

import msgspec

from appliance import logs
from appliance.domain.errors import DomainError, InternalError, to_wire
from appliance.worker.service import Service

LONGEST_REQUEST = 1 << 20
CONNECTIONS = 64
IDLE_S = 60
_log = logging.getLogger(__name__)


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # half a character, which somebody has asked for
        return json.dumps(msgspec.to_builtins(answer)).encode()


class _Connection(socketserver.StreamRequestHandler):
    timeout = IDLE_S
    server: WorkerServer

    def handle(self) -> None:
        """Requests until the other side has no more."""
        credentials = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _process, user, _group = struct.unpack("3i", credentials)
        if user not in (0, os.geteuid()):
            return
        while True:
            try:
                line = self.rfile.readline(LONGEST_REQUEST + 1)
            except OSError:
                return
            if not line.endswith(b"\n"):
                return
            self.wfile.write(_encoded(self._answer(line)) + b"\n")

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            logs.of_request(request.get("request"))
            return {"result": self.server.service.call(str(request["method"]), dict(request.get("params") or {}))}
        except DomainError as error:
            return {"error": to_wire(error)}
        except Exception:
            _log.exception("a request")
            return {"error": to_wire(InternalError())}


class WorkerServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Listens until it is shut down."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, service: Service) -> None:
        self.service = service
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            super().__init__(str(path), _Connection)
        finally:
            os.umask(before)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread; who comes when all are busy is let go."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Gives its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who goes away early is no failure."""
        _log.debug("a connection ended", exc_info=True)
