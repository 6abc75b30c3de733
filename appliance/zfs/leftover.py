# SPDX-License-Identifier: Apache-2.0
"""Calls that ran into their time limit and are still in the kernel. Each may be done at any moment before it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

Ended = Callable[[], bool]
"""Whether such a call has ended."""
_of_thread = threading.local()


def add(ended: Ended) -> None:
    """Of the operation that this thread carries out."""
    _of_thread.found = [*getattr(_of_thread, "found", ()), ended]


def take() -> list[Ended]:
    """Those of this thread since the last time."""
    found: list[Ended] = getattr(_of_thread, "found", [])
    _of_thread.found = []
    return [ended for ended in found if not ended()]
