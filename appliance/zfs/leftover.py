# SPDX-License-Identifier: Apache-2.0
"""Calls after their timeout that are still in the kernel, and may still take effect."""

import threading
from collections.abc import Callable

Ended = Callable[[], bool]
_of_thread = threading.local()


def add(ended: Ended) -> None:
    _of_thread.calls = [*getattr(_of_thread, "calls", ()), ended]


def take() -> list[Ended]:
    calls: list[Ended] = getattr(_of_thread, "calls", [])
    _of_thread.calls = []
    return [ended for ended in calls if not ended()]
