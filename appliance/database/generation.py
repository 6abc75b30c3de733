# SPDX-License-Identifier: Apache-2.0
"""The generation of the configuration: a counter that each change of its tables increases, in the same transaction.

SQLite triggers increase it, so that bulk statements and other processes count too.
"""

from collections.abc import Iterator

from sqlalchemy import Table

from appliance.database.models import Base

TABLES = (
    "users", "host_groups", "hosts", "host_initiators", "presentations", "presentation_groups", "exports", "export_groups",
    "schedules", "receivers",
)  # fmt: skip
"""Tables with configuration. Sessions, tokens, jobs, alerts and the audit are not."""
TARGET = "iscsi-target"
"""Row of the table `settings` with the name of the iSCSI target, made with the database."""
SETTINGS = ("iscsi", TARGET, "iscsi-target-chap", "directory", "oidc")
"""Rows of the table `settings` that are configuration."""
STATE = {
    "users": {"totp_used"}, "hosts": {"chap_revision", "chap_applied"}, "schedules": {"last_at", "attempted_at"},
}  # fmt: skip
"""Columns that the appliance itself updates."""
_COUNT = "UPDATE installation SET generation = generation + 1"


def triggers() -> Iterator[str]:
    for name in TABLES:
        columns = [column.name for column in _table(name).columns if column.name not in STATE.get(name, ())]
        for event in ("INSERT", "DELETE", f"UPDATE OF {', '.join(columns)}"):
            yield _trigger(name, event, "")
    names = ", ".join(f"'{name}'" for name in SETTINGS)
    for event, row in (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "NEW")):
        yield _trigger("settings", event, f" WHEN {row}.name IN ({names})")


def _table(name: str) -> Table:
    return Base.metadata.tables[name]


def _trigger(table: str, event: str, condition: str) -> str:
    name = f"generation_{table}_{event.split()[0].lower()}"
    return f"CREATE TRIGGER {name} AFTER {event} ON {table}{condition} BEGIN {_COUNT}; END"
