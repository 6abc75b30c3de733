# SPDX-License-Identifier: Apache-2.0
"""Problems of HTTP itself, as Flask and APIFlask raise them."""

import json
from http import HTTPStatus
from typing import Any

from flask import Response
from werkzeug.exceptions import HTTPException

from appliance.api.problems import MEDIA_TYPE, Problem, headers_of, problem


def http_problem_of(error: Exception) -> Problem:
    if isinstance(error, HTTPException):
        return problem(error.code or 500, (error.name or "error").lower().replace(" ", "_"), error.description or error.name)
    status = int(getattr(error, "status_code", 500))
    message = str(getattr(error, "message", "") or HTTPStatus(status).phrase)
    return problem(status, HTTPStatus(status).phrase.lower().replace(" ", "_"), message)


def response_of(body: Problem, headers: Any = None) -> Response:
    response = Response(json.dumps(body), body["status"], headers_of(body), content_type=MEDIA_TYPE)
    for name, value in (headers or {}).items():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = value
    return response
