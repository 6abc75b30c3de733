# SPDX-License-Identifier: Apache-2.0
"""The simulator beyond the contract: its file, failures to order, disks that fail, and space that always adds up."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from simulators.zfs import Simulator

from appliance.zfs.errors import DeviceInUse, OutOfSpace, PoolUnavailable, UnexpectedFailure, ZfsError
from appliance.zfs.model import Health, Redundancy, ScanState, VdevSpec

MIB = 1 << 20


def with_pool(simulator: Simulator, redundancy: Redundancy = Redundancy.MIRROR, disks: int = 2) -> Simulator:
    devices = tuple(disk.path for disk in simulator.disks()[:disks])
    simulator.create_pool("tank", [VdevSpec(devices=devices, redundancy=redundancy)])
    return simulator


def test_its_file_brings_everything_back(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    simulator = with_pool(Simulator(path=path))
    simulator.create_volume("tank/a", 16 * MIB, thick=True, properties={"zvaai:name": "ü"})
    simulator.write("tank/a", MIB)
    simulator.snapshot(["tank/a@s"], properties={"zvaai:why": "x"})
    simulator.hold(["tank/a@s"], "keep")
    simulator.clone("tank/a@s", "tank/b")
    again = Simulator(path=path)
    assert again.volumes() == simulator.volumes()
    assert again.snapshots() == simulator.snapshots() and again.holds("tank/a@s") == simulator.holds("tank/a@s")
    assert again.pools() == simulator.pools()
    assert again.create_filesystem("tank/c").guid != simulator.volume("tank/a").guid
    assert list(tmp_path.iterdir()) == [path]


def test_ordered_failures_and_delays() -> None:
    simulator = with_pool(Simulator())
    simulator.fail_next("create_volume", UnexpectedFailure("create", "ordered"), times=2)
    for _ in range(2):
        with pytest.raises(UnexpectedFailure):
            simulator.create_volume("tank/a", MIB)
    assert simulator.create_volume("tank/a", MIB).volsize == MIB


def test_a_pulled_disk() -> None:
    simulator = with_pool(Simulator(), disks=2)
    device, two = (disk.path for disk in simulator.disks()[:2])
    simulator.pull_disk(device)
    assert simulator.pool("tank").health == Health.DEGRADED
    simulator.create_volume("tank/a", MIB)
    simulator.pull_disk(two)
    assert simulator.pool("tank").health == Health.SUSPENDED
    with pytest.raises(PoolUnavailable):
        simulator.create_volume("tank/b", MIB)
    assert simulator.volumes() == [], "as zfs list, which leaves a suspended pool out"
    simulator.return_disk(device)
    simulator.return_disk(two)
    simulator.clear("tank")
    assert simulator.pool("tank").health == Health.ONLINE
    assert [volume.name for volume in simulator.volumes()] == ["tank/a"]


@pytest.mark.parametrize(("redundancy", "parity"), [(Redundancy.RAIDZ1, 1), (Redundancy.RAIDZ2, 2), (Redundancy.RAIDZ3, 3)])
def test_raidz(redundancy: Redundancy, parity: int) -> None:
    simulator = with_pool(Simulator(disk_size=1 << 30), redundancy, disks=6)
    usable = simulator.filesystem("tank").space.available
    assert (6 - parity) * (1 << 30) * 0.95 < usable < (6 - parity) * (1 << 30)
    devices = [disk.path for disk in simulator.disks()[:6]]
    for device in devices[:parity]:
        simulator.fault_disk(device, read=3)
    assert simulator.pool("tank").health == Health.DEGRADED
    simulator.fault_disk(devices[parity], write=1)
    assert simulator.pool("tank").health == Health.SUSPENDED


def test_a_scan_takes_its_time() -> None:
    now = [1_800_000_000.0]
    simulator = with_pool(Simulator(scan_seconds=100, clock=lambda: now[0]))
    simulator.scrub_start("tank")
    now[0] += 25
    scan = simulator.pool("tank").scan
    assert scan is not None and scan.state == ScanState.SCANNING and 0.24 < scan.progress < 0.26
    simulator.scrub_pause("tank")
    now[0] += 1000
    simulator.scrub_start("tank")
    now[0] += 74
    scan = simulator.pool("tank").scan
    assert scan is not None and scan.state == ScanState.SCANNING
    now[0] += 2
    scan = simulator.pool("tank").scan
    assert scan is not None and scan.state == ScanState.FINISHED and scan.ended == 1_800_001_100


def test_a_disk_in_use() -> None:
    simulator = Simulator(disks=1)
    simulator.add_disk("/dev/disk/by-id/ata-system", 1 << 40, used_by="mounted on /")
    simulator.add_disk("/dev/disk/by-id/ata-old", 1 << 40, used_by="ext4")
    with pytest.raises(DeviceInUse) as caught:
        simulator.create_pool("tank", [VdevSpec(devices=("/dev/disk/by-id/ata-system",))], force=True)
    assert not caught.value.can_force
    old = [VdevSpec(devices=("/dev/disk/by-id/ata-old",))]
    with pytest.raises(DeviceInUse):
        simulator.create_pool("tank", old)
    simulator.create_pool("tank", old, force=True)


def test_clones_by_range_are_counted() -> None:
    simulator = with_pool(Simulator())
    simulator.blocks_cloned("tank", MIB)
    pool = simulator.pool("tank")
    assert (pool.bclone_used, pool.bclone_saved) == (MIB, MIB)


class SpaceAddsUp(RuleBasedStateMachine):
    """The space of every dataset always adds up, and a refused operation changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.simulator = with_pool(Simulator(disks=2, disk_size=256 * MIB))
        self.names = [f"tank/{letter}" for letter in "abcd"]
        self.tags = ["x", "y", "z"]

    which = st.integers(0, 3)
    tag = st.integers(0, 2)
    size = st.integers(1, 40).map(lambda count: count * MIB)

    def attempt(self, method: str, *arguments: object, **options: object) -> None:
        """Runs an operation, or checks that its refusal changed nothing."""
        before = (self.simulator.volumes(), self.simulator.snapshots())
        try:
            getattr(self.simulator, method)(*arguments, **options)
        except ZfsError:
            assert (self.simulator.volumes(), self.simulator.snapshots()) == before

    @rule(which=which, size=size, thick=st.booleans())
    def create(self, which: int, size: int, thick: bool) -> None:
        self.attempt("create_volume", self.names[which], size, thick=thick)

    @rule(which=which, size=size, part=st.floats(0, 1))
    def write(self, which: int, size: int, part: float) -> None:
        """Writes new blocks, some over old ones."""
        self.attempt("write", self.names[which], size, overwritten=int(size * part))

    @rule(which=which, tag=tag)
    def snapshot(self, which: int, tag: int) -> None:
        self.attempt("snapshot", [f"{self.names[which]}@{self.tags[tag]}"])

    @rule(which=which, tag=tag)
    def destroy_snapshot(self, which: int, tag: int) -> None:
        self.attempt("destroy_snapshots", [f"{self.names[which]}@{self.tags[tag]}"])

    @rule(which=which, tag=tag, to=which)
    def clone(self, which: int, tag: int, to: int) -> None:
        self.attempt("clone", f"{self.names[which]}@{self.tags[tag]}", self.names[to])

    @rule(which=which)
    def promote(self, which: int) -> None:
        self.attempt("promote", self.names[which])

    @rule(which=which, tag=tag)
    def rollback(self, which: int, tag: int) -> None:
        """With all that is newer."""
        every = [f"{self.names[which]}@{other}" for other in self.tags]
        self.attempt("rollback", f"{self.names[which]}@{self.tags[tag]}", destroy=every)

    @rule(which=which, with_snapshots=st.booleans())
    def destroy(self, which: int, with_snapshots: bool) -> None:
        self.attempt("destroy", self.names[which], with_snapshots=with_snapshots)

    @invariant()
    def adds_up(self) -> None:
        """Parts make the whole, children make the parent, nothing is negative, the pool holds no more than it can."""
        root = self.simulator.filesystem("tank").space
        volumes = self.simulator.volumes()
        for space in (root, *(volume.space for volume in volumes)):
            parts = (space.used_by_dataset, space.used_by_snapshots, space.used_by_children, space.used_by_refreservation)
            assert min(*parts, space.available, space.written, space.referenced) >= 0
            assert space.used == sum(parts)
        assert root.used_by_children == sum(volume.space.used for volume in volumes)
        pool = self.simulator.pool("tank")
        assert 0 <= pool.allocated <= pool.size and pool.allocated + pool.free == pool.size
        for snapshot in self.simulator.snapshots():
            assert 0 <= snapshot.used <= snapshot.referenced

    @invariant()
    def destroying_a_snapshot_frees_what_it_said(self) -> None:
        """`used` of a snapshot with no clone and no hold is what its dataset's `used` loses."""
        for snapshot in self.simulator.snapshots()[:1]:
            if snapshot.clones or self.simulator.volume(snapshot.dataset).refreservation:
                continue
            before = self.simulator.volume(snapshot.dataset).space.used_by_snapshots
            stored = self.simulator.machine.pools[0].datasets[snapshot.dataset.partition("/")[2]]
            snapshots = list(stored.snapshots)
            self.simulator.destroy_snapshots([snapshot.name])
            with contextlib.suppress(OutOfSpace):
                assert before - self.simulator.volume(snapshot.dataset).space.used_by_snapshots == snapshot.used
            stored.snapshots = snapshots
            self.simulator.touched()


SpaceAddsUp.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
test_space_adds_up = SpaceAddsUp.TestCase
