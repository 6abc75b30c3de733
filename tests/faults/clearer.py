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
from support.volume_tool import clear, discard
from support.zfs import Pool, transaction_groups

POOL = "cut"
LENGTH = 32 * MIB
CLEARED = ((0, 4 * MIB), (8 * MIB + 512, 4 * MIB), (16 * MIB - 1024, 2 * MIB + 512))
"""Whole blocks are discarded, edges are written: the intent log must have both."""
ACROSS = (20 * MIB, 4 * MIB)
"""Its discard is logged in one transaction group and frees in the next, and only the first is on disk."""
SPENT = (31 * MIB, MIB)
"""Discarded again and again before, without a flush: that uses what one transaction group may free."""


def open_txg() -> str:
    """The number of the open transaction group."""
    return Path(f"/proc/spl/kstat/zfs/{POOL}/txgs").read_text().splitlines()[-1].split()[0]


def tune(name: str, value: int) -> None:
    Path(f"/sys/module/zfs/parameters/{name}").write_text(f"{value}\n")


def delayed_frees() -> int:
    """How many frees have waited for the next transaction group."""
    lines = Path("/proc/spl/kstat/zfs/dmu_tx").read_text().splitlines()
    return next(int(line.split()[2]) for line in lines if line.startswith("dmu_tx_dirty_frees_delay "))


def clear_across_txgs(device: Path, fd: int) -> None:
    """Returns when the transaction group of the log record is on disk; that of the free is open."""
    txg = int(open_txg())
    # Each counts an indirect block of 128 KiB against a share of zfs_dirty_data_max, which is 10 % of the guest's memory.
    for _ in range(100):
        discard(fd, *SPENT)
    tune("zfs_per_txg_dirty_frees_percent", 1)
    before = delayed_frees()
    clear(device, *ACROSS)
    assert delayed_frees() > before, "the discard was freed in the transaction group of its log record"
    tune("zfs_per_txg_dirty_frees_percent", 30)
    wait_for(lambda: transaction_groups(POOL)[txg] == "C", f"transaction group {txg} is on disk")
    assert int(open_txg()) == txg + 1, "the free is on disk, too: it does not prove the intent log"


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
        tune("zfs_txg_timeout", 600)
        run("zpool", "sync", POOL)
        clear_across_txgs(device, fd)
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
    for offset, length in (*CLEARED, ACROSS, SPENT):
        expected[offset : offset + length] = bytes(length)
    assert read_direct(device, LENGTH) == expected, "stable zeroes have changed"
    run("zpool", "scrub", "-w", POOL)
    status = run("zpool", "status", POOL)
    assert "with 0 errors" in status, status
    print("cleared ranges are zero after the cut, scrub clean")


if __name__ == "__main__":
    (check if sys.argv[2] == "check" else clear_all)(Path(sys.argv[1]))
