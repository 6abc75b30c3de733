# SPDX-License-Identifier: Apache-2.0
"""Rows of tables by identifier and by name."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from appliance.database.models import Base, Host, HostGroup, Receiver, Schedule, User
from appliance.domain.errors import ConflictError, NotFoundError


def existing[Row: Base](session: Session, table: type[Row], identifier: str, kind: str) -> Row:
    """The row with this identifier. Raises NotFoundError for a `kind` that does not exist."""
    row = session.get(table, identifier)
    if row is None:
        raise NotFoundError(kind, identifier)
    return row


def check_name(
    session: Session,
    table: type[Host | HostGroup | Receiver | Schedule | User],
    name: str,
    but: str | None = None,
    problem: str = "the name is taken",
) -> None:
    """Raises ConflictError if another row than `but` has the name."""
    taken = session.scalar(select(table.id).where(table.name == name))
    if taken is not None and taken != but:
        raise ConflictError(problem, [name], field_name="name")
