# SPDX-License-Identifier: Apache-2.0
"""Discarded blocks whose discard is in no finished transaction group: never cloned with their old content.

OpenZFS up to 2.3.9 does that (openzfs#16012), and frees a block twice that is cloned while it is freed (openzfs#18853).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import MIB, opened, read_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import Stopped, ZvolClone
from support.programs import run
from support.volume_tool import discard
from support.zfs import Pool

VolumeOf = Callable[..., Path]
BLOCK = 16384


@pytest.fixture(autouse=True)
def long_transaction_groups(zfs_parameter: Callable[[str, int], None]) -> None:
    """A discard is not synced for 30 s."""
    zfs_parameter("zfs_txg_timeout", 30)


def test_a_discarded_source_is_not_cloned_before_it_is_on_disk(device: ZvolClone, volume: VolumeOf, pool: Pool) -> None:
    source, destination = volume(16, filled=16), volume(16, filled=16)
    hole, length = 5 * MIB + 3 * BLOCK, 40 * BLOCK
    with opened(source, os.O_RDWR) as source_fd, opened(destination, os.O_RDWR) as other:
        discard(source_fd, hole, length)
        assert not any(read_direct(source, length, hole))
        outcome = device.clone(source_fd, other, 16 * MIB)
        assert (outcome.error, outcome.stopped) == (errno.EAGAIN, Stopped.DIRTY)
        assert (outcome.bytes_done, outcome.dirty_length) == (hole, length)
        run("zpool", "sync", pool.name)
        assert device.clone(source_fd, other, 16 * MIB).stopped == Stopped.COMPLETE
    assert read_direct(destination, 16 * MIB) == read_direct(source, 16 * MIB)
    pool.scrub()


def test_a_clone_over_a_discarded_range_is_read_at_once(device: ZvolClone, volume: VolumeOf, pool: Pool) -> None:
    """Discard and clone in one transaction group, and the discard in the previous one."""
    source, destination = volume(16, filled=16), volume(16, filled=16)
    cloned = 0
    with opened(source, os.O_RDWR) as source_fd, opened(destination, os.O_RDWR) as other:
        for turn in range(20):
            discard(other, 0, 16 * MIB)
            if turn % 2:
                run("zpool", "sync", pool.name)
            outcome = device.clone(source_fd, other, 16 * MIB)
            assert outcome.stopped in (Stopped.COMPLETE, Stopped.DIRTY)
            done = outcome.bytes_done
            if done:
                assert read_direct(destination, done) == read_direct(source, done)
            cloned += done
    assert cloned
