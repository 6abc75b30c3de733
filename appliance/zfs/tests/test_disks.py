# SPDX-License-Identifier: Apache-2.0
"""Disks from lsblk's output. The documents have the structure of util-linux 2.41."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.zfs.errors import NoSuchDevice
from appliance.zfs.kernel import KernelEngine, commands
from appliance.zfs.kernel.disks import Use, links_of, name_in_pool, use_of


def node(
    path: str, kind: str, *children: dict[str, Any], fstype: str | None = None, mounted: str | None = None
) -> dict[str, Any]:
    document = {"path": path, "type": kind, "fstype": fstype, "mountpoints": [mounted]}
    return {**document, "children": list(children)} if children else document


def disk(*children: dict[str, Any], fstype: str | None = None) -> dict[str, Any]:
    return node("/dev/sda", "disk", *children, fstype=fstype)


ROOT = node("/dev/mapper/host-root", "lvm", fstype="ext4", mounted="/")
UNMOUNTED = node("/dev/mapper/host-data", "lvm", fstype="ext4")


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (disk(), Use(None, in_use=False)),
        (disk(fstype="ext4"), Use("ext4", in_use=False)),
        (disk(node("/dev/sda1", "part")), Use("partitions", in_use=False)),
        (disk(node("/dev/sda1", "part", fstype="zfs_member")), Use("zfs_member on /dev/sda1", in_use=False)),
        (disk(node("/dev/sda1", "part", fstype="ext4", mounted="/boot")), Use("mounted on /boot", in_use=True)),
        (disk(node("/dev/sda9", "part"), node("/dev/sda2", "part")), Use("pool tank", in_use=True)),
        # Debian's installer with LVM: what is mounted is made of a partition.
        (disk(node("/dev/sda5", "part", ROOT, fstype="LVM2_member")), Use("mounted on /", in_use=True)),
        (disk(node("/dev/sda5", "part", UNMOUNTED, fstype="LVM2_member")), Use("LVM2_member on /dev/sda5", in_use=True)),
        (disk(node("/dev/sda5", "part", fstype="LVM2_member")), Use("LVM2_member on /dev/sda5", in_use=False)),
        (
            disk(node("/dev/md0", "raid1", node("/dev/md0p1", "md")), fstype="linux_raid_member"),
            Use("linux_raid_member", in_use=True),
        ),
    ],
)
def test_use_of_a_disk(device: dict[str, Any], expected: Use) -> None:
    assert use_of(device, {"/dev/sda2": "tank"}) == expected


def test_a_disk_without_a_serial_number_has_the_name_of_its_path(tmp_path: Path) -> None:
    """As virtual disks of VMware have unless the machine says disk.EnableUUID. A pool cannot be made of /dev/sdb."""
    ids, paths = tmp_path / "by-id", tmp_path / "by-path"
    for folder in (ids, paths):
        folder.mkdir()
    for disk in ("sda", "sdb"):
        (tmp_path / disk).touch()
        (paths / f"pci-{disk}").symlink_to(tmp_path / disk)
    (ids / "wwn-1").symlink_to(tmp_path / "sda")
    (ids / "scsi-1").symlink_to(tmp_path / "sda")
    chosen = {str(tmp_path / "sda"): str(ids / "wwn-1"), str(tmp_path / "sdb"): str(paths / "pci-sdb")}
    assert links_of((str(ids), str(paths), str(tmp_path / "absent"))) == chosen


def test_a_disk_of_a_pool_has_the_name_that_the_pool_has_for_it(tmp_path: Path) -> None:
    """It has several. Commands of the pool take this one."""
    whole, part = str(tmp_path / "sda"), str(tmp_path / "sda1")
    for path in (whole, part):
        Path(path).touch()
    (tmp_path / "ata-1").symlink_to(whole)
    (tmp_path / "ata-1-part1").symlink_to(part)
    device = node(whole, "disk", node(part, "part"))
    assert name_in_pool(device, {part: str(tmp_path / "ata-1")}) == str(tmp_path / "ata-1")
    assert name_in_pool(device, {part: part}) is None, "a pool on a partition is not on the disk"
    assert name_in_pool(device, {}) is None


@pytest.mark.parametrize(
    ("name", "kind", "listed"),
    [
        ("/dev/disk/by-id/wwn-1", "disk", "/dev/sda"),
        ("/dev/disk/by-id/wwn-1-part1", "part", None),
        ("/dev/zvol/tank/vm", "disk", None),
        ("/dev/absent", None, None),
        ("/etc/passwd", None, None),
        ("/dev/../etc/passwd", None, None),
        ("--help", None, None),
    ],
)
def test_smart_data_is_read_of_whole_disks_only_and_without_a_list_of_all(
    name: str, kind: str | None, listed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of all for each of 240 disks takes minutes."""
    read = []

    def run(words: Sequence[str], **_: float) -> commands.Result:
        read.append(words[-1])
        if words[0] == commands.SMARTCTL:
            return commands.Result(0, json.dumps({"smart_status": {"passed": True}}).encode(), "")
        assert words[0] == commands.LSBLK
        kernel_name = {"disk": listed or "/dev/zd0", "part": "/dev/sda1"}.get(kind or "")
        devices = [{"name": "x", "path": kernel_name, "type": kind}] if kernel_name else []
        return commands.Result(0 if devices else 32, json.dumps({"blockdevices": devices}).encode(), "")

    monkeypatch.setattr(commands, "run", run)
    if listed is not None:
        assert KernelEngine().disk_health(name).passed
        assert read == [name, listed]
    else:
        with pytest.raises(NoSuchDevice):
            KernelEngine().disk_health(name)
        assert read in ([], [name])
