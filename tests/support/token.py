# SPDX-License-Identifier: Apache-2.0
"""Copies by token (ODX; SPC-5 6.24, SBC-4 5.21 and 5.57): POPULATE TOKEN, RECEIVE ROD TOKEN INFORMATION, WRITE USING TOKEN."""

from __future__ import annotations

import itertools

from support.raw_initiator import GOOD, Response, Session

TOKEN_BYTES = 512
_identifiers = itertools.count(1)


def _ranges(ranges: list[tuple[int, int]]) -> bytes:
    described = b"".join(address.to_bytes(8) + blocks.to_bytes(4) + bytes(4) for address, blocks in ranges)
    return len(described).to_bytes(2) + described


def _third_party_out(action: int, list_identifier: int, parameters: bytes) -> bytes:
    return bytes([0x83, action, 0, 0, 0, 0]) + list_identifier.to_bytes(4) + len(parameters).to_bytes(4) + bytes(2)


def populate_token(list_identifier: int, ranges: list[tuple[int, int]], timeout_seconds: int = 0) -> tuple[bytes, bytes]:
    """POPULATE TOKEN of pairs of address and blocks: the command and its parameter list."""
    body = bytes(2) + timeout_seconds.to_bytes(4) + bytes(4) + bytes(2) + _ranges(ranges)
    parameters = len(body).to_bytes(2) + body
    return _third_party_out(0x10, list_identifier, parameters), parameters


def write_using_token(list_identifier: int, made: bytes, ranges: list[tuple[int, int]], offset: int = 0) -> tuple[bytes, bytes]:
    """WRITE USING TOKEN, from `offset` blocks of the token's data: the command and its parameter list."""
    body = bytes(6) + offset.to_bytes(8) + made + bytes(6) + _ranges(ranges)
    parameters = len(body).to_bytes(2) + body
    return _third_party_out(0x11, list_identifier, parameters), parameters


def receive_rod_token_information(list_identifier: int, length: int = 1024) -> bytes:
    """RECEIVE ROD TOKEN INFORMATION."""
    return bytes([0x84, 0x07]) + list_identifier.to_bytes(4) + bytes(4) + length.to_bytes(4) + bytes(2)


async def populate(session: Session, ranges: list[tuple[int, int]], lun: int | None = None) -> bytes:
    """A token for ranges of a LUN. Raises AssertionError."""
    identifier = next(_identifiers)
    command, parameters = populate_token(identifier, ranges)
    answer = await session.execute(command, data_out=parameters, lun=lun)
    assert answer.status == GOOD, answer
    answer = await session.execute(receive_rod_token_information(identifier), data_in=1024, lun=lun)
    assert answer.status == GOOD, answer
    sense_bytes = answer.data[13]
    descriptors = 32 + sense_bytes
    assert int.from_bytes(answer.data[descriptors : descriptors + 4]) == TOKEN_BYTES + 2, answer.data.hex()
    return answer.data[descriptors + 6 : descriptors + 6 + TOKEN_BYTES]


async def try_write_using(session: Session, made: bytes, ranges: list[tuple[int, int]], lun: int | None = None) -> Response:
    """Writes the data of a token; returns the response."""
    command, parameters = write_using_token(next(_identifiers), made, ranges)
    return await session.execute(command, data_out=parameters, lun=lun)


async def write_using(session: Session, made: bytes, ranges: list[tuple[int, int]], lun: int | None = None) -> None:
    """`try_write_using`, which must succeed. Raises AssertionError."""
    answer = await try_write_using(session, made, ranges, lun)
    assert answer.status == GOOD, answer
