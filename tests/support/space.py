# SPDX-License-Identifier: Apache-2.0
"""How much space a volume takes, whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

from support.programs import IN_GUEST, run


def sync(volume: Path) -> None:
    """What was written is on its disk, and counted there, from here on."""
    if IN_GUEST:
        run("zpool", "sync", str(volume).removeprefix("/dev/zvol/").partition("/")[0])
    else:
        os.sync()


def used_bytes(volume: Path) -> int:
    """Bytes a zvol or a file takes."""
    sync(volume)
    if IN_GUEST:
        return int(run("zfs", "get", "-Hpo", "value", "used", str(volume).removeprefix("/dev/zvol/")))
    return volume.stat().st_blocks * 512
