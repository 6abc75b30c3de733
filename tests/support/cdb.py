# SPDX-License-Identifier: Apache-2.0
"""Command descriptor blocks (SPC, SBC)."""

from __future__ import annotations

TEST_UNIT_READY = bytes(6)
REPORT_LUNS = bytes([0xA0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0])
REQUEST_SENSE = bytes([0x03, 0, 0, 0, 18, 0])
FORCE_UNIT_ACCESS = 0x08


def ten(operation_code: int, address: int, blocks: int, flags: int = 0) -> bytes:
    """READ(10), WRITE(10) and their like; `flags` is byte 1."""
    return bytes([operation_code, flags]) + address.to_bytes(4) + bytes(1) + blocks.to_bytes(2) + bytes(1)


def twelve(operation_code: int, address: int, blocks: int, flags: int = 0) -> bytes:
    """READ(12), WRITE(12) and their like."""
    return bytes([operation_code, flags]) + address.to_bytes(4) + blocks.to_bytes(4) + bytes(2)


def sixteen(operation_code: int, address: int, blocks: int, flags: int = 0) -> bytes:
    """READ(16), WRITE(16) and their like."""
    return bytes([operation_code, flags]) + address.to_bytes(8) + blocks.to_bytes(4) + bytes(2)


def six(operation_code: int, address: int, blocks: int) -> bytes:
    """READ(6), WRITE(6)."""
    return bytes([operation_code]) + address.to_bytes(3) + bytes([blocks, 0])


def read(address: int, blocks: int) -> bytes:
    """READ(10)."""
    return ten(0x28, address, blocks)


def write(address: int, blocks: int, flags: int = 0) -> bytes:
    """WRITE(10)."""
    return ten(0x2A, address, blocks, flags)


def synchronize_cache() -> bytes:
    """SYNCHRONIZE CACHE(10) of the whole volume."""
    return ten(0x35, 0, 0)


def inquiry(length: int = 96) -> bytes:
    """INQUIRY, standard data."""
    return bytes([0x12, 0, 0]) + length.to_bytes(2) + bytes(1)


# Offloads

NDOB, UNMAP = 0x01, 0x08
"""Byte 1 of WRITE SAME(16): no Data-Out; blocks may be deallocated."""


def compare_and_write(address: int, blocks: int) -> bytes:
    """COMPARE AND WRITE (SBC-4 5.3): Data-Out is the expected data, then the new data."""
    return bytes([0x89, 0]) + address.to_bytes(8) + bytes([0, 0, 0, blocks, 0, 0])


def write_same(address: int, blocks: int, flags: int = 0) -> bytes:
    """WRITE SAME(16) (SBC-4 5.53)."""
    return sixteen(0x93, address, blocks, flags)


def or_write(address: int, blocks: int) -> bytes:
    """ORWRITE(16) (SBC-4 5.14)."""
    return sixteen(0x8B, address, blocks)


def write_atomic(address: int, blocks: int) -> bytes:
    """WRITE ATOMIC(16) without a boundary (SBC-4 5.48)."""
    return bytes([0x9C, 0]) + address.to_bytes(8) + bytes(2) + blocks.to_bytes(2) + bytes(2)


def unmap(*ranges: tuple[int, int]) -> tuple[bytes, bytes]:
    """UNMAP (SBC-4 5.35) of pairs of address and blocks: the command and its parameter list."""
    descriptors = b"".join(address.to_bytes(8) + blocks.to_bytes(4) + bytes(4) for address, blocks in ranges)
    parameters = (len(descriptors) + 6).to_bytes(2) + len(descriptors).to_bytes(2) + bytes(4) + descriptors
    return bytes([0x42, 0, 0, 0, 0, 0, 0]) + len(parameters).to_bytes(2) + bytes(1), parameters


def get_lba_status(address: int, length: int) -> bytes:
    """GET LBA STATUS(16) (SBC-4 5.9)."""
    return bytes([0x9E, 0x12]) + address.to_bytes(8) + length.to_bytes(4) + bytes(2)


def lba_status_of(data: bytes) -> list[tuple[int, int, bool]]:
    """GET LBA STATUS parameter data: address, blocks, and whether they are deallocated."""
    length = int.from_bytes(data[:4]) + 4
    descriptors = [data[at : at + 16] for at in range(8, min(length, len(data)), 16)]
    return [(int.from_bytes(d[:8]), int.from_bytes(d[8:12]), d[12] & 0x0F == 1) for d in descriptors]


def persistent_reserve_out(action: int, kind: int, key: int, action_key: int = 0) -> tuple[bytes, bytes]:
    """PERSISTENT RESERVE OUT (SPC-5 6.16) for the logical unit: the command and its parameter list."""
    parameters = key.to_bytes(8) + action_key.to_bytes(8) + bytes(8)
    return bytes([0x5F, action, kind, 0, 0]) + len(parameters).to_bytes(4) + bytes(1), parameters


def persistent_reserve_in(action: int, length: int = 252) -> bytes:
    """PERSISTENT RESERVE IN (SPC-5 6.15)."""
    return bytes([0x5E, action, 0, 0, 0, 0, 0]) + length.to_bytes(2) + bytes(1)
