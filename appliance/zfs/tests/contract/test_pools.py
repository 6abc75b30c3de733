# SPDX-License-Identifier: Apache-2.0
"""Contract: pools and their devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from appliance.zfs.errors import (
    DatasetBusy,
    DeviceInUse,
    InsufficientReplicas,
    InvalidLayout,
    InvalidName,
    InvalidProperty,
    NoScanRunning,
    NoSuchDevice,
    NoSuchPool,
    NotSupported,
    PoolExists,
    PoolInUseElsewhere,
    PoolUnavailable,
    ScanRunning,
)
from appliance.zfs.model import FeatureState, Health, Pool, Redundancy, Role, ScanState, Vdev, VdevSpec
from appliance.zfs.tests.contract.rig import MIB, Rig


@pytest.fixture(autouse=True)
def no_other_pools(rig: Rig) -> Iterator[None]:
    """Destroys the test's pools, because the next test needs the devices."""
    yield
    left = [pool.name for pool in rig.engine.pools() if pool.name != rig.pool]
    for pool in left:
        rig.engine.export_pool(pool, force=True)
    assert not left


def leaf(pool: Pool, path: str) -> Vdev:
    """The device in the pool."""
    return next(device for vdev in pool.vdevs for device in vdev.devices() if device.path == path)


def wait_for_resilver(rig: Rig, pool: str) -> Pool:
    """Until the last scan has ended."""
    for _ in range(2000):
        state = rig.engine.pool(pool)
        if state.scan is not None and state.scan.state == ScanState.FINISHED and not _replacing(state):
            return state
    raise AssertionError(f"the resilver did not end: {state}")


def _replacing(pool: Pool) -> bool:
    return any(below.kind == "replacing" for vdev in pool.vdevs for below in (vdev, *vdev.vdevs))


def test_life_of_a_pool(rig: Rig) -> None:
    devices = rig.devices
    mirror = VdevSpec(devices=(devices[0], devices[1]), redundancy=Redundancy.MIRROR)
    layout = rig.engine.create_pool("life", [mirror], force=True, dry_run=True)
    assert layout[0].strip() == "life"
    assert [line.strip() for line in layout if "/dev/" in line] == list(mirror.devices)
    with pytest.raises(NoSuchPool):
        rig.engine.pool("life")
    options = {"zvaai:made": "yes", "compression": "lz4"}
    rig.engine.create_pool("life", [mirror], properties={"ashift": "12"}, filesystem_properties=options, force=True)
    with pytest.raises(PoolExists):
        rig.engine.create_pool("life", [VdevSpec(devices=(devices[2],))], force=True)
    made = rig.engine.pool("life")
    assert (made.health, made.ashift, made.error_count, made.status) == (Health.ONLINE, 12, 0, "")
    assert made.size + made.allocated > 200 * MIB and made.allocated + made.free == made.size
    assert [(vdev.kind, vdev.role, len(vdev.vdevs)) for vdev in made.vdevs] == [("mirror", Role.DATA, 2)]
    assert [device.path for device in made.vdevs[0].devices()] == list(mirror.devices)
    assert made.features["block_cloning"] in {FeatureState.ENABLED, FeatureState.ACTIVE}
    assert rig.engine.upgrade_pool("life") == ()
    root = rig.engine.filesystem("life")
    assert root.mountpoint is None and root.properties["zvaai:made"].value == "yes"
    with pytest.raises(DeviceInUse) as caught:
        rig.engine.create_pool("second", [VdevSpec(devices=(devices[0],))], force=True)
    assert caught.value.device == devices[0] and "life" in caught.value.by and not caught.value.can_force

    rig.engine.export_pool("life")


def test_extended(rig: Rig) -> None:
    devices, pool = rig.devices, rig.mirror("wide")
    before = rig.engine.pool(pool).size
    with pytest.raises(InvalidLayout) as mismatch:
        rig.engine.add_vdevs(pool, [VdevSpec(devices=(devices[2],))])
    assert mismatch.value.can_force
    layout = rig.engine.add_vdevs(pool, [VdevSpec(devices=(devices[2],), role=Role.SPARE)], dry_run=True, force=True)
    assert any(devices[2] in line for line in layout) and any(devices[0] in line for line in layout)
    rig.engine.add_vdevs(pool, [VdevSpec(devices=(devices[2],), role=Role.SPARE)], force=True)
    spare = leaf(rig.engine.pool(pool), devices[2])
    assert (spare.role, spare.health) == (Role.SPARE, Health.AVAILABLE)
    rig.engine.remove_vdev(pool, devices[2])
    with pytest.raises(NoSuchDevice):
        rig.engine.remove_vdev(pool, devices[2])
    second = VdevSpec(devices=(devices[2], devices[3]), redundancy=Redundancy.MIRROR)
    rig.engine.add_vdevs(pool, [second], force=True)
    assert rig.engine.pool(pool).size > before * 1.9
    rig.engine.export_pool(pool)


def test_out_and_in_with_the_same_identity(rig: Rig) -> None:
    devices, made = rig.devices, rig.engine.pool(rig.mirror("life"))
    volume = "life/volume"
    rig.engine.create_volume(volume, MIB, properties={"zvaai:naa": "6589"})
    guid = rig.engine.volume(volume).guid
    rig.hands.set_failmode("life", "continue")
    assert rig.engine.pool("life").failmode == "continue"
    with rig.hands.opened(volume), pytest.raises(DatasetBusy):
        rig.engine.export_pool("life")
    rig.engine.export_pool("life")
    with pytest.raises(NoSuchPool):
        rig.engine.export_pool("life")
    importable = {pool.name: pool for pool in rig.engine.importable()}["life"]
    assert (importable.guid, importable.health, importable.last_host) == (made.guid, Health.ONLINE, None)
    assert set(importable.devices) == set(devices[:2])
    rig.engine.create_pool("taken", [VdevSpec(devices=(devices[4],))], force=True)
    with pytest.raises(PoolExists):
        rig.engine.import_pool("life", new_name="taken")
    rig.engine.export_pool("taken")
    assert rig.engine.import_pool(str(made.guid), new_name="renamed").guid == made.guid
    assert rig.engine.pool("renamed").failmode == "wait", "I/O waits for lost devices"
    assert rig.engine.volume("renamed/volume").guid == guid
    assert rig.engine.volume("renamed/volume").properties["zvaai:naa"].value == "6589"
    with pytest.raises(NoSuchPool):
        rig.engine.import_pool("nosuchpool")
    rig.engine.export_pool("renamed")


def test_destroyed(rig: Rig) -> None:
    pool = rig.mirror("gone")
    rig.engine.create_volume(f"{pool}/volume", MIB)
    with rig.hands.opened(f"{pool}/volume"), pytest.raises(DatasetBusy):
        rig.engine.destroy_pool(pool)
    assert rig.engine.volume(f"{pool}/volume").volsize == MIB
    rig.engine.destroy_pool(pool)
    with pytest.raises(NoSuchPool):
        rig.engine.destroy_pool(pool)
    assert pool not in {importable.name for importable in rig.engine.importable()}
    rig.engine.create_pool("next", [VdevSpec(devices=tuple(rig.devices[:2]))], properties={"autotrim": "on", "ashift": "13"})
    made = rig.engine.pool("next")
    assert made.autotrim and made.ashift == 13
    rig.engine.destroy_pool("next")


def test_mirrored_logs_and_cache_are_removed(rig: Rig) -> None:
    pool, devices = rig.mirror("auxiliary"), rig.devices
    logs = VdevSpec(devices=(devices[2], devices[3]), redundancy=Redundancy.MIRROR, role=Role.LOG)
    rig.engine.add_vdevs(pool, [logs, VdevSpec(devices=(devices[4],), role=Role.CACHE)], force=True)
    assert {vdev.role for vdev in rig.engine.pool(pool).vdevs} == {Role.DATA, Role.LOG, Role.CACHE}
    rig.engine.remove_vdev(pool, devices[3])
    rig.engine.remove_vdev(pool, devices[4])
    left = rig.engine.pool(pool)
    assert {device.path for vdev in left.vdevs for device in vdev.devices()} == set(devices[:2])
    rig.engine.destroy_pool(pool)


def test_a_missing_log_device_is_named_as_the_cause(rig: Rig) -> None:
    """The pool counts as DEGRADED, and is imported without the log only by hand: writes of hosts are lost with it."""
    pool = rig.mirror("logged")
    rig.engine.add_vdevs(pool, [VdevSpec(devices=(rig.devices[2],), role=Role.LOG)], force=True)
    guid = rig.engine.pool(pool).guid
    rig.engine.export_pool(pool)
    rig.hands.unplug(rig.devices[2])
    assert {importable.name: importable for importable in rig.engine.importable()}[pool].health == Health.DEGRADED
    for force in (False, True):
        with pytest.raises(PoolUnavailable, match="pool logged: its log device is missing"):
            rig.engine.import_pool(str(guid), force=force)


def test_trim(rig: Rig) -> None:
    pool = rig.mirror("trimmed")
    with pytest.raises(NoScanRunning):
        rig.engine.trim_stop(pool)
    rig.engine.trim_start(pool)
    trims = {device.trim for vdev in rig.engine.pool(pool).vdevs for device in vdev.devices()}
    assert trims <= {"active", "complete"} and trims
    with contextlib.suppress(NoScanRunning):  # on an empty pool it may have ended
        rig.engine.trim_stop(pool)
    with pytest.raises(NoSuchPool):
        rig.engine.trim_start("nosuchpool")
    rig.engine.destroy_pool(pool)


def test_devices_of_a_mirror(rig: Rig) -> None:
    first_device, two, three = rig.devices[:3]
    pool = rig.mirror("disks")
    rig.engine.offline(pool, first_device)
    degraded = rig.engine.pool(pool)
    assert degraded.health == Health.DEGRADED and degraded.status and degraded.action
    assert leaf(degraded, first_device).health == Health.OFFLINE
    with pytest.raises(InsufficientReplicas):
        rig.engine.offline(pool, two)
    rig.engine.online(pool, first_device)
    assert wait_for_resilver(rig, pool).health == Health.ONLINE
    rig.engine.replace(pool, first_device, three, force=True)
    replaced = wait_for_resilver(rig, pool)
    assert {device.path for device in replaced.vdevs[0].devices()} == {two, three}
    assert replaced.scan is not None and replaced.scan.function == "resilver" and replaced.scan.progress == 1.0
    rig.engine.attach(pool, two, first_device, force=True)
    assert len(wait_for_resilver(rig, pool).vdevs[0].vdevs) == 3
    rig.engine.detach(pool, first_device)
    guid = leaf(rig.engine.pool(pool), two).guid
    rig.engine.offline(pool, str(guid))
    rig.engine.online(pool, str(guid))
    wait_for_resilver(rig, pool)
    for act in (rig.engine.offline, rig.engine.online, rig.engine.clear):
        with pytest.raises(NoSuchDevice):
            act(pool, rig.devices[5])
    for old, new in ((rig.devices[5], rig.devices[4]), (two, "/dev/nosuchdevice")):
        with pytest.raises(NoSuchDevice):
            rig.engine.replace(pool, old, new, force=True)
    with pytest.raises(DeviceInUse):
        rig.engine.replace(pool, two, three, force=True)
    with pytest.raises(NotSupported):
        rig.engine.remove_vdev(pool, two)
    rig.engine.clear(pool)
    rig.engine.export_pool(pool)


def test_the_output_of_zpool_status(rig: Rig) -> None:
    output = rig.engine.zpool_status(rig.pool)
    devices = [device.path for vdev in rig.engine.pool(rig.pool).vdevs for device in vdev.devices()]
    assert f"pool: {rig.pool}\n" in output and "ONLINE" in output
    assert all(device and device in output for device in devices)
    with pytest.raises(NoSuchPool):
        rig.engine.zpool_status("absent")
    with pytest.raises(InvalidName):
        rig.engine.zpool_status("-x")


def test_failed_disk(rig: Rig) -> None:
    pool = rig.mirror("failing")
    rig.hands.damage(rig.devices[0])
    failed = rig.engine.pool(pool)
    assert failed.health == Health.DEGRADED
    assert leaf(failed, rig.devices[0]).health in {Health.FAULTED, Health.UNAVAILABLE, Health.DEGRADED}
    rig.engine.clear(pool)
    assert leaf(rig.engine.pool(pool), rig.devices[0]).write_errors == 0
    rig.engine.export_pool(pool)


def test_scrub(rig: Rig) -> None:
    with pytest.raises(NoScanRunning):
        rig.engine.scrub_stop(rig.pool)
    with pytest.raises(NoScanRunning):
        rig.engine.scrub_pause(rig.pool)
    with rig.hands.slow_scans():
        rig.engine.scrub_start(rig.pool)
        with pytest.raises(ScanRunning):
            rig.engine.scrub_start(rig.pool)
        running = rig.engine.pool(rig.pool).scan
        assert running is not None and running.state == ScanState.SCANNING and running.function == "scrub"
        assert running.progress < 1.0
        rig.engine.scrub_pause(rig.pool)
        paused = rig.engine.pool(rig.pool).scan
        assert paused is not None and paused.state == ScanState.PAUSED
        rig.engine.scrub_start(rig.pool)
        rig.engine.scrub_stop(rig.pool)
        stopped = rig.engine.pool(rig.pool).scan
        assert stopped is not None and stopped.state == ScanState.CANCELED
    rig.engine.scrub_start(rig.pool)
    done = wait_for_resilver(rig, rig.pool).scan
    assert done is not None and done.function == "scrub" and done.errors == 0 and done.ended is not None


def test_pool_of_another_system(rig: Rig) -> None:
    pool = rig.mirror("foreign")
    rig.engine.export_pool(pool)
    rig.hands.used_elsewhere(pool)
    exported = {importable.name: importable for importable in rig.engine.importable()}[pool]
    assert exported.last_host
    with pytest.raises(PoolInUseElsewhere):
        rig.engine.import_pool(pool)
    assert rig.engine.import_pool(pool, force=True).name == pool
    rig.engine.export_pool(pool)


def test_impossible_pools(rig: Rig) -> None:
    good = VdevSpec(devices=(rig.devices[0],))
    for name in ("mirror1", "raidz", "log", "1pool", "", "a/b", "p@s", "p" * 256, "pö"):
        with pytest.raises(InvalidName):
            rig.engine.create_pool(name, [good], dry_run=True)
    for vdevs in (
        [],
        [VdevSpec(devices=())],
        [VdevSpec(devices=(rig.devices[0],), redundancy=Redundancy.MIRROR)],
        [VdevSpec(devices=tuple(rig.devices[:2]), redundancy=Redundancy.RAIDZ2)],
        [VdevSpec(devices=(rig.devices[0], rig.devices[0]), redundancy=Redundancy.MIRROR)],
        [VdevSpec(devices=(rig.devices[0],), role=Role.SPARE)],
        [good, VdevSpec(devices=tuple(rig.devices[1:3]), redundancy=Redundancy.MIRROR, role=Role.CACHE)],
    ):
        with pytest.raises(InvalidLayout):
            rig.engine.create_pool("bad", vdevs, force=True)
    for device in ("/dev/nosuchdevice", "/dev/../etc/passwd", "relative", "/etc/passwd", "/dev/a b", "-f"):
        with pytest.raises(NoSuchDevice):
            rig.engine.create_pool("bad", [VdevSpec(devices=(device,))], force=True)
    with pytest.raises(InvalidProperty):
        rig.engine.create_pool("bad", [good], properties={"ashift": "40"}, force=True)
    with pytest.raises(InvalidProperty):
        rig.engine.create_pool("bad", [good], properties={"cachefile": "/etc/passwd"}, force=True)
    with pytest.raises(NoSuchPool):
        rig.engine.scrub_start("nosuchpool")
    with pytest.raises(NoSuchPool):
        rig.engine.add_vdevs("nosuchpool", [good], force=True)
    with pytest.raises(NoSuchPool):
        rig.engine.pool("bad")


def test_disks_have_smart_data_or_a_reason_for_none(rig: Rig) -> None:
    """The rigs' disks have none, which is not an error."""
    disk = rig.engine.disks()[0]
    for name in (disk.path, disk.device):
        health = rig.engine.disk_health(name)
        assert not health.available and health.reason and health.passed is None
    for name in ("/dev/absent", "/etc/passwd", rig.pool):
        with pytest.raises(NoSuchDevice):
            rig.engine.disk_health(name)


def test_disks(rig: Rig) -> None:
    disks = rig.engine.disks()
    assert disks == sorted(disks, key=lambda disk: disk.path)
    assert all(disk.size > 0 and disk.path.startswith("/dev/") and disk.device.startswith("/dev/") for disk in disks)
    assert any(disk.used_by and rig.pool in disk.used_by for disk in disks), "the pool's disk says so"
