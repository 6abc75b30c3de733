"""What is written down of what happens: audit, events, alerts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from appliance.database.models import Alert, AuditEntry, Event
from appliance.domain.errors import NotFoundError

EVENTS_KEPT = 10_000
ALERTS_KEPT = 5_000


def record(
    session: Session,
    *,
    actor: str,
    address: str,
    action: str,
    subject: str,
    status: int,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """An entry of the audit: never changed, never deleted."""
    session.add(
        AuditEntry(
            at=time.time(),
            actor=actor,
            address=address,
            action=action,
            subject=subject,
            status=status,
            before=before,
            after=after,
        )
    )


def tell(session: Session, kind: str, subject: str, **data: Any) -> None:
    """An event, for who listens."""
    event = Event(at=time.time(), kind=kind, subject=subject, data=data)
    session.add(event)
    session.flush()
    if event.id % 500 == 0:
        session.execute(delete(Event).where(Event.id <= event.id - EVENTS_KEPT))


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be. `key` is the same as long as it is the same thing."""

    key: str
    severity: str
    """"warning" or "critical"."""
    subject: str
    text: str
    remedy: str = ""


def settle(session: Session, area: str, findings: Iterable[Finding]) -> None:
    """Raises an alert for each finding of an area that has none, and clears those of what is found no more.

    The keys of an area begin with its name and a colon.
    """
    now = time.time()
    wanted = {finding.key: finding for finding in findings}
    assert all(key.startswith(f"{area}:") for key in wanted)
    open_alerts = session.scalars(
        select(Alert).where(Alert.cleared_at.is_(None), Alert.key.startswith(f"{area}:", autoescape=True))
    )
    for alert in open_alerts:
        finding = wanted.pop(alert.key, None)
        if finding is None:
            alert.cleared_at = now
            tell(session, "alert.cleared", alert.subject, key=alert.key, text=alert.text)
        elif (alert.text, alert.severity) != (finding.text, finding.severity):
            alert.text, alert.severity, alert.remedy = finding.text, finding.severity, finding.remedy
    for finding in wanted.values():
        session.add(
            Alert(
                key=finding.key,
                severity=finding.severity,
                subject=finding.subject,
                text=finding.text,
                remedy=finding.remedy,
                raised_at=now,
            )
        )
        tell(session, "alert.raised", finding.subject, key=finding.key, text=finding.text)
    if (session.scalar(select(func.count()).select_from(Alert)) or 0) > ALERTS_KEPT:
        oldest = select(Alert.id).where(Alert.cleared_at.is_not(None)).order_by(Alert.id).limit(ALERTS_KEPT // 10)
        session.execute(delete(Alert).where(Alert.id.in_(oldest)))


def acknowledge(session: Session, alert_id: int, who: str) -> Alert:
    """Somebody looks after it."""
    alert = session.get(Alert, alert_id)
    if alert is None:
        raise NotFoundError("alert", str(alert_id))
    if alert.acknowledged_at is None:
        alert.acknowledged_at, alert.acknowledged_by = time.time(), who
    return alert
