# SPDX-License-Identifier: Apache-2.0
"""Allocated space of a volume of any kind."""

from __future__ import annotations

import os
from pathlib import Path

from support.programs import IN_GUEST, run


def sync(volume: Path) -> None:
    """Returns when earlier writes are on disk and counted."""
    if IN_GUEST:
        run("zpool", "sync", str(volume).removeprefix("/dev/zvol/").partition("/")[0])
    else:
        with volume.open("rb") as file:
            os.fsync(file.fileno())


def used_bytes(volume: Path) -> int:
    """Bytes a zvol or a file takes."""
    sync(volume)
    if IN_GUEST:
        return int(run("zfs", "get", "-Hpo", "value", "used", str(volume).removeprefix("/dev/zvol/")))
    return volume.stat().st_blocks * 512
