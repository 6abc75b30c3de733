# SPDX-License-Identifier: Apache-2.0
"""A small OpenID Connect provider on the loopback interface, of authlib's server part. The test chooses the user."""

import contextlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.jose import JsonWebKey
from authlib.oauth2.rfc6749 import ClientMixin, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import OpenIDCode, UserInfo
from cryptography.hazmat.primitives.asymmetric import ec
from flask import Flask, Response, request
from markupsafe import escape
from werkzeug.serving import make_server

from support.authority import Authority, pem_of

CLIENT, SECRET = "zvaai", "the secret of the client"
USERS = {"anna": ["storage", "staff"], "olga": ["staff"], "stranger": ["guests"]}
"""Groups by user."""


@dataclass
class Provider:
    """A running one. What a test sets here goes into the next ID tokens."""

    issuer: str = ""
    authority: str = ""
    redirects: set[str] = field(default_factory=set)
    claims: dict[str, Any] = field(default_factory=dict)
    signing: Any = None
    """Key of ID tokens; the published one unless a test replaces it."""
    published: Any = None
    codes: dict[str, Any] = field(default_factory=dict)

    def settings(self, **other: object) -> dict[str, object]:
        """As the appliance takes them."""
        client = {"name": "Example", "issuer": self.issuer, "certificate": self.authority, "client_id": CLIENT, "secret": SECRET}
        return {**client, "admin": ["storage"], "viewer": ["staff"], **other}


class _Client(ClientMixin):  # type: ignore[misc]  # authlib has no types
    def __init__(self, redirects: set[str]) -> None:
        self._redirects = redirects

    def get_client_id(self) -> str:
        return CLIENT

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, uri: str) -> bool:
        return uri in self._redirects

    def check_client_secret(self, secret: str) -> bool:
        return secret == SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, kind: str) -> bool:
        return kind == "code"

    def check_grant_type(self, kind: str) -> bool:
        return kind == "authorization_code"


@dataclass
class _Code:
    code: str
    user: str
    redirect_uri: str
    scope: str
    nonce: str | None
    code_challenge: str | None
    code_challenge_method: str | None
    auth_time: int | None = None

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int | None:
        return self.auth_time

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


def _application(provider: Provider) -> Flask:
    application = Flask("provider")
    application.secret_key = "test"

    class Grant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic"]

        def save_authorization_code(self, code: str, sent: Any) -> None:
            data = sent.payload.data
            provider.codes[code] = _Code(
                code, sent.user, data["redirect_uri"], data["scope"], data.get("nonce"), data.get("code_challenge"),
                data.get("code_challenge_method"),
            )  # fmt: skip

        def query_authorization_code(self, code: str, client: Any) -> _Code | None:
            return provider.codes.get(code)

        def delete_authorization_code(self, code: _Code) -> None:
            del provider.codes[code.code]

        def authenticate_user(self, code: _Code) -> str:
            return code.user

    class IdToken(OpenIDCode):  # type: ignore[misc]
        def exists_nonce(self, nonce: str, sent: Any) -> bool:
            return False

        def get_jwt_config(self, grant: Any) -> dict[str, Any]:
            return {"key": provider.signing, "alg": "ES256", "iss": provider.issuer, "exp": 60}

        def generate_user_info(self, user: str, scope: str) -> UserInfo:
            info = {"sub": f"subject of {user}", "preferred_username": user, "groups": USERS[user]}
            return UserInfo(**{**info, **provider.claims})

    server = AuthorizationServer(application, query_client=lambda _id: _Client(provider.redirects), save_token=lambda *_: None)
    server.register_grant(Grant, [IdToken(require_nonce=True), CodeChallenge(required=True)])

    @application.get("/.well-known/openid-configuration")
    def metadata() -> dict[str, str]:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        return {"issuer": provider.issuer, **{name: f"{provider.issuer}/{place}" for name, place in places.items()}}

    @application.get("/keys")
    def keys() -> dict[str, Any]:
        return {"keys": [provider.published.as_dict()]}

    @application.get("/authorize")
    def authorize() -> Any:
        user = request.args.get("user")
        if user is not None:
            return server.create_authorization_response(grant_user=user)
        links = "".join(f'<p><a href="{escape(f"{request.full_path}&user={name}")}">{name}</a></p>' for name in USERS)
        return Response(f"<!doctype html><title>Provider</title>{links}", content_type="text/html")

    @application.post("/token")
    def token() -> Any:
        return server.create_token_response()

    return application


def key() -> Any:
    """A new key for ID tokens."""
    return JsonWebKey.generate_key("EC", "P-256", is_private=True)


@contextlib.contextmanager
def provider(folder: Path, *redirects: str) -> Iterator[Provider]:
    authority, tls = Authority(), ec.generate_private_key(ec.SECP256R1())
    (folder / "provider.pem").write_text(authority.sign(tls, "localhost") + pem_of(tls))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "provider.pem")
    signing = key()
    made = Provider(authority=authority.certificate, redirects=set(redirects), signing=signing, published=signing)
    server = make_server("localhost", 0, _application(made), threaded=True, ssl_context=context)
    made.issuer = f"https://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
