# SPDX-License-Identifier: Apache-2.0
"""Every operation of the API: declared, audited, role-checked, described."""

import json
import re
from typing import cast

import pytest
from simulators.appliance import Appliance

from appliance.api.operation import DECLARATIONS, SECRET_FIELDS
from appliance.api.problems import Problem
from appliance.database.models import AuditEntry
from appliance.domain.access import Role
from appliance.gateway.application import create, openapi
from appliance.gateway.forward import Worker

MUTATING = {"POST", "PUT", "PATCH", "DELETE"}
OPEN = {
    *("sessions.read_setup", "sessions.set_up", "sessions.reset_administrator", "sessions.log_in"),
    *("sessions.read_logins", "sessions.begin_oidc", "sessions.complete_oidc"),
    *("appliance.read_liveness", "appliance.read_health"),
}
NOT_DECLARED = {"openapi.spec", "console.read_file"}
ROLES = [role.label for role in Role]


def path_of(declared_path: str) -> str:
    """With a missing object at each position."""
    return re.sub(r"<int:\w+>", "99999", re.sub(r"<(?!int:)\w+>", "absent", declared_path)).removeprefix("/api/v1")


def test_every_route_is_declared(shared: Appliance) -> None:
    rules = {rule.endpoint: rule for rule in shared.application.url_map.iter_rules() if rule.endpoint != "static"}
    assert set(rules) - NOT_DECLARED == set(DECLARATIONS)
    for endpoint, declared in DECLARATIONS.items():
        assert (rules[endpoint].methods or set()) & (MUTATING | {"GET"}) == {declared.method}, endpoint
        assert (declared.audit is not None) == (declared.method in MUTATING), endpoint
        assert declared.role is not None or endpoint in OPEN, endpoint
        assert (
            declared.method == "GET"
            or declared.role is None
            or declared.role > Role.VIEWER
            or endpoint.startswith(("sessions.", "users."))
        )


@pytest.mark.parametrize("endpoint", sorted(DECLARATIONS))
def test_permissions(endpoint: str, shared: Appliance) -> None:
    declared = DECLARATIONS[endpoint]
    path = path_of(declared.path)
    body: dict[str, str] | None = {} if declared.body is not None else None
    if declared.role is None:
        return
    assert shared.request(declared.method, path, body, role="").status_code == 401
    for role in ROLES:
        if Role.of(role) < declared.role:
            assert shared.request(declared.method, path, body, role=role).status_code == 403


@pytest.mark.parametrize("endpoint", sorted(name for name, declaration in DECLARATIONS.items() if declaration.audit))
def test_every_change_is_audited(endpoint: str, shared: Appliance) -> None:
    """Refused attempts too, with caller and status; of anonymous ones only logins."""
    declared = DECLARATIONS[endpoint]
    with shared.store.reading() as session:
        before = session.query(AuditEntry).count()
    answer = shared.request(
        declared.method, path_of(declared.path), {} if declared.body is not None else None, role="viewer" if declared.role else ""
    )
    with shared.store.reading() as session:
        entries = session.query(AuditEntry).order_by(AuditEntry.id).all()
    if declared.role is None and answer.status_code == 422:
        assert len(entries) == before
        return
    assert len(entries) == before + 1
    assert (entries[-1].action, entries[-1].status) == (declared.audit, answer.status_code)
    assert entries[-1].actor == ("viewer" if declared.role else "")


def test_fields_named_like_secrets_are_not_in_the_audit(shared: Appliance) -> None:
    schemas = shared.get("/openapi.json")["components"]["schemas"]
    bodies = {name: schema for name, schema in schemas.items() if not name.endswith("Response")}
    suspicious = {
        f"{schema}.{name}"
        for schema, body in bodies.items()
        for name, field in body.get("properties", {}).items()
        if re.search("password|secret|passphrase|token|code|key", name) and name not in SECRET_FIELDS and "string" in str(field)
    }
    assert suspicious == set()


def test_names_of_schemas_say_what_they_are_for(shared: Appliance) -> None:
    """Nested ones are named SCHEMA.NESTED. `Problem` is the word of RFC 9457."""
    names = {part for name in shared.get("/openapi.json")["components"]["schemas"] for part in name.split(".")}
    assert {name for name in names if not name.endswith(("Create", "Update", "Response"))} == {"Problem"}


def test_the_description_is_the_same_for_all(shared: Appliance) -> None:
    """The same as printed for the console's types: it names no server, which would be the Host of the first request."""
    document = shared.get("/openapi.json")
    assert "servers" not in document
    assert document == json.loads(openapi(create(cast(Worker, None))))


def test_the_description_is_whole(shared: Appliance) -> None:
    spec = shared.get("/openapi.json")
    assert spec["openapi"].startswith("3.1")
    assert spec["components"]["schemas"]["Problem"]["properties"].keys() == Problem.__annotations__.keys()
    text = json.dumps(spec)
    for reference in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert reference in spec["components"]["schemas"], reference
    described = {
        (method.upper(), path) for path, methods in spec["paths"].items() for method in methods if method != "parameters"
    }
    for declared in DECLARATIONS.values():
        path = re.sub(r"<(?:int:)?(\w+)>", r"{\1}", declared.path)
        assert (declared.method, path) in described
        operation = spec["paths"][path][declared.method.lower()]
        assert operation["summary"] and str(declared.status) in operation["responses"]
        if declared.role is not None:
            assert operation["x-role"] == declared.role.label
            assert {"401", "403"} <= set(operation["responses"])


def test_headers_and_media_are_described(shared: Appliance) -> None:
    paths = shared.get("/openapi.json")["paths"]

    def parameters(path: str, method: str) -> set[str]:
        return {parameter["name"] for parameter in paths[path][method].get("parameters", ())}

    stream = paths["/api/v1/events"]["get"]
    assert set(stream["responses"]["200"]["content"]) == {"text/event-stream"} and "429" in stream["responses"]
    assert "Last-Event-ID" in parameters("/api/v1/events", "get")
    for declared in DECLARATIONS.values():
        path, method = re.sub(r"<(?:int:)?(\w+)>", r"{\1}", declared.path), declared.method.lower()
        has_keys = method != "get" and declared.role is not None
        assert ("Idempotency-Key" in parameters(path, method)) == has_keys, declared.name
        headers = paths[path][method]["responses"][str(declared.status)].get("headers", {})
        assert ("Location" in headers) == (declared.status == 202), declared.name
    for path, tagged in (("/host-groups/{group_id}", True), ("/health/live", False), ("/metrics", False)):
        assert ("ETag" in paths[f"/api/v1{path}"]["get"]["responses"]["200"].get("headers", {})) == tagged
