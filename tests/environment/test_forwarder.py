# SPDX-License-Identifier: Apache-2.0
"""The ports of a guest and of the demo, as clients on this machine see them."""

from __future__ import annotations

import gc
import socket
import sys

from support.programs import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "packaging/uml"))

import guest


def test_a_half_closed_connection_is_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        forwarder = guest.Forwarder([guest.Forward(port)], "127.0.0.1")
        forwarder.start()
        with socket.create_connection(("127.0.0.1", forwarder.ports[port]), timeout=60) as client:
            served, _ = server.accept()
            with served:
                served.settimeout(60)
                client.sendall(b"question")
                client.shutdown(socket.SHUT_WR)
                received = b""
                while more := served.recv(100):
                    received += more
                assert received == b"question"
                gc.collect()  # the event loop holds no reference to a task that waits only for the server
                served.sendall(b"answer")
            answer = b""
            while more := client.recv(100):
                answer += more
            assert answer == b"answer"
