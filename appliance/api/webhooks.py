# SPDX-License-Identifier: Apache-2.0
"""Webhooks: where alerts are sent to. For admins only: a URL may be a secret, and the appliance goes where it leads."""

from __future__ import annotations

import ssl
import time
from typing import Any

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.api.operation import Call, Resource, before_number, newest_first, page
from appliance.api.schemas.common import Empty, ListQuery
from appliance.api.schemas.webhooks import (
    DeliveryPage,
    DeliveryTold,
    WebhookAsked,
    WebhookChange,
    WebhookMade,
    WebhookPage,
    WebhookTold,
)
from appliance.database.models import Webhook, WebhookDelivery
from appliance.domain import webhooks
from appliance.domain.access import Role
from appliance.domain.errors import InvalidError
from appliance.domain.journal import settle
from appliance.domain.secrets import Seal, SealedError
from appliance.notify.sender import Sender

resource = Resource("webhooks")


def _told(session: Session, seal: Seal, hook: Webhook) -> dict[str, Any]:
    try:
        url = webhooks.url_of(seal, hook)
    except SealedError:
        url = "(its key is gone: set it anew)"
    return {
        **{column.key: getattr(hook, column.key) for column in Webhook.__table__.columns if column.key not in ("secret", "url")},
        "url": url,
        "last_delivery": webhooks.last(session, hook.id),
        "waiting": webhooks.waiting(session, hook.id),
    }


def _check(call: Call, url: str, certificate: str | None = None) -> None:
    webhooks.check_url(url, bool(call.services.configuration.webhooks.trusted_networks))
    if certificate is not None:
        try:
            ssl.create_default_context(cadata=certificate)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidError("certificate", f"not a certificate: {error}", "PEM") from error


@resource.operation("GET", "/webhooks", role=Role.ADMIN, query=ListQuery, answer=WebhookPage)
def list_webhooks(call: Call, query: ListQuery) -> BaseModel:
    """All of them, with how their last delivery ended."""
    with call.services.store.reading() as session:
        found = [_told(session, call.services.seal, hook) for hook in session.scalars(select(Webhook).order_by(Webhook.name))]
    return WebhookPage.model_validate(page(found, query, lambda one: str(one["name"])))


@resource.operation(
    "POST", "/webhooks", role=Role.ADMIN, audit="webhook.create", body=WebhookAsked, answer=WebhookMade, status=201
)
def create_webhook(call: Call, body: WebhookAsked) -> BaseModel:
    """A new one. Its secret is told in this answer and never again."""
    _check(call, body.url, body.certificate)
    with call.changing() as session:
        hook, secret = webhooks.add(session, call.services.seal, **body.model_dump())
        told = WebhookMade.model_validate({**_told(session, call.services.seal, hook), "secret": secret})
    call.subject = told.id
    return told


@resource.operation("GET", "/webhooks/<webhook_id>", role=Role.ADMIN, answer=WebhookTold)
def read_webhook(call: Call, webhook_id: str) -> BaseModel:
    """One of them."""
    with call.services.store.reading() as session:
        return WebhookTold.model_validate(_told(session, call.services.seal, webhooks.webhook(session, webhook_id)))


@resource.operation(
    "PATCH",
    "/webhooks/<webhook_id>",
    role=Role.ADMIN,
    audit="webhook.change",
    body=WebhookChange,
    answer=WebhookTold,
    matches=True,
)
def change_webhook(call: Call, webhook_id: str, body: WebhookChange) -> BaseModel:
    """What is given. What waits goes to where it leads from then on."""
    if body.url is not None:
        _check(call, body.url)
    with call.changing() as session:
        hook = webhooks.webhook(session, webhook_id)
        call.match(WebhookTold.model_validate(_told(session, call.services.seal, hook)))
        if body.name is not None:
            webhooks.check_name(session, body.name, webhook_id)
        for name, value in body.model_dump(exclude_none=True).items():
            setattr(hook, name, call.services.seal.seal(value) if name == "url" else value)
        if body.enabled is False:  # nobody tries it, so nobody would find that it is reached again
            settle(session, webhooks.area(webhook_id), [])
        session.flush()
        return WebhookTold.model_validate(_told(session, call.services.seal, hook))


@resource.operation("DELETE", "/webhooks/<webhook_id>", role=Role.ADMIN, audit="webhook.delete", answer=Empty, matches=True)
def delete_webhook(call: Call, webhook_id: str) -> BaseModel:
    """With what waits for it."""
    with call.changing() as session:
        hook = webhooks.webhook(session, webhook_id)
        call.match(WebhookTold.model_validate(_told(session, call.services.seal, hook)))
        session.delete(hook)
        settle(session, webhooks.area(webhook_id), [])
    return Empty()


@resource.operation(
    "POST", "/webhooks/<webhook_id>/secret", role=Role.ADMIN, audit="webhook.secret", answer=WebhookMade, status=201, matches=True
)
def renew_secret(call: Call, webhook_id: str) -> BaseModel:
    """A new secret, told in this answer and never again; the one before holds no longer."""
    with call.changing() as session:
        hook, secret = webhooks.webhook(session, webhook_id), webhooks.new_secret()
        call.match(WebhookTold.model_validate(_told(session, call.services.seal, hook)))
        hook.secret = call.services.seal.seal(secret)
        return WebhookMade.model_validate({**_told(session, call.services.seal, hook), "secret": secret})


@resource.operation("POST", "/webhooks/<webhook_id>/test", role=Role.ADMIN, audit="webhook.test", answer=DeliveryTold)
def test_webhook(call: Call, webhook_id: str) -> BaseModel:
    """Sends something now, once, and tells how it ended; it takes up to 20 s."""
    services = call.services
    with services.store.session() as session:
        begun = webhooks.begin_test(session, webhook_id).id
    trusted = services.configuration.webhooks.trusted_networks
    Sender(services.store, services.seal, trusted).one(begun, time.time())
    with services.store.reading() as session:
        found = session.get(WebhookDelivery, begun)
        if found is None:
            webhooks.webhook(session, webhook_id)
        return DeliveryTold.model_validate(found)


@resource.operation("GET", "/webhooks/<webhook_id>/deliveries", role=Role.ADMIN, query=ListQuery, answer=DeliveryPage)
def list_deliveries(call: Call, webhook_id: str, query: ListQuery) -> BaseModel:
    """What was sent and is to be, the newest first; of those that ended the newest 200 are kept."""
    with call.services.store.reading() as session:
        webhooks.webhook(session, webhook_id)
        chosen = (
            select(WebhookDelivery)
            .where(WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.id < before_number(query))
            .order_by(WebhookDelivery.id.desc())
            .limit(query.limit + 1)
        )
        return DeliveryPage.model_validate(newest_first(session.scalars(chosen), query, lambda one: one.id))
