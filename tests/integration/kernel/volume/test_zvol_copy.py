# SPDX-License-Identifier: Apache-2.0
"""Copies between zvols by the volume crate: shared blocks, copied blocks and reasons, resulting data."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.kernel.conftest import VolumeOf
from integration.kernel.zvol_clone import kernel_module
from integration.kernel.zvol_clone.blocks import (
    MIB,
    dataset_of,
    destroy,
    dvas,
    opened,
    pool_property,
    random_blocks,
    read_direct,
    shared,
    write_direct,
)
from integration.kernel.zvol_clone.zvol_clone_ioctl import DEVICE
from support.programs import ProgramFailed, run
from support.volume_tool import TOOL, Copied, allocation, clear, copy, discard
from support.zfs import Pool

BLOCK = 16384
ReportLine = Callable[[str], None]
FURTHER = pytest.mark.long("7 s each: copies inside one LUN are in offload/test_extended_copy.py in each run")
SetParameter = Callable[[str, int], None]
OTHER_SIZE = pytest.mark.long("20 s each: 16K is the usual size of blocks")


@pytest.fixture(autouse=True)
def module(module_file: Path) -> None:
    """The module is loaded, and no process has it open."""
    result = kernel_module.load(module_file)
    assert result.returncode == 0, result.stderr


def checked(source: Path, source_offset: int, destination: Path, offset: int, length: int, size: int) -> Copied:
    """Copies, and compares the whole destination with the expected data."""
    expected = bytearray(read_direct(destination, size))
    expected[offset : offset + length] = read_direct(source, size)[source_offset : source_offset + length]
    copied = copy(source, source_offset, destination, offset, length)
    assert read_direct(destination, size) == expected
    assert copied.cloned + copied.copied + copied.zeroed == length
    return copied


@pytest.mark.parametrize("block", [16384, *(pytest.param(size, marks=OTHER_SIZE) for size in (4096, 65536))])
def test_every_block_is_shared(volume: VolumeOf, pool: Pool, block: int) -> None:
    source, destination = volume(16, filled=16, volblocksize=str(block)), volume(16, filled=16, volblocksize=str(block))
    used = pool_property(pool.name, "bcloneused")
    allocated = pool_property(pool.name, "allocated")
    copied = checked(source, 0, destination, 0, 16 * MIB, 16 * MIB)
    assert (copied.cloned, copied.fallback) == (16 * MIB, {})
    blocks_of_source, other = dvas(dataset_of(source)), dvas(dataset_of(destination))
    assert shared(blocks_of_source, other) == len(blocks_of_source) == 16 * MIB // block
    assert pool_property(pool.name, "bcloneused") - used >= 16 * MIB
    assert pool_property(pool.name, "allocated") < allocated - 15 * MIB, "what the destination had is freed, nothing is written"
    # From then on each is independent.
    before = read_direct(source, 16 * MIB)
    write_direct(destination, random_blocks(MIB), 2 * MIB)
    clear(destination, 8 * MIB, MIB)
    assert read_direct(source, 16 * MIB) == before
    pool.scrub()


def test_edges_are_copied_and_holes_stay_holes(volume: VolumeOf) -> None:
    source, destination = volume(16, volblocksize="16384"), volume(16, filled=16, volblocksize="16384")
    write_direct(source, random_blocks(2 * MIB), 5 * MIB)
    run("zpool", "sync")
    copied = checked(source, 512, destination, BLOCK + 512, 15 * MIB, 16 * MIB)
    assert copied.cloned == 2 * MIB
    assert copied.zeroed >= 13 * MIB - 2 * BLOCK
    extents, _ = allocation(destination, 0, 16 * MIB)
    kinds = [(kind, length) for kind, _, length in extents]
    assert ("Allocated", 2 * MIB) in kinds and len(kinds) == 5, extents
    # With different alignment nothing can be shared.
    copied = checked(source, 5 * MIB + 512, destination, 0, MIB, 16 * MIB)
    assert (copied.cloned, copied.fallback["Unaligned"]) == (0, MIB)


@pytest.mark.parametrize("distance", [512, *(pytest.param(distance, marks=FURTHER) for distance in (MIB, 16384, 5 * MIB))])
def test_inside_one_zvol(volume: VolumeOf, distance: int) -> None:
    device = volume(32, filled=32, volblocksize="16384")
    for source, destination in ((0, 8 * MIB + distance), (8 * MIB + distance, 0)):
        copied = checked(device, source, device, destination, 8 * MIB, 32 * MIB)
        if distance >= BLOCK:
            assert copied.cloned > 0, copied
        else:
            assert copied.cloned == 0 and copied.fallback.total() == 8 * MIB
    copied = checked(device, 0, device, 16 * MIB, 16 * MIB, 32 * MIB)
    assert copied.cloned + copied.fallback["Dirty"] == 16 * MIB


def test_without_the_module(volume: VolumeOf) -> None:
    source, destination = volume(16, filled=8), volume(16, filled=16)
    assert kernel_module.remove("zvol_clone") == 0
    try:
        copied = checked(source, 0, destination, 0, 16 * MIB, 16 * MIB)
        assert (copied.cloned, copied.zeroed) == (0, 8 * MIB)
        assert copied.fallback == {"Unsupported": 16 * MIB}
        # By its data.
        extents, _ = allocation(source, 0, 16 * MIB)
        assert extents == [("Allocated", 0, 8 * MIB), ("Hole", 8 * MIB, 8 * MIB)]
    finally:
        assert kernel_module.load().returncode == 0


def test_a_zvol_and_a_file_share_nothing(volume: VolumeOf, tmp_path: Path) -> None:
    device, file = volume(16, filled=16, volblocksize="4096"), tmp_path / "file"
    file.write_bytes(random_blocks(16 * MIB))
    for source, destination in ((device, file), (file, device)):
        copied = checked(source, MIB, destination, 0, 5 * MIB, 16 * MIB)
        assert copied.fallback == {"Unsupported": 5 * MIB}


def test_a_user_without_any_capability_clones_by_the_group_of_block_devices(volume: VolumeOf) -> None:
    """Like the target's service, with the package's udev rule."""
    source, destination = volume(16, filled=16), volume(16)
    rules = Path("/run/udev/rules.d")
    rules.mkdir(parents=True, exist_ok=True)
    rule = rules / "60-zvol_clone.rules"
    shutil.copy(kernel_module.PACKAGE / rule.name, rule)
    try:
        run("udevadm", "control", "--reload")
        run("udevadm", "trigger", "--settle", DEVICE)
        assert (DEVICE.stat().st_mode & 0o777, DEVICE.group(), source.group()) == (0o660, "disk", "disk")
        alone = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=disk", "--bounding-set=-all", "--no-new-privs"]
        printed = run(*alone, TOOL, "copy", str(source), "0", str(destination), "0", str(16 * MIB), "stable")
        assert f"cloned {16 * MIB}\n" in printed
        with pytest.raises(ProgramFailed, match="NotWritable"):
            run(*[word.replace("=disk", "=65534") for word in alone], TOOL, "map", str(source), "0", "512")
    finally:
        rule.unlink()
        run("udevadm", "control", "--reload")


def test_a_source_that_was_discarded_a_moment_ago(volume: VolumeOf, zfs_parameter: SetParameter) -> None:
    zfs_parameter("zfs_txg_timeout", 30)
    source, destination = volume(32, filled=32), volume(32, filled=32)
    # Open all the time: closing a zvol syncs it.
    with opened(source, os.O_RDWR) as fd:
        discard(fd, 4 * MIB, 8 * MIB)
        discard(fd, 20 * MIB, 64 << 10)
        copied = checked(source, 0, destination, 0, 32 * MIB, 32 * MIB)
        assert copied.zeroed >= 8 * MIB
        assert not any(read_direct(destination, 8 * MIB, 4 * MIB))


@pytest.mark.parametrize("limit", ["quota", "volsize"])
def test_no_space_is_said_to_be_none(volume: VolumeOf, pool: Pool, limit: str) -> None:
    """Cloned bytes count against the quota of the destination's dataset."""
    source = volume(64, filled=64)
    run("zfs", "create", "-o", "mountpoint=none", f"{pool.name}/limited")
    try:
        destination = pool.create_volume("limited/volume", 64)
        if limit == "quota":
            run("zfs", "set", "quota=20M", f"{pool.name}/limited")
            with pytest.raises(ProgramFailed, match="OutOfSpace"):
                for _ in range(3):
                    copy(source, 0, destination, 0, 64 * MIB)
                    run("zpool", "sync")
        else:
            with pytest.raises(ProgramFailed, match="OutOfRange"):
                copy(source, 0, destination, MIB, 64 * MIB)
    finally:
        destroy(f"{pool.name}/limited")


@pytest.mark.parametrize(
    ("dirty", "size"),
    [(4, 16), *(pytest.param(dirty, 256, marks=pytest.mark.long("measures larger ones")) for dirty in (1, 16, 128))],
    ids=lambda mib: f"{mib}M",
)
def test_a_dirty_source(volume: VolumeOf, zfs_parameter: SetParameter, report_line: ReportLine, dirty: int, size: int) -> None:
    """MiB of dirty data. New data is read and written; compared with a copy that first waits for the transaction group."""
    zfs_parameter("zfs_txg_timeout", 30)
    seconds = {}
    for strategy in ("read and write", "wait"):
        source, destination = volume(size, filled=size), volume(size, filled=size)
        data = random_blocks(MIB)
        with opened(source, os.O_RDWR | os.O_DIRECT) as fd, opened(destination, os.O_RDONLY):
            run("zpool", "sync")  # the time of the next transaction group begins
            for at in range(dirty):
                write_direct(fd, data, at * 2 * MIB)
            began = time.monotonic()
            if strategy == "wait":
                run("zpool", "sync")
            waited = time.monotonic() - began
            copied = copy(source, 0, destination, 0, size * MIB)
            seconds[strategy] = copied.seconds + waited
            if strategy == "wait":
                assert copied.fallback == {}
            else:
                # With much dirty data zfs syncs on its own.
                assert 0 < copied.fallback["Dirty"] <= dirty * MIB
            assert copied.cloned == size * MIB - copied.fallback["Dirty"]
            assert read_direct(destination, size * MIB) == read_direct(source, size * MIB)
    report_line(f"{dirty} MiB dirty of {size}: " + ", ".join(f"{name} {took:.2f} s" for name, took in seconds.items()))


@pytest.mark.parametrize("held", [64, pytest.param(1024, marks=pytest.mark.long("measures a larger one"))])
def test_a_disk_that_is_mostly_empty(volume: VolumeOf, report_line: ReportLine, held: int) -> None:
    """The map reports its holes, which cost next to nothing."""
    source, destination = volume(40 << 10, volblocksize="16384"), volume(40 << 10, volblocksize="16384")
    data = random_blocks(held * MIB // 64)
    with opened(source, os.O_RDWR | os.O_DIRECT) as fd:
        for at in range(64):
            write_direct(fd, data, at * 500 * MIB)
    run("zpool", "sync")
    copied = copy(source, 0, destination, 0, 40 << 30)
    assert (copied.cloned, copied.zeroed) == (held * MIB, (40 << 30) - held * MIB)
    report_line(f"{held} MiB in a disk of 40 GiB at 16K: {copied.seconds:.2f} s")
