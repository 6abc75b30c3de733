# SPDX-License-Identifier: Apache-2.0
"""Pools of whole disks. OpenZFS makes partitions on these, and shows the first one.

The disks are zvols of another pool: of the guest's devices, OpenZFS takes only these as whole disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.appliance import GIB
from support.programs import IN_GUEST, run, wait_for
from support.zfs import destroy_pool

from appliance.domain import pool_health
from appliance.worker.pools import find_device
from appliance.zfs.errors import DeviceFaulted, NoSuchDevice
from appliance.zfs.kernel import KernelEngine
from appliance.zfs.model import Health, Pool, Redundancy, Role, VdevSpec

RACK, WHOLE = "rack", "whole"
FILE = Path("/dev/shm/rack")
DISKS = [f"/dev/zvol/{RACK}/disk{number}" for number in range(3)]


@pytest.fixture
def engine() -> Iterator[KernelEngine]:
    """Of a mirror of the first two disks, which may expand. The third one is free."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    with FILE.open("wb") as file:
        file.truncate(4 * GIB)
    run("zpool", "create", "-O", "mountpoint=none", RACK, str(FILE))
    for disk in DISKS:
        run("zfs", "create", "-s", "-V", "256M", "-o", "volmode=full", disk.removeprefix("/dev/zvol/"))
    run("udevadm", "settle")
    engine = KernelEngine(device_directories=[f"/dev/zvol/{RACK}"])
    mirror = [VdevSpec(devices=(DISKS[0], DISKS[1]), redundancy=Redundancy.MIRROR)]
    engine.create_pool(WHOLE, mirror, properties={"autoexpand": "on"}, force=True)
    yield engine
    if WHOLE in run("zpool", "list", "-H", "-o", "name").split():
        destroy_pool(WHOLE)
    run("udevadm", "settle")
    destroy_pool(RACK)
    FILE.unlink()


def guid(pool: Pool, disk: str) -> str:
    return str(find_device(pool, disk).guid)


def test_a_disk_goes_offline_and_online(engine: KernelEngine) -> None:
    pool = engine.pool(WHOLE)
    assert [device.path for device in pool.devices()] == [f"{disk}-part1" for disk in DISKS[:2]]
    engine.offline(WHOLE, guid(pool, DISKS[0]))
    assert find_device(engine.pool(WHOLE), DISKS[0]).health == Health.OFFLINE
    engine.online(WHOLE, guid(pool, DISKS[0]))
    wait_for(lambda: engine.pool(WHOLE).health == Health.ONLINE, "the disk is online")


def test_larger_disks_expand_the_pool_when_they_are_set_online(engine: KernelEngine) -> None:
    pool = engine.pool(WHOLE)
    for disk in DISKS[:2]:
        run("zfs", "set", "volsize=512M", disk.removeprefix("/dev/zvol/"))
        engine.online(WHOLE, guid(pool, disk))
    wait_for(lambda: engine.pool(WHOLE).size > 1.8 * pool.size, "the pool grows")


def test_a_spare_in_use_is_one_device(engine: KernelEngine) -> None:
    """OpenZFS lists it twice: where it serves, and as a spare that is in use."""
    engine.add_vdevs(WHOLE, [VdevSpec(devices=(DISKS[2],), role=Role.SPARE)], force=True)
    run("zpool", "offline", "-f", WHOLE, guid(engine.pool(WHOLE), DISKS[0]))
    run("udevadm", "settle")
    with pytest.raises(DeviceFaulted, match=f"^{DISKS[0]}"):
        engine.online(WHOLE, guid(engine.pool(WHOLE), DISKS[0]))
    engine.replace(WHOLE, guid(engine.pool(WHOLE), DISKS[0]), DISKS[2])
    run("zpool", "wait", "-t", "replace,resilver", WHOLE)
    pool = engine.pool(WHOLE)
    spare = find_device(pool, DISKS[2])
    assert [device.path for device in pool.devices()].count(spare.path) == 1 and spare.health == Health.ONLINE
    (lost,) = [finding for finding in pool_health.findings([pool], 0) if finding.key.startswith(f"{pool_health.AREA}:device:")]
    assert DISKS[0] in lost.text and "clear" in lost.remedy
    engine.detach(WHOLE, guid(pool, DISKS[0]))
    remains = engine.pool(WHOLE)
    assert remains.health == Health.ONLINE and {device.path for device in remains.devices()} == {
        f"{disk}-part1" for disk in DISKS[1:]
    }


def test_an_absent_disk_is_unavailable(engine: KernelEngine) -> None:
    engine.export_pool(WHOLE)
    run("udevadm", "settle")
    run("zfs", "destroy", DISKS[1].removeprefix("/dev/zvol/"))
    engine.import_pool(WHOLE)
    pool = engine.pool(WHOLE)
    absent = find_device(pool, DISKS[1])
    assert (pool.health, absent.health) == (Health.DEGRADED, Health.UNAVAILABLE)
    with pytest.raises(NoSuchDevice):
        engine.online(WHOLE, str(absent.guid))
