# SPDX-License-Identifier: Apache-2.0
"""Blocks with a stamp of the write that made them, and the region of each kind of write."""

from __future__ import annotations

import struct

RECORD = struct.Struct(">IIQ")
"""Kind, block of the kind's region, sequence of the write."""
BLOCK_BYTES = 16384
LOGICAL_BLOCKS = BLOCK_BYTES // 512
REGION_BLOCKS = 8
"""Blocks of the volume that each kind writes to."""


def stamped_block(kind: int, block: int, sequence: int, length: int = BLOCK_BYTES) -> bytes:
    """A block filled with its kind, number and the sequence of its write."""
    return RECORD.pack(kind, block, sequence) * (length // RECORD.size)


def address_of(kind: int, block: int) -> int:
    """Logical block address of a block in a kind's region."""
    return (kind * REGION_BLOCKS + block) * LOGICAL_BLOCKS
