# SPDX-License-Identifier: Apache-2.0
"""The first start, sessions, users, tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer, Model, Name, Password, Time, Versioned

RoleName = Literal["viewer", "operator", "admin"]


class SetupState(Answer):
    """Whether the first admin is still to be made."""

    needed: bool


class SetupCreate(Model):
    """The first admin, with the one-time code that the server printed."""

    code: str = Field(max_length=64)
    name: Name
    password: Password


class SessionCreate(Model):
    """A user's name and password."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Password


class SessionResponse(Answer):
    """The logged-in user. `csrf_token` goes into the header X-CSRF-Token of what changes something; null for API tokens."""

    user: str
    name: str
    role: RoleName
    csrf_token: str | None


class UserResponse(Versioned):
    """A user."""

    id: str
    name: str
    role: RoleName
    disabled: bool
    created_at: Time


class SetupResponse(UserResponse):
    """The first admin."""

    recovery_key: str
    """Opens the copies of the configuration on pools. Shown once; the appliance does not store it."""


class UserPage(Answer):
    """Users."""

    items: list[UserResponse]
    next_cursor: str | None


class UserCreate(Model):
    """A new user."""

    name: Name
    role: RoleName
    password: Password


class UserUpdate(Model):
    """Fields to change."""

    role: RoleName | None = None
    password: Password | None = None
    disabled: bool | None = None
    end_tokens: bool = False
    """All the user's API tokens end; sessions end with a new password anyway."""


class PasswordUpdate(Model):
    """One's own password."""

    current: Password
    new: Password
    end_tokens: bool = False
    """One's API tokens end too."""


class TokenResponse(Answer):
    """An API token. Its secret is returned once, when it is created."""

    id: str
    name: str
    scope: RoleName
    created_at: Time
    expires_at: Time
    used_at: Time | None


class TokenPage(Answer):
    """Tokens."""

    items: list[TokenResponse]
    next_cursor: str | None


class TokenCreate(Model):
    """A new token of one's own."""

    name: Name
    scope: RoleName
    days: int = Field(ge=1, le=366)
    password: Password | None = None
    """One's own. Without it a session makes none, and a token none that lives longer than itself."""


class TokenCreated(TokenResponse):
    """With its secret, for the header `Authorization: Bearer SECRET`."""

    secret: str
