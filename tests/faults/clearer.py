# SPDX-License-Identifier: Apache-2.0
"""In the guest: clears parts of a zvol, stable, and reports; then the host cuts the power. Or checks afterwards.

usage: clearer.py STATE_DIRECTORY clear | check
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from integration.kernel.zvol_clone.blocks import MIB, opened, random_blocks, read_direct, write_direct
from support.programs import run, wait_for
from support.volume_tool import clear
from support.zfs import Pool

POOL = "cut"
LENGTH = 32 * MIB
CLEARED = ((0, 4 * MIB), (8 * MIB + 512, 4 * MIB), (16 * MIB - 1024, 2 * MIB + 512))
"""Whole blocks are discarded, edges are written: the intent log must have both."""


def open_txg() -> str:
    """The number of the open transaction group."""
    return Path(f"/proc/spl/kstat/zfs/{POOL}/txgs").read_text().splitlines()[-1].split()[0]


def clear_all(state: Path) -> None:
    """Never returns. The txg stays open, so only the ZIL can have the change after the cut."""
    pool = Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    device = pool.create_volume("volume", LENGTH // MIB)
    data = random_blocks(LENGTH)
    write_direct(device, data)
    (state / "content").write_bytes(data)
    # Stays open: the last close would sync everything.
    with opened(device, os.O_RDWR) as fd:
        # The first flush creates the ZIL, which takes a txg.
        os.pwrite(fd, data[:512], 0)
        os.fsync(fd)
        # Before the sync: a waiter uses the interval that was set when its wait began.
        Path("/sys/module/zfs/parameters/zfs_txg_timeout").write_text("600\n")
        run("zpool", "sync", POOL)
        txg = open_txg()
        for offset, length in CLEARED:
            clear(device, offset, length)
        (state / "cleared").write_text(f"{txg} {open_txg()}")
        time.sleep(600)


def check(state: Path) -> None:
    """Imports the pool after the cut, which replays the ZIL, and checks every byte."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    device = Path(f"/dev/zvol/{POOL}/volume")
    wait_for(device.exists, f"{device} is there")
    expected = bytearray((state / "content").read_bytes())
    for offset, length in CLEARED:
        expected[offset : offset + length] = bytes(length)
    assert read_direct(device, LENGTH) == expected, "stable zeroes have changed"
    run("zpool", "scrub", "-w", POOL)
    status = run("zpool", "status", POOL)
    assert "with 0 errors" in status, status
    print("cleared ranges are zero after the cut, scrub clean")


if __name__ == "__main__":
    (check if sys.argv[2] == "check" else clear_all)(Path(sys.argv[1]))
