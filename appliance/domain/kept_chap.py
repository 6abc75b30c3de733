# SPDX-License-Identifier: Apache-2.0
"""CHAP as the target has it, where the database does not know whether it is required: it was lost, or is new.

What is required stays required, and accounts that the database does not know stay, with an alert, until somebody says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.orm import Session

from appliance.database.models import Setting
from appliance.domain.journal import Finding, settle

ISCSI = "iscsi"
SETTING = "chap_accounts_kept"
_AREA = "chap-kept"
_REMEDY = "make their hosts, with the secrets they have; then say `zvaai iscsi --chap`: accounts of no host go then"


def is_known(session: Session) -> bool:
    """Whether the database says if CHAP is required."""
    return session.get(Setting, ISCSI) is not None


def first_look(session: Session, required: bool, accounts: Collection[str]) -> None:
    """What the target has becomes what is wanted, unless somebody has said meanwhile what is."""
    if is_known(session):
        return
    session.merge(Setting(name=ISCSI, value={"chap_required": required}))
    if required:
        _keep(session, accounts)


def accounts(session: Session) -> frozenset[str]:
    """Names of those that stay as the target has them."""
    found = session.get(Setting, SETTING)
    return frozenset(found.value["names"]) if found is not None else frozenset()


def now_known(session: Session, names: Collection[str]) -> None:
    """The database has the secrets of these by now."""
    if (kept := accounts(session)) & set(names):
        _keep(session, kept - set(names))


def drop(session: Session) -> None:
    """Somebody has said whether CHAP is required: accounts are those of the hosts."""
    if (found := session.get(Setting, SETTING)) is not None:
        session.delete(found)
        settle(session, _AREA, [])


def _keep(session: Session, names: Collection[str]) -> None:
    session.merge(Setting(name=SETTING, value={"names": sorted(names)}))
    told = f"and so do accounts that it does not know: {', '.join(sorted(names))}" if names else "and it knows all accounts"
    text = f"the database did not know that CHAP is required; as the target has it, it stays, {told}"
    settle(session, _AREA, [Finding(f"{_AREA}:target", "warning", "target", text, _REMEDY)])
