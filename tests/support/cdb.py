"""Command descriptor blocks (SPC, SBC)."""

from __future__ import annotations

TEST_UNIT_READY = bytes(6)
REPORT_LUNS = bytes([0xA0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0])
REQUEST_SENSE = bytes([0x03, 0, 0, 0, 18, 0])
FORCE_UNIT_ACCESS = 0x08
BYTE_CHECK = 0x02


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
