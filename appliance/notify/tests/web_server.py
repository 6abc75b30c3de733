# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks: a real HTTP server, with or without TLS, whose answers a test sets."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from appliance.api import certificate


@dataclass
class Receiver:
    """Received requests, and the answer: a status, or a function that handles the connection."""

    url: str = ""
    pem: str = ""
    received: list[tuple[Message, bytes]] = field(default_factory=list)
    answer: int | Callable[[BaseHTTPRequestHandler], None] = 204

    def wait(self, count: int, seconds: float = 60) -> list[tuple[Message, bytes]]:
        """Waits for `count` requests and returns them. Raises AssertionError."""
        limit = time.monotonic() + seconds
        while len(self.received) < count:
            assert time.monotonic() < limit, f"{len(self.received)} of {count} came"
            time.sleep(0.01)
        return self.received


@contextlib.contextmanager
def receiver(directory: Path, *, tls: bool = True, port: int = 0, address: str = "127.0.0.1") -> Iterator[Receiver]:
    """A running receiver."""
    endpoint = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Keeps it, and answers."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.received.append((self.headers, body))
            if callable(endpoint.answer):
                return endpoint.answer(self)
            self.send_response(endpoint.answer)
            self.end_headers()
            return None

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Ignores clients that disconnect or reject the certificate."""

    server = Server((address, port), Handler)
    endpoint.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/hook?token=t0ken"
    if tls:
        certificate.ensure(directory)
        file = directory / certificate.CERTIFICATE
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file, directory / certificate.KEY)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        endpoint.pem = file.read_text()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
