# SPDX-License-Identifier: Apache-2.0
"""Settings of logins at a directory and at an OIDC provider. For admins only: the appliance connects to where they lead."""

from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.schemas.common import EmptyResponse
from appliance.api.schemas.logins import (
    DirectoryResponse,
    DirectoryTestCreate,
    DirectoryTestResponse,
    DirectoryUpdate,
    OidcResponse,
    OidcTestResponse,
    OidcUpdate,
)
from appliance.domain import logins
from appliance.domain.access import Role
from appliance.domain.errors import DomainError, NotFoundError
from appliance.domain.logins import DIRECTORY, OIDC, SECRETS, Settings
from appliance.login import directory, oidc

resource = Resource("logins")
_BELONGS_TO = {DIRECTORY: ("servers", "start_tls", "certificate", "bind_dn"), OIDC: ("issuer", "certificate", "client_id")}
"""To whom a stored secret is sent: for another it has to be given again."""


def _changed(call: Call, session: Session, name: str, given: Settings) -> Settings:
    """With the stored secret if none is given."""
    secret, stored = SECRETS[name], logins.read(session, name)
    if given[secret] is None and stored and all(stored[field] == given[field] for field in _BELONGS_TO[name]):
        given[secret] = logins.secret_of(call.context.seal, name, stored)
    return given


def _directory(session: Session) -> DirectoryResponse:
    return DirectoryResponse.model_validate(logins.read(session, DIRECTORY))


@resource.operation("GET", "/settings/directory", role=Role.ADMIN)
def read_directory(call: Call, session: Session) -> DirectoryResponse:
    """The directory for logins."""
    return _directory(session)


@resource.operation("PUT", "/settings/directory", role=Role.ADMIN, audit="directory.set", matches=True)
def set_directory(call: Call, session: Session, body: DirectoryUpdate) -> DirectoryResponse:
    """Sets the directory for logins. Ends the sessions and tokens of its users."""
    call.match(_directory(session))
    settings = _changed(call, session, DIRECTORY, body.model_dump())
    directory.check(settings)
    logins.write(session, call.context.seal, DIRECTORY, settings)
    return _directory(session)


@resource.operation("DELETE", "/settings/directory", role=Role.ADMIN, audit="directory.unset", matches=True)
def unset_directory(call: Call, session: Session) -> EmptyResponse:
    """Ends logins at the directory. Deletes its users, with sessions and tokens."""
    call.match(_directory(session))
    logins.remove(session, DIRECTORY)
    return EmptyResponse()


@resource.operation("POST", "/settings/directory/test", role=Role.ADMIN, audit="directory.test")
def test_directory(call: Call, body: DirectoryTestCreate) -> DirectoryTestResponse:
    """Connects, binds and searches, and looks up a login name if one is given. It takes up to 25 s."""
    with call.context.store.reading() as session:
        settings = logins.read(session, DIRECTORY)
    if not settings:
        raise NotFoundError("setting", DIRECTORY)
    try:
        secret = logins.secret_of(call.context.seal, DIRECTORY, settings)
        person = directory.look_up(settings, secret, body.name)
    except DomainError as error:
        return DirectoryTestResponse(problem=str(error))
    if body.name and person is None:
        return DirectoryTestResponse(problem="no entry, or more than one, has this login name")
    if person is None:
        return DirectoryTestResponse(problem=None)
    role = person.role.label if person.role else None
    problem = None if role else "no group of this user has a role"
    return DirectoryTestResponse.model_validate({"problem": problem, "dn": person.dn, "groups": person.groups, "role": role})


def _oidc(session: Session) -> OidcResponse:
    return OidcResponse.model_validate(logins.read(session, OIDC))


@resource.operation("GET", "/settings/oidc", role=Role.ADMIN)
def read_oidc(call: Call, session: Session) -> OidcResponse:
    """The OIDC provider for logins."""
    return _oidc(session)


@resource.operation("PUT", "/settings/oidc", role=Role.ADMIN, audit="oidc.set", matches=True)
def set_oidc(call: Call, session: Session, body: OidcUpdate) -> OidcResponse:
    """Sets the OIDC provider for logins. Ends the sessions of its users. Another issuer deletes the users of the former one."""
    call.match(_oidc(session))
    settings = _changed(call, session, OIDC, body.model_dump())
    oidc.check(settings)
    if logins.read(session, OIDC).get("issuer") != settings["issuer"]:
        logins.remove(session, OIDC)  # they can never log in again, and would keep their names from the new ones
    logins.write(session, call.context.seal, OIDC, settings)
    return _oidc(session)


@resource.operation("DELETE", "/settings/oidc", role=Role.ADMIN, audit="oidc.unset", matches=True)
def unset_oidc(call: Call, session: Session) -> EmptyResponse:
    """Ends logins at the OIDC provider. Deletes its users, with sessions."""
    call.match(_oidc(session))
    logins.remove(session, OIDC)
    return EmptyResponse()


@resource.operation("POST", "/settings/oidc/test", role=Role.ADMIN, audit="oidc.test")
def test_oidc(call: Call) -> OidcTestResponse:
    """Reads the provider's metadata and keys. It takes up to 10 s."""
    with call.context.store.reading() as session:
        settings = logins.read(session, OIDC)
    if not settings:
        raise NotFoundError("setting", OIDC)
    try:
        oidc.test(settings)
    except DomainError as error:
        return OidcTestResponse(problem=str(error))
    return OidcTestResponse(problem=None)
