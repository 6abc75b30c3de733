# SPDX-License-Identifier: Apache-2.0
"""The installation's configuration as a whole: reads it from the database, replaces it, and describes differences as text.

It contains everything that an admin created and no pool has: users, hosts and their groups, presentation of datastores,
schedules, receivers, settings. The identity of a datastore is stored with its data. The tables are those that count as
configuration (database.generation).
"""

import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Table, delete, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from appliance.database.generation import SETTINGS, STATE, TABLES, TARGET
from appliance.database.models import Base, Host, LoginSession, Receiver, Schedule, Setting, User
from appliance.domain import hosts, logins, receivers, schedule_times, schedules
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.journal import update_alerts
from appliance.domain.secrets import Seal, SealedError

type Content = dict[str, list[dict[str, Any]]]
"""Rows by table. Secrets are open in it."""

_SEALED = {"users": ("totp_secret",), "hosts": ("chap_secret",), "receivers": ("url", "secret")}
"""Columns that the database has sealed with the appliance's own key."""
_SEALED_SETTINGS = {hosts.MUTUAL_SETTING: "secret", **logins.SECRETS}
"""Settings, and the field of each that is sealed."""
_SECRET = {"password_hash", "totp_secret", "recovery_codes", "chap_secret", "url", "secret", "certificate"}
_RETAINED = {"users", "host_groups", "hosts", "schedules", "receivers"}
"""Tables whose rows other tables refer to, or that have state: remaining rows are changed, not created again."""


def collect(session: Session, seal: Seal, *, whole: bool = True) -> Content:
    """Collects the configuration. Raises ConflictError if a secret cannot be opened; unless `whole`, the secret is then None."""

    def opened(text: str) -> str | None:
        try:
            return seal.open(text)
        except SealedError as error:
            if whole:
                raise ConflictError(f"a secret can't be opened, so the copy would not be whole: {error}") from error
            return None

    content = _read(session)
    for name, columns in _SEALED.items():
        for row in content[name]:
            row.update({column: opened(row[column]) for column in columns if row[column]})
    for row in content["settings"]:
        if row["name"] == hosts.MUTUAL_SETTING:
            row["value"] = {"name": row["value"]["name"], "secret": row["value"]["secret"]}
        secret = _SEALED_SETTINGS.get(row["name"])
        if secret and row["value"][secret]:
            row["value"] = {**row["value"], secret: opened(row["value"][secret])}
    return content


def without_secrets(session: Session) -> Content:
    content = _read(session)
    content["settings"] = [row for row in content["settings"] if row["name"] not in _SEALED_SETTINGS]
    return {
        name: [{column: value for column, value in row.items() if column not in _SECRET} for row in rows]
        for name, rows in content.items()
    }


def _read(session: Session) -> Content:
    session.flush()
    content = {
        name: [dict(row) for row in session.execute(select(*_columns(name)).order_by(_table(name).c[0])).mappings()]
        for name in (*TABLES, "settings")
    }
    content["settings"] = [row for row in content["settings"] if row["name"] in SETTINGS]
    return content


def replace(session: Session, seal: Seal, content: Content, caller: str) -> None:
    """Replaces the present configuration, in the caller's transaction. The caller's user, role and password do not change. Raises
    InvalidError for content that this version cannot have written.
    """
    try:
        _replace(session, seal, content, caller)
        session.flush()
        if orphan := session.connection().exec_driver_sql("PRAGMA foreign_key_check").first():
            raise KeyError(f"a row of {orphan[0]} refers to nothing")
    except (SQLAlchemyError, KeyError, TypeError, AttributeError) as error:
        reason = f"this version of zvaai can't have written it: {error}"[:300]
        raise InvalidError("copy", reason, "a copy that this version wrote") from error


def _replace(session: Session, seal: Seal, content: Content, caller: str) -> None:
    admin = session.get_one(User, caller)
    before = {*session.scalars(select(Schedule.id)), *session.scalars(select(Receiver.id))}
    users = [row for row in content["users"] if row["id"] != admin.id and row["name"] != admin.name]
    passwords = {row["id"]: row["password_hash"] for row in users if not row["disabled"]}
    ended = [
        user.id for user in session.scalars(select(User)) if user.id != caller and passwords.get(user.id) != user.password_hash
    ]
    session.execute(delete(LoginSession).where(LoginSession.user_id.in_(ended)))
    session.connection().exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    for name in reversed(TABLES):
        table = _table(name)
        if name in _RETAINED:
            stay = [row["id"] for row in content.get(name, [])] + [caller]
            session.execute(delete(table).where(table.c.id.not_in(stay)))
            # Names may change places.
            session.execute(update(table).where(table.c.id != caller).values(name=table.c.id))
        else:
            session.execute(delete(table))
    for row in content["schedules"]:
        schedule_times.zone(row["time_zone"])
    hosts.check_offloads([offload for row in content["host_groups"] for offload in row["disabled"]])
    for name in TABLES:
        for row in users if name == "users" else content.get(name, []):  # an earlier version may lack a table
            _put(session, _table(name), row | {column: seal.seal(row[column]) for column in _SEALED.get(name, ()) if row[column]})
    session.execute(delete(Setting).where(Setting.name.in_(SETTINGS), Setting.name != TARGET))  # a target has a name always
    session.expire_all()
    for row in content["settings"]:
        if row["name"] == hosts.MUTUAL_SETTING:
            hosts.set_mutual(session, seal, (row["value"]["name"], row["value"]["secret"]))
        elif row["name"] in logins.SECRETS:
            logins.write(session, seal, row["name"], row["value"])
        else:
            session.merge(Setting(name=row["name"], value=row["value"]))
    runs = {
        *session.scalars(select(Schedule.id).where(Schedule.enabled)),
        *session.scalars(select(Receiver.id).where(Receiver.enabled)),
    }
    for key in before - runs:
        for area in (*schedules.areas(key), receivers.area(key)):
            update_alerts(session, area, [])
    # The target is given each CHAP secret again. A schedule that is new here runs when it is due, not at once.
    session.execute(update(Host).values(chap_revision=Host.chap_revision + 1))
    session.execute(update(Schedule).where(Schedule.attempted_at.is_(None)).values(attempted_at=time.time()))
    session.expire_all()


def _put(session: Session, table: Table, row: dict[str, Any]) -> None:
    keys = [column.name for column in table.primary_key]
    session.execute(insert(table).values(row).on_conflict_do_update(index_elements=keys, set_=row))


def _table(name: str) -> Table:
    return Base.metadata.tables[name]


def _columns(name: str) -> list[Any]:
    return [column for column in _table(name).columns if column.name not in STATE.get(name, ())]


# --- in words


def differences(before: Content, after: Content) -> list[str]:
    """Differences for an admin; of secrets only that they differ."""
    old, new = dict(_named(before)), dict(_named(after))
    texts = [f"{name}: removed" for name in sorted(old.keys() - new.keys())]
    texts += [f"{name}: added" for name in sorted(new.keys() - old.keys())]
    for name in sorted(new.keys() & old.keys()):
        for column, value in new[name].items():
            if value != old[name].get(column):
                secret = column in _SECRET or name.removeprefix("setting ") in _SEALED_SETTINGS
                label = column.replace("_", " ")
                texts.append(
                    f"{name}: another {label}" if secret else f"{name}: {label} from {old[name].get(column)!r} to {value!r}"
                )
    return texts


def _named(content: Content) -> Iterator[tuple[str, dict[str, Any]]]:
    groups = {row["id"]: row["name"] for row in content["host_groups"]}
    owners = {row["id"]: row["name"] for row in content["hosts"]}
    shown = {row["datastore"]: f"LUN {row['lun']}" for row in content["presentations"]}
    shown |= {row["datastore"]: f"export {row['share']}" for row in content["exports"]}
    for kind, name in (("user", "users"), ("host group", "host_groups"), ("schedule", "schedules"), ("receiver", "receivers"),
                       ("setting", "settings")):  # fmt: skip
        for row in content[name]:
            yield f"{kind} {row['name']}", _without(row, "id", "name", "created_at")
    for row in content["hosts"]:
        yield (
            f"host {row['name']}",
            _without(row, "id", "name", "created_at", "group_id") | {"group": groups.get(row["group_id"])},
        )
    for row in content["host_initiators"]:
        yield f"initiator {row['iqn']} of {owners[row['host_id']]}", {}
    for row in (*content["presentations"], *content["exports"]):
        yield shown[row["datastore"]], _without(row, "lun", "share", "name", "pool")  # a restore renames no datastore
    for row in (*content["presentation_groups"], *content["export_groups"]):
        yield f"{shown[row['datastore']]} for host group {groups[row['group_id']]}", {}


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
