# SPDX-License-Identifier: Apache-2.0
"""Pages of lists, and the cursors between them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from appliance.api.schemas.common import ListQuery
from appliance.domain.errors import InvalidError


@dataclass(frozen=True)
class Page[T]:
    """Part of a list, and the cursor of the next part."""

    items: list[T]
    next_cursor: str | None

    def each[R](self, make: Callable[[T], R]) -> Page[R]:
        return Page([make(item) for item in self.items], self.next_cursor)


def page[T](items: Sequence[T], query: ListQuery, key: Callable[[T], str]) -> Page[T]:
    """A page of a list in memory, sorted by a unique `key`."""
    begin = after(query)
    rest = [item for item in items if begin is None or key(item) > begin]
    shown = rest[: query.limit]
    return Page(shown, encoded(key(shown[-1])) if len(rest) > len(shown) else None)


def after(query: ListQuery) -> str | None:
    """The key of the last of the page before."""
    return _decode(query.cursor)


def newest_first[T](items: Iterable[T], query: ListQuery, number: Callable[[T], int]) -> Page[T]:
    """A page of a list that the database has sorted, with one item more than the page."""
    listed = list(items)
    shown = listed[: query.limit]
    return Page(shown, encoded(str(number(shown[-1]))) if len(listed) > len(shown) else None)


def before_number(query: ListQuery) -> int:
    text = _decode(query.cursor)
    if text is None:
        return 1 << 62
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidError("cursor", "not a cursor of this list", "next_cursor of the page before")
    return int(text)


def encoded(key: str) -> str:
    """A cursor that points after this key."""
    return base64.urlsafe_b64encode(key.encode()).decode()


def _decode(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError as error:
        raise InvalidError("cursor", "not a cursor of this list", "next_cursor of the page before") from error
