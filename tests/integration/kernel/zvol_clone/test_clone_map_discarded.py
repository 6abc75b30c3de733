# SPDX-License-Identifier: Apache-2.0
"""Clones over blocks whose discard is not synced, in an earlier transaction group: never reported as holes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
from integration.kernel.freezing_pool import FreezingPool
from integration.kernel.zvol_clone.blocks import MIB, opened, random_blocks, read_direct, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import Kind, Stopped, ZvolClone
from support.programs import run, wait_for
from support.volume_tool import discard

SetParameter = Callable[[str, int], None]
LENGTH = 4 * MIB
BLOCK = 16384
INDIRECT = 1024 * 4096
"""Data of an indirect block of a zvol with 4 KiB blocks."""
INDIRECTS = 64
RARE = pytest.mark.long("15 s: a rare kind of block")


def discard_into_waiting_group(pool: FreezingPool, scratch: int, fd: int) -> None:
    """Discards LENGTH bytes at the start of `fd`, in a transaction group that is closed and waits for a group that cannot sync.

    ZFS closes a group itself after enough freed indirect blocks (zfs_per_txg_dirty_frees_percent).
    """
    before = max(pool.transaction_groups())
    discard(fd, 0, LENGTH)
    for number in range(INDIRECTS):
        discard(scratch, number * INDIRECT, INDIRECT)
        if pool.transaction_groups()[before] != "O":
            break
    wait_for(lambda: pool.transaction_groups()[before] == "W", f"group {before} waits for its sync")
    states = pool.transaction_groups()
    assert states[before + 1] == "O" and "S" in states.values(), states


@pytest.mark.parametrize("content", ["blocks on disk", pytest.param("blocks in their pointers", marks=RARE)])
def test_a_clone_in_the_next_transaction_group(
    device: ZvolClone, freezing_pool: FreezingPool, zfs_parameter: SetParameter, content: str
) -> None:
    pool = freezing_pool
    zfs_parameter("zfs_txg_timeout", 30)
    zfs_parameter("zfs_per_txg_dirty_frees_percent", 1)
    source, destination = (pool.create_volume(name, 16) for name in ("source", "destination"))
    scratch = pool.create_volume("scratch", INDIRECTS * INDIRECT // MIB, volblocksize="4K")
    data = random_blocks(LENGTH) if content == "blocks on disk" else (b"\x5a" * BLOCK) * (LENGTH // BLOCK)
    direct = os.O_RDWR | os.O_DIRECT
    with opened(source, direct) as source_fd, opened(destination, direct) as other, opened(scratch, direct) as third:
        write_direct(source, data)
        write_direct(destination, random_blocks(LENGTH))
        for number in range(INDIRECTS):
            write_direct(third, random_blocks(4096), number * INDIRECT)
        run("zpool", "sync", pool.name)
        assert read_direct(source, LENGTH) == data
        sync = threading.Thread(target=run, args=("zpool", "sync", pool.name))
        with pool.frozen():
            write_direct(third, random_blocks(4096), 4096)
            sync.start()
            wait_for(lambda: "S" in pool.transaction_groups().values(), "a transaction group is being synced")
            discard_into_waiting_group(pool, third, other)
            assert device.map(other, 0, LENGTH).extents == [(Kind.HOLE, LENGTH)]

            assert device.clone(source_fd, other, LENGTH).stopped == Stopped.COMPLETE
            assert "W" in pool.transaction_groups().values(), "the discard is still not on disk"
            assert device.map(other, 0, LENGTH).extents == [(Kind.UNSYNCED, LENGTH)]
            assert device.map(other, BLOCK, BLOCK).extents == [(Kind.UNSYNCED, BLOCK)]
            assert read_direct(destination, LENGTH) == data
            # The range is not cloned further either: a copy reads and writes it.
            assert device.clone(other, source_fd, LENGTH, destination_offset=LENGTH).stopped == Stopped.DIRTY
        sync.join()
        run("zpool", "sync", pool.name)
        assert device.map(other, 0, LENGTH).extents == [(Kind.DATA, LENGTH)]
        assert read_direct(destination, LENGTH) == data
    for name in ("source", "destination", "scratch"):
        pool.destroy_volume(name)
    pool.scrub()
