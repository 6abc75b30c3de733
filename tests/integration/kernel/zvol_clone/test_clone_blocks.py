# SPDX-License-Identifier: Apache-2.0
"""Clones share their blocks, wherever they are, and stay independent of each other."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import (
    MIB,
    dataset_of,
    destroy,
    dvas,
    opened,
    pool_property,
    random_blocks,
    read_direct,
    shared,
    write_direct,
)
from integration.kernel.zvol_clone.zvol_clone_ioctl import Outcome, Stopped, ZvolClone
from support.programs import run, wait_for
from support.zfs import Pool

VolumeOf = Callable[..., Path]
OTHER_SIZE = pytest.mark.long("15 s each: 16K is the usual size, 64K another one")


def clone(device: ZvolClone, source: Path, destination: Path, length: int, *, from_: int = 0, to: int = 0) -> Outcome:
    """Clones between two paths and flushes the destination."""
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
        outcome = device.clone(source_fd, other, length, source_offset=from_, destination_offset=to)
        os.fsync(other)
        return outcome


def complete(outcome: Outcome, length: int) -> bool:
    """Whether all was cloned."""
    return (outcome.error, outcome.stopped, outcome.bytes_done) == (0, Stopped.COMPLETE, length)


@pytest.mark.parametrize("mib", [32, pytest.param(256, marks=pytest.mark.long("55 s: the same with eight times the data"))])
def test_all_blocks_are_shared_until_either_side_is_written(
    device: ZvolClone, volume: VolumeOf, pool: Pool, report_line: Callable[[str], None], mib: int
) -> None:
    length = mib * MIB
    blocks = length // 16384
    source, destination = volume(mib, filled=mib, volblocksize="16K"), volume(mib, volblocksize="16K")
    used, allocated = pool_property(pool.name, "bcloneused"), pool_property(pool.name, "allocated")
    outcome = clone(device, source, destination, length)
    assert complete(outcome, length), outcome
    report_line(f"{mib} MiB at 16K: {outcome.seconds * 1000:.1f} ms, {length / outcome.seconds / (1 << 30):.2f} GiB/s")

    blocks_of_source, other = dvas(dataset_of(source)), dvas(dataset_of(destination))
    assert len(blocks_of_source) == blocks and shared(blocks_of_source, other) == blocks
    assert pool_property(pool.name, "bcloneused") - used == length
    assert pool_property(pool.name, "allocated") - allocated < 8 * MIB
    # One MiB before and one after the written range do not change, on either side.
    mine, theirs = length // 8, length // 2
    original = read_direct(source, length)
    assert read_direct(destination, length) == original

    new = random_blocks(8 * MIB)
    write_direct(destination, new, theirs)
    write_direct(source, new, mine)
    blocks_of_source, other = dvas(dataset_of(source)), dvas(dataset_of(destination))
    assert shared(blocks_of_source, other) == blocks - 2 * 512
    for disk, start in ((destination, theirs), (source, mine)):
        around = read_direct(disk, 10 * MIB, start - MIB)
        assert around == original[start - MIB : start] + new + original[start + 8 * MIB : start + 9 * MIB]
    assert read_direct(source, 8 * MIB, theirs) == original[theirs : theirs + 8 * MIB]
    assert read_direct(destination, 8 * MIB, mine) == original[mine : mine + 8 * MIB]
    pool.scrub()


@pytest.mark.parametrize("volblocksize", [65536, *(pytest.param(size, marks=OTHER_SIZE) for size in (512, 1 << 20))])
def test_every_block_size(device: ZvolClone, volume: VolumeOf, volblocksize: int) -> None:
    source = volume(16, filled=9, volblocksize=str(volblocksize))
    destination = volume(16, volblocksize=str(volblocksize))
    blocks = 7 * MIB // volblocksize - (1 if volblocksize < MIB else 0)
    length, to = blocks * volblocksize, 3 * MIB
    assert complete(outcome := clone(device, source, destination, length, from_=MIB, to=to), length), outcome
    assert shared(dvas(dataset_of(source)), dvas(dataset_of(destination)), to - MIB) == blocks
    assert read_direct(destination, 16 * MIB) == b"\0" * to + read_direct(source, length, MIB) + b"\0" * (16 * MIB - to - length)


def test_holes_replace_data(device: ZvolClone, volume: VolumeOf) -> None:
    source, destination = volume(16), volume(16, filled=16)
    write_direct(source, random_blocks(4 * MIB), 6 * MIB)
    run("zpool", "sync")
    assert complete(clone(device, source, destination, 16 * MIB), 16 * MIB)
    assert read_direct(destination, 16 * MIB) == read_direct(source, 16 * MIB)
    assert dvas(dataset_of(destination)) == dvas(dataset_of(source))


def test_within_one_volume(device: ZvolClone, volume: VolumeOf) -> None:
    disk = volume(32, filled=8)
    assert complete(clone(device, disk, disk, 8 * MIB, to=20 * MIB), 8 * MIB)
    # Adjacent ranges do not overlap.
    assert complete(clone(device, disk, disk, 8 * MIB, to=8 * MIB), 8 * MIB)
    data = read_direct(disk, 32 * MIB)
    assert data[:8_388_608] == data[8 * MIB : 16 * MIB] == data[20 * MIB : 28 * MIB]
    blocks = dvas(dataset_of(disk))
    first = {offset: dva for offset, dva in blocks.items() if offset < 8 * MIB}
    assert len(first) == shared(first, blocks, 8 * MIB) == shared(first, blocks, 20 * MIB)


def test_a_fresh_clone_is_cloned_on(device: ZvolClone, volume: VolumeOf) -> None:
    first, second, third = volume(8, filled=8), volume(8), volume(8)
    assert complete(clone(device, first, second, 8 * MIB), 8 * MIB)
    assert complete(clone(device, second, third, 8 * MIB), 8 * MIB)
    assert dvas(dataset_of(third)) == dvas(dataset_of(first))


def test_from_a_snapshot(device: ZvolClone, volume: VolumeOf) -> None:
    disk, destination = volume(8, filled=8), volume(8)
    before = read_direct(disk, 8 * MIB)
    run("zfs", "set", "snapdev=visible", dataset_of(disk))
    run("zfs", "snapshot", f"{dataset_of(disk)}@then")
    snapshot = disk.with_name(f"{disk.name}@then")
    wait_for(snapshot.exists, "the snapshot's device is there")
    write_direct(disk, random_blocks(8 * MIB))
    assert complete(clone(device, snapshot, destination, 8 * MIB), 8 * MIB)
    assert read_direct(destination, 8 * MIB) == before


def test_sync_always_and_sync_disabled(device: ZvolClone, volume: VolumeOf) -> None:
    source = volume(8, filled=8)
    for sync in ("always", "disabled"):
        destination = volume(8, sync=sync)
        assert complete(clone(device, source, destination, 8 * MIB), 8 * MIB)
        assert read_direct(destination, 8 * MIB) == read_direct(source, 8 * MIB)


def test_encrypted(device: ZvolClone, volume: VolumeOf, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    encryption = {"encryption": "aes-256-gcm", "keyformat": "raw", "keylocation": f"file://{key}"}
    secret, plain = volume(16, filled=8, **encryption), volume(16, filled=8)
    assert complete(clone(device, secret, secret, 8 * MIB, to=8 * MIB), 8 * MIB)
    assert read_direct(secret, 8 * MIB, 8 * MIB) == read_direct(secret, 8 * MIB)

    # A zfs clone has its origin's master key; every other dataset has its own, even below one encryption root.
    run("zfs", "snapshot", f"{dataset_of(secret)}@origin")
    twin = secret.with_name("twin")
    run("zfs", "clone", f"{dataset_of(secret)}@origin", dataset_of(twin))
    wait_for(twin.exists, "the clone's device is there")
    write_direct(secret, random_blocks(MIB))
    run("zpool", "sync")
    assert complete(clone(device, secret, twin, 8 * MIB), 8 * MIB)
    assert read_direct(twin, 8 * MIB) == read_direct(secret, 8 * MIB)
    destroy(dataset_of(twin))

    for first, other in ((secret, volume(16, **encryption)), (secret, plain), (plain, secret)):
        outcome = clone(device, first, other, 8 * MIB)
        assert (outcome.error, outcome.stopped, outcome.bytes_done) == (errno.EXDEV, Stopped.OTHER_KEY, 0)
