# SPDX-License-Identifier: Apache-2.0
"""Receivers: destinations of alerts, waiting deliveries, and the times of attempts. appliance.notify sends them.

A delivery is added to the database in the transaction that raised the alert. It is sent at least once, with an identifier by
which a receiver recognises duplicates.
"""

import base64
import contextlib
import json
import random
import re
import secrets
import socket
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field
from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from appliance.database.models import Alert, Delivery, Receiver
from appliance.domain import rows
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.fields import ASCII, Model, Name
from appliance.domain.secrets import Seal, SealedError

SEVERITIES = ("info", "warning", "critical")
RECEIVERS = 16
WAITING = 1000
"""Limit of waiting deliveries of one destination; the oldest are dropped."""
RETAINED = 200
"""Retained ended deliveries of one destination."""
WEBHOOK, EMAIL = "webhook", "email"
SCHEMES = {WEBHOOK: ("https", "http"), EMAIL: ("smtps", "smtp")}
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
"""Like HTML's input type "email": RFC 5322 without comments, quotes and domain literals."""
PENDING, DELIVERED, FAILED, DROPPED, TESTING = "pending", "delivered", "failed", "dropped", "testing"
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5, 3600
_GIVEN_UP_AFTER_S = 86400
_REFUSALS = 10
"""Answers that it will not be taken; that a receiver is being set up may last so many tries."""
_LONGEST_TEXT = 2000
_TEST_S = 300
"""No test takes so long."""


Severity = Literal["info", "warning", "critical"]
Url = Annotated[str, Field(min_length=8, max_length=2048)]
MailAddress = Annotated[str, Field(max_length=320)]
Recipients = Annotated[list[MailAddress], Field(max_length=32)]
Certificate = Annotated[str, Field(max_length=65536)]

MailPassword = Annotated[str, Field(min_length=1, max_length=1024, pattern=ASCII)]
"""smtplib sends users and passwords as ASCII."""


class ReceiverCreate(Model):
    """A new receiver of alerts of a severity and above.

    `url` is `https://HOST/PATH` of a webhook, or `smtps://HOST[:465]`, or `smtp://HOST[:587]` with STARTTLS, of a mail server.
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
    user: Annotated[str, Field(min_length=1, max_length=256, pattern=ASCII)] | None = None
    password: MailPassword | None = None


class ReceiverUpdate(Model):
    """Fields to change. A receiver stays of its kind. Null clears `certificate`, and `user` with its password."""

    name: Name | None = None
    url: Url | None = None
    severity: Severity | None = None
    certificate: Certificate | None = None
    enabled: bool | None = None
    sender: MailAddress | None = None
    recipients: Recipients | None = None
    user: Annotated[str, Field(min_length=1, max_length=256, pattern=ASCII)] | None = None
    password: MailPassword | None = None

    def values(self) -> dict[str, Any]:
        cleared = {name: None for name in ("certificate", "user") if name in self.model_fields_set}
        return cleared | self.model_dump(exclude_none=True)


def find(session: Session, receiver_id: str) -> Receiver:
    return rows.existing(session, Receiver, receiver_id, "receiver")


def kind_of(url: str) -> str:
    return next((kind for kind, schemes in SCHEMES.items() if urlsplit(url).scheme in schemes), WEBHOOK)


def check_url(url: str, plain_allowed: bool) -> None:
    """Its form. The address is checked at each delivery. Raises InvalidError."""
    hint = "" if plain_allowed else "; without TLS only to [alerts] trusted_networks in /etc/zvaai/appliance.toml"
    allowed = f"https://HOST/PATH, smtps://HOST or smtp://HOST{hint}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidError("url", str(error), allowed) from error
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidError("url", "it has characters that no URL has", allowed)
    known = parts.scheme in {scheme for schemes in SCHEMES.values() for scheme in schemes}
    if not known or not parts.hostname or port == 0:
        raise InvalidError("url", "not the URL of a receiver", allowed)
    if parts.scheme == "http" and not plain_allowed:  # smtp begins TLS by STARTTLS
        raise InvalidError("url", "it would go unencrypted", allowed)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidError("url", "it has a user or a fragment", allowed)
    if kind_of(url) != WEBHOOK and (parts.path not in ("", "/") or parts.query):
        raise InvalidError("url", "a mail server has no path", allowed)


def check_mail(url: str, sender: str, recipients: Sequence[str], user: str | None, secret: str | None) -> None:
    """Checks the settings of an e-mail receiver, which no other kind may have. Raises InvalidError."""
    if kind_of(url) != EMAIL:
        if sender or recipients or user is not None:
            raise InvalidError("recipients", "only e-mail has a sender, recipients and a user", "none")
        return
    for name, addresses in (("sender", [sender]), ("recipients", recipients)):
        if not addresses or not all(_ADDRESS.fullmatch(address) for address in addresses):
            raise InvalidError(name, "not an e-mail address", "such as storage@example.com")
    if (user is None) != (not secret):
        raise InvalidError("password", "user and password go together", "both, or none")


def url_of(seal: Seal, receiver: Receiver) -> str:
    """Its URL. Raises SealedError."""
    return seal.open(receiver.url)


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


def add(session: Session, seal: Seal, new: ReceiverCreate) -> tuple[Receiver, str | None]:
    """A new receiver, and the secret of a webhook, which is shown only once."""
    rows.check_name(session, Receiver, new.name)
    check_mail(new.url, new.sender, new.recipients, new.user, new.password)
    if (session.scalar(select(func.count()).select_from(Receiver)) or 0) >= RECEIVERS:
        raise ConflictError(f"there are {RECEIVERS} receivers already")
    secret = new_secret() if kind_of(new.url) == WEBHOOK else None
    values = new.model_dump(exclude={"password"}) | {"url": seal.seal(new.url)}
    added = Receiver(id=str(uuid.uuid4()), **values, secret=seal.seal(secret or new.password or ""), created_at=time.time())
    session.add(added)
    session.flush()
    return added, secret


def change(session: Session, seal: Seal, receiver: Receiver, changes: dict[str, Any]) -> None:
    """Changes the given values, with the names of `add`. Raises ConflictError, InvalidError."""
    if "name" in changes:
        rows.check_name(session, Receiver, changes["name"], receiver.id)
    with contextlib.suppress(SealedError):  # the key is lost: the secret must be set again
        url, former = changes.get("url"), url_of(seal, receiver)
        if url is not None and kind_of(url) != kind_of(former):
            raise InvalidError("url", "a receiver stays of its kind", "add another receiver")
        if url is not None and kind_of(url) == EMAIL and urlsplit(url).hostname != urlsplit(former).hostname:
            receiver.secret = seal.seal("")  # the password is the former server's
    for name, value in changes.items():
        if name == "url":
            receiver.url = seal.seal(value)
        elif name == "password":
            receiver.secret = seal.seal(value)
        else:
            setattr(receiver, name, value)
    if not receiver.enabled:  # once enabled again, it gets no old news
        waiting = update(Delivery).where(Delivery.receiver_id == receiver.id, Delivery.state == PENDING)
        session.execute(waiting.values(state=DROPPED, ended_at=time.time(), problem="the receiver was disabled"))
    with contextlib.suppress(SealedError):
        url = url_of(seal, receiver)
        if kind_of(url) == EMAIL and receiver.user is None:
            receiver.secret = seal.seal("")
        password = seal.open(receiver.secret) if kind_of(url) == EMAIL else None
        check_mail(url, receiver.sender, receiver.recipients, receiver.user, password)
    session.flush()


def higher(severity: str, other: str) -> str:
    """The higher severity."""
    return max(severity, other, key=SEVERITIES.index)


def announce(session: Session, kind: str, alert: Alert, before: str = "info") -> None:
    """An alert was raised, changed or cleared: to be sent to all who want those of its severity, or of its severity `before`."""
    if alert.id is None:
        session.flush()
    event, now, severity = str(uuid.uuid4()), time.time(), higher(alert.severity, before)
    for receiver in session.scalars(select(Receiver).where(Receiver.enabled.is_(True))):
        about_receiver = alert.key.startswith(
            f"{area(receiver.id)}:"
        )  # a receiver needs no message that it can't be reached itself
        if not about_receiver and higher(severity, receiver.severity) == severity:
            _queue(session, receiver.id, event, kind, _body(event, kind, now, alert), now)


def _body(event: str, kind: str, now: float, alert: Alert) -> str:
    data = {
        name: getattr(alert, name)
        for name in ("id", "key", "severity", "subject", "raised_at", "cleared_at", "acknowledged_at", "acknowledged_by")
    }
    data |= {"text": alert.text[:_LONGEST_TEXT], "remedy": alert.remedy[:_LONGEST_TEXT]}
    return _content(event, kind, now, data)


def _content(event: str, kind: str, now: float, data: dict[str, Any]) -> str:
    return json.dumps({"id": event, "type": kind, "timestamp": now, "server": socket.gethostname(), "data": data})


def _queue(session: Session, receiver_id: str, event: str, kind: str, body: str, now: float) -> None:
    pending = select(Delivery).where(Delivery.receiver_id == receiver_id, Delivery.state == PENDING)
    waiting = session.scalar(select(func.count()).select_from(pending.subquery())) or 0
    if waiting >= WAITING:
        for surplus in session.scalars(pending.order_by(Delivery.id).limit(waiting - WAITING + 1)):
            surplus.state, surplus.ended_at, surplus.problem = DROPPED, now, f"more than {WAITING} wait"
    session.add(
        Delivery(
            receiver_id=receiver_id, event=event, kind=kind, body=body, state=PENDING, attempts=0, created_at=now, due_at=now
        )
    )


def queue_failed(session: Session, receiver: Receiver, now: float) -> None:
    """Queues open alerts whose last delivery failed. Twice at most: while an alert is refused for its content, others wait."""
    states: dict[int, str] = {}
    raised: Counter[int] = Counter()
    ordered = select(Delivery).where(Delivery.receiver_id == receiver.id, Delivery.kind != "test").order_by(Delivery.id)
    for delivery in session.scalars(ordered):
        alert_id = json.loads(delivery.body)["data"]["id"]
        states[alert_id] = delivery.state
        raised[alert_id] += delivery.kind == "alert.raised"
    for alert_id, state in states.items():
        alert = session.get(Alert, alert_id) if state == FAILED and raised[alert_id] < 2 else None
        if alert is not None and alert.cleared_at is None and higher(alert.severity, receiver.severity) == alert.severity:
            event, kind = str(uuid.uuid4()), "alert.raised"
            _queue(session, receiver.id, event, kind, _body(event, kind, now, alert), now)


def begin_test(session: Session, receiver_id: str) -> Delivery:
    """A delivery that is tried once, by the caller."""
    receiver, event, now = find(session, receiver_id), str(uuid.uuid4()), time.time()
    for old in session.scalars(
        select(Delivery).where(
            Delivery.receiver_id == receiver_id, Delivery.state == TESTING, Delivery.created_at < now - _TEST_S
        )
    ):
        old.state, old.ended_at, old.problem = FAILED, now, "who sent it died"
    data = {"severity": "info", "subject": receiver.name, "text": "this is a test of this receiver of alerts"}
    body = _content(event, "test", now, data)
    made = Delivery(
        receiver_id=receiver_id, event=event, kind="test", body=body, state=TESTING, attempts=0, created_at=now, due_at=now
    )
    session.add(made)
    session.flush()
    return made


def next_deliveries(session: Session, now: float) -> list[int]:
    """The oldest waiting delivery of each destination, if it is due: a destination receives deliveries in order. Also if it is
    due later than any wait lasts: then the clock was ahead.
    """
    oldest = select(func.min(Delivery.id)).where(Delivery.state == PENDING).group_by(Delivery.receiver_id)
    chosen = (
        select(Delivery.id)
        .join(Receiver, Receiver.id == Delivery.receiver_id)
        .where(
            Delivery.id.in_(oldest),
            or_(Delivery.due_at <= now, Delivery.due_at > now + 1.2 * _LONGEST_WAIT_S),
            Receiver.enabled.is_(True),
        )
    )
    return list(session.scalars(chosen))


def next_due(session: Session) -> float | None:
    """Time of the next delivery, in seconds since 1970; None if none waits."""
    oldest = select(func.min(Delivery.id)).where(Delivery.state == PENDING).group_by(Delivery.receiver_id)
    waiting = select(func.min(Delivery.due_at)).join(Receiver, Receiver.id == Delivery.receiver_id)
    return session.scalar(waiting.where(Delivery.id.in_(oldest), Receiver.enabled.is_(True)))


def ended(
    session: Session, delivery_id: int, status: int | None, problem: str | None, now: float, *,
    refused: bool = False, partial: bool = False,
) -> Delivery | None:  # fmt: skip
    """How a try ended; None when its receiver was deleted meanwhile. A partial one is not repeated; as a test it fails."""
    tried = session.get(Delivery, delivery_id)
    if tried is None:
        return None
    tried.attempts += 1
    tried.status, tried.problem = status, problem
    tried.refusals = tried.refusals + 1 if refused else 0
    if problem is None or (partial and tried.state != TESTING):
        tried.state, tried.ended_at = DELIVERED, now
        waiting = update(Delivery).where(Delivery.receiver_id == tried.receiver_id, Delivery.state == PENDING)
        session.execute(waiting.values(due_at=now))
    elif (
        tried.state == TESTING or now - tried.created_at > _GIVEN_UP_AFTER_S or tried.refusals >= _REFUSALS
    ):  # fmt: skip
        tried.state, tried.ended_at = FAILED, now
    else:
        tried.due_at = now + min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(tried.attempts - 1, 16)) * random.uniform(0.8, 1.2)
    session.flush()
    if tried.ended_at is not None:
        old = (
            select(Delivery.id)
            .where(Delivery.receiver_id == tried.receiver_id, Delivery.ended_at.is_not(None))
            .order_by(Delivery.id.desc())
            .offset(RETAINED)
        )
        session.execute(delete(Delivery).where(Delivery.id.in_(old)))
    return tried


def last(session: Session, receiver_id: str) -> Delivery | None:
    return session.scalar(
        select(Delivery).where(Delivery.receiver_id == receiver_id, Delivery.attempts > 0).order_by(Delivery.id.desc()).limit(1)
    )


def waiting(session: Session, receiver_id: str) -> int:
    chosen = select(func.count()).select_from(Delivery)
    return session.scalar(chosen.where(Delivery.receiver_id == receiver_id, Delivery.state == PENDING)) or 0


def area(receiver_id: str) -> str:
    """Area of the alerts about a receiver that can't be reached."""
    return f"receiver-{receiver_id}"
