# SPDX-License-Identifier: Apache-2.0
"""A pool whose device can be removed, and put back, by device-mapper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.kernel.zvol_clone.blocks import MIB
from support.programs import run, wait_for
from support.zfs import Pool

SIZE_BYTES = 512 * MIB


class RemovablePool(Pool):
    """A pool on a mapped loop device. While that is removed every request to it fails, and ZFS suspends the pool."""

    def __init__(self, folder: Path) -> None:
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        run("modprobe", "loop")
        run("modprobe", "dm-mod")
        self._loop = run("losetup", "--find", "--show", image).strip()
        run("dmsetup", "create", "removable", "--table", self._table("linear"))
        super().__init__("removable", "/dev/mapper/removable")

    def _table(self, kind: str) -> str:
        where = f" {self._loop} 0" if kind == "linear" else ""
        return f"0 {SIZE_BYTES // 512} {kind}{where}"

    def _become(self, kind: str) -> None:
        run("dmsetup", "suspend", "--noflush", "--nolockfs", "removable")
        run("dmsetup", "load", "removable", "--table", self._table(kind))
        # udev may be waiting for a LUN of the suspended pool: it reads the partition table of each disk that was written.
        run("dmsetup", "resume", "--noudevsync", "removable")

    @contextmanager
    def removed(self) -> Iterator[None]:
        """The device is away meanwhile."""
        self._become("error")
        try:
            yield
        finally:
            self._become("linear")

    def is_suspended(self) -> bool:
        """Whether the pool waits for its device."""
        return Path("/proc/spl/kstat/zfs/removable/state").read_text().strip() == "SUSPENDED"

    def clear(self) -> None:
        """Resumes the pool, once its device is back."""
        run("zpool", "clear", self.name)
        wait_for(lambda: not self.is_suspended(), "the pool is resumed")

    def destroy(self) -> None:
        """Removes pool and device."""
        if self.is_suspended():
            self.clear()
        super().destroy()
        run("dmsetup", "remove", "--retry", "removable")
        run("losetup", "--detach", self._loop)
