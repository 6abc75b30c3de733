# SPDX-License-Identifier: Apache-2.0
"""EXTENDED COPY on zvols: shared blocks by DVA, copied blocks by reason, and independence of both sides."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.offload.disks import Luns, bytes_to_disk, luns, offload_of, qemu_copy, serve
from integration.kernel.zvol_clone import kernel_module
from integration.kernel.zvol_clone.blocks import (
    MIB,
    dataset_of,
    destroy,
    dvas,
    pool_property,
    random_blocks,
    read_direct,
    shared,
    write_direct,
)
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support import cdb
from support.programs import run, wait_for
from support.raw_initiator import GOOD, Session
from support.target import Target
from support.third_party_copy import Segment, extended_copy, naa_of, parameter_list
from support.zfs import Pool

VolumeOf = Callable[..., Path]
SetParameter = Callable[[str, int], None]
OTHER_SIZE = pytest.mark.long("15 to 40 s each: 16K is the usual size of blocks")
BLOCK = 16384
STAMP = struct.Struct(">QQ")


@pytest.fixture(autouse=True)
def _module(device: ZvolClone) -> Iterator[None]:
    """zvol_clone is loaded."""
    yield


def act_on(target: Target, count: int, act: Callable[[Luns], Awaitable[None]]) -> None:
    """Runs `act` with a session on `count` LUNs."""

    async def run_() -> None:
        async with luns(target, count) as disks:
            await act(disks)

    asyncio.run(asyncio.wait_for(run_(), 480))


def same(first: Path, other: Path, length: int, from_: int = 0, to: int = 0) -> bool:
    """Whether ranges have the same bytes in zfs."""
    return read_direct(first, length, from_) == read_direct(other, length, to)


@pytest.mark.parametrize("volblocksize", ["16K", pytest.param("64K", marks=OTHER_SIZE)])
def test_qemu_copies_by_sharing_blocks_until_either_side_changes(
    volume: VolumeOf, target: Target, pool: Pool, volblocksize: str
) -> None:
    length, filled, block = 24 * MIB, 16 * MIB, int(volblocksize[:-1]) << 10
    source, destination = volume(24, volblocksize=volblocksize), volume(24, volblocksize=volblocksize)
    # Data, a hole, data, a hole.
    write_direct(source, random_blocks(8 * MIB))
    write_direct(source, random_blocks(8 * MIB), 12 * MIB)
    serve(target, source, destination)
    before = pool_property(pool.name, "bcloneused")
    assert qemu_copy(target.url(0), target.url(1)) > 0, "QEMU sent no EXTENDED COPY"
    run("zpool", "sync", pool.name)
    original = read_direct(source, length)
    assert read_direct(destination, length) == original
    blocks_of_source, other = dvas(dataset_of(source)), dvas(dataset_of(destination))
    assert blocks_of_source == other and len(blocks_of_source) == filled // block
    assert pool_property(pool.name, "bcloneused") - before == filled
    offload = offload_of(target, 1)
    assert (offload["cloned_bytes"], offload["copied_bytes"]) == (filled, 0), offload

    async def change(disks: Luns) -> None:
        await disks.write(1, new, MIB)
        await disks.unmap(1, 2 * MIB, MIB // 2)
        await disks.write(0, new, 3 * MIB)
        await disks.unmap(0, 4 * MIB, MIB // 2)

    new = random_blocks(MIB // 2)
    act_on(target, 2, change)

    def changed(*parts: tuple[int, bytes]) -> bytes:
        data = bytearray(original)
        for offset, content in parts:
            data[offset : offset + len(content)] = content
        return bytes(data)

    assert read_direct(source, length) == changed((3 * MIB, new), (4 * MIB, bytes(MIB // 2)))
    assert read_direct(destination, length) == changed((MIB, new), (2 * MIB, bytes(MIB // 2)))
    assert shared(dvas(dataset_of(source)), dvas(dataset_of(destination))) == (filled - 2 * MIB) // block
    pool.scrub()


@pytest.mark.parametrize(("volblocksize", "most"), [("16K", 0.05), pytest.param("64K", 0.03, marks=OTHER_SIZE)])
def test_next_to_nothing_is_written(
    volume: VolumeOf, target: Target, pool: Pool, report_line: Callable[[str], None], volblocksize: str, most: float
) -> None:
    """At 16K the block pointers alone are up to 2.3 %: 128 bytes each, once in the intent log, because a command is stable at its
    end, and twice in indirect blocks, of which ZFS stores two."""
    size = 512 * MIB
    source, destination = volume(512, volblocksize=volblocksize), volume(512, volblocksize=volblocksize)
    data = random_blocks(16 * MIB)
    for at in range(0, size, len(data)):
        write_direct(source, data, at)
    serve(target, source, destination)
    written = bytes_to_disk(pool.name)
    commands = qemu_copy(target.url(0), target.url(1))
    written = bytes_to_disk(pool.name) - written
    offload = offload_of(target, 1)
    assert (offload["cloned_bytes"], offload["copied_bytes"]) == (size, 0), offload
    report_line(f"512 MiB at {volblocksize} by {commands} commands: {written / size:.2%} of it written to the pool")
    assert written < size * most


def test_between_luns_and_inside_one(volume: VolumeOf, target: Target) -> None:
    source, destination = volume(32, filled=8), volume(32)
    serve(target, source, destination)

    async def act() -> None:
        async with Session(target.portal) as session:
            for lun in (0, 1):
                await session.execute(cdb.TEST_UNIT_READY, lun=lun)
            naas = [await naa_of(session), await naa_of(session, 1)]
            onwards, back = Segment(0, 0, 8 << 11, 0, 20 << 11), Segment(0, 0, 8 << 11, 20 << 11, 10 << 11)
            for lun, segment in ((1, Segment(0, 1, 8 << 11, 0, 4 << 11)), (0, onwards), (0, back)):
                parameters = parameter_list(naas, [segment])
                assert (await session.execute(extended_copy(parameters), data_out=parameters, lun=lun)).status == GOOD

    asyncio.run(asyncio.wait_for(act(), 300))
    assert same(source, destination, 8 * MIB, 0, 4 * MIB)
    assert same(source, source, 8 * MIB, 0, 20 * MIB) and same(source, source, 8 * MIB, 0, 10 * MIB)
    of_source = dvas(dataset_of(source))
    first = {offset: dva for offset, dva in of_source.items() if offset < 8 * MIB}
    assert len(first) == shared(first, dvas(dataset_of(destination)), 4 * MIB)
    assert len(first) == shared(first, of_source, 20 * MIB) == shared(first, of_source, 10 * MIB)


# A copy of 8 MiB: source offset, destination offset, cloned bytes, and the reason for the rest.
PLAINER = pytest.mark.long("9 s each: both are parts of the one in each run")
GEOMETRIES: dict[str, tuple[int, int, int, str | None]] = {
    "both ends equally unaligned": (4096, 4096, 8 * MIB - BLOCK, "unaligned"),
    "unaligned to each other": (0, 4096, 0, "unaligned"),
    "aligned": (BLOCK, 5 * BLOCK, 8 * MIB, None),
}


@pytest.mark.parametrize(
    "geometry",
    ["both ends equally unaligned", *(pytest.param(name, marks=PLAINER) for name in ("unaligned to each other", "aligned"))],
)
def test_unaligned(volume: VolumeOf, target: Target, geometry: str) -> None:
    """If the middles are aligned to each other, only the edges are copied; the neighbourhood does not change."""
    from_, to, cloned, reason = GEOMETRIES[geometry]
    source, destination = volume(16, filled=16), volume(16, filled=16)
    around = read_direct(destination, 16 * MIB)
    serve(target, source, destination)
    act_on(target, 2, lambda disks: disks.copy(8 * MIB, from_=from_, to=to))
    assert read_direct(destination, 16 * MIB) == around[:to] + read_direct(source, 8 * MIB, from_) + around[to + 8 * MIB :]
    offload = offload_of(target, 1)
    assert (offload["cloned_bytes"], offload["copied_bytes"]) == (cloned, 8 * MIB - cloned), offload
    reasons = {name: count for name, count in offload["fallback_bytes"].items() if count}
    assert reasons == ({reason: 8 * MIB - cloned} if reason else {}), offload
    blocks_shared = shared(dvas(dataset_of(source)), dvas(dataset_of(destination)), to - from_)
    assert blocks_shared * BLOCK >= cloned


def test_unshareable_blocks_are_copied_and_the_reason_counted(
    volume: VolumeOf, target: Target, pool: Pool, other_pool: Pool, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    encryption = {"encryption": "aes-256-gcm", "keyformat": "raw", "keylocation": f"file://{key}"}
    secret = volume(16, filled=8, **encryption)
    run("zfs", "snapshot", f"{dataset_of(secret)}@origin")
    twin = secret.with_name("twin")
    run("zfs", "clone", f"{dataset_of(secret)}@origin", dataset_of(twin))
    wait_for(twin.exists, "the clone's device is there")
    write_direct(secret, random_blocks(2 * MIB))
    run("zpool", "sync")
    elsewhere = other_pool.create_volume("elsewhere", 16)
    plain, coarse = volume(16, filled=8), volume(16, volblocksize="64K")
    volumes = [secret, twin, volume(16, **encryption), plain, coarse, elsewhere]
    serve(target, *volumes)
    # Source, destination, reason; the twin has its origin's master key.
    pairs = [
        (0, 1, None),
        (0, 2, "other_key"),
        (0, 3, "other_key"),
        (3, 4, "other_block_size"),
        (3, 5, "other_pool"),
        (5, 3, "other_pool"),
    ]

    async def act(disks: Luns) -> None:
        for source, destination, reason in pairs:
            before = offload_of(target, destination)
            await disks.copy(8 * MIB, source=source, destination=destination)
            after = offload_of(target, destination)
            assert same(volumes[source], volumes[destination], 8 * MIB), (source, destination)
            cloned, copied = (after[name] - before[name] for name in ("cloned_bytes", "copied_bytes"))
            assert (cloned, copied) == ((0, 8 * MIB) if reason else (8 * MIB, 0)), (source, destination, before, after)
            if reason:
                counted = {name: count - before["fallback_bytes"][name] for name, count in after["fallback_bytes"].items()}
                assert {name: count for name, count in counted.items() if count} == {reason: 8 * MIB}

    act_on(target, len(volumes), act)
    target.stop()
    destroy(dataset_of(twin))
    destroy(dataset_of(elsewhere))
    target.start()


def test_a_source_that_is_not_on_disk_yet(volume: VolumeOf, target: Target, zfs_parameter: SetParameter) -> None:
    """Unsynced data is copied, by either method, well before the transaction group ends."""
    source, destination = volume(32, filled=32), volume(32)
    serve(target, source, destination)
    zfs_parameter("zfs_txg_timeout", 600)
    data = random_blocks(4 * MIB)

    async def act(disks: Luns) -> None:
        await disks.write(0, data, 8 * MIB)
        async with asyncio.timeout(180):
            await disks.copy(32 * MIB)

    act_on(target, 2, act)
    assert same(source, destination, 32 * MIB)
    assert read_direct(destination, 4 * MIB, 8 * MIB) == data
    offload = offload_of(target, 1)
    assert offload["cloned_bytes"] + offload["copied_bytes"] == 32 * MIB, offload
    assert offload["cloned_bytes"] >= 28 * MIB, offload


def test_a_source_that_is_written_all_the_time(volume: VolumeOf, target: Target, seed: int) -> None:
    """Every block of the copy is complete, and the source had it between the start and the end of the copy."""
    size = 64
    source, destination = volume(size), volume(size)
    blocks = size * MIB // BLOCK
    write_direct(source, b"".join(stamped(number, 0) for number in range(blocks)))
    run("zpool", "sync")
    serve(target, source, destination)
    acknowledged = [0] * blocks
    sent = [0] * blocks

    async def write(session: Session, until: asyncio.Event, place: int) -> int:
        version = 0
        while not until.is_set():
            version += 1
            number = (version * 7919 * 4 + place) % blocks
            sent[number] += 1
            data = stamped(number, sent[number])
            assert (await session.execute(cdb.write(number * 32, 32), data_out=data)).status == GOOD
            acknowledged[number] = sent[number]
        return version

    async def act(disks: Luns) -> None:
        until = asyncio.Event()
        async with Session(target.portal, initiator="iqn.2026-11.example.zvaai:writer") as session:
            await session.execute(cdb.TEST_UNIT_READY)
            writers = [asyncio.create_task(write(session, until, place)) for place in range(4)]
            before = list(acknowledged)
            await disks.copy(size * MIB)
            after = list(sent)
            until.set()
            assert min(await asyncio.gather(*writers)) > 0
        held = read_direct(destination, size * MIB)
        for number in range(blocks):
            block = held[number * BLOCK : (number + 1) * BLOCK]
            version = STAMP.unpack_from(block)[1]
            assert block == stamped(number, version), f"block {number} is not whole"
            assert before[number] <= version <= after[number], (
                f"block {number}: version {version} of {before[number]} to {after[number]}"
            )

    act_on(target, 2, act)
    run("zpool", "sync")


def stamped(number: int, version: int) -> bytes:
    """A block filled with its number and version."""
    return STAMP.pack(number, version) * (BLOCK // STAMP.size)


@pytest.mark.long("8 s; volume/test_zvol_copy.py copies without the module in each run")
def test_without_the_module_it_is_copied_and_counted(volume: VolumeOf, target: Target, device: ZvolClone) -> None:
    source, destination = volume(16, filled=16), volume(16)
    target.stop()
    device.close()
    assert kernel_module.remove("zvol_clone") == 0, "zvol_clone is in use"
    try:
        target.start()
        serve(target, source, destination)
        act_on(target, 2, lambda disks: disks.copy(16 * MIB))
        assert same(source, destination, 16 * MIB)
        offload = offload_of(target, 1)
        assert offload["fallback_bytes"]["unsupported"] == offload["copied_bytes"] == 16 * MIB, offload
    finally:
        kernel_module.load()
        device.fd = os.open("/dev/null", os.O_RDONLY)  # the fixture closes it

    def cloned() -> bool:
        act_on(target, 2, lambda disks: disks.copy(8 * MIB))
        return bool(offload_of(target, 1)["cloned_bytes"] == 8 * MIB)

    wait_for(cloned, "the module is used that is loaded now, without a restart")
