# SPDX-License-Identifier: Apache-2.0
"""Texts of NVMe's warning bits, and the command of an alert."""

from appliance.domain.disks import findings, nvme_warnings
from appliance.zfs.model import Disk, DiskHealth


def test_bits() -> None:
    assert nvme_warnings(0b101) == ["spare blocks are short", "it is not reliable any more"]
    assert nvme_warnings(0x80) == ["bits 0x80"]


def test_the_command_for_a_failing_disk_has_the_name_that_the_pool_has() -> None:
    path, part = "/dev/disk/by-id/ata-A", "/dev/disk/by-id/wwn-1-part2"
    disk = Disk(path=path, device="/dev/sda", size=1, used_by="pool tank", in_use=True, in_pool=part)
    (alert,) = findings({path: (disk, DiskHealth(available=True, passed=False))})
    assert path in alert.text and alert.remedy == f"Replace the disk: zvaai pool replace tank {part} NEW_DISK"
