# SPDX-License-Identifier: Apache-2.0
"""Logins without a password of this appliance: settings of a directory (LDAP), and the users that come from it.

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

LOCAL, DIRECTORY = "local", "directory"
SECRETS = {DIRECTORY: "password"}
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


def known(session: Session, source: str, name: str) -> User | None:
    """The user, if there is one already. Raises UnauthenticatedError for another source's name, and for a disabled user."""
    user = session.scalar(select(User).where(User.name == name))
    if user is not None and (user.source != source or user.disabled):
        raise UnauthenticatedError("the user is disabled, or is a user of another source")
    return user


def admit(session: Session, source: str, name: str, role: Role) -> User:
    """The user with the role of this login. Raises as `known` does, and ConflictError if there are too many users."""
    user = known(session, source, name)
    if user is None:
        access.check_room(session)
        user = User(id=str(uuid.uuid4()), name=name, role=role.label, source=source, created_at=time.time())
        session.add(user)
    user.role = role.label
    session.flush()
    return user
