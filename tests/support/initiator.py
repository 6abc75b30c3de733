# SPDX-License-Identifier: Apache-2.0
"""open-iscsi, the kernel's initiator: kernel tier only."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.programs import run, wait_for
from support.target import IQN


class Initiator:
    """iscsid and its sessions. They disappear with the guest's overlay."""

    def __init__(self) -> None:
        run("modprobe", "iscsi_tcp")
        run("modprobe", "sd_mod")
        if subprocess.run(["pidof", "iscsid"], capture_output=True, check=False).returncode != 0:
            run("iscsid")

    def login(self, portal: str, iqn: str = IQN, lun: int = 0, settings: dict[str, str] | None = None) -> Path:
        """Discovers the target, logs in and returns the disk of `lun` once udev made its node. Raises ProgramFailed."""
        run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", portal)
        for name, value in (settings or {}).items():
            run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "-o", "update", "-n", name, "-v", value)
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "--login")
        return self.disk(portal, iqn, lun)

    def disk(self, portal: str, iqn: str = IQN, lun: int = 0) -> Path:
        """The disk of a LUN in an existing session, after udev made its node."""
        address, _, port = portal.rpartition(":")
        names = f"ip-{address.strip('[]')}:{port}-iscsi-{iqn}-lun-{lun}", f"ip-{portal}-iscsi-{iqn}-lun-{lun}"
        candidates = [Path("/dev/disk/by-path") / name for name in names]
        wait_for(lambda: any(disk.exists() for disk in candidates), f"{candidates[-1]} is there")
        run("udevadm", "settle")
        return next(disk for disk in candidates if disk.exists())

    def logout(self, portal: str, iqn: str = IQN) -> None:
        """Logs out and forgets the target."""
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "--logout")
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "-o", "delete")

    def forget(self) -> None:
        """Logs out everywhere and removes all targets, in whatever state they are."""
        for words in (["--logout"], ["-o", "delete"]):
            subprocess.run(["iscsiadm", "-m", "node", *words], capture_output=True, timeout=180, check=False)
