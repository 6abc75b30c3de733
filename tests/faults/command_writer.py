"""Inside the guest: writes to zvols by every kind of write command, and tells the host which writes must be durable.

usage: command_writer.py STATE_DIRECTORY SEED (write until the guest is killed) | STATE_DIRECTORY check
The host sees STATE_DIRECTORY/acknowledged grow by records: kind, block, sequence (big-endian, 4, 4 and 8 bytes).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import cdb
from support.programs import run, wait_for
from support.raw_initiator import GOOD, Session
from support.target import Target
from support.zfs import Pool

POOL = "cut"
RECORD = struct.Struct(">IIQ")
BLOCK_BYTES = 16384
LOGICAL_BLOCKS = BLOCK_BYTES // 512
REGION_BLOCKS = 8
"""Blocks of its volume that each kind writes to."""

NO_CACHE, CACHE, NEVER_FLUSHED = 0, 1, 2
"""Logical units: WCE=0; WCE=1; WCE=1 and never asked for a flush."""

TRANSFERS = {
    "immediate": {"ImmediateData": "Yes", "InitialR2T": "Yes"},
    "unsolicited": {"ImmediateData": "No", "InitialR2T": "No"},
    "R2T": {"ImmediateData": "No", "InitialR2T": "Yes"},
}
FORMS: dict[str, Callable[[int, int], bytes]] = {
    "WRITE(6)": lambda address, blocks: cdb.six(0x0A, address, blocks),
    "WRITE(10)": lambda address, blocks: cdb.ten(0x2A, address, blocks),
    "WRITE(12)": lambda address, blocks: cdb.twelve(0xAA, address, blocks),
    "WRITE(16)": lambda address, blocks: cdb.sixteen(0x8A, address, blocks),
    "WRITE(10) FUA": lambda address, blocks: cdb.ten(0x2A, address, blocks, cdb.FORCE_UNIT_ACCESS),
    "WRITE(12) FUA": lambda address, blocks: cdb.twelve(0xAA, address, blocks, cdb.FORCE_UNIT_ACCESS),
    "WRITE(16) FUA": lambda address, blocks: cdb.sixteen(0x8A, address, blocks, cdb.FORCE_UNIT_ACCESS),
    "WRITE AND VERIFY(10)": lambda address, blocks: cdb.ten(0x2E, address, blocks),
    "WRITE AND VERIFY(12)": lambda address, blocks: cdb.twelve(0xAE, address, blocks),
    "WRITE AND VERIFY(16)": lambda address, blocks: cdb.sixteen(0x8E, address, blocks),
}
FLUSHES = {"SYNCHRONIZE CACHE(10)": cdb.ten(0x35, 0, 0), "SYNCHRONIZE CACHE(16)": cdb.sixteen(0x91, 0, 0)}


@dataclass(frozen=True)
class Kind:
    """A way to write: the logical unit, the form of the command, how its data goes, and the flush that follows it."""

    lun: int
    form: str
    transfer: str
    flush: str | None = None

    def __str__(self) -> str:
        cache = ["WCE=0", "WCE=1", "WCE=1, never flushed"][self.lun]
        return ", ".join([self.form, *([f"then {self.flush}"] if self.flush else []), self.transfer, cache])


KINDS = [
    *(Kind(NO_CACHE, form, transfer) for form in FORMS for transfer in TRANSFERS),
    *(Kind(CACHE, form, "immediate") for form in FORMS if "FUA" in form or "VERIFY" in form),
    *(Kind(CACHE, "WRITE(10)", transfer, flush) for flush in FLUSHES for transfer in TRANSFERS),
    Kind(NEVER_FLUSHED, "WRITE(10)", "R2T"),
]


def stamped_block(kind: int, block: int, sequence: int) -> bytes:
    """A block that tells its kind, number and the write it stems from, all over."""
    return RECORD.pack(kind, block, sequence) * (BLOCK_BYTES // RECORD.size)


def address_of(kind: int, block: int) -> int:
    """The logical block address of a block of a kind's region."""
    return (kind * REGION_BLOCKS + block) * LOGICAL_BLOCKS


def serve(directory: Path) -> Target:
    """A target with the three logical units on zvols."""
    pool = Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    # A long time between transaction groups: what survives did so by the intent log.
    Path("/sys/module/zfs/parameters/zfs_txg_timeout").write_text("60\n")
    directory.mkdir()
    target = Target(directory)
    target.start()
    target.create()
    size_mib = len(KINDS) * REGION_BLOCKS * BLOCK_BYTES // (1 << 20) + 1
    for lun in (NO_CACHE, CACHE, NEVER_FLUSHED):
        target.add_lun(lun, pool.create_volume(f"volume{lun}", size_mib), write_cache=lun != NO_CACHE)
    run("zpool", "sync", POOL)
    return target


async def write(state: Path, seed: int) -> None:
    """Writes for ever, each kind in its turn; what must be durable is noted on the host before the next write starts."""
    target = serve(Path("/run/target"))
    choice = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        sessions = {
            name: await stack.enter_async_context(Session(target.portal, settings=settings))
            for name, settings in TRANSFERS.items()
        }
        for session in sessions.values():
            for lun in (NO_CACHE, CACHE, NEVER_FLUSHED):
                await session.execute(cdb.TEST_UNIT_READY, lun=lun)  # takes the unit attention of a new nexus
        with (state / "acknowledged").open("ab", buffering=0) as acknowledged:
            sequence = 0
            while True:
                sequence += 1
                for number, kind in enumerate(KINDS):
                    session = sessions[kind.transfer]
                    block = choice.randrange(REGION_BLOCKS)
                    command = FORMS[kind.form](address_of(number, block), LOGICAL_BLOCKS)
                    written = await session.execute(command, data_out=stamped_block(number, block, sequence), lun=kind.lun)
                    assert written.status == GOOD, (kind, written)
                    if kind.flush:
                        assert (await session.execute(FLUSHES[kind.flush], lun=kind.lun)).status == GOOD
                    acknowledged.write(RECORD.pack(number, block, sequence))


def check(state: Path) -> None:
    """Imports the pool after the cut; prints for each kind how many blocks were acknowledged, and how many of them are lost."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    notes = (state / "acknowledged").read_bytes()
    latest: dict[tuple[int, int], int] = {}
    for at in range(0, len(notes) - len(notes) % RECORD.size, RECORD.size):
        number, block, sequence = RECORD.unpack_from(notes, at)
        latest[number, block] = sequence
    found = {str(kind): [0, 0] for kind in KINDS}
    for (number, block), noted in latest.items():
        volume = Path(f"/dev/zvol/{POOL}/volume{KINDS[number].lun}")
        wait_for(volume.exists, f"{volume} is there")
        with volume.open("rb") as stored:
            stored.seek(address_of(number, block) * 512)
            content = stored.read(BLOCK_BYTES)
        sequence = RECORD.unpack_from(content)[2]
        # The write in flight at the cut may have arrived without being noted.
        whole = content == stamped_block(number, block, sequence) and sequence >= noted
        found[str(KINDS[number])][0] += 1
        found[str(KINDS[number])][1] += not whole
    run("zpool", "scrub", "-w", POOL)
    assert "with 0 errors" in run("zpool", "status", POOL)
    (state / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[2] == "check":
        check(Path(sys.argv[1]))
    else:
        asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
