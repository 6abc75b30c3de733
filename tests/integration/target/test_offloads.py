# SPDX-License-Identifier: Apache-2.0
"""Results of offloads on the disk, byte by byte: every kind, at random, compared with a model. Both tiers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.kernel.zvol_clone import kernel_module
from support import cdb
from support.programs import IN_GUEST
from support.raw_initiator import CHECK_CONDITION, GOOD, Response, Session
from support.space import sync, used_bytes
from support.target import Target
from support.third_party_copy import Segment, extended_copy, naa_of, parameter_list, segments_of
from support.token import populate_token
from support.volumes import VolumeMaker

SIZE_MIB = 8
BLOCKS = SIZE_MIB << 11
MISCOMPARE = (0xE, 0x1D, 0x00)
NO_UNIT = (0x5, 0x25, 0x00)
ILLEGAL_REQUEST, COPY_ABORTED = 0x5, 0xA
GRANULE_BLOCKS = 32
"""Blocks of a zvol's default volblocksize, 16K."""


@dataclass
class Disk:
    """A LUN: its session, backing store, NAA, and expected content."""

    session: Session
    lun: int
    volume: Path
    naa: bytes
    model: bytearray

    async def run(self, command: bytes, data_out: bytes = b"", data_in: int = 0) -> Response:
        return await self.session.execute(command, data_in=data_in, data_out=data_out, lun=self.lun)

    def part(self, address: int, blocks: int) -> slice:
        """Byte range of blocks."""
        return slice(address * 512, (address + blocks) * 512)

    async def check(self) -> None:
        """Compares the data that a host reads, and the volume's data, with the model."""
        for address in range(0, BLOCKS, 2048):
            read = await self.run(cdb.read(address, 2048), data_in=1 << 20)
            assert read.status == GOOD, read
            self.compare(read.data, address)
        self.compare(self.volume.read_bytes(), 0)

    def compare(self, data: bytes, address: int) -> None:
        """Fails at the first different block."""
        expected = bytes(self.model[address * 512 : address * 512 + len(data)])
        if data != expected:
            first = next(at for at in range(0, len(data), 512) if data[at : at + 512] != expected[at : at + 512])
            actual, required = (block[first : first + 16].hex() for block in (data, expected))
            raise AssertionError(f"LUN {self.lun}, block {address + first // 512}: {actual}, not {required}")


def some_range(choice: random.Random, most: int) -> tuple[int, int]:
    """An address and a number of blocks; often aligned to volblocksize, often at the ends of the disk."""
    blocks = choice.choice([1, GRANULE_BLOCKS, 2 * GRANULE_BLOCKS, choice.randrange(1, most + 1)])
    address = choice.randrange(BLOCKS - blocks + 1)
    match choice.randrange(6):
        case 0 | 1 | 2:
            address -= address % GRANULE_BLOCKS
        case 3:
            address = choice.choice([0, BLOCKS - blocks])
    return address, blocks


Step = Callable[[random.Random, list[Disk]], Awaitable[str]]


async def write(choice: random.Random, disks: list[Disk]) -> str:
    disk = choice.choice(disks)
    address, blocks = some_range(choice, 2048)
    data = choice.randbytes(512) * blocks if choice.random() < 0.5 else choice.randbytes(blocks * 512)
    assert (await disk.run(cdb.write(address, blocks), data)).status == GOOD
    disk.model[disk.part(address, blocks)] = data
    return f"write {disk.lun} {address}+{blocks}"


async def write_same(choice: random.Random, disks: list[Disk]) -> str:
    disk = choice.choice(disks)
    address, blocks = some_range(choice, 4096)
    pattern = choice.choice([bytes(512), choice.randbytes(512)])
    flags = choice.choice([0, cdb.UNMAP, cdb.NDOB, cdb.NDOB | cdb.UNMAP])
    data = b"" if flags & cdb.NDOB else pattern
    answer = await disk.run(cdb.write_same(address, blocks, flags), data)
    assert answer.status == GOOD, (answer, flags)
    disk.model[disk.part(address, blocks)] = (data or bytes(512)) * blocks
    return f"write same {flags:#x} {disk.lun} {address}+{blocks}"


async def unmap(choice: random.Random, disks: list[Disk]) -> str:
    disk = choice.choice(disks)
    ranges = [some_range(choice, 4096) for _ in range(choice.randrange(1, 5))]
    answer = await disk.run(*cdb.unmap(*ranges))
    assert answer.status == GOOD, answer
    for address, blocks in ranges:
        disk.model[disk.part(address, blocks)] = bytes(blocks * 512)
    return f"unmap {disk.lun} {ranges}"


async def or_write(choice: random.Random, disks: list[Disk]) -> str:
    disk = choice.choice(disks)
    address, blocks = some_range(choice, 64)
    data = choice.randbytes(blocks * 512)
    assert (await disk.run(cdb.or_write(address, blocks), data)).status == GOOD
    part = disk.part(address, blocks)
    disk.model[part] = bytes(old | new for old, new in zip(disk.model[part], data, strict=True))
    return f"orwrite {disk.lun} {address}+{blocks}"


async def write_atomic(choice: random.Random, disks: list[Disk]) -> str:
    disk = choice.choice(disks)
    blocks = choice.randrange(1, GRANULE_BLOCKS + 1)
    address = choice.randrange(BLOCKS // GRANULE_BLOCKS) * GRANULE_BLOCKS + choice.randrange(GRANULE_BLOCKS - blocks + 1)
    data = choice.randbytes(blocks * 512)
    answer = await disk.run(cdb.write_atomic(address, blocks), data)
    if answer.status == GOOD:
        disk.model[disk.part(address, blocks)] = data
    else:  # a write larger than the volume's atomic unit is refused, not split
        assert answer.sense_codes[0] == ILLEGAL_REQUEST, answer
    return f"write atomic {disk.lun} {address}+{blocks}: {answer.status}"


async def compare_and_write(choice: random.Random, disks: list[Disk]) -> str:
    disk = choice.choice(disks)
    address, blocks = some_range(choice, 255)
    blocks = min(blocks, 255)
    part = disk.part(address, blocks)
    expected, data = bytearray(disk.model[part]), choice.randbytes(blocks * 512)
    differs = choice.randrange(len(expected)) if choice.random() < 0.5 else None
    if differs is not None:
        expected[differs] ^= 1 << choice.randrange(8)
    answer = await disk.run(cdb.compare_and_write(address, blocks), bytes(expected) + data)
    if differs is None:
        assert answer.status == GOOD, answer
        disk.model[part] = data
    else:
        assert answer.status == CHECK_CONDITION and answer.sense_codes == MISCOMPARE, answer
        assert answer.sense[0] & 0x80, "INFORMATION is not valid"
        assert int.from_bytes(answer.sense[3:7]) == differs, f"byte {differs} differs"
    return f"compare and write {disk.lun} {address}+{blocks}, differs at {differs}"


async def copy(choice: random.Random, disks: list[Disk]) -> str:
    source, destination = choice.choice(disks), choice.choice(disks)
    segments = []
    for _ in range(choice.randrange(1, 4)):
        address, blocks = some_range(choice, 8000)
        to = choice.randrange(BLOCKS - blocks + 1)
        if choice.random() < 0.6:  # with equal alignment, so that blocks can be shared
            to = min(to - to % GRANULE_BLOCKS + address % GRANULE_BLOCKS, BLOCKS - blocks)
        segments.append(Segment(0, 1, blocks, address, to))
    parameters = parameter_list([source.naa, destination.naa], segments)
    answer = await choice.choice([source, destination]).run(extended_copy(parameters), parameters)
    distances = [(segment.blocks, abs(segment.source_address - segment.destination_address)) for segment in segments]
    if source is destination and any(blocks > distance for blocks, distance in distances):
        assert answer.sense_codes[0] == COPY_ABORTED, (answer, segments)
        return f"overlapping copy of {source.lun}: {segments}"
    assert answer.status == GOOD, (answer, segments)
    for segment in segments:
        data = bytes(source.model[source.part(segment.source_address, segment.blocks)])
        destination.model[destination.part(segment.destination_address, segment.blocks)] = data
    return f"copy {source.lun} to {destination.lun}: {segments}"


STEPS: list[Step] = [write, write_same, unmap, or_write, write_atomic, compare_and_write, copy, copy, copy]


async def disks_of(session: Session, volumes: list[Path]) -> list[Disk]:
    disks = []
    for lun, volume in enumerate(volumes):
        await session.execute(cdb.TEST_UNIT_READY, lun=lun)  # takes the unit attention of a new nexus
        disks.append(Disk(session, lun, volume, await naa_of(session, lun), bytearray(SIZE_MIB << 20)))
    return disks


def test_random_offloads_match_a_model(target: Target, make_volume: VolumeMaker, seed: int) -> None:
    """On three LUNs: copies within, between, unaligned, and overlapping ones, which are refused."""
    volumes = [make_volume(f"volume{number}", SIZE_MIB) for number in range(3)]
    for lun, volume in enumerate(volumes):
        target.add_lun(lun, volume)
    choice = random.Random(seed)

    async def act() -> None:
        async with Session(target.portal) as session:
            disks = await disks_of(session, volumes)
            done: list[str] = []
            for number in range(1, 161):
                done.append(await choice.choice(STEPS)(choice, disks))
                if number % 20 == 0:
                    for disk in disks:
                        try:
                            await disk.check()
                        except AssertionError as error:
                            raise AssertionError(f"{error}\nseed {seed}, step {number}:\n" + "\n".join(done[-20:])) from error

    asyncio.run(asyncio.wait_for(act(), 300))


def test_holes_are_unwritten_or_unmapped_ranges(target: Target, make_volume: VolumeMaker) -> None:
    """GET LBA STATUS never reports a block with data as deallocated, and reports blocks freed by UNMAP and WRITE SAME."""
    if IN_GUEST:  # there zvol_clone reports allocation
        loaded = kernel_module.load()
        assert loaded.returncode == 0, loaded.stderr
    volume = make_volume("volume", SIZE_MIB)
    target.add_lun(0, volume)

    async def deallocated(session: Session) -> set[int]:
        addresses: set[int] = set()
        address = 0
        while address < BLOCKS:
            answer = await session.execute(cdb.get_lba_status(address, 4096), data_in=4096)
            assert answer.status == GOOD, answer
            for first, blocks, hole in cdb.lba_status_of(answer.data):
                assert first == address and blocks > 0, "ranges do not follow each other"
                address += blocks
                if hole:
                    addresses.update(range(first, min(first + blocks, BLOCKS)))
        return addresses

    def blocks_of(*granules: int) -> set[int]:
        return {granule * GRANULE_BLOCKS + at for granule in granules for at in range(GRANULE_BLOCKS)}

    async def act() -> None:
        async with Session(target.portal) as session:
            await session.execute(cdb.TEST_UNIT_READY)
            every = set(range(BLOCKS))
            data = random.Random(1).randbytes(GRANULE_BLOCKS * 512)
            for granule in (0, 1, 5, 6, 7, 8, 100):
                written = cdb.write(granule * GRANULE_BLOCKS, GRANULE_BLOCKS)
                assert (await session.execute(written, data_out=data)).status == GOOD
            held = blocks_of(0, 1, 5, 6, 7, 8, 100)
            assert not await deallocated(session) & held, "written blocks, not on disk yet, are called deallocated"
            assert (await session.execute(cdb.synchronize_cache())).status == GOOD
            sync(volume)
            assert await deallocated(session) == every - held
            assert (await session.execute(*_unmap(1, 6))).status == GOOD
            same = cdb.write_same(8 * GRANULE_BLOCKS, GRANULE_BLOCKS, cdb.UNMAP)
            assert (await session.execute(same, data_out=bytes(512))).status == GOOD
            # A single block of a granule frees nothing, and reads as zero.
            assert (await session.execute(*_unmap_blocks(100 * GRANULE_BLOCKS + 3, 1))).status == GOOD
            sync(volume)
            assert await deallocated(session) == every - blocks_of(0, 5, 7, 100)
            read = await session.execute(cdb.read(100 * GRANULE_BLOCKS, GRANULE_BLOCKS), data_in=len(data))
            assert read.data == data[: 3 * 512] + bytes(512) + data[4 * 512 :]

    asyncio.run(asyncio.wait_for(act(), 300))


def _unmap_blocks(address: int, blocks: int) -> tuple[bytes, int, bytes]:
    command, parameters = cdb.unmap((address, blocks))
    return command, 0, parameters


def _unmap(*granules: int) -> tuple[bytes, int, bytes]:
    command, parameters = cdb.unmap(*((granule * GRANULE_BLOCKS, GRANULE_BLOCKS) for granule in granules))
    return command, 0, parameters


def test_zeroes_and_unmap_give_the_space_back(target: Target, make_volume: VolumeMaker) -> None:
    """Eight descriptors of 1 MiB at a time, and WRITE SAME of zeroes without the UNMAP bit: a thin volume is empty afterwards."""
    volume = make_volume("volume", SIZE_MIB)
    target.add_lun(0, volume)
    data = random.Random(1).randbytes(1 << 20)

    async def fill(session: Session) -> None:
        for address in range(0, BLOCKS, 2048):
            assert (await session.execute(cdb.write(address, 2048), data_out=data)).status == GOOD
        assert used_bytes(volume) >= SIZE_MIB << 20

    async def act() -> None:
        async with Session(target.portal) as session:
            await session.execute(cdb.TEST_UNIT_READY)
            await fill(session)
            command, parameters = cdb.unmap(*((address, 2048) for address in range(0, BLOCKS, 2048)))
            assert (await session.execute(command, data_out=parameters)).status == GOOD
            assert used_bytes(volume) < 1 << 20
            assert volume.read_bytes() == bytes(SIZE_MIB << 20)
            await fill(session)
            same = cdb.write_same(0, BLOCKS)
            assert (await session.execute(same, data_out=bytes(512))).status == GOOD
            assert used_bytes(volume) < 1 << 20
            assert volume.read_bytes() == bytes(SIZE_MIB << 20)

    asyncio.run(asyncio.wait_for(act(), 300))
    offload = target.counters()["offload"]
    assert offload["unmapped_bytes"] >= SIZE_MIB << 20
    assert offload["zeroed_bytes"] >= SIZE_MIB << 20


def test_a_copy_can_use_only_luns_of_its_host(target: Target, make_volume: VolumeMaker) -> None:
    """CVE-2020-28374: a host neither reads, copies nor makes a token of a LUN it may not use, even if it knows the designator."""
    mine, hidden = make_volume("mine", SIZE_MIB), make_volume("hidden", SIZE_MIB)
    owner = "iqn.2026-11.example.zvaai:owner"
    target.add_lun(0, mine)
    target.add_lun(1, hidden, initiators=[owner])
    secret = random.Random(1).randbytes(1 << 20)

    async def act() -> None:
        async with Session(target.portal) as stranger, Session(target.portal, initiator=owner) as its_owner:
            for session, lun in ((stranger, 0), (its_owner, 1), (its_owner, 0)):
                await session.execute(cdb.TEST_UNIT_READY, lun=lun)
            assert (await its_owner.execute(cdb.write(0, 2048), data_out=secret, lun=1)).status == GOOD
            populate, ranges = populate_token(1, [(0, 8)])
            for command, data_in, data_out in ((cdb.read(0, 8), 4096, b""), (populate, 0, ranges)):
                answer = await stranger.execute(command, data_in=data_in, data_out=data_out, lun=1)
                assert answer.sense_codes == NO_UNIT, answer
            naas = [await naa_of(stranger, 0), await naa_of(its_owner, 1)]
            for source, destination in ((1, 0), (0, 1), (1, 1)):
                to = 2048 if source == destination else 0
                parameters = parameter_list(naas, [Segment(source, destination, 2048, 0, to)])
                answer = await stranger.execute(extended_copy(parameters), data_out=parameters)
                assert answer.status == CHECK_CONDITION, "a hidden LUN was reached"
                unknown = parameter_list([naas[0], bytes([0x60]) + bytes(15)], [Segment(source, destination, 2048, 0, to)])
                absent = await stranger.execute(extended_copy(unknown), data_out=unknown)
                assert answer == absent, "a hidden LUN is another than an absent one"
            assert mine.read_bytes() == bytes(SIZE_MIB << 20)
            assert hidden.read_bytes()[: 1 << 20] == secret
            # Its owner may, from either side.
            parameters = parameter_list(naas, [Segment(1, 0, 2048, 0, 0)])
            assert (await its_owner.execute(extended_copy(parameters), data_out=parameters, lun=0)).status == GOOD
            assert mine.read_bytes()[: 1 << 20] == secret

    asyncio.run(asyncio.wait_for(act(), 300))


@pytest.mark.parametrize("most", [65535, 2048])
def test_a_copy_is_counted_by_method(target: Target, make_volume: VolumeMaker, most: int) -> None:
    """Every byte is in exactly one of the counters, and bytes that were not cloned have a reason."""
    volumes = [make_volume(name, SIZE_MIB) for name in ("source", "destination")]
    for lun, volume in enumerate(volumes):
        target.add_lun(lun, volume)
    data = random.Random(1).randbytes(SIZE_MIB << 19)

    async def act() -> None:
        async with Session(target.portal) as session:
            await session.execute(cdb.TEST_UNIT_READY)
            await session.execute(cdb.TEST_UNIT_READY, lun=1)
            for at in range(0, len(data), 1 << 20):
                assert (await session.execute(cdb.write(at // 512, 2048), data_out=data[at : at + (1 << 20)])).status == GOOD
            naas = [await naa_of(session, lun) for lun in (0, 1)]
            for segment in segments_of(BLOCKS, 0, 1, most=most):
                parameters = parameter_list(naas, [segment])
                assert (await session.execute(extended_copy(parameters), data_out=parameters, lun=1)).status == GOOD

    asyncio.run(asyncio.wait_for(act(), 300))
    assert volumes[1].read_bytes() == volumes[0].read_bytes() == data + bytes(SIZE_MIB << 19)
    counted = {lun["number"]: lun for lun in target.call("statistics.get")["luns"]}
    offload = counted[1]["offload"]
    assert offload["cloned_bytes"] + offload["copied_bytes"] + offload["zeroed_bytes"] == SIZE_MIB << 20, offload
    assert sum(offload["fallback_bytes"].values()) >= offload["copied_bytes"], offload
    assert counted[1]["extended_copy"]["operations"] == len(segments_of(BLOCKS, 0, 1, most=most))
