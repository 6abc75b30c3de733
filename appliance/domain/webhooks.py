# SPDX-License-Identifier: Apache-2.0
"""Webhooks: where alerts are sent to, what is to be sent, and when it is tried again. Who sends is appliance.notify.

What is to be sent is in the database since the same transaction that raised the alert: it is sent at least once, with an
identifier by which a receiver knows what it has had before.
"""

from __future__ import annotations

import base64
import json
import random
import secrets
import time
import uuid
from urllib.parse import urlsplit

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from appliance.database.models import Alert, Webhook, WebhookDelivery
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.secrets import Seal, is_sealed

SEVERITIES = ("info", "warning", "critical")
WEBHOOKS = 16
WAITING = 1000
"""Of one destination; beyond that the oldest are dropped."""
KEPT = 200
"""Ended deliveries of one destination."""
PENDING, DELIVERED, FAILED, DROPPED, TESTING = "pending", "delivered", "failed", "dropped", "testing"
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5, 3600
_GIVEN_UP_AFTER_S = 86400
_REFUSALS = 10
"""Answers from 300 to 499 say that it won't do better; that a receiver is being set up may last so many tries."""
_LONGEST_TEXT = 2000
_TEST_S = 300
"""No test takes so long."""


def webhook(session: Session, webhook_id: str) -> Webhook:
    """By its identifier. Raises NotFoundError."""
    found = session.get(Webhook, webhook_id)
    if found is None:
        raise NotFoundError("webhook", webhook_id)
    return found


def check_url(url: str, plain_allowed: bool) -> None:
    """Where it may go by its form; by its address is looked at each time it is sent. Raises InvalidError."""
    allowed = "https://HOST[:PORT]/PATH" + (
        ", http:// to trusted networks" if plain_allowed else "; http:// where [webhooks] trusted_networks says so"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidError("url", str(error), allowed) from error
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidError("url", "it has characters that no URL has", allowed)
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise InvalidError("url", "not the URL of a receiver", allowed)
    if parts.scheme == "http" and not plain_allowed:
        raise InvalidError("url", "it would go unencrypted", allowed)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidError("url", "it has a user or a fragment", allowed)


def url_of(seal: Seal, hook: Webhook) -> str:
    """Where it leads. Raises SealedError."""
    return seal.open(hook.url) if is_sealed(hook.url) else hook.url


def seal_urls(session: Session, seal: Seal) -> None:
    """Those that were written before URLs were sealed."""
    for hook in session.scalars(select(Webhook)):
        if not is_sealed(hook.url):
            hook.url = seal.seal(hook.url)


def new_secret() -> str:
    """As Standard Webhooks have it: 256 bits."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def add(
    session: Session, seal: Seal, *, name: str, url: str, severity: str, certificate: str | None, enabled: bool
) -> tuple[Webhook, str]:
    """A new one, and its secret, which is told this once."""
    _check_name(session, name, None)
    if (session.scalar(select(func.count()).select_from(Webhook)) or 0) >= WEBHOOKS:
        raise ConflictError(f"there are {WEBHOOKS} webhooks already")
    secret = new_secret()
    added = Webhook(
        id=str(uuid.uuid4()), name=name, url=seal.seal(url), severity=severity, certificate=certificate, enabled=enabled,
        secret=seal.seal(secret), created_at=time.time(),
    )  # fmt: skip
    session.add(added)
    session.flush()
    return added, secret


def check_name(session: Session, name: str, own: str) -> None:
    """Of one that gets another name. Raises ConflictError."""
    _check_name(session, name, own)


def _check_name(session: Session, name: str, own: str | None) -> None:
    taken = session.scalar(select(Webhook.id).where(Webhook.name == name))
    if taken is not None and taken != own:
        raise ConflictError("the name is taken", [name])


def announce(session: Session, kind: str, alert: Alert) -> None:
    """An alert was raised, changed or cleared: to be sent to all who want those of its severity."""
    if alert.id is None:
        session.flush()
    event, now = str(uuid.uuid4()), time.time()
    for hook in session.scalars(select(Webhook).where(Webhook.enabled.is_(True))):
        own = alert.key.startswith(f"{area(hook.id)}:")  # that it can't be reached it needs not be told
        if not own and SEVERITIES.index(alert.severity) >= SEVERITIES.index(hook.severity):
            _queue(session, hook.id, event, kind, _body(event, kind, now, alert), now)


def _body(event: str, kind: str, now: float, alert: Alert) -> str:
    told = {
        name: getattr(alert, name)
        for name in ("id", "key", "severity", "subject", "raised_at", "cleared_at", "acknowledged_at", "acknowledged_by")
    }
    told |= {"text": alert.text[:_LONGEST_TEXT], "remedy": alert.remedy[:_LONGEST_TEXT]}
    return json.dumps({"id": event, "type": kind, "timestamp": now, "data": told})


def _queue(session: Session, webhook_id: str, event: str, kind: str, body: str, now: float) -> None:
    own = select(WebhookDelivery).where(WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.state == PENDING)
    waiting = session.scalar(select(func.count()).select_from(own.subquery())) or 0
    if waiting >= WAITING:
        for surplus in session.scalars(own.order_by(WebhookDelivery.id).limit(waiting - WAITING + 1)):
            surplus.state, surplus.ended_at, surplus.problem = DROPPED, now, f"more than {WAITING} wait"
    session.add(
        WebhookDelivery(
            webhook_id=webhook_id, event=event, kind=kind, body=body, state=PENDING, attempts=0, created_at=now, due_at=now
        )
    )


def begin_test(session: Session, webhook_id: str) -> WebhookDelivery:
    """A delivery that is tried once, by who asked for it."""
    hook, event, now = webhook(session, webhook_id), str(uuid.uuid4()), time.time()
    for old in session.scalars(
        select(WebhookDelivery).where(
            WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.state == TESTING, WebhookDelivery.created_at < now - _TEST_S
        )
    ):
        old.state, old.ended_at, old.problem = FAILED, now, "who sent it died"
    body = json.dumps({"id": event, "type": "test", "timestamp": now, "data": {"text": f"a test of the webhook {hook.name}"}})
    made = WebhookDelivery(
        webhook_id=webhook_id, event=event, kind="test", body=body, state=TESTING, attempts=0, created_at=now, due_at=now
    )
    session.add(made)
    session.flush()
    return made


def next_deliveries(session: Session, now: float) -> list[int]:
    """Of each destination the oldest that waits, where it is due: a destination is sent to in order."""
    oldest = select(func.min(WebhookDelivery.id)).where(WebhookDelivery.state == PENDING).group_by(WebhookDelivery.webhook_id)
    chosen = (
        select(WebhookDelivery.id)
        .join(Webhook, Webhook.id == WebhookDelivery.webhook_id)
        .where(WebhookDelivery.id.in_(oldest), WebhookDelivery.due_at <= now, Webhook.enabled.is_(True))
    )
    return list(session.scalars(chosen))


def ended(session: Session, delivery_id: int, status: int | None, problem: str | None, now: float) -> WebhookDelivery | None:
    """How a try ended; None when its webhook was deleted meanwhile."""
    tried = session.get(WebhookDelivery, delivery_id)
    if tried is None:
        return None
    tried.attempts += 1
    tried.status, tried.problem = status, problem
    refused = status is not None and 300 <= status < 500 and status not in (408, 429)
    tried.refusals = tried.refusals + 1 if refused else 0
    if problem is None:
        tried.state, tried.ended_at = DELIVERED, now
    elif (
        tried.state == TESTING or now - tried.created_at > _GIVEN_UP_AFTER_S or tried.refusals >= _REFUSALS
    ):  # fmt: skip
        tried.state, tried.ended_at = FAILED, now
    else:
        tried.due_at = now + min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(tried.attempts - 1, 16)) * random.uniform(0.8, 1.2)
    session.flush()
    if tried.ended_at is not None:
        old = (
            select(WebhookDelivery.id)
            .where(WebhookDelivery.webhook_id == tried.webhook_id, WebhookDelivery.ended_at.is_not(None))
            .order_by(WebhookDelivery.id.desc())
            .offset(KEPT)
        )
        session.execute(delete(WebhookDelivery).where(WebhookDelivery.id.in_(old)))
    return tried


def last(session: Session, webhook_id: str) -> WebhookDelivery | None:
    """The newest delivery that was tried."""
    return session.scalar(
        select(WebhookDelivery)
        .where(WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.attempts > 0)
        .order_by(WebhookDelivery.id.desc())
        .limit(1)
    )


def waiting(session: Session, webhook_id: str) -> int:
    """How many wait."""
    chosen = select(func.count()).select_from(WebhookDelivery)
    return session.scalar(chosen.where(WebhookDelivery.webhook_id == webhook_id, WebhookDelivery.state == PENDING)) or 0


def area(webhook_id: str) -> str:
    """Of the alerts that tell that it can't be reached."""
    return f"webhook-{webhook_id}"
