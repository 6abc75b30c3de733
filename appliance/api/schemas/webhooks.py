# SPDX-License-Identifier: Apache-2.0
"""Where alerts are sent to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer, Model, Name, Time, Versioned

Severity = Literal["info", "warning", "critical"]
Url = Annotated[str, Field(min_length=8, max_length=2048)]
Certificate = Annotated[str, Field(max_length=65536)]


class DeliveryTold(Answer):
    """Something that was sent, or is to be."""

    id: int
    event: str
    """The same in each try: a receiver knows by it what it has had before."""
    kind: str
    state: Literal["pending", "delivered", "failed", "dropped", "testing"]
    attempts: int
    status: int | None
    """Of HTTP, of the last try; null where there was no answer."""
    problem: str | None
    created_at: Time
    due_at: Time
    ended_at: Time | None


class DeliveryPage(Answer):
    """Deliveries, the newest first."""

    items: list[DeliveryTold]
    next_cursor: str | None


class WebhookTold(Versioned):
    """A receiver; its secret is told once, when it is made."""

    MEASURED = frozenset({"last_delivery", "waiting"})
    id: str
    name: str
    url: str
    severity: Severity
    certificate: str | None
    enabled: bool
    created_at: Time
    last_delivery: DeliveryTold | None
    waiting: int
    """Deliveries that are still to be made."""


class WebhookPage(Answer):
    """Webhooks, by name."""

    items: list[WebhookTold]
    next_cursor: str | None


class WebhookAsked(Model):
    """A new receiver of alerts of a severity and above, https unless the configuration trusts its network."""

    name: Name
    url: Url
    severity: Severity = "warning"
    certificate: Certificate | None = None
    """Who signs the receiver's certificate, as PEM; without, who the system trusts."""
    enabled: bool = True


class WebhookChange(Model):
    """What to change."""

    name: Name | None = None
    url: Url | None = None
    severity: Severity | None = None
    enabled: bool | None = None


class WebhookMade(WebhookTold):
    """With its secret, by which the receiver checks the header `webhook-signature`."""

    MEASURED = WebhookTold.MEASURED | {"secret"}
    secret: str
