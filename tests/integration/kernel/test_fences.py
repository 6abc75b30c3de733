# SPDX-License-Identifier: Apache-2.0
"""A pool that hangs or is exported by hand does not affect the LUNs of other pools."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from threading import Thread
from typing import Any

from integration.kernel.freezing_pool import FreezingPool
from support.cdb import REPORT_LUNS, TEST_UNIT_READY, read, write
from support.programs import wait_for
from support.raw_initiator import BUSY, CHECK_CONDITION, GOOD, Session
from support.target import IQN, RpcError, Target, running_target
from support.third_party_copy import Segment, extended_copy, naa_of, parameter_list
from support.volumes import VolumeMaker
from support.zfs import Pool

INQUIRY = bytes([0x12, 0, 0, 0, 36, 0])
BLOCK = bytes(4096)
NOT_READY = 0x02
OPERATIONS_OF_A_VOLUME = 128
"""Writes that the target has in the kernel at once."""
LONGEST_SECONDS = 30
"""Without the fence, a command waits until the pool answers."""


async def ready(session: Session, lun: int) -> None:
    """Waits until the LUN is ready, after its unit attentions."""
    until = time.monotonic() + 120
    while (await session.execute(TEST_UNIT_READY, lun=lun)).status != GOOD:
        assert time.monotonic() < until, f"LUN {lun} is not ready"
        await asyncio.sleep(0.05)


async def lose_session_with_hanging_command(target: Target, pool: FreezingPool) -> None:
    """Loses a session while its write hangs. The next session of the same port uses the other LUN."""
    async with Session(target.portal) as old:
        await ready(old, 0)
        await ready(old, 1)
        with pool.frozen():
            await old.submit(write(0, 8), data_out=BLOCK, lun=0)
            # The write of the other LUN ends after it.
            assert (await old.execute(write(0, 8), data_out=BLOCK, lun=1)).status == GOOD
            began = time.monotonic()
            async with Session(target.portal, isid=old.isid) as new:
                assert time.monotonic() - began < LONGEST_SECONDS, "the login waited for the write"
                await ready(new, 1)
                for number in range(20):
                    began = time.monotonic()
                    assert (await new.execute(write(number * 8, 8), data_out=BLOCK, lun=1)).status == GOOD
                    assert time.monotonic() - began < LONGEST_SECONDS
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


async def lose_session_with_hanging_copy(target: Target, pool: FreezingPool) -> None:
    """Loses a session while its copy from LUN 1 to LUN 0 hangs. The next session of the same port uses LUN 1."""
    async with Session(target.portal) as old:
        await ready(old, 0)
        await ready(old, 1)
        parameters = parameter_list([await naa_of(old, 1), await naa_of(old, 0)], [Segment(0, 1, 8, 0, 8)])
        with pool.frozen():
            await old.submit(extended_copy(parameters), data_out=parameters, lun=1)
            # It ends after the copy has begun.
            assert (await old.execute(write(64, 8), data_out=BLOCK, lun=1)).status == GOOD
            async with Session(target.portal, isid=old.isid) as new:
                await ready(new, 1)
                for number in range(8, 28):
                    began = time.monotonic()
                    assert (await new.execute(write(number * 8, 8), data_out=BLOCK, lun=1)).status == GOOD
                    assert time.monotonic() - began < LONGEST_SECONDS
        async with Session(target.portal, isid=old.isid) as last:
            await ready(last, 0)
            assert (await last.execute(write(8, 8), data_out=BLOCK, lun=0)).status == GOOD


def test_a_copy_to_a_pool_that_hangs_takes_no_other_lun(
    target: Target, freezing_pool: FreezingPool, make_volume: VolumeMaker
) -> None:
    target.add_lun(0, freezing_pool.create_volume("hanging", 64))
    target.add_lun(1, make_volume("working", 64))
    asyncio.run(lose_session_with_hanging_copy(target, freezing_pool))
    for number in (0, 1):
        target.call("luns.delete", {"target": IQN, "number": number})


async def write_all(target: Target, luns: int) -> None:
    """The last close of a zvol that was written waits for transaction groups."""
    async with Session(target.portal) as session:
        for lun in range(luns):
            await ready(session, lun)
            assert (await session.execute(write(0, 8), data_out=BLOCK, lun=lun)).status == GOOD


async def leave_hanging_write(target: Target) -> None:
    """Ends a session whose write of LUN 0 hangs."""
    async with Session(target.portal) as session:
        await ready(session, 0)
        await ready(session, 1)
        await session.submit(write(0, 8), data_out=BLOCK, lun=0)
        # The write of the other LUN ends after it.
        assert (await session.execute(write(0, 8), data_out=BLOCK, lun=1)).status == GOOD


def served(target: Target, path: Path) -> bool:
    """Adds the path as a LUN, unless another process has it open."""
    with contextlib.suppress(RpcError):
        target.add_lun(0, path)
        return True
    return False


def delete(target: Target, number: int) -> None:
    """Deletes a LUN. Its volume may not close before the target ends."""
    with contextlib.suppress(OSError, ValueError):
        target.call("luns.delete", {"target": IQN, "number": number})


def test_a_target_that_cannot_end_keeps_no_other_pool(
    tmp_path: Path, freezing_pool: FreezingPool, make_volume: VolumeMaker
) -> None:
    hanging, deleted = (freezing_pool.create_volume(name, 64) for name in ("hanging", "deleted"))
    working = make_volume("working", 64)
    (tmp_path / "old").mkdir()
    old = Target(tmp_path / "old")
    old.start()
    old.create()
    for number, path in enumerate((hanging, working, deleted)):
        old.add_lun(number, path)
    asyncio.run(write_all(old, 3))
    with freezing_pool.frozen():
        # From here on the pool has a transaction group to write. Without one, no close of a zvol waits.
        asyncio.run(leave_hanging_write(old))
        deleting = Thread(target=delete, args=(old, 2))
        deleting.start()
        wait_for(lambda: len(old.call("luns.list", {"target": IQN})["luns"]) == 2, "the LUN is deleted")
        assert deleting.is_alive(), "its volume is not closed, and the control socket answers"
        os.kill(old.process_id, signal.SIGTERM)
        with running_target(tmp_path / "next") as new:
            wait_for(lambda: served(new, working), "the next process serves the working pool")
            new.call("luns.delete", {"target": IQN, "number": 0})
    deleting.join()
    assert old.stop() != 0, "a command was still running"


def export_is_refused() -> bool:
    """OpenZFS 2.4 refuses to export a pool while one of its zvols is open ("pool is busy"); 2.3 makes its users close it."""
    return tuple(map(int, Path("/sys/module/zfs/version").read_text().split(".")[:2])) >= (2, 4)


def state(target: Target, number: int) -> str:
    """State of a LUN."""
    luns: list[dict[str, Any]] = target.call("luns.list", {"target": IQN})["luns"]
    return str(next(lun["state"] for lun in luns if lun["number"] == number))


def export(pool: Pool, target: Target) -> int:
    """Exports a pool as an admin does; the exit code. An export that waits for the target ends only when the target does."""
    with subprocess.Popen(["zpool", "export", pool.name]) as exporting:
        try:
            return exporting.wait(timeout=120)
        finally:
            if exporting.poll() is None:
                target.kill()


async def export_under_sessions(target: Target, pool: Pool) -> None:
    """LUNs 0 and 1 are of the exported pool, LUN 2 is of another one."""
    async with Session(target.portal) as session:
        for lun in (0, 1, 2):
            await ready(session, lun)
            assert (await session.execute(write(0, 8), data_out=bytes([lun]) * 4096, lun=lun)).status == GOOD
        exporting = asyncio.create_task(asyncio.to_thread(export, pool, target))
        longest = 0.0
        while not exporting.done():
            began = time.monotonic()
            # The target is killed if the export hangs.
            assert (await asyncio.wait_for(session.execute(write(8, 8), data_out=BLOCK, lun=2), 60)).status == GOOD
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.05)
        assert longest < LONGEST_SECONDS
        if export_is_refused():
            assert await exporting != 0
            for lun in (0, 1):
                assert (await session.execute(read(0, 8), 4096, lun=lun)).data == bytes([lun]) * 4096
            return
        assert await exporting == 0
        for lun in (0, 1):
            answer = await session.execute(read(0, 8), 4096, lun=lun)
            assert answer.status == CHECK_CONDITION and answer.sense_codes[0] == NOT_READY, answer
            assert state(target, lun) == "failed"
        await asyncio.to_thread(pool.import_again)
        await asyncio.to_thread(wait_for, lambda: state(target, 0) == state(target, 1) == "serving", "the LUNs are served again")
        for lun in (0, 1, 2):
            await ready(session, lun)
            assert (await session.execute(read(0, 8), 4096, lun=lun)).data == bytes([lun]) * 4096


def test_a_pool_is_exported_under_its_luns(target: Target, other_pool: Pool, make_volume: VolumeMaker) -> None:
    for number in (0, 1):
        target.add_lun(number, other_pool.create_volume(f"exported{number}", 64))
    target.add_lun(2, make_volume("working", 64))
    asyncio.run(export_under_sessions(target, other_pool))
    for number in (0, 1, 2):
        target.call("luns.delete", {"target": IQN, "number": number})


def received(target: Target, session: Session) -> int:
    """Commands that the target has received in the session; 0 after its end."""
    sessions = target.call("sessions.list")["sessions"]
    return sum(item["commands"] for item in sessions if item["isid"] == f"{session.isid:012x}")


async def lose_session_with_waiting_writes(target: Target, pool: FreezingPool) -> None:
    writes = 2 * OPERATIONS_OF_A_VOLUME
    with pool.frozen():
        async with Session(target.portal) as old:
            await ready(old, 0)
            before = received(target, old)
            for number in range(writes):
                await old.submit(write(number * 8, 8), data_out=b"\1" * len(BLOCK), lun=0)
            await asyncio.to_thread(wait_for, lambda: received(target, old) == before + writes, "the writes are received")
        await asyncio.to_thread(wait_for, lambda: received(target, old) == 0, "the session has ended")
    async with Session(target.portal) as new:
        await ready(new, 0)
        data = (await new.execute(read(0, writes * 8), writes * len(BLOCK), lun=0)).data
    written = sum(data[at] for at in range(0, len(data), len(BLOCK)))
    assert 0 < written <= OPERATIONS_OF_A_VOLUME, written


def test_writes_that_have_not_begun_end_with_their_session(target: Target, freezing_pool: FreezingPool) -> None:
    """What is in the kernel is written; nothing else follows after the pool answers."""
    target.add_lun(0, freezing_pool.create_volume("hanging", 64))
    asyncio.run(lose_session_with_waiting_writes(target, freezing_pool))
    target.call("luns.delete", {"target": IQN, "number": 0})
