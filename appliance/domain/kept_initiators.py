# SPDX-License-Identifier: Apache-2.0
"""Initiators to which the target shows a LUN of which the database does not know: it was lost, or is older than the pool.

They go on seeing it, with an alert, until somebody says which host groups do.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Host, HostInitiator, Setting
from appliance.domain.journal import Finding, settle

SETTING = "initiators_kept"
_FORGOTTEN = "luns_forgotten"


def of_all(session: Session) -> dict[str, list[str]]:
    """By datastore."""
    found = session.get(Setting, SETTING)
    return dict(found.value) if found is not None else {}


def keep(session: Session, uuid: str, initiators: Collection[str], away: str | None = None) -> None:
    """As the target has them. `away` is the volume of a LUN whose pool is not here."""
    names = sorted(initiators)
    session.merge(Setting(name=SETTING, value={**of_all(session), uuid: names}))
    text, remedy = "the database did not know who sees it", "make hosts of them, and set its host_groups"
    if away is not None:
        text = f"the database did not know it, and the pool of its volume ({away}) was not here"
        remedy = f"import its pool, then {remedy}; if it is lost: zvaai datastore forget {uuid}"
    text = f"{text}; as the target has it, it stays: {', '.join(names) or 'nobody sees it'}"
    settle(session, _area(uuid), [Finding(f"{_area(uuid)}:lun", "warning", uuid, text, remedy)])


def drop(session: Session, uuid: str) -> None:
    """Somebody has said who sees it, or nobody does any more."""
    kept = of_all(session)
    if kept.pop(uuid, None) is not None:
        session.merge(Setting(name=SETTING, value=kept))
        settle(session, _area(uuid), [])


def forgotten(session: Session) -> set[str]:
    """Datastores that somebody forgot, and the target was not yet seen without: who sees them does not count."""
    found = session.get(Setting, _FORGOTTEN)
    return set(found.value.get("datastores", ())) if found is not None else set()


def remember_forgotten(session: Session, uuid: str) -> None:
    """Its pool and the target may be away now, and come back with it."""
    session.merge(Setting(name=_FORGOTTEN, value={"datastores": sorted(forgotten(session) | {uuid})}))


def remember_no_longer(session: Session, uuids: Collection[str]) -> None:
    """The target has them no more, or the database knows again who sees them."""
    session.merge(Setting(name=_FORGOTTEN, value={"datastores": sorted(forgotten(session) - set(uuids))}))


def lost(session: Session, uuid: str, groups: Collection[str]) -> set[str]:
    """Who would not see it any more with these host groups."""
    names = select(HostInitiator.iqn).join(Host, Host.id == HostInitiator.host_id).where(Host.group_id.in_(groups))
    return set(of_all(session).get(uuid, ())) - set(session.scalars(names))


def _area(uuid: str) -> str:
    return f"initiators-kept:{uuid}"
