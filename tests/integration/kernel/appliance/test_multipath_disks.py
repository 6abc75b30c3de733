# SPDX-License-Identifier: Apache-2.0
"""Disks with two paths, as in a SAS JBOD: two hosts of scsi_debug show one disk, and multipathd makes a map of it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import IN_GUEST, run, wait_for
from support.zfs import destroy_pool

from appliance.zfs.kernel import KernelEngine
from appliance.zfs.kernel.disks import FOLDERS
from appliance.zfs.model import Disk, Health, VdevSpec

CONFIGURATION = """
defaults {
    find_multipaths no
    user_friendly_names yes
    path_selector "round-robin 0"
    prio const
    polling_interval 1
}
blacklist {
    devnode "^(ubd|zd|ram|loop|dm-)"
}
"""
MAP = Path("/dev/mapper/mpatha")
JBOD = "jbod"


@pytest.fixture
def engine() -> Iterator[KernelEngine]:
    """With a disk that was a whole disk of a pool before it got its second path."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for module in ("sd_mod", "dm-multipath", "dm-round-robin"):
        run("modprobe", module)
    run("modprobe", "scsi_debug", "add_host=2", "dev_size_mb=256", "vpd_use_hostno=0")
    run("udevadm", "settle")
    run("zpool", "create", "-O", "mountpoint=none", "before", paths()[0])
    run("zpool", "export", "before")
    Path("/etc/multipath.conf").write_text(CONFIGURATION)
    daemon = subprocess.Popen(["multipathd", "-d", "-s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: Path(f"{MAP}-part1").exists(), "the map and its partitions are there")
        run("udevadm", "settle")
        yield KernelEngine(device_directories=FOLDERS)
    finally:
        if JBOD in run("zpool", "list", "-H", "-o", "name").split():
            destroy_pool(JBOD)
        run("udevadm", "settle")
        daemon.terminate()
        daemon.wait(120)
        subprocess.run(["multipath", "-F"], capture_output=True, check=False)
        # Otherwise udev's rules treat later disks of these tests as paths.
        for file in ("/etc/multipath.conf", "/etc/multipath/wwids", "/etc/multipath/bindings"):
            Path(file).unlink(missing_ok=True)
        run("modprobe", "-r", "scsi_debug")


def paths() -> list[str]:
    return [line.split()[0] for line in run("lsblk", "-dnro", "PATH,MODEL").splitlines() if line.endswith("scsi_debug")]


def the_disk(engine: KernelEngine) -> Disk:
    (disk,) = [disk for disk in engine.disks() if disk.model == "scsi_debug"]
    return disk


def test_a_disk_with_two_paths_is_one_disk_of_a_pool(engine: KernelEngine) -> None:
    first, second = paths()
    with_partitions = the_disk(engine)
    assert (with_partitions.used_by, with_partitions.in_use) == (f"zfs_member on {MAP}-part1", True)
    run("kpartx", "-d", str(MAP))
    run("wipefs", "-a", str(MAP))
    run("udevadm", "settle")
    disk = the_disk(engine)
    assert disk.path.startswith("/dev/disk/by-id/dm-uuid-mpath-") and disk.device == str(MAP) and disk.serial
    assert (disk.used_by, disk.in_use) == (None, False)
    engine.create_pool(JBOD, [VdevSpec(devices=(disk.path,))])
    for _ in range(2):
        assert [device.path for device in engine.pool(JBOD).devices()] == [disk.path], "OpenZFS makes no partitions on a map"
        in_pool = the_disk(engine)
        assert (in_pool.path, in_pool.used_by, in_pool.in_use) == (disk.path, f"pool {JBOD}", True)
        engine.export_pool(JBOD)
        engine.import_pool(JBOD)
    for name in (disk.path, disk.device, first, second):
        assert engine.disk_health(name).available, name
    Path(f"/sys/block/{Path(first).name}/device/state").write_text("offline\n")
    assert engine.disk_health(first).unanswered and engine.disk_health(disk.path).available
    run("zpool", "sync", JBOD)
    engine.online(JBOD, disk.path)
    assert engine.pool(JBOD).health == Health.ONLINE and the_disk(engine).path == disk.path
