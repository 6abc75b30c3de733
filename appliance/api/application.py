"""The application: all resources, errors, OpenAPI."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from apiflask import APIFlask
from flask import Response, request
from werkzeug.exceptions import HTTPException

from appliance import __version__
from appliance.api import appliance_resource, datastores, events, hosts, journal, pools, schedules, sessions, snapshots, users
from appliance.api.operation import DECLARATIONS, Services
from appliance.api.problems import MEDIA_TYPE, answer_of, problem, problem_of
from appliance.api.schemas.common import Problem

RESOURCES = (sessions, users, appliance_resource, pools, datastores, snapshots, schedules, hosts, journal, events)
LONGEST_BODY = 1 << 20
_log = logging.getLogger(__name__)


def create(services: Services) -> APIFlask:
    """A WSGI application."""
    application = APIFlask("zvaai", title="zvaai", version=__version__, spec_path="/api/v1/openapi.json", docs_path=None)
    application.config.update(
        OPENAPI_VERSION="3.1.0",
        AUTO_VALIDATION_ERROR_RESPONSE=False,
        AUTO_AUTH_ERROR_RESPONSE=False,
        AUTO_404_RESPONSE=False,
        AUTO_OPERATION_ID=True,
        MAX_CONTENT_LENGTH=LONGEST_BODY,
        VALIDATION_ERROR_STATUS_CODE=422,
    )
    application.extensions["zvaai"] = services
    application.json.sort_keys = False  # type: ignore[attr-defined]
    for resource in RESOURCES:
        application.register_blueprint(resource.resource.blueprint)

    @application.error_processor
    def _refused(error: Any) -> Response:
        return answer_of(problem_of(error), getattr(error, "headers", None))

    @application.errorhandler(Exception)
    def _failed(error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return answer_of(problem_of(error))
        _log.error("%s %s", request.method, request.path, exc_info=error)
        return answer_of(problem(500, "internal", "the service is at fault; see its log"))

    @application.spec_processor
    def _complete(spec: dict[str, Any] | str) -> dict[str, Any] | str:
        assert isinstance(spec, dict)
        return complete_spec(spec)

    @application.after_request
    def _secure(response: Response) -> Response:
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
        response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
        return response

    return application


def complete_spec(spec: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912  # a list
    """What APIFlask can't know: who may, which problems, headers and parameters of paths."""
    spec["components"].setdefault("schemas", {}).update(_problem_schemas())
    spec["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-zvaai"},
    }
    declarations = {(one.method.lower(), re.sub(r"<(?:int:)?(\w+)>", r"{\1}", one.path)): one for one in DECLARATIONS.values()}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            declared = declarations.get((method, path))
            if declared is None:
                continue
            refusals = {400: "not what HTTP or JSON should be", 503: "a part of the appliance does not answer"}
            if declared.role is not None:
                operation["security"] = [{"token": []}, {"session": []}]
                operation["x-role"] = declared.role.label
                refusals |= {401: "not logged in", 403: "not allowed"}
            elif declared.has_body:
                refusals |= {401: "what proves who asks is wrong"}
            if declared.has_body:
                refusals |= {
                    413: "the body is too large",
                    415: "the body is not application/json",
                    422: "a field is not what it should be",
                }
                operation["requestBody"]["required"] = True
            if declared.has_query:
                refusals |= {422: "a parameter is not what it should be"}
            if "{" in path or declared.method != "GET":
                refusals |= {404: "not there"}
            if declared.method != "GET":
                operation["x-audit"] = declared.audit
                refusals |= {
                    409: "something is in the way",
                    412: "it has changed meanwhile",
                    422: "a field is not what it should be",
                    429: "wait",
                }
                headers = [("Idempotency-Key", "the same request sent again with it gets the same answer")]
                if declared.method in ("PATCH", "PUT", "DELETE"):
                    headers.append(("If-Match", "the ETag it was read with"))
                for name, text in headers:
                    schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"}
                    operation.setdefault("parameters", []).append(
                        {"name": name, "in": "header", "required": False, "description": text, "schema": schema}
                    )
            for status, text in refusals.items():
                content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
                operation["responses"].setdefault(str(status), {"description": text, "content": content})
            if declared.method == "GET":
                operation["responses"].setdefault("304", {"description": "not changed"})
    return spec


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), "Problem": schema}


def openapi(application: APIFlask) -> str:
    """The description, as JSON."""
    with application.app_context():
        return json.dumps(application.spec, indent=1)
