# SPDX-License-Identifier: Apache-2.0
"""Logins at a directory and at an OIDC provider."""

from typing import Annotated

from pydantic import Field

from appliance.api.schemas.people import RoleName
from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Model, Name

Certificate = Annotated[str, Field(max_length=65536)]
Dn = Annotated[str, Field(min_length=1, max_length=512)]
Groups = Annotated[list[Dn], Field(max_length=16)]
Scope = Annotated[str, Field(pattern=r"^[!#-\[\]-~]{1,64}$")]
"""RFC 6749, 3.3."""
Secret = Annotated[str, Field(min_length=1, max_length=1024)]
Value = Annotated[str, Field(min_length=1, max_length=256)]
Values = Annotated[list[Value], Field(max_length=16)]
Url = Annotated[str, Field(min_length=8, max_length=512)]


class DirectoryResponse(Versioned):
    """Settings of the directory. Without servers, only users of the appliance log in."""

    servers: list[str] = []
    start_tls: bool = True
    certificate: str | None = None
    bind_dn: str | None = None
    base: str = ""
    filter: str = "(uid={login})"
    admin: list[str] = []
    operator: list[str] = []
    viewer: list[str] = []


class DirectoryUpdate(Model):
    """Logins by an LDAP directory.

    `servers` are `ldaps://HOST[:636]` or, with `start_tls`, `ldap://HOST[:389]`; the first server that responds is used. `filter`
    finds a user below `base`: `{login}` is the name that was typed. `admin`, `operator` and `viewer` are groups with this role.
    """

    servers: Annotated[list[Url], Field(min_length=1, max_length=4)]
    start_tls: bool = True
    certificate: Certificate | None = None
    """Certificate of the authority that signs the servers', as PEM; without, the system's authorities are trusted."""
    bind_dn: Dn | None = None
    """The appliance searches as this entry; without, anonymously."""
    password: Secret | None = None
    """Password of the bind DN. Omit it to keep the stored one; not possible if servers, certificate or bind DN change."""
    base: Dn
    filter: Annotated[str, Field(min_length=1, max_length=512)] = "(uid={login})"
    admin: Groups = Field(default_factory=list)
    operator: Groups = Field(default_factory=list)
    viewer: Groups = Field(default_factory=list)


class DirectoryTestCreate(Model):
    """A login name to look up, without its password."""

    name: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class DirectoryTestResponse(Answer):
    """Result of a test. `dn`, `groups` and `role` are of the login name: null if the directory has none, or no role for it."""

    problem: str | None
    dn: str | None = None
    groups: list[str] = []
    role: RoleName | None = None


class OidcResponse(Versioned):
    """Settings of the OIDC provider. Without an issuer nobody logs in there."""

    name: str = ""
    issuer: str = ""
    certificate: str | None = None
    client_id: str = ""
    scopes: list[str] = []
    claim: str = "groups"
    external_url: str | None = None
    admin: list[str] = []
    operator: list[str] = []
    viewer: list[str] = []


class OidcUpdate(Model):
    """Logins by OpenID Connect.

    `name` is on the button. The claim `claim` of the ID token has the values of `admin`, `operator` and `viewer`; a dot leads
    into an object. The provider must know the redirect URI `https://HOST:PORT/login/oidc`. HOST is a name of the appliance's
    certificate, or it is in `external_url`.
    """

    name: Name
    issuer: Url
    certificate: Certificate | None = None
    """Certificate of the authority that signs the provider's, as PEM; without, the system's authorities are trusted."""
    client_id: Value
    secret: Secret | None = None
    """Secret of the client. Omit it to keep the stored one; not possible if issuer, certificate or client change."""
    scopes: Annotated[list[Scope], Field(max_length=8)] = Field(default_factory=list)
    """Scopes in addition to openid, profile and email."""
    claim: Value = "groups"
    external_url: Url | None = None
    admin: Values = Field(default_factory=list)
    operator: Values = Field(default_factory=list)
    viewer: Values = Field(default_factory=list)


class OidcTestResponse(Answer):
    """Result of a test."""

    problem: str | None
