# SPDX-License-Identifier: Apache-2.0
"""Errors as problem+json (RFC 9457)."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from flask import Response
from werkzeug.exceptions import HTTPException

from appliance.domain.errors import DomainError

MEDIA_TYPE = "application/problem+json"
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


def problem_of(error: Exception) -> dict[str, Any]:
    """Of a refusal of the domain, of Flask or of APIFlask's validation."""
    if isinstance(error, DomainError):
        return problem(_STATUS.get(error.code, 409), error.code, str(error), **error.details())
    if isinstance(error, HTTPException):
        return problem(error.code or 500, (error.name or "error").lower().replace(" ", "_"), error.description or error.name)
    status = int(getattr(error, "status_code", 500))
    detail = getattr(error, "detail", {})
    fields = [
        {"field": name, "reason": str(reason).removeprefix("Value error, "), "allowed": ""}
        for location in (detail if isinstance(detail, dict) else {}).values()
        for name, reasons in location.items()
        for reason in reasons
    ]
    if fields:
        text = "; ".join(f"{one['field']}: {one['reason']}" for one in fields[:5])
        return problem(status, "invalid", text, errors=fields)
    message = str(getattr(error, "message", "") or HTTPStatus(status).phrase)
    return problem(status, HTTPStatus(status).phrase.lower().replace(" ", "_"), message)


def answer_of(body: dict[str, Any], headers: Any = None) -> Response:
    """As an answer."""
    response = Response(json.dumps(body), body["status"], content_type=MEDIA_TYPE)
    if body["status"] == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if body["retry_after"] is not None:
        response.headers["Retry-After"] = str(body["retry_after"])
    for name, value in (headers or {}).items():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response
