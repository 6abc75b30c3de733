# SPDX-License-Identifier: Apache-2.0
"""Where alerts are sent to."""

from typing import Annotated, Literal

from pydantic import Field

from appliance.api.types import Answer, Versioned
from appliance.domain.fields import Model, Name, Time

Severity = Literal["info", "warning", "critical"]
Url = Annotated[str, Field(min_length=8, max_length=2048)]
MailAddress = Annotated[str, Field(max_length=320)]
Recipients = Annotated[list[MailAddress], Field(max_length=32)]
Certificate = Annotated[str, Field(max_length=65536)]


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
    """A receiver: webhook, e-mail or syslog by the scheme of its `url`."""

    MEASURED = frozenset({"last_delivery", "waiting"})
    id: str
    name: str
    kind: Literal["webhook", "email", "syslog"]
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


class ReceiverCreate(Model):
    """A new receiver of alerts of a severity and above.

    `url` is `https://HOST/PATH` of a webhook; `smtps://HOST[:465]`, or `smtp://HOST[:587]` with STARTTLS, of a mail server;
    `syslog+tls://HOST[:6514]`, `syslog+tcp://HOST[:601]`, `syslog://HOST[:514]` by UDP, or `syslog:///dev/log` of this server.
    `sender`, `recipients`, `user` and `password` are of e-mail.
    """

    name: Name
    url: Url
    severity: Severity = "warning"
    certificate: Certificate | None = None
    """Certificate of the authority that signs the receiver's, as PEM; without, the system's authorities are trusted."""
    enabled: bool = True
    sender: MailAddress = ""
    recipients: Recipients = Field(default_factory=list)
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    password: Annotated[str, Field(min_length=1, max_length=1024)] | None = None


class ReceiverUpdate(Model):
    """Fields to change. A receiver stays of its kind."""

    name: Name | None = None
    url: Url | None = None
    severity: Severity | None = None
    certificate: Certificate | None = None
    enabled: bool | None = None
    sender: MailAddress | None = None
    recipients: Recipients | None = None
    user: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    password: Annotated[str, Field(min_length=1, max_length=1024)] | None = None


class ReceiverCreated(ReceiverResponse):
    """With the secret of a webhook, by which it checks the header `webhook-signature`; null of others."""

    MEASURED = ReceiverResponse.MEASURED | {"secret"}
    secret: str | None
