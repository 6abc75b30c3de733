# SPDX-License-Identifier: Apache-2.0
"""Heartbeats on a datastore while 200 files of a thick one are created and grown. zfs(8) hangs all the time."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.nfs.datastores import admitted_for, cloned, control_block, counted, thick_dataset
from support.ganesha import Daemon, Export, mounted_dataset, running_ganesha
from support.onc_rpc import Nfs3, mount
from support.programs import run
from support.short_pool import MIB, ShortPool

from appliance.dataplane.vaai_nas import VaaiNas

FILES, HOSTS = 200, 20
GROWN = 2 * MIB
LONGEST_S = 8
"""VMFS drops a heartbeat after it."""


@pytest.fixture
def heartbeats(tmp_path: Path) -> Path:
    """A file that records each run of `hanging_zfs`."""
    return tmp_path / "calls"


@pytest.fixture
def hanging_zfs(tmp_path: Path, heartbeats: Path) -> Path:
    """A program that never ends, as zfs(8) on a hanging pool."""
    program = tmp_path / "bin" / "zfs"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{heartbeats}\nexec sleep infinity\n')
    program.chmod(0o755)
    return program


@contextlib.contextmanager
def instead_of_zfs(program: Path) -> Iterator[None]:
    """Replaces zfs(8) at its path by the program."""
    real = shutil.which("zfs")
    assert real
    run("mount", "--bind", program, real)
    try:
        yield
    finally:
        run("umount", real)


class Heartbeats(threading.Thread):
    """Small stable writes in place, in sequence."""

    def __init__(self, export: str) -> None:
        super().__init__()
        self.stop = threading.Event()
        self.longest, self.count = 0.0, 0
        self._export = export

    def run(self) -> None:
        with Nfs3() as nfs:
            file = nfs.create(mount(self._export), "heartbeat")
            while not self.stop.is_set():
                begun = time.monotonic()
                nfs.write(file, 0, os.urandom(512))
                self.longest, self.count = max(self.longest, time.monotonic() - begun), self.count + 1


def grow(number: int, failed: list[BaseException]) -> None:
    """Load of a host: its files, each made large and written at its end."""
    try:
        root = mount("/thick")
        with Nfs3() as nfs:
            for file in range(number, FILES, HOSTS):
                handle = nfs.create(root, f"vm{file}")
                nfs.truncate(handle, GROWN)
                nfs.write(handle, GROWN, b"end" * 100)
    except BaseException as failure:
        failed.append(failure)


def test_no_heartbeat_waits_for_files_that_grow_or_for_zfs(
    small_pool: ShortPool, tmp_path: Path, hanging_zfs: Path, heartbeats: Path, report_line: Callable[[str], None]
) -> None:
    size, socket = FILES * 3 * MIB, tmp_path / "vaai-nas.socket"
    failed: list[BaseException] = []
    with (
        thick_dataset(f"{small_pool.name}/thick", size // 4) as thick,
        mounted_dataset(f"{small_pool.name}/thin", compression="off") as thin,
        running_ganesha(
            tmp_path / "ganesha",
            [Export(1, thick, "/thick", thick_size=size), Export(2, thin, "/thin")],
            Daemon.PATCHED,
            environment={"PATH": f"{hanging_zfs.parent}:{os.environ['PATH']}"},
            blocks=control_block(socket),
        ),
        instead_of_zfs(hanging_zfs),
    ):
        control = VaaiNas(socket)
        assert counted(control).admitted == 0
        beats = Heartbeats("/thin")
        hosts = [threading.Thread(target=grow, args=(number, failed)) for number in range(HOSTS)]
        begun = time.monotonic()
        beats.start()
        for host in hosts:
            host.start()
        for host in hosts:
            host.join()
        seconds = time.monotonic() - begun
        beats.stop.set()
        beats.join()
        assert not failed
        assert counted(control).admitted == admitted_for(*[GROWN + 300] * FILES)
        assert cloned(control, "heartbeat", "clone", fast=True, export=2) == {"cloned": 512}
        control.statistics(2, "clone")
        assert not heartbeats.exists(), f"zfs(8) was run: {heartbeats.read_text()}"
    report_line(f"{FILES} files in {seconds:.1f} s; of {beats.count} heartbeats the longest took {beats.longest * 1000:.0f} ms")
    assert beats.count > 20 and beats.longest < LONGEST_S
