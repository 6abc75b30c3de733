# SPDX-License-Identifier: Apache-2.0
"""`lun.space`: allocated and shared bytes of LUNs, compared with the blocks that zdb finds."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from integration.kernel.conftest import VolumeOf
from integration.kernel.freezing_pool import FreezingPool
from integration.kernel.offload.disks import luns
from integration.kernel.zvol_clone.blocks import dvas, opened, random_blocks, shared, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.programs import run, wait_for
from support.short_pool import space
from support.target import IQN, Target
from support.zfs import Pool

MIB = 1 << 20
BLOCK = 16384


def counted(target: Target, uuid: str) -> dict[str, Any]:
    """The space of a LUN, counted after this call began. An answer after 0.9 s has what was known until then."""
    began = int(time.time())
    known: dict[str, Any] = {}

    def is_counted() -> bool:
        known.update(target.call("lun.space", {"uuid": uuid}))
        return bool(known["unique_exact"]) and known["as_of"] >= began

    wait_for(is_counted, "the LUN is counted")
    return known


def test_shared_bytes_of_luns_are_those_of_zdb(pool: Pool, volume: VolumeOf, target: Target, device: ZvolClone) -> None:
    """After a copy, an overwrite and UNMAP. A LUN that becomes thick is counted again, and shares nothing after UNMAP."""
    volumes = [volume(32, volblocksize="16K", compression="off") for _ in range(2)]
    uuids = [target.add_lun(number, path) for number, path in enumerate(volumes)]

    def check() -> list[dict[str, Any]]:
        spaces = [counted(target, uuid) for uuid in uuids]
        # zdb prints unmapped blocks as holes.
        blocks = [{at: dva for at, dva in dvas(f"{pool.name}/{path.name}").items() if ":" in dva} for path in volumes]
        common = shared(blocks[0], blocks[1])
        for known, its in zip(spaces, blocks, strict=True):
            assert known["allocated_bytes"] == len(its) * BLOCK
            assert known["shared_bytes"] == common * BLOCK
            assert known["unique_bytes"] == known["allocated_bytes"] - known["shared_bytes"]
        return spaces

    async def scenario() -> None:
        async with luns(target, 2) as disks:
            await disks.write(0, os.urandom(16 * MIB), 0)
            await disks.write(1, os.urandom(MIB), 24 * MIB)
            assert (await asyncio.to_thread(check))[0]["shared_bytes"] == 0
            await disks.copy(16 * MIB, source=0, destination=1)
            assert (await asyncio.to_thread(check))[1]["shared_bytes"] == 16 * MIB
            await disks.write(0, os.urandom(4 * MIB), 2 * MIB)
            assert (await asyncio.to_thread(check))[1]["shared_bytes"] == 12 * MIB
            await disks.unmap(1, 0, 16 * MIB)
            target.call("luns.change", {"target": IQN, "number": 1, "provisioning": "thick"})
            assert (await asyncio.to_thread(check))[1]["shared_bytes"] == 0

    asyncio.run(scenario())


def test_a_long_count_is_answered_before_its_end(target: Target, freezing_pool: FreezingPool, device: ZvolClone) -> None:
    """With an upper bound; for a clone it includes all of its origin's data. The count continues, and its result is exact."""
    pool, data = freezing_pool, 8 * MIB
    write_direct(pool.create_volume("template", 32), random_blocks(data))
    run("zpool", "sync", pool.name)
    run("zfs", "snapshot", f"{pool.name}/template@before")
    run("zfs", "clone", f"{pool.name}/template@before", f"{pool.name}/clone")
    path = Path(f"/dev/zvol/{pool.name}/clone")
    wait_for(path.exists, "the clone's device is there")
    uuid = target.add_lun(0, path)
    wait_for(lambda: bool(space(target)), "its space is known")

    def answer() -> dict[str, Any]:
        return dict(target.call("lun.space", {"uuid": uuid}))

    with opened(pool.create_volume("other", 16), os.O_RDWR | os.O_DIRECT) as other, pool.frozen():
        write_direct(other, random_blocks(MIB))
        for _ in range(2):
            began = time.monotonic()
            reading = answer()
            assert time.monotonic() - began < 30
            assert not reading["unique_exact"] and reading["unique_bytes"] >= data, reading
    wait_for(lambda: answer()["unique_exact"], "it is counted")
    reading = answer()
    assert (reading["allocated_bytes"], reading["unique_bytes"], reading["snapshot_bytes"]) == (data, data, data)
    target.call("luns.delete", {"target": IQN, "number": 0})
    for name in ("other", "clone", "template"):
        pool.destroy_volume(name)
