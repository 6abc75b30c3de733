# SPDX-License-Identifier: Apache-2.0
"""Two-factor login: codes of an app, recovery codes, delays after wrong codes, reset by an admin."""

import base64
import json
import time
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from simulators.appliance import PASSWORD, Appliance
from werkzeug.test import TestResponse

from appliance.database.models import AuditEntry, IdempotencyKey, User
from appliance.domain import second_factor

RFC_SECRET = base64.b32encode(b"12345678901234567890").decode()
"""RFC 6238, appendix B; RFC 4226, appendix D."""


@pytest.mark.parametrize(
    ("at", "code"),
    [(59, "287082"), (1111111109, "081804"), (1111111111, "050471"), (1234567890, "005924"), (20000000000, "353130")],
)
def test_codes_are_those_of_the_standard(at: int, code: str) -> None:
    assert second_factor.code_of(RFC_SECRET, at // 30) == code


def log_in(appliance: Appliance, code: str | None = None, address: str = "192.0.2.1", password: str = PASSWORD) -> TestResponse:
    body = {"name": "operator", "password": password} | ({} if code is None else {"code": code})
    return appliance.application.test_client().post("/api/v1/session", json=body, environ_base={"REMOTE_ADDR": address})


class App:
    """An authenticator app, and the clock of both sides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        self.secret = ""
        monkeypatch.setattr(second_factor, "_now", lambda: self.now)

    def code(self, steps: int = 0) -> str:
        return second_factor.code_of(self.secret, int(self.now // 30) + steps)


def turn_on(appliance: Appliance, app: App, role: str = "operator") -> list[str]:
    """The recovery codes."""
    offered = appliance.request("GET", "/session/totp", role=role).json
    assert offered is not None and not offered["enabled"]
    app.secret = offered["secret"]
    body = {"password": PASSWORD, "secret": app.secret, "code": app.code()}
    answer = appliance.request("PUT", "/session/totp", body, role=role)
    assert answer.status_code == 200 and answer.json is not None and answer.json["enabled"], answer.text
    return list(answer.json["recovery_codes"])


def test_a_token_of_a_smaller_role_changes_no_login(appliance: Appliance, app: App) -> None:
    turn_on(appliance, app)
    body = {"name": "metrics", "scope": "viewer", "days": 1, "password": PASSWORD}
    created = appliance.request("POST", "/tokens", body, role="operator")
    assert created.status_code == 201 and created.json is not None
    client, headers = appliance.application.test_client(), {"Authorization": f"Bearer {created.json['secret']}"}
    assert client.put("/api/v1/session/totp", json={"password": PASSWORD}, headers=headers).status_code == 403
    change = {"current": PASSWORD, "new": "battery staple 8"}
    assert client.post("/api/v1/session/password", json=change, headers=headers).status_code == 403
    app.now += 30
    assert log_in(appliance).status_code == 422 and log_in(appliance, app.code()).status_code == 201


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    return App(monkeypatch)


def test_the_address_for_apps_names_user_and_secret(appliance: Appliance) -> None:
    offered = appliance.get("/session/totp")
    parts = urlsplit(offered["uri"])
    assert (parts.scheme, parts.netloc) == ("otpauth", "totp") and unquote(parts.path).endswith(":admin")
    assert parse_qs(parts.query)["secret"] == [offered["secret"]]
    assert len(base64.b32decode(offered["secret"])) == 20, "RFC 4226, 4: 160 bits"


def test_the_login_demands_a_code_that_is_taken_once(appliance: Appliance, app: App) -> None:
    turn_on(appliance, app)
    missing = log_in(appliance)
    assert missing.status_code == 422 and missing.json is not None
    assert [error["field"] for error in missing.json["errors"]] == ["code"]
    assert log_in(appliance, app.code()).status_code == 401, "it turned two-factor login on"
    app.now += 30
    code = app.code()
    assert log_in(appliance, code).status_code == 201
    assert log_in(appliance, code).status_code == 401, "somebody has seen it"
    assert log_in(appliance, app.code(-1)).status_code == 401, "nor an earlier one"
    assert log_in(appliance, app.code(1)).status_code == 201, "the clock of the app may be ahead"
    app.now += 120
    assert log_in(appliance, app.code(2)).status_code == 401, "by half a minute"
    assert log_in(appliance, "１２３４５６").status_code == 401
    assert log_in(appliance, f" {app.code()[:3]} {app.code()[3:]}").status_code == 201
    assert appliance.request("GET", "/pools", role="operator").status_code == 200, "tokens need no code"


def test_a_wrong_password_says_nothing_of_a_code(appliance: Appliance, app: App) -> None:
    turn_on(appliance, app)
    answer = log_in(appliance, password="wrong")
    assert answer.status_code == 401 and answer.json is not None and answer.json["errors"] == []


def test_a_known_password_permits_no_faster_guesses(appliance: Appliance, app: App) -> None:
    """A right password without a code does not reset the count."""
    turn_on(appliance, app)
    statuses = []
    for guess in range(4):
        statuses += [log_in(appliance).status_code, log_in(appliance, f"{guess:06}").status_code]
    assert statuses == [422, 401, 422, 401, 422, 429, 429, 429]
    app.now += 30
    assert log_in(appliance, app.code()).status_code == 429
    assert log_in(appliance, app.code(), address="192.0.2.2").status_code == 201


def test_many_logins_of_one_network_do_not_lock_it(appliance: Appliance, app: App) -> None:
    """The first half of each is not a failure of the address."""
    turn_on(appliance, app)
    for _ in range(25):
        app.now += 30
        assert log_in(appliance).status_code == 422
        assert log_in(appliance, app.code()).status_code == 201


def test_each_recovery_code_logs_in_once(appliance: Appliance, app: App) -> None:
    codes = turn_on(appliance, app)
    assert len(set(codes)) == second_factor.RECOVERY_CODES
    assert log_in(appliance, codes[0].replace("-", "").upper()).status_code == 201
    assert log_in(appliance, codes[0]).status_code == 401
    assert log_in(appliance, codes[1]).status_code == 201
    left = appliance.request("GET", "/session/totp", role="operator").json
    assert left is not None and left["enabled"] and left["recovery_codes_left"] == second_factor.RECOVERY_CODES - 2


def test_it_is_turned_on_only_with_the_password_and_the_code(appliance: Appliance, app: App) -> None:
    app.secret = appliance.get("/session/totp")["secret"]
    for change, field in (
        ({"password": "wrong"}, "password"),
        ({"code": app.code(9)}, "code"),
        ({"code": None}, "code"),
        ({"secret": "AAAA"}, "secret"),
        ({"secret": "no base32 at all"}, "secret"),
    ):
        body = {"password": PASSWORD, "secret": app.secret, "code": app.code()} | change
        answer = appliance.request("PUT", "/session/totp", body)
        assert answer.status_code == 422 and answer.json is not None, answer.text
        assert [error["field"] for error in answer.json["errors"]] == [field]
    assert not appliance.get("/session/totp")["enabled"]


def test_the_user_turns_it_off_with_the_password(appliance: Appliance, app: App) -> None:
    turn_on(appliance, app)
    assert appliance.request("PUT", "/session/totp", {"password": "wrong"}, role="operator").status_code == 422
    assert log_in(appliance).status_code == 422
    assert appliance.request("PUT", "/session/totp", {"password": PASSWORD}, role="operator").status_code == 200
    assert log_in(appliance).status_code == 201


def test_an_admin_resets_it(appliance: Appliance, app: App) -> None:
    turn_on(appliance, app)
    user = next(user for user in appliance.get("/users")["items"] if user["name"] == "operator")
    assert user["totp"]
    changed = appliance.request("PATCH", f"/users/{user['id']}", {"reset_totp": True})
    assert changed.status_code == 200 and changed.json is not None and not changed.json["totp"]
    assert log_in(appliance).status_code == 201


def test_nothing_that_is_stored_or_shown_has_the_secret(appliance: Appliance, app: App) -> None:
    """Neither database nor audit, nor the stored answers for repeated requests."""
    offered = appliance.request("GET", "/session/totp", role="operator").json
    assert offered is not None
    app.secret = offered["secret"]
    body = {"password": PASSWORD, "secret": app.secret, "code": app.code()}
    answer = appliance.request("PUT", "/session/totp", body, role="operator", Idempotency_Key="once")
    assert answer.json is not None
    codes = answer.json["recovery_codes"]
    with appliance.store.reading() as session:
        (user,) = session.query(User).where(User.name == "operator")
        rows = [str(vars(row)) for kind in (AuditEntry, IdempotencyKey) for row in session.query(kind)]
        stored = f"{vars(user)} {rows}"
    assert app.secret not in stored and not any(code in stored or code.replace("-", "") in stored for code in codes)
    assert app.secret not in str(appliance.get("/users")) + str(appliance.get("/audit"))
    again = appliance.request("PUT", "/session/totp", body, role="operator", Idempotency_Key="once")
    assert again.status_code == 409, "the codes are shown once"


def test_a_restored_configuration_has_it_too(appliance: Appliance, app: App) -> None:
    """Otherwise a backup would turn it off."""
    assert appliance.request("POST", "/configuration/recovery-key").status_code == 200
    turn_on(appliance, app)
    backup = json.dumps(appliance.request("POST", "/configuration/backup", {"password": PASSWORD}).json)
    assert app.secret not in backup
    assert appliance.request("PUT", "/session/totp", {"password": PASSWORD}, role="operator").status_code == 200
    answer = appliance.request("POST", "/recovery", {"file": backup})
    assert answer.status_code == 200, answer.text
    app.now += 60
    assert log_in(appliance).status_code == 422
    assert log_in(appliance, app.code()).status_code == 201
