# SPDX-License-Identifier: Apache-2.0
"""Thick LUNs: they share nothing, and every byte can be written on a full pool. Facts: zvol_target/docs/space.md.

The tests set `refreservation` themselves, as the appliance does: the target never changes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.kernel.offload.disks import Luns, luns, offload_of
from integration.kernel.zvol_clone.blocks import dvas, pool_property
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support import cdb
from support.programs import run, wait_for
from support.raw_initiator import GOOD
from support.short_pool import BLOCK, MIB, Filler, ShortPool, in_full, is_held, ready, space, write
from support.target import IQN, RpcError, Target, running_target
from support.third_party_copy import extended_copy, parameter_list, segments_of

HEADROOM = 128 * MIB
"""Size of a LUN in a small pool."""
SIZE = 48 * MIB
UNIT_ATTENTION = 6


def change(target: Target, number: int = 0, **settings: object) -> None:
    target.call("luns.change", {"target": IQN, "number": number, **settings})


def listed(target: Target, number: int = 0) -> dict[str, object]:
    """A LUN in `luns.list`."""
    return dict(target.call("luns.list", {"target": IQN})["luns"][number])


def thick_lun(pool: ShortPool, target: Target, name: str, number: int = 0, size_mib: int = SIZE // MIB) -> Path:
    """Serves a thick zvol; returns after its headroom is reserved."""
    volume = pool.create_volume(name, size_mib, volblocksize="16K", compression="off")
    run("zfs", "set", "refreservation=auto", f"{pool.name}/{name}")
    target.add_lun(number, volume, provisioning="thick")
    wait_for(lambda: listed(target, number).get("covered") is True and is_held(target, number), "it is thick", timeout=180)
    return volume


def thin_lun(pool: ShortPool, target: Target, name: str, number: int, size_mib: int = SIZE // MIB) -> Path:
    """Serves a thin zvol; returns after its headroom is reserved."""
    volume = pool.create_volume(name, size_mib, volblocksize="16K", compression="off")
    target.add_lun(number, volume)
    wait_for(lambda: is_held(target, number), "the overwrites are held", timeout=180)
    return volume


async def read_whole(disks: Luns, lun: int, length: int) -> bytes:
    """All data of a LUN."""
    data = []
    for at in range(0, length, MIB):
        answer = await disks.session.execute(cdb.read(at // BLOCK, MIB // BLOCK), data_in=MIB, lun=lun)
        assert answer.status == GOOD, answer.sense_codes
        data.append(answer.data)
    return b"".join(data)


async def copy_in_pieces(disks: Luns, to_mib: int, mebibytes: int) -> None:
    """Copies the start of LUN 0 to LUN 1, a command per 16 MiB. A copy that ends with a unit attention is repeated."""
    for at in range(0, mebibytes, 16):
        segment = segments_of(16 * MIB // BLOCK, 0, 1, from_=at * MIB // BLOCK, to=(to_mib + at) * MIB // BLOCK, most=32768)
        parameters = parameter_list(disks.naas, list(segment))
        while (answer := await disks.session.execute(extended_copy(parameters), data_out=parameters, lun=1)).status != GOOD:
            assert answer.sense_codes[0] == UNIT_ATTENTION, answer


def test_every_byte_of_a_thick_lun_is_written_on_a_full_pool(small_pool: ShortPool, small_target: Target) -> None:
    """A thick LUN with a snapshot, in a full pool: all of it is written, and overwritten twice."""
    thick_lun(small_pool, small_target, "lun")
    reserved = small_pool.number("lun", "refreservation")

    async def scenario() -> None:
        async with luns(small_target, 1) as disks:
            await in_full(disks.session, 0, SIZE // MIB // 2)
            run("zpool", "sync", small_pool.name)
            run("zfs", "snapshot", f"{small_pool.name}/lun@before")
            with Filler(small_pool.files) as filler:
                await asyncio.to_thread(filler.wait_until_refused)
                await ready(disks.session)
                for _ in range(3):
                    last = os.urandom(SIZE)
                    for at in range(0, SIZE, MIB):
                        response = await write(disks.session, at, last[at : at + MIB])
                        assert response.status == GOOD, (at, response.sense_codes)
                assert await read_whole(disks, 0, SIZE) == last

    asyncio.run(scenario())
    assert small_pool.number("lun", "refreservation") == reserved
    assert space(small_target)["growth"] == "allowed"


def test_a_thick_lun_shares_no_block(small_pool: ShortPool, small_target: Target, device: ZvolClone) -> None:
    """Copies out of it, into it and inside it are counted as thick. In a full pool all of it can be overwritten."""
    volumes = [thick_lun(small_pool, small_target, "thick"), thin_lun(small_pool, small_target, "thin", 1)]

    async def scenario() -> None:
        async with luns(small_target, 2) as disks:
            await in_full(disks.session, 0, SIZE // MIB // 2)
            run("zpool", "sync", small_pool.name)
            half = SIZE // 2
            await disks.copy(half, source=0, destination=1)
            await disks.copy(half, to=half, source=0, destination=0)
            run("zpool", "sync", small_pool.name)
            await disks.copy(half, to=half, source=1, destination=0)
            for number, bytes_copied in ((0, 2 * half), (1, half)):
                counted = offload_of(small_target, number)
                assert (counted["cloned_bytes"], counted["fallback_bytes"]["thick"]) == (0, bytes_copied), counted
            blocks = [dvas(f"{small_pool.name}/{volume.name}") for volume in volumes]
            assert len(set(blocks[0].values())) == len(blocks[0]) == SIZE // 16384
            assert not set(blocks[0].values()) & set(blocks[1].values())
            assert pool_property(small_pool.name, "bcloneused") == 0
            with Filler(small_pool.files) as filler:
                await asyncio.to_thread(filler.wait_until_refused)
                await ready(disks.session)
                await in_full(disks.session, 0, SIZE // MIB)

    asyncio.run(scenario())


def test_a_lun_that_becomes_thick_shares_nothing_more(small_pool: ShortPool, small_target: Target, device: ZvolClone) -> None:
    """During a copy the destination becomes thick: after the response nothing more is shared. Thin again, it shares."""
    for number, name in enumerate(["from", "to"]):
        thin_lun(small_pool, small_target, name, number, 96)

    async def becomes_thick_during_a_copy(disks: Luns) -> bool:
        """Whether the copy has continued after the change."""
        before = offload_of(small_target, 1)
        await in_full(disks.session, 0, 64)
        run("zpool", "sync", small_pool.name)
        copying = asyncio.create_task(copy_in_pieces(disks, 0, 64))
        while offload_of(small_target, 1)["cloned_bytes"] == before["cloned_bytes"] and not copying.done():
            await asyncio.sleep(0)
        await asyncio.to_thread(change, small_target, 1, provisioning="thick")
        shared = pool_property(small_pool.name, "bclonesaved")
        await copying
        assert pool_property(small_pool.name, "bclonesaved") <= shared
        counted = offload_of(small_target, 1)
        thick = int(counted["fallback_bytes"]["thick"]) - int(before["fallback_bytes"]["thick"])
        assert counted["cloned_bytes"] - before["cloned_bytes"] + thick >= 64 * MIB, counted
        return thick > 0

    async def scenario() -> None:
        async with luns(small_target, 2) as disks:
            turns = 1
            while not await becomes_thick_during_a_copy(disks):
                turns += 1
                assert turns <= 20, "each copy has ended before the change"
                await asyncio.to_thread(change, small_target, 1, provisioning="thin")
            shared = pool_property(small_pool.name, "bclonesaved")
            await copy_in_pieces(disks, 64, 16)
            assert pool_property(small_pool.name, "bclonesaved") <= shared
            before = offload_of(small_target, 1)["cloned_bytes"]
            await asyncio.to_thread(change, small_target, 1, provisioning="thin")
            await copy_in_pieces(disks, 80, 16)
            assert offload_of(small_target, 1)["cloned_bytes"] - before == 16 * MIB

    asyncio.run(scenario())


def test_a_refreservation_is_reported_and_never_changed(small_pool: ShortPool, small_target: Target, tmp_path: Path) -> None:
    """`luns.list` shows whether it covers a thick LUN. Only a zvol can be thick. The reservation is removed with the LUN."""
    thin_lun(small_pool, small_target, "one", 0)
    assert small_pool.number("one", "reservation") >= HEADROOM * 3 // 4
    shown = listed(small_target)
    assert (shown["provisioning"], shown["refreservation_bytes"], shown["covered"]) == ("thin", 0, None)
    change(small_target, provisioning="thick")
    assert listed(small_target)["provisioning"] == "thick"
    wait_for(lambda: listed(small_target)["covered"] is False, "it is not covered", timeout=60)
    wait_for(lambda: "refreservation" in str(space(small_target)["problem"]), "the problem is reported", timeout=60)
    run("zfs", "set", f"refreservation={SIZE}", f"{small_pool.name}/one")
    wait_for(lambda: listed(small_target)["refreservation_bytes"] == SIZE, "the new value is seen", timeout=60)
    assert listed(small_target)["covered"] is False, "its metadata has no room"
    run("zfs", "set", "refreservation=auto", f"{small_pool.name}/one")
    reserved = small_pool.number("one", "refreservation")
    wait_for(lambda: listed(small_target)["covered"] is True, "it is covered", timeout=60)
    wait_for(lambda: space(small_target)["problem"] is None, "there is no problem", timeout=60)
    other = small_pool.create_volume("other", SIZE // MIB)
    change(small_target, path=str(other), provisioning="thin")
    wait_for(lambda: small_pool.number("one", "reservation") == 0, "the former zvol's headroom is released", timeout=60)
    wait_for(lambda: small_pool.number("other", "reservation") >= HEADROOM * 3 // 4, "the present one is held", timeout=60)
    small_target.call("luns.delete", {"target": IQN, "number": 0})
    wait_for(lambda: small_pool.number("other", "reservation") == 0, "nothing is reserved any more", timeout=60)
    assert small_pool.number("one", "refreservation") == reserved
    file = tmp_path / "file"
    with file.open("wb") as made:
        made.truncate(MIB)
    with pytest.raises(RpcError, match="-32003.*only a zvol can be thick"):
        small_target.add_lun(1, file, provisioning="thick")


@contextlib.contextmanager
def nobody_s(volume: Path) -> Iterator[Path]:
    """A folder and a zvol of the user nobody."""
    folder = Path("/dev/shm/unprivileged")
    folder.mkdir()
    for path in (folder, volume.resolve()):
        shutil.chown(path, "nobody", "nogroup")
    yield folder / "target"
    shutil.rmtree(folder)


@pytest.mark.long("18 s of what the target does when zfs allow is missing, a fault of the installation")
def test_a_missing_permission_to_reserve_is_reported(short_pool: ShortPool) -> None:
    """Without permission to set properties the daemon refuses new space at the headroom, with the reason."""
    volume = short_pool.create_volume("lun", 1024, volblocksize="16K", compression="off")
    name = f"{short_pool.name}/lun"
    with nobody_s(volume) as directory, running_target(directory, user="nobody") as target:
        target.add_lun(0, volume)
        wait_for(lambda: "permission denied" in str(space(target).get("problem")), "what does not hold is said", timeout=120)
        assert short_pool.number("lun", "reservation") == 0

        async def scenario() -> None:
            async with luns(target, 1) as disks:
                await in_full(disks.session, 0, 16)
                with Filler(short_pool.files) as filler:
                    await asyncio.to_thread(filler.wait_until_refused)
                    await asyncio.to_thread(wait_for, lambda: space(target)["growth"] == "refused", "new space is refused", 120)
                    await asyncio.to_thread(filler.remove)

        asyncio.run(scenario())
        run("zfs", "allow", "-u", "nobody", "reservation", name)
        wait_for(lambda: is_held(target) and space(target)["problem"] is None, "the overwrites are held", timeout=300)
