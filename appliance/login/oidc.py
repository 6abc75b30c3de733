# SPDX-License-Identifier: Apache-2.0
"""Logins at an OpenID Connect provider: authorization code flow with PKCE (OpenID Connect Core, 3.1; RFC 7636)."""

import contextlib
import functools
import re
import secrets
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.jose import JsonWebKey, JsonWebToken
from authlib.jose.errors import JoseError
from authlib.oidc.core import CodeIDToken

from appliance.domain.access import Role
from appliance.domain.certificate import check_trusted
from appliance.domain.errors import InvalidError, UnauthenticatedError, UnavailableError
from appliance.domain.logins import Settings, role_of
from appliance.tls import context_for

CALLBACK = "/login/oidc"
"""Page of the console that the provider sends the browser back to."""
ANSWER_S = 5
_AT_ONCE = threading.BoundedSemaphore(4)
_METADATA_LIFETIME_S = 300
_DRIFT_S = 60
"""That the clocks may differ."""
_SIGNATURES = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""By a key of the provider. By the client's secret, or none: never."""
_SCOPES = ("openid", "profile", "email")
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]{1,64}")


@dataclass(frozen=True)
class Begun:
    """A login that the browser continues at `url`. The appliance needs the rest to complete it."""

    url: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True)
class Person:
    """A user that the provider knows. `id` stays when `name` changes."""

    id: str
    name: str
    role: Role | None


def check(settings: Settings) -> None:
    """Raises InvalidError for invalid settings."""
    if not is_https(settings["issuer"]) or urlsplit(settings["issuer"]).query:
        raise InvalidError("issuer", "not the address of a provider", "https://HOST/PATH")
    external = settings["external_url"]
    if external is not None and (not is_https(external) or urlsplit(external).path or urlsplit(external).query):
        raise InvalidError("external_url", "not the address of a console", "https://HOST:PORT")
    check_trusted(settings["certificate"])
    if not any(settings[role.label] for role in Role):
        raise InvalidError("admin", "no value has a role, so nobody could log in", "a value of one role at least")


def is_https(url: str) -> bool:
    """Whether it is an https URL without user and fragment."""
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        return False
    return good and not parts.fragment and url.isascii() and url.isprintable() and " " not in url


def begin(settings: Settings, secret: str, redirect: str) -> Begun:
    """Raises UnavailableError."""
    with _bounded(), _client(settings, secret, redirect) as client:
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        endpoint = _metadata(settings)["authorization_endpoint"]
        url, state = client.create_authorization_url(endpoint, secrets.token_urlsafe(32), verifier, nonce=nonce)
        return Begun(str(url), str(state), nonce, verifier)


def complete(settings: Settings, secret: str, redirect: str, code: str, begun: Begun) -> Person:
    """Who has come back with this code. Raises UnauthenticatedError, UnavailableError."""
    with _bounded(), _client(settings, secret, redirect) as client:
        metadata = _metadata(settings)
        try:
            sent = {"code": code, "code_verifier": begun.verifier, "grant_type": "authorization_code"}
            token = client.fetch_token(metadata["token_endpoint"], **sent)
            keys = JsonWebKey.import_key_set(_get(settings["certificate"], metadata["jwks_uri"]))
            claims = JsonWebToken(_SIGNATURES).decode(
                token.get("id_token") or "", keys, claims_cls=CodeIDToken,
                claims_options={"iss": {"essential": True, "value": settings["issuer"]},
                                "aud": {"essential": True, "value": settings["client_id"]}},
                claims_params={"nonce": begun.nonce, "client_id": settings["client_id"], "access_token": token["access_token"]},
            )  # fmt: skip
            claims.validate(leeway=_DRIFT_S)
        except JoseError as error:
            raise UnauthenticatedError(f"the ID token of the provider is not valid: {error}"[:300]) from error
        except (AuthlibBaseError, ValueError, KeyError, TypeError) as error:
            raise UnauthenticatedError(f"the provider refuses the login: {error}"[:300]) from error
    return _person(settings, claims)


def test(settings: Settings) -> None:
    """Reads metadata and keys of the provider. Raises UnavailableError."""
    with _bounded():
        _read_metadata.cache_clear()
        JsonWebKey.import_key_set(_get(settings["certificate"], _metadata(settings)["jwks_uri"]))


def _person(settings: Settings, claims: dict[str, Any]) -> Person:
    name = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
    if not _PRINTABLE.fullmatch(name):
        raise UnauthenticatedError("the provider gives a user name that is longer than 64 characters or not printable")
    claim: Any = claims.get(settings["claim"])
    if claim is None:  # such as realm_access.roles of Keycloak
        claim = claims
        for part in settings["claim"].split("."):
            claim = claim.get(part) if isinstance(claim, dict) else None
    values = [value for value in (claim if isinstance(claim, list) else [claim]) if isinstance(value, str)]
    # Names can change, and go to others (OpenID Connect Core, 5.7).
    identifier = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{settings['issuer']} {claims['sub']}"))
    return Person(identifier, name, role_of(settings, values))


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Raises UnavailableError for what the provider or the network does."""
    if not _AT_ONCE.acquire(blocking=False):
        raise UnavailableError("too many logins wait for the provider; try again")
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, AuthlibBaseError, OSError, ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"the provider does not answer as it should: {error}"[:500]) from error
    finally:
        _AT_ONCE.release()


def _http(certificate: str | None) -> dict[str, Any]:
    return {"verify": context_for(certificate), "timeout": ANSWER_S, "trust_env": False, "follow_redirects": False}


def _client(settings: Settings, secret: str, redirect: str) -> OAuth2Client:
    return OAuth2Client(
        settings["client_id"], secret or None, redirect_uri=redirect, scope=" ".join([*_SCOPES, *settings["scopes"]]),
        code_challenge_method="S256", **_http(settings["certificate"]),
    )  # fmt: skip


def _get(certificate: str | None, url: str) -> Any:
    with httpx.Client(**_http(certificate)) as client:
        return client.get(url).raise_for_status().json()


def _metadata(settings: Settings) -> dict[str, Any]:
    return _read_metadata(settings["issuer"], settings["certificate"], int(time.monotonic() // _METADATA_LIFETIME_S))


@functools.lru_cache(maxsize=4)
def _read_metadata(issuer: str, certificate: str | None, _period: int) -> dict[str, Any]:
    """OpenID Connect Discovery, 4."""
    metadata: dict[str, Any] = _get(certificate, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if metadata["issuer"] != issuer:
        raise ValueError(f"it says that its issuer is {metadata['issuer']}")
    for endpoint in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        if not is_https(metadata[endpoint]):
            raise ValueError(f"its {endpoint} is not an https address")
    return metadata
