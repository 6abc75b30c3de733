# SPDX-License-Identifier: Apache-2.0
"""Buffered readers and writers of either block device see the current data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from integration.kernel.zvol_clone.blocks import MIB, opened, random_blocks, read_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import Stopped, ZvolClone
from support.programs import run

VolumeOf = Callable[..., Path]


def test_cached_old_data_is_dropped(device: ZvolClone, volume: VolumeOf) -> None:
    source, destination = volume(8, filled=8), volume(8, filled=8)
    expected = read_direct(source, 8 * MIB)
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
        assert os.pread(other, 8 * MIB, 0) != expected
        assert device.clone(source_fd, other, 8 * MIB).stopped == Stopped.COMPLETE
        assert os.pread(other, 8 * MIB, 0) == expected


def test_dirty_pages_of_the_destination_never_cover_the_clone(device: ZvolClone, volume: VolumeOf) -> None:
    source, destination = volume(8, filled=8), volume(8)
    expected = read_direct(source, 8 * MIB)
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
        os.pwrite(other, b"old" * MIB, 0)
        assert device.clone(source_fd, other, 8 * MIB).stopped == Stopped.COMPLETE
        assert os.pread(other, 8 * MIB, 0) == expected
        os.fsync(other)
    assert read_direct(destination, 8 * MIB) == expected


def test_dirty_pages_next_to_the_range_survive(device: ZvolClone, volume: VolumeOf) -> None:
    """With a volblocksize below the page size the edges of a range share pages with their neighbours."""
    source, destination = volume(1, filled=1, volblocksize="512"), volume(1, volblocksize="512")
    cloned = read_direct(source, 4096)[512:1024]
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR) as other:
        neighbours = random_blocks(4096)
        os.pwrite(other, neighbours, 0)
        outcome = device.clone(source_fd, other, 512, source_offset=512, destination_offset=1536)
        assert outcome.stopped == Stopped.COMPLETE
        expected = neighbours[:1536] + cloned + neighbours[2048:]
        assert os.pread(other, 4096, 0) == expected
        os.fsync(other)
    assert read_direct(destination, 4096) == expected


def test_dirty_pages_of_the_source_are_cloned_too(
    device: ZvolClone, volume: VolumeOf, zfs_parameter: Callable[[str, int], None]
) -> None:
    zfs_parameter("zfs_txg_timeout", 30)  # no group ends between writing the pages and checking the blocks
    source, destination = volume(8, filled=8), volume(8)
    with opened(source, os.O_RDWR) as source_fd, opened(destination, os.O_RDWR) as other:
        os.pwrite(source_fd, b"new" * 10000, MIB)
        expected = os.pread(source_fd, 8 * MIB, 0)
        # The call writes the pages to zfs, where they are dirty until the sync: it reports that and stops.
        outcome = device.clone(source_fd, other, 8 * MIB)
        assert (outcome.stopped, outcome.bytes_done) == (Stopped.DIRTY, MIB)
        run("zpool", "sync")
        assert device.clone(source_fd, other, 8 * MIB).stopped == Stopped.COMPLETE
        assert os.pread(other, 8 * MIB, 0) == expected
    assert read_direct(destination, 8 * MIB) == expected
