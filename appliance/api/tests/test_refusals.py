# SPDX-License-Identifier: Apache-2.0
"""A refusal names the error or the obstacle, and changes nothing: compares the whole state before and after.

Wrong values follow from the API's description: each field of each body and query, by its type and limits.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from simulators.appliance import GIB, PASSWORD, Appliance
from simulators.target import TargetSimulator
from sqlalchemy import text

from appliance.api.operation import DECLARATIONS
from appliance.dataplane.target import LoggedIn

NOTED = {"audit", "login_failures"}
"""Tables that have refused attempts in them."""
Way = tuple[str, ...]
ABSENT = object()


def state(appliance: Appliance) -> dict[str, Any]:
    """Database, storage, target."""
    with appliance.store.reading() as session:
        names = session.scalars(text("SELECT name FROM sqlite_master WHERE type = 'table'")).all()
        chosen = sorted(set(names) - NOTED)
        tables = {name: [tuple(row) for row in session.execute(text(f"SELECT * FROM {name}"))] for name in chosen}
    tables["tokens"] = [row[:-1] for row in tables["tokens"]]  # when it was used last
    simulator = msgspec.json.encode(appliance.simulator.machine)
    return {
        **tables,
        "storage": simulator,
        "target": [appliance.target.targets(), appliance.target.host_groups(), appliance.target.portals()],
    }


@pytest.fixture(scope="module")
def world(shared: Appliance) -> dict[str, str]:
    """Something of each kind, by the name of its parameter of a path."""
    group = shared.group("cluster", "iqn.1998-01.com.vmware:esx1")
    store = shared.datastore("first", host_groups=[group])
    shared.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    body = {"name": "often", "datastores": [store], "every_minutes": 5, "keep": 1, "enabled": False}
    schedule = shared.request("POST", "/schedules", body).json
    token = shared.request("POST", "/tokens", {"name": "t", "scope": "viewer", "days": 1}).json
    user = next(user["id"] for user in shared.get("/users")["items"] if user["name"] == "viewer")
    hook = shared.request("POST", "/receivers", {"name": "pager", "url": "https://192.0.2.1/", "enabled": False}).json
    assert schedule is not None and token is not None and hook is not None
    return {
        "datastore_id": store, "group_id": group, "host_id": shared.get("/hosts")["items"][0]["id"], "user_id": user,
        "schedule_id": schedule["id"], "token_id": token["id"], "job_id": shared.get("/jobs")["items"][0]["id"], "alert_id": "1",
        "receiver_id": hook["id"], "portal": "0.0.0.0:3260",
    }  # fmt: skip


def filled(path: str, world: dict[str, str]) -> str:
    """A declared path, filled with existing objects."""
    name = "one" if "snapshots" in path else "tank"
    return re.sub(r"<(?:int:)?(\w+)>", lambda match: world.get(match[1], name), path).removeprefix("/api/v1")


class Description:
    """The API's own."""

    def __init__(self, appliance: Appliance) -> None:
        self.whole = appliance.get("/openapi.json")

    def plain(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Without references."""
        while "$ref" in schema:
            schema = self.whole["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def operation(self, endpoint: str) -> dict[str, Any]:
        """Operation of a declaration in the description."""
        declared = DECLARATIONS[endpoint]
        path = re.sub(r"<(?:int:)?(\w+)>", r"{\1}", declared.path)
        return dict(self.whole["paths"][path][declared.method.lower()])

    def body(self, endpoint: str) -> dict[str, Any]:
        """Body schema of an endpoint."""
        return self.plain(self.operation(endpoint)["requestBody"]["content"]["application/json"]["schema"])

    def right(self, schema: dict[str, Any]) -> Any:  # noqa: PLR0911  # a table
        """Some right value."""
        schema = self.plain(schema)
        if "anyOf" in schema:
            return self.right(next(kind for kind in schema["anyOf"] if kind.get("type") != "null"))
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        match schema.get("type"):
            case "object":
                return {name: self.right(setting) for name, setting in schema["properties"].items()}
            case "array":
                return [self.right(schema["items"])] if schema.get("minItems") else []
            case "integer":
                return schema.get("minimum", 1)
            case "boolean":
                return False
        return "1073741824" if "[0-9]{1" in schema.get("pattern", "") else "a" * max(1, schema.get("minLength", 1))

    def wrong(self, schema: dict[str, Any], way: Way = ()) -> Iterator[tuple[Way, Any, str]]:  # noqa: PLR0912  # a list
        """Where, what, and a word that the answer has to have in it."""
        schema = self.plain(schema)
        if "anyOf" in schema:
            kinds = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
            if len(kinds) == 1:
                yield from (case for case in self.wrong(kinds[0], way) if case[1] is not None or case[0] != way)
            return
        kind = schema.get("type")
        others = {"object": 5, "array": 5, "integer": "five", "boolean": "perhaps", "string": 5}
        if kind in others:
            yield way, others[kind], ""
            yield way, None, ""
            yield way, {"a": [1]} if kind != "object" else [1], ""
        if "enum" in schema:
            yield way, "no-such-thing", str(schema["enum"][0])
        if kind == "object" and way == () or "properties" in schema:
            for name, setting in schema.get("properties", {}).items():
                yield from self.wrong(setting, (*way, name))
                if name in schema.get("required", ()):
                    yield (*way, name), ABSENT, ""
            yield (*way, "no_such_field"), 1, ""
        if kind == "array":
            for place, value, word in self.wrong(schema["items"], way):
                yield place, [value] if place == way else value, word
            if "maxItems" in schema:
                yield way, [self.right(schema["items"])] * (schema["maxItems"] + 1), str(schema["maxItems"])
            if schema.get("minItems"):
                yield way, [], str(schema["minItems"])
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound in schema:
                yield way, schema[bound] + step, str(schema[bound])
        if "maxLength" in schema:
            yield way, "a" * (schema["maxLength"] + 1), str(schema["maxLength"])
        if schema.get("minLength"):
            yield way, "", str(schema["minLength"]) if "pattern" not in schema else ""
        if "pattern" in schema:
            yield way, "\x00 not\n", ""
            yield way, "\ud800", ""


def put(value: Any, way: Way, what: Any) -> Any:
    """A copy of the value, with another value at one position."""
    if not way:
        return what
    if isinstance(value, list):
        return [put(value[0] if value else {}, way, what)]
    rest = {name: entry for name, entry in value.items() if name != way[0]}
    inner = value.get(way[0]) if len(way) > 1 else None
    if what is ABSENT and len(way) == 1:
        return rest
    return {**rest, way[0]: put(inner if inner is not None else {}, way[1:], what)}


@pytest.mark.parametrize("endpoint", sorted(name for name, declaration in DECLARATIONS.items() if declaration.body is not None))
def test_a_wrong_field_is_named_and_nothing_changes(endpoint: str, shared: Appliance, world: dict[str, str]) -> None:
    declared, description = DECLARATIONS[endpoint], Description(shared)
    schema, path = description.body(endpoint), filled(DECLARATIONS[endpoint].path, world)
    right, before, tried = description.right(schema), state(shared), 0
    for way, value, word in description.wrong(schema):
        if not way:
            continue
        answer = shared.request(declared.method, path, put(right, way, value))
        case = f"{declared.method} {path} {'.'.join(way)}={value!r}: {answer.status_code} {answer.text}"
        assert answer.status_code == 422, case
        errors = json.loads(answer.text)["errors"]
        named = [error for error in errors if re.sub(r"\.\d+", "", error["field"]).split(".")[: len(way)] == list(way)]
        assert named and all(error["reason"] for error in named), case
        assert word in str(named), case
        tried += 1
    assert tried or not schema.get("properties")
    assert state(shared) == before


@pytest.mark.parametrize("endpoint", sorted(name for name, declaration in DECLARATIONS.items() if declaration.query is not None))
def test_a_wrong_parameter_is_named_and_nothing_changes(endpoint: str, shared: Appliance, world: dict[str, str]) -> None:
    declared, description = DECLARATIONS[endpoint], Description(shared)
    path, before = filled(declared.path, world), state(shared)
    for parameter in description.operation(endpoint)["parameters"]:
        if parameter["in"] != "query":
            continue
        kinds = parameter["schema"].get("anyOf", [parameter["schema"]])
        for value in ("no-such-thing\x00", "-1", "9" * 30):
            if any("pattern" in kind and re.search(kind["pattern"], value) for kind in kinds):
                continue  # a name like any other
            answer = shared.request(declared.method, f"{path}?{parameter['name']}={urllib.parse.quote(value)}")
            assert answer.status_code == 422 and answer.json is not None, (endpoint, parameter["name"], value, answer.text)
            assert {error["field"] for error in answer.json["errors"]} == {parameter["name"]}
    assert shared.request(declared.method, f"{path}?no_such=1").status_code == 422
    assert state(shared) == before


def test_a_conflict_lists_the_obstacles_and_changes_nothing(appliance: Appliance) -> None:
    """Every rule that two things break together."""
    assert isinstance(appliance.target, TargetSimulator)
    iqn, other_iqn = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"
    group, other = appliance.group("cluster", iqn), appliance.group("other", other_iqn)
    host = appliance.get("/hosts")["items"][0]["id"]
    used = appliance.datastore("used", host_groups=[group])
    source, gone = appliance.datastore("source"), appliance.datastore("gone")
    for tag in ("old", "new"):
        appliance.job("POST", "/snapshots", {"name": tag, "datastores": [source]})
    appliance.job("POST", "/snapshots", {"name": "cloned", "datastores": [used]})
    appliance.job("POST", f"/datastores/{used}/clone", {"name": "clone", "snapshot": "cloned"})
    appliance.job("POST", f"/datastores/{gone}/clone", {"name": "of-gone"})
    appliance.job("DELETE", f"/datastores/{gone}")
    volume = next(volume["dataset"] for volume in appliance.get("/volumes")["items"] if volume["datastore"] == source)
    schedule = {"name": "often", "datastores": [source], "every_minutes": 5, "keep": 1, "enabled": False}
    assert appliance.request("POST", "/schedules", schedule).status_code == 201
    appliance.target.logged_in.append(LoggedIn(iqn, appliance.target_name, "192.0.2.1:1", "127.0.0.1:3260", 1, None))
    lun = appliance.get(f"/datastores/{used}")["lun"]
    admin = next(user["id"] for user in appliance.get("/users")["items"] if user["name"] == "admin")
    store = {"pool": "tank", "size": str(GIB)}
    appliance.service.periodic.hosts()  # the worker notes the host that is logged in
    before = state(appliance)
    for method, path, body, in_the_way in (
        ("POST", "/datastores", {**store, "name": "used"}, "used"),
        ("POST", "/datastores", {**store, "name": "USED"}, "used"),
        ("POST", "/datastores", {**store, "name": "new", "lun": lun}, used),
        ("POST", "/datastores", {**store, "name": "new", "size": str(60 << 40), "thick": True}, "tank"),
        ("PATCH", f"/datastores/{source}", {"name": "used"}, "used"),
        ("PATCH", f"/datastores/{source}", {"lun": lun}, used),
        ("PATCH", f"/datastores/{used}", {"lun": 900}, iqn),
        ("PATCH", f"/datastores/{used}", {"host_groups": []}, iqn),
        ("DELETE", f"/datastores/{used}", None, iqn),
        ("POST", f"/datastores/{gone}/purge", None, "gone"),
        ("POST", f"/datastores/{source}/purge", None, "source"),
        ("POST", f"/datastores/{source}/restore", {}, "source"),
        ("POST", f"/datastores/{source}/forget", None, "source"),
        ("POST", f"/datastores/{gone}/grow", {"size": str(2 * GIB)}, "gone"),
        ("POST", f"/datastores/{source}/clone", {"name": "clone"}, "clone"),
        ("POST", "/volumes/adopt", {"dataset": volume, "name": "adopted"}, "source"),
        ("POST", "/snapshots", {"name": "old", "datastores": [source]}, "@old"),
        ("POST", f"/datastores/{used}/snapshots/delete", {"names": ["cloned"]}, "clone"),
        ("POST", f"/datastores/{source}/snapshots/old/rollback", {}, "['new']"),
        ("POST", f"/datastores/{used}/snapshots/cloned/rollback", {}, iqn),
        ("POST", "/host-groups", {"name": "cluster"}, "cluster"),
        ("PATCH", f"/host-groups/{other}", {"name": "cluster"}, "cluster"),
        ("DELETE", f"/host-groups/{group}", None, "host of cluster"),
        ("POST", "/hosts", {"name": "host of cluster", "iqns": []}, "host of cluster"),
        ("POST", "/hosts", {"name": "third", "iqns": [iqn]}, "host of cluster"),
        ("PATCH", f"/hosts/{host}", {"group": other}, iqn),
        ("PATCH", f"/hosts/{host}", {"iqns": []}, iqn),
        ("DELETE", f"/hosts/{host}", None, iqn),
        ("POST", "/schedules", schedule, "often"),
        ("POST", "/users", {"name": "admin", "role": "viewer", "password": PASSWORD}, "admin"),
        ("PATCH", f"/users/{admin}", {"role": "viewer"}, ""),
        ("DELETE", f"/users/{admin}", None, ""),
        ("POST", "/pools/tank/export", {}, iqn),
        ("POST", "/pools", {"name": "tank", "vdevs": [{"devices": ["/dev/disk/by-id/ata-simulated-5"]}]}, "tank"),
        ("POST", "/pools", {"name": "more", "vdevs": [{"devices": ["/dev/disk/by-id/ata-simulated-0"]}]}, ""),
        ("POST", f"/jobs/{appliance.get('/jobs')['items'][0]['id']}/cancel", None, ""),
    ):
        answer = appliance.request(method, path, body)
        case = f"{method} {path} {body}: {answer.status_code} {answer.text}"
        assert answer.status_code == 409, case
        problem = json.loads(answer.text)
        assert not in_the_way or in_the_way in f"{problem['detail']} {problem['blocking']}", case
        assert problem["detail"], case
        assert state(appliance) == before, case


def test_a_pattern_is_explained_in_words(shared: Appliance) -> None:
    answer = shared.request("POST", "/hosts", {"name": "esx/1", "iqns": []})
    assert answer.status_code == 422 and answer.json is not None
    assert answer.json["errors"] == [
        {
            "field": "name",
            "reason": "use letters, digits, space and _ . @ - only, and begin with a letter or digit",
            "allowed": "",
        }
    ]
