# SPDX-License-Identifier: Apache-2.0
"""What is mounted where, as this process sees it: proc_pid_mountinfo(5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path


def topmost(path: str, table: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The source of what is mounted at a path: of OpenZFS a dataset's name. None where nothing is.

    Of several that are mounted over each other it is the one that is seen.
    """
    return next(reversed(stack(path, table)), None)


def stack(path: str, table: Path = Path("/proc/self/mountinfo")) -> list[str]:
    """The sources of all that is mounted at a path, the one that is seen last."""
    return [source for place, source in _mounted(table) if place == path]


def mounted_at(source: str, table: Path = Path("/proc/self/mountinfo")) -> list[str]:
    """The paths at which it is mounted, seen or not."""
    return [place for place, found in _mounted(table) if found == source]


def _mounted(table: Path) -> Iterator[tuple[str, str]]:
    """Each mountpoint with its source; what was mounted later comes later."""
    for line in table.read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        yield _plain(before.split(" ")[4]), _plain(after.split(" ")[1])


def _plain(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
