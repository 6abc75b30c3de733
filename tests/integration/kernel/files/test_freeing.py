# SPDX-License-Identifier: Apache-2.0
"""Hosts truncate and deallocate files while these are cloned in many steps: no block is freed twice (openzfs#18853)."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.nfs.datastores import control_block
from integration.kernel.zvol_clone.blocks import pool_property
from support.ganesha import Daemon, Export, mounted_dataset, running_ganesha
from support.libnfs import mounted
from support.nfs_mount import kernel_mount
from support.programs import run, wait_for
from support.short_pool import MIB, ShortPool

from appliance.dataplane.vaai_nas import FileRefusedError, VaaiNas

SIZE = 256 * MIB
"""Four steps of a clone."""
EVERY = 8 * MIB


@pytest.fixture
def store(small_pool: ShortPool) -> Iterator[Path]:
    """A dataset of the small pool."""
    with mounted_dataset(f"{small_pool.name}/store", compression="off") as place:
        yield place


class Syncer(threading.Thread):
    """Ends transaction groups continuously: a block is freed twice if it is cloned while its free is synced."""

    def __init__(self, pool: str) -> None:
        super().__init__()
        self.stop = threading.Event()
        self._pool = pool

    def run(self) -> None:
        while not self.stop.is_set():
            run("zpool", "sync", self._pool)


class Freer(threading.Thread):
    """A host that truncates, deallocates and rewrites ranges of a file until it is stopped."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__()
        self.stop = threading.Event()
        self.done = 0
        self._path, self._choose = path, random.Random(seed)

    def run(self) -> None:
        while not self.stop.is_set():
            offset = self._choose.randrange(SIZE // MIB) * MIB
            if self._choose.random() < 0.3:
                os.truncate(self._path, offset)
                os.truncate(self._path, SIZE)
            else:
                run("fallocate", "--punch-hole", "--offset", str(offset), "--length", str(16 * MIB), self._path)
            with self._path.open("r+b") as file:
                file.seek(offset // EVERY * EVERY)
                file.write(os.urandom(MIB))
                os.fsync(file.fileno())
            self.done += 1


def has_ended(control: VaaiNas, job: int) -> Callable[[], bool]:
    """Whether a clone has ended."""
    return lambda: not control.job(1, job).active


@pytest.mark.parametrize("freed", [60, pytest.param(2000, marks=pytest.mark.long("5 min: more of the same"))])
def test_no_block_is_freed_twice(
    small_pool: ShortPool, store: Path, tmp_path: Path, seed: int, freed: int, report_line: Callable[[str], None]
) -> None:
    socket, ended = tmp_path / "vaai-nas.socket", {"complete": 0, "failed": 0}
    control = VaaiNas(socket)
    with (
        running_ganesha(tmp_path / "ganesha", [Export(1, store, "/one")], Daemon.PATCHED, blocks=control_block(socket)),
        kernel_mount("/one", tmp_path / "mnt", "4.2") as host,
        mounted("/one") as client,
    ):
        with (store / "source").open("wb") as file:
            for offset in range(0, SIZE, EVERY):
                os.pwrite(file.fileno(), os.urandom(MIB), offset)
            file.truncate(SIZE)
        freer, syncer = Freer(host / "source", seed), Syncer(small_pool.name)
        for thread in (freer, syncer):
            thread.start()
        for number in range(10 * freed):
            if (freer.done >= freed and ended["complete"] > 5) or not freer.is_alive():
                break
            with contextlib.suppress(FileRefusedError):
                job = control.clone(1, "source", f"clone{number}", request=f"{number:032x}", fast=bool(number % 2)).job
                wait_for(has_ended(control, job), "the clone ends")
                ended[control.job(1, job).state] += 1
            for clone in store.glob("clone*") if number % 3 else ():
                client.unlink(f"/{clone.name}")
        for thread in (freer, syncer):
            thread.stop.set()
            thread.join()
        assert freer.done >= freed and ended["complete"] > 5, ended
        for path in store.iterdir():
            client.unlink(f"/{path.name}")
    wait_for(lambda: pool_property(small_pool.name, "bcloneused") == 0, "nothing is shared any more")
    small_pool.scrub()
    run("zpool", "export", small_pool.name)
    try:
        counted = run("zdb", "-e", "-p", tmp_path, "-b", small_pool.name)
    finally:
        run("zpool", "import", "-d", tmp_path, small_pool.name)
    assert "No leaks" in counted, counted
    report_line(f"{freer.done} ranges freed during {ended}")
