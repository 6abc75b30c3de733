# SPDX-License-Identifier: Apache-2.0
"""The module's map of a zvol: blocks that take space."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import MIB, dataset_of, dvas, opened, random_blocks, read_direct, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import MAP_BLOCKS, Kind, Stopped, ZvolClone
from support.programs import run
from support.volume_tool import discard
from support.zfs import Pool

VolumeOf = Callable[..., Path]
BLOCK = 16384


@pytest.fixture(autouse=True)
def long_transaction_groups(zfs_parameter: Callable[[str, int], None]) -> None:
    """Writes and discards are not synced for 30 s."""
    zfs_parameter("zfs_txg_timeout", 30)


def test_each_kind_of_block(device: ZvolClone, volume: VolumeOf, pool: Pool) -> None:
    path = volume(64)
    with opened(path, os.O_RDWR | os.O_DIRECT) as fd:
        assert device.map(fd, 0, 64 * MIB).extents == [(Kind.HOLE, 64 * MIB)]
        write_direct(fd, random_blocks(2 * MIB), 3 * MIB)
        expected = [(Kind.HOLE, 3 * MIB), (Kind.UNSYNCED, 2 * MIB), (Kind.HOLE, 59 * MIB)]
        assert device.map(fd, 0, 64 * MIB).extents == expected
        run("zpool", "sync", pool.name)
        expected[1] = (Kind.DATA, 2 * MIB)
        assert device.map(fd, 0, 64 * MIB).extents == expected
        discard(fd, 4 * MIB, MIB)
        expected = [(Kind.HOLE, 3 * MIB), (Kind.DATA, MIB), (Kind.HOLE, 60 * MIB)]
        assert device.map(fd, 0, 64 * MIB).extents == expected
        write_direct(fd, random_blocks(BLOCK), 4 * MIB + BLOCK)
        extents = device.map(fd, 4 * MIB, MIB).extents
        assert extents == [(Kind.HOLE, BLOCK), (Kind.UNSYNCED, BLOCK), (Kind.HOLE, MIB - 2 * BLOCK)]
        run("zpool", "sync", pool.name)
        assert device.map(fd, 4 * MIB, 2 * BLOCK).extents == [(Kind.HOLE, BLOCK), (Kind.DATA, BLOCK)]


@pytest.mark.parametrize("compression", ["off", "lz4"])
def test_it_agrees_with_zdb(device: ZvolClone, volume: VolumeOf, compression: str) -> None:
    """Written zeroes take space without compression, and none with it."""
    path = volume(32, compression=compression)
    write_direct(path, bytes(4 * MIB), 0)
    write_direct(path, random_blocks(MIB), 8 * MIB)
    write_direct(path, ((b"\0" * 500 + b"text of little size") * 20000)[: 8 * MIB], 16 * MIB)
    # zdb prints holes with the transaction group that made them, and without an address.
    allocated = {offset for offset, dva in dvas(dataset_of(path)).items() if ":" in dva or dva == "EMBEDDED"}
    with opened(path, os.O_RDONLY) as fd:
        at, offsets = 0, set()
        for kind, length in device.map(fd, 0, 32 * MIB).extents:
            if kind == Kind.DATA:
                offsets |= set(range(at, at + length, BLOCK))
            at += length
    assert offsets == allocated
    assert (0 in offsets) == (compression == "off")


def test_its_bounds(device: ZvolClone, volume: VolumeOf) -> None:
    path = volume(1024)
    with opened(path, os.O_RDWR | os.O_DIRECT) as fd:
        for number in range(20):
            write_direct(fd, random_blocks(BLOCK), 2 * number * BLOCK)
        few = device.map(fd, 0, 1024 * MIB, most=5)
        assert [kind for kind, _ in few.extents] == [Kind.UNSYNCED, Kind.HOLE] * 2 + [Kind.UNSYNCED]
        assert sum(length for _, length in device.map(fd, 0, 1024 * MIB).extents) == MAP_BLOCKS * BLOCK
        end = device.map(fd, 1024 * MIB - BLOCK, BLOCK)
        assert end.extents == [(Kind.HOLE, BLOCK)]
        for offset, length, stopped in (
            (0, 0, Stopped.OUT_OF_RANGE),
            (1024 * MIB, BLOCK, Stopped.OUT_OF_RANGE),
            (2**64 - BLOCK, 2 * BLOCK, Stopped.OUT_OF_RANGE),
            (512, BLOCK, Stopped.UNALIGNED),
            (0, BLOCK + 512, Stopped.UNALIGNED),
        ):
            refused = device.map(fd, offset, length)
            assert (refused.error, refused.stopped, refused.extents) == (errno.EINVAL, stopped, [])
        assert device.map(fd, 0, BLOCK, version=1).error == errno.ENOTTY
        assert device.map(fd, 0, BLOCK, flags=1).stopped == Stopped.BAD_REQUEST
        assert device.map(fd, 0, BLOCK, most=0).stopped == Stopped.BAD_REQUEST
        assert device.map(device.fd, 0, BLOCK).stopped == Stopped.NOT_BLOCK_DEVICE


def test_the_map_of_a_clone_has_its_holes(device: ZvolClone, volume: VolumeOf, pool: Pool) -> None:
    source, destination = volume(32), volume(32, filled=32)
    write_direct(source, random_blocks(5 * MIB), 7 * MIB)
    run("zpool", "sync", pool.name)
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
        outcome = device.clone(source_fd, other, 32 * MIB)
        assert (outcome.stopped, outcome.hole_bytes) == (Stopped.COMPLETE, 27 * MIB)


def test_a_discarded_clone_is_a_hole_after_the_sync(device: ZvolClone, volume: VolumeOf, pool: Pool) -> None:
    """Until the sync the module cannot distinguish it from a clone over a discarded range."""
    source, destination = volume(16, filled=16), volume(16)
    with opened(source, os.O_RDWR) as source_fd, opened(destination, os.O_RDWR) as other:
        assert device.clone(source_fd, other, 4 * MIB).stopped == Stopped.COMPLETE
        run("zpool", "sync", pool.name)
        discard(other, 0, 4 * MIB)
        assert device.map(other, 0, 4 * MIB).extents == [(Kind.UNSYNCED, 4 * MIB)]
        assert not any(read_direct(destination, 4 * MIB))
        run("zpool", "sync", pool.name)
        assert device.map(other, 0, 4 * MIB).extents == [(Kind.HOLE, 4 * MIB)]
