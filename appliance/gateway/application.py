# SPDX-License-Identifier: Apache-2.0
"""The application: routes of all declarations, errors, OpenAPI."""

import json
import logging
import re
import uuid
from functools import wraps
from typing import Any

from apiflask import APIBlueprint, APIFlask
from flask import Response, request
from pydantic import BaseModel
from werkzeug.exceptions import HTTPException

from appliance import __version__, logs
from appliance.api.events import EVENT_STREAM
from appliance.api.operation import DECLARATIONS, Declaration, Resource
from appliance.api.problems import MEDIA_TYPE, problem
from appliance.api.resources import RESOURCES
from appliance.api.schemas.common import Problem
from appliance.gateway.forward import Worker, forward
from appliance.gateway.problems import http_problem_of, response_of

LONGEST_BODY = 1 << 20
_log = logging.getLogger(__name__)


def create(worker: Worker) -> APIFlask:
    application = APIFlask("zvaai", title="zvaai", version=__version__, spec_path="/api/v1/openapi.json", docs_path=None)
    application.config.update(
        OPENAPI_VERSION="3.1.0",
        AUTO_VALIDATION_ERROR_RESPONSE=False,
        AUTO_AUTH_ERROR_RESPONSE=False,
        AUTO_404_RESPONSE=False,
        AUTO_OPERATION_ID=True,
        # Otherwise the document would name the Host of the first request to all later readers.
        AUTO_SERVERS=False,
        MAX_CONTENT_LENGTH=LONGEST_BODY,
        VALIDATION_ERROR_STATUS_CODE=422,
    )
    application.extensions["zvaai"] = worker
    application.json.sort_keys = False  # type: ignore[attr-defined]
    for resource in RESOURCES:
        application.register_blueprint(_blueprint(resource.resource))

    @application.before_request
    def _identify() -> None:
        logs.of_request(request.headers.get("X-Request-Id") or uuid.uuid4().hex)
        if not logs.request():  # the received value is not an identifier
            logs.of_request(uuid.uuid4().hex)

    @application.error_processor
    def _refused(error: Any) -> Response:
        return response_of(http_problem_of(error), getattr(error, "headers", None))

    @application.errorhandler(Exception)
    def _failed(error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return response_of(http_problem_of(error))
        _log.error("%s %s", request.method, request.path, exc_info=error)
        return response_of(problem(500, "internal", "the service is at fault; see its log"))

    @application.spec_processor
    def _complete(spec: dict[str, Any] | str) -> dict[str, Any] | str:
        assert isinstance(spec, dict)
        return complete_spec(spec)

    @application.after_request
    def _secure(response: Response) -> Response:
        if request.method != "GET" or response.status_code >= 500:
            _log.info("%s %s: %d", request.method, request.path, response.status_code)
        response.headers["X-Request-Id"] = logs.request()
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
        return response

    return application


def _blueprint(resource: Resource) -> APIBlueprint:
    blueprint = APIBlueprint(resource.name, __name__, url_prefix="/api/v1")
    for declared in resource.declarations:
        _route(blueprint, declared)
    return blueprint


def _route(blueprint: APIBlueprint, declared: Declaration) -> None:
    def local() -> Response:
        model = declared.view(None)
        assert isinstance(model, BaseModel)
        return Response(model.model_dump_json(), content_type="application/json")

    def described() -> None:
        """Carries what APIFlask writes into the document. It never runs: the worker checks body and query."""

    described.__name__, described.__doc__ = declared.view.__name__, declared.view.__doc__
    documented: Any = blueprint.output(declared.answer, status_code=declared.status)(described)
    if declared.body is not None:
        documented = blueprint.input(declared.body, location="json", arg_name="body")(documented)
    if declared.query is not None:
        documented = blueprint.input(declared.query, location="query", arg_name="query")(documented)
    whole: Any = wraps(documented)(local if declared.local else lambda **arguments: forward(declared, arguments))
    route: Any = blueprint.route(declared.path.removeprefix("/api/v1"), methods=[declared.method])
    route(whole)


def complete_spec(spec: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912  # a list
    """Adds information that APIFlask lacks: roles, problems, headers and parameters of paths."""
    spec["components"].setdefault("schemas", {}).update(_problem_schemas())
    spec["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-zvaai"},
    }
    declarations = {
        (declared.method.lower(), re.sub(r"<(?:int:)?(\w+)>", r"{\1}", declared.path)): declared
        for declared in DECLARATIONS.values()
    }
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
            elif declared.body is not None:
                refusals |= {401: "the credentials are wrong"}
            if declared.body is not None:
                refusals |= {
                    413: "the body is too large",
                    415: "the body is not application/json",
                    422: "a field is invalid",
                }
                operation["requestBody"]["required"] = True
            if declared.query is not None:
                refusals |= {422: "a parameter is invalid"}
            if declared.conflicts:
                refusals |= {409: "something is in the way"}
            if "{" in path or declared.method != "GET":
                refusals |= {404: "not there"}
            if declared.method != "GET":
                operation["x-audit"] = declared.audit
                refusals |= {412: "it has changed meanwhile", 422: "a field is invalid", 429: "wait"}
            headers = []
            if declared.method != "GET" and declared.role is not None:  # keys belong to users
                again = "for 24 h the same request with it gets the answer of the first, unless that was refused"
                headers.append(("Idempotency-Key", again))
            if declared.matches:
                headers.append(("If-Match", "the ETag it was read with"))
            if declared.media == EVENT_STREAM:
                headers.append(("Last-Event-ID", "the events after this one"))
                refusals |= {429: "too many streams are open"}
            for name, text in headers:
                schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"}
                operation.setdefault("parameters", []).append(
                    {"name": name, "in": "header", "required": False, "description": text, "schema": schema}
                )
            for status, text in refusals.items():
                content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
                operation["responses"].setdefault(str(status), {"description": text, "content": content})
            answered = operation["responses"][str(declared.status)]
            if declared.media is not None:
                answered["content"] = {declared.media: {"schema": {"type": "string"}}}
            elif declared.status == 202:
                answered["headers"] = {"Location": {"description": "the job", "schema": {"type": "string"}}}
            elif declared.method == "GET" and not declared.local:
                answered["headers"] = {"ETag": {"description": "version of the answer", "schema": {"type": "string"}}}
                operation["responses"].setdefault("304", {"description": "not changed"})
    _link(spec["paths"])
    return spec


def _link(paths: dict[str, Any]) -> None:
    """Links operations that create or list an object to the operations on it."""
    for path, methods in paths.items():
        match = re.fullmatch(r"(.*)/\{(\w+)\}((/\w+)*)", path)
        collection = paths.get(match[1]) if match else None
        if match is None or collection is None:
            continue
        field = "id" if match[2].endswith("_id") else "name"
        for method, status, place in (("post", "201", field), ("get", "200", f"items/0/{field}")):
            for operation in methods.values():
                if status in collection.get(method, {}).get("responses", {}) and "operationId" in operation:
                    parameters = {match[2]: f"$response.body#/{place}"}
                    link = {"operationId": operation["operationId"], "parameters": parameters}
                    collection[method]["responses"][status].setdefault("links", {})[operation["operationId"]] = link


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), "Problem": schema}


def openapi(application: APIFlask) -> str:
    with application.app_context():
        return json.dumps(application.spec, indent=1)
