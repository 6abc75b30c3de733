# SPDX-License-Identifier: Apache-2.0
"""In the guest: writes to zvols by every kind of write command, and records on the host which writes must be durable.

usage: command_writer.py STATE_DIRECTORY SEED [STATE_DIRECTORY of the cut before, to check it first] | STATE_DIRECTORY check
It writes until the guest is killed. The host reads STATE_DIRECTORY/acknowledged, which grows by records: kind, block, sequence
(big-endian, 4, 4 and 8 bytes).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.offload_kinds import OFFLOADS, REGISTRATION, TEMPLATES, Disk, OffloadKind, stamp_survived, template
from faults.stamps import BLOCK_BYTES, LOGICAL_BLOCKS, RECORD, REGION_BLOCKS, address_of, stamped_block
from integration.kernel.zvol_clone import kernel_module
from support import cdb
from support.programs import run, wait_for
from support.raw_initiator import GOOD, Session
from support.target import Target
from support.third_party_copy import naa_of
from support.zfs import Pool, destroy_pool

POOL = "cut"
STABLE, UNSTABLE = 0, 1
"""Logical units: as served; on a zvol with sync=disabled, where writes are stable only after their transaction group."""

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


@dataclass(frozen=True)
class Kind:
    """A kind of write: logical unit, command, and transfer of the data."""

    lun: int
    form: str
    transfer: str

    def __str__(self) -> str:
        return ", ".join([self.form, self.transfer, *(["sync=disabled"] if self.lun == UNSTABLE else [])])

    async def perform(self, session: Session, number: int, block: int, sequence: int) -> None:
        """Writes the block. Raises AssertionError."""
        command = FORMS[self.form](address_of(number, block), LOGICAL_BLOCKS)
        written = await session.execute(command, data_out=stamped_block(number, block, sequence), lun=self.lun)
        assert written.status == GOOD, (self, written)

    def survived(self, content: bytes, number: int, block: int, noted: int, last: int) -> bool:
        """Whether the block has the acknowledged write, or the write that was running at the cut."""
        return stamp_survived(content, number, block, noted, last)


WITNESS = Kind(UNSTABLE, "WRITE(10)", "R2T")
"""Performed after each other command: a command may close the transaction group, which makes all before it durable. A loss proves
the cut.
"""
KINDS: list[Kind | OffloadKind] = [
    *(Kind(STABLE, form, transfer) for form in FORMS for transfer in TRANSFERS),
    *OFFLOADS,
    WITNESS,
]
RESERVATIONS = Path("/run/reservations")
"""Mountpoint of a small dataset of the pool."""
TEMPLATES_ADDRESS = address_of(len(KINDS), 0)


def serve(directory: Path, state: Path) -> Target:
    """A target with both logical units on zvols. The state directory stores the identity of the first."""
    pool = Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    # A long time between transaction groups, so that data survives by the intent log only.
    Path("/sys/module/zfs/parameters/zfs_txg_timeout").write_text("600\n")
    loaded = kernel_module.load()
    assert loaded.returncode == 0, loaded.stderr
    directory.mkdir()
    target = Target(directory)
    target.start()
    target.create()
    run("zfs", "create", "-o", f"mountpoint={RESERVATIONS}", f"{POOL}/reservations")
    size_mib = (len(KINDS) * REGION_BLOCKS + TEMPLATES) * BLOCK_BYTES // (1 << 20) + 1
    volume = pool.create_volume(f"volume{STABLE}", size_mib)
    with volume.open("r+b") as templates:
        templates.seek(TEMPLATES_ADDRESS * 512)
        templates.write(b"".join(template(slot) for slot in range(TEMPLATES)))
    identity = target.add_lun(STABLE, volume, reservations=str(RESERVATIONS))
    (state / "identity").write_text(identity)
    target.add_lun(UNSTABLE, pool.create_volume(f"volume{UNSTABLE}", size_mib, sync="disabled"))
    run("zpool", "sync", POOL)
    return target


async def write(state: Path, seed: int) -> None:
    """Writes forever, each kind in turn. Before the next write, durable writes are recorded on the host."""
    target = serve(Path("/run/target"), state)
    choice = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        sessions = {
            name: await stack.enter_async_context(Session(target.portal, settings=settings))
            for name, settings in TRANSFERS.items()
        }
        for session in sessions.values():
            for lun in (STABLE, UNSTABLE):
                await session.execute(cdb.TEST_UNIT_READY, lun=lun)  # takes the unit attention of a new nexus
        offloading = sessions["immediate"]
        disk = Disk(offloading, await naa_of(offloading, STABLE), TEMPLATES_ADDRESS)
        with (state / "acknowledged").open("ab", buffering=0) as acknowledged:
            sequence = witnessed = 0
            witness = KINDS.index(WITNESS)
            while True:
                sequence += 1
                for number, kind in enumerate(KINDS[:witness]):
                    block = choice.randrange(REGION_BLOCKS)
                    if isinstance(kind, OffloadKind):
                        await kind.perform(disk, number, block, sequence)
                    else:
                        await kind.perform(sessions[kind.transfer], number, block, sequence)
                    witnessed += 1
                    await WITNESS.perform(sessions[WITNESS.transfer], witness, witnessed % REGION_BLOCKS, witnessed)
                    acknowledged.write(RECORD.pack(number, block, sequence))
                    acknowledged.write(RECORD.pack(witness, witnessed % REGION_BLOCKS, witnessed))


async def registered_keys(identity: str) -> bytes:
    """READ KEYS of the first logical unit after it is served again."""
    directory = Path("/run/target-after-cut")
    directory.mkdir()
    target = Target(directory)
    target.start()
    target.create()
    volume = Path(f"/dev/zvol/{POOL}/volume{STABLE}")
    wait_for(volume.exists, f"{volume} is there")
    target.add_lun(STABLE, volume, uuid=identity, reservations=str(RESERVATIONS))
    async with Session(target.portal) as session:
        await session.execute(cdb.TEST_UNIT_READY)
        answer = await session.execute(cdb.persistent_reserve_in(0), data_in=252)
        assert answer.status == GOOD, answer
    target.stop()
    return answer.data


def check(state: Path) -> None:
    """Imports the pool after the cut; prints the acknowledged and the lost blocks of each kind."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    notes = (state / "acknowledged").read_bytes()
    latest: dict[tuple[int, int], int] = {}
    for at in range(0, len(notes) - len(notes) % RECORD.size, RECORD.size):
        number, block, sequence = RECORD.unpack_from(notes, at)
        latest[number, block] = sequence
    last = max(sequence for (number, _), sequence in latest.items() if KINDS[number] is not WITNESS)
    keys = asyncio.run(registered_keys((state / "identity").read_text()))
    counts = {str(kind): [0, 0] for kind in KINDS}
    for (number, block), noted in latest.items():
        kind = KINDS[number]
        if kind is REGISTRATION:
            counts[str(kind)][0] += 1
            counts[str(kind)][1] += not kind.survived(keys, number, block, noted, last)
            continue
        volume = Path(f"/dev/zvol/{POOL}/volume{STABLE if isinstance(kind, OffloadKind) else kind.lun}")
        wait_for(volume.exists, f"{volume} is there")
        with volume.open("rb") as stored:
            stored.seek(address_of(number, block) * 512)
            content = stored.read(BLOCK_BYTES)
        counts[str(kind)][0] += 1
        counts[str(kind)][1] += not kind.survived(content, number, block, noted, last)
    run("zpool", "scrub", "-w", POOL)
    assert "with 0 errors" in run("zpool", "status", POOL)
    assert int(run("zpool", "get", "-Hpo", "value", "bcloneused", POOL)) > 0, "no copy shares its blocks"
    (state / "found.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    if sys.argv[2] == "check":
        check(Path(sys.argv[1]))
    else:
        if sys.argv[3:]:
            check(Path(sys.argv[3]))
            destroy_pool(POOL)
        asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
