# SPDX-License-Identifier: Apache-2.0
"""Changes that ran into their time limit and are still in the kernel: each may come true at any moment, until it has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from appliance.zfs import names
from appliance.zfs.kernel.under_way import Begun, UnderWay

_READING = frozenset(("list", "get", "status", "holds", "diff", "lzc_exists", "lzc_list_snaps", "lzc_list_children"))


class Late:
    """Of one process, and with `keep_in` of those before it. `ended` of an entry says whether it is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[tuple[str, frozenset[str], Callable[[], bool], Begun | None]] = []
        self._under_way: UnderWay | None = None

    def keep_in(self, directory: Path) -> None:
        """Writes down in it what begins, from now on, and tells of what others have left there. Raises OSError."""
        self._under_way = UnderWay(directory)

    def begin(self, operation: str, arguments: Iterable[Any]) -> Begun | None:
        """Before a change; who called ends it, or adds it. None for what only reads. Raises EngineUnavailable."""
        if self._under_way is None or operation in _READING:
            return None
        return self._under_way.begin(operation, _pools(arguments))

    def add(self, operation: str, arguments: Iterable[Any], ended: Callable[[], bool], begun: Begun | None = None) -> None:
        """What only reads can't come true."""
        if operation in _READING:
            return
        with self._lock:
            self._entries.append((operation, _pools(arguments), ended, begun))

    def of(self, pool: str) -> tuple[str, ...]:
        """Operations that name something of the pool, the oldest first."""
        with self._lock:
            over = [entry for entry in self._entries if entry[2]()]
            self._entries = [entry for entry in self._entries if entry not in over]
            own = tuple(operation for operation, pools, *_ in self._entries if pool in pools)
        for *_, begun in over:
            if begun is not None:
                begun.end()
        return (self._under_way.left(pool) if self._under_way else ()) + own


def _pools(arguments: Iterable[Any]) -> frozenset[str]:
    return frozenset(names.pool_of(text) for text in _texts(arguments))


def _texts(value: Any) -> Iterator[str]:
    """All in nested arguments."""
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(value))
        yield from _texts(list(value.values()))
    elif isinstance(value, Iterable):
        for one in value:
            yield from _texts(one)


LATE = Late()
"""Of this process: OpenZFS is one for the machine."""
