# SPDX-License-Identifier: Apache-2.0
"""LUNs that a host sees, and when: masking by initiator name, a volume that appears later, a volume that grows. Both tiers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support import cdb
from support.programs import IN_GUEST, run
from support.raw_initiator import CHECK_CONDITION, GOOD, Response, Session
from support.target import IQN, Target
from support.volumes import VolumeMaker

FIRST, SECOND = "iqn.2026-11.example.zvaai:first", "iqn.2026-11.example.zvaai:second"
NOT_READY, UNIT_ATTENTION = 0x2, 0x6
REPORTED_LUNS_DATA_HAS_CHANGED = (UNIT_ATTENTION, 0x3F, 0x0E)
CAPACITY_DATA_HAS_CHANGED = (UNIT_ATTENTION, 0x2A, 0x09)
READ_CAPACITY = cdb.ten(0x25, 0, 0)
WAIT_SECONDS = 120


async def numbers(session: Session) -> list[int]:
    """LUNs in the response of REPORT LUNS."""
    data = (await session.execute(bytes([0xA0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]), data_in=1024)).data
    return [int.from_bytes(data[at : at + 2]) & 0x3FFF for at in range(8, 8 + int.from_bytes(data[:4]), 8)]


async def all_answers(session: Session, lun: int) -> list[Response]:
    """Responses of a LUN to commands of several kinds."""
    commands = [(cdb.inquiry(), 96), (cdb.TEST_UNIT_READY, 0), (cdb.read(0, 1), 512), (READ_CAPACITY, 8), (cdb.REQUEST_SENSE, 18)]
    answers = [await session.execute(block, data_in=length, lun=lun) for block, length in commands]
    return [*answers, await session.execute(cdb.write(0, 1), data_out=bytes(512), lun=lun)]


async def ready_again(session: Session, lun: int = 0) -> list[tuple[int, int, int]]:
    """Polls until the LUN is ready; returns earlier sense codes without repetition. Raises TimeoutError."""
    said: list[tuple[int, int, int]] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while (answer := await session.execute(cdb.TEST_UNIT_READY, lun=lun)).status == CHECK_CONDITION:
            if answer.sense_codes not in said:
                said.append(answer.sense_codes)
            await asyncio.sleep(0.05)
    return said


def test_a_host_never_learns_of_a_lun_it_was_not_given(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("both", 16))
    target.add_lun(1, make_volume("first", 16), initiators=[FIRST])
    target.add_lun(2, make_volume("second", 16), initiators=[SECOND])

    async def act() -> None:
        async with Session(target.portal, initiator=FIRST) as first, Session(target.portal, initiator=SECOND) as second:
            assert (await numbers(first), await numbers(second)) == ([0, 1], [0, 2])
            assert await all_answers(first, 2) == await all_answers(first, 77), "a hidden LUN is another than an absent one"
            await ready_again(first)
            await ready_again(second)
            await ready_again(second, 2)
            target.call("access.set", {"target": IQN, "number": 2, "initiators": [FIRST, SECOND]})
            assert await ready_again(first) == [REPORTED_LUNS_DATA_HAS_CHANGED]
            assert (await second.execute(cdb.TEST_UNIT_READY)).status == GOOD, (
                "a host got a unit attention for a LUN that it does not see"
            )
            assert (await numbers(first), await numbers(second)) == ([0, 1, 2], [0, 2])
            target.call("access.set", {"target": IQN, "number": 2, "initiators": [FIRST]})
            assert await ready_again(second) == [REPORTED_LUNS_DATA_HAS_CHANGED]
            assert await all_answers(second, 2) == await all_answers(second, 77)

    asyncio.run(asyncio.wait_for(act(), 300))
    for initiator, luns in ((FIRST, "Lun:1"), (SECOND, "Lun:0")):
        assert luns in run("iscsi-ls", "-s", "-i", initiator, target.url())


def test_a_volume_that_appears_later(target: Target, make_volume: VolumeMaker, tmp_path: Path) -> None:
    """The target starts before the volume exists. A host gets NOT READY and the LUN's identity, then the LUN is ready."""
    link = tmp_path / "link"
    volume = make_volume("volume", 16)
    link.symlink_to(volume)
    target.add_lun(0, link)
    serial_number_page = bytes([0x12, 1, 0x80, 0, 96, 0])

    async def identity(session: Session) -> list[Response]:
        return [await session.execute(block, data_in=96) for block in (cdb.inquiry(), serial_number_page)]

    async def before() -> list[Response]:
        async with Session(target.portal) as session:
            return await identity(session)

    async def later(expected: list[Response]) -> None:
        async with Session(target.portal) as session:
            assert await numbers(session) == [0]
            assert await identity(session) == expected
            await session.execute(cdb.TEST_UNIT_READY)  # takes the unit attention of a new nexus
            for block, length in ((cdb.TEST_UNIT_READY, 0), (cdb.read(0, 1), 512), (READ_CAPACITY, 8)):
                assert (await session.execute(block, data_in=length)).sense_codes == (NOT_READY, 0x04, 0x01)
            link.symlink_to(volume)
            said = await ready_again(session)
            assert any(key == UNIT_ATTENTION for key, _, _ in said), f"no unit attention for the new medium: {said}"
            assert await identity(session) == expected
            assert (await session.execute(cdb.write(0, 1), data_out=b"\x01" * 512)).status == GOOD
            assert (await session.execute(cdb.read(0, 1), data_in=512)).data == b"\x01" * 512

    expected = asyncio.run(before())
    target.stop()
    link.unlink()
    target.start()
    assert target.call("luns.list", {"target": IQN})["luns"][0]["state"] == "failed"
    asyncio.run(asyncio.wait_for(later(expected), 300))


def test_a_volume_that_grows(target: Target, make_volume: VolumeMaker) -> None:
    """The target notices by itself; every host gets a unit attention, without a rescan."""
    volume = make_volume("volume", 16)
    target.add_lun(0, volume)

    async def clear_attentions(session: Session) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while (answer := await session.execute(cdb.TEST_UNIT_READY)).status == GOOD:
                await asyncio.sleep(0.05)
        assert answer.sense_codes == CAPACITY_DATA_HAS_CHANGED
        last = int.from_bytes((await session.execute(READ_CAPACITY, data_in=8)).data[:4])
        assert last == (32 << 11) - 1
        assert (await session.execute(cdb.write(last, 1), data_out=bytes(512))).status == GOOD

    async def act() -> None:
        async with Session(target.portal, initiator=FIRST) as first, Session(target.portal, initiator=SECOND) as second:
            await ready_again(first)
            await ready_again(second)
            if IN_GUEST:
                run("zfs", "set", "volsize=32M", str(volume).removeprefix("/dev/zvol/"))
            else:
                with volume.open("r+b") as file:
                    file.truncate(32 << 20)
            await asyncio.gather(clear_attentions(first), clear_attentions(second))

    asyncio.run(asyncio.wait_for(act(), 300))
