# SPDX-License-Identifier: Apache-2.0
"""Number of intent log commits per command."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support import cdb
from support.raw_initiator import GOOD, Session
from support.target import IQN, Target
from support.volumes import VolumeMaker

BLOCK = 512
GRANULE = 16384
DESCRIPTORS = 256


def commits() -> int:
    """`zil_commit_count` of all pools."""
    lines = Path("/proc/spl/kstat/zfs/zil").read_text().splitlines()
    return next(int(line.split()[2]) for line in lines if line.startswith("zil_commit_count "))


async def unmap(target: Target) -> None:
    """Every second granule, in one command."""
    async with Session(target.portal) as session:
        while (await session.execute(cdb.TEST_UNIT_READY)).status != GOOD:
            pass
        blocks = GRANULE // BLOCK
        data = bytes([7]) * (2 * GRANULE)
        for number in range(DESCRIPTORS):
            assert (await session.execute(cdb.write(2 * number * blocks, 2 * blocks), data_out=data)).status == GOOD
        command, parameters = cdb.unmap(*((2 * number * blocks, blocks) for number in range(DESCRIPTORS)))
        before = commits()
        assert (await session.execute(command, data_out=parameters)).status == GOOD
        assert commits() - before == 1
        for number in (0, DESCRIPTORS - 1):
            read = await session.execute(cdb.read(2 * number * blocks, 2 * blocks), data_in=len(data))
            assert read.data == bytes(GRANULE) + data[GRANULE:]
        before = commits()
        # 16 MiB of zeroes that start at 8 MiB take two steps.
        same = await session.execute(cdb.write_same(GRANULE, 32768, cdb.NDOB | cdb.UNMAP))
        assert same.status == GOOD
        assert commits() - before == 1


def test_an_unmap_and_a_write_same_commit_once(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("commits", 64))
    asyncio.run(unmap(target))
    target.call("luns.delete", {"target": IQN, "number": 0})
