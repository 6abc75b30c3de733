# SPDX-License-Identifier: Apache-2.0
"""Logins without a password of this appliance: settings of a directory (LDAP) and of an OIDC provider, and the users of both.

Such a user has a row without a password. The role is that of the last login.
"""

import time
import uuid
from collections.abc import Container
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from appliance.database.models import LoginSession, Setting, Token, User
from appliance.domain import access
from appliance.domain.access import Role
from appliance.domain.errors import ConflictError, UnauthenticatedError
from appliance.domain.secrets import Seal, SealedError

LOCAL, DIRECTORY, OIDC = "local", "directory", "oidc"
SECRETS = {DIRECTORY: "password", OIDC: "secret"}
"""The sealed field of each setting."""
Settings = dict[str, Any]


def read(session: Session, name: str) -> Settings:
    """Settings with the sealed secret; empty if the login is not set up."""
    setting = session.get(Setting, name)
    return dict(setting.value) if setting is not None else {}


def secret_of(seal: Seal, name: str, settings: Settings) -> str:
    """Empty if there is none. Raises ConflictError if the key is another one."""
    sealed = settings[SECRETS[name]]
    try:
        return seal.open(sealed) if sealed else ""
    except SealedError as error:
        raise ConflictError(f"the secret of the {name} cannot be opened: {error}; set it again") from error


def write(session: Session, seal: Seal, name: str, settings: Settings) -> None:
    """Replaces the settings, with the secret in the clear. Ends all that logged in by the former ones."""
    end(session, name)
    secret = settings[SECRETS[name]]
    session.merge(Setting(name=name, value={**settings, SECRETS[name]: seal.seal(secret) if secret else None}))


def remove(session: Session, name: str) -> None:
    """With the users of this source."""
    session.execute(delete(Setting).where(Setting.name == name))
    session.execute(delete(User).where(User.source == name))


def end(session: Session, source: str) -> None:
    """Ends sessions and tokens of the users of a source."""
    users = select(User.id).where(User.source == source)
    for table in (LoginSession, Token):
        session.execute(delete(table).where(table.user_id.in_(users)))


def role_of(settings: Settings, groups: Container[str]) -> Role | None:
    """The highest role that one of the groups has; None without one."""
    return next((role for role in reversed(Role) if any(group in groups for group in settings[role.label])), None)


def known(session: Session, source: str, name: str, user_id: str | None = None) -> User | None:
    """The user, if there is one already, by identifier or by name.

    Raises UnauthenticatedError if another user has the name, and for a disabled user.
    """
    named = session.scalar(select(User).where(User.name == name))
    user = session.get(User, user_id) if user_id else named
    if named is not None and (named is not user or named.source != source):
        raise UnauthenticatedError("another user here has this name")
    if user is not None and user.disabled:
        raise UnauthenticatedError("the user is disabled")
    return user


def admit(session: Session, source: str, name: str, role: Role, user_id: str | None = None) -> User:
    """The user with name and role of this login. Raises as `known` does, and ConflictError if there are too many users."""
    user = known(session, source, name, user_id)
    if user is None:
        access.check_room(session)
        user = User(id=user_id or str(uuid.uuid4()), name=name, role=role.label, source=source, created_at=time.time())
        session.add(user)
    user.name, user.role = name, role.label
    session.flush()
    return user
