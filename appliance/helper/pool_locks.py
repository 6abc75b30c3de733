# SPDX-License-Identifier: Apache-2.0
"""One change of a pool at a time, pools concurrently."""

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
"""Poll interval for a call that is still in the kernel: nothing signals its end."""
_NAMES = ("name", "pool", "snapshot", "snapshots", "dataset", "new_name")


def pools_of(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Pools named in the arguments of an operation; for an import also a GUID."""
    pools: set[str] = set()
    for argument in _NAMES:
        value = arguments.get(argument) or ()
        texts: Sequence[str] = (value,) if isinstance(value, str) else value
        pools.update(names.pool_of(text) for text in texts)
    return frozenset(pools)


@dataclass
class _Change:
    operation: str
    left: Sequence[Callable[[], bool]] | None = None
    """None while it runs; then its calls that are still in the kernel."""

    def has_ended(self) -> bool:
        return self.left is not None and all(ended() for ended in self.left)


class PoolLocks:
    """Locks by pool name. A change locks all of its pools at once, or waits: so there is no deadlock.

    After a timeout a change keeps its locks until its call has left the kernel. Calls of a killed helper are unknown. OpenZFS
    runs the changes of a pool in the order of the calls.
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
