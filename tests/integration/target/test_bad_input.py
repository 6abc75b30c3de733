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
    FINAL,
    GOOD,
    IMMEDIATE,
    Connection,
    Opcode,
    Pdu,
    Refused,
    Response,
    Session,
    text_of,
)
from support.target import IQN, Account, Target
from support.volumes import VolumeMaker

SIZE_MIB = 16
BLOCKS = SIZE_MIB << 11
LOGIN_AUTHENTICATION_FAILURE, LOGIN_TARGET_NOT_FOUND = 0x0201, 0x0203
REJECT_COMMAND_NOT_SUPPORTED, REJECT_TASK_IN_PROGRESS, REJECT_INVALID_PDU_FIELD, REJECT_SNACK = 5, 7, 9, 3
ILLEGAL_REQUEST, ABORTED_COMMAND = 0x5, 0xB
ORDERED = 2
"""Task attribute (RFC 7143, 11.3.1)."""


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
async def ready_session(target: Target, **settings: str) -> AsyncIterator[Session]:
    """A session on LUN 0 that has taken its first unit attention."""
    async with Session(target.portal, settings=settings) as session:
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


@pytest.mark.parametrize("length", [262145, 0xFFFFFF])
def test_an_oversized_data_segment_ends_the_session(served: Target, length: int) -> None:
    async def act() -> None:
        async with Session(served.portal) as session:
            assert int(session.parameters["MaxRecvDataSegmentLength"]) < length
            pdu, _ = session.command(cdb.write(0, 1), data_out=bytes(512))
            header = bytearray(pdu.encode()[:48])
            header[5:8] = length.to_bytes(3)
            session.connection.writer.write(header)
            with pytest.raises(ConnectionError):
                await session.ping()

    show(served, act)


# Login


@pytest.mark.parametrize(
    ("iqn", "account", "status"),
    [
        ("iqn.2026-11.example.zvaai:other", None, LOGIN_TARGET_NOT_FOUND),
        (f"{IQN}-chap", Account("host", "another-secret-20-by"), LOGIN_AUTHENTICATION_FAILURE),
        (f"{IQN}-chap", Account("guest", "a-secret-of-20-bytes"), LOGIN_AUTHENTICATION_FAILURE),
        (f"{IQN}-chap", None, LOGIN_AUTHENTICATION_FAILURE),
    ],
    ids=["unknown target", "wrong secret", "unknown account", "no account"],
)
def test_a_login_that_is_refused(served: Target, iqn: str, account: Account | None, status: int) -> None:
    served.create(f"{IQN}-chap")
    served.call("accounts.set", {"target": f"{IQN}-chap", "name": "host", "secret": "a-secret-of-20-bytes", "initiators": "any"})

    async def attempt(account: Account | None) -> None:
        async with Session(served.portal, iqn, account=account):
            pass

    async def act() -> None:
        async with concurrent_work(served):
            with pytest.raises(Refused) as refused:
                await attempt(account)
            assert refused.value.status == status
            if iqn.endswith("-chap"):
                await attempt(Account("host", "a-secret-of-20-bytes"))

    asyncio.run(asyncio.wait_for(act(), 60))


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


def test_a_command_before_login_is_hung_up_on(served: Target) -> None:
    async def act() -> None:
        async with Connection(served.portal) as connection:
            pdu = Pdu()
            pdu.header[0], pdu.header[1] = Opcode.SCSI_COMMAND, FINAL
            await connection.send(pdu)
            assert await connection.is_closed_by_target()

    show(served, act)


# Order


def test_commands_sent_in_reverse_are_run_in_order(served: Target) -> None:
    """Ten ORDERED writes to a block, sent in reverse: the one with the highest CmdSN wins."""

    async def act() -> None:
        async with ready_session(served) as session:
            first = session.command_number
            pdus = []
            for number in range(10):
                session.command_number = first + number
                pdu, _ = session.command(cdb.write(0, 1), data_out=bytes([number]) * 512)
                pdu.header[1] = pdu.header[1] & 0xF8 | ORDERED
                pdus.append(pdu)
            ended = await asyncio.gather(*(session.wait_for_task(pdu) for pdu in reversed(pdus)))
            assert [response.status for response in ended] == [GOOD] * 10
            session.command_number = first + 10
            assert (await session.execute(cdb.read(0, 1), data_in=512)).data == bytes([9]) * 512

    show(served, act)


def test_a_command_number_outside_the_window_is_ignored(served: Target) -> None:
    async def act() -> None:
        async with ready_session(served) as session:
            right = session.command_number
            for wrong in (right - 1, right - 1000, session.max_command_number + 1, right + (1 << 31)):
                session.command_number = wrong % (1 << 32)
                pdu, _ = session.command(cdb.write(0, 1), data_out=bytes([0xEE]) * 512)
                await session.connection.send(pdu)
            session.command_number = right
            assert (await session.execute(cdb.read(0, 1), data_in=512)).data == bytes(512)

    show(served, act)


def test_a_task_tag_in_use_is_rejected(served: Target) -> None:
    async def act() -> None:
        async with ready_session(served, ImmediateData="No") as session:
            waiting, _ = session.command(cdb.write(0, 8), data_out=bytes(4096))
            await session.connection.send(waiting)  # its R2T is not answered
            session.command_number += 1
            second, _ = session.command(cdb.read(0, 1), data_in=512)
            second.put(16, waiting.task_tag)
            await session.connection.send(second)
            reject = await session.rejects.get()
            assert reject.header[2] == REJECT_TASK_IN_PROGRESS and reject.data[:48] == bytes(second.header)
            await session.ping()

    show(served, act)


@pytest.mark.parametrize(
    ("numbers", "offsets", "sense"),
    [
        ((1, 0), (0, 2048), (ABORTED_COMMAND, 0x47, 0x05)),  # PROTOCOL SERVICE CRC ERROR, RFC 7143 11.4.7.2
        ((0, 1), (2048, 0), (ABORTED_COMMAND, 0x0C, 0x0D)),  # WRITE ERROR - NOT ENOUGH UNSOLICITED DATA
        ((0, 1), (0, 4096), (ABORTED_COMMAND, 0x0C, 0x0D)),
    ],
    ids=["DataSN", "offsets swapped", "offset past the end"],
)
def test_data_out_of_order_fails_the_command(
    served: Target, numbers: tuple[int, int], offsets: tuple[int, int], sense: tuple[int, int, int]
) -> None:
    async def act() -> None:
        session = RawWrites(served)
        async with session:
            tag, transfer_tag = await session.begin(4096)
            for index, (number, offset) in enumerate(zip(numbers, offsets, strict=True)):
                await session.connection.send(
                    session.data_out(tag, transfer_tag, number, offset, bytes([0xEE]) * 2048, last=index == 1)
                )
            response = await session.response(tag)
            assert (response.header[3], response.data[4] & 0xF, response.data[14], response.data[15]) == (CHECK_CONDITION, *sense)
        async with ready_session(served) as reader:
            assert (await reader.execute(cdb.read(0, 8), data_in=4096)).data == bytes(4096)

    show(served, act)


class RawWrites(Session):
    """A session without immediate data that does not answer R2T itself."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.portal, settings={"ImmediateData": "No"})

    async def _receive(self) -> None:
        """The test receives."""

    async def begin(self, length: int) -> tuple[int, int]:
        """A WRITE at block 0; its task tag and the target transfer tag of its R2T."""
        for _ in range(2):  # the first command takes the unit attention
            pdu, _ = self.command(cdb.write(0, length // 512), data_out=bytes(length))
            await self.connection.send(pdu)
            self.command_number += 1
            answer = await self.connection.receive()
            if answer.opcode == Opcode.R2T:
                return pdu.task_tag, answer.get(20)
            self._take_numbers(answer)
        raise AssertionError("no R2T")

    async def response(self, tag: int) -> Pdu:
        """The response of a task."""
        answer = await self.connection.receive()
        assert answer.opcode == Opcode.SCSI_RESPONSE and answer.task_tag == tag, answer
        return answer


# PDUs


def test_unknown_commands_are_rejected(served: Target) -> None:
    async def act() -> None:
        async with ready_session(served) as session:
            for opcode, reason in ((0x1C, REJECT_COMMAND_NOT_SUPPORTED), (Opcode.SNACK_REQUEST, REJECT_SNACK)):
                pdu = Pdu()
                pdu.header[0], pdu.header[1] = opcode, FINAL
                pdu.put(16, 77)
                pdu.put(24, session.command_number)
                await session.connection.send(pdu)
                reject = await session.rejects.get()
                assert (reject.header[2], reject.data[:48]) == (reason, bytes(pdu.header))
            await session.connection.send(session.data_out(4711, 4711, 0, 0, bytes(512), last=True))
            assert (await session.rejects.get()).header[2] == REJECT_INVALID_PDU_FIELD
            assert await session.ping(b"still here") == b"still here"

    show(served, act)


# Commands


def expect(response: Response, *sense: int) -> None:
    """The command ended with CHECK CONDITION and this sense key, code and qualifier."""
    assert response.status == CHECK_CONDITION and response.sense_codes == sense, (response.status, response.sense.hex())


READS_AND_WRITES = {
    "READ(6)": cdb.six(0x08, BLOCKS - 1, 2),
    "READ(10)": cdb.read(BLOCKS, 1),
    "READ(12)": cdb.twelve(0xA8, BLOCKS - 1, 2),
    "READ(16)": cdb.sixteen(0x88, (1 << 64) - 1, 2),
    "WRITE(6)": cdb.six(0x0A, BLOCKS - 1, 2),
    "WRITE(10)": cdb.write(BLOCKS, 1),
    "WRITE(12)": cdb.twelve(0xAA, 0xFFFFFFFF, 1),
    "WRITE(16)": cdb.sixteen(0x8A, 1 << 63, 2),
    "WRITE AND VERIFY(10)": cdb.ten(0x2E, BLOCKS, 1),
    "WRITE AND VERIFY(12)": cdb.twelve(0xAE, BLOCKS, 1),
    "WRITE AND VERIFY(16)": cdb.sixteen(0x8E, BLOCKS, 1),
    "VERIFY(10)": cdb.ten(0x2F, BLOCKS, 1),
    "VERIFY(16)": cdb.sixteen(0x8F, BLOCKS - 1, 2),
    "SYNCHRONIZE CACHE(10)": cdb.ten(0x35, BLOCKS, 1),
    "SYNCHRONIZE CACHE(16)": cdb.sixteen(0x91, BLOCKS, 1),
}


def is_write(block: bytes) -> bool:
    """Whether a command of the table has Data-Out."""
    return block[0] in (0x0A, 0x2A, 0xAA, 0x8A, 0x2E, 0xAE, 0x8E)


def test_addresses_past_the_end(served: Target) -> None:
    """LOGICAL BLOCK ADDRESS OUT OF RANGE, and a write that starts inside writes nothing."""

    async def act() -> None:
        async with ready_session(served) as session:
            for name, block in READS_AND_WRITES.items():
                data = bytes([0xEE]) * 1024 if is_write(block) else b""
                response = await session.execute(block, data_in=0 if data else 1024, data_out=data)
                assert response.status == CHECK_CONDITION and response.sense_codes == (ILLEGAL_REQUEST, 0x21, 0), name
            assert (await session.execute(cdb.read(BLOCKS - 1, 1), data_in=512)).data == bytes(512)

    show(served, act)


def test_zero_blocks(served: Target) -> None:
    """Zero is no error and transfers nothing (SBC), except for the 6-byte commands, where it means 256."""

    async def act() -> None:
        async with ready_session(served) as session:
            for block in (
                *(cdb.read(0, 0), cdb.twelve(0xA8, 5, 0), cdb.sixteen(0x88, BLOCKS, 0)),
                *(cdb.write(0, 0), cdb.twelve(0xAA, 5, 0), cdb.sixteen(0x8A, 0, 0), cdb.ten(0x2E, 0, 0), cdb.ten(0x2F, 0, 0)),
            ):
                response = await session.execute(block)
                assert (response.status, response.data, response.residual) == (GOOD, b"", 0), block.hex()
            assert len((await session.execute(cdb.six(0x08, 0, 0), data_in=256 * 512)).data) == 256 * 512

    show(served, act)


def test_less_and_more_than_the_initiator_expects(served: Target) -> None:
    """Residuals (RFC 7143, 11.4.5.1): 2 blocks read into room for 1 and for 3; a write of another length."""

    async def act() -> None:
        async with ready_session(served) as session:
            for room, residual in ((512, 512), (1536, -512), (1024, 0), (0, 1024)):
                response = await session.execute(cdb.read(0, 2), data_in=room)
                assert (response.status, len(response.data), response.residual) == (GOOD, min(room, 1024), residual)
            long = await session.execute(cdb.write(8, 1), data_out=bytes([1]) * 1024)
            assert (long.status, long.residual) == (GOOD, -512)
            assert (await session.execute(cdb.read(8, 2), data_in=1024)).data == bytes([1]) * 512 + bytes(512)

    show(served, act)


def test_unknown_commands(served: Target) -> None:
    async def act() -> None:
        async with ready_session(served) as session:
            for operation_code in (0x04, 0x01, 0xC0, 0xFF):  # FORMAT UNIT, REZERO, vendor specific
                expect(await session.execute(bytes([operation_code]) + bytes(15)), ILLEGAL_REQUEST, 0x20, 0)
            # INVALID FIELD IN CDB: a reserved service action, RDPROTECT without protection, an unknown VPD page
            expect(await session.execute(bytes([0x9E, 0x1F]) + bytes(14), data_in=32), ILLEGAL_REQUEST, 0x24, 0)
            expect(await session.execute(cdb.ten(0x28, 0, 1, flags=0x20), data_in=512), ILLEGAL_REQUEST, 0x24, 0)
            expect(await session.execute(bytes([0x12, 1, 0x99, 0, 96, 0]), data_in=96), ILLEGAL_REQUEST, 0x24, 0)

    show(served, act)


@pytest.mark.parametrize("lun", [2, 255])
def test_a_missing_lun(served: Target, lun: int) -> None:
    """INQUIRY reports no device (SPC, qualifier 011b), REQUEST SENSE the reason (SAM), the rest is refused."""

    async def act() -> None:
        async with ready_session(served) as session:
            assert (await session.execute(cdb.inquiry(), data_in=96, lun=lun)).data[0] == 0x7F
            sense = await session.execute(cdb.REQUEST_SENSE, data_in=18, lun=lun)
            assert (sense.status, sense.data[2], sense.data[12], sense.data[13]) == (GOOD, ILLEGAL_REQUEST, 0x25, 0)
            for block in (cdb.TEST_UNIT_READY, cdb.REPORT_LUNS, cdb.read(0, 1), cdb.write(0, 1)):
                data = bytes(512) if block[0] == 0x2A else b""
                response = await session.execute(block, data_in=512 if block[0] == 0x28 else 0, data_out=data, lun=lun)
                expect(response, ILLEGAL_REQUEST, 0x25, 0)

    show(served, act)


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
