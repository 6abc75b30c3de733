# SPDX-License-Identifier: Apache-2.0
"""Backing stores of a benchmark's LUNs: zvols in the guest, files of XFS natively; and the kernel's way to clone them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.programs import CACHE, IN_GUEST, run

MIB, GIB = 1 << 20, 1 << 30
FICLONERANGE = 0x4020940D
"""_IOW(0x94, 13, struct file_clone_range)"""


def timed(work: Callable[[], object]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Store:
    """Backing store of the LUNs: source and destination, and how to sync them."""

    def __init__(self, source: Path, destination: Path, sync: Callable[[], None], empty: Callable[[Path], None]) -> None:
        self.source, self.destination, self.sync, self.empty = source, destination, sync, empty

    def fill(self, path: Path, length: int, run_bytes: int = 0, stride: int = 0) -> None:
        """Writes different blocks of noise to all of it, or to the first `run_bytes` of each `stride`, and syncs."""
        self.empty(path)
        data = bytearray(os.urandom(MIB))
        with path.open("r+b", buffering=0) as volume:
            for at in range(0, length, MIB):
                if not stride or at % stride < run_bytes:
                    for block in range(0, MIB, 4096):
                        data[block : block + 8] = (at + block).to_bytes(8)
                    os.pwrite(volume.fileno(), data, at)
            os.fsync(volume.fileno())
        self.sync()


def clone_bound(store: Store, length: int, step: int, run_bytes: int = 0, stride: int = 0) -> float:
    """Seconds of the kernel's clone of the same ranges in the same steps, without a target."""
    from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone  # noqa: PLC0415  # of the guest

    places = [at for at in range(0, length, step) if not stride or at % stride < run_bytes]
    with store.source.open("rb") as source, store.destination.open("r+b") as destination:

        def work() -> None:
            if IN_GUEST:
                device = ZvolClone()
                for at in places:
                    outcome = device.clone(source.fileno(), destination.fileno(), step, source_offset=at, destination_offset=at)
                    assert outcome.bytes_done == step, outcome
                device.close()
            else:
                for at in places:
                    request = struct.pack("=qQQQ", source.fileno(), at, step, at)
                    fcntl.ioctl(destination.fileno(), FICLONERANGE, request)
            os.fsync(destination.fileno())
            store.sync()

        return timed(work)


@contextmanager
def on_zvols(length: int, volblocksize: str) -> Iterator[Store]:
    """Two zvols on the guest's first disk, with zvol_clone loaded."""
    from integration.kernel.zvol_clone import kernel_module  # noqa: PLC0415  # of the guest
    from support.zfs import Pool  # noqa: PLC0415

    if not kernel_module.loaded():
        loading = kernel_module.load()
        assert loading.returncode == 0, loading.stderr
    pool = Pool("bench", os.environ["ZVAAI_DISKS"].split()[0])
    core, nvpair = ctypes.CDLL("libzfs_core.so.3"), ctypes.CDLL("libnvpair.so.3")
    nvpair.fnvlist_alloc.restype = ctypes.c_void_p
    assert core.libzfs_core_init() == 0
    arguments = ctypes.c_void_p(nvpair.fnvlist_alloc())
    nvpair.fnvlist_add_boolean_value(arguments, b"force", 0)

    def sync() -> None:  # lzc_sync(): in the guest starting `zpool` takes longer than a small sync
        assert core.lzc_sync(pool.name.encode(), arguments, None) == 0

    def empty(device: Path) -> None:
        run("blkdiscard", "--force", device)
        sync()

    names = ("source", "destination")
    source, destination = (pool.create_volume(name, length // MIB, volblocksize=volblocksize) for name in names)
    yield Store(source, destination, sync, empty)
    for name in names:
        pool.destroy_volume(name)
    pool.destroy()


@contextmanager
def on_files(length: int) -> Iterator[Store]:
    """Two files on an XFS file system of a loop device, which shares blocks."""
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        image, mounted = Path(name, "image"), Path(name, "mounted")
        with image.open("wb") as file:
            file.truncate(3 * length + GIB)
        run("mkfs.xfs", "-q", "-m", "reflink=1", image)
        mounted.mkdir()
        run("mount", "-o", "loop", image, mounted)

        def sync() -> None:
            run("sync", "-f", mounted)

        def empty(file: Path) -> None:
            run("fallocate", "--punch-hole", "--offset", "0", "--length", str(length), file)
            sync()

        try:
            files = [mounted / name for name in ("source", "destination")]
            for path in files:
                with path.open("wb") as made:
                    made.truncate(length)
            yield Store(files[0], files[1], sync, empty)
        finally:
            run("umount", mounted)
