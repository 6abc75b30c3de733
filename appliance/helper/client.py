# SPDX-License-Identifier: Apache-2.0
"""HelperClient: a ZfsEngine through the root helper's socket. Its methods are generated from the table of operations."""

import contextlib
import functools
import inspect
import socket
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from appliance import decoding, logs
from appliance.helper import protocol
from appliance.helper.exports import Exports
from appliance.helper.operations import OPERATIONS, Operation
from appliance.helper.power import Power
from appliance.zfs.configuration_copies import ConfigurationCopies
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import EngineUnavailable, Refused, Timeout, UnexpectedFailure
from appliance.zfs.folders import Folders
from appliance.zfs.keys import Keys

SECONDS = 330.0
"""Longer than the engine's time limits, so that the helper's answer comes first."""
MAX_IDLE = 8


def _talk(connection: socket.socket, message: bytes) -> protocol.Answer:
    """The answer to a message. Raises Closed, OSError, MsgspecError."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the helper refuses a caller without reading its request
        protocol.write_message(connection, message)
    return decoding.decode(protocol.read_message(connection, protocol.MAX_ANSWER_BYTES), protocol.Answer)


class _Connections:
    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

    def call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Result of an operation. Raises the helper's error, EngineUnavailable, Timeout, Refused."""
        message = msgspec.json.encode({"operation": operation.name, "arguments": arguments, "request": logs.request()})
        if len(message) > protocol.MAX_REQUEST_BYTES:
            raise Refused(f"a request of {len(message)} bytes: {protocol.MAX_REQUEST_BYTES} at most")
        answer = self._exchange(operation, message)
        if answer.error is not None:
            raise protocol.decode_error(answer)
        try:
            return decoding.decode(answer.result, operation.result)
        except msgspec.MsgspecError as problem:
            raise UnexpectedFailure(operation.name, f"the helper's answer: {problem}") from problem

    def _exchange(self, operation: Operation, message: bytes) -> protocol.Answer:
        try:
            with self._connection(fresh=operation.changes) as connection:
                return _talk(connection, message)
        except TimeoutError:
            raise Timeout(operation.name, self._seconds) from None
        except (OSError, protocol.Closed) as problem:
            if not operation.changes and isinstance(problem, protocol.Closed | ConnectionError):
                return self._retry(operation, message)
            raise EngineUnavailable(f"the helper at {self._path} does not answer: {problem or 'closed'}") from problem
        except msgspec.MsgspecError as problem:
            raise UnexpectedFailure(operation.name, f"the helper's answer: {problem}") from problem

    def _retry(self, operation: Operation, message: bytes) -> protocol.Answer:
        """Repeats a read on a new connection: the old one may belong to a helper that was restarted."""
        try:
            with self._connection(fresh=True) as connection:
                return _talk(connection, message)
        except (OSError, protocol.Closed, msgspec.MsgspecError) as problem:
            raise EngineUnavailable(f"the helper at {self._path} does not answer: {problem or 'closed'}") from problem

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._seconds)
            connection.connect(str(self._path))
        except BaseException:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def _connection(self, *, fresh: bool) -> Iterator[socket.socket]:
        """Returns the connection to the pool after success, otherwise closes it. A change uses a new connection: if an old one
        had been closed, it would be unknown whether the change has begun.
        """
        with self._lock:
            connection = self._idle.pop() if self._idle and not fresh else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


class HelperClient(ZfsEngine, Keys, Exports, ConfigurationCopies, Folders, Power):
    """The engine through the helper's socket, made by `connect`. Thread-safe."""

    @abstractmethod
    def close(self) -> None:
        """Closes its connections."""


def _method(operation: Operation) -> Callable[..., Any]:
    declared = getattr(HelperClient, operation.name)
    signature = inspect.signature(declared)

    @functools.wraps(declared)
    def method(self: _Client, *arguments: Any, **options: Any) -> Any:
        given = signature.bind(self, *arguments, **options).arguments
        return self._connections.call(operation, {name: value for name, value in given.items() if name != "self"})

    method.__isabstractmethod__ = False  # type: ignore[attr-defined]
    return method


class _Client:
    def __init__(self, path: Path, seconds: float) -> None:
        self._connections = _Connections(path, seconds)

    def close(self) -> None:
        self._connections.close()


_METHODS = {name: _method(operation) for name, operation in OPERATIONS.items()}
_Generated: Any = type("_Generated", (_Client, HelperClient), _METHODS)


def connect(path: Path, *, seconds: float = SECONDS) -> HelperClient:
    client: HelperClient = _Generated(path, seconds)
    return client
