# SPDX-License-Identifier: Apache-2.0
"""The first start, sessions, CSRF, tokens, roles, waiting after failures."""

import contextlib
import re
import sqlite3
import time
from pathlib import Path

import pytest
from simulators.appliance import PASSWORD, Appliance
from sqlalchemy import Connection, event, update
from sqlalchemy.exc import OperationalError
from werkzeug.test import TestResponse

from appliance.api.operation import COOKIE
from appliance.database.models import LoginFailure, LoginSession, Token, User
from appliance.database.store import Store
from appliance.domain import access
from appliance.domain.errors import ConflictError, UnauthenticatedError


def log_in(appliance: Appliance, name: str = "admin", password: str = PASSWORD, address: str = "127.0.0.1") -> TestResponse:
    body = {"name": name, "password": password}
    client = appliance.application.test_client()
    return client.post("/api/v1/session", json=body, environ_base={"REMOTE_ADDR": address})


def test_the_first_start(tmp_path: Path) -> None:
    store, file = Store(tmp_path / "database"), tmp_path / "setup-code"
    with store.session() as session:
        code = access.prepare_setup(session, file)
        assert code is not None and file.read_text().strip() == code and file.stat().st_mode & 0o777 == 0o600
    with store.session() as session:  # the same one at the next start
        assert access.prepare_setup(session, file) is None
    with pytest.raises(UnauthenticatedError), store.session() as session:
        access.set_up(session, "0000-0000-0000-0000-0000", "first", "hash")
    with store.session() as session:
        access.set_up(session, code.replace("-", "").upper(), "first", "hash")  # as a user may type it
    with pytest.raises(ConflictError), store.session() as session:
        access.set_up(session, code, "second", "hash")
    with store.session() as session:
        assert access.prepare_setup(session, file) is None and not file.exists()


def test_a_password_that_is_changed_during_the_login_begins_no_session(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = access.check_password

    def slow(user: User | None, password: str) -> bool:
        right = check(user, password)
        with appliance.store.session() as session:
            access.change_user(session, user.id if user else "", password_hash=access.new_password("admin", "battery staple 9"))
        return right

    monkeypatch.setattr(access, "check_password", slow)
    assert log_in(appliance).status_code == 401
    monkeypatch.setattr(access, "check_password", check)
    assert log_in(appliance, password="battery staple 9").status_code == 201


def test_a_session(appliance: Appliance) -> None:
    answer = log_in(appliance)
    assert answer.status_code == 201 and answer.json is not None
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=") and all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"))
    value = re.match(rf"{COOKIE}=([^;]+)", cookie)
    assert value is not None
    headers = {"Cookie": f"{COOKIE}={value[1]}"}
    client = appliance.application.test_client(use_cookies=False)
    assert client.get("/api/v1/pools", headers=headers).status_code == 200
    # What changes something needs what only our own page can read.
    assert client.post("/api/v1/host-groups", json={"name": "one"}, headers=headers).status_code == 403
    wrong = {**headers, "X-CSRF-Token": "0" * 64}
    assert client.post("/api/v1/host-groups", json={"name": "one"}, headers=wrong).status_code == 403
    right = {**headers, "X-CSRF-Token": answer.json["csrf_token"]}
    assert client.post("/api/v1/host-groups", json={"name": "one"}, headers=right).status_code == 201
    with appliance.store.reading() as session:  # a stolen database opens no session
        assert value[1] not in [row.hash for row in session.query(LoginSession)]
    assert client.delete("/api/v1/session", headers=right).status_code == 200
    assert client.get("/api/v1/pools", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "change",
    [
        {"used_at": -access.SESSION_IDLE_S - 1},
        {"created_at": -access.SESSION_LONGEST_S - 1},
        {"created_at": 86400, "used_at": 86400},
    ],
    ids=["idle", "half a day old", "begun by a clock that was ahead"],
)
def test_a_session_ends_by_itself(change: dict[str, float], appliance: Appliance) -> None:
    value = log_in(appliance).headers["Set-Cookie"].split("=", 1)[1].split(";")[0]
    client = appliance.application.test_client(use_cookies=False)
    with appliance.store.session() as session:
        for row in session.query(LoginSession):
            for name, seconds in change.items():
                setattr(row, name, getattr(row, name) + seconds)
    assert client.get("/api/v1/pools", headers={"Cookie": f"{COOKIE}={value}"}).status_code == 401


def test_wrong_guesses_cause_a_delay(appliance: Appliance) -> None:
    statuses = [log_in(appliance, password="wrong", address="192.0.2.1").status_code for _ in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    locked = log_in(appliance, address="192.0.2.1")  # with the right password too
    assert locked.status_code == 429 and int(locked.headers["Retry-After"]) > 0
    assert log_in(appliance, address="192.0.2.2").status_code == 201  # the admin is not locked out elsewhere


def test_a_delay_ends_when_the_clock_was_ahead(appliance: Appliance) -> None:
    for _ in range(6):
        log_in(appliance, password="wrong")
    assert log_in(appliance).status_code == 429
    with appliance.store.session() as session:
        for failure in session.query(LoginFailure):
            failure.locked_until += 365 * 86400
    assert log_in(appliance).status_code == 201


def test_a_user_is_never_locked_out_everywhere(appliance: Appliance) -> None:
    for number in range(60):
        log_in(appliance, password="wrong", address=f"192.0.2.{number}")
    assert log_in(appliance, address="198.51.100.1").status_code == 201
    statuses = {log_in(appliance, password="wrong", address=f"2001:db8::{number:x}").status_code for number in range(7)}
    assert 429 in statuses  # one network of IPv6 is one


def test_an_unknown_name_is_answered_as_a_wrong_password(appliance: Appliance) -> None:
    known, unknown = log_in(appliance, password="wrong"), log_in(appliance, name="nobody", password="wrong")
    assert known.status_code == unknown.status_code == 401 and known.json == unknown.json


def test_a_token_does_no_more_than_its_scope(appliance: Appliance) -> None:
    made = appliance.request("POST", "/tokens", {"name": "monitoring", "scope": "viewer", "days": 1}).json
    assert made is not None
    appliance.tokens["scoped"] = made["secret"]
    assert appliance.request("GET", "/pools", role="scoped").status_code == 200
    assert appliance.request("POST", "/host-groups", {"name": "one"}, role="scoped").status_code == 403
    tokens = {token["id"]: token for token in appliance.get("/tokens")["items"]}
    assert tokens[made["id"]]["used_at"] is not None and "secret" not in str(tokens)
    with appliance.store.session() as session:
        token = session.get(Token, made["id"])
        assert token is not None and made["secret"].split("_", 2)[2] not in token.hash
        token.expires_at = 1
    assert appliance.request("GET", "/pools", role="scoped").status_code == 401


def test_a_token_deletes_none_that_may_do_more(appliance: Appliance) -> None:
    body = {"name": "monitoring", "scope": "viewer", "days": 1}
    monitoring, other = (appliance.request("POST", "/tokens", body | {"name": name}).json for name in ("monitoring", "other"))
    automation = appliance.request("POST", "/tokens", {"name": "automation", "scope": "operator", "days": 1}).json
    assert monitoring is not None and other is not None and automation is not None
    appliance.tokens["scoped"] = monitoring["secret"]
    assert appliance.request("DELETE", f"/tokens/{automation['id']}", role="scoped").status_code == 403
    assert appliance.request("DELETE", f"/tokens/{other['id']}", role="scoped").status_code == 200


def test_a_viewer_makes_no_token_of_an_admin(appliance: Appliance) -> None:
    body = {"name": "more", "scope": "admin", "days": 1}
    assert appliance.request("POST", "/tokens", body, role="viewer").status_code == 403


def test_a_token_is_not_prolonged(appliance: Appliance) -> None:
    body = {"name": "short", "scope": "admin", "days": 1}
    made = appliance.request("POST", "/tokens", body).json
    assert made is not None
    appliance.tokens["short"] = made["secret"]
    body = {"name": "more", "scope": "admin", "days": 2}
    assert appliance.request("POST", "/tokens", body, role="short").status_code == 403
    assert appliance.request("POST", "/tokens", {**body, "password": "a wrong password"}, role="short").status_code == 422
    assert appliance.request("POST", "/tokens", {**body, "password": PASSWORD}, role="short").status_code == 201


def test_a_login_ends_the_least_recently_used_token_of_a_login(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "TOKENS_PER_USER", 5)

    def create(name: str) -> TestResponse:
        return appliance.request("POST", "/tokens", {"name": name, "scope": "viewer", "days": 1})

    for name in ("monitoring", "zvaai on one", "zvaai on two", "zvaai on three"):  # with the token of the test
        assert create(name).status_code == 201
    with appliance.store.session() as session:
        session.execute(update(Token).where(Token.name == "zvaai on one").values(used_at=time.time() + 1))
    assert create("zvaai on four").status_code == 201
    names = {token["name"] for token in appliance.get("/tokens")["items"]}
    assert names == {"test", "monitoring", "zvaai on one", "zvaai on three", "zvaai on four"}
    refused = create("another")
    assert refused.status_code == 409 and "Delete one: zvaai token delete NAME" in refused.text
    assert {token["name"] for token in appliance.get("/tokens")["items"]} == names


def test_a_stolen_session_makes_no_token(appliance: Appliance) -> None:
    answer = log_in(appliance)
    cookie = answer.headers["Set-Cookie"].split(";")[0]
    assert answer.json is not None
    headers = {"Cookie": cookie, "X-CSRF-Token": answer.json["csrf_token"]}
    client = appliance.application.test_client(use_cookies=False)
    body = {"name": "year", "scope": "admin", "days": 366}
    assert client.post("/api/v1/tokens", json=body, headers=headers).status_code == 422
    assert client.post("/api/v1/tokens", json={**body, "password": "not the password"}, headers=headers).status_code == 422
    assert client.post("/api/v1/tokens", json={**body, "password": PASSWORD}, headers=headers).status_code == 201


def test_a_new_password_ends_the_other_sessions(appliance: Appliance) -> None:
    client = appliance.application.test_client(use_cookies=False)
    here, elsewhere = (log_in(appliance) for _ in range(2))
    assert here.json is not None
    headers = {"Cookie": here.headers["Set-Cookie"].split(";")[0], "X-CSRF-Token": here.json["csrf_token"]}
    change = {"current": PASSWORD, "new": "another good password"}
    assert client.post("/api/v1/session/password", json=change, headers=headers).status_code == 200
    assert client.get("/api/v1/session", headers=headers).status_code == 200
    other = {"Cookie": elsewhere.headers["Set-Cookie"].split(";")[0]}
    assert client.get("/api/v1/session", headers=other).status_code == 401


def test_a_new_password_ends_tokens_on_request(appliance: Appliance) -> None:
    change = {"current": PASSWORD, "new": "another good password"}
    assert appliance.request("POST", "/session/password", change, role="viewer").status_code == 200
    assert appliance.request("GET", "/pools", role="viewer").status_code == 200
    back = {"current": "another good password", "new": PASSWORD, "end_tokens": True}
    assert appliance.request("POST", "/session/password", back, role="viewer").status_code == 200
    assert appliance.request("GET", "/pools", role="viewer").status_code == 401
    with appliance.store.reading() as session:
        operator = session.query(User).filter_by(name="operator").one().id
    assert appliance.request("PATCH", f"/users/{operator}", {"end_tokens": True}).status_code == 200
    assert appliance.request("GET", "/pools", role="operator").status_code == 401
    assert appliance.request("GET", "/pools").status_code == 200


def test_passwords_are_hashed_while_others_write(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []

    def hash_password(password: str) -> str:
        with contextlib.closing(sqlite3.connect(appliance.configuration.database, timeout=30)) as other:
            other.execute("BEGIN IMMEDIATE")  # "database is locked" while a transaction holds it
            other.rollback()
        hashed.append(password)
        return "hash"

    monkeypatch.setattr(access, "hash_password", hash_password)
    user = {"name": "new", "role": "viewer", "password": "another good password"}
    made = appliance.request("POST", "/users", user)
    assert made.status_code == 201 and made.json is not None
    assert appliance.request("PATCH", f"/users/{made.json['id']}", {"password": "a third good password"}).status_code == 200
    change = {"current": PASSWORD, "new": "a fourth good password"}
    assert appliance.request("POST", "/session/password", change, role="viewer").status_code == 200
    assert len(hashed) == 3


def test_the_last_admin_stays(appliance: Appliance) -> None:
    with appliance.store.reading() as session:
        admin = session.query(User).filter_by(name="admin").one().id
    for body in ({"role": "viewer"}, {"disabled": True}):
        assert appliance.request("PATCH", f"/users/{admin}", body).status_code == 409
    assert appliance.request("DELETE", f"/users/{admin}").status_code == 409
    assert appliance.get(f"/users/{admin}")["role"] == "admin"


def test_a_disabled_user_is_out_at_once(appliance: Appliance) -> None:
    with appliance.store.reading() as session:
        viewer = session.query(User).filter_by(name="viewer").one().id
    cookie = {"Cookie": log_in(appliance, "viewer").headers["Set-Cookie"].split(";")[0]}
    client = appliance.application.test_client(use_cookies=False)
    assert client.get("/api/v1/pools", headers=cookie).status_code == 200
    assert appliance.request("GET", "/pools", role="viewer").status_code == 200
    assert appliance.request("PATCH", f"/users/{viewer}", {"disabled": True}).status_code == 200
    assert appliance.request("GET", "/pools", role="viewer").status_code == 401
    assert client.get("/api/v1/pools", headers=cookie).status_code == 401
    assert appliance.request("PATCH", f"/users/{viewer}", {"disabled": False}).status_code == 200
    assert client.get("/api/v1/pools", headers=cookie).status_code == 401, "the session does not come back with the user"


def test_secrets_are_never_returned(appliance: Appliance) -> None:
    body = {"name": "esx1", "iqns": ["iqn.1998-01.com.vmware:esx1"], "chap": {"name": "esx1", "secret": "a very secret secret"}}
    created = appliance.request("POST", "/hosts", body)
    assert created.status_code == 201 and created.json is not None
    appliance.request("POST", "/users", {"name": "other", "role": "viewer", "password": "another good password"})
    recorded = "".join(
        appliance.request("GET", path).text
        for path in ("/hosts", "/users", "/audit?limit=500", "/jobs", f"/hosts/{created.json['id']}")
    )
    assert "a very secret" not in recorded and "another good" not in recorded and "argon2" not in recorded
    assert b"a very secret" not in appliance.configuration.database.read_bytes()


def test_a_database_that_cannot_be_written_can_be_read(appliance: Appliance) -> None:
    with appliance.store.session() as session:
        session.execute(update(Token).values(used_at=time.time() - 120))

    def full(_: Connection) -> None:
        raise OperationalError("COMMIT", None, sqlite3.OperationalError("database or disk is full"))

    event.listen(appliance.store.engine, "commit", full)
    try:
        assert appliance.request("GET", "/status").status_code == 200
    finally:
        event.remove(appliance.store.engine, "commit", full)
