"""Clones of files on real ZFS: what is shared, by where blocks lie; what is called a clone is one."""

from __future__ import annotations

import filecmp
import itertools
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import pool_property
from support.file_tool import FileTool, Refused
from support.programs import run
from support.zfs import Pool

MIB = 1 << 20
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
    """One with 128K records."""
    return make_dataset()


def blocks_of(path: Path) -> dict[int, str]:
    """DVA of every allocated block of a file by its offset, as zdb reads it from the disk."""
    dataset = run("findmnt", "-no", "SOURCE", "--target", str(path)).strip()
    run("zpool", "sync", dataset.partition("/")[0])
    lines = run("zdb", "-ddddd", dataset, str(path.stat().st_ino)).splitlines()
    return {int(match[1], 16): match[2] for line in lines if (match := _BLOCK.match(line)) and match[2] != "HOLE"}


def disk_like(path: Path, pieces: int, every: int) -> None:
    """A file with a MiB of data after each hole, on disk."""
    with path.open("wb") as file:
        for number in range(pieces):
            file.seek(number * every * MIB)
            file.write(os.urandom(MIB))
        file.truncate(pieces * every * MIB)
    run("sync", "-f", str(path))


def test_blocks_are_shared(pool: Pool, dataset: Path) -> None:
    """A clone lies on the source's blocks, until it is overwritten; unique bytes follow, and agree with the pool."""
    source, clone = dataset / "source", dataset / "clone"
    disk_like(source, 8, 4)
    run("zpool", "sync", pool.name)
    before = pool_property(pool.name, "bcloneused")
    with FileTool(dataset, zfs=True) as tool:
        found = tool.clone("clone", "fast", source, dataset, "clone")
        assert (found.done, found.cloned, found.copied) == (32 * MIB, 32 * MIB, 0)
        assert filecmp.cmp(source, clone, shallow=False)
        blocks = blocks_of(clone)
        assert len(blocks) == 8 * MIB // RECORD
        assert blocks == blocks_of(source)
        assert pool_property(pool.name, "bcloneused") - before == 8 * MIB
        assert tool.number("shared_bytes") == 8 * MIB
        tool.call("write", clone, 0, MIB, 1)
        tool.call("maintain")
        assert tool.number("shared_bytes") == 7 * MIB
        left = blocks_of(clone)
        assert sum(left[offset] == dva for offset, dva in blocks.items()) == 7 * MIB // RECORD
        for path in (source, clone):
            unique, exact = tool.unique(path)
            assert exact
            assert MIB <= unique < MIB + RECORD, "and its indirect block"
        tool.call("remove", clone)
        tool.call("maintain")
        assert tool.unique(source) == (source.stat().st_blocks * 512, True)


@pytest.mark.parametrize("kernel_waits", [True, False])
@pytest.mark.parametrize("asks_zfs", [True, False])
def test_statistics_at_once(
    pool: Pool, dataset: Path, zfs_parameter: Callable[[str, int], None], asks_zfs: bool, kernel_waits: bool
) -> None:
    """What was written or cloned a moment ago is in the figures, or they are refused: ZFS counts blocks when they are on disk."""
    source, clone = dataset / "source", dataset / "clone"
    zfs_parameter("zfs_dmu_offset_next_sync", int(kernel_waits))
    zfs_parameter("zfs_txg_timeout", 600)  # nobody else ends one
    run("zpool", "sync", pool.name)
    with FileTool(dataset, zfs=asks_zfs) as tool:
        tool.call("write", source, 0, 16 * MIB, 1)
        assert source.stat().st_blocks * 512 < 16 * MIB, "it is not on disk yet"
        if not asks_zfs and not kernel_waits:
            with pytest.raises(Refused, match="EAGAIN"):
                tool.call("stat", source)
            return
        assert int(tool.call("stat", source)["allocated"]) >= 16 * MIB
        if not asks_zfs:
            return
        assert tool.clone("clone", "fast", source, dataset, "clone").cloned == 16 * MIB
        found = tool.call("stat", clone)
        assert int(found["allocated"]) >= 16 * MIB
        assert int(found["unique"]) < MIB
        tool.call("truncate", clone, 0)
        assert int(tool.call("stat", clone)["allocated"]) < MIB


def test_a_source_just_written(dataset: Path) -> None:
    """Blocks that are not in the pool yet are waited for, and shared then."""
    with FileTool(dataset, zfs=True) as tool:
        tool.call("write", dataset / "source", 0, 16 * MIB, 1)
        assert tool.clone("clone", "fast", dataset / "source", dataset, "clone").cloned == 16 * MIB
    assert blocks_of(dataset / "source") == blocks_of(dataset / "clone")


def test_a_source_just_written_where_the_kernel_does_not_wait(dataset: Path, zfs_parameter: Callable[[str, int], None]) -> None:
    zfs_parameter("zfs_bclone_wait_dirty", 0)
    with FileTool(dataset, zfs=True) as tool:
        tool.call("write", dataset / "source", 0, 16 * MIB, 1)
        assert tool.clone("clone", "fast", dataset / "source", dataset, "clone").cloned == 16 * MIB
    assert blocks_of(dataset / "source") == blocks_of(dataset / "clone")


def test_across_datasets_of_a_pool(make_dataset: Callable[..., Path]) -> None:
    """Shared, and known to be: the kernel does not say, its statistics do. Records stay as the source's are."""
    one, other = make_dataset(), make_dataset(recordsize="16K")
    disk_like(one / "source", 8, 4)
    with FileTool(one, other, zfs=True) as tool:
        found = tool.clone("clone", "fast", one / "source", other, "clone")
        assert (found.cloned, found.copied) == (32 * MIB, 0)
        assert tool.number("shared_bytes") == 8 * MIB
    assert blocks_of(one / "source") == blocks_of(other / "clone")
    assert (other / "clone").stat().st_blksize == RECORD


def test_what_was_copied_is_not_called_a_clone(
    make_dataset: Callable[..., Path], zfs_parameter: Callable[[str, int], None]
) -> None:
    """With block cloning off copy_file_range copies silently: told as copied, holes kept, and refused where it must share."""
    zfs_parameter("zfs_bclone_enabled", 0)
    one, other = make_dataset(), make_dataset()
    disk_like(one / "source", 8, 4)
    with FileTool(one, other, zfs=True) as tool:
        for destination, reason in ((other, "other_file_system"), (one, "not_supported")):
            with pytest.raises(Refused):
                tool.clone("clone", "fast", one / "source", destination, "clone")
            assert not (destination / "clone").exists()
            found = tool.clone("clone", "full", one / "source", destination, "clone")
            assert (found.cloned, found.copied, found.holes) == (0, 8 * MIB, 24 * MIB)
            assert dict(found.fallback) == {reason: 8 * MIB}
            assert filecmp.cmp(one / "source", destination / "clone", shallow=False)
            assert not set(blocks_of(one / "source").values()) & set(blocks_of(destination / "clone").values())
        tool.call("maintain")
        assert tool.number("shared_bytes") == 0


def test_across_pools(make_dataset: Callable[..., Path], other_pool: Pool, tmp_path: Path) -> None:
    one, other = make_dataset(), tmp_path / "other"
    run("zfs", "create", "-o", f"mountpoint={other}", f"{other_pool.name}/files")
    disk_like(one / "source", 4, 4)
    with FileTool(one, other, zfs=True) as tool:
        with pytest.raises(Refused, match="EXDEV"):
            tool.clone("clone", "fast", one / "source", other, "clone")
        found = tool.clone("clone", "full", one / "source", other, "clone")
        assert (found.copied, found.holes) == (4 * MIB, 12 * MIB)
        assert dict(found.fallback) == {"other_file_system": 4 * MIB}
        tool.call("maintain")
        assert tool.number("shared_bytes") == 0, "what was not shared is not counted"
    assert filecmp.cmp(one / "source", other / "clone", shallow=False)
    run("zfs", "destroy", f"{other_pool.name}/files")


def test_another_record_size_is_copied(make_dataset: Callable[..., Path], pool: Pool) -> None:
    """Into a file that has blocks of its own size already."""
    root = make_dataset(recordsize="16K")
    (root / "small").write_bytes(os.urandom(4 * MIB))
    run("zfs", "set", "recordsize=128K", run("findmnt", "-no", "SOURCE", "--target", str(root)).strip())
    (root / "source").write_bytes(os.urandom(4 * MIB))
    run("zpool", "sync", pool.name)
    with FileTool(root, zfs=True) as tool:
        found = tool.clone("range", "full", root / "source", 0, root / "small", 0, 4 * MIB)
        assert dict(found.fallback) == {"record_size": 4 * MIB}
    assert filecmp.cmp(root / "source", root / "small", shallow=False)


@pytest.mark.parametrize(
    "across",
    [
        pytest.param(False, id="one dataset"),
        pytest.param(True, id="across datasets", marks=pytest.mark.long("13 s; test_across_datasets_of_a_pool is in each run")),
    ],
)
def test_a_source_that_is_written_gives_one_moment(make_dataset: Callable[..., Path], across: bool) -> None:
    """Each pass of a writer stamps all blocks in order: a clone has the front of one, the rest of the last, or is refused."""
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

    writer = threading.Thread(target=write)
    writer.start()
    whole = 0
    try:
        with FileTool(*({dataset: 0, place: 0}), zfs=True) as tool:
            for _ in range(4):
                try:
                    found = tool.clone("clone", "full", source, place, "clone")
                except Refused as refused:
                    assert refused.name == "EBUSY"
                    assert not (place / "clone").exists() or whole
                    continue
                whole += 1
                assert found.cloned == blocks * RECORD
                data = (place / "clone").read_bytes()
                stamps = [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), RECORD)]
                assert len(stamps) == blocks
                assert stamps == sorted(stamps, reverse=True) and stamps[0] - stamps[-1] <= 1, stamps
    finally:
        stop.set()
        writer.join()
    assert whole, "sharing in one call takes one moment"


def test_books_know_the_block_size_of_a_destination(make_dataset: Callable[..., Path], pool: Pool) -> None:
    """As large as what OpenZFS makes of it: so much, and no more, is no longer shared after a small write."""
    one, large = make_dataset(), make_dataset(recordsize="1M")
    (one / "source").write_bytes(os.urandom(4 * MIB))
    with FileTool(large, one, zfs=True) as tool:  # an empty file takes the source's
        tool.clone("clone", "fast", one / "source", large, "clone")
        assert tool.number("shared_bytes") == 4 * MIB
        tool.call("write", large / "clone", MIB, 8192, 1)
        tool.call("maintain")
        assert tool.number("shared_bytes") == 4 * MIB - RECORD
    small = make_dataset(recordsize="16K")
    (small / "source").write_bytes(os.urandom(4 * MIB))
    run("zfs", "set", "recordsize=128K", run("findmnt", "-no", "SOURCE", "--target", str(small)).strip())
    (small / "other").write_bytes(os.urandom(MIB))
    run("zpool", "sync", pool.name)
    with FileTool(small, zfs=True) as tool:  # one that has blocks keeps its own, and the clone of others into it is a copy
        tool.clone("clone", "fast", small / "source", small, "clone")
        assert tool.clone("range", "full", small / "other", 0, small / "clone", 0, MIB).copied == MIB
        tool.call("maintain")
        assert tool.number("shared_bytes") == 3 * MIB
        tool.call("write", small / "clone", 2 * MIB, 8192, 1)
        tool.call("maintain")
        assert tool.number("shared_bytes") == 3 * MIB - (16 << 10)


def test_a_range_up_to_an_odd_end(dataset: Path, pool: Pool) -> None:
    """Its last record is shared too, unless the destination has more there."""
    size = MIB + 5000
    (dataset / "source").write_bytes(os.urandom(size))
    (dataset / "shorter").write_bytes(os.urandom(RECORD * 2))
    (dataset / "longer").write_bytes(os.urandom(2 * MIB))
    run("zpool", "sync", pool.name)
    rest = (dataset / "longer").read_bytes()[size:]
    with FileTool(dataset, zfs=True) as tool:
        assert tool.clone("range", "fast", dataset / "source", 0, dataset / "shorter", 0, size).cloned == size
        found = tool.clone("range", "full", dataset / "source", 0, dataset / "longer", 0, size)
        assert (found.cloned, dict(found.fallback)) == (MIB, {"misaligned": 5000})
    assert filecmp.cmp(dataset / "source", dataset / "shorter", shallow=False)
    assert (dataset / "longer").read_bytes() == (dataset / "source").read_bytes() + rest


@pytest.mark.long("11 s of measuring; test_holes_made_a_moment_ago clones holes in each run")
def test_a_large_disk_with_holes(dataset: Path, pool: Pool, tell: Callable[[str], None]) -> None:
    """10 GiB of a VMDK's kind, a MiB of data after each 15 of hole: how fast, fsync included."""
    source = dataset / "disk-flat.vmdk"
    disk_like(source, 640, 16)
    run("zpool", "sync", pool.name)
    with FileTool(dataset, zfs=True) as tool:
        speeds = []
        for number in range(2):
            found = tool.clone("clone", "fast", source, dataset, f"clone{number}")
            assert found.cloned == 10 << 30
            speeds.append(10 / found.seconds)
        tell(f"10 GiB, 640 MiB of it data, stable: {max(speeds):.1f} GiB/s of logical size, {min(speeds):.1f} at the slowest")
        assert tool.number("shared_bytes") == 2 * 640 * MIB


def test_holes_made_a_moment_ago(dataset: Path, pool: Pool, zfs_parameter: Callable[[str, int], None]) -> None:
    """Blocks whose freeing is not on disk are cloned by OpenZFS itself, and freed twice later (openzfs#18853): not by us."""
    zfs_parameter("zfs_txg_timeout", 30)
    source, clone = dataset / "source", dataset / "clone"
    source.write_bytes(os.urandom(16 * MIB))
    run("zpool", "sync", pool.name)
    with FileTool(dataset, zfs=True) as tool:
        tool.call("punch", source, 4 * MIB, 8 * MIB)
        assert tool.clone("clone", "fast", source, dataset, "clone").cloned == 16 * MIB
        assert filecmp.cmp(source, clone, shallow=False)
        assert not any(clone.read_bytes()[4 * MIB : 12 * MIB])
        tool.call("truncate", source, MIB)
        tool.call("punch", clone, 0, 2 * MIB)
        assert tool.clone("range", "full", source, 0, clone, MIB, MIB).cloned == MIB
        assert clone.read_bytes()[: 2 * MIB] == bytes(MIB) + source.read_bytes()
        assert blocks_of(clone)[MIB] == blocks_of(source)[0]
        tool.clone("into", "fast", source, clone)
        assert filecmp.cmp(source, clone, shallow=False)
        tool.call("remove", source)
        tool.call("remove", clone)
    pool.scrub()
    assert pool_property(pool.name, "bcloneused") == 0
