# SPDX-License-Identifier: Apache-2.0
"""Access: users and roles, the one-time code of the first start, sessions, API tokens, delays after failed logins."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import secrets
import time
import uuid
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from appliance.database.models import LoginFailure, LoginSession, Setting, Token, User
from appliance.domain import rows, second_factor
from appliance.domain.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, TooManyError, UnauthenticatedError
from appliance.domain.schedule_times import AHEAD_S
from appliance.domain.secrets import digest, hash_password, new_token, password_is

SESSION_IDLE_S = 30 * 60
SESSION_LONGEST_S = 12 * 3600
SESSIONS_PER_USER = 20
TOKENS_PER_USER = 50
USERS = 500
TOKEN_LONGEST_S = 366 * 86400
FRESH_LOGIN_S = 10 * 60
"""After a login at an OIDC provider: so long its user, who has no password, can create tokens."""
PASSWORD_SHORTEST, PASSWORD_LONGEST = 12, 256

# Failed logins of one user from one address, and of one address: how many cause no delay. None locks a user out everywhere.
_FREE = {"pair": 5, "address": 20}
_FIRST_WAIT_S, _LONGEST_WAIT_S = 30, 900
_FORGET_S = 3600
_FAILURES_RETAINED = 10_000


class Role(IntEnum):
    """Each may do what those before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        return self.name.lower()

    @staticmethod
    def of(label: str) -> Role:
        return Role[label.upper()]


@dataclass(frozen=True)
class Caller:
    """The sender of a request. With `cookie` it is a browser's session, which needs the CSRF token."""

    user_id: str
    name: str
    role: Role
    cookie: bool
    credential: str
    """Hash of the session or identifier of the token."""
    token: str | None = None


# --- the first start


def prepare_setup(session: Session, file: Path) -> str | None:
    """Creates the one-time code while no user exists. It is in `file`, of mode 0600; returned when it is new."""
    if session.scalar(select(func.count()).select_from(User)):
        file.unlink(missing_ok=True)
        return None
    stored = session.get(Setting, "setup_code")
    if stored is not None and file.exists() and stored.value["hash"] == _code_digest(file.read_text()):
        return None
    code = "-".join(secrets.token_hex(2) for _ in range(5))
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(f"{code}\n")
    session.merge(Setting(name="setup_code", value={"hash": _code_digest(code)}))
    return code


def _code_digest(code: str) -> str:
    """With or without dashes, however it was typed."""
    return digest(re.sub(r"[\s-]", "", code.lower()))


def setup_needed(session: Session) -> bool:
    return not session.scalar(select(func.count()).select_from(User))


def check_setup(session: Session, code: str) -> Setting:
    """The setting with the code. Raises UnauthenticatedError for a wrong code, ConflictError once the first admin exists."""
    if not setup_needed(session):
        raise ConflictError("the appliance is set up already; log in")
    stored = session.get(Setting, "setup_code")
    if stored is None or not secrets.compare_digest(stored.value["hash"], _code_digest(code)):
        raise UnauthenticatedError("this is not the one-time code; to print it, run on the server, as root: zvaai setup")
    return stored


def set_up(session: Session, code: str, name: str, password_hash: str) -> User:
    """Makes the first admin, once. Raises as `check_setup` does."""
    stored = check_setup(session, code)
    user = add_user(session, name, Role.ADMIN, password_hash)
    session.delete(stored)
    return user


# --- an administrator who cannot log in


def check_reset(file: Path, code: str) -> None:
    """Raises UnauthenticatedError unless `file`, which only root and the service can write, has this code."""
    stored = file.read_text().strip() if file.exists() else ""
    if not stored or not secrets.compare_digest(digest(stored), digest(code)):
        raise UnauthenticatedError("there is no such code; run on the server, as root: zvaai setup --reset-administrator NAME")


def reset_admin(session: Session, name: str, password_hash: str) -> User:
    """Makes the user an admin who can log in with this password alone. Ends the user's sessions and tokens. Raises ConflictError
    before the first start, which also creates the recovery key.
    """
    if setup_needed(session):
        raise ConflictError("the server is not set up yet; run: zvaai setup")
    known = session.scalar(select(User).where(User.name == name))
    if known is None:
        return add_user(session, name, Role.ADMIN, password_hash)
    known.source = "local"
    return change_user(
        session, known.id, role=Role.ADMIN, password_hash=password_hash, disabled=False, end_tokens=True, reset_totp=True
    )


# --- users


def new_password(name: str, password: str) -> str:
    """The hash of a user's new password. Takes long, so not inside a transaction that writes. Raises InvalidError."""
    if not PASSWORD_SHORTEST <= len(password) <= PASSWORD_LONGEST:
        raise InvalidError("password", "it has another length", f"{PASSWORD_SHORTEST} to {PASSWORD_LONGEST} characters")
    if name.lower() in password.lower() or len(set(password)) < 5:
        raise InvalidError("password", "it is easy to guess", "at least 5 different characters, and not the user's name")
    return hash_password(password)


def add_user(session: Session, name: str, role: Role, password_hash: str) -> User:
    rows.check_name(session, User, name, problem="a user has this name")
    check_room(session)
    user = User(id=str(uuid.uuid4()), name=name, role=role.label, password_hash=password_hash, created_at=time.time())
    session.add(user)
    session.flush()
    return user


def check_room(session: Session) -> None:
    """Raises ConflictError if there are too many users."""
    if (session.scalar(select(func.count()).select_from(User)) or 0) >= USERS:
        raise ConflictError(f"there are {USERS} users already")


def user(session: Session, user_id: str) -> User:
    return rows.existing(session, User, user_id, "user")


def change_user(
    session: Session,
    user_id: str,
    *,
    role: Role | None = None,
    password_hash: str | None = None,
    disabled: bool | None = None,
    end_tokens: bool = False,
    reset_totp: bool = False,
    retained_session: str | None = None,
) -> User:
    """
    Changes the given values. A new password, or disabling the user, ends the user's sessions except `retained_session`.

    Raises ConflictError where no admin would be left, and for password and role of a user who has them elsewhere.
    """
    changed = user(session, user_id)
    if changed.source != "local" and (password_hash is not None or role is not None):
        raise ConflictError(f"password and role of this user come from the {changed.source}; change them there")
    if password_hash is not None:
        changed.password_hash = password_hash
    if role is not None:
        changed.role = role.label
    if disabled is not None:
        changed.disabled = disabled
    session.flush()
    _keep_an_admin(session)
    if password_hash is not None or disabled:
        ended = delete(LoginSession).where(LoginSession.user_id == user_id)
        session.execute(ended if retained_session is None else ended.where(LoginSession.hash != retained_session))
    if reset_totp:
        second_factor.disable(session, user_id)
    if end_tokens:
        session.execute(delete(Token).where(Token.user_id == user_id))
    return changed


def delete_user(session: Session, user_id: str) -> None:
    """With its sessions and tokens."""
    session.delete(user(session, user_id))
    session.flush()
    _keep_an_admin(session)


def _keep_an_admin(session: Session) -> None:
    """A user who can log in even if all directories are down."""
    able = (User.role == "admin", User.source == "local", User.disabled.is_(False))
    if not session.scalar(select(func.count()).select_from(User).where(*able)):
        raise ConflictError("the last admin who can log in must remain an admin")


# --- waiting after failures


def _keys(name: str, address: str) -> dict[str, str]:
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address).version == 6:  # one host usually has 2**64 addresses
            address = str(ipaddress.ip_network(f"{address}/64", strict=False))
    return {"pair": f"pair:{digest(name)}:{address}", "address": f"address:{address}"}


def count_attempt(session: Session, name: str, address: str) -> None:
    """Counts an attempt as failed, before its password is checked: attempts at the same time count too. Raises TooManyError."""
    check_wait(session, name, address)
    count_failure(session, name, address)


def forget_failures(session: Session, name: str, address: str) -> None:
    """After an attempt that was counted, and was right."""
    session.execute(delete(LoginFailure).where(LoginFailure.key == _keys(name, address)["pair"]))
    forget_failure_of_address(session, name, address)


def forget_failure_of_address(session: Session, name: str, address: str) -> None:
    """After a right password without the code. It counts for the user: who knows the password guesses codes no faster."""
    keys = _keys(name, address)
    counted = session.get(LoginFailure, keys["address"])
    if counted is not None:
        counted.count, counted.locked_until = max(0, counted.count - 1), 0


def check_wait(session: Session, name: str, address: str) -> None:
    """Raises TooManyError while who failed too often has to wait."""
    now = time.time()
    for key in _keys(name, address).values():
        failure = session.get(LoginFailure, key)
        # Later than any wait lasts: the clock was ahead.
        if failure is not None and now < failure.locked_until <= now + _LONGEST_WAIT_S:
            raise TooManyError("too many failed attempts", max(1, round(failure.locked_until - now)))


def count_failure(session: Session, name: str, address: str) -> None:
    """Counts a failure. After the free ones, each doubles the delay."""
    now = time.time()
    session.execute(delete(LoginFailure).where(LoginFailure.last_at < now - _FORGET_S, LoginFailure.locked_until < now))
    for kind, key in _keys(name, address).items():
        failure = session.get(LoginFailure, key) or LoginFailure(key=key, count=0, last_at=now, locked_until=0)
        failure.count, failure.last_at = failure.count + 1, now
        beyond = failure.count - _FREE[kind]
        if beyond >= 0:
            failure.locked_until = now + min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(beyond, 10))
        session.add(failure)
    session.flush()
    surplus = (session.scalar(select(func.count()).select_from(LoginFailure)) or 0) - _FAILURES_RETAINED
    if surplus > 0:
        oldest = select(LoginFailure.key).order_by(LoginFailure.last_at).limit(surplus)
        session.execute(delete(LoginFailure).where(LoginFailure.key.in_(oldest)))


# --- sessions


def check_password(candidate: User | None, password: str) -> bool:
    """Whether the user may log in with it. Takes long, so not inside a transaction that writes."""
    return (
        password_is(candidate.password_hash if candidate else None, password) and candidate is not None and not candidate.disabled
    )


def begin_session(session: Session, user_id: str, address: str) -> str:
    """A session; its cookie. The oldest of too many end."""
    now = time.time()
    cookie = new_token()
    session.execute(
        delete(LoginSession).where(
            (LoginSession.used_at < now - SESSION_IDLE_S) | (LoginSession.created_at < now - SESSION_LONGEST_S)
        )
    )
    sessions = session.scalars(select(LoginSession).where(LoginSession.user_id == user_id).order_by(LoginSession.used_at.desc()))
    for surplus in list(sessions)[SESSIONS_PER_USER - 1 :]:
        session.delete(surplus)
    session.add(LoginSession(hash=digest(cookie), user_id=user_id, address=address, created_at=now, used_at=now))
    return cookie


def logged_in(session: Session) -> list[str]:
    """Names of the users with a session that has not ended."""
    now = time.time()
    live = (LoginSession.used_at >= now - SESSION_IDLE_S) & (LoginSession.created_at >= now - SESSION_LONGEST_S)
    names = select(User.name).join(LoginSession, LoginSession.user_id == User.id).where(live, ~User.disabled)
    return sorted(set(session.scalars(names)))


def csrf_token(cookie: str) -> str:
    """The CSRF token that a page sends in addition to the cookie. Neither the page nor another site can read the cookie."""
    return digest(f"csrf {cookie}")


def by_cookie(session: Session, cookie: str) -> Caller:
    """The caller of a session cookie. Raises UnauthenticatedError."""
    return _by_session(session, session.get(LoginSession, digest(cookie)))


def _by_session(session: Session, login: LoginSession | None) -> Caller:
    now = time.time()
    newest = now + AHEAD_S  # a session from a clock that was ahead would not end by itself
    if login is None or login.used_at < now - SESSION_IDLE_S or not now - SESSION_LONGEST_S <= login.created_at <= newest:
        raise UnauthenticatedError("the session has ended; log in")
    owner = session.get(User, login.user_id)
    if owner is None or owner.disabled:
        raise UnauthenticatedError("the user is disabled")
    return Caller(owner.id, owner.name, Role.of(owner.role), True, login.hash)


def _credential(session: Session, caller: Caller) -> LoginSession | Token | None:
    return session.get(LoginSession, caller.credential) if caller.cookie else session.get(Token, caller.credential)


def needs_touch(session: Session, caller: Caller) -> bool:
    """Whether to record the use of the session or token: one write a minute suffices."""
    used = _credential(session, caller)
    return used is not None and (used.used_at or 0) < time.time() - 60


def touch(session: Session, caller: Caller) -> None:
    used = _credential(session, caller)
    if used is not None:
        used.used_at = time.time()


def end_session(session: Session, credential: str) -> None:
    session.execute(delete(LoginSession).where(LoginSession.hash == credential))


# --- API tokens

_OF_LOGIN = "zvaai on "
"""Names of tokens that `zvaai login` creates begin with it (cli/overview.py)."""
_TOKEN = re.compile(r"zvaai_([0-9a-f]{32})_([A-Za-z0-9_-]{43})")


def add_token(
    session: Session, caller: Caller, name: str, scope: Role, lifetime_s: int, *, confirmed: bool = False
) -> tuple[Token, str]:
    """A token of the caller's own, and its secret, which is returned only here.

    Unless the password was `confirmed`, a session makes none, and a token none that lives longer than itself. For users of
    OIDC a fresh login confirms. Nobody here learns when a user of another source has left: such a token lives no longer than a
    session. Of too many, a token of `zvaai login` ends the least recently used one of these. Others raise ConflictError.
    """
    now, source = time.time(), user(session, caller.user_id).source
    if caller.cookie and not confirmed:
        if source != "oidc":
            raise InvalidError("password", "a session makes a token with the password only", "your password")
        login = session.get(LoginSession, caller.credential)
        if login is None or login.created_at < now - FRESH_LOGIN_S:
            raise ConflictError("your login is older than 10 minutes; log out, log in again, then create the token")
    if scope > caller.role:
        raise ForbiddenError(f"you are {caller.role.label}: a token of yours can't be {scope.label}")
    longest_s = TOKEN_LONGEST_S if source == "local" else SESSION_LONGEST_S
    expires_at = now + min(lifetime_s, longest_s)
    maker = session.get(Token, caller.credential)
    if maker is not None and not confirmed and expires_at > maker.expires_at:
        raise ForbiddenError("a token makes none that lives longer than itself without the password")
    session.execute(delete(Token).where(Token.user_id == caller.user_id, Token.expires_at < now))
    if (session.scalar(select(func.count()).select_from(Token).where(Token.user_id == caller.user_id)) or 0) >= TOKENS_PER_USER:
        logins = select(Token.id).where(Token.user_id == caller.user_id, Token.name.startswith(_OF_LOGIN))
        unused = session.scalar(logins.order_by(func.coalesce(Token.used_at, Token.created_at)))
        if unused is None or not name.startswith(_OF_LOGIN):
            raise ConflictError(
                f"you have {TOKENS_PER_USER} API tokens already. Delete one: zvaai token delete NAME, or in the console"
            )
        delete_token(session, caller, unused)
    secret = new_token()
    token = Token(
        id=uuid.uuid4().hex, user_id=caller.user_id, name=name, scope=scope.label, hash=digest(secret), created_at=now,
        expires_at=expires_at,
    )  # fmt: skip
    session.add(token)
    return token, f"zvaai_{token.id}_{secret}"


def by_token(session: Session, text: str) -> Caller:
    """The owner of the token, limited to its scope. Raises UnauthenticatedError."""
    match = _TOKEN.fullmatch(text)
    token = session.get(Token, match[1]) if match else None
    if match is None or token is None or not secrets.compare_digest(token.hash, digest(match[2])):
        raise UnauthenticatedError("no such token")
    return _by_token(session, token)


def _by_token(session: Session, token: Token) -> Caller:
    if token.expires_at < time.time():
        raise UnauthenticatedError("the token has expired")
    owner = session.get(User, token.user_id)
    if owner is None or owner.disabled:
        raise UnauthenticatedError("the user is disabled")
    return Caller(owner.id, owner.name, min(Role.of(owner.role), Role.of(token.scope)), False, token.id, token.name)


def again(session: Session, caller: Caller) -> Caller:
    """The present rights of a caller, for work that continues after a request was accepted. Raises UnauthenticatedError."""
    if caller.cookie:
        return _by_session(session, session.get(LoginSession, caller.credential))
    token = session.get(Token, caller.credential)
    if token is None:
        raise UnauthenticatedError("no such token")
    return _by_token(session, token)


def delete_token(session: Session, caller: Caller, token_id: str) -> None:
    """Deletes a token of the caller; an admin can also delete those of others. No token deletes a token that may do more."""
    token = session.get(Token, token_id)
    if token is None or (token.user_id != caller.user_id and caller.role < Role.ADMIN):
        raise NotFoundError("token", token_id)
    if min(Role.of(session.get_one(User, token.user_id).role), Role.of(token.scope)) > caller.role:
        raise ForbiddenError("a token can't delete a token that may do more")
    session.delete(token)
