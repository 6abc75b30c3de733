# SPDX-License-Identifier: Apache-2.0
"""In the guest: serves a zvol, writes to it by the kernel's initiator, and records on the host what was acknowledged.

usage: power_cut_writer.py STATE_DIRECTORY SEED (write until the guest is killed) | STATE_DIRECTORY check
The host sees STATE_DIRECTORY/acknowledged grow: 16 bytes a write, block number and sequence, big-endian.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.initiator import Initiator
from support.programs import run, wait_for
from support.target import Target
from support.zfs import Pool

BLOCK_BYTES = 16384
BLOCKS = 1024
POOL = "cut"


def stamped_block(number: int, sequence: int) -> bytes:
    """A block filled with its number and the sequence of its write."""
    return (number.to_bytes(8, "big") + sequence.to_bytes(8, "big")) * (BLOCK_BYTES // 16)


def write(state: Path, seed: int) -> None:
    """Writes forever. Before the next write each acknowledged one is recorded on the host."""
    pool = Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    # A long time between transaction groups, so that data survives by the intent log only.
    Path("/sys/module/zfs/parameters/zfs_txg_timeout").write_text("600\n")
    volume = pool.create_volume("volume", BLOCKS * BLOCK_BYTES >> 20)
    directory = Path("/run/target")
    directory.mkdir()
    target = Target(directory)
    target.start()
    target.create()
    target.add_lun(0, volume)
    disk = os.open(Initiator().login(target.portal), os.O_WRONLY | os.O_DIRECT)
    page = mmap.mmap(-1, BLOCK_BYTES)
    choice = random.Random(seed)
    with (state / "acknowledged").open("ab", buffering=0) as acknowledged:
        sequence = 0
        while True:
            sequence += 1
            number = choice.randrange(BLOCKS)
            page[:] = stamped_block(number, sequence)
            assert os.pwrite(disk, page, number * BLOCK_BYTES) == BLOCK_BYTES
            acknowledged.write(number.to_bytes(8, "big") + sequence.to_bytes(8, "big"))


def check(state: Path) -> None:
    """Imports the pool after the cut and compares every block with its last acknowledged write."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    volume = Path(f"/dev/zvol/{POOL}/volume")
    wait_for(volume.exists, "the zvol is there")
    notes = (state / "acknowledged").read_bytes()
    latest: dict[int, int] = {}
    for at in range(0, len(notes) - len(notes) % 16, 16):
        latest[int.from_bytes(notes[at : at + 8], "big")] = int.from_bytes(notes[at + 8 : at + 16], "big")
    last = max(latest.values())
    lost = []
    with volume.open("rb") as stored:
        for number, sequence in latest.items():
            stored.seek(number * BLOCK_BYTES)
            block = stored.read(BLOCK_BYTES)
            # One more write may have arrived than was recorded: the one in flight at the cut.
            if block not in (stamped_block(number, sequence), stamped_block(number, last + 1)):
                lost.append(number)
    run("zpool", "scrub", "-w", POOL)
    status = run("zpool", "status", POOL)
    assert "with 0 errors" in status, status
    print(f"{len(latest)} blocks, {last} acknowledged writes, lost: {lost}")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    if sys.argv[2] == "check":
        check(Path(sys.argv[1]))
    write(Path(sys.argv[1]), int(sys.argv[2]))
