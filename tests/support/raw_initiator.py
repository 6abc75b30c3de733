# SPDX-License-Identifier: Apache-2.0
"""A small iSCSI initiator (RFC 7143) for behaviour that real ones never show: unusual commands, broken PDUs, peers that stall or
flood.

Valid by default; every PDU can also be built and sent by hand. No digests, one connection a session, one login exchange (two with
CHAP), ErrorRecoveryLevel 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import TracebackType

from support.target import IQN, Account

HEADER_BYTES = 48
RESERVED_TAG = 0xFFFFFFFF
FINAL = 0x80
INITIATOR = "iqn.2026-11.example.zvaai:raw"


class Opcode(IntEnum):
    """RFC 7143, 11.2.1.2; requests without the immediate bit 0x40."""

    NOP_OUT = 0x00
    SCSI_COMMAND = 0x01
    LOGIN_REQUEST = 0x03
    TEXT_REQUEST = 0x04
    DATA_OUT = 0x05
    NOP_IN = 0x20
    SCSI_RESPONSE = 0x21
    LOGIN_RESPONSE = 0x23
    DATA_IN = 0x25
    R2T = 0x31
    REJECT = 0x3F


IMMEDIATE = 0x40


class Refused(Exception):
    """The target refused a login: status class and detail (RFC 7143, 11.13.5)."""

    def __init__(self, status: int) -> None:
        super().__init__(f"login status {status:04x}")
        self.status = status


@dataclass
class Pdu:
    """A basic header segment and a data segment; fields by their byte offset."""

    header: bytearray = field(default_factory=lambda: bytearray(HEADER_BYTES))
    data: bytes = b""

    def get(self, offset: int, length: int = 4) -> int:
        return int.from_bytes(self.header[offset : offset + length])

    def put(self, offset: int, value: int, length: int = 4) -> None:
        self.header[offset : offset + length] = value.to_bytes(length)

    @property
    def opcode(self) -> int:
        """Opcode without the immediate bit."""
        return self.header[0] & 0x3F

    @property
    def task_tag(self) -> int:
        return self.get(16)

    def encode(self) -> bytes:
        """Bytes on the wire, DataSegmentLength set and padding added."""
        self.put(5, len(self.data), 3)
        return bytes(self.header) + self.data + bytes(-len(self.data) % 4)


@dataclass(frozen=True)
class Response:
    """How a command ended: SAM status, sense data and Data-In."""

    status: int
    sense: bytes
    data: bytes

    @property
    def sense_codes(self) -> tuple[int, int, int]:
        """Sense key, additional sense code and its qualifier of fixed format sense data."""
        return self.sense[2] & 0xF, self.sense[12], self.sense[13]


GOOD = 0x00
CHECK_CONDITION = 0x02
BUSY = 0x08


def keys(text: bytes) -> dict[str, str]:
    """`key=value` pairs of a text data segment."""
    return dict(item.decode().split("=", 1) for item in text.rstrip(b"\0").split(b"\0") if item)


def text_of(pairs: Mapping[str, str]) -> bytes:
    return b"".join(f"{key}={value}\0".encode() for key, value in pairs.items())


class Connection:
    """A TCP connection that carries PDUs; `source` is its optional local address. Use as an asynchronous context manager."""

    def __init__(self, portal: str, source: str | None = None) -> None:
        self.portal = portal
        self._source = source
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Connection:
        host, _, port = self.portal.rpartition(":")
        self.reader, self.writer = await asyncio.open_connection(
            host.strip("[]"), int(port), local_addr=(self._source, 0) if self._source else None
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.writer.transport.abort()

    async def send(self, pdu: Pdu) -> None:
        """Sends a PDU."""
        self.writer.write(pdu.encode())
        await self.writer.drain()

    def send_last(self, data: bytes) -> None:
        """Sends bytes and shuts the sending side. The target may have reset the connection before."""
        self.writer.write(data)
        with contextlib.suppress(OSError):
            self.writer.write_eof()

    async def receive(self) -> Pdu:
        """The next PDU. Raises IncompleteReadError, ConnectionError when the target hung up."""
        header = bytearray(await self.reader.readexactly(HEADER_BYTES))
        pdu = Pdu(header)
        length = pdu.get(5, 3)
        pdu.data = (await self.reader.readexactly(length + -length % 4))[:length]
        return pdu

    async def is_closed_by_target(self, within_seconds: float = 30) -> bool:
        """Whether the target closes the connection; discards what it sends before. Raises TimeoutError."""
        async with asyncio.timeout(within_seconds):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass
        return True


class Session:
    """A session in full feature phase. The asynchronous context manager logs in. Raises Refused."""

    _isids = itertools.count(1)

    def __init__(
        self,
        portal: str,
        iqn: str = IQN,
        initiator: str = INITIATOR,
        settings: Mapping[str, str] | None = None,
        account: Account | None = None,
        lun: int = 0,
        source: str | None = None,
        isid: int | None = None,
    ) -> None:
        self.connection = Connection(portal, source)
        self.lun = lun
        self.parameters: dict[str, str] = {"InitialR2T": "Yes", "ImmediateData": "Yes", "FirstBurstLength": "65536"}
        """Negotiated values."""
        self._names = {"InitiatorName": initiator, "TargetName": iqn, "SessionType": "Normal"}
        self._settings = {"HeaderDigest": "None", "DataDigest": "None", "MaxRecvDataSegmentLength": "262144", **(settings or {})}
        self._account = account
        self.isid = 0x80_0000_0000_00 | next(Session._isids) if isid is None else isid
        """ISID; with the initiator's name it identifies the initiator port."""
        self._tags = itertools.count(1)
        self._commands: dict[int, _Task] = {}
        self._others: dict[int, asyncio.Future[Pdu]] = {}
        self.rejects: asyncio.Queue[Pdu] = asyncio.Queue()
        """Reject PDUs, oldest first."""
        self.command_number = 1
        self.expected_status_number = 0
        self.max_command_number = 1
        self._window = asyncio.Condition()
        self._receiving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Session:
        await self.connection.__aenter__()
        try:
            await self._log_in()
        except BaseException:
            await self.connection.__aexit__(None, None, None)
            raise
        self._receiving = asyncio.create_task(self._receive())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._receiving:
            self._receiving.cancel()
        await self.connection.__aexit__(kind, error, trace)

    # Login

    async def _log_in(self) -> None:
        security, operational, full_feature = 0, 1, 3
        if self._account:
            answer = await self._exchange(security, None, {**self._names, "AuthMethod": "CHAP"})
            challenge = await self._exchange(security, None, {"CHAP_A": "5"})
            secret = bytes([int(challenge["CHAP_I"])]) + self._account.secret.encode() + bytes.fromhex(challenge["CHAP_C"][2:])
            digest = hashlib.md5(secret, usedforsecurity=False).hexdigest()
            await self._exchange(security, operational, {"CHAP_N": self._account.name, "CHAP_R": f"0x{digest}"})
            answer = await self._exchange(operational, full_feature, self._settings)
        else:
            answer = await self._exchange(operational, full_feature, {**self._names, **self._settings})
        self.parameters.update(self._settings)
        self.parameters.update(answer)

    async def _exchange(self, stage: int, next_stage: int | None, pairs: Mapping[str, str]) -> dict[str, str]:
        request = Pdu(data=text_of(pairs))
        request.header[0] = Opcode.LOGIN_REQUEST | IMMEDIATE
        request.header[1] = stage << 2 | (FINAL | next_stage if next_stage is not None else 0)
        request.put(8, self.isid, 6)
        request.put(24, self.command_number)
        request.put(28, self.expected_status_number)
        await self.connection.send(request)
        answer = await self.connection.receive()
        assert answer.opcode == Opcode.LOGIN_RESPONSE, f"opcode {answer.opcode:#x} answers a login"
        if status := answer.get(36, 2):
            raise Refused(status)
        self._take_numbers(answer)
        return keys(answer.data)

    # Full feature phase

    async def execute(self, cdb: bytes, data_in: int = 0, data_out: bytes = b"", lun: int | None = None) -> Response:
        """Runs a command to its end. `data_in` is the number of bytes expected. Raises ConnectionError when the session ends."""
        return await (await self.submit(cdb, data_in, data_out, lun))

    async def submit(
        self, cdb: bytes, data_in: int = 0, data_out: bytes = b"", lun: int | None = None
    ) -> asyncio.Future[Response]:
        """Sends a command when the target's window has room; the future gets its response."""
        async with self._window:
            await self._window.wait_for(lambda: (self.max_command_number - self.command_number) % (1 << 32) < 1 << 31)
            pdu, unsolicited = self.command(cdb, data_in, data_out, lun)
            self.command_number = (self.command_number + 1) % (1 << 32)
        task = _Task(data_out)
        self._commands[pdu.task_tag] = task
        await self.connection.send(pdu)
        if unsolicited:
            await self._send_data(pdu.task_tag, RESERVED_TAG, data_out, len(pdu.data), unsolicited)
        return task.done

    def command(self, cdb: bytes, data_in: int = 0, data_out: bytes = b"", lun: int | None = None) -> tuple[Pdu, int]:
        """A SCSI Command PDU with immediate data as negotiated, and the number of bytes that must follow unsolicited."""
        pdu = Pdu()
        burst = min(len(data_out), int(self.parameters["FirstBurstLength"]))
        immediate = min(burst, self.segment_limit) if self.parameters["ImmediateData"] == "Yes" else 0
        unsolicited = burst - immediate if self.parameters["InitialR2T"] == "No" else 0
        pdu.data = data_out[:immediate]
        pdu.header[0] = Opcode.SCSI_COMMAND
        pdu.header[1] = (0 if unsolicited else FINAL) | (0x40 if data_in else 0) | (0x20 if data_out else 0) | 1
        pdu.put(8, (self.lun if lun is None else lun) << 48, 8)
        pdu.put(16, next(self._tags))
        pdu.put(20, data_in or len(data_out))
        pdu.put(24, self.command_number)
        pdu.put(28, self.expected_status_number)
        pdu.header[32:48] = cdb.ljust(16, b"\0")
        return pdu, unsolicited

    @property
    def segment_limit(self) -> int:
        """Bytes of data the target takes in one PDU (its MaxRecvDataSegmentLength; ours is not larger)."""
        return int(self.parameters["MaxRecvDataSegmentLength"])

    async def ping(self, data: bytes = b"") -> bytes:
        """NOP-Out and NOP-In; the data that came back."""
        pdu = Pdu(data=data)
        pdu.header[0], pdu.header[1] = Opcode.NOP_OUT | IMMEDIATE, FINAL
        return (await self.request(pdu)).data

    async def request(self, pdu: Pdu) -> Pdu:
        """Sends an immediate request with a new tag; returns the PDU that answers the tag."""
        pdu.put(16, next(self._tags))
        pdu.put(24, self.command_number)
        pdu.put(28, self.expected_status_number)
        if pdu.opcode in (Opcode.NOP_OUT, Opcode.TEXT_REQUEST):
            pdu.put(20, RESERVED_TAG)
        answer: asyncio.Future[Pdu] = asyncio.get_running_loop().create_future()
        self._others[pdu.task_tag] = answer
        await self.connection.send(pdu)
        return await answer

    async def closed(self) -> None:
        """Returns when the target has closed the connection."""
        if self._receiving:
            await self._receiving

    async def _receive(self) -> None:
        try:
            while True:
                pdu = await self.connection.receive()
                self._take_numbers(pdu)
                async with self._window:
                    self._window.notify_all()
                await self._take(pdu)
        except (OSError, asyncio.IncompleteReadError) as error:
            lost = ConnectionResetError(f"the target hung up: {error}")
            for task in self._commands.values():
                task.done.set_exception(lost)
            for answer in self._others.values():
                answer.set_exception(lost)

    def _take_numbers(self, pdu: Pdu) -> None:
        without_status = (
            pdu.opcode == Opcode.R2T
            or (pdu.opcode == Opcode.DATA_IN and not pdu.header[1] & 1)
            or (pdu.opcode == Opcode.NOP_IN and pdu.task_tag == RESERVED_TAG)
        )
        if not without_status:
            self.expected_status_number = (pdu.get(24) + 1) % (1 << 32)
        self.max_command_number = pdu.get(32)

    async def _take(self, pdu: Pdu) -> None:
        if pdu.opcode == Opcode.REJECT:
            await self.rejects.put(pdu)
        elif pdu.opcode == Opcode.NOP_IN and pdu.get(20) != RESERVED_TAG:
            answer = Pdu()
            answer.header[0], answer.header[1] = Opcode.NOP_OUT | IMMEDIATE, FINAL
            answer.header[8:16], answer.header[20:24] = pdu.header[8:16], pdu.header[20:24]
            answer.put(16, RESERVED_TAG)
            answer.put(24, self.command_number)
            answer.put(28, self.expected_status_number)
            await self.connection.send(answer)
        elif waiting := self._others.pop(pdu.task_tag, None):
            waiting.set_result(pdu)
        elif task := self._commands.get(pdu.task_tag):
            await self._advance(task, pdu)

    async def _advance(self, task: _Task, pdu: Pdu) -> None:
        if pdu.opcode == Opcode.R2T:
            await self._send_data(pdu.task_tag, pdu.get(20), task.data_out, pdu.get(40), pdu.get(44))
            return
        ended = pdu.opcode == Opcode.SCSI_RESPONSE
        if pdu.opcode == Opcode.DATA_IN:
            offset = pdu.get(40)
            task.data_in[offset : offset + len(pdu.data)] = pdu.data
            ended = bool(pdu.header[1] & 1)
        if ended:
            del self._commands[pdu.task_tag]
            sense = pdu.data[2:] if pdu.opcode == Opcode.SCSI_RESPONSE else b""
            task.done.set_result(Response(pdu.header[3], sense, bytes(task.data_in)))

    async def _send_data(self, task_tag: int, transfer_tag: int, data: bytes, offset: int, length: int) -> None:
        end = offset + length
        for number, at in enumerate(range(offset, end, self.segment_limit)):
            part = data[at : min(at + self.segment_limit, end)]
            await self.connection.send(self.data_out(task_tag, transfer_tag, number, at, part, last=at + len(part) == end))

    def data_out(self, task_tag: int, transfer_tag: int, number: int, offset: int, data: bytes, *, last: bool) -> Pdu:
        """A Data-Out PDU."""
        pdu = Pdu(data=data)
        pdu.header[0], pdu.header[1] = Opcode.DATA_OUT, FINAL if last else 0
        pdu.put(8, self.lun << 48, 8)
        pdu.put(16, task_tag)
        pdu.put(20, transfer_tag)
        pdu.put(28, self.expected_status_number)
        pdu.put(36, number)
        pdu.put(40, offset)
        return pdu


class _Task:
    """A running command."""

    def __init__(self, data_out: bytes) -> None:
        self.data_out = data_out
        self.data_in = bytearray()
        self.done: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
