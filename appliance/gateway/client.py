# SPDX-License-Identifier: Apache-2.0
"""Client of the worker's socket (appliance/api/server.py)."""

import os
import socket
from pathlib import Path

import msgspec

from appliance import decoding, logs
from appliance.api.wire import METHOD, HttpRequest, Reply, encoded
from appliance.domain.errors import UnavailableError

_LONGEST_HEAD = 64 << 10


class WorkerClient:
    """The worker through its socket. Thread-safe: each call has a separate connection."""

    def __init__(self, path: Path, timeout_s: float = 60) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def request(self, sent: HttpRequest) -> tuple[Reply, bytes | int]:
        """An API request: the reply, and its content or a descriptor to read it from. Raises UnavailableError."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(self._timeout_s)
                connection.connect(str(self._path))
                connection.sendall(encoded({"method": METHOD, "params": sent, "request": logs.request()}) + b"\n")
                return _received(connection)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise UnavailableError(
                f"the worker does not answer: {error}. On the server: systemctl status zvaai-worker"
            ) from error


def _received(connection: socket.socket) -> tuple[Reply, bytes | int]:
    data, descriptors, _, _ = socket.recv_fds(connection, _LONGEST_HEAD, 1)
    try:
        while b"\n" not in data:
            part = connection.recv(_LONGEST_HEAD)
            if not part or len(data) > _LONGEST_HEAD:
                raise ValueError("the reply has no end")
            data += part
        head, _, content = data.partition(b"\n")
        reply = decoding.decode(head, Reply)
        if reply.length is None:
            return reply, descriptors.pop()
        parts, length = [content], len(content)
        while length < reply.length:
            part = connection.recv(min(1 << 20, reply.length - length))
            if not part:
                raise ValueError("the reply is cut off")
            parts.append(part)
            length += len(part)
        return reply, b"".join(parts)
    except IndexError as error:
        raise ValueError("the reply has no descriptor") from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
