# SPDX-License-Identifier: Apache-2.0
"""A pool that can block the sync of its transaction groups."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.kernel.zvol_clone.blocks import MIB
from support.programs import run, wait_for
from support.zfs import Pool, transaction_groups


class FreezingPool(Pool):
    """A pool on a file in a file system that can be frozen."""

    def __init__(self, folder: Path) -> None:
        image, self.mountpoint = folder / "image", folder / "mnt"
        self.mountpoint.mkdir()
        with image.open("wb") as file:
            file.truncate(384 * MIB)
        run("modprobe", "loop")
        run("mkfs.ext4", "-q", image)
        run("mount", "-o", "loop", image, self.mountpoint)
        disk = self.mountpoint / "disk"
        # Sparse. ZFS estimates dirty data at many times its size, and waits for a sync if that might not fit.
        with disk.open("wb") as file:
            file.truncate(8192 * MIB)
        super().__init__("freezing", str(disk))

    def create_volume(self, name: str, size_mib: int, **properties: str) -> Path:
        """As the appliance makes it. With volthreading=on its operations would hold threads that OpenZFS has for all pools."""
        return super().create_volume(name, size_mib, volthreading="off", **properties)

    def destroy(self) -> None:
        """Removes pool and file system. The kernel closes the pool's file a moment after its end."""
        super().destroy()
        wait_for(
            lambda: subprocess.run(["umount", self.mountpoint], check=False, capture_output=True).returncode == 0,
            f"{self.mountpoint} is unmounted",
        )

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Blocks all writes to the disk during the body."""
        run("fsfreeze", "-f", self.mountpoint)
        try:
            yield
        finally:
            run("fsfreeze", "-u", self.mountpoint)

    def transaction_groups(self) -> dict[int, str]:
        return transaction_groups(self.name)
