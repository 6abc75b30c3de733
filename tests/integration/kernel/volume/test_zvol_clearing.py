# SPDX-License-Identifier: Apache-2.0
"""Clearing zvols: zeroes on read, space freed in the pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.kernel.conftest import VolumeOf
from integration.kernel.zvol_clone.blocks import MIB, dataset_of, random_blocks, read_direct, write_direct
from support.programs import run
from support.volume_tool import clear

OTHER_SIZE = pytest.mark.long("7 s each: 16K is the usual size of blocks")


def used(device: Path) -> int:
    """Bytes that the zvol uses."""
    dataset = dataset_of(device)
    run("zpool", "sync", dataset.partition("/")[0])
    return int(run("zfs", "get", "-Hpo", "value", "used", dataset))


@pytest.mark.parametrize("block", [16384, *(pytest.param(size, marks=OTHER_SIZE) for size in (4096, 131072))])
def test_whole_blocks_are_freed_and_edges_are_zero(volume: VolumeOf, block: int) -> None:
    device = volume(32, volblocksize=str(block))
    content = bytearray(random_blocks(32 * MIB))
    write_direct(device, bytes(content))
    before = used(device)
    for start, length in (
        (0, 4 * MIB),
        (5 * MIB + 512, 3 * MIB),
        (10 * MIB + 1024, 512),
        (31 * MIB, MIB),
        (12 * MIB + 512, block),
    ):
        clear(device, start, length)
        content[start : start + length] = bytes(length)
    assert read_direct(device, len(content)) == content
    freed = before - used(device)
    assert freed >= 8 * MIB - 8 * block, f"{freed} bytes came back"
    clear(device, 0, 32 * MIB)
    assert not any(read_direct(device, len(content)))
    assert used(device) < MIB


def test_zeroes_over_nothing_take_no_space(volume: VolumeOf) -> None:
    """Without compression written zeroes take space; the edges of a cleared range must not."""
    device = volume(16, volblocksize="16384", compression="off")
    empty = used(device)
    clear(device, 512, 1024)
    clear(device, MIB - 512, 4 * MIB + 1024)
    assert used(device) - empty < 16384
