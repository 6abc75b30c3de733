# SPDX-License-Identifier: Apache-2.0
"""Blocks that tell which write they stem from, and where each kind of write puts them."""

from __future__ import annotations

import struct

RECORD = struct.Struct(">IIQ")
"""Kind, block of the kind's region, sequence of the write."""
BLOCK_BYTES = 16384
LOGICAL_BLOCKS = BLOCK_BYTES // 512
REGION_BLOCKS = 8
"""Blocks of its volume that each kind writes to."""


def stamped_block(kind: int, block: int, sequence: int, length: int = BLOCK_BYTES) -> bytes:
    """A block that tells its kind, number and the write it stems from, all over."""
    return RECORD.pack(kind, block, sequence) * (length // RECORD.size)


def address_of(kind: int, block: int) -> int:
    """The logical block address of a block of a kind's region."""
    return (kind * REGION_BLOCKS + block) * LOGICAL_BLOCKS
