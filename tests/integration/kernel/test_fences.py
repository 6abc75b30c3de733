"""A pool that hangs leaves the LUNs of other pools alone."""

from __future__ import annotations

import asyncio
import time

from integration.kernel.freezing_pool import FreezingPool
from support.cdb import REPORT_LUNS, TEST_UNIT_READY, write
from support.raw_initiator import BUSY, GOOD, Session
from support.target import IQN, Target
from support.volumes import VolumeMaker

INQUIRY = bytes([0x12, 0, 0, 0, 36, 0])
BLOCK = bytes(4096)


async def ready(session: Session, lun: int) -> None:
    """Waits until the LUN is ready, past its unit attentions."""
    until = time.monotonic() + 20
    while (await session.execute(TEST_UNIT_READY, lun=lun)).status != GOOD:
        assert time.monotonic() < until, f"LUN {lun} is not ready"
        await asyncio.sleep(0.05)


async def lose_session_with_hanging_command(target: Target, pool: FreezingPool) -> None:
    """A session is lost while its write hangs. The next session of the same port uses the other LUN meanwhile."""
    async with Session(target.portal) as old:
        await ready(old, 0)
        await ready(old, 1)
        with pool.frozen():
            await old.submit(write(0, 8), data_out=BLOCK, lun=0)
            # The write of the other LUN ends behind it.
            assert (await old.execute(write(0, 8), data_out=BLOCK, lun=1)).status == GOOD
            began = time.monotonic()
            async with Session(target.portal, isid=old.isid) as new:
                assert time.monotonic() - began < 2, "the login waited for the write"
                await ready(new, 1)
                for number in range(20):
                    began = time.monotonic()
                    assert (await new.execute(write(number * 8, 8), data_out=BLOCK, lun=1)).status == GOOD
                    assert time.monotonic() - began < 2
                assert (await new.execute(TEST_UNIT_READY, lun=0)).status == BUSY
                assert (await new.execute(write(8, 8), data_out=BLOCK, lun=0)).status == BUSY
                assert (await new.execute(INQUIRY, 36, lun=0)).status == GOOD
                assert (await new.execute(REPORT_LUNS, 16, lun=0)).status == GOOD
        async with Session(target.portal, isid=old.isid) as last:
            await ready(last, 0)
            assert (await last.execute(write(8, 8), data_out=BLOCK, lun=0)).status == GOOD


def test_a_pool_that_hangs_takes_no_other_lun(target: Target, freezing_pool: FreezingPool, make_volume: VolumeMaker) -> None:
    target.add_lun(0, freezing_pool.create_volume("hanging", 64))
    target.add_lun(1, make_volume("working", 64))
    asyncio.run(lose_session_with_hanging_command(target, freezing_pool))
    for number in (0, 1):
        target.call("luns.delete", {"target": IQN, "number": number})
