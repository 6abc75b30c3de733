# SPDX-License-Identifier: Apache-2.0
"""Mounts of this process: proc_pid_mountinfo(5)."""

import re
from collections.abc import Iterator
from pathlib import Path


def topmost(path: str, table: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Source of the visible mount at a path, for OpenZFS a dataset's name; None without a mount."""
    return next(reversed(stack(path, table)), None)


def stack(path: str, table: Path = Path("/proc/self/mountinfo")) -> list[str]:
    """Sources of all mounts at a path; the visible one is last."""
    return [source for place, source in _mounted(table) if place == path]


def mounted_at(source: str, table: Path = Path("/proc/self/mountinfo")) -> list[str]:
    """The paths at which it is mounted, seen or not."""
    return [place for place, mounted_source in _mounted(table) if mounted_source == source]


def _mounted(table: Path) -> Iterator[tuple[str, str]]:
    """Each mountpoint with its source, in the order of mounting."""
    for line in table.read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        yield _plain(before.split(" ")[4]), _plain(after.split(" ")[1])


def _plain(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
