# SPDX-License-Identifier: Apache-2.0
"""Logins at a directory: OpenLDAP's slapd."""

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import PASSWORD as LOCAL_PASSWORD
from simulators.appliance import Appliance
from support.authority import Authority
from support.slapd import CHAIN, LOOP, PASSWORD, READER_PASSWORD, Slapd, group, person, slapd
from werkzeug.test import TestResponse

from appliance.database.models import AuditEntry, LoginFailure, User
from appliance.login import directory

WRONG_ENTRY = "no entry, or more than one, has this login name"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    with slapd(tmp_path_factory.mktemp("slapd")) as server:
        yield server


def set_up(appliance: Appliance, settings: dict[str, object]) -> None:
    answer = appliance.request("PUT", "/settings/directory", settings)
    assert answer.status_code == 200, answer.text


def log_in(appliance: Appliance, name: str, password: str = PASSWORD, **more: str) -> TestResponse:
    body = {"name": name, "password": password, **more}
    return appliance.application.test_client().post("/api/v1/session", json=body, environ_base={"REMOTE_ADDR": "192.0.2.7"})


def users(appliance: Appliance) -> dict[str, Any]:
    return {user["name"]: user for user in appliance.get("/users")["items"] if user["source"] == "directory"}


@pytest.mark.parametrize("secure", ["ldaps", "start_tls"])
def test_a_group_gives_the_role(appliance: Appliance, server: Slapd, secure: str) -> None:
    set_up(appliance, server.settings(servers=[server.ldap if secure == "start_tls" else server.ldaps]))
    for name, role in {"anna": "admin", "olga": "operator", "vera": "viewer", " Anna": "admin"}.items():
        answer = log_in(appliance, name)
        assert answer.status_code == 201 and answer.json is not None, answer.text
        assert (answer.json["name"], answer.json["role"]) == (name.strip().lower(), role)
    assert {name: user["role"] for name, user in users(appliance).items()} == {
        "anna": "admin", "olga": "operator", "vera": "viewer",
    }  # fmt: skip
    with appliance.store.reading() as session:
        assert {user.password_hash for user in session.query(User).filter_by(source="directory")} == {None}


def test_the_session_is_that_role_and_follows_the_groups_at_the_next_login(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    client = appliance.application.test_client()
    assert client.post("/api/v1/session", json={"name": "olga", "password": PASSWORD}).status_code == 201
    assert client.get("/api/v1/datastores").status_code == 200
    assert client.get("/api/v1/users").status_code == 403
    set_up(appliance, server.settings(admin=[group("operators")], operator=[]))
    assert client.get("/api/v1/datastores").status_code == 401, "other settings end sessions"
    assert client.post("/api/v1/session", json={"name": "olga", "password": PASSWORD}).status_code == 201
    assert client.get("/api/v1/users").status_code == 200


def test_a_login_under_way_ends_with_its_directory(appliance: Appliance, server: Slapd, monkeypatch: Any) -> None:
    set_up(appliance, server.settings())
    authenticate = directory.authenticate

    def slow(*given: Any) -> Any:
        answer = authenticate(*given)
        assert appliance.request("DELETE", "/settings/directory").status_code == 200
        return answer

    monkeypatch.setattr(directory, "authenticate", slow)
    assert log_in(appliance, "anna").status_code == 401
    assert users(appliance) == {}


@pytest.mark.parametrize(
    ("name", "password"),
    [("anna", "wrong"), ("anna", "\u00ad"), *((name, PASSWORD) for name in ("stranger", "*)(uid=*", "an*", "anna\x00"))],
    ids=["password", "nothing after SASLprep", "stranger", "filter", "star", "zero"],
)
def test_a_wrong_login_is_refused_counted_and_audited(appliance: Appliance, server: Slapd, name: str, password: str) -> None:
    set_up(appliance, server.settings())
    refused = log_in(appliance, name, password)
    assert refused.status_code == 401 and refused.json is not None
    assert refused.json["detail"] == "the name or the password is wrong"
    with appliance.store.reading() as session:
        entry = session.query(AuditEntry).filter_by(action="session.begin").one()
        assert (entry.status, entry.actor, entry.subject, entry.name, entry.after) == (401, "", "", "", None)
        assert {failure.count for failure in session.query(LoginFailure)} == {1}
    for _ in range(4):
        log_in(appliance, name, password)
    assert log_in(appliance, name, PASSWORD).status_code == 429
    assert users(appliance) == {}


def test_who_has_no_group_is_refused(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    refused = log_in(appliance, "nobody")
    assert refused.status_code == 403 and refused.json is not None
    assert refused.json["detail"] == "no group of this user has a role here"
    with appliance.store.reading() as session:
        entry = session.query(AuditEntry).filter_by(action="session.begin").one()
        assert (entry.status, entry.subject) == (403, "nobody")
    assert users(appliance) == {}


def role_of(appliance: Appliance, server: Slapd, name: str, **roles: list[str] | str) -> str | None:
    """Role of a login; None if it is refused because no group has a role."""
    set_up(appliance, server.settings(**{"admin": [], "operator": [], "viewer": [], **roles}))
    answer = log_in(appliance, name)
    assert answer.json is not None and answer.status_code in (201, 403), answer.text
    return str(answer.json["role"]) if answer.status_code == 201 else None


def test_groups_in_groups_count_up_to_a_limit_of_levels(appliance: Appliance, server: Slapd) -> None:
    assert role_of(appliance, server, "nina", operator=CHAIN[1:2]) == "operator"
    assert role_of(appliance, server, "nina", operator=CHAIN[7:8]) == "operator"
    assert role_of(appliance, server, "nina", admin=CHAIN[8:9], viewer=CHAIN[1:2]) == "viewer"
    assert role_of(appliance, server, "nina", admin=CHAIN[8:9]) is None
    assert role_of(appliance, server, "nobody", admin=CHAIN) is None


def test_groups_in_groups_count_up_to_a_limit_of_groups(appliance: Appliance, server: Slapd, monkeypatch: Any) -> None:
    monkeypatch.setattr("appliance.login.directory._GROUPS", 3)
    assert role_of(appliance, server, "nina", operator=CHAIN[3:4]) == "operator"
    assert role_of(appliance, server, "nina", operator=CHAIN[4:5]) is None


def test_groups_that_are_members_of_each_other(appliance: Appliance, server: Slapd, monkeypatch: Any) -> None:
    """The search ends when it finds no new group, without a limit too."""
    for limit in ("_LEVELS", "_GROUPS"):
        monkeypatch.setattr(f"appliance.login.directory.{limit}", 1_000_000)
    assert role_of(appliance, server, "lara", operator=[LOOP[1]]) == "operator"
    assert role_of(appliance, server, "lara", operator=[group("operators")], viewer=[LOOP[0]]) == "viewer"


def test_only_groups_below_the_base_pass_membership_on(appliance: Appliance, server: Slapd) -> None:
    people = person("").split(",", 1)[1]
    assert role_of(appliance, server, "nina", base=people, viewer=CHAIN[:1]) == "viewer"
    assert role_of(appliance, server, "nina", base=people, viewer=CHAIN[1:2]) is None


def test_active_directory_is_not_searched_for_groups_in_groups(appliance: Appliance, tmp_path: Path) -> None:
    """It follows them itself, which slapd does not: here it only claims to be Active Directory."""
    with slapd(tmp_path, capability="1.2.840.113556.1.4.800") as server:
        assert role_of(appliance, server, "nina", viewer=CHAIN[:1]) == "viewer"
        assert role_of(appliance, server, "nina", viewer=CHAIN[1:2]) is None


def test_a_local_user_of_the_same_name_wins(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    answer = log_in(appliance, "viewer", LOCAL_PASSWORD)
    assert answer.status_code == 201 and answer.json is not None and answer.json["role"] == "viewer"
    assert log_in(appliance, "viewer").status_code == 401
    assert log_in(appliance, "Viewer").status_code == 401, "the directory does not distinguish case"


def test_the_local_admin_logs_in_while_the_directory_is_down(appliance: Appliance, tmp_path: Path) -> None:
    with slapd(tmp_path) as server:
        set_up(appliance, server.settings())
    assert log_in(appliance, "admin", LOCAL_PASSWORD).status_code == 201
    refused = log_in(appliance, "anna")
    assert refused.status_code == 503 and refused.json is not None and "directory" in refused.json["detail"]


def test_the_next_server_is_tried(appliance: Appliance, server: Slapd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"ldaps://localhost:{closed.getsockname()[1]}"
    set_up(appliance, server.settings(servers=[gone, server.ldaps]))
    assert log_in(appliance, "anna").status_code == 201


def test_a_server_that_does_not_answer_is_not_waited_for(appliance: Appliance, server: Slapd, monkeypatch: Any) -> None:
    monkeypatch.setattr("appliance.login.directory.ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        set_up(appliance, server.settings(servers=[f"ldaps://localhost:{silent.getsockname()[1]}"]))
        assert log_in(appliance, "anna").status_code == 503


def test_a_certificate_of_another_authority_or_name_is_refused(appliance: Appliance, server: Slapd, tmp_path: Path) -> None:
    for secure in (server.ldaps, server.ldap):
        set_up(appliance, server.settings(servers=[secure], certificate=Authority("other").certificate))
        assert log_in(appliance, "anna").status_code == 503
        tested = appliance.request("POST", "/settings/directory/test", {}).json
        assert tested is not None and "certificate verify failed" in tested["problem"]
    with slapd(tmp_path, "other.example") as other:
        set_up(appliance, other.settings())
        tested = appliance.request("POST", "/settings/directory/test", {}).json
        assert tested is not None and "Hostname mismatch" in tested["problem"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"servers": ["ldap://192.0.2.1"], "start_tls": False}, "servers"),
        ({"servers": ["https://192.0.2.1"]}, "servers"),
        ({"servers": ["ldaps://anna@192.0.2.1"]}, "servers"),
        ({"certificate": "no certificate"}, "certificate"),
        ({"filter": "(uid={login}"}, "filter"),
        ({"filter": "(uid=anna)"}, "filter"),
        ({"base": "example.com"}, "base"),
        ({"admin": ["admins"]}, "admin"),
        ({"admin": [], "operator": [], "viewer": []}, "admin"),
        ({"password": None}, "password"),
        ({"bind_dn": None}, "password"),
    ],
)
def test_settings_are_checked(shared: Appliance, wrong: dict[str, object], field: str) -> None:
    groups = {"admin": [group("admins")], "operator": [], "viewer": []}
    right = {"servers": ["ldaps://192.0.2.1"], "bind_dn": "cn=reader", "password": "secret", "base": "dc=example", **groups}
    refused = shared.request("PUT", "/settings/directory", {**right, **wrong})
    assert refused.status_code == 422 and refused.json is not None, refused.text
    assert refused.json["errors"][0]["field"] == field


def test_plain_text_is_for_the_loopback_interface(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings(servers=[server.ldap], start_tls=False))
    assert log_in(appliance, "anna").status_code == 201


def test_a_test_says_who_would_log_in(appliance: Appliance, server: Slapd) -> None:
    def tested(name: str | None) -> Any:
        return appliance.request("POST", "/settings/directory/test", {"name": name}).json

    assert appliance.request("POST", "/settings/directory/test", {}).status_code == 404
    set_up(appliance, server.settings())
    assert tested(None) == {"problem": None, "dn": None, "groups": [], "role": None}
    groups = [group("operators"), group("admins")]
    assert tested("anna") == {"problem": None, "dn": person("anna"), "groups": groups, "role": "admin"}
    assert tested("nobody")["problem"] == "no group of this user has a role"
    assert tested("stranger")["problem"] == WRONG_ENTRY == tested("*")["problem"]
    set_up(appliance, server.settings(base="ou=gone,dc=example,dc=com"))
    assert "noSuchObject" in tested(None)["problem"]
    set_up(appliance, server.settings(password="wrong"))
    assert "invalidCredentials" in tested(None)["problem"]


def test_the_password_is_sealed_and_kept_for_the_same_server_only(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    assert READER_PASSWORD not in str(appliance.get("/settings/directory"))
    with closing(sqlite3.connect(appliance.store.path)) as connection:
        assert READER_PASSWORD not in "".join(connection.iterdump())
    etag = appliance.get("/settings/directory")["etag"]
    set_up(appliance, server.settings(password=None, viewer=[]))
    assert log_in(appliance, "anna").status_code == 201
    for other in ({"servers": ["ldaps://192.0.2.1"]}, {"bind_dn": "cn=other"}, {"certificate": None}):
        assert appliance.request("PUT", "/settings/directory", server.settings(password=None, **other)).status_code == 422
    assert appliance.request("PUT", "/settings/directory", server.settings(), If_Match=etag).status_code == 412


def test_without_the_directory_its_users_are_gone(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    client = appliance.application.test_client()
    assert client.post("/api/v1/session", json={"name": "anna", "password": PASSWORD}).status_code == 201
    assert appliance.request("DELETE", "/settings/directory").status_code == 200
    assert client.get("/api/v1/session").status_code == 401 and users(appliance) == {}
    assert log_in(appliance, "anna").status_code == 401 and log_in(appliance, "admin", LOCAL_PASSWORD).status_code == 201


def test_an_admin_disables_a_user_and_changes_no_role_or_password(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    log_in(appliance, "olga")
    path = f"/users/{users(appliance)['olga']['id']}"
    for change in ({"role": "admin"}, {"password": LOCAL_PASSWORD}):
        assert appliance.request("PATCH", path, change).status_code == 409
    assert appliance.request("PATCH", path, {"disabled": True}).status_code == 200
    assert log_in(appliance, "olga").status_code == 401
    assert appliance.request("PATCH", path, {"disabled": False}).status_code == 200
    assert log_in(appliance, "olga").status_code == 201


def test_a_directory_admin_is_not_the_last_admin(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    log_in(appliance, "anna")
    local = next(user for user in appliance.get("/users")["items"] if user["name"] == "admin")
    assert appliance.request("DELETE", f"/users/{local['id']}").status_code == 409


def test_the_password_of_the_directory_makes_a_token_of_half_a_day(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    client = appliance.application.test_client()
    begun = client.post("/api/v1/session", json={"name": "olga", "password": PASSWORD}).json
    assert begun is not None
    body = {"name": "command", "scope": "operator", "days": 90}
    headers = {"X-CSRF-Token": begun["csrf_token"]}
    assert client.post("/api/v1/tokens", json={**body, "password": "wrong"}, headers=headers).status_code == 422
    made = client.post("/api/v1/tokens", json={**body, "password": PASSWORD}, headers=headers).json
    assert made is not None
    appliance.tokens["olga"] = made["secret"]
    assert appliance.request("GET", "/session", role="olga").status_code == 200
    with appliance.store.reading() as session:
        row = session.connection().exec_driver_sql("SELECT expires_at - created_at FROM tokens WHERE name = 'command'").scalar()
        assert row == pytest.approx(12 * 3600)


def test_a_copy_of_the_configuration_has_the_settings_and_the_secret(appliance: Appliance, server: Slapd) -> None:
    set_up(appliance, server.settings())
    settings = appliance.get("/settings/directory")
    key = appliance.request("POST", "/configuration/recovery-key").json
    backup = appliance.request("POST", "/configuration/backup", {"password": LOCAL_PASSWORD}).json
    assert appliance.request("DELETE", "/settings/directory").status_code == 200
    assert key is not None and backup is not None and READER_PASSWORD not in str(backup)
    body = {"file": json.dumps(backup), "recovery_key": key["secret"]}
    changes = appliance.request("POST", "/recovery", body).json
    assert changes is not None and changes["changes"] == ["setting directory: added"]
    assert appliance.get("/settings/directory") == settings
    assert log_in(appliance, "anna").status_code == 201
