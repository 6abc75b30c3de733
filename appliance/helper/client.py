# SPDX-License-Identifier: Apache-2.0
"""HelperClient: a ZfsEngine through the root helper's socket. Its methods are generated from the table of operations."""

import contextlib
import functools
import inspect
import socket
from collections.abc import Callable
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


def _talk(connection: socket.socket, message: bytes) -> protocol.Answer:
    """The answer to a message. Raises Closed, OSError, MsgspecError."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the helper refuses a caller without reading its request
        protocol.write_message(connection, message)
    return decoding.decode(protocol.read_message(connection, protocol.MAX_ANSWER_BYTES), protocol.Answer)


class _Client:
    """One connection for each operation."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._seconds = path, seconds

    def _call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
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
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(self._seconds)
                connection.connect(str(self._path))
                return _talk(connection, message)
        except TimeoutError:
            raise Timeout(operation.name, self._seconds) from None
        except (OSError, protocol.Closed) as problem:
            raise EngineUnavailable(f"the helper at {self._path} does not answer: {problem or 'closed'}") from problem
        except msgspec.MsgspecError as problem:
            raise UnexpectedFailure(operation.name, f"the helper's answer: {problem}") from problem


class HelperClient(ZfsEngine, Keys, Exports, ConfigurationCopies, Folders, Power):
    """The engine through the helper's socket, made by `connect`. Thread-safe."""


def _method(operation: Operation) -> Callable[..., Any]:
    declared = getattr(HelperClient, operation.name)
    signature = inspect.signature(declared)

    @functools.wraps(declared)
    def method(self: _Client, *arguments: Any, **options: Any) -> Any:
        given = signature.bind(self, *arguments, **options).arguments
        return self._call(operation, {name: value for name, value in given.items() if name != "self"})

    method.__isabstractmethod__ = False  # type: ignore[attr-defined]
    return method


_METHODS = {name: _method(operation) for name, operation in OPERATIONS.items()}
_Generated: Any = type("_Generated", (_Client, HelperClient), _METHODS)


def connect(path: Path, *, seconds: float = SECONDS) -> HelperClient:
    client: HelperClient = _Generated(path, seconds)
    return client
