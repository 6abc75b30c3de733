# SPDX-License-Identifier: Apache-2.0
"""In the guest: clones, flushes the destination, and reports; then the host cuts the power. Or checks afterwards.

usage: cloner.py STATE_DIRECTORY clone | check
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from integration.kernel.zvol_clone import kernel_module
from integration.kernel.zvol_clone.blocks import MIB, opened, random_blocks, read_direct, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.programs import run, wait_for
from support.zfs import Pool

POOL = "cut"
LENGTH = 64 * MIB
FIRST = 8 * MIB
"""The first clone into a volume that was never written: its flush creates the ZIL, which takes a txg (zil_create())."""
FLUSHED = 40 * MIB
"""The rest is cloned after the flush: each block may survive or not."""
BLOCK = 16384


def open_txg() -> str:
    """The number of the open transaction group."""
    return Path(f"/proc/spl/kstat/zfs/{POOL}/txgs").read_text().splitlines()[-1].split()[0]


def clone(state: Path) -> None:
    """Never returns. The txg of the clone stays open, so only the ZIL can have the clone after the cut."""
    pool = Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    source, destination = pool.create_volume("source", LENGTH // MIB), pool.create_volume("destination", LENGTH // MIB)
    data = random_blocks(LENGTH)
    write_direct(source, data)
    for number, content in enumerate((data, bytes(LENGTH))):
        (state / f"content{number}").write_text(hashlib.sha256(content[:FLUSHED]).hexdigest())
    result = kernel_module.load()
    assert result.returncode == 0, result.stderr
    device = ZvolClone()
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
        # Before the sync: a waiter uses the interval that was set when its wait began.
        Path("/sys/module/zfs/parameters/zfs_txg_timeout").write_text("600\n")
        run("zpool", "sync", POOL)
        assert device.clone(source_fd, other, FIRST).bytes_done == FIRST
        os.fsync(other)
        txg = open_txg()
        outcome = device.clone(source_fd, other, FLUSHED - FIRST, source_offset=FIRST, destination_offset=FIRST)
        assert outcome.bytes_done == FLUSHED - FIRST, outcome
        os.fsync(other)
        rest = device.clone(source_fd, other, LENGTH - FLUSHED, source_offset=FLUSHED, destination_offset=FLUSHED)
        assert rest.bytes_done == LENGTH - FLUSHED, rest
        (state / "flushed").write_text(f"{txg} {open_txg()}")
        time.sleep(600)


def check(state: Path) -> None:
    """Imports the pool after the cut, which replays the ZIL, and checks every block."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    source, destination = Path(f"/dev/zvol/{POOL}/source"), Path(f"/dev/zvol/{POOL}/destination")
    for device in (source, destination):
        wait_for(device.exists, f"{device} is there")
    first, other = read_direct(source, LENGTH), read_direct(destination, LENGTH)
    digest = hashlib.sha256(other[:FLUSHED]).hexdigest()
    assert digest == (state / "content0").read_text(), "the flushed clone is not whole"
    assert digest != (state / "content1").read_text()
    for at in range(FLUSHED, LENGTH, BLOCK):
        assert other[at : at + BLOCK] in (first[at : at + BLOCK], bytes(BLOCK)), f"the block at {at} is neither old nor new"
    run("zpool", "sync", POOL)
    cloned = int(run("zpool", "get", "-Hpo", "value", "bcloneused", POOL))
    assert cloned >= FLUSHED, f"the ZIL's clone records were not replayed as clones: {cloned} bytes are shared"
    run("zpool", "scrub", "-w", POOL)
    status = run("zpool", "status", POOL)
    assert "with 0 errors" in status, status
    print(f"flushed clone whole after the cut, {cloned // MIB} MiB shared, scrub clean")


if __name__ == "__main__":
    (check if sys.argv[2] == "check" else clone)(Path(sys.argv[1]))
