# SPDX-License-Identifier: Apache-2.0
"""The first start, sessions, users, tokens."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Model, Name, Password, Time

Code = Annotated[str, Field(min_length=1, max_length=64)]
RoleName = Literal["viewer", "operator", "admin"]
Source = Literal["local", "directory", "oidc"]


class SetupStateResponse(Answer):
    """Whether the first admin is still to be made."""

    needed: bool


class SetupCreate(Model):
    """The first admin, with the one-time code that `zvaai setup` prints on the server."""

    code: str = Field(max_length=64)
    name: Name
    password: Password


class SessionCreate(Model):
    """A user's name and password; with two-factor login also `code`, of the app or for recovery."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    password: Password
    code: Code | None = None


class SessionResponse(Answer):
    """The logged-in user. `csrf_token` goes into the header X-CSRF-Token of what changes something; null for API tokens."""

    user: str
    name: str
    role: RoleName
    source: Source
    """Where the user's password is."""
    csrf_token: str | None


class LoginsResponse(Answer):
    """Public facts, for the login page."""

    appliance: str
    """Name of the server."""
    oidc: str | None
    """Name of the OIDC provider, for the button."""


class OidcQuery(Model):
    """`origin` of the console as the browser has it: `https://HOST:PORT`."""

    origin: Annotated[str, Field(max_length=300, pattern=r"^https://[A-Za-z0-9.:\[\]-]+$")]


class OidcLoginResponse(Answer):
    """A login that begins at `url` of the provider. It is completed with `binding`, which the browser stores in this tab."""

    url: str
    state: str
    binding: str


class OidcLoginCreate(Model):
    """The login that comes back with `state` and `code`, to the browser that has `binding`."""

    binding: Annotated[str, Field(min_length=1, max_length=2048)]
    state: Annotated[str, Field(min_length=1, max_length=128)]
    code: Annotated[str, Field(min_length=1, max_length=4096)]


class UserResponse(Versioned):
    """A user."""

    id: str
    name: str
    role: RoleName
    source: Source
    """Where the user's password is; of another source than `local` the role is that of the last login."""
    disabled: bool
    totp: bool
    """Whether the user logs in with a second factor."""
    created_at: Time


class SetupResponse(UserResponse):
    """The first admin."""

    recovery_key: str
    """Opens the copies of the configuration on pools. Shown once; the appliance does not store it."""


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
    reset_totp: bool = False
    """Turns the user's two-factor login off: for a lost app."""


class PasswordUpdate(Model):
    """One's own password."""

    current: Password
    new: Password
    end_tokens: bool = False
    """One's API tokens end too."""


class TotpResponse(Answer):
    """One's own two-factor login. `secret` and `uri` are a new suggestion in each response, to turn it on."""

    enabled: bool
    recovery_codes_left: int
    secret: str
    uri: str
    """The secret as apps scan it: otpauth."""


class TotpUpdate(Model):
    """Turns two-factor login on, with a secret and its present code; without a secret off."""

    password: Password
    """One's own."""
    secret: Annotated[str, Field(max_length=64)] | None = None
    code: Code | None = None


class TotpCodesResponse(Answer):
    """Two-factor login after the change."""

    enabled: bool
    recovery_codes: list[str]
    """Each logs in once in place of a code. Shown only now."""


class TokenResponse(Answer):
    """An API token. Its secret is returned once, when it is created."""

    id: str
    name: str
    scope: RoleName
    created_at: Time
    expires_at: Time
    used_at: Time | None


class TokenCreate(Model):
    """A new token of one's own."""

    name: Name
    scope: RoleName
    days: int = Field(ge=1, le=366)
    password: Password | None = None
    """One's own. Without it a session makes none, and a token none that lives longer than itself. Users of an OIDC provider have
    no password: they create tokens within 10 minutes after a login. Tokens of users of a provider or directory end after 12 h.
    """


class TokenSecretResponse(TokenResponse):
    """With its secret, for the header `Authorization: Bearer SECRET`."""

    secret: str
