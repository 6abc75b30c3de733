# SPDX-License-Identifier: Apache-2.0
"""Changes to a LUN other than WRITE, for the power cut: commands, and what must survive.

Arguments of `survived`: content of a block after the cut, sequence of its last acknowledgement, last sequence of all.
The command running at the cut may be done but not acknowledged; it has this sequence or the next.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from faults.stamps import BLOCK_BYTES, LOGICAL_BLOCKS, RECORD, address_of, stamped_block
from support import cdb, token
from support.raw_initiator import GOOD, Session
from support.third_party_copy import Segment, extended_copy, parameter_list

TEMPLATES = 64
"""Blocks on disk before the first command: the source of copies."""
REGISTER_AND_IGNORE_EXISTING_KEY = 0x06


@dataclass
class Disk:
    """The LUN: session, NAA, start of its templates, and the last value of each block."""

    session: Session
    naa: bytes
    templates_address: int
    held: dict[tuple[int, int], bytes] = field(default_factory=dict)

    async def run(self, command: bytes, data_out: bytes = b"") -> None:
        """Runs a command, which must succeed."""
        answer = await self.session.execute(command, data_out=data_out)
        assert answer.status == GOOD, (command.hex(), answer)

    def template_address(self, sequence: int) -> int:
        """Address of the template for a sequence."""
        return self.templates_address + sequence % TEMPLATES * LOGICAL_BLOCKS


def template(slot: int) -> bytes:
    """A template's content: incompressible, because a compressed block can lie in its block pointer, where nothing is shared."""
    return random.Random(slot).randbytes(BLOCK_BYTES)


Perform = Callable[[Disk, int, int, int], Awaitable[None]]
Survived = Callable[[bytes, int, int, int, int], bool]


@dataclass(frozen=True)
class OffloadKind:
    """A kind of offload: its operation on a block of its region, given kind, block and sequence; and what must survive."""

    name: str
    perform: Perform
    survived: Survived

    def __str__(self) -> str:
        return self.name


def stamp_survived(content: bytes, kind: int, block: int, noted: int, _last: int) -> bool:
    """The stamp of the recorded command or of a later one, in the whole block."""
    sequence: int = RECORD.unpack_from(content)[2]
    return content == stamped_block(kind, block, sequence) and sequence >= noted


def pages_survived(content: bytes, kind: int, block: int, noted: int, _last: int) -> bool:
    """Like stamp_survived(), page by page: the command running at the cut may have written some pages."""
    pages = [content[at : at + 4096] for at in range(0, BLOCK_BYTES, 4096)]
    sequences: list[int] = [RECORD.unpack_from(page)[2] for page in pages]
    whole = [stamped_block(kind, block, sequence, 4096) for sequence in sequences]
    return pages == whole and min(sequences) >= noted


def zeroes_survived(content: bytes, kind: int, block: int, noted: int, _last: int) -> bool:
    """Zeroes; or the stamp that the next command writes before it zeroes the block."""
    return content == bytes(BLOCK_BYTES) or stamp_survived(content, kind, block, noted + 1, 0)


def either_survived(content: bytes, kind: int, block: int, noted: int, last: int) -> bool:
    """The stamp of the source block, or the block's stamp if a later command copied from it."""
    return any(stamp_survived(content, kind, which, noted, last) for which in (block ^ 1, block))


def bits_survived(content: bytes, _kind: int, _block: int, noted: int, _last: int) -> bool:
    """At least as many leading ones as the sequence, then zeroes."""
    ones = int.from_bytes(content).bit_count()
    return content == leading_ones(ones) and ones >= noted


def template_survived(content: bytes, _kind: int, _block: int, noted: int, last: int) -> bool:
    """The template of the recorded command, or of the one running at the cut."""
    return content in [template(sequence % TEMPLATES) for sequence in (noted, last, last + 1)]


def key_survived(content: bytes, _kind: int, _block: int, noted: int, _last: int) -> bool:
    """A registered key, at least the sequence; `content` is the response of READ KEYS after the cut."""
    return any(int.from_bytes(content[at : at + 8]) >= noted for at in range(8, len(content), 8))


def leading_ones(count: int) -> bytes:
    """A block whose first bits are ones: OR of such blocks gives the one with the most."""
    return (((1 << count) - 1) << (BLOCK_BYTES * 8 - count)).to_bytes(BLOCK_BYTES)


async def compare_and_write(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """COMPARE AND WRITE of a whole volblock."""
    data = stamped_block(kind, block, sequence)
    expected = disk.held.get((kind, block), bytes(BLOCK_BYTES))
    await disk.run(cdb.compare_and_write(address_of(kind, block), LOGICAL_BLOCKS), expected + data)
    disk.held[kind, block] = data


async def write_same(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE SAME(16) of a pattern."""
    await disk.run(cdb.write_same(address_of(kind, block), LOGICAL_BLOCKS), stamped_block(kind, block, sequence, 512))


async def write_same_10(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE SAME(10) of a pattern."""
    await disk.run(cdb.ten(0x41, address_of(kind, block), LOGICAL_BLOCKS), stamped_block(kind, block, sequence, 512))


async def write_atomic(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE ATOMIC(16) of a block, a page at a time: only that is guaranteed to be atomic."""
    for at in range(0, LOGICAL_BLOCKS, 8):
        await disk.run(cdb.write_atomic(address_of(kind, block) + at, 8), stamped_block(kind, block, sequence, 4096))


async def or_write(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """ORWRITE(16) of a whole volblock."""
    await disk.run(cdb.or_write(address_of(kind, block), LOGICAL_BLOCKS), leading_ones(sequence))


async def _write(disk: Disk, kind: int, block: int, sequence: int) -> None:
    await disk.run(cdb.write(address_of(kind, block), LOGICAL_BLOCKS), stamped_block(kind, block, sequence))


async def unmap(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE, then UNMAP of the block."""
    await _write(disk, kind, block, sequence)
    await disk.run(*cdb.unmap((address_of(kind, block), LOGICAL_BLOCKS)))


async def unmap_half(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE, then UNMAP of the block in two halves, neither of them a whole volblock."""
    await _write(disk, kind, block, sequence)
    half = LOGICAL_BLOCKS // 2
    await disk.run(*cdb.unmap((address_of(kind, block), half), (address_of(kind, block) + half, half)))


async def write_same_unmap(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE, then WRITE SAME(16) with UNMAP and without Data-Out."""
    await _write(disk, kind, block, sequence)
    await disk.run(cdb.write_same(address_of(kind, block), LOGICAL_BLOCKS, cdb.UNMAP | cdb.NDOB))


async def zero(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """WRITE, then WRITE SAME(16) of zeroes."""
    await _write(disk, kind, block, sequence)
    await disk.run(cdb.write_same(address_of(kind, block), LOGICAL_BLOCKS), bytes(512))


async def copy(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """EXTENDED COPY of a template that is on disk, so its blocks are shared."""
    segment = Segment(0, 0, LOGICAL_BLOCKS, disk.template_address(sequence), address_of(kind, block))
    parameters = parameter_list([disk.naa], [segment])
    await disk.run(extended_copy(parameters), parameters)


async def copy_dirty(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """EXTENDED COPY of another block of the region that was just written."""
    neighbour = block ^ 1
    await _write(disk, kind, neighbour, sequence)
    segment = Segment(0, 0, LOGICAL_BLOCKS, address_of(kind, neighbour), address_of(kind, block))
    parameters = parameter_list([disk.naa], [segment])
    await disk.run(extended_copy(parameters), parameters)


async def copy_by_token(disk: Disk, kind: int, block: int, sequence: int) -> None:
    """POPULATE TOKEN of a template and WRITE USING TOKEN."""
    made = await token.populate(disk.session, [(disk.template_address(sequence), LOGICAL_BLOCKS)])
    await token.write_using(disk.session, made, [(address_of(kind, block), LOGICAL_BLOCKS)])


async def register(disk: Disk, _kind: int, _block: int, sequence: int) -> None:
    """PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY."""
    await disk.run(*cdb.persistent_reserve_out(REGISTER_AND_IGNORE_EXISTING_KEY, 0, 0, sequence))


REGISTRATION = OffloadKind("PERSISTENT RESERVE OUT", register, key_survived)
OFFLOADS: Sequence[OffloadKind] = [
    OffloadKind("COMPARE AND WRITE", compare_and_write, stamp_survived),
    OffloadKind("WRITE SAME(10)", write_same_10, stamp_survived),
    OffloadKind("WRITE SAME(16)", write_same, stamp_survived),
    OffloadKind("WRITE SAME(16) of zeroes", zero, zeroes_survived),
    OffloadKind("WRITE SAME(16) with UNMAP and NDOB", write_same_unmap, zeroes_survived),
    OffloadKind("UNMAP", unmap, zeroes_survived),
    OffloadKind("UNMAP of halves of a volblock", unmap_half, zeroes_survived),
    OffloadKind("ORWRITE(16)", or_write, bits_survived),
    OffloadKind("WRITE ATOMIC(16)", write_atomic, pages_survived),
    OffloadKind("EXTENDED COPY of what is on disk", copy, template_survived),
    OffloadKind("EXTENDED COPY of what was just written", copy_dirty, either_survived),
    OffloadKind("WRITE USING TOKEN", copy_by_token, template_survived),
    REGISTRATION,
]
