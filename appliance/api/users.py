# SPDX-License-Identifier: Apache-2.0
"""Users and API tokens."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource
from appliance.api.pages import page
from appliance.api.schemas.common import EmptyResponse, ListQuery, Page
from appliance.api.schemas.people import (
    TokenCreate,
    TokenResponse,
    TokenSecretResponse,
    UserCreate,
    UserResponse,
    UserUpdate,
)
from appliance.api.sessions import confirm_password, user_response
from appliance.database.models import Token, User
from appliance.domain import access
from appliance.domain.access import Role

resource = Resource("users")


@resource.operation("GET", "/users", role=Role.ADMIN)
def list_users(call: Call, session: Session, query: ListQuery) -> Page[UserResponse]:
    """All users."""
    users = session.scalars(select(User).order_by(User.name)).all()
    return page(UserResponse, users, query, lambda user: user.name, user_response)


@resource.operation("POST", "/users", role=Role.ADMIN, audit="user.create", status=201)
def create_user(call: Call, body: UserCreate) -> UserResponse:
    """A new user."""
    password_hash = access.new_password(body.name, body.password)
    with call.changing() as session:
        return user_response(access.add_user(session, body.name, Role.of(body.role), password_hash))


@resource.operation("GET", "/users/<user_id>", role=Role.ADMIN)
def read_user(call: Call, session: Session, user_id: str) -> UserResponse:
    """One user."""
    return user_response(access.user(session, user_id))


@resource.operation("PATCH", "/users/<user_id>", role=Role.ADMIN, audit="user.change", matches=True)
def change_user(call: Call, user_id: str, body: UserUpdate) -> UserResponse:
    """Changes role, password or `disabled`. `end_tokens` ends the user's tokens, `reset_totp` two-factor login."""
    with call.context.store.reading() as session:
        name = access.user(session, user_id).name
    role = Role.of(body.role) if body.role else None
    password_hash = access.new_password(name, body.password) if body.password is not None else None
    with call.changing() as session:
        call.match(user_response(access.user(session, user_id)))
        changed = access.change_user(
            session, user_id, role=role, password_hash=password_hash, disabled=body.disabled, end_tokens=body.end_tokens,
            reset_totp=body.reset_totp,
        )  # fmt: skip
        return user_response(changed)


@resource.operation("DELETE", "/users/<user_id>", role=Role.ADMIN, audit="user.delete", matches=True)
def delete_user(call: Call, session: Session, user_id: str) -> EmptyResponse:
    """With sessions and tokens."""
    call.match(user_response(access.user(session, user_id)))
    access.delete_user(session, user_id)
    return EmptyResponse()


@resource.operation("GET", "/tokens", role=Role.VIEWER)
def list_tokens(call: Call, session: Session, query: ListQuery) -> Page[TokenResponse]:
    """One's own API tokens."""
    tokens = session.scalars(select(Token).where(Token.user_id == call.who.user_id).order_by(Token.id)).all()
    return page(TokenResponse, tokens, query, lambda token: token.id)


@resource.operation("POST", "/tokens", role=Role.VIEWER, audit="token.create", status=201)
def create_token(call: Call, body: TokenCreate) -> TokenSecretResponse:
    """Creates a token for the caller. Its secret is in this response and never shown again."""
    if body.password is not None:
        confirm_password(call, body.password, "password")
    confirmed, lifetime_s = body.password is not None, body.days * 86400
    with call.changing() as session:
        token, secret = access.add_token(session, call.who, body.name, Role.of(body.scope), lifetime_s, confirmed=confirmed)
        session.flush()
        shown = {name: getattr(token, name) for name in TokenResponse.model_fields}
        return TokenSecretResponse.model_validate({**shown, "secret": secret})


@resource.operation("DELETE", "/tokens/<token_id>", role=Role.VIEWER, audit="token.delete")
def delete_token(call: Call, session: Session, token_id: str) -> EmptyResponse:
    """A token of one's own; an admin deletes those of others too."""
    access.delete_token(session, call.who, token_id)
    return EmptyResponse()
