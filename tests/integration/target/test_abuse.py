# SPDX-License-Identifier: Apache-2.0
"""Peers that stall or flood next to a working host: its data is right, and its speed stays near that of a quiet run."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from support import cdb
from support.raw_initiator import (
    FINAL,
    GOOD,
    IMMEDIATE,
    INITIATOR,
    RESERVED_TAG,
    Connection,
    Opcode,
    Pdu,
    Session,
)
from support.target import Target
from support.units import SYSTEMD
from support.volumes import VolumeMaker
from support.worker import Figures, Worker, peak_memory_bytes, worker

SLOWEST = 8
"""Limit for the slowdown of the working host. Stalled peers cost nothing; a flooding peer takes CPU time on the same machine."""
LONGEST_SECONDS = 2.0
"""Limit for a command of the working host."""
ATTEMPTS = 5
"""Speed is compared with that of a moment before; other load of the machine may start then, but not on each attempt."""
MEMORY_BYTES = 100 << 20
ELSEWHERE = "127.0.0.2"
"""Address of the abusers: limits by address must not affect the working host."""

Abuse = Callable[[Target], contextlib.AbstractAsyncContextManager[None]]


@pytest.fixture(scope="module")
def working_host() -> Iterator[Worker]:
    with worker() as host:
        yield host


@contextlib.asynccontextmanager
async def sessions(target: Target, count: int, **settings: str) -> AsyncIterator[list[Session]]:
    """Sessions of the abusers, on LUN 1."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Session(target.portal, settings=settings, lun=1, source=ELSEWHERE))
            for _ in range(count)
        ]


async def send_unread(session: Session, pdus: Iterator[Pdu]) -> None:
    """Sends as long as the target receives, and reads nothing."""
    session.connection.reader._transport.pause_reading()  # type: ignore[attr-defined]
    for pdu in pdus:
        session.connection.writer.write(pdu.encode())
    with contextlib.suppress(TimeoutError, ConnectionError):
        await asyncio.wait_for(session.connection.writer.drain(), 1)


def commands(session: Session, count: int, block: bytes, data_in: int = 0, expected_out: int = 0) -> Iterator[Pdu]:
    """Commands with valid numbers, without the expected data."""
    for _ in range(count):
        pdu, _ = session.command(block, data_in)
        if expected_out:
            pdu.header[1] = FINAL | 0x20 | 1
            pdu.put(20, expected_out)
        session.command_number += 1
        yield pdu


@contextlib.asynccontextmanager
async def never_reads(target: Target) -> AsyncIterator[None]:
    """Requests 32 MiB on each of 8 sessions and reads nothing."""
    async with sessions(target, 8) as stalled:
        for session in stalled:
            await send_unread(session, commands(session, 32, cdb.read(0, 2048), data_in=1 << 20))
        yield


@contextlib.asynccontextmanager
async def never_sends_its_data(target: Target) -> AsyncIterator[None]:
    """Announces 32 writes of 1 MiB on each of 8 sessions and sends no Data-Out."""
    async with sessions(target, 8, ImmediateData="No") as stalled:
        for session in stalled:
            await send_unread(session, commands(session, 32, cdb.write(0, 2048), expected_out=1 << 20))
        yield


@contextlib.asynccontextmanager
async def half_a_header(target: Target) -> AsyncIterator[None]:
    """Sends the first 20 bytes of a command, in session and before login."""
    async with sessions(target, 8) as stalled, contextlib.AsyncExitStack() as stack:
        strangers = [await stack.enter_async_context(Connection(target.portal, ELSEWHERE)) for _ in range(8)]
        for connection in [*(session.connection for session in stalled), *strangers]:
            connection.writer.write(bytes([0x43, 0x87]) + bytes(18))
        yield


@contextlib.asynccontextmanager
async def never_logs_in(target: Target) -> AsyncIterator[None]:
    """Opens 500 connections and sends nothing; the target may close them."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(500):
            with contextlib.suppress(OSError):
                await stack.enter_async_context(Connection(target.portal, ELSEWHERE))
        yield


@contextlib.asynccontextmanager
async def flood(act: Callable[[], Awaitable[None]], streams: int) -> AsyncIterator[None]:
    """Repeats `act` in several streams."""

    async def forever() -> None:
        while True:
            await act()

    tasks = [asyncio.create_task(forever()) for _ in range(streams)]
    try:
        yield
    finally:
        for task in tasks:
            assert not task.done(), f"the flood ended: {task.exception()}"
            task.cancel()


@contextlib.asynccontextmanager
async def floods_with_pings(target: Target) -> AsyncIterator[None]:
    """NOP-Outs with 4 KiB as fast as they are answered, 16 at a time."""
    async with sessions(target, 1) as (session,), flood(lambda: _drop(session.ping(bytes(4096))), 16):
        yield


@contextlib.asynccontextmanager
async def floods_with_unread_pings(target: Target) -> AsyncIterator[None]:
    """As many NOP-Outs as the target receives from a peer that does not read the responses."""
    async with sessions(target, 4) as flooding:
        for session in flooding:

            def pings(session: Session = session) -> Iterator[Pdu]:
                for tag in range(5000):
                    pdu = Pdu(data=bytes(1024))
                    pdu.header[0], pdu.header[1] = Opcode.NOP_OUT | IMMEDIATE, FINAL
                    pdu.put(16, 1000 + tag)
                    pdu.put(20, RESERVED_TAG)
                    pdu.put(24, session.command_number)
                    yield pdu

            await send_unread(session, pings())
        yield


@contextlib.asynccontextmanager
async def floods_with_commands(target: Target) -> AsyncIterator[None]:
    """TEST UNIT READY, 32 at a time."""
    async with sessions(target, 1) as (session,), flood(lambda: _drop(session.execute(cdb.TEST_UNIT_READY)), 32):
        yield


@contextlib.asynccontextmanager
async def floods_with_logins(target: Target) -> AsyncIterator[None]:
    """Logs in and disconnects, 8 at a time."""

    async def log_in() -> None:
        async with Session(target.portal, lun=1, source=ELSEWHERE):
            pass

    async with flood(log_in, 8):
        yield


@contextlib.asynccontextmanager
async def floods_with_large_reads(target: Target) -> AsyncIterator[None]:
    """Reads of 1 MiB, 32 at a time on each of 2 sessions: the working host's small commands must not wait behind them."""
    async with contextlib.AsyncExitStack() as stack:
        for session in await stack.enter_async_context(sessions(target, 2)):
            await session.execute(cdb.TEST_UNIT_READY)

            async def read(session: Session = session) -> None:
                response = await session.execute(cdb.read(0, 2048), data_in=1 << 20)
                assert response.status == GOOD

            await stack.enter_async_context(flood(read, 32))
        yield


async def _drop(awaitable: Awaitable[object]) -> None:
    await awaitable


@pytest.mark.parametrize(
    "abuse",
    [
        *(never_reads, never_sends_its_data, half_a_header, never_logs_in),
        *(floods_with_pings, floods_with_unread_pings, floods_with_commands, floods_with_logins, floods_with_large_reads),
    ],
    ids=lambda abuse: str(abuse.__name__),
)
def test_a_working_host_is_not_affected(target: Target, make_volume: VolumeMaker, working_host: Worker, abuse: Abuse) -> None:
    target.add_lun(0, make_volume("working", 16))
    target.add_lun(1, make_volume("abused", 16))

    async def during_abuse() -> Figures:
        async with abuse(target):
            return await asyncio.wrap_future(working_host.start(target.portal))

    said = []
    for _ in range(ATTEMPTS):
        quiet = working_host.start(target.portal).result(60)
        figures = asyncio.run(asyncio.wait_for(during_abuse(), 120))
        said.append(f"alone {quiet}, attacked {figures}, memory {peak_memory_bytes(target.process_id) >> 20} MiB")
        print(said[-1])
        assert peak_memory_bytes(target.process_id) < MEMORY_BYTES, said
        near = figures.per_second * SLOWEST > quiet.per_second and figures.mean < quiet.mean * SLOWEST
        if near and figures.longest < LONGEST_SECONDS:
            return
    raise AssertionError("\n".join(said))


STALLED = 512
NAMES = 16
"""A name has at most 32 sessions."""


def memory_max() -> int:
    """MemoryMax of the service, bytes."""
    (mebibytes,) = re.findall(r"^MemoryMax=(\d+)M$", (SYSTEMD / "zvaai-target.service").read_text(), re.M)
    return int(mebibytes) << 20


@contextlib.contextmanager
def limited_memory(process_id: int, most_bytes: int) -> Iterator[None]:
    """The process is killed above the limit, as the service is. Without a memory controller there is no limit."""
    roots = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}
    root = next((root for root in roots if (root / "cgroup.procs").exists()), None)
    group = root / f"zvaai-{process_id}" if root else None
    try:
        if root and group:
            with contextlib.suppress(OSError):  # version 2, in a group that may not set it
                group.mkdir()
                (group / roots[root]).write_text(str(most_bytes))
                (group / "cgroup.procs").write_text(str(process_id))
        yield
    finally:
        if root and group and group.exists():
            (root / "cgroup.procs").write_text(str(process_id))
            group.rmdir()


def test_512_stalled_sessions_stay_within_the_memory_of_the_unit(
    target: Target, make_volume: VolumeMaker, working_host: Worker
) -> None:
    """Each requests 64 MiB and reads nothing. The target ends those with the most memory; the working host continues."""
    target.add_lun(0, make_volume("working", 16))
    target.add_lun(1, make_volume("abused", 32))

    async def stall(number: int, stack: contextlib.AsyncExitStack) -> None:
        session = Session(target.portal, initiator=f"{INITIATOR}{number % NAMES}", lun=1, source=ELSEWHERE)
        await stack.enter_async_context(session)
        # The first command gets the unit attention of a new nexus.
        await send_unread(session, commands(session, 5, cdb.read(0, 32768), data_in=16 << 20))

    async def during_stall() -> list[Figures]:
        figures = []
        async with contextlib.AsyncExitStack() as stack:
            for first in range(0, STALLED, NAMES):
                await asyncio.gather(*(stall(number, stack) for number in range(first, first + NAMES)))
            figures.append(await asyncio.wrap_future(working_host.start(target.portal)))
        return figures

    said = []
    with limited_memory(target.process_id, memory_max()):
        for _ in range(ATTEMPTS):
            quiet = working_host.start(target.portal).result(60)
            (figures,) = asyncio.run(asyncio.wait_for(during_stall(), 200))
            peak = peak_memory_bytes(target.process_id)
            said.append(f"alone {quiet}, attacked {figures}, memory {peak >> 20} MiB")
            print(said[-1])
            assert peak < memory_max()
            assert "this session held the most" in (target.directory / "target.log").read_text()
            if figures.longest < LONGEST_SECONDS and figures.per_second * SLOWEST > quiet.per_second:
                return
    raise AssertionError("\n".join(said))


def test_64_sessions_at_once(target: Target, make_volume: VolumeMaker) -> None:
    """Each writes different blocks, 4 at a time, and reads its data back."""
    target.add_lun(0, make_volume("shared", 64))
    count, repetitions, blocks = 64, 20, 8

    async def steps_of(number: int, session: Session) -> None:
        async def place(which: int) -> None:
            for sequence in range(repetitions):
                address = (number * 4 + which) * 256 + sequence * blocks
                data = bytes([number, which, sequence, 7]) * (blocks * 128)
                assert (await session.execute(cdb.write(address, blocks), data_out=data)).status == GOOD
                assert (await session.execute(cdb.read(address, blocks), data_in=len(data))).data == data

        await session.execute(cdb.TEST_UNIT_READY)
        await asyncio.gather(*(place(which) for which in range(4)))

    async def together() -> None:
        async with contextlib.AsyncExitStack() as stack:
            names = [f"{INITIATOR}{number % 4}" for number in range(count)]  # a name has at most 32 sessions
            sessions = [Session(target.portal, initiator=name) for name in names]
            all_sessions = [await stack.enter_async_context(session) for session in sessions]
            assert len(target.call("sessions.list")["sessions"]) == count
            await asyncio.gather(*(steps_of(number, session) for number, session in enumerate(all_sessions)))

    asyncio.run(asyncio.wait_for(together(), 240))
    counted = target.counters()
    assert counted["write"]["operations"] == count * 4 * repetitions and counted["write"]["errors"] == 0


UNSOLICITED = {"InitialR2T": "No", "FirstBurstLength": "262144"}
SOLICITED = {"InitialR2T": "Yes", "ImmediateData": "No"}

# The number of commands limits their unsolicited data, at most 64 KiB each (FirstBurstLength); it comes on top.
UNASKED_BYTES = 32 * 32 * (64 << 10)


@pytest.mark.parametrize(
    ("blocks", "settings", "most_bytes"),
    [
        pytest.param(8, UNSOLICITED, MEMORY_BYTES, id="4 KiB, unsolicited"),
        pytest.param(256, SOLICITED, MEMORY_BYTES, id="128 KiB, solicited"),
        pytest.param(256, UNSOLICITED, MEMORY_BYTES + UNASKED_BYTES, id="128 KiB, unsolicited"),
    ],
)
def test_memory_at_32_sessions_with_32_commands_each(
    target: Target, make_volume: VolumeMaker, blocks: int, settings: dict[str, str], most_bytes: int
) -> None:
    target.add_lun(0, make_volume("shared", 64))

    async def steps_of(session: Session) -> None:
        await session.execute(cdb.TEST_UNIT_READY)
        data = bytes(blocks * 512)
        reads = [await session.submit(cdb.read(0, blocks), data_in=len(data)) for _ in range(32)]
        assert all(response.status == GOOD for response in await asyncio.gather(*reads))
        writes = [await session.submit(cdb.write(0, blocks), data_out=data) for _ in range(32)]
        assert all(response.status == GOOD for response in await asyncio.gather(*writes))

    async def together() -> None:
        async with contextlib.AsyncExitStack() as stack:
            all_sessions = [await stack.enter_async_context(Session(target.portal, settings=settings)) for _ in range(32)]
            await asyncio.gather(*(steps_of(session) for session in all_sessions))

    asyncio.run(asyncio.wait_for(together(), 240))
    peak = peak_memory_bytes(target.process_id)
    print(f"{peak >> 20} MiB")
    assert peak < most_bytes
