# SPDX-License-Identifier: Apache-2.0
"""An ONC RPC server over TCP with the answers of a test, including malformed ones."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from support.onc_rpc import Reader

Answer = Callable[[int, int], bytes | None]
"""Results by program and procedure. None: the connection breaks within them."""


def _call(connection: socket.socket) -> tuple[int, int, int] | None:
    """Transaction, program and procedure of the next call; None at the end of the connection."""
    with connection.makefile("rb", buffering=0) as stream:
        marker = stream.read(4)
        if not marker or len(marker) < 4:
            return None
        left, record = struct.unpack(">I", marker)[0] & 0x7FFFFFFF, b""
        while len(record) < left:
            part = stream.read(left - len(record))
            if not part:
                return None
            record += part
    call = Reader(record)
    transaction, kind, version = call.uint32(), call.uint32(), call.uint32()
    assert (kind, version) == (0, 2)
    program, _, procedure = call.uint32(), call.uint32(), call.uint32()
    return transaction, program, procedure


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[int]:
    """Port of the server."""

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while (call := _call(connection)) is not None:
                transaction, program, procedure = call
                results = answer(program, procedure)
                head = struct.pack(">6I", transaction, 1, 0, 0, 0, 0)
                body = head + (results or b"")
                claimed = len(body) + (1000 if results is None else 0)
                connection.sendall(struct.pack(">I", 0x80000000 | claimed) + body)
                if results is None:
                    return

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
