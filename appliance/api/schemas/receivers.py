# SPDX-License-Identifier: Apache-2.0
"""Receivers of alerts."""

from typing import Literal

from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Time
from appliance.domain.receivers import Severity


class DeliveryResponse(Answer):
    """A sent or pending notification."""

    id: int
    event: str
    """Equal in all attempts, so that a receiver can drop duplicates."""
    kind: str
    state: Literal["pending", "delivered", "failed", "dropped", "testing"]
    attempts: int
    status: int | None
    """HTTP or SMTP status of the last attempt; null without a response or status."""
    problem: str | None
    created_at: Time
    due_at: Time
    ended_at: Time | None


class ReceiverResponse(Versioned):
    """A receiver: webhook or e-mail by the scheme of its `url`."""

    MEASURED = frozenset({"last_delivery", "waiting"})
    id: str
    name: str
    kind: Literal["webhook", "email"]
    url: str
    severity: Severity
    certificate: str | None
    enabled: bool
    sender: str
    recipients: list[str]
    user: str | None
    created_at: Time
    last_delivery: DeliveryResponse | None
    waiting: int
    """Deliveries that are still to be made."""


class ReceiverSecretResponse(ReceiverResponse):
    """With the secret of a webhook, by which it checks the header `webhook-signature`; null of others."""

    MEASURED = ReceiverResponse.MEASURED | {"secret"}
    secret: str | None
