# SPDX-License-Identifier: Apache-2.0
"""Schemathesis sends what the API's description allows and forbids: no 5xx, no undocumented response."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from flask import Response, request
from simulators.appliance import running
from support.programs import CACHE
from werkzeug.serving import WSGIRequestHandler, make_server

from appliance.api import certificate
from appliance.api.operation import DECLARATIONS
from appliance.domain import secrets

PROGRAM = CACHE / "schemathesis/bin/schemathesis"
LEFT_OUT = {"/api/v1/events", "/api/v1/pools/<name>/export"}
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance"
)


class Quiet(WSGIRequestHandler):
    """Logs no requests."""

    def log(self, type: str, message: str, *args: object) -> None: ...


def test_answers_are_as_described(
    tmp_path: Path,
    seed: int,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
    report_line: Callable[[str], None],
) -> None:
    monkeypatch.setattr(secrets, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    long = pytestconfig.getoption("--long")
    amount = ["examples,coverage,fuzzing,stateful", "30"] if long else ["fuzzing,stateful", "2"]
    with running(tmp_path / "appliance") as appliance:
        certificate.ensure(appliance.configuration.http.certificate.parent)
        appliance.datastore("first", host_groups=[appliance.group("cluster", "iqn.1998-01.com.vmware:esx1")])
        answers: dict[str, set[int]] = {}

        def note(response: Response) -> Response:
            answers.setdefault(request.endpoint or "", set()).add(response.status_code)
            return response

        appliance.application.after_request_funcs.setdefault(None, []).append(note)
        server = make_server("127.0.0.1", 0, appliance.application, threaded=True, request_handler=Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # The stream of events does not end, and an exported pool would end the tests.
        left_out = [word for path in sorted(LEFT_OUT) for word in ("--exclude-path", path.replace("<", "{").replace(">", "}"))]
        command = [
            str(PROGRAM), "run", f"http://127.0.0.1:{server.server_port}/api/v1/openapi.json",
            "-H", f"Authorization: Bearer {appliance.tokens['admin']}", *left_out, "--checks", CHECKS, "--phases", amount[0],
            "--max-examples", amount[1], "--seed", str(seed), "--no-color", "--continue-on-failure",
            "--suppress-health-check", "all", "--request-timeout", "120",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1200)
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "cases:" in done.stdout
    tried = {endpoint for endpoint, declaration in DECLARATIONS.items() if declaration.path not in LEFT_OUT}
    assert tried <= answers.keys(), tried - answers.keys()
    # Links use objects that the tests created, so that operations on an identifier do more than answer 404.
    of_one = {endpoint for endpoint in tried if "<" in DECLARATIONS[endpoint].path}
    done_to_one = {endpoint for endpoint in of_one if any(status < 300 for status in answers[endpoint])}
    report_line(f"schemathesis: {len(tried)} operations, {len(done_to_one)} of {len(of_one)} with an identifier succeeded")
    assert len(done_to_one) >= len(of_one) // 4, of_one - done_to_one
