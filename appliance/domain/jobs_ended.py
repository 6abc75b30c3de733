# SPDX-License-Identifier: Apache-2.0
"""How many jobs have ended, counted in the database: what is noted elsewhere tells by it an older copy (worker/under_way.py)."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Alert, Setting
from appliance.domain.journal import OLDER_DATABASE, Finding, settle

_SETTING = "jobs_ended"
_REMEDY = (
    "see what has become of the jobs that failed now, and whether schedules, hosts and users are as they are to be; then"
    " acknowledge this (zvaai alert acknowledge): until then schedules destroy no snapshot"
)


class Count(NamedTuple):
    """Of the database of this identity, which every copy of it has."""

    database: str
    number: int


def known(session: Session) -> Count | None:
    """None of a database that has counted none yet."""
    found = session.get(Setting, _SETTING)
    return Count(str(found.value["database"]), int(found.value["number"])) if found is not None else None


def count(session: Session) -> Count:
    """As `known`; with an identity from now on."""
    return known(session) or _keep(session, Count(str(uuid.uuid4()), 0))


def one_more(session: Session) -> None:
    """In the transaction in which it ends."""
    before = count(session)
    _keep(session, Count(before.database, before.number + 1))


def follow(session: Session, number: int) -> None:
    """So many had ended by what is noted elsewhere."""
    before = count(session)
    _keep(session, Count(before.database, max(before.number, number)))


def _keep(session: Session, new: Count) -> Count:
    session.merge(Setting(name=_SETTING, value={"database": new.database, "number": new.number}))
    return new


def tell_older(session: Session, missed: int | None, failed: int) -> None:
    """An alert until somebody acknowledges it: the copy misses so many ends of jobs, and so many failed now.

    `missed` is None where another database was noted last.
    """
    if missed is None:
        how = "another database was noted last"
    else:
        how = f"at least {missed} jobs have ended since" if missed else "jobs under way in it are not those noted last"
    text = f"the database is an older copy: {how}; {failed} that were under way in it have failed and are not begun again"
    settle(session, OLDER_DATABASE, [Finding(f"{OLDER_DATABASE}:copy", "warning", "database", text, _REMEDY)])


def is_told(session: Session) -> bool:
    """Whether nobody has acknowledged it yet."""
    found = select(Alert.id).where(Alert.cleared_at.is_(None), Alert.key.startswith(f"{OLDER_DATABASE}:", autoescape=True))
    return session.scalar(found.limit(1)) is not None
