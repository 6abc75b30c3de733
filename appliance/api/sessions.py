# SPDX-License-Identifier: Apache-2.0
"""The first start, logging in and out."""

import json
import socket
import time
from urllib.parse import urlsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.schemas.common import EmptyResponse
from appliance.api.schemas.people import (
    LoginsResponse,
    OidcLoginCreate,
    OidcLoginResponse,
    OidcQuery,
    PasswordUpdate,
    SessionCreate,
    SessionResponse,
    SetupCreate,
    SetupResponse,
    SetupStateResponse,
    TotpCodesResponse,
    TotpResponse,
    TotpUpdate,
    UserResponse,
)
from appliance.database.models import User
from appliance.domain import access, logins, sealed_copy, second_factor
from appliance.domain.access import Role
from appliance.domain.certificate import describe
from appliance.domain.errors import ConflictError, ForbiddenError, InvalidError, UnauthenticatedError
from appliance.domain.logins import DIRECTORY, OIDC
from appliance.domain.secrets import SealedError
from appliance.login import directory, oidc
from appliance.login.directory import Person

resource = Resource("sessions")
_WRONG = "the name or the password is wrong"
_CHANGED = "an admin has changed how you log in; log in again"
_NO_ROLE = "no group of this user has a role here"
_OIDC_S = 600
"""Time for a login at the provider."""


@resource.operation("GET", "/setup", role=None)
def read_setup(call: Call, session: Session) -> SetupStateResponse:
    """Whether the first admin is still to be made."""
    return SetupStateResponse(needed=access.setup_needed(session))


@resource.operation("POST", "/setup", role=None, audit="setup", status=201)
def set_up(call: Call, body: SetupCreate) -> SetupResponse:
    """Makes the first admin, with the one-time code that `zvaai setup` prints on the server."""
    store = call.context.store
    with store.session() as session:
        access.count_attempt(session, "setup", call.address)
    with store.session() as session:
        access.check_setup(session, body.code)
        access.forget_failures(session, "setup", call.address)
    password_hash = access.new_password(body.name, body.password)
    with call.changing() as session:
        user = access.set_up(session, body.code, body.name, password_hash)
        key = sealed_copy.new_recovery_key(session, call.context.seal)
        response = SetupResponse.model_validate({**vars(user_response(user)), "recovery_key": key})
    call.context.configuration.setup_code.unlink(missing_ok=True)
    call.changed()
    return response


@resource.operation("POST", "/setup/administrator", role=None, audit="setup.administrator")
def reset_administrator(call: Call, body: SetupCreate) -> UserResponse:
    """Gives an admin a new password and turns two-factor login off, with a code that root writes on the server.

    Ends the admin's sessions and tokens.
    """
    file = call.context.configuration.reset_code
    try:
        access.check_reset(file, body.code)
    except UnauthenticatedError:  # only wrong codes wait: others at this address must not delay root
        with call.context.store.session() as session:
            access.count_attempt(session, "setup", call.address)
        raise
    password_hash = access.new_password(body.name, body.password)
    with call.changing() as session:
        user = access.reset_admin(session, body.name, password_hash)
        response = user_response(user)
    file.unlink(missing_ok=True)
    call.subject = user.name
    return response


@resource.operation("POST", "/session", role=None, audit="session.begin", status=201)
def log_in(call: Call, body: SessionCreate) -> SessionResponse:
    """Logs in: sets the session's cookie and returns the CSRF token."""
    store = call.context.store
    with store.session() as session:
        access.count_attempt(session, body.name, call.address)
    with store.reading() as session:
        user, settings = session.scalar(select(User).where(User.name == body.name)), logins.read(session, DIRECTORY)
    person = None
    if user is None or user.source != logins.LOCAL:
        person = _in_directory(call, settings, body.name, body.password)
    elif not access.check_password(user, body.password):
        # The audit has no name of it: what was typed there may be a password.
        raise UnauthenticatedError(_WRONG)
    if person is not None:
        call.subject = person.name
        if person.role is None:
            raise ForbiddenError(_NO_ROLE)
        with store.reading() as session:
            user = logins.known(session, DIRECTORY, person.name)
    if user is not None and user.totp_secret is not None and body.code is None:
        with store.session() as session:
            access.forget_failure_of_address(session, body.name, call.address)
        raise InvalidError("code", "it is missing: this user has two-factor login", "the code of the app, or a recovery code")
    with call.changing() as session:  # the checks took time, in which an admin may have ended what they prove
        if person is not None and person.role is not None:
            if logins.read(session, DIRECTORY) != settings:
                raise UnauthenticatedError(_CHANGED)
            user = logins.admit(session, DIRECTORY, person.name, person.role)
        assert user is not None
        if person is None and getattr(session.get(User, user.id), "password_hash", None) != user.password_hash:
            raise UnauthenticatedError(_CHANGED)
        call.subject = user.name
        second_factor.check(session, call.context.seal, user.id, body.code or "")
        access.forget_failures(session, body.name, call.address)
        cookie = access.begin_session(session, user.id, call.address)
    return _begun(call, user, cookie)


def _begun(call: Call, user: User, cookie: str) -> SessionResponse:
    call.cookies.append((cookie, access.SESSION_LONGEST_S))
    fields = {"user": user.id, "name": user.name, "role": user.role, "source": user.source}
    return SessionResponse.model_validate({**fields, "csrf_token": access.csrf_token(cookie)})


@resource.operation("GET", "/session/logins", role=None)
def read_logins(call: Call, session: Session) -> LoginsResponse:
    """The appliance's name, and the logins that the login page offers in addition to name and password."""
    return LoginsResponse(appliance=socket.gethostname(), oidc=logins.read(session, OIDC).get("name"))


@resource.operation("GET", "/session/oidc", role=None, conflicts=True)
def begin_oidc(call: Call, query: OidcQuery) -> OidcLoginResponse:
    """Begins a login at the OIDC provider, which sends the browser back to the console at `origin`. Stores nothing."""
    with call.context.store.reading() as session:
        settings = _oidc_settings(call, session)
    if query.origin != settings["external_url"]:
        try:
            names = describe(call.context.configuration.http.certificate).names
        except (OSError, ValueError):
            names = []
        if not oidc.is_https(query.origin) or urlsplit(query.origin).hostname not in [name.lower() for name in names]:
            raise ConflictError("the console has another name than its certificate: use a name of it, or set the external URL")
    begun = oidc.begin(settings, settings["secret"], query.origin + oidc.CALLBACK)
    login_state = [begun.state, begun.nonce, begun.verifier, query.origin, time.time()]
    return OidcLoginResponse(url=begun.url, state=begun.state, binding=call.context.seal.seal(json.dumps(login_state)))


@resource.operation("POST", "/session/oidc", role=None, audit="session.begin", status=201)
def complete_oidc(call: Call, body: OidcLoginCreate) -> SessionResponse:
    """Logs in with the code of the OIDC provider: sets the session's cookie and returns the CSRF token."""
    with call.context.store.session() as session:
        access.count_attempt(session, OIDC, call.address)
        settings = _oidc_settings(call, session)
    try:
        state, nonce, verifier, origin, at = json.loads(call.context.seal.open(body.binding))
    except (SealedError, ValueError, TypeError) as error:
        raise UnauthenticatedError("this browser has begun no such login") from error
    if state != body.state or not at <= time.time() <= at + _OIDC_S:
        raise UnauthenticatedError("this browser has begun no such login, or more than 10 minutes ago; log in again")
    begun = oidc.Begun("", state, nonce, verifier)
    person = oidc.complete(settings, settings["secret"], origin + oidc.CALLBACK, body.code, begun)
    call.subject = person.name
    if person.role is None:
        raise ForbiddenError(_NO_ROLE)
    with call.changing() as session:
        if _oidc_settings(call, session) != settings:
            raise UnauthenticatedError(_CHANGED)
        user = logins.admit(session, OIDC, person.name, person.role, person.id)
        access.forget_failures(session, OIDC, call.address)
        cookie = access.begin_session(session, user.id, call.address)
    return _begun(call, user, cookie)


def _oidc_settings(call: Call, session: Session) -> logins.Settings:
    """With the secret in the clear. Raises ConflictError if there are none."""
    settings = logins.read(session, OIDC)
    if not settings:
        raise ConflictError("no OIDC provider is set up")
    return {**settings, "secret": logins.secret_of(call.context.seal, OIDC, settings)}


@resource.operation("GET", "/session", role=Role.VIEWER)
def read_session(call: Call) -> SessionResponse:
    """The caller: user, role and session."""
    token = access.csrf_token(call.request.cookie or "") if call.who.cookie else None
    with call.context.store.reading() as session:
        source = access.user(session, call.who.user_id).source
    return SessionResponse.model_validate(
        {"user": call.who.user_id, "name": call.who.name, "role": call.who.role.label, "source": source, "csrf_token": token}
    )


@resource.operation("DELETE", "/session", role=Role.VIEWER, audit="session.end")
def log_out(call: Call) -> EmptyResponse:
    """Logs out. API tokens stay valid."""
    with call.changing() as session:
        access.end_session(session, call.who.credential)
    call.cookies.append(("", 0))
    return EmptyResponse()


@resource.operation("POST", "/session/password", role=Role.VIEWER, audit="session.password")
def change_password(call: Call, body: PasswordUpdate) -> EmptyResponse:
    """Changes the caller's password. Ends the user's other sessions, and the tokens if `end_tokens` is set."""
    _check_scope(call)
    confirm_password(call, body.current, "current")
    password_hash = access.new_password(call.who.name, body.new)
    with call.changing() as session:
        access.change_user(
            session,
            call.who.user_id,
            password_hash=password_hash,
            end_tokens=body.end_tokens,
            retained_session=call.who.credential,
        )
    return EmptyResponse()


@resource.operation("GET", "/session/totp", role=Role.VIEWER)
def read_totp(call: Call) -> TotpResponse:
    """The caller's two-factor login, and a new secret to turn it on with. Nothing is stored."""
    with call.context.store.reading() as session:
        user = access.user(session, call.who.user_id)
    secret = second_factor.new_secret()
    return TotpResponse(
        enabled=user.totp_secret is not None,
        recovery_codes_left=len(user.recovery_codes),
        secret=secret,
        uri=second_factor.uri(secret, user.name, socket.gethostname()),
    )


@resource.operation("PUT", "/session/totp", role=Role.VIEWER, audit="session.totp")
def change_totp(call: Call, body: TotpUpdate) -> TotpCodesResponse:
    """Turns the caller's two-factor login on or off. API tokens do not need it."""
    _check_scope(call)
    confirm_password(call, body.password, "password")
    codes: list[str] = []
    with call.changing() as session:
        if body.secret is None:
            second_factor.disable(session, call.who.user_id)
        else:
            codes = second_factor.enable(session, call.context.seal, call.who.user_id, body.secret, body.code or "")
    return TotpCodesResponse(enabled=body.secret is not None, recovery_codes=codes)


def _check_scope(call: Call) -> None:
    """A token that is limited to a smaller role changes no login of its owner. Raises ForbiddenError."""
    with call.context.store.reading() as session:
        if call.who.role < Role.of(access.user(session, call.who.user_id).role):
            raise ForbiddenError("this token may do less than its user; use the console, or log in again with zvaai login")


def _in_directory(call: Call, settings: logins.Settings, name: str, password: str) -> Person:
    """Raises UnauthenticatedError, UnavailableError."""
    person = None
    if settings:
        person = directory.authenticate(settings, logins.secret_of(call.context.seal, DIRECTORY, settings), name, password)
    elif access.check_password(None, password):  # takes as long as with a user
        raise AssertionError
    if person is None:
        raise UnauthenticatedError(_WRONG)
    return person


def user_response(user: User) -> UserResponse:
    fields = {name: getattr(user, name) for name in ("id", "name", "role", "source", "disabled", "created_at")}
    return UserResponse.model_validate({**fields, "totp": user.totp_secret is not None})


def confirm_password(call: Call, password: str, field: str) -> None:
    """Checks the password of the logged-in caller. Raises InvalidError, TooManyError."""
    store = call.context.store
    with store.session() as session:
        access.count_attempt(session, call.who.name, call.address)
        user, settings = access.user(session, call.who.user_id), logins.read(session, DIRECTORY)
    try:
        if user.source == DIRECTORY:
            _in_directory(call, settings, user.name, password)
        elif not access.check_password(user, password):
            raise UnauthenticatedError
    except UnauthenticatedError as error:
        raise InvalidError(field, "this is not your password") from error
    with store.session() as session:
        access.forget_failures(session, call.who.name, call.address)
