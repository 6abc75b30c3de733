# SPDX-License-Identifier: Apache-2.0
"""Responses of a target to wrong input, by the standard's terms, while another host continues unharmed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from support import cdb
from support.raw_initiator import (
    CHECK_CONDITION,
    GOOD,
    IMMEDIATE,
    Connection,
    Opcode,
    Pdu,
    Session,
    text_of,
)
from support.target import Target
from support.volumes import VolumeMaker

SIZE_MIB = 16


@pytest.fixture
def served(target: Target, make_volume: VolumeMaker) -> Target:
    """A target with LUN 0 for the input and LUN 1 for the working host."""
    target.add_lun(0, make_volume("volume", SIZE_MIB))
    target.add_lun(1, make_volume("working", 16))
    return target


@contextlib.asynccontextmanager
async def concurrent_work(target: Target) -> AsyncIterator[None]:
    """A session on LUN 1 that writes and verifies all the time, and must survive with correct data."""
    async with Session(target.portal, initiator="iqn.2026-11.example.zvaai:worker", lun=1) as session:
        await session.execute(cdb.TEST_UNIT_READY)
        writes = 0
        stop = asyncio.Event()

        async def work() -> None:
            nonlocal writes
            for writes in itertools.count(1):
                data = writes.to_bytes(8) * 512
                assert (await session.execute(cdb.write(writes % 1000 * 8, 8), data_out=data)).status == GOOD
                assert (await session.execute(cdb.read(writes % 1000 * 8, 8), data_in=4096)).data == data
                if stop.is_set():
                    return

        working = asyncio.create_task(work())
        yield
        before = writes
        stop.set()
        await working
        assert writes >= before > 0


def show(target: Target, act: Callable[[], Awaitable[None]]) -> None:
    """Runs `act` while another host works; the target must be up afterwards."""

    async def both() -> None:
        async with concurrent_work(target):
            await act()

    asyncio.run(asyncio.wait_for(both(), 60))
    assert target.call("status")["targets"] == 1


@contextlib.asynccontextmanager
async def ready_session(target: Target) -> AsyncIterator[Session]:
    """A session on LUN 0 that has taken its first unit attention."""
    async with Session(target.portal) as session:
        await session.execute(cdb.TEST_UNIT_READY)
        yield session


# Bytes


def garbage(seed: int) -> Iterator[bytes]:
    """Bytes that scanners send to a port."""
    choice = random.Random(seed)
    yield b"GET / HTTP/1.1\r\nHost: storage\r\n\r\n" + bytes(48)
    yield bytes.fromhex("1603010200010001fc0303") + choice.randbytes(500)  # TLS
    yield b"SSH-2.0-OpenSSH_10.0\r\n".ljust(48, b"\0")
    yield bytes([0xFF]) * 4096
    for _ in range(20):
        yield choice.randbytes(choice.randrange(48, 4096))


def test_garbage_instead_of_a_login_is_hung_up_on(served: Target, seed: int) -> None:
    async def act() -> None:
        for data in garbage(seed):
            async with Connection(served.portal) as connection:
                connection.send_last(data)
                assert await connection.is_closed_by_target()

    show(served, act)


def test_garbage_in_session_ends_only_that_session(served: Target, seed: int) -> None:
    async def act() -> None:
        for data in garbage(seed):
            async with ready_session(served) as session:
                session.connection.send_last(data)
                await session.closed()

    show(served, act)


def test_a_truncated_pdu_is_not_acted_on(served: Target) -> None:
    """A WRITE whose connection ends within its immediate data changes nothing."""

    async def act() -> None:
        for stored in (1, 20, 47, 48, 100, 559):
            async with ready_session(served) as session:
                pdu, _ = session.command(cdb.write(0, 1), data_out=bytes([0xEE]) * 512)
                session.connection.send_last(pdu.encode()[:stored])
                await session.closed()
        async with ready_session(served) as session:
            assert (await session.execute(cdb.read(0, 1), data_in=512)).data == bytes(512)

    show(served, act)


# Login


@pytest.mark.parametrize(
    "text", [b"no equals sign\0", b"InitiatorName=\xff\xfe\0", b"=value\0", text_of({"SessionType": "Normal"})]
)
def test_a_login_that_makes_no_sense_is_an_initiator_error(served: Target, text: bytes) -> None:
    async def act() -> None:
        async with Connection(served.portal) as connection:
            pdu = Pdu(data=text)
            pdu.header[0], pdu.header[1] = Opcode.LOGIN_REQUEST | IMMEDIATE, 0x87
            await connection.send(pdu)
            answer = await connection.receive()
            assert answer.opcode == Opcode.LOGIN_RESPONSE and answer.get(36, 2) >> 8 == 2, hex(answer.get(36, 2))
            assert await connection.is_closed_by_target()

    show(served, act)


# Commands


def test_random_commands(served: Target, seed: int) -> None:
    """Two thousand commands of random bytes: each is answered, and LUN 1 keeps its data (see `concurrent_work`)."""
    choice = random.Random(seed)

    async def act() -> None:
        async with ready_session(served) as session:
            for _ in range(2000):
                block = choice.randbytes(16)
                response = await session.execute(block, data_in=choice.choice((0, 4, 512, 4096)), lun=choice.choice((0, 0, 3)))
                assert response.status in (GOOD, CHECK_CONDITION, 0x04), (block.hex(), response)  # 04: CONDITION MET
            assert await session.ping(b"x") == b"x"
            assert session.rejects.empty()

    show(served, act)
