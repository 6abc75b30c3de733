# SPDX-License-Identifier: Apache-2.0
"""Allocated, shared and unique bytes of files and zvols by the module, compared with where zdb finds the blocks."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import (
    MIB,
    allocated_and_shared,
    dataset_of,
    opened,
    random_blocks,
    references_of,
    write_direct,
)
from integration.kernel.zvol_clone.zvol_clone_ioctl import Space, Stopped, ZvolClone
from support.programs import run
from support.volume_tool import discard
from support.zfs import Pool

_numbers = itertools.count()
_libc = ctypes.CDLL(None, use_errno=True)
FICLONERANGE = 0x4020940D

VolumeOf = Callable[..., Path]
DatasetOf = Callable[..., Path]


@pytest.fixture
def dataset(pool: Pool, tmp_path: Path) -> Iterator[DatasetOf]:
    """Makes mounted datasets, destroyed at the end."""
    made: list[str] = []

    def make(**properties: str) -> Path:
        name = f"{pool.name}/space{next(_numbers)}"
        root = tmp_path / name.replace("/", "-")
        given = {"mountpoint": str(root), "compression": "off", **properties}
        run("zfs", "create", *(word for key, value in given.items() for word in ("-o", f"{key}={value}")), name)
        made.append(name)
        return root

    yield make
    for name in reversed(made):
        run("zfs", "destroy", "-r", name)


def clone(source: Path, destination: Path, length: int = 0, *, at: int = 0, to: int = 0) -> None:
    """FICLONERANGE; length 0: to the end of the source."""
    with opened(source, os.O_RDONLY) as source_fd, opened(destination, os.O_RDWR | os.O_CREAT) as other:
        words = (ctypes.c_int64 * 4)(source_fd, at, length, to)
        assert _libc.ioctl(other, FICLONERANGE, words) == 0, os.strerror(ctypes.get_errno())


def space(device: ZvolClone, path: Path) -> Space:
    """Space of a whole file or zvol."""
    with opened(path, os.O_RDONLY) as fd:
        space_result = device.space(fd)
    assert (space_result.error, space_result.stopped, space_result.bytes_done) == (0, Stopped.COMPLETE, 1 << 62)
    return space_result


def compare(device: ZvolClone, pool: Pool, datasets: dict[str, list[Path]], zvols: list[Path]) -> dict[Path, Space]:
    """Compares all files and zvols with the DVAs of all; returns the module's figures."""
    run("zpool", "sync", pool.name)
    objects: dict[Path, Counter[tuple[str, int]]] = {}
    for name, files in datasets.items():
        references = references_of(name)
        objects |= {path: references[path.stat().st_ino] for path in files}
    for zvol in zvols:
        objects[zvol] = references_of(dataset_of(zvol))[1]
    said = {path: space(device, path) for path in objects}
    for path, blocks in objects.items():
        others = [of for other, of in objects.items() if other is not path]
        assert (said[path].allocated, said[path].shared) == allocated_and_shared(blocks, *others), path
        assert not said[path].dirty
    return said


def name_of(root: Path) -> str:
    return run("findmnt", "-no", "SOURCE", "--target", str(root)).strip()


def test_files_and_zvols_of_one_pool(device: ZvolClone, pool: Pool, dataset: DatasetOf, volume: VolumeOf) -> None:
    """Whole clones, ranges, overwrites, holes, another dataset, small files, compression, copies: all agree with zdb."""
    first, other, double = dataset(), dataset(recordsize="16K", compression="lz4"), dataset(copies="2")
    source, small = first / "source", first / "small"
    source.write_bytes(random_blocks(4 * MIB))
    small.write_bytes(random_blocks(3000))
    (other / "source").write_bytes(random_blocks(MIB) + bytes(MIB) + b"zvaai " * 100000)
    (double / "source").write_bytes(random_blocks(MIB))
    zvols = [volume(16, filled=8), volume(16)]
    run("zpool", "sync", pool.name)
    clone(source, first / "whole")
    clone(source, first / "shifted", MIB, at=MIB, to=2 * MIB)
    with opened(source, os.O_RDONLY) as read, opened(other / "from-there", os.O_RDWR | os.O_CREAT) as write:
        assert os.copy_file_range(read, write, 2 * MIB) == 2 * MIB, "FICLONERANGE does not cross mounts"
    clone(small, first / "small-clone")
    clone(other / "source", other / "clone")
    clone(double / "source", double / "clone")
    with opened(zvols[0], os.O_RDONLY) as read, opened(zvols[1], os.O_RDWR) as write:
        assert device.clone(read, write, 8 * MIB).error == 0
    run("zpool", "sync", pool.name)
    files = {name_of(root): sorted(root.iterdir()) for root in (first, other, double)}
    said = compare(device, pool, files, zvols)
    assert said[first / "whole"].shared == said[source].shared == 4 * MIB
    assert said[zvols[1]].shared == 8 * MIB

    with (first / "whole").open("r+b") as file:
        file.write(random_blocks(MIB))
    (first / "shifted").unlink()
    with opened(zvols[1], os.O_RDWR | os.O_DIRECT) as fd:
        write_direct(fd, random_blocks(MIB), MIB)
        discard(fd, 4 * MIB, MIB)
    files[name_of(first)].remove(first / "shifted")
    said = compare(device, pool, files, zvols)
    assert said[first / "whole"].allocated - said[first / "whole"].shared == MIB
    assert said[zvols[1]].allocated == 7 * MIB and said[zvols[1]].shared == 6 * MIB


def test_bytes_that_a_snapshot_also_holds(device: ZvolClone, pool: Pool, dataset: DatasetOf) -> None:
    root = dataset()
    file = root / "file"
    file.write_bytes(random_blocks(2 * MIB))
    run("zfs", "snapshot", f"{name_of(root)}@first")
    assert space(device, file).snapshot == 2 * MIB
    with file.open("r+b") as writing:
        writing.write(random_blocks(MIB))
    run("zpool", "sync", pool.name)
    result = space(device, file)
    assert (result.allocated, result.shared, result.snapshot) == (2 * MIB, 0, MIB)


def test_deduplicated_blocks_are_apart(device: ZvolClone, pool: Pool, dataset: DatasetOf) -> None:
    root = dataset(dedup="on", checksum="sha256")
    data = random_blocks(MIB)
    for name in ("one", "two"):
        (root / name).write_bytes(data)
    run("zpool", "sync", pool.name)
    result = space(device, root / "one")
    assert (result.allocated, result.shared, result.deduplicated) == (MIB, 0, MIB)


def test_encrypted_files(device: ZvolClone, pool: Pool, dataset: DatasetOf, tmp_path: Path) -> None:
    """The third DVA of an encrypted block is salt."""
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    root = dataset(encryption="on", keyformat="raw", keylocation=f"file://{key}")
    (root / "source").write_bytes(random_blocks(2 * MIB))
    run("zpool", "sync", pool.name)
    clone(root / "source", root / "clone", MIB)
    run("zpool", "sync", pool.name)
    result = space(device, root / "source")
    assert (result.allocated, result.shared) == (2 * MIB, MIB)


def test_a_range_and_its_bounds(device: ZvolClone, pool: Pool, dataset: DatasetOf) -> None:
    root = dataset()
    file = root / "file"
    file.write_bytes(random_blocks(4 * MIB))
    os.truncate(file, 1 << 40)
    run("zpool", "sync", pool.name)
    clone(file, root / "clone", MIB, at=MIB)
    run("zpool", "sync", pool.name)
    with opened(file, os.O_RDONLY) as fd:
        assert device.space(fd, MIB, MIB).shared == MIB
        assert device.space(fd, 2 * MIB, MIB).shared == 0
        part = device.space(fd, MIB - 1, 2)
        assert (part.allocated, part.shared) == (2 * 131072, 131072), "blocks that lie in the range by a part"
        assert device.space(fd, 1 << 41, MIB).allocated == 0
        short = device.space(fd, 0, 4 * MIB, budget=1)
        assert short.error == 0 and 0 < short.bytes_done <= 4 * MIB
        for offset, length in ((0, 0), (1 << 63, MIB), (2**64 - 4096, 8192)):
            refused = device.space(fd, offset, length)
            assert (refused.error, refused.stopped) == (errno.EINVAL, Stopped.OUT_OF_RANGE)
        assert device.space(fd, version=1).error == errno.ENOTTY
        assert device.space(fd, flags=1).stopped == Stopped.BAD_REQUEST


def test_refusals(device: ZvolClone, dataset: DatasetOf) -> None:
    root = dataset()
    (root / "file").write_bytes(b"text")
    for path, flags, error, stopped in (
        (Path("/etc/passwd"), os.O_RDONLY, errno.ENODEV, Stopped.NOT_ZFS),
        (root, os.O_RDONLY, errno.ENOTBLK, Stopped.NOT_BLOCK_DEVICE),
        (root / "file", os.O_WRONLY, errno.EBADF, Stopped.BAD_DESCRIPTOR),
        (root / "file", os.O_PATH, errno.EBADF, Stopped.BAD_DESCRIPTOR),
    ):
        with opened(path, flags) as fd:
            refused = device.space(fd)
        assert (refused.error, refused.stopped) == (error, stopped), path
    assert device.space(12345).stopped == Stopped.BAD_DESCRIPTOR


def test_dirty_blocks_are_reported_and_a_rollback_does_not_wait(
    device: ZvolClone, pool: Pool, dataset: DatasetOf, zfs_parameter: Callable[[str, int], None]
) -> None:
    zfs_parameter("zfs_txg_timeout", 30)
    root = dataset()
    file = root / "file"
    file.write_bytes(random_blocks(MIB))
    run("zfs", "snapshot", f"{name_of(root)}@before")
    (root / "late").write_bytes(random_blocks(MIB))
    with opened(root / "late", os.O_RDONLY) as late, opened(file, os.O_RDWR) as fd:
        os.pwrite(fd, random_blocks(4096), 0)
        assert device.space(fd).dirty
        run("zfs", "rollback", f"{name_of(root)}@before")
        gone = device.space(late)
        assert (gone.error, gone.stopped) == (errno.ENXIO, Stopped.REMOVED)
        assert device.space(fd).allocated == MIB


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long("a longer race of queries with clones"))])
def test_during_clones_removals_and_syncs(device: ZvolClone, pool: Pool, dataset: DatasetOf, seconds: int) -> None:
    """An unchanged file keeps its figures, whatever its neighbours do; unique bytes of a shared file never exceed the total."""
    root, rng = dataset(recordsize="16K"), random.Random(int(os.environ.get("ZVAAI_SEED", "1")))
    still, source = root / "still", root / "source"
    still.write_bytes(random_blocks(2 * MIB))
    source.write_bytes(random_blocks(2 * MIB))
    clone_of_still = root / "clone-of-still"
    run("zpool", "sync", pool.name)
    clone(still, clone_of_still, MIB)
    run("zpool", "sync", pool.name)
    stop = threading.Event()
    failed: list[BaseException] = []

    def change() -> None:
        try:
            while not stop.is_set():
                target = root / f"clone{rng.randrange(8)}"
                if target.exists() and rng.random() < 0.5:
                    target.unlink()
                else:
                    clone(source, target)
                if rng.random() < 0.4:
                    run("zpool", "sync", pool.name)
        except BaseException as failure:
            failed.append(failure)

    worker = threading.Thread(target=change)
    worker.start()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    queries = 0
    while not stop.is_set() or queries <= 20:
        result, other = space(device, still), space(device, source)
        assert (result.allocated, result.shared) == (2 * MIB, MIB)
        assert other.allocated == 2 * MIB and other.shared <= 2 * MIB
        queries += 1
    worker.join()
    assert not failed
