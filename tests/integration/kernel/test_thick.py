"""Thick LUNs, and what is reserved for all: it holds on a full pool and after a crash, and goes with the LUN.

Facts: zvol_target/docs/space.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.kernel.offload.disks import Luns, luns, offload_of
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.programs import run, wait_for
from support.short_pool import MIB, Filler, ShortPool, in_full, is_held, ready, space
from support.target import IQN, RpcError, Target, running_target

SLACK = 128 * MIB
"""Of a small thick LUN."""
INQUIRY_DATA_HAS_CHANGED = (0x06, 0x3F, 0x03)
ZFS = shutil.which("zfs") or "zfs"


def change(target: Target, number: int = 0, **settings: object) -> None:
    """`luns.change`."""
    target.call("luns.change", {"target": IQN, "number": number, **settings})


def wait_until_thick(target: Target, number: int = 0) -> None:
    """Returns once what it needs is reserved, and what it shares is known."""
    wait_for(lambda: space(target, number).get("provisioning") == "thick", "it is thick", timeout=180)


def pool_problem(target: Target) -> bool:
    """Whether a look at the pool failed."""
    return any(pool["problem"] for pool in target.call("space.get")["pools"])


def reserves_more_than(pool: ShortPool, size: int) -> bool:
    """Whether more is reserved for the LUN's zvol."""
    return pool.number("lun", "refreservation") > size


async def clone(disks: Luns, length: int, *, to: int = 0, source: int = 0, destination: int = 0) -> None:
    """A copy of which every byte is cloned, from the beginning of a LUN."""
    await disks.copy(length, to=to, source=source, destination=destination)


async def overwrite_when_full(pool: ShortPool, disks: Luns, *ranges: tuple[int, int]) -> None:
    """Fills the pool, and overwrites ranges of LUN 0, given in MiB, each in full. Raises AssertionError at the first error."""
    with Filler(pool.files) as filler:
        await asyncio.to_thread(filler.wait_until_refused)
        await ready(disks.session)
        for offset, length in ranges:
            await in_full(disks.session, offset * MIB, length)


@pytest.mark.long("55 s; test_what_a_thick_lun_shares_is_reserved fills a pool below a thick LUN in each run")
@pytest.mark.parametrize("copies", [1, 2])
def test_what_is_shared_stays_reserved_over_a_crash(
    short_pool: ShortPool, short_target: Target, device: ZvolClone, copies: int
) -> None:
    """A clone inside a thick LUN, kill -9 at once, the pool filled: both sides can be overwritten. All `copies` count."""
    volume = short_pool.create_volume("lun", 192, volblocksize="16K", compression="off", copies=str(copies))
    short_target.add_lun(0, volume, provisioning="thick")
    wait_until_thick(short_target)
    own = short_pool.number("lun", "refreservation")
    assert own >= copies * 192 * MIB + SLACK
    length = 64 * MIB

    async def share() -> None:
        async with luns(short_target, 1) as disks:
            await in_full(disks.session, 0, length // MIB)
            run("zpool", "sync", short_pool.name)
            await clone(disks, length, to=96 * MIB)
            counted = offload_of(short_target, 0)
            assert counted["cloned_bytes"] == length, counted

    asyncio.run(share())
    assert short_pool.number("lun", "refreservation") >= own + copies * length
    short_target.kill()
    short_target.start()
    wait_until_thick(short_target)
    assert short_pool.number("lun", "refreservation") >= own + copies * length

    async def overwrite() -> None:
        async with luns(short_target, 1) as disks:
            await overwrite_when_full(short_pool, disks, (0, 64), (96, 64))

    asyncio.run(overwrite())


@pytest.mark.long("35 s; the same pool is filled by test_what_a_thick_lun_shares_is_reserved")
def test_what_a_lun_shared_before_it_was_thick_is_reserved(
    short_pool: ShortPool, short_target: Target, device: ZvolClone
) -> None:
    """A thin LUN that shares blocks with itself becomes thick: what it shares is reserved beside its size."""
    volume = short_pool.create_volume("lun", 256, volblocksize="16K", compression="off")
    short_target.add_lun(0, volume)
    wait_for(lambda: is_held(short_target), "the overwrites are held", timeout=180)

    async def scenario() -> None:
        async with luns(short_target, 1) as disks:
            await in_full(disks.session, 0, 96)
            run("zpool", "sync", short_pool.name)
            await clone(disks, 96 * MIB, to=128 * MIB)
            assert offload_of(short_target, 0)["cloned_bytes"] == 96 * MIB
            change(short_target, provisioning="thick")
            assert short_pool.number("lun", "refreservation") >= (256 + 96) * MIB + SLACK
            wait_until_thick(short_target)
            await asyncio.to_thread(
                wait_for, lambda: short_pool.number("lun", "reservation") == 0, "it is held twice no more", 120
            )
            await overwrite_when_full(short_pool, disks, (0, 96), (128, 96))

    asyncio.run(scenario())


@pytest.mark.long("30 s; the same pool is filled by test_what_a_thick_lun_shares_is_reserved")
def test_a_thick_lun_keeps_what_it_shares_with_one_that_becomes_thin(
    short_pool: ShortPool, short_target: Target, device: ZvolClone
) -> None:
    """Two thick LUNs share blocks, counted with the one they were cloned to. It is made thin; the other can be overwritten."""
    for number, name in enumerate(["from", "to"]):
        short_target.add_lun(
            number, short_pool.create_volume(name, 192, volblocksize="16K", compression="off"), provisioning="thick"
        )
        wait_until_thick(short_target, number)
    before = short_pool.number("from", "refreservation")

    async def scenario() -> None:
        async with luns(short_target, 2) as disks:
            await in_full(disks.session, 0, 128)
            run("zpool", "sync", short_pool.name)
            await clone(disks, 128 * MIB, destination=1)
            assert offload_of(short_target, 1)["cloned_bytes"] == 128 * MIB
            change(short_target, 1, provisioning="thin")
            await asyncio.to_thread(wait_for, lambda: short_pool.number("to", "refreservation") == 0, "it is thin", 180)
            assert short_pool.number("from", "refreservation") >= before + 128 * MIB
            await overwrite_when_full(short_pool, disks, (0, 128))

    asyncio.run(scenario())


def test_what_is_held_goes_with_the_lun(short_pool: ShortPool, short_target: Target) -> None:
    """To another zvol, away with it, and away at the daemon's very end. The `refreservation` of a thick LUN is its zvol's."""
    one, other = (short_pool.create_volume(name, 256) for name in ("one", "other"))
    short_target.add_lun(0, one)
    wait_for(lambda: is_held(short_target), "the overwrites are held", timeout=180)
    assert short_pool.number("one", "reservation") >= SLACK * 3 // 4
    change(short_target, path=str(other))
    wait_for(lambda: short_pool.number("one", "reservation") == 0, "the former zvol is free", timeout=120)
    wait_for(lambda: short_pool.number("other", "reservation") >= SLACK * 3 // 4, "the present one is held", timeout=120)
    short_target.call("luns.delete", {"target": IQN, "number": 0})
    wait_for(lambda: short_pool.number("other", "reservation") == 0, "nothing is held any more", timeout=120)
    short_target.add_lun(0, one)
    wait_for(lambda: is_held(short_target), "the overwrites are held", timeout=180)
    short_target.call("luns.delete", {"target": IQN, "number": 0})
    assert short_target.stop() == 0
    # The daemon waits some seconds for it, not for ever.
    wait_for(lambda: short_pool.number("one", "reservation") == 0, "nothing is held any more", timeout=120)
    short_target.start()
    short_target.add_lun(0, one, provisioning="thick")
    wait_until_thick(short_target)
    reserved = short_pool.number("one", "refreservation")
    short_target.call("luns.delete", {"target": IQN, "number": 0})
    assert short_target.stop() == 0
    assert short_pool.number("one", "refreservation") == reserved
    short_target.start()


def test_a_lun_is_made_thick_where_it_goes(short_pool: ShortPool, short_target: Target) -> None:
    """With another path and "thick" at once, the new zvol is reserved; one for which there is no space changes nothing."""
    one, other = (short_pool.create_volume(name, 256) for name in ("one", "other"))
    large = short_pool.create_volume("large", 4096)
    short_target.add_lun(0, one)
    with pytest.raises(RpcError, match="-32003.*space"):
        change(short_target, path=str(large), provisioning="thick")
    assert short_target.call("luns.list", {"target": IQN})["luns"][0]["state"] == "serving"
    change(short_target, path=str(other), provisioning="thick")
    assert short_pool.number("one", "refreservation") == 0
    assert short_pool.number("other", "refreservation") >= 256 * MIB + SLACK
    wait_until_thick(short_target)


@pytest.mark.long("22 s; the unit tests of the ledger count it in each run")
def test_what_is_reserved_for_a_lun_is_its_own_to_grow_into(short_pool: ShortPool, short_target: Target) -> None:
    """A zvol with a `refreservation` smaller than its size: at the headroom, that much new space is still not refused."""
    volume = short_pool.create_volume("lun", 1024, volblocksize="16K", compression="off")
    run("zfs", "set", "refreservation=512M", f"{short_pool.name}/lun")
    short_target.add_lun(0, volume)
    wait_for(lambda: is_held(short_target), "the overwrites are held", timeout=180)

    async def scenario() -> None:
        async with luns(short_target, 1) as disks:
            with Filler(short_pool.files) as filler:
                await asyncio.to_thread(filler.wait_until_refused)
                await asyncio.sleep(2)  # looks that find the pool full
                await in_full(disks.session, 0, 256)

    asyncio.run(scenario())


@pytest.fixture
def failing_zfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file; while it is there, `zfs` fails for who is started from now on."""
    flag, folder = tmp_path / "zfs fails", tmp_path / "programs"
    folder.mkdir()
    program = folder / "zfs"
    program.write_text(f'#!/bin/sh\n[ -e "{flag}" ] && exit 1\nexec {ZFS} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return flag


@pytest.mark.long("16 s; the unit tests of the ledger have it in each run")
def test_nothing_is_shared_before_it_is_counted(
    short_pool: ShortPool, device: ZvolClone, tmp_path: Path, failing_zfs: Path
) -> None:
    """A zvol that is thick by itself, and a pool that can't be looked at at first: copies are no clones until it can."""
    volume = short_pool.create_volume("lun", 256, volblocksize="16K", compression="off")
    run("zfs", "set", "refreservation=300M", f"{short_pool.name}/lun")
    failing_zfs.touch()
    with running_target(tmp_path / "target") as target:
        target.add_lun(0, volume)
        wait_for(lambda: pool_problem(target), "a look failed", timeout=120)

        async def scenario() -> None:
            async with luns(target, 1) as disks:
                await in_full(disks.session, 0, 32)
                run("zpool", "sync", short_pool.name)
                await clone(disks, 32 * MIB, to=64 * MIB)
                counted = offload_of(target, 0)
                assert (counted["cloned_bytes"], counted["fallback_bytes"]["reservation"]) == (0, 32 * MIB), counted
                failing_zfs.unlink()
                await asyncio.to_thread(wait_until_thick, target)
                raised = functools.partial(reserves_more_than, short_pool, 300 * MIB)
                await asyncio.to_thread(wait_for, raised, "the slack is there", 180)
                run("zpool", "sync", short_pool.name)
                until = time.monotonic() + 120
                while INQUIRY_DATA_HAS_CHANGED not in await ready(disks.session):
                    assert time.monotonic() < until, "hosts are not told that it is thick"
                    await asyncio.sleep(0.1)
                await clone(disks, 32 * MIB, to=128 * MIB)
                assert offload_of(target, 0)["cloned_bytes"] == 32 * MIB

        asyncio.run(scenario())


def test_one_that_fails_makes_no_thick_lun_thin(short_pool: ShortPool, tmp_path: Path, failing_zfs: Path) -> None:
    """`zfs` fails for a while: hosts are told nothing, and what was lowered meanwhile is raised when it works again."""
    volume = short_pool.create_volume("lun", 256)
    with running_target(tmp_path / "target") as target:
        target.add_lun(0, volume, provisioning="thick")
        wait_until_thick(target)
        attentions = target.counters()["unit_attentions"]
        reserved = short_pool.number("lun", "refreservation")
        failing_zfs.touch()
        wait_for(lambda: pool_problem(target), "a look failed", timeout=120)
        assert space(target)["provisioning"] == "thick"
        run(ZFS, "set", "refreservation=300M", f"{short_pool.name}/lun")
        failing_zfs.unlink()
        wait_for(lambda: short_pool.number("lun", "refreservation") == reserved, "it is reserved again", timeout=180)
        assert space(target)["provisioning"] == "thick"
        assert target.counters()["unit_attentions"] == attentions


@contextlib.contextmanager
def nobody_s(volume: Path) -> Iterator[Path]:
    """A folder and a zvol that belong to the user nobody."""
    folder = Path("/dev/shm/unprivileged")
    folder.mkdir()
    for path in (folder, volume.resolve()):
        shutil.chown(path, "nobody", "nogroup")
    yield folder / "target"
    shutil.rmtree(folder)


@pytest.mark.long("18 s of what the target does when zfs allow is missing, a fault of the installation")
def test_without_the_right_to_reserve_that_is_said(short_pool: ShortPool) -> None:
    """A daemon that may not set properties refuses new space at the headroom, and thick LUNs, and says why; allowed, it holds."""
    volume = short_pool.create_volume("lun", 1024, volblocksize="16K", compression="off")
    name = f"{short_pool.name}/lun"
    with nobody_s(volume) as directory, running_target(directory, user="nobody") as target:
        target.add_lun(0, volume)
        wait_for(lambda: "permission denied" in str(space(target).get("problem")), "what does not hold is said", timeout=120)
        with pytest.raises(RpcError, match="-32003.*permission"):
            change(target, provisioning="thick")
        assert short_pool.number("lun", "reservation") == 0

        async def scenario() -> None:
            async with luns(target, 1) as disks:
                await in_full(disks.session, 0, 16)
                with Filler(short_pool.files) as filler:
                    await asyncio.to_thread(filler.wait_until_refused)
                    await asyncio.to_thread(wait_for, lambda: space(target)["growth"] == "refused", "new space is refused", 120)
                    await asyncio.to_thread(filler.remove)

        asyncio.run(scenario())
        run("zfs", "allow", "-u", "nobody", "reservation,refreservation", name)
        wait_for(lambda: is_held(target) and space(target)["problem"] is None, "the overwrites are held", timeout=300)
