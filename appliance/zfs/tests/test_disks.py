# SPDX-License-Identifier: Apache-2.0
"""Use of a disk from lsblk's output. The documents have the structure of util-linux 2.41."""

from typing import Any

import pytest

from appliance.zfs.kernel.disks import Use, use_of


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
