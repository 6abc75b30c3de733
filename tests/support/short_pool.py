"""A pool that is easily filled, and somebody who fills it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

from support.programs import run, wait_for
from support.zfs import Pool


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
        assert self._idle.wait(60)

    def remove(self) -> None:
        """Pauses, and removes the file."""
        self.pause()
        self.path.unlink()

    def go_on(self) -> None:
        """Fills again."""
        self._paused.clear()
