# SPDX-License-Identifier: Apache-2.0
"""Logins at an OpenID Connect provider."""

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from simulators.appliance import PASSWORD, Appliance
from support.authority import Authority
from support.oidc_provider import SECRET, Provider, key, provider
from werkzeug.test import TestResponse

from appliance.api.certificate import ensure
from appliance.database.models import AuditEntry, LoginFailure, LoginSession, Token, User
from appliance.tls import context_for

ORIGIN = "https://localhost:8443"
EXTERNAL = "https://storage.example"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Provider]:
    with provider(tmp_path, f"{ORIGIN}/login/oidc", f"{EXTERNAL}/login/oidc") as server:
        yield server


@pytest.fixture
def ready(appliance: Appliance, server: Provider) -> Appliance:
    """With a certificate for localhost, and the provider set up."""
    ensure(appliance.configuration.http.certificate.parent)
    set_up(appliance, server.settings())
    return appliance


def set_up(appliance: Appliance, settings: dict[str, object]) -> None:
    answer = appliance.request("PUT", "/settings/oidc", settings)
    assert answer.status_code == 200, answer.text


class Browser:
    """A tab of the console: what it stores, and its cookie."""

    def __init__(self, appliance: Appliance) -> None:
        self.client = appliance.application.test_client()
        self.begun: Any = None

    def begin(self, origin: str = ORIGIN) -> TestResponse:
        answer = self.client.get("/api/v1/session/oidc", query_string={"origin": origin})
        self.begun = answer.json
        return answer

    def at_provider(self, server: Provider, user: str) -> dict[str, str]:
        """Logs in there. What the provider sends the browser back with."""
        with httpx.Client(verify=trusting(server), timeout=60) as client:
            answer = client.get(f"{self.begun['url']}&user={user}")
        assert answer.status_code == 302, answer.text
        return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items()}

    def complete(self, back: dict[str, str]) -> TestResponse:
        body = {"binding": self.begun["binding"], "state": back["state"], "code": back["code"]}
        return self.client.post("/api/v1/session/oidc", json=body, environ_base={"REMOTE_ADDR": "192.0.2.7"})

    def log_in(self, server: Provider, user: str) -> TestResponse:
        assert self.begin().status_code == 200, self.begun
        return self.complete(self.at_provider(server, user))


def trusting(server: Provider) -> Any:
    return context_for(server.authority)


def test_a_claim_gives_the_role(ready: Appliance, server: Provider) -> None:
    assert ready.request("GET", "/session/logins", role="").json == {"appliance": socket.gethostname(), "oidc": "Example"}
    for name, role in {"anna": "admin", "olga": "viewer"}.items():
        browser = Browser(ready)
        answer = browser.log_in(server, name)
        assert answer.status_code == 201 and answer.json is not None, answer.text
        assert (answer.json["name"], answer.json["role"], answer.json["source"]) == (name, role, "oidc")
        whoami = browser.client.get("/api/v1/session").json
        assert whoami is not None and whoami["csrf_token"] == answer.json["csrf_token"]
        assert browser.client.get("/api/v1/users").status_code == (200 if role == "admin" else 403)
    with ready.store.reading() as session:
        assert {user.password_hash for user in session.query(User).filter_by(source="oidc")} == {None}


def test_the_request_to_the_provider_has_pkce_state_and_nonce(ready: Appliance) -> None:
    browser, other = Browser(ready), Browser(ready)
    sent = {}
    for tab in (browser, other):
        tab.begin()
        sent = {name: values[0] for name, values in parse_qs(urlsplit(tab.begun["url"]).query).items()}
        assert sent["redirect_uri"] == f"{ORIGIN}/login/oidc" and sent["code_challenge_method"] == "S256"
        assert sent["response_type"] == "code" and "openid" in sent["scope"].split()
        assert not {sent["nonce"], SECRET} & {tab.begun["binding"], tab.begun["state"]}
    assert browser.begun["state"] != other.begun["state"] == sent["state"]


def test_a_login_is_of_the_browser_that_began_it(ready: Appliance, server: Provider) -> None:
    victim, attacker = Browser(ready), Browser(ready)
    victim.begin()
    attacker.begin()
    back = attacker.at_provider(server, "anna")
    assert victim.complete(back).status_code == 401
    assert victim.complete({**back, "state": victim.begun["state"]}).status_code == 401, "PKCE binds the code"
    victim.begun = {**victim.begun, "binding": "x" * 100}
    assert victim.complete(back).status_code == 401


def test_a_code_counts_once_and_not_for_long(ready: Appliance, server: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser(ready)
    browser.begin()
    back = browser.at_provider(server, "anna")
    assert browser.complete(back).status_code == 201
    assert browser.complete(back).status_code == 401
    browser.begin()
    back = browser.at_provider(server, "anna")
    monkeypatch.setattr("appliance.api.sessions._OIDC_S", -1)
    assert browser.complete(back).status_code == 401


@pytest.mark.parametrize(
    "claims",
    [{"aud": "other"}, {"iss": "https://other.example"}, {"nonce": "other"}, {"exp": 1},
     {"aud": ["zvaai", "other"], "azp": "other"}, {"iat": 4102444800}],
    ids=["audience", "issuer", "nonce", "expired", "party", "of the future"],
)  # fmt: skip
def test_an_id_token_for_somebody_else_is_refused(ready: Appliance, server: Provider, claims: dict[str, object]) -> None:
    server.claims = claims
    refused = Browser(ready).log_in(server, "anna")
    assert refused.status_code == 401 and refused.json is not None and "ID token" in refused.json["detail"]


def test_an_id_token_of_another_key_is_refused_counted_and_audited(ready: Appliance, server: Provider) -> None:
    server.signing = key()
    refused = Browser(ready).log_in(server, "anna")
    assert refused.status_code == 401 and refused.json is not None and "ID token" in refused.json["detail"]
    with ready.store.reading() as session:
        entry = session.query(AuditEntry).filter_by(action="session.begin").one()
        assert (entry.status, entry.actor, entry.subject, entry.name, entry.after) == (401, "", "", "", None)
        assert {failure.count for failure in session.query(LoginFailure)} == {1}
    server.published = server.signing
    assert Browser(ready).log_in(server, "anna").status_code == 201, "keys are read anew"


def test_who_has_no_role_is_refused(ready: Appliance, server: Provider) -> None:
    refused = Browser(ready).log_in(server, "stranger")
    assert refused.status_code == 403 and refused.json is not None
    assert refused.json["detail"] == "no group of this user has a role here"


@pytest.mark.parametrize("claims", [{"roles": "storage"}, {"realm": {"roles": ["x", "storage"]}}, {"realm.roles": ["storage"]}])
def test_a_claim_may_be_a_text_or_in_an_object(ready: Appliance, server: Provider, claims: dict[str, object]) -> None:
    set_up(ready, server.settings(claim="roles" if "roles" in claims else "realm.roles"))
    server.claims = claims
    answer = Browser(ready).log_in(server, "stranger")
    assert answer.json is not None and answer.json["role"] == "admin"


def test_the_subject_is_the_user_whatever_the_name(ready: Appliance, server: Provider) -> None:
    first = Browser(ready).log_in(server, "anna").json
    server.claims = {"preferred_username": "anna.new"}
    renamed = Browser(ready).log_in(server, "anna").json
    assert first is not None and renamed is not None
    assert (renamed["user"], renamed["name"]) == (first["user"], "anna.new")
    assert Browser(ready).log_in(server, "olga").status_code == 401, "the name is another subject's"
    server.claims = {"preferred_username": "admin"}
    assert Browser(ready).log_in(server, "olga").status_code == 401, "the name is a local user's"


def test_users_log_in_after_their_provider_got_another_address(ready: Appliance, server: Provider, tmp_path: Path) -> None:
    """They get other identifiers. The former users would keep the names."""
    first = Browser(ready).log_in(server, "anna").json
    set_up(ready, server.settings(name="Other"))
    same = Browser(ready).log_in(server, "anna").json
    (tmp_path / "moved").mkdir()
    with provider(tmp_path / "moved", f"{ORIGIN}/login/oidc") as moved:
        set_up(ready, moved.settings())
        answer = Browser(ready).log_in(moved, "anna")
    assert answer.status_code == 201 and answer.json is not None, answer.text
    assert first is not None and same is not None and first["user"] == same["user"] != answer.json["user"]
    assert [user["id"] for user in ready.get("/users")["items"] if user["source"] == "oidc"] == [answer.json["user"]]


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://evil.example", 409), ("https://localhost.evil.example", 409), ("https://localhost:x", 409),
     ("http://localhost", 422), ("https://localhost/path", 422), ("https://a@localhost", 422)],
)  # fmt: skip
def test_the_browser_comes_back_to_names_of_the_certificate_only(ready: Appliance, origin: str, status: int) -> None:
    assert Browser(ready).begin(origin).status_code == status


def test_the_external_url_is_another_name(ready: Appliance, server: Provider) -> None:
    assert Browser(ready).begin(EXTERNAL).status_code == 409
    set_up(ready, server.settings(external_url=EXTERNAL))
    browser = Browser(ready)
    assert browser.begin(EXTERNAL).status_code == 200
    assert browser.complete(browser.at_provider(server, "anna")).status_code == 201


def test_a_provider_of_another_authority_is_refused_and_one_that_is_down_leaves_passwords(
    ready: Appliance, server: Provider, tmp_path: Path
) -> None:
    set_up(ready, server.settings(certificate=Authority("other").certificate))
    tested = ready.request("POST", "/settings/oidc/test").json
    assert tested is not None and "certificate verify failed" in tested["problem"]
    refused = Browser(ready).begin()
    assert refused.status_code == 503
    with provider(tmp_path) as gone:
        set_up(ready, gone.settings())
        assert ready.request("POST", "/settings/oidc/test").json == {"problem": None}
    assert ready.request("POST", "/settings/oidc/test").json != {"problem": None}
    body = {"name": "admin", "password": PASSWORD}
    assert Browser(ready).client.post("/api/v1/session", json=body).status_code == 201


def test_metadata_of_another_issuer_are_refused(ready: Appliance, server: Provider) -> None:
    issuer, server.issuer = server.issuer, f"{server.issuer}/other"
    set_up(ready, {**server.settings(), "issuer": issuer})
    tested = ready.request("POST", "/settings/oidc/test").json
    assert tested is not None and "issuer" in tested["problem"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"issuer": "http://provider.example"}, "issuer"),
        ({"issuer": "https://provider.example/#x"}, "issuer"),
        ({"external_url": "https://storage.example/path"}, "external_url"),
        ({"certificate": "no certificate"}, "certificate"),
        ({"admin": []}, "admin"),
    ],
)
def test_settings_are_checked(shared: Appliance, wrong: dict[str, object], field: str) -> None:
    right = {"name": "Example", "issuer": "https://provider.example", "client_id": "zvaai", "admin": ["storage"]}
    refused = shared.request("PUT", "/settings/oidc", {**right, **wrong})
    assert refused.status_code == 422 and refused.json is not None, refused.text
    assert refused.json["errors"][0]["field"] == field


def test_the_secret_is_sealed_and_the_provider_goes_with_its_users(ready: Appliance, server: Provider) -> None:
    with closing(sqlite3.connect(ready.store.path)) as connection:
        assert SECRET not in "".join(connection.iterdump())
    assert SECRET not in str(ready.get("/settings/oidc"))
    set_up(ready, server.settings(secret=None, claim="groups", viewer=[]))
    browser = Browser(ready)
    assert browser.log_in(server, "anna").status_code == 201
    assert ready.request("DELETE", "/settings/oidc").status_code == 200
    assert browser.client.get("/api/v1/session").status_code == 401
    assert [user for user in ready.get("/users")["items"] if user["source"] == "oidc"] == []
    assert Browser(ready).begin().status_code == 409
    assert ready.get("/session/logins", role="")["oidc"] is None


def test_a_fresh_login_makes_a_token_of_half_a_day(ready: Appliance, server: Provider) -> None:
    """Such a user has no password, and the cookie of an old login does not suffice."""
    browser = Browser(ready)
    begun = browser.log_in(server, "anna").json
    assert begun is not None
    headers = {"X-CSRF-Token": begun["csrf_token"]}

    def made(**more: object) -> TestResponse:
        body = {"name": "command", "scope": "operator", "days": 90, **more}
        return browser.client.post("/api/v1/tokens", json=body, headers=headers)

    assert made(password="anything at all").status_code == 422
    answer = made()
    assert answer.status_code == 201 and answer.json is not None
    ready.tokens["anna"] = answer.json["secret"]
    assert ready.get("/session", role="anna")["role"] == "operator"
    with ready.store.session() as session:
        (token,) = session.query(Token).filter_by(name="command")
        assert token.expires_at - token.created_at == pytest.approx(12 * 3600)
        for login in session.query(LoginSession).filter_by(user_id=begun["user"]):
            login.created_at -= 601
    late = made()
    assert late.status_code == 409 and "log in again" in late.text
    assert ready.request("DELETE", "/settings/oidc").status_code == 200
    assert ready.request("GET", "/session", role="anna").status_code == 401
