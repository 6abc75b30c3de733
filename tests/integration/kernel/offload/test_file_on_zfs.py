# SPDX-License-Identifier: Apache-2.0
"""Files on ZFS as LUNs: requests to the file system while others wait never wait for a transaction group."""

from __future__ import annotations

import asyncio
from pathlib import Path

from integration.kernel.freezing_pool import FreezingPool
from integration.kernel.offload.disks import luns, offload_of
from integration.kernel.zvol_clone.blocks import MIB, random_blocks
from support.programs import run
from support.target import Target

SIZE = 16 * MIB


def test_a_copy_of_new_data(freezing_pool: FreezingPool, target: Target, tmp_path: Path) -> None:
    """Nothing is synced during the copy: a query for the source's holes (SEEK_DATA) would wait for that."""
    folder = tmp_path / "zfs"
    run("zfs", "create", "-o", f"mountpoint={folder}", "-o", "sync=disabled", f"{freezing_pool.name}/files")
    source, destination = folder / "source", tmp_path / "destination"
    expected = bytearray(random_blocks(SIZE // 2) + bytes(SIZE // 2))
    source.write_bytes(expected)
    destination.write_bytes(random_blocks(SIZE))
    run("zpool", "sync", freezing_pool.name)
    target.add_lun(0, source)
    target.add_lun(1, destination)

    async def act() -> None:
        async with luns(target) as disks:
            with freezing_pool.frozen():
                data = random_blocks(MIB)
                await disks.write(0, data, SIZE // 2)
                expected[SIZE // 2 : SIZE // 2 + MIB] = data
                async with asyncio.timeout(120):
                    await disks.copy(SIZE)

    asyncio.run(asyncio.wait_for(act(), 180))
    assert destination.read_bytes() == expected
    offload = offload_of(target, 1)
    # Zeroes that were read became holes all the same.
    assert offload["zeroed_bytes"] >= SIZE // 2 - 2 * MIB, offload
    target.stop()
    run("zfs", "destroy", "-r", f"{freezing_pool.name}/files")
