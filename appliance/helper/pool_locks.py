# SPDX-License-Identifier: Apache-2.0
"""One change of a pool at a time, pools concurrently."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.zfs import leftover, names
from appliance.zfs.errors import PoolBusy

WAIT_SECONDS = 20.0
_POLL_SECONDS = 0.1
"""For a call that was left in the kernel: nothing announces its end."""
_NAMES = ("name", "pool", "snapshot", "snapshots", "dataset", "new_name")


def pools_of(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Pools that the arguments of an operation name; of an import the GUID, too."""
    found: set[str] = set()
    for argument in _NAMES:
        value = arguments.get(argument) or ()
        texts: Sequence[str] = (value,) if isinstance(value, str) else value
        found.update(names.pool_of(text) for text in texts)
    return frozenset(found)


@dataclass
class _Change:
    operation: str
    left: Sequence[Callable[[], bool]] | None = None
    """None while it runs; then what it left in the kernel."""

    def has_ended(self) -> bool:
        return self.left is not None and all(ended() for ended in self.left)


class PoolLocks:
    """By the pools' names. A change takes all of its pools at once, or waits: so no two wait for each other.

    A change that ran into its time limit keeps its pools until it has ended in the kernel. What a helper that was killed has left
    there is not known. OpenZFS carries out the changes of a pool in the order in which they came: a later one is done later.
    """

    def __init__(self, seconds: float = WAIT_SECONDS) -> None:
        self._seconds = seconds
        self._changed = threading.Condition()
        self._changes: dict[str, _Change] = {}

    @contextlib.contextmanager
    def held(self, pools: Collection[str], operation: str) -> Iterator[None]:
        """Raises PoolBusy."""
        change = _Change(operation)
        with self._changed:
            until = time.monotonic() + self._seconds
            while busy := self._busy(pools):
                pool, other = busy
                if time.monotonic() >= until:
                    raise PoolBusy(pool, other.operation)
                self._changed.wait(_POLL_SECONDS if other.left is not None else max(0.0, until - time.monotonic()))
            self._changes.update(dict.fromkeys(pools, change))
        leftover.take()
        try:
            yield
        finally:
            with self._changed:
                change.left = leftover.take()
                self._changed.notify_all()

    def _busy(self, pools: Collection[str]) -> tuple[str, _Change] | None:
        for pool in sorted(pools):
            change = self._changes.get(pool)
            if change is not None and change.has_ended():
                del self._changes[pool]
            elif change is not None:
                return pool, change
        return None
