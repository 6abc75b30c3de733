# SPDX-License-Identifier: Apache-2.0
"""Disks from lsblk's output. The documents have the structure of util-linux 2.41."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.zfs.errors import NoSuchDevice
from appliance.zfs.kernel import KernelEngine, commands
from appliance.zfs.kernel import disks as kernel_disks
from appliance.zfs.kernel.disks import Use, links_of, name_in_pool, use_of, whole_disks
from appliance.zfs.model import Health, Pool, Vdev


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


def path_of_multipath(path: str, *parts: dict[str, Any], fstype: str | None = None) -> dict[str, Any]:
    """As lsblk prints a disk with two paths: with the map and its partitions below each."""
    size: dict[str, Any] = {"size": 4 << 40, "rota": True}
    nothing = {**size, "model": None, "serial": None}
    node_of_map = node("/dev/mapper/mpatha", "mpath", *(part | nothing for part in parts), fstype=fstype) | nothing
    return node(path, "disk", node_of_map, fstype="mpath_member") | size | {"model": "HUH721212AL4200", "serial": "8DJ7P2VH"}


KPARTX = node("/dev/mapper/mpatha-part1", "part", fstype="zfs_member"), node("/dev/mapper/mpatha-part9", "part")


@pytest.mark.parametrize(
    ("parts", "fstype", "owners", "expected"),
    [
        ((), None, {}, Use(None, in_use=False)),
        ((), "zfs_member", {}, Use("zfs_member", in_use=False)),
        ((), "zfs_member", {"/dev/mapper/mpatha": "tank"}, Use("pool tank", in_use=True)),
        (KPARTX, None, {"/dev/mapper/mpatha-part1": "tank"}, Use("pool tank", in_use=True)),
        # Maps of kpartx keep it open: `zpool create -f` fails with "Device or resource busy".
        (KPARTX, None, {}, Use("zfs_member on /dev/mapper/mpatha-part1", in_use=True)),
        (KPARTX[1:], None, {}, Use("partitions", in_use=True)),
        ((ROOT,), "LVM2_member", {}, Use("mounted on /", in_use=True)),
        ((UNMOUNTED,), "LVM2_member", {}, Use("LVM2_member", in_use=True)),
    ],
)
def test_a_disk_with_several_paths_is_one(
    parts: Sequence[dict[str, Any]], fstype: str | None, owners: dict[str, str], expected: Use
) -> None:
    other = node("/dev/sdc", "disk") | {"size": 1 << 30}
    paths = [path_of_multipath(path, *parts, fstype=fstype) for path in ("/dev/sda", "/dev/sdb")]
    disk, alone = whole_disks({"blockdevices": [*paths, other]})
    assert (disk["path"], disk["serial"], alone) == ("/dev/mapper/mpatha", "8DJ7P2VH", other)
    assert use_of(disk, owners) == expected


def test_a_disk_with_several_paths_has_the_name_that_only_the_map_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names by WWN and serial number lead to one of the paths while the map is absent, such as early at boot."""
    for folder in ("by-id", "mapper"):
        (tmp_path / folder).mkdir()
    for name in ("sda", "sdb", "dm-0", "dm-1"):
        (tmp_path / name).touch()
    (tmp_path / "mapper/mpatha").symlink_to("../dm-0")
    map_name = str(tmp_path / "by-id/dm-uuid-mpath-35000cca2910d3b1c")
    for link in ("dm-name-mpatha", "dm-uuid-mpath-35000cca2910d3b1c", "scsi-35000cca2910d3b1c", "wwn-0x5000cca2910d3b1c"):
        (tmp_path / "by-id" / link).symlink_to("../dm-0")
    document = {"blockdevices": [path_of_multipath(path) for path in ("/dev/sda", "/dev/sdb")]}
    output = json.dumps(document).replace('"/dev/', f'"{tmp_path}/').encode()
    monkeypatch.setattr(kernel_disks, "FOLDERS", (str(tmp_path / "by-id"),))
    monkeypatch.setattr(commands, "run", lambda *_, **__: commands.Result(0, output, ""))
    (disk,) = kernel_disks.disks([])
    assert (disk.path, disk.device, disk.serial) == (map_name, str(tmp_path / "mapper/mpatha"), "8DJ7P2VH")
    assert (disk.size, disk.rotational, disk.used_by, disk.in_use) == (4 << 40, True, None, False)
    device = Vdev(name=map_name, kind="disk", guid=1, health=Health.ONLINE, path=map_name)
    pool = Pool(name="tank", guid=2, health=Health.ONLINE, size=0, allocated=0, free=0, vdevs=(device,))
    (disk,) = kernel_disks.disks([pool])
    assert (disk.path, disk.used_by) == (map_name, "pool tank")


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


@pytest.mark.parametrize(
    ("names", "best"),
    [
        (
            "nvme-eui.0025385b21404321 nvme-Samsung_SSD_980_S649NX0T101112 nvme-Samsung_SSD_980_S649NX0T101112_1",
            "nvme-Samsung_SSD_980_S649NX0T101112_1",
        ),
        ("nvme-KIOXIA_80123456 nvme-KIOXIA_80123456_2 nvme-uuid.5b3f", "nvme-KIOXIA_80123456_2"),
        ("nvme-eui.01 nvme-QEMU_NVMe_Ctrl_deadbeef", "nvme-QEMU_NVMe_Ctrl_deadbeef"),
        ("nvme-nvme.1b36-31 scsi-1", "nvme-nvme.1b36-31"),
        ("ata-ST4000_ZDH1 scsi-35000c5 scsi-SATA_ST4000_ZDH1 wwn-0x5000c5", "ata-ST4000_ZDH1"),
        ("scsi-35000c5 scsi-SSEAGATE_ST4000_ZC1 wwn-0x5000c5", "scsi-SSEAGATE_ST4000_ZC1"),
        ("lvm-pv-uuid-x scsi-35000c5 wwn-0x5000c5", "wwn-0x5000c5"),
        ("lvm-pv-uuid-x scsi-0QEMU_HARDDISK_1", "scsi-0QEMU_HARDDISK_1"),
    ],
)
def test_a_disk_has_the_name_that_is_printed_on_it(names: str, best: str, tmp_path: Path) -> None:
    (tmp_path / "disk").touch()
    for name in names.split():
        (tmp_path / name).symlink_to(tmp_path / "disk")
    assert links_of((str(tmp_path),))[str(tmp_path / "disk")] == str(tmp_path / best)


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


@pytest.mark.parametrize(("part", "in_pool"), [("part1", ""), ("part2", "-part2")])
def test_a_disk_with_a_partition_in_a_pool_has_the_name_of_the_pool_too(
    part: str, in_pool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TrueNAS has data on the second partition, and another name may be the best one of the disk."""
    (tmp_path / "by-id").mkdir()
    for name in ("sda", "sda1", "sda2"):
        (tmp_path / name).touch()
    for link, to in (("ata-1", "sda"), ("wwn-1", "sda"), ("wwn-1-part1", "sda1"), ("wwn-1-part2", "sda2")):
        (tmp_path / "by-id" / link).symlink_to(f"../{to}")
    parts = (node("/dev/sda1", "part"), node("/dev/sda2", "part"))
    document = {"blockdevices": [node("/dev/sda", "disk", *parts) | {"size": 1 << 30}]}
    output = json.dumps(document).replace('"/dev/', f'"{tmp_path}/').encode()
    monkeypatch.setattr(kernel_disks, "FOLDERS", (str(tmp_path / "by-id"),))
    monkeypatch.setattr(commands, "run", lambda *_, **__: commands.Result(0, output, ""))
    path = str(tmp_path / "by-id" / f"wwn-1-{part}")
    device = Vdev(name=path, kind="disk", guid=1, health=Health.ONLINE, path=path)
    pool = Pool(name="tank", guid=2, health=Health.ONLINE, size=0, allocated=0, free=0, vdevs=(device,))
    (disk,) = kernel_disks.disks([pool])
    assert (disk.used_by, disk.in_pool) == ("pool tank", str(tmp_path / f"by-id/wwn-1{in_pool}"))
    assert kernel_disks.disks([])[0].in_pool is None


def test_smart_data_comes_from_a_path_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """smartctl does not know maps."""
    paths = [{"name": name, "path": f"/dev/{name}", "type": "disk"} for name in ("sda", "sdb")]
    listed = {"blockdevices": [{"name": "mpatha", "path": "/dev/mapper/mpatha", "type": "mpath", "children": paths}]}
    failed = {"smartctl": {"messages": [{"string": "Smartctl open device: /dev/sda failed: No such device or address"}]}}
    results = {
        "/dev/disk/by-id/dm-uuid-mpath-35000cca2910d3b1c": commands.Result(0, json.dumps(listed).encode(), ""),
        "/dev/sda": commands.Result(2, json.dumps(failed).encode(), ""),
        "/dev/sdb": commands.Result(0, json.dumps({"smart_status": {"passed": True}}).encode(), ""),
    }
    monkeypatch.setattr(commands, "run", lambda words, **_: results[words[-1]])
    assert KernelEngine().disk_health("/dev/disk/by-id/dm-uuid-mpath-35000cca2910d3b1c").passed
    results["/dev/sdb"] = results["/dev/sda"]
    assert KernelEngine().disk_health("/dev/disk/by-id/dm-uuid-mpath-35000cca2910d3b1c").unanswered


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
