"""open-iscsi, the kernel's initiator: kernel tier only."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.programs import run, wait_for
from support.target import IQN

DATABASE = Path("/etc/iscsi/nodes")


class Initiator:
    """iscsid and its sessions; the guest's overlay forgets them with the guest."""

    def __init__(self) -> None:
        run("modprobe", "iscsi_tcp")
        run("modprobe", "sd_mod")
        if subprocess.run(["pidof", "iscsid"], capture_output=True, check=False).returncode != 0:
            run("iscsid")

    def login(self, portal: str, iqn: str = IQN, lun: int = 0, settings: dict[str, str] | None = None) -> Path:
        """Discovers the target, logs in and returns the disk of `lun` once udev made its node."""
        run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", portal)
        for name, value in (settings or {}).items():
            run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "-o", "update", "-n", name, "-v", value)
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "--login")
        disk = Path(f"/dev/disk/by-path/ip-{portal}-iscsi-{iqn}-lun-{lun}")
        wait_for(disk.exists, f"{disk} is there")
        run("udevadm", "settle")
        return disk

    def logout(self, portal: str, iqn: str = IQN) -> None:
        """Logs out and forgets the target."""
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "--logout")
        run("iscsiadm", "-m", "node", "-T", iqn, "-p", portal, "-o", "delete")
