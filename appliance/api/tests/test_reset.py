# SPDX-License-Identifier: Apache-2.0
"""Root gives an administrator a new password."""

import time

from simulators.appliance import PASSWORD, Appliance
from sqlalchemy import delete
from werkzeug.test import TestResponse

from appliance.database.models import User
from appliance.domain import second_factor

NEW_PASSWORD = "battery staple 8"  # noqa: S105
CODE = "0123456789abcdef"


def reset(appliance: Appliance, name: str = "admin", code: str = CODE, password: str = NEW_PASSWORD) -> TestResponse:
    body = {"code": code, "name": name, "password": password}
    return appliance.application.test_client().post("/api/v1/setup/administrator", json=body)


def log_in(appliance: Appliance, name: str, password: str) -> int:
    response = appliance.application.test_client().post("/api/v1/session", json={"name": name, "password": password})
    return response.status_code


def test_a_lost_password_and_a_lost_app_are_replaced(appliance: Appliance) -> None:
    """Sessions and tokens that were created with the old password end."""
    secret = appliance.get("/session/totp")["secret"]
    code = second_factor.code_of(secret, int(time.time() // 30))
    assert appliance.request("PUT", "/session/totp", {"password": PASSWORD, "secret": secret, "code": code}).status_code == 200
    file = appliance.service.context.configuration.reset_code
    file.write_text(f"{CODE}\n")
    answer = reset(appliance)
    assert answer.status_code == 200 and answer.json is not None, answer.text
    assert (answer.json["role"], answer.json["totp"]) == ("admin", False)
    assert not file.exists() and reset(appliance).status_code == 401, "a code counts once"
    assert (log_in(appliance, "admin", NEW_PASSWORD), log_in(appliance, "admin", PASSWORD)) == (201, 401)
    assert appliance.request("GET", "/users").status_code == 401


def test_a_user_without_the_role_becomes_an_administrator(appliance: Appliance) -> None:
    viewer = next(user["id"] for user in appliance.get("/users")["items"] if user["name"] == "viewer")
    assert appliance.request("PATCH", f"/users/{viewer}", {"disabled": True}).status_code == 200
    for name in ("viewer", "somebody new"):
        appliance.service.context.configuration.reset_code.write_text(CODE)
        answer = reset(appliance, name)
        assert answer.status_code == 200 and answer.json is not None and answer.json["role"] == "admin", answer.text
        assert log_in(appliance, name, NEW_PASSWORD) == 201


def test_without_the_file_of_root_nothing_changes(appliance: Appliance) -> None:
    file = appliance.service.context.configuration.reset_code
    assert reset(appliance).status_code == 401 and reset(appliance, code="").status_code == 401
    file.write_text("")
    assert reset(appliance, code="").status_code == 401
    file.write_text("another code")
    assert reset(appliance).status_code == 401
    assert file.exists() and appliance.request("GET", "/users").status_code == 200


def test_the_first_administrator_is_made_by_the_first_start(appliance: Appliance) -> None:
    """It has the recovery key."""
    with appliance.store.session() as session:
        session.execute(delete(User))
    appliance.service.context.configuration.reset_code.write_text(CODE)
    assert reset(appliance).status_code == 409 and appliance.get("/setup") == {"needed": True}


def test_guesses_wait(appliance: Appliance) -> None:
    appliance.service.context.configuration.reset_code.write_text("another code")
    assert [reset(appliance).status_code for _ in range(8)][-1] == 429


def test_wrong_logins_from_the_same_address_do_not_delay_it(appliance: Appliance) -> None:
    assert [log_in(appliance, f"user{number}", "wrong") for number in range(25)][-1] == 429 == reset(appliance).status_code
    appliance.service.context.configuration.reset_code.write_text(CODE)
    assert reset(appliance).status_code == 200
