# SPDX-License-Identifier: Apache-2.0
"""Clones of files on real ZFS: shared blocks by address; a reported clone shares its blocks."""

from __future__ import annotations

import fcntl
import filecmp
import itertools
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import pool_property
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.file_tool import FileTool, Refused
from support.programs import run, wait_for
from support.zfs import Pool

MIB = 1 << 20
PIECE, PIECES = 32 * MIB, 128
"""Blocks of 4K of a file, and how often another file has them: their count takes seconds."""
FICLONERANGE = 0x4020940D
RECORD = 128 << 10
_BLOCK = re.compile(r"^\s*([0-9a-f]+)\s+L0\s+(\S+)")
_numbers = itertools.count()


@pytest.fixture
def make_dataset(pool: Pool, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Makes mounted datasets, destroyed at the end."""
    made = []

    def make(**properties: str) -> Path:
        name = f"{pool.name}/files{next(_numbers)}"
        root = tmp_path / name.replace("/", "-")
        words = [word for key, value in properties.items() for word in ("-o", f"{key}={value}")]
        run("zfs", "create", "-o", f"mountpoint={root}", "-o", "compression=off", *words, name)
        made.append(name)
        return root

    yield make
    for name in made:
        run("zfs", "destroy", "-r", name)


@pytest.fixture
def dataset(make_dataset: Callable[..., Path]) -> Path:
    """A dataset with 128K records."""
    return make_dataset()


def blocks_of(path: Path) -> dict[int, str]:
    """DVA of every allocated block of a file by its offset, as zdb reads it from the disk."""
    dataset = run("findmnt", "-no", "SOURCE", "--target", str(path)).strip()
    run("zpool", "sync", dataset.partition("/")[0])
    lines = run("zdb", "-ddddd", dataset, str(path.stat().st_ino)).splitlines()
    return {int(match[1], 16): match[2] for line in lines if (match := _BLOCK.match(line)) and match[2] != "HOLE"}


def disk_like(path: Path, pieces: int, every: int) -> None:
    """A synced file with a MiB of data after each hole."""
    with path.open("wb") as file:
        for number in range(pieces):
            file.seek(number * every * MIB)
            file.write(os.urandom(MIB))
        file.truncate(pieces * every * MIB)
    run("sync", "-f", str(path))


def test_blocks_are_shared(pool: Pool, dataset: Path, device: ZvolClone) -> None:
    """A clone has the source's blocks until it is overwritten; unique bytes follow, and agree with the pool's figures."""
    source, clone = dataset / "source", dataset / "clone"
    disk_like(source, 8, 4)
    run("zpool", "sync", pool.name)
    before = pool_property(pool.name, "bcloneused")
    with FileTool(dataset) as tool:
        result = tool.clone("clone", "fast", source, dataset, "clone")
        assert (result.done, result.cloned, result.copied) == (32 * MIB, 32 * MIB, 0)
        assert filecmp.cmp(source, clone, shallow=False)
        blocks = blocks_of(clone)
        assert len(blocks) == 8 * MIB // RECORD
        assert blocks == blocks_of(source)
        assert pool_property(pool.name, "bcloneused") - before == 8 * MIB
        assert [tool.unique(path) for path in (source, clone)] == [(0, True)] * 2
        tool.call("write", clone, 0, MIB, 1)
        left = blocks_of(clone)
        assert sum(left[offset] == dva for offset, dva in blocks.items()) == 7 * MIB // RECORD
        assert [tool.unique(path) for path in (source, clone)] == [(MIB, True)] * 2
        tool.call("remove", clone)
        run("zpool", "sync", pool.name)
        assert tool.unique(source) == (8 * MIB, True)


def test_statistics_of_new_changes(pool: Pool, dataset: Path, device: ZvolClone) -> None:
    """A count waits until changes are in the pool; later changes are not included."""
    source, clone = dataset / "source", dataset / "clone"
    with FileTool(dataset) as tool:
        tool.call("write", source, 0, 16 * MIB, 1)
        wait_for(lambda: tool.unique(source) == (16 * MIB, True), "the source is counted")
        assert tool.clone("clone", "fast", source, dataset, "clone").cloned == 16 * MIB
        run("zpool", "sync", pool.name)
        assert tool.unique(clone) == (0, True)
        tool.call("write", clone, 0, 16 * MIB, 2)
        unique, exact = tool.unique(clone)
        assert not exact or unique in {0, 16 * MIB}
        run("zpool", "sync", pool.name)
        wait_for(lambda: tool.unique(source) == tool.unique(clone) == (16 * MIB, True), "both are counted")


def test_a_long_count_is_answered_before_its_end(
    make_dataset: Callable[..., Path], pool: Pool, device: ZvolClone, report_line: Callable[[str], None]
) -> None:
    """The count continues in the background, and is exact at its end."""
    folder = make_dataset(recordsize="4K")
    source, many = folder / "source", folder / "many"
    source.write_bytes(os.urandom(PIECE))
    run("sync", "-f", str(source))
    with source.open("rb") as read, many.open("wb") as write:
        for number in range(PIECES):
            share = struct.pack("=qQQQ", read.fileno(), 0, PIECE, number * PIECE)
            fcntl.ioctl(write, FICLONERANGE, share)
            if number % 16 == 0:  # the clones of one group must fit into the pool
                run("zpool", "sync", pool.name)
    run("zpool", "sync", pool.name)
    with FileTool(folder) as tool:
        begun = time.monotonic()
        tool.unique(many)
        took = time.monotonic() - begun
        assert took < 30
        wait_for(lambda: tool.unique(many) == (0, True), "it is counted")
        report_line(f"the answer came after {took:.2f} s, the whole count took less than {time.monotonic() - begun:.1f} s")


def test_a_source_just_written(dataset: Path) -> None:
    """A clone waits for blocks that are not synced yet, and then shares them."""
    with FileTool(dataset) as tool:
        tool.call("write", dataset / "source", 0, 16 * MIB, 1)
        assert tool.clone("clone", "fast", dataset / "source", dataset, "clone").cloned == 16 * MIB
    assert blocks_of(dataset / "source") == blocks_of(dataset / "clone")


def test_a_source_just_written_where_the_kernel_does_not_wait(dataset: Path, zfs_parameter: Callable[[str, int], None]) -> None:
    zfs_parameter("zfs_bclone_wait_dirty", 0)
    with FileTool(dataset) as tool:
        tool.call("write", dataset / "source", 0, 16 * MIB, 1)
        assert tool.clone("clone", "fast", dataset / "source", dataset, "clone").cloned == 16 * MIB
    assert blocks_of(dataset / "source") == blocks_of(dataset / "clone")


def test_across_datasets_of_a_pool(make_dataset: Callable[..., Path]) -> None:
    """Shared, as the statistics prove: the kernel does not report it. The clone has the source's record size."""
    first, other = make_dataset(), make_dataset(recordsize="16K")
    disk_like(first / "source", 8, 4)
    with FileTool(first, other) as tool:
        result = tool.clone("clone", "fast", first / "source", other, "clone")
        assert (result.cloned, result.copied) == (32 * MIB, 0)
    assert blocks_of(first / "source") == blocks_of(other / "clone")
    assert (other / "clone").stat().st_blksize == RECORD


def test_a_copy_is_not_reported_as_a_clone(make_dataset: Callable[..., Path], zfs_parameter: Callable[[str, int], None]) -> None:
    """Without block cloning copy_file_range copies silently: reported as copied, with holes, refused if sharing is required."""
    zfs_parameter("zfs_bclone_enabled", 0)
    first, other = make_dataset(), make_dataset()
    disk_like(first / "source", 8, 4)
    with FileTool(first, other) as tool:
        for destination, reason in ((other, "other_file_system"), (first, "not_supported")):
            with pytest.raises(Refused):
                tool.clone("clone", "fast", first / "source", destination, "clone")
            assert not (destination / "clone").exists()
            result = tool.clone("clone", "full", first / "source", destination, "clone")
            assert (result.cloned, result.copied, result.holes) == (0, 8 * MIB, 24 * MIB)
            assert dict(result.fallback) == {reason: 8 * MIB}
            assert filecmp.cmp(first / "source", destination / "clone", shallow=False)
            assert not set(blocks_of(first / "source").values()) & set(blocks_of(destination / "clone").values())


def test_across_pools(make_dataset: Callable[..., Path], other_pool: Pool, tmp_path: Path) -> None:
    first, other = make_dataset(), tmp_path / "other"
    run("zfs", "create", "-o", f"mountpoint={other}", f"{other_pool.name}/files")
    disk_like(first / "source", 4, 4)
    with FileTool(first, other) as tool:
        with pytest.raises(Refused, match="EXDEV"):
            tool.clone("clone", "fast", first / "source", other, "clone")
        result = tool.clone("clone", "full", first / "source", other, "clone")
        assert (result.copied, result.holes) == (4 * MIB, 12 * MIB)
        assert dict(result.fallback) == {"other_file_system": 4 * MIB}
    assert filecmp.cmp(first / "source", other / "clone", shallow=False)
    run("zfs", "destroy", f"{other_pool.name}/files")


@pytest.mark.parametrize(
    "across",
    [
        pytest.param(False, id="one dataset"),
        pytest.param(True, id="across datasets", marks=pytest.mark.long("13 s; test_across_datasets_of_a_pool is in each run")),
    ],
)
def test_a_clone_of_a_written_source_has_one_moment(make_dataset: Callable[..., Path], across: bool) -> None:
    """Each pass of a writer stamps all blocks in order: a clone starts with one pass, ends with the one before, or is refused."""
    dataset = make_dataset()
    place = make_dataset() if across else dataset
    source, blocks = dataset / "source", 64
    source.write_bytes(b"".join((0).to_bytes(8, "big") * (RECORD // 8) for _ in range(blocks)))
    stop = threading.Event()

    def write() -> None:
        with source.open("r+b", buffering=0) as file:
            for stamp in itertools.count(1):
                for block in range(blocks):
                    os.pwrite(file.fileno(), stamp.to_bytes(8, "big") * (RECORD // 8), block * RECORD)
                    if stop.is_set():
                        return

    with FileTool(*({dataset: 0, place: 0})) as tool:
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(4):
                try:
                    tool.clone("clone", "full", source, place, "clone")
                except Refused as refused:
                    assert refused.name == "EBUSY"
                    assert not (place / "clone").exists()
                    continue
                data = (place / "clone").read_bytes()
                stamps = [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), RECORD)]
                assert len(stamps) == blocks
                assert stamps == sorted(stamps, reverse=True) and stamps[0] - stamps[-1] <= 1, stamps
                (place / "clone").unlink()
        finally:
            stop.set()
            writer.join()
        assert tool.clone("clone", "full", source, place, "clone").cloned == blocks * RECORD
    assert filecmp.cmp(source, place / "clone", shallow=False)


def test_holes_made_a_moment_ago(dataset: Path, pool: Pool, zfs_parameter: Callable[[str, int], None]) -> None:
    """OpenZFS clones blocks whose free is not synced, and frees them twice later (openzfs#18853): we do not."""
    zfs_parameter("zfs_txg_timeout", 30)
    source, clone = dataset / "source", dataset / "clone"
    source.write_bytes(os.urandom(16 * MIB))
    run("zpool", "sync", pool.name)
    with FileTool(dataset) as tool:
        tool.call("punch", source, 4 * MIB, 8 * MIB)
        assert tool.clone("clone", "fast", source, dataset, "clone").cloned == 16 * MIB
        assert filecmp.cmp(source, clone, shallow=False)
        assert not any(clone.read_bytes()[4 * MIB : 12 * MIB])
        tool.call("truncate", source, 6 * MIB)
        tool.call("punch", source, 0, 2 * MIB)
        tool.call("truncate", clone, 0)
        assert tool.clone("into", "fast", source, clone).cloned == 6 * MIB
        assert filecmp.cmp(source, clone, shallow=False)
        tool.call("remove", source)
        tool.call("remove", clone)
    pool.scrub()
    assert pool_property(pool.name, "bcloneused") == 0
