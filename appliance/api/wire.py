# SPDX-License-Identifier: Apache-2.0
"""One request of the public API between the HTTP process and the worker, over the worker's Unix socket.

The HTTP process is not trusted: it says what arrived. The worker decides who sent it, what the sender may, and whether the
values are valid.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

METHOD = "request"
"""The method of the worker's socket that carries a HttpRequest."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The problem that the HTTP process found with a request."""

    status: int
    code: str = ""
    detail: str = ""


class HttpRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    operation: str
    """Name of the declaration: "datastores.create_datastore"."""
    target: str
    path: dict[str, str | int] = {}
    query: dict[str, str] = {}
    body: str | None = None
    address: str = ""
    """Address of the client, from nginx."""
    authorization: str | None = None
    cookie: str | None = None
    csrf: str | None = None
    if_match: str | None = None
    idempotency_key: str | None = None
    last_event_id: str | None = None
    refusal: Refusal | None = None
    """It is recorded and returned, nothing is carried out."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Head of the response. `length` bytes of content follow. Without a length a descriptor came along: read it to its end."""

    status: int
    headers: dict[str, str]
    length: int | None
    cookie: tuple[str, int | None] | None = None
    """New value of the session's cookie, and its age in seconds."""


@dataclass
class Stream:
    """Content without a defined end. `close` is called once, at every kind of end."""

    parts: Callable[[Callable[[], bool]], Iterator[bytes]]
    """Takes a function that returns whether the reader has disconnected."""
    close: Callable[[], None]


@dataclass
class Response:
    """A response other than JSON: text, a file, or a stream."""

    content: bytes | Path | Stream
    content_type: str
    download_name: str | None = None


def encoded(message: object) -> bytes:
    """A line of the socket, without its end."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:  # a lone surrogate, which only escapes can express
        return json.dumps(msgspec.to_builtins(message)).encode()
