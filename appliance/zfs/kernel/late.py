"""Changes that ran into their time limit and are still in the kernel: each may come true at any moment, until it has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from appliance.zfs import names

_READING = frozenset(("list", "get", "status", "holds", "diff", "lzc_exists", "lzc_list_snaps", "lzc_list_children"))


class Late:
    """Of one process. `ended` of an entry says whether it is over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[tuple[str, frozenset[str], Callable[[], bool]]] = []

    def add(self, operation: str, arguments: Iterable[Any], ended: Callable[[], bool]) -> None:
        """What only reads can't come true."""
        if operation in _READING:
            return
        pools = frozenset(names.pool_of(text) for text in _texts(arguments))
        with self._lock:
            self._entries.append((operation, pools, ended))

    def of(self, pool: str) -> tuple[str, ...]:
        """Operations that name something of the pool, the oldest first."""
        with self._lock:
            self._entries = [entry for entry in self._entries if not entry[2]()]
            return tuple(operation for operation, pools, _ in self._entries if pool in pools)


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
