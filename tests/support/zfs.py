# SPDX-License-Identifier: Apache-2.0
"""Pools of the kernel tier."""

from __future__ import annotations

from pathlib import Path

from support.programs import ProgramFailed, run, wait_for


class Pool:
    """A pool of disks of the guest without redundancy, destroyed at the end."""

    def __init__(self, name: str, *disks: str) -> None:
        self.name, self._disk = name, disks[0]
        run("zpool", "create", "-f", "-O", "mountpoint=none", "-O", "compression=lz4", name, *disks)

    def create_volume(self, name: str, size_mib: int, **properties: str) -> Path:
        """Device node of a new thin zvol, after udev made it."""
        words = [word for key, value in properties.items() for word in ("-o", f"{key}={value}")]
        run("zfs", "create", "-s", "-V", f"{size_mib}M", *words, f"{self.name}/{name}")
        device = Path("/dev/zvol") / self.name / name
        run("udevadm", "settle")  # a link of a destroyed volume of the same name may still exist
        wait_for(device.exists, f"{device} is there")
        return device

    def destroy_volume(self, name: str) -> None:
        """Removes the zvol and its snapshots, after udev has scanned it after its last close."""

        volume = f"{self.name}/{name}"
        wait_for(lambda: _done_unless_busy("zfs", "destroy", "-r", volume), f"{volume} is no longer in use")

    def import_again(self) -> None:
        """Imports the pool after its export."""
        run("zpool", "import", "-d", self._disk, self.name)

    def scrub(self) -> None:
        """Reads and checks every block. Raises AssertionError for a wrong block."""
        run("zpool", "scrub", "-w", self.name)
        status = run("zpool", "status", "-v", self.name)
        assert "scrub repaired 0B" in status and "with 0 errors" in status, status
        assert "errors: No known data errors" in status, status

    def destroy(self) -> None:
        destroy_pool(self.name)


def destroy_pool(name: str) -> None:
    """Removes a pool, after udev has scanned the volumes: it opens them some time after the last writer's close."""
    wait_for(lambda: _done_unless_busy("zpool", "destroy", "-f", name), f"{name} is no longer in use")


def _done_unless_busy(*command: str) -> bool:
    run("udevadm", "settle")
    try:
        run(*command)
    except ProgramFailed as failure:
        if "is busy" in str(failure):
            return False
        raise
    return True


def transaction_groups(pool: str) -> dict[int, str]:
    """States of the last transaction groups by number: O(pen), Q(uiescing), W(aiting for sync), S(yncing), C(ommitted)."""
    lines = Path("/proc/spl/kstat/zfs", pool, "txgs").read_text().splitlines()
    rows = [line.split() for line in lines if line[:1].isdigit()]
    return {int(row[0]): row[2] for row in rows if len(row) == 12}
