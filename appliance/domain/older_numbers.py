# SPDX-License-Identifier: Apache-2.0
"""What is remembered and told of LUN numbers and exports where the database and what lies with the data do not agree."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Alert, Setting
from appliance.domain.journal import Finding, note, settle

_RESTORED = "numbers_restored"


def restored(session: Session) -> set[str]:
    """Datastores whose numbers were restored from a backup: what lies with their data is older, until it was set."""
    return _of_setting(session, "datastores")


def awaited(session: Session) -> set[str]:
    """Of those, the ones that were not there in the round after it: what hosts see of them may be newer, as every copy that was
    made of the database since tells of them.
    """
    return _of_setting(session, "awaited")


def remember_restored(session: Session, uuids: Collection[str]) -> None:
    """What the database says of these counts, whatever lies with their data."""
    _remember(session, restored(session) | set(uuids), awaited(session) - set(uuids))


def remember_awaited(session: Session, uuids: Collection[str]) -> None:
    """These were restored, and are not there yet."""
    _remember(session, restored(session), awaited(session) | set(uuids))


def remember_no_longer(session: Session, uuids: Collection[str]) -> None:
    """What lies with their data is the same by now."""
    _remember(session, restored(session) - set(uuids), awaited(session) - set(uuids))


def _of_setting(session: Session, name: str) -> set[str]:
    found = session.get(Setting, _RESTORED)
    return set(found.value.get(name, ())) if found is not None else set()


def _remember(session: Session, datastores: set[str], later: set[str]) -> None:
    session.merge(Setting(name=_RESTORED, value={"datastores": sorted(datastores), "awaited": sorted(later)}))


def tell_followed(session: Session, uuid: str, text: str) -> None:
    """That the database has been corrected: noted, and over at once."""
    note(session, Finding(f"{_area(uuid)}:{time.time():.6f}", "warning", uuid, text))


def tell_renumbered(session: Session, uuid: str, text: str) -> None:
    """That it has another number than the database and its data said: an alert, until somebody gives it a number."""
    settle(session, _area(uuid), [Finding(f"{_area(uuid)}:lun", "warning", uuid, text, "give it the number it is to have (lun)")])


def in_the_way(session: Session) -> set[str]:
    """Datastores that an alert of `tell_in_the_way` is about."""
    found = select(Alert.subject).where(Alert.cleared_at.is_(None), Alert.key.like(f"{_area('%')}:export"))
    return set(session.scalars(found))


def tell_in_the_way(session: Session, texts: Mapping[str, str], unsure: Collection[str]) -> None:
    """Whose export's number or path the database has for another: alerts, until it is over. Those `unsure` stay as they are."""
    remedy = "bring back what is missing; or forget it, if it is lost (zvaai datastore forget)"
    for uuid in (in_the_way(session) | texts.keys()).difference(unsure):
        found = [Finding(f"{_area(uuid)}:export", "warning", uuid, texts[uuid], remedy)] if uuid in texts else []
        settle(session, _area(uuid), found)


def settled(session: Session, uuid: str) -> None:
    """Somebody has said what its number is."""
    settle(session, _area(uuid), [])


def forget(session: Session, uuid: str) -> None:
    """It is gone."""
    settled(session, uuid)
    if uuid in restored(session):
        remember_no_longer(session, {uuid})


def _area(uuid: str) -> str:
    return f"older-database:{uuid}"
