# SPDX-License-Identifier: Apache-2.0
"""Logins at a directory."""

from typing import Annotated

from pydantic import Field

from appliance.api.schemas.people import RoleName
from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Model

Certificate = Annotated[str, Field(max_length=65536)]
Dn = Annotated[str, Field(min_length=1, max_length=512)]
Groups = Annotated[list[Dn], Field(max_length=16)]
Secret = Annotated[str, Field(min_length=1, max_length=1024)]
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

    `servers` are `ldaps://HOST[:636]` or, with `start_tls`, `ldap://HOST[:389]`; the first one that answers is used. `filter`
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


class DirectoryTest(Model):
    """A login name to look up, without its password."""

    name: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class DirectoryTestResponse(Answer):
    """Result of a test. `dn`, `groups` and `role` are of the login name: null if the directory has none, or no role for it."""

    problem: str | None
    dn: str | None = None
    groups: list[str] = []
    role: RoleName | None = None
