# SPDX-License-Identifier: Apache-2.0
"""A pool that is easily filled, somebody who fills it, and what the target knows of LUNs in it."""

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
    """A pool on one disk with a dataset of files beside what it serves."""

    def __init__(self, name: str, disk: str, mount_point: Path) -> None:
        super().__init__(name, disk)
        self.files = mount_point
        self._added: list[Path] = []
        run("zfs", "create", "-o", f"mountpoint={mount_point}", "-o", "compression=off", f"{name}/files")

    def number(self, dataset: str, name: str) -> int:
        """A property of a dataset of the pool as a number."""
        return int(run("zfs", "get", "-Hpo", "value", name, f"{self.name}/{dataset}" if dataset else self.name))

    def add_disk(self, disk: Path, size_mib: int) -> None:
        """Makes the pool larger by a new file, which goes with it."""
        with disk.open("wb") as file:
            file.truncate(size_mib << 20)
        self._added.append(disk)
        run("zpool", "add", "-f", self.name, str(disk))

    def destroy(self) -> None:
        """Removes the pool and what was added to it."""
        run("udevadm", "settle")
        super().destroy()
        for disk in self._added:
            disk.unlink()

    @property
    def available(self) -> int:
        """Bytes left for everybody."""
        return self.number("", "available")


class Filler:
    """Writes a file whenever there is any space for it. Use as a context manager."""

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
        """Returns once the pool has taken no more, several times in a row."""
        before = self.refusals
        wait_for(lambda: self.refusals > before + 10, "the pool is full of files", timeout=240)

    def pause(self) -> None:
        """Nothing is written before `go_on`."""
        self._idle.clear()
        self._paused.set()
        assert self._idle.wait(180)

    def remove(self) -> None:
        """Pauses, and removes the file. Where more is promised than there is, that needs space too, and waits for it."""
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
        """Fills again."""
        self._paused.clear()


def space(target: Target, number: int = 0) -> dict[str, Any]:
    """What the target knows of the space of a LUN; empty while that is nothing."""
    luns = target.call("space.get")["luns"]
    return next((dict(lun) for lun in luns if lun["number"] == number), {})


def is_held(target: Target, number: int = 0) -> bool:
    """Whether most of a LUN's headroom for overwrites is reserved."""
    known = space(target, number)
    return bool(known) and known["held_bytes"] >= known["headroom_bytes"] * 3 // 4


async def ready(session: Session) -> list[tuple[int, int, int]]:
    """Takes the unit attentions that are pending; they come back."""
    taken = []
    while (response := await session.execute(cdb.TEST_UNIT_READY)).status != GOOD:
        taken.append(response.sense_codes)
    return taken


async def write(session: Session, offset: int, data: bytes) -> Response:
    """WRITE(16) of bytes at a byte offset."""
    return await session.execute(cdb.sixteen(0x8A, offset // BLOCK, len(data) // BLOCK), data_out=data)


async def in_full(session: Session, offset: int, mebibytes: int) -> None:
    """Writes so much that nobody can compress."""
    for at in range(mebibytes):
        response = await write(session, offset + at * MIB, os.urandom(MIB))
        assert response.status == GOOD, response.sense_codes
