# SPDX-License-Identifier: Apache-2.0
"""A small pool, a program that fills it, and the target's report on the space of LUNs in it."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from support import cdb
from support.programs import run, wait_for
from support.raw_initiator import GOOD, Response, Session
from support.target import Target
from support.zfs import Pool

MIB = 1 << 20
BLOCK = 512


class ShortPool(Pool):
    """A pool on one disk with a dataset of files next to the served volumes."""

    def __init__(self, name: str, disk: str, mount_point: Path) -> None:
        super().__init__(name, disk)
        self.files = mount_point
        self._added: list[Path] = []
        run("zfs", "create", "-o", f"mountpoint={mount_point}", "-o", "compression=off", f"{name}/files")

    def number(self, dataset: str, name: str) -> int:
        """A property of a dataset of the pool as a number."""
        return int(run("zfs", "get", "-Hpo", "value", name, f"{self.name}/{dataset}" if dataset else self.name))

    def add_disk(self, disk: Path, size_mib: int) -> None:
        """Adds a new file as a vdev; `destroy` removes the file."""
        with disk.open("wb") as file:
            file.truncate(size_mib << 20)
        self._added.append(disk)
        run("zpool", "add", "-f", self.name, str(disk))

    def destroy(self) -> None:
        """Removes the pool and the added files."""
        run("udevadm", "settle")
        super().destroy()
        for disk in self._added:
            disk.unlink()

    @property
    def available(self) -> int:
        """Available bytes of the pool."""
        return self.number("", "available")


class Filler:
    """Writes a file whenever the pool has space. Use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "filler"
        self.refusals = 0
        self._stop = threading.Event()
        self._paused = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Filler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        data = os.urandom(1 << 17)
        while not self._stop.is_set():
            if self._paused.is_set():
                self._idle.set()
                self._stop.wait(0.05)
                continue
            try:
                with self.path.open("ab", buffering=0) as file:
                    while not self._stop.is_set() and not self._paused.is_set():
                        file.write(data)
            except OSError:
                self.refusals += 1
                self._stop.wait(0.05)

    def wait_until_refused(self) -> None:
        """Returns when the pool has refused several writes in a row."""
        before = self.refusals
        wait_for(lambda: self.refusals > before + 10, "the pool is full of files", timeout=240)

    def pause(self) -> None:
        self._idle.clear()
        self._paused.set()
        assert self._idle.wait(180)

    def remove(self) -> None:
        """Pauses and removes the file. In an overcommitted pool the removal needs space and waits for it."""
        self.pause()
        wait_for(self._removed, "the file can be removed", timeout=300)

    def _removed(self) -> bool:
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True

    def go_on(self) -> None:
        self._paused.clear()


def space(target: Target, number: int = 0) -> dict[str, Any]:
    """The target's report on the space of a LUN; empty before the first one."""
    luns = target.call("space.get")["luns"]
    return next((dict(lun) for lun in luns if lun["number"] == number), {})


def is_held(target: Target, number: int = 0) -> bool:
    """Whether most of a LUN's headroom for overwrites is reserved."""
    known = space(target, number)
    return bool(known) and known["held_bytes"] >= known["headroom_bytes"] * 3 // 4


async def ready(session: Session) -> list[tuple[int, int, int]]:
    """Takes the pending unit attentions; returns them."""
    taken = []
    while (response := await session.execute(cdb.TEST_UNIT_READY)).status != GOOD:
        taken.append(response.sense_codes)
    return taken


async def write(session: Session, offset: int, data: bytes) -> Response:
    """WRITE(16) of bytes at a byte offset."""
    return await session.execute(cdb.sixteen(0x8A, offset // BLOCK, len(data) // BLOCK), data_out=data)


async def in_full(session: Session, offset: int, mebibytes: int) -> None:
    """Writes incompressible data."""
    for at in range(mebibytes):
        response = await write(session, offset + at * MIB, os.urandom(MIB))
        assert response.status == GOOD, response.sense_codes
