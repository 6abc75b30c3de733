# SPDX-License-Identifier: Apache-2.0
"""One request: checked as HTTP, passed to the worker, and its reply returned as HTTP."""

import contextlib
import logging
import os
from collections.abc import Iterator
from select import POLLIN, POLLRDHUP, poll
from typing import Any, Protocol

from flask import Response, current_app, request
from werkzeug.exceptions import BadRequest, HTTPException, UnsupportedMediaType

from appliance.api.operation import COOKIE, CSRF_HEADER, Declaration
from appliance.api.problems import problem
from appliance.api.types import entity_tag
from appliance.api.wire import HttpRequest, Refusal, Reply
from appliance.domain.errors import UnavailableError
from appliance.gateway.problems import http_problem_of, response_of

_PART = 1 << 16
_log = logging.getLogger(__name__)


class Worker(Protocol):
    def request(self, sent: HttpRequest) -> tuple[Reply, bytes | int]:
        """The reply, and its content or a file descriptor to read it from. Raises UnavailableError."""


def forward(declared: Declaration, path: dict[str, Any]) -> Response:
    """Only what HTTP itself demands is checked here; the worker checks the values."""
    body, refusal = None, None
    try:
        body = _body() if declared.body is not None else None
    except HTTPException as error:
        wrong = http_problem_of(error)
        refusal = Refusal(status=wrong["status"], code=wrong["code"], detail=wrong["detail"])
    sent = HttpRequest(
        operation=declared.name,
        target=request.full_path,
        path=path,
        query=request.args.to_dict(),
        body=body,
        address=request.remote_addr or "",
        authorization=request.headers.get("Authorization"),
        cookie=request.cookies.get(COOKIE),
        csrf=request.headers.get(CSRF_HEADER),
        if_match=request.headers.get("If-Match"),
        idempotency_key=request.headers.get("Idempotency-Key"),
        last_event_id=request.headers.get("Last-Event-ID"),
        refusal=refusal,
    )
    worker: Worker = current_app.extensions["zvaai"]
    try:
        reply, content = worker.request(sent)
    except UnavailableError as error:
        _log.warning("%s", error)
        return response_of(problem(503, "unavailable", "the worker does not answer", retry_after=2))  # no path and no address
    parts = content if isinstance(content, bytes) else _Parts(content, request.environ.get("gunicorn.socket"))
    response = Response(parts, reply.status, reply.headers)
    if isinstance(parts, _Parts):
        response.call_on_close(parts.close)
    if reply.cookie is not None:
        value, age = reply.cookie
        response.set_cookie(COOKIE, value, max_age=age, secure=True, httponly=True, samesite="Strict", path="/")
    return _versioned(declared, response)


def _body() -> str:
    if request.mimetype != "application/json":  # a form of another site cannot send it
        raise UnsupportedMediaType("the body has to be application/json")
    try:
        request.get_json()
        return request.get_data().decode()
    except RecursionError as error:
        raise BadRequest("the JSON is too deep") from error
    except UnicodeDecodeError as error:
        raise BadRequest("the JSON is not UTF-8 (RFC 8259, 8.1)") from error


def _versioned(declared: Declaration, response: Response) -> Response:
    """Adds the ETag (RFC 9110, 8.8.3); 304 if the client has this version."""
    if declared.method != "GET" or response.status_code != 200 or not response.is_json:
        return response
    # A list has no version for If-Match: it is not parsed for a tag. Its items have tags.
    content: Any = response.get_data(as_text=True) if declared.is_list else response.get_json()
    tag: str = ("" if declared.is_list else content.get("etag")) or entity_tag(content)
    response.headers["ETag"] = tag
    if not declared.measures and tag in [text.strip() for text in request.headers.get("If-None-Match", "").split(",")]:
        return Response(status=304, headers={"ETag": tag})
    return response


class _Parts:
    """Content from a file descriptor, which is closed once: at its end, or when the client has disconnected (POLLRDHUP of
    poll(2)).
    """

    def __init__(self, descriptor: int, client: Any) -> None:
        self._file = open(descriptor, "rb", buffering=0)  # noqa: PTH123, SIM115  # a descriptor, closed by close
        self._ready = poll()
        self._ready.register(descriptor, POLLIN)
        self._client = None
        if client is not None:  # a test has none
            self._client = client.fileno()
            self._ready.register(self._client, POLLRDHUP)

    def __iter__(self) -> Iterator[bytes]:
        while not self._file.closed:
            ready = [descriptor for descriptor, _ in self._ready.poll()]
            if self._client in ready:
                return
            part = os.read(self._file.fileno(), _PART)
            if not part:
                return
            yield part

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
