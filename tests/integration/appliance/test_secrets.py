# SPDX-License-Identifier: Apache-2.0
"""Secrets never leave the service: not in a response, a log, a file, nor in what its processes show.

Every operation with a secret gets a known one, in a valid request and in several invalid ones. Then an admin and a viewer read
everything, which is searched for all secrets in the usual encodings.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.appliance import PASSWORD, Appliance, running_appliance

from appliance.api.operation import SECRET_FIELDS

NOT_SEARCHED = {"secrets.key", "setup-code"}
"""Files that contain secrets; only their owner can read them."""


class Sent:
    """Responses so far, and the secrets that were sent."""

    def __init__(self, appliance: Appliance) -> None:
        self.appliance = appliance
        self.secrets: dict[str, str] = {"the first admin's password": PASSWORD, "the one-time code": appliance.setup_code}
        self.answers: list[tuple[str, str]] = []
        self.viewer = ""
        """A token."""
        self.address = ""
        """URL of a receiver with a token; only admins may see it."""

    def new(self, what: str) -> str:
        """A new secret."""
        self.secrets[what] = f"{len(self.secrets):03}-Zq7?vX&{len(self.secrets) * 7919:06x}/+ x"
        return self.secrets[what]

    def request(self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> tuple[int, Any]:
        """Status and response; text if it is not JSON."""
        context = ssl.create_default_context(cafile=str(self.appliance.frontend.certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", self.appliance.port, timeout=60, context=context)
        sent = {"Content-Type": "application/json", **headers}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        with contextlib.closing(connection):
            connection.request(method, f"/api/v1{path}", body if isinstance(body, str | None) else json.dumps(body), sent)
            answer = connection.getresponse()
            text = answer.read().decode() + str(answer.getheaders())
        self.answers.append((f"{method} {path}: {answer.status}", text))
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(text[: text.rindex("[(")])
        return answer.status, text


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    """An appliance whose processes keep every log."""
    with running_appliance(tmp_path_factory.mktemp("secrets") / "a", simulating_helper=True) as appliance:
        disks = [disk["path"] for disk in appliance.json("pool", "disks")][:2]
        appliance.cli("pool", "create", "tank", "mirror", *disks, "--wait")
        yield Sent(appliance)


def disguises(secret: str) -> set[bytes]:
    """Encodings of a secret."""
    raw = secret.encode()
    inner = [base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)]
    plain = {raw, raw.hex().encode(), raw[::-1], urllib.parse.quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode()}
    return plain | {text for text in inner if len(text) > 12}


def wrong_ones(secret: str) -> list[Any]:
    """Invalid values that contain the secret."""
    return [[secret], {"value": secret}, secret * 20, f"{secret}\n", f"{secret}\u00e4\ud800", {secret: 1}]


def example(schema: dict[str, Any], whole: dict[str, Any]) -> Any:  # noqa: PLR0911  # a table
    """A value that fits a schema."""
    while "$ref" in schema:
        schema = whole["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for option in schema.get("anyOf", []):
        if option.get("type") != "null":
            return example(option, whole)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            return {name: example(setting, whole) for name, setting in schema.get("properties", {}).items()}
        case "array":
            return [example(schema["items"], whole)]
        case "integer":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
        case _:
            return "iqn.1998-01.com.vmware:x" if "iqn" in schema.get("pattern", "") else "1073741824"


def places(value: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the secrets in a body."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name in SECRET_FIELDS and not isinstance(member, dict):
                yield (*way, name)
            yield from places(member, (*way, name))


def put(value: Any, way: tuple[str, ...], what: Any) -> Any:
    """Copy of a body with another value at a path."""
    if not way:
        return what
    return {name: put(member, way[1:], what) if name == way[0] else member for name, member in value.items()}


def test_secrets_go_in(sent: Sent) -> None:
    """Valid secrets; the created objects work."""
    admin = sent.appliance.token()
    status, user = sent.request(
        "POST", "/users", {"name": "second", "role": "viewer", "password": sent.new("a user's password")}, admin
    )
    assert status == 201
    old, new = sent.secrets["a user's password"], sent.new("a user's new password")
    status, begun = sent.request("POST", "/session", {"name": "second", "password": old})
    assert status == 201
    cookie = re.search(r"__Host-zvaai=([^;]+)", sent.answers.pop()[1])  # the only response that contains it
    assert cookie is not None
    sent.secrets["a session's cookie"] = cookie[1]
    session = {"Cookie": f"__Host-zvaai={cookie[1]}", "X-CSRF-Token": begun["csrf_token"]}
    status, token = sent.request("POST", "/tokens", {"name": "t", "scope": "viewer", "days": 1, "password": old}, **session)
    assert status == 201
    sent.secrets["a token"] = token["secret"].split("_", 2)[2]
    sent.answers.pop()  # shown once
    assert sent.request("POST", "/session/password", {"current": old, "new": new}, **session)[0] == 200
    assert sent.request("PATCH", f"/users/{user['id']}", {"password": sent.new("a user's third password")}, admin)[0] == 200
    chap = {"name": "esx1", "secret": sent.new("a CHAP secret")}
    status, host = sent.request("POST", "/hosts", {"name": "esx1", "iqns": ["iqn.1998-01.com.vmware:esx1"], "chap": chap}, admin)
    assert status == 201
    chap["secret"] = sent.new("a new CHAP secret")
    headers = {"Idempotency-Key": "chap"}
    for _ in range(2):
        assert sent.request("PUT", f"/hosts/{host['id']}/chap", chap, admin, **headers)[0] == 200
    assert sent.request("PUT", "/settings/iscsi", {"chap_required": True}, admin)[0] == 200
    status, _ = sent.request("POST", "/configuration/backup", {"password": PASSWORD}, admin)
    assert status == 200
    webhook_that_fails(sent, admin)
    sent.appliance.cli("datastore", "create", "one", "--pool", "tank", "--size", "1G", "--wait")
    sent.appliance.run("reconcile")


def webhook_that_fails(sent: Sent, admin: str) -> None:
    """A receiver with a token in its URL, where nothing listens. Its secret is shown twice, a new one each time."""
    sent.address = "Zq7vXtokenoftheaddress"
    body = {"name": "pager", "url": f"http://127.0.0.1:9/hook?token={sent.address}"}
    status, hook = sent.request("POST", "/receivers", body, admin)
    assert status == 201
    for what in ("a receiver's secret", "a receiver's new secret"):
        sent.secrets[what] = hook["secret"].removeprefix("whsec_")
        sent.answers.pop()  # shown once
        if what == "a receiver's secret":
            status, hook = sent.request("POST", f"/receivers/{hook['id']}/secret", None, admin)
            assert status == 201
    status, delivery = sent.request("POST", f"/receivers/{hook['id']}/test", None, admin)
    assert status == 200 and "delivered" not in str(delivery.get("state"))


def test_secrets_go_in_wrong(sent: Sent) -> None:
    """Every operation with a secret: wrong type, too long, invalid JSON, in the query, without login."""
    admin = sent.appliance.token()
    _, spec = sent.request("GET", "/openapi.json", None, admin)
    tried = 0
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation:
                continue
            body = example(operation["requestBody"]["content"]["application/json"]["schema"], spec)
            where = re.sub(r"\{\w+\}", "absent", path).removeprefix("/api/v1")
            for way in places(body):
                secret = sent.new(f"{method} {path} {'.'.join(way)}")
                tried += 1
                for value in (secret, *wrong_ones(secret)):
                    for token in (admin, None, "zvaai_none"):
                        status, _ = sent.request(method.upper(), where, put(body, way, value), token)
                        assert status < 500
                sent.request(method.upper(), where, json.dumps(put(body, way, secret))[:-1], admin)
                sent.request(method.upper(), f"{where}?{way[-1]}={urllib.parse.quote(secret)}", body, admin)
    assert tried >= 8
    for credential in ("bearer", "basic"):
        secret = sent.new(f"a {credential} credential")
        sent.request("GET", "/pools", None, None, Authorization=f"{credential} {secret}")
    sent.request("GET", "/pools", None, None, Cookie=f"__Host-zvaai={urllib.parse.quote(sent.new('a wrong cookie'))}")


def read_everything(sent: Sent) -> None:
    """Every GET of everything, by an admin and by a viewer."""
    admin = sent.appliance.token()
    _, spec = sent.request("GET", "/openapi.json", None, admin)
    known: dict[str, list[str]] = {}
    for path in sorted(spec["paths"], key=lambda path: path.count("{")):
        if "get" not in spec["paths"][path] or path.endswith("/events"):
            continue
        ways = [path.removeprefix("/api/v1")]
        if name := re.search(r"\{(\w+)\}", path):
            parent = path[: name.start() - 1].removeprefix("/api/v1")
            ways = [ways[0].replace(name[0], value) for value in known.get(parent, [])]
        for way in ways:
            if "{" in way:
                continue
            status, content = sent.request("GET", way, None, admin)
            assert status < 500, (way, content)
            if isinstance(content, dict):
                items = content.get("items") or []
                known[way] = [str(item.get("id", item.get("name"))) for item in items if isinstance(item, dict)]
            sent.request("GET", way, None, sent.viewer)
    assert known["/users"] and known["/hosts"] and known["/audit"] and known["/datastores"]


def test_no_secret_is_disclosed(sent: Sent) -> None:
    admin = sent.appliance.token()
    status, made = sent.request("POST", "/tokens", {"name": "v", "scope": "viewer", "days": 1}, admin)
    assert status == 201
    sent.secrets["a viewer's token"] = made["secret"].split("_", 2)[2]
    sent.answers.pop()
    sent.viewer = made["secret"]
    read_everything(sent)
    appliance = sent.appliance
    sent.secrets["the admin's token"] = appliance.token().split("_", 2)[2]
    sources: dict[str, bytes] = {f"the answer to {name}": text.encode() for name, text in sent.answers}
    processes = [process for process in (appliance.helper, appliance.worker, appliance.api) if process is not None]
    for process in processes:
        sources[f"the log of {process.name}"] = process.log.read_bytes()
        for number in (process.process_id, *process.children()):
            for shown in ("cmdline", "environ", "comm"):
                sources[f"{shown} of {process.name}"] = Path(f"/proc/{number}/{shown}").read_bytes()
    for file in sorted((appliance.directory / "state").rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # the worker replaces files
            if file.is_file() and file.name not in NOT_SEARCHED:
                sources[f"the file {file.name}"] = file.read_bytes()
            elif file.is_file():
                assert file.stat().st_mode & 0o077 == 0, file
    sources["the simulator's state"] = (appliance.directory / "simulator.json").read_bytes()
    assert {"the file appliance.sqlite", "the log of worker", "the log of helper"} <= sources.keys()
    leaks = [
        f"{what} is in {where}: {data[max(0, at - 200) : at + 200]!r}"
        for what, secret in sent.secrets.items()
        for disguise in disguises(secret)
        for where, data in sources.items()
        if (at := data.find(disguise)) >= 0
    ]
    assert all(len(secret) > 12 for secret in sent.secrets.values()), "short ones are anywhere"
    assert not leaks, "\n".join(leaks[:10])
    known = {where for where, data in sources.items() if sent.address.encode() in data}
    # docs/appliance-faults.md: the database has it in plain text.
    assert {where for where in known if "/receivers" not in where and "appliance.sqlite" not in where} == set()
    assert not [text for name, text in sent.answers if name.startswith("GET") and sent.viewer in name and sent.address in text]
    for file in (appliance.directory / "state").rglob("*.sqlite*"):
        assert file.stat().st_mode & 0o077 == 0, file
