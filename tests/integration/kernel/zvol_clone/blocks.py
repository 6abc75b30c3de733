# SPDX-License-Identifier: Apache-2.0
"""Addresses of a zvol's blocks, and reading and writing them."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.programs import ProgramFailed, run, wait_for

MIB = 1 << 20
BLKRRPART = 0x125F
"""linux/fs.h: read the partition table again"""
_BLOCK = re.compile(r"^\s*([0-9a-f]+)\s+L0\s+(\S+)")
_OBJECT = re.compile(r"^ +(\d+) +\d+ +\S+ +\S+ +\S+ +\S+ +\S+ +[\d.]+ +\S")
_REFERENCE = re.compile(r"^\s*[0-9a-f]+\s+L0\s+(\d+:[0-9a-f]+:[0-9a-f]+)((?:\s+\d+:[0-9a-f]+:[0-9a-f]+)*)")


def dataset_of(device: Path) -> str:
    """The dataset of a /dev/zvol path."""
    return str(device.relative_to("/dev/zvol"))


def destroy(dataset: str) -> None:
    """Removes a zvol after udev, which probes each volume after a writer's close, has closed it."""

    def gone() -> bool:
        with suppress(ProgramFailed):
            run("zfs", "destroy", "-r", dataset)
            return True
        return False

    wait_for(gone, f"{dataset} is free to be destroyed")


def dvas(dataset: str) -> dict[int, str]:
    """DVA (vdev:offset:size) of every allocated block of a zvol by its byte offset, as zdb reads it from the disk."""
    pool = dataset.partition("/")[0]
    run("zpool", "sync", pool)
    dvas_by_offset = {}
    for line in run("zdb", "-ddddd", dataset, "1", timeout=300).splitlines():
        if match := _BLOCK.match(line):
            dvas_by_offset[int(match[1], 16)] = match[2]
    assert dvas_by_offset or "L0" not in run("zdb", "-ddddd", dataset, "1"), "zdb prints blocks in a way not understood here"
    return dvas_by_offset


def references_of(dataset: str) -> dict[int, Counter[tuple[str, int]]]:
    """Blocks of every file of a dataset, or of a zvol: first DVA and bytes of all copies, as zdb reads them."""
    counters: dict[int, Counter[tuple[str, int]]] = {0: Counter()}
    current = 0
    for line in run("zdb", "-dddddd", dataset, timeout=300).splitlines():
        if match := _OBJECT.match(line):
            current = int(match[1])
            counters[current] = Counter()
        elif match := _REFERENCE.match(line):
            size = sum(int(dva.split(":")[2], 16) for dva in (match[1] + match[2]).split())
            counters[current][match[1], size] += 1
    return counters


def allocated_and_shared(*objects: Counter[tuple[str, int]]) -> tuple[int, int]:
    """Allocated bytes of the first, and those of them with more than one reference among all."""
    everywhere = sum(objects, Counter[tuple[str, int]]())
    allocated = sum(size * count for (_, size), count in objects[0].items())
    return allocated, sum(size * count for (dva, size), count in objects[0].items() if everywhere[dva, size] > 1)


def shared(first: dict[int, str], other: dict[int, str], shift: int = 0) -> int:
    """Number of blocks of `one` that are identical in `other`, `shift` bytes further on."""
    return sum(other.get(offset + shift) == dva for offset, dva in first.items())


def pool_property(pool: str, name: str) -> int:
    """A property of a pool as a number."""
    run("zpool", "sync", pool)
    return int(run("zpool", "get", "-Hpo", "value", name, pool))


@contextmanager
def opened(device: Path, flags: int) -> Iterator[int]:
    """A file descriptor, closed at the end."""
    fd = os.open(device, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def partition_of(device: Path) -> Path:
    """Makes a partition in a zvol without data."""
    with opened(device, os.O_RDWR) as fd:
        # A table of MS-DOS with one partition: of Linux, 4096 sectors from 2048.
        os.pwrite(fd, struct.pack("<4xB3xII", 0x83, 2048, 4096), 446)
        os.pwrite(fd, b"\x55\xaa", 510)
        os.fsync(fd)
        fcntl.ioctl(fd, BLKRRPART)
    run("udevadm", "settle")
    return Path(f"{device}-part1")


def random_blocks(length: int) -> bytes:
    """Incompressible data."""
    return os.urandom(length)


def write_direct(device: Path | int, data: bytes, offset: int = 0) -> None:
    """Writes past the page cache. By descriptor (O_DIRECT) the data is in zfs, not on disk; by path the last close syncs.

    The last close may be udev's, a moment later: data that must be on disk needs a `zpool sync`.
    """
    fd = device if isinstance(device, int) else os.open(device, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, MIB) as page:
            for start in range(0, len(data), MIB):
                chunk = data[start : start + MIB]
                page[: len(chunk)] = chunk
                with memoryview(page) as view, view[: len(chunk)] as part:
                    assert os.pwrite(fd, part, offset + start) == len(chunk)
    finally:
        if fd is not device:
            os.close(fd)


def read_direct(device: Path, length: int, offset: int = 0) -> bytes:
    """Reads past the page cache, from zfs."""
    pieces = []
    with opened(device, os.O_RDONLY | os.O_DIRECT) as fd, mmap.mmap(-1, MIB) as page:
        for start in range(0, length, MIB):
            expected = min(MIB, length - start)
            with memoryview(page) as view, view[:expected] as part:
                assert os.preadv(fd, [part], offset + start) == expected
            pieces.append(page[:expected])
    return b"".join(pieces)
