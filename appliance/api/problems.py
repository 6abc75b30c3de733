# SPDX-License-Identifier: Apache-2.0
"""Errors as problem+json (RFC 9457)."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError

from appliance.api.types import PATTERNS
from appliance.domain.errors import DomainError

MEDIA_TYPE = "application/problem+json"
_PATTERN = re.compile("String should match pattern '(.*)'")
_STATUS = {
    "not_found": 404,
    "invalid": 422,
    "conflict": 409,
    "unauthenticated": 401,
    "forbidden": 403,
    "too_many_requests": 429,
    "unavailable": 503,
    "internal": 500,
    "storage": 409,
    "precondition_failed": 412,
}


def problem(status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    """Its body."""
    return {
        "type": f"urn:zvaai:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": [],
        "blocking": [],
        "can_force": False,
        "retry_after": None,
        **more,
    }


def problem_of(error: DomainError) -> dict[str, Any]:
    """Of a refusal of the domain."""
    return problem(_STATUS.get(error.code, 409), error.code, str(error), **error.details())


def invalid(error: ValidationError) -> dict[str, Any]:
    """Of values that a schema refuses."""
    fields = [
        {"field": ".".join(map(str, one["loc"])) or "_schema", "reason": reason_of(one["msg"]), "allowed": ""}
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    text = "; ".join(f"{one['field']}: {one['reason']}" for one in fields[:5])
    return problem(422, "invalid", text, errors=fields)


def reason_of(message: str) -> str:
    """What a schema says of a value, for people: patterns are for programs."""
    pattern = _PATTERN.fullmatch(message)
    if pattern is None:
        return message.removeprefix("Value error, ")
    return PATTERNS.get(pattern[1], "it has characters that are not allowed here, or another form")


def headers_of(body: dict[str, Any]) -> dict[str, str]:
    """That go with the body."""
    found = {"Content-Type": MEDIA_TYPE}
    if body["status"] == 401:
        found["WWW-Authenticate"] = "Bearer"
    if body["retry_after"] is not None:
        found["Retry-After"] = str(body["retry_after"])
    return found
