# SPDX-License-Identifier: Apache-2.0
"""EXTENDED COPY(LID1) (SPC-4 6.3, 6.4, 6.17): commands, parameter lists, and the designator of a LUN in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from support.raw_initiator import GOOD, Session

HOLD_LIST, NO_LIST = 0x02, 0x03
"""LIST ID USAGE 10b and 11b: the list identifier is discarded when the command ends; no list identifier."""
MOST_SEGMENT_BLOCKS = 0xFFFF


@dataclass(frozen=True)
class Segment:
    """Block device to block device: indices of CSCD descriptors, logical block addresses, and how many blocks."""

    source: int
    destination: int
    blocks: int
    source_address: int
    destination_address: int

    def encode(self) -> bytes:
        """Segment descriptor 02h (SPC-4 6.4.6.3)."""
        numbers = self.source.to_bytes(2) + self.destination.to_bytes(2) + bytes(2) + self.blocks.to_bytes(2)
        # DC: the count is of destination blocks.
        return bytes([0x02, 0x02, 0, 0x18]) + numbers + self.source_address.to_bytes(8) + self.destination_address.to_bytes(8)


def identification(naa: bytes, block_bytes: int = 512) -> bytes:
    """Identification CSCD descriptor E4h (SPC-4 6.4.5.1) of a disk by its NAA designator."""
    designator = bytes([0x01, 0x03, 0, len(naa)]) + naa.ljust(20, b"\0")
    return bytes([0xE4, 0, 0, 0]) + designator + bytes([0]) + block_bytes.to_bytes(3)


def parameter_list(naas: Sequence[bytes], segments: Sequence[Segment], usage: int = NO_LIST, list_identifier: int = 0) -> bytes:
    """A parameter list of E4h and 02h descriptors."""
    targets = b"".join(identification(naa) for naa in naas)
    described = b"".join(segment.encode() for segment in segments)
    lengths = len(targets).to_bytes(2) + bytes(4) + len(described).to_bytes(4) + bytes(4)
    return bytes([list_identifier, usage << 3]) + lengths + targets + described


def extended_copy(parameters: bytes) -> bytes:
    """EXTENDED COPY(LID1)."""
    return bytes([0x83, 0]) + bytes(8) + len(parameters).to_bytes(4) + bytes(2)


def segments_of(
    blocks: int, source: int, destination: int, *, from_: int = 0, to: int = 0, most: int = MOST_SEGMENT_BLOCKS
) -> list[Segment]:
    """A long range from `from_` to `to` as segments of at most `most` blocks."""
    return [Segment(source, destination, min(most, blocks - at), from_ + at, to + at) for at in range(0, blocks, most)]


async def naa_of(session: Session, lun: int = 0) -> bytes:
    """The NAA designator of a LUN, from the Device Identification page (83h)."""
    answer = await session.execute(bytes([0x12, 1, 0x83, 4, 0, 0]), data_in=1024, lun=lun)
    assert answer.status == GOOD, answer
    at = 4
    while at < int.from_bytes(answer.data[2:4]) + 4:
        kind, length = answer.data[at + 1], answer.data[at + 3]
        if kind & 0x3F == 0x03:
            return answer.data[at + 4 : at + 4 + length]
        at += 4 + length
    raise AssertionError(f"no NAA designator: {answer.data.hex()}")
