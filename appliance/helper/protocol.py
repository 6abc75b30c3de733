# SPDX-License-Identifier: Apache-2.0
"""Messages between helper and client over a Unix stream socket: a length of four bytes, big-endian, then that much JSON.

    request   {"operation": NAME, "arguments": {...}, "request": IDENTIFIER}
    answer    {"result": ...}   or   {"error": CODE, "details": {...}}

A connection has one request. Bytes are base64, sizes and GUIDs numbers of up to 64 bits.
"""

import socket
from typing import Any

import msgspec

from appliance import decoding
from appliance.dataplane.ganesha import (
    ExportRefusedError,
    GaneshaAnswerError,
    GaneshaDeniedError,
    GaneshaError,
    GaneshaUnreachableError,
    NoSuchExportError,
)
from appliance.zfs.errors import Refused, UnexpectedFailure, ZfsError, error_classes

MAX_REQUEST_BYTES = 4 << 20
"""Enough for 10,000 snapshot names."""
MAX_ANSWER_BYTES = 512 << 20
_LENGTH_BYTES = 4
_ERRORS = error_classes()
_OF_GANESHA: dict[str, type[GaneshaError]] = {
    "ganesha_unreachable": GaneshaUnreachableError,
    "ganesha_denied": GaneshaDeniedError,
    "ganesha_answer": GaneshaAnswerError,
    "export_refused": ExportRefusedError,
    "no_such_export": NoSuchExportError,
}


class Closed(Exception):
    """The peer closed the connection, between messages or within one."""


class Request(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    operation: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    request: str = ""
    """Identifier of the API request, for the audit."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None
    details: dict[str, Any] = {}


def read_message(connection: socket.socket, limit: int) -> bytes:
    """The next message. Raises Closed, OSError, and Refused if it is longer than `limit`."""
    length = int.from_bytes(_read(connection, _LENGTH_BYTES), "big")
    if length > limit:
        raise Refused(f"a message of {length} bytes: {limit} at most")
    return _read(connection, length)


def _read(connection: socket.socket, count: int) -> bytes:
    parts, left = [], count
    while left:
        part = connection.recv(min(left, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def write_message(connection: socket.socket, message: bytes) -> None:
    """Sends a message. Raises OSError."""
    connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)


def decode_request(message: bytes) -> Request:
    """Raises Refused for an invalid request."""
    try:
        return decoding.decode(message, Request)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise Refused(f"no request: {problem}"[:300]) from None


def code_of(error: ZfsError | GaneshaError) -> str:
    if isinstance(error, ZfsError):
        return error.code
    return next((code for code, kind in _OF_GANESHA.items() if type(error) is kind), "ganesha")


def encode_error(error: ZfsError | GaneshaError) -> bytes:
    if isinstance(error, GaneshaError):
        return msgspec.json.encode(Answer(error=code_of(error), details={"text": str(error)[:2000]}))
    return msgspec.json.encode(Answer(error=error.code, details=error.details()))


def encode_result(result: Any) -> bytes:
    return msgspec.json.encode(Answer(result=msgspec.Raw(msgspec.json.encode(result))))


def decode_error(answer: Answer) -> ZfsError | GaneshaError:
    """The error by its class; UnexpectedFailure for an unknown class."""
    if of_ganesha := _OF_GANESHA.get(answer.error or ""):
        return of_ganesha(str(answer.details.get("text", "")))
    kind = _ERRORS.get(answer.error or "")
    if kind is None:
        return UnexpectedFailure("helper", f"{answer.error}: {answer.details}"[:2000])
    try:
        return decoding.convert(answer.details, kind)
    except msgspec.ValidationError as problem:
        return UnexpectedFailure("helper", f"{answer.error}: {problem}")
