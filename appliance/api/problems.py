# SPDX-License-Identifier: Apache-2.0
"""Errors as problem+json (RFC 9457)."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import NotRequired, TypedDict

from pydantic import ValidationError

from appliance.domain.errors import DomainError
from appliance.domain.fields import PATTERNS

FieldError = dict[str, str]
"""`field`, `reason`, and what is `allowed`."""
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


class Problem(TypedDict):
    """The body. `storage`: the code of OpenZFS, with its fields."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError]
    blocking: list[str]
    can_force: bool
    retry_after: int | None
    storage: NotRequired[dict[str, object]]


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[FieldError] = (),
    blocking: Sequence[str] = (),
    can_force: bool = False,
    retry_after: int | None = None,
    storage: dict[str, object] | None = None,
) -> Problem:
    body = Problem(
        type=f"urn:zvaai:problem:{code}", title=HTTPStatus(status).phrase, status=status, detail=detail, code=code,
        errors=list(errors), blocking=list(blocking), can_force=can_force, retry_after=retry_after,
    )  # fmt: skip
    if storage is not None:
        body["storage"] = storage
    return body


def problem_of(error: DomainError) -> Problem:
    return problem(_STATUS.get(error.code, 409), error.code, str(error), **error.details())


def invalid(error: ValidationError) -> Problem:
    fields: list[FieldError] = [
        {
            "field": ".".join(map(str, problem_of_field["loc"])) or "_schema",
            "reason": reason_of(problem_of_field["msg"]),
            "allowed": "",
        }
        for problem_of_field in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    text = "; ".join(f"{field['field']}: {field['reason']}" for field in fields[:5])
    return problem(422, "invalid", text, errors=fields)


def reason_of(message: str) -> str:
    """Explains a value's schema for users: patterns are for programs."""
    pattern = _PATTERN.fullmatch(message)
    if pattern is None:
        return message.removeprefix("Value error, ")
    return PATTERNS.get(pattern[1], "it has characters that are not allowed here, or another form")


def headers_of(body: Problem) -> dict[str, str]:
    headers = {"Content-Type": MEDIA_TYPE}
    if body["status"] == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if body["retry_after"] is not None:
        headers["Retry-After"] = str(body["retry_after"])
    return headers
