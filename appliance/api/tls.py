# SPDX-License-Identifier: Apache-2.0
"""TLS: the certificate's context, and sockets that never wait."""

from __future__ import annotations

import contextlib
import errno
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance.api import certificate

CERTIFICATE_LOOKED_AT_S = 3600.0
WRITE_S = 30.0
"""For an answer, and a second more for so many bytes of it:"""
SLOWEST_BYTES_PER_S = 64 << 10
LEFT_BYTES = 1 << 20
"""So much of an answer is kept for who takes it slowly; a thread waits only with more."""
_RECORD = 16 << 10
_log = logging.getLogger(__name__)


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
                context.sslsocket_class = PatientSocket
                self._context = context
            except OSError:
                if self._context is None:
                    raise
                _log.exception("the certificate; the one before is used")
            self._made = now
        return self._context


class PatientSocket(ssl.SSLSocket):
    """What a thread reads was received before, and what it writes is kept until the other side takes it. It never blocks."""

    held = b""
    """Of a request, for `recv`."""
    _left = bytearray()
    """Of an answer."""

    def received(self) -> bytes:
        """What comes next from the other side; nothing when it has ended. Raises SSLWantReadError, SSLWantWriteError, OSError."""
        return super().recv(_RECORD)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Of the request; nothing after its end."""
        part, self.held = self.held[:buflen], self.held[buflen:]
        return part

    def sendall(self, data: Any, flags: int = 0) -> None:
        """At once, or later. Raises BrokenPipeError when too much is left for too long."""
        self._left = self._left + bytes(data)
        if self.flush() or len(self._left) <= LEFT_BYTES:
            return
        until = self.flushed_until()
        ready = select.poll()
        ready.register(self, select.POLLOUT)
        while not self.flush() and len(self._left) > LEFT_BYTES:
            left = until - time.monotonic()
            if left <= 0:
                raise BrokenPipeError(errno.EPIPE, "the answer is taken too slowly")
            ready.poll(left * 1000)

    def flush(self) -> bool:
        """Sends what the other side takes now; whether that was all. Raises OSError."""
        while self._left:
            try:
                sent = self.send(bytes(self._left[:_RECORD]))
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
            del self._left[:sent]
        return True

    def flushed_until(self) -> float:
        """When what is left has to have been taken, by the monotonic clock."""
        return time.monotonic() + WRITE_S + len(self._left) / SLOWEST_BYTES_PER_S

    def leave(self) -> None:
        """Nothing more is said. What still comes is not answered by a reset, which would take away what was said last."""
        with contextlib.suppress(OSError, ValueError):
            self.unwrap()
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_WR)

    def has_gone(self) -> bool:
        """After `leave`: whether the other side has ended too; what it still says is passed over."""
        try:
            return not socket.socket.recv(self, 1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            return True
