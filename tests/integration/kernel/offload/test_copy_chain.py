# SPDX-License-Identifier: Apache-2.0
"""A chain of copies over three LUNs and back to the first: all share the same blocks, and stay independent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.offload.disks import Luns, luns, offload_of, serve
from integration.kernel.zvol_clone.blocks import MIB, dataset_of, dvas, random_blocks, read_direct, shared
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.programs import run
from support.raw_initiator import GOOD
from support.target import Target
from support.third_party_copy import Segment, extended_copy, parameter_list
from support.zfs import Pool

VolumeOf = Callable[..., Path]
SIZE = 24 * MIB
LENGTH = 8 * MIB
BLOCK = 16384
# Source, offset, destination, offset, in MiB.
CHAIN = [(0, 0, 1, 4), (1, 4, 2, 12), (2, 12, 0, 16)]
# Locations of the first data at the end.
PLACES = [(0, 0), (1, 4), (2, 12), (0, 16)]


@pytest.fixture(autouse=True)
def _module(device: ZvolClone) -> Iterator[None]:
    """zvol_clone is loaded."""
    yield


async def copy_chain(disks: Luns, pool: Pool, at_once: bool) -> None:
    """One command for all links, or one per link with a sync in between."""
    segments = [
        Segment(source, destination, LENGTH // 512, from_ * MIB // 512, to * MIB // 512)
        for source, from_, destination, to in CHAIN
    ]
    for part in [segments] if at_once else [[segment] for segment in segments]:
        parameters = parameter_list(disks.naas, part)
        answer = await disks.session.execute(extended_copy(parameters), data_out=parameters)
        assert answer.status == GOOD, answer
        run("zpool", "sync", pool.name)


@pytest.mark.long("50 s; test_extended_copy.py changes either side of a copy, and copies inside one LUN, in each run")
@pytest.mark.parametrize("at_once", [False, True], ids=["a command for each link", "one command"])
def test_a_chain_back_to_its_beginning(volume: VolumeOf, target: Target, pool: Pool, at_once: bool) -> None:
    volumes = [volume(SIZE // MIB, filled=SIZE // MIB) for _ in range(3)]
    serve(target, *volumes)
    model = [bytearray(read_direct(disk, SIZE)) for disk in volumes]
    for source, from_, destination, to in CHAIN:
        model[destination][to * MIB : to * MIB + LENGTH] = model[source][from_ * MIB : from_ * MIB + LENGTH]

    def check(after: str) -> None:
        for number, (disk, expected) in enumerate(zip(volumes, model, strict=True)):
            assert read_direct(disk, SIZE) == expected, f"LUN {number} after {after}"

    def all_shared() -> int:
        """Number of blocks of the first data that are identical in all its locations."""
        lie = [dvas(dataset_of(disk)) for disk in volumes]
        first = {offset: dva for offset, dva in lie[0].items() if offset < LENGTH}
        for lun, at in PLACES[1:]:
            first = {offset: dva for offset, dva in first.items() if lie[lun].get(offset + at * MIB) == dva}
        return len(first)

    async def act() -> None:
        async with luns(target, 3) as disks:
            await copy_chain(disks, pool, at_once)
            check("the copies")
            blocks = LENGTH // BLOCK
            if at_once:  # the second link's source is not synced: only the first one must share
                lie = [dvas(dataset_of(disk)) for disk in volumes[:2]]
                assert shared({at: dva for at, dva in lie[0].items() if at < LENGTH}, lie[1], 4 * MIB) == blocks
            else:
                assert all_shared() == blocks
                assert offload_of(target, 0)["cloned_bytes"] == 3 * LENGTH
            # In each, one MiB is overwritten and another one discarded.
            for turn, (lun, at) in enumerate(PLACES):
                data = random_blocks(MIB)
                place = (at + turn) * MIB
                await disks.write(lun, data, place)
                model[lun][place : place + MIB] = data
                run("zpool", "sync", pool.name)
                check(f"LUN {lun} was overwritten at {place}")
                place += 4 * MIB
                await disks.unmap(lun, place, MIB)
                model[lun][place : place + MIB] = bytes(MIB)
                run("zpool", "sync", pool.name)
                check(f"LUN {lun} was discarded at {place}")
            if not at_once:
                assert all_shared() == 0, "every MiB was overwritten or discarded at one of its places"

    asyncio.run(asyncio.wait_for(act(), 480))
    pool.scrub()
