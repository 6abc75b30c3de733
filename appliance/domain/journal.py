# SPDX-License-Identifier: Apache-2.0
"""Records: audit, events, alerts."""

import gzip
import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.event import listen
from sqlalchemy.orm import Session

from appliance.database.models import Alert, AuditEntry, Event
from appliance.domain.errors import NotFoundError
from appliance.domain.receivers import announce, higher

EVENTS_RETAINED = 10_000
AUDIT_RETAINED = 50_000
"""In the database; older entries are in files, so many of them, of so many entries:"""
AUDIT_FILES = 100
AUDIT_FILE_ENTRIES = 5_000
ALERTS_RETAINED = 5_000
_LONGEST_TEXT, _LONGEST_REMEDY = 1000, 200
"""Of an alert's line in the log, in characters; a longer remedy is omitted."""
_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
_log = logging.getLogger(__name__)


def record(
    session: Session,
    *,
    actor: str,
    address: str,
    action: str,
    subject: str,
    status: int | None,
    token: str | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    name: str = "",
) -> int:
    """Adds an audit entry and returns its number. `status` is None at the begin of a request: `complete` sets it."""
    entry = AuditEntry(
        at=time.time(), actor=actor, token=token, address=address, action=action, subject=subject, name=name, status=status,
        before=before, after=after,
    )  # fmt: skip
    session.add(entry)
    session.flush()
    return entry.id


def complete(session: Session, number: int, *, subject: str, status: int, before: dict[str, Any] | None) -> None:
    entry = session.get(AuditEntry, number)
    assert entry is not None and entry.status is None
    entry.subject, entry.status, entry.before = subject, status, before


def rotate(session: Session, directory: Path) -> None:
    """Moves the oldest audit entries, when there are enough of them, into a separate file; deletes the oldest files."""
    newest = session.scalar(select(func.max(AuditEntry.id))) or 0
    oldest = session.scalar(select(func.min(AuditEntry.id))) or 0
    if newest - oldest < AUDIT_RETAINED + AUDIT_FILE_ENTRIES:
        return
    entries = session.scalars(select(AuditEntry).order_by(AuditEntry.id).limit(AUDIT_FILE_ENTRIES)).all()
    directory.mkdir(mode=0o700, exist_ok=True)
    file = directory / f"audit-{entries[0].id:012}.jsonl.gz"
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as written, gzip.open(written, "wt", encoding="ascii") as lines:
        for entry in entries:
            lines.write(json.dumps({column.key: getattr(entry, column.key) for column in AuditEntry.__table__.columns}) + "\n")
    with new.open("rb") as whole:
        os.fsync(whole.fileno())
    new.rename(file)  # of a process killed from here on it is written again, the same
    session.execute(delete(AuditEntry).where(AuditEntry.id <= entries[-1].id))
    for surplus in sorted(directory.glob("audit-*.jsonl.gz"))[:-AUDIT_FILES]:
        surplus.unlink(missing_ok=True)


def publish(session: Session, kind: str, subject: str, **data: Any) -> None:
    event = Event(at=time.time(), kind=kind, subject=subject, data=data)
    session.add(event)
    session.flush()
    if event.id % 500 == 0:
        session.execute(delete(Event).where(Event.id <= event.id - EVENTS_RETAINED))


@dataclass(frozen=True)
class Finding:
    """A problem. `key` is the same for the same problem."""

    key: str
    severity: str
    subject: str
    text: str
    remedy: str = ""


def open_alerts(session: Session, area: str) -> Sequence[Alert]:
    prefix = Alert.key.startswith(f"{area}:", autoescape=True)
    return session.scalars(select(Alert).where(Alert.cleared_at.is_(None), prefix)).all()


def has_open_alerts(session: Session) -> bool:
    return session.scalar(select(Alert.id).where(Alert.cleared_at.is_(None)).limit(1)) is not None


def update_alerts(session: Session, area: str, findings: Iterable[Finding], unchanged: Collection[str] = ()) -> None:
    """Raises an alert for each finding of an area without one, and clears alerts without a finding. The keys of an area begin
    with its name and a colon. Alerts with keys in `unchanged` do not change.
    """
    now = time.time()
    by_key = {finding.key: finding for finding in findings if finding.key not in unchanged}
    assert all(key.startswith(f"{area}:") for key in by_key)
    for alert in open_alerts(session, area):
        if alert.key in unchanged:
            continue
        finding = by_key.pop(alert.key, None)
        if finding is None:
            alert.cleared_at = now
            _report(session, "cleared", alert)
        elif (alert.text, alert.severity, alert.remedy) != (finding.text, finding.severity, finding.remedy):
            before = alert.severity
            alert.text, alert.severity, alert.remedy = finding.text, finding.severity, finding.remedy
            if alert.severity != before:  # a new fill level of a pool is not news
                if higher(alert.severity, before) == alert.severity:  # who acknowledged it knew less
                    alert.acknowledged_at = alert.acknowledged_by = None
                _report(session, "changed", alert, before)
    for finding in by_key.values():
        _raise(session, finding)
    if (session.scalar(select(func.count()).select_from(Alert)) or 0) > ALERTS_RETAINED:
        oldest = select(Alert.id).where(Alert.cleared_at.is_not(None)).order_by(Alert.id).limit(ALERTS_RETAINED // 10)
        session.execute(delete(Alert).where(Alert.id.in_(oldest)))


def note(session: Session, finding: Finding) -> None:
    """Records an event that needs no action: reported once, by its key, and cleared at once."""
    if session.scalar(select(Alert.id).where(Alert.key == finding.key)) is not None:
        return
    _raise(session, finding, cleared_at=time.time())


def _raise(session: Session, finding: Finding, cleared_at: float | None = None) -> None:
    alert = Alert(**vars(finding), raised_at=time.time(), cleared_at=cleared_at)
    session.add(alert)
    _report(session, "raised", alert)


def _report(session: Session, what: str, alert: Alert, before: str = "info") -> None:
    """Reports that an alert was raised, changed or cleared: to the console, to receivers, and to the log."""
    publish(session, f"alert.{what}", alert.subject, key=alert.key, text=alert.text)
    announce(session, f"alert.{what}", alert, before)
    level = logging.INFO if what == "cleared" else _LEVELS[alert.severity]
    line = f"alert {what} ({alert.severity}): {alert.key}: {alert.text[:_LONGEST_TEXT]}"
    if what != "cleared" and 0 < len(alert.remedy) <= _LONGEST_REMEDY:
        line += f"; remedy: {alert.remedy}"
    # After the commit: a transaction that is undone changes no alert.
    listen(session, "after_commit", lambda _: _log.log(level, "%s", line), once=True)


def acknowledge(session: Session, alert_id: int, who: str) -> Alert:
    alert = session.get(Alert, alert_id)
    if alert is None:
        raise NotFoundError("alert", str(alert_id))
    if alert.acknowledged_at is None:
        alert.acknowledged_at, alert.acknowledged_by = time.time(), who
    return alert
