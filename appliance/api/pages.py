# SPDX-License-Identifier: Apache-2.0
"""Pages of lists, and the cursors between them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence

from appliance.api.schemas.common import ListQuery, Page
from appliance.domain.errors import InvalidError


def page[T, R](
    answer: type[R], items: Sequence[T], query: ListQuery, key: Callable[[T], str], shown: Callable[[T], object] | None = None
) -> Page[R]:
    """A page of a list in memory, sorted by a unique `key`. `shown` makes the answer of an item."""
    begin = after(query)
    return _page(answer, sorted((item for item in items if begin is None or key(item) > begin), key=key), query, key, shown)


def _page[T, R](
    answer: type[R], rest: list[T], query: ListQuery, key: Callable[[T], str], shown: Callable[[T], object] | None = None
) -> Page[R]:
    chosen = rest[: query.limit]
    cursor = encoded(key(chosen[-1])) if len(rest) > len(chosen) else None
    answers: list[object] = [item if shown is None else shown(item) for item in chosen]
    made: Page[R] = Page[answer].model_validate({"items": answers, "next_cursor": cursor})  # type: ignore[valid-type]
    return made


def after(query: ListQuery) -> str | None:
    """The key of the last of the page before."""
    return _decode(query.cursor)


def newest_first[T, R](answer: type[R], items: Iterable[T], query: ListQuery, number: Callable[[T], int | str]) -> Page[R]:
    """A page of a list that is sorted already, with one item more than the page."""
    return _page(answer, list(items), query, lambda item: str(number(item)))


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
