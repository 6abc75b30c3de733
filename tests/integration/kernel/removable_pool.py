# SPDX-License-Identifier: Apache-2.0
"""A pool whose devices can be removed, and put back, by device-mapper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.kernel.zvol_clone.blocks import MIB
from support.programs import run, wait_for
from support.zfs import Pool

SIZE_BYTES = 512 * MIB


class RemovablePool(Pool):
    """A pool of two vdevs, each a mapped loop device. While they are removed every request fails, and ZFS suspends the pool."""

    def __init__(self, folder: Path) -> None:
        run("modprobe", "loop")
        run("modprobe", "dm-mod")
        self._loops: dict[str, str] = {}
        for name in ("removable", "removable1"):
            image = folder / name
            with image.open("wb") as file:
                file.truncate(SIZE_BYTES)
            self._loops[name] = run("losetup", "--find", "--show", image).strip()
            run("dmsetup", "create", name, "--table", self._table("linear", name))
        self.devices = [f"/dev/mapper/{name}" for name in self._loops]
        super().__init__("removable", *self.devices)

    def _table(self, kind: str, name: str) -> str:
        where = f" {self._loops[name]} 0" if kind == "linear" else ""
        return f"0 {SIZE_BYTES // 512} {kind}{where}"

    def _become(self, kind: str) -> None:
        for name in self._loops:
            run("dmsetup", "suspend", "--noflush", "--nolockfs", name)
            run("dmsetup", "load", name, "--table", self._table(kind, name))
            # udev may be waiting for a LUN of the suspended pool: it reads the partition table of each disk that was written.
            run("dmsetup", "resume", "--noudevsync", name)

    @contextmanager
    def removed(self) -> Iterator[None]:
        """The devices are away meanwhile."""
        self._become("error")
        try:
            yield
        finally:
            self._become("linear")

    def is_suspended(self) -> bool:
        """Whether the pool waits for its devices."""
        return Path("/proc/spl/kstat/zfs/removable/state").read_text().strip() == "SUSPENDED"

    def clear(self) -> None:
        """Resumes the pool, once its devices are back."""
        run("zpool", "clear", self.name)
        wait_for(lambda: not self.is_suspended(), "the pool is resumed")

    def destroy(self) -> None:
        """Removes pool and devices."""
        if self.is_suspended():
            self.clear()
        super().destroy()
        for name, loop in self._loops.items():
            run("dmsetup", "remove", "--retry", name)
            run("losetup", "--detach", loop)
