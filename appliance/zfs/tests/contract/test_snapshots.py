# SPDX-License-Identifier: Apache-2.0
"""Contract: snapshots, holds, rollback and clones."""

from __future__ import annotations

import pytest

from appliance.zfs.errors import (
    DatasetBusy,
    DatasetExists,
    DifferentPools,
    HasDependants,
    HoldExists,
    InvalidName,
    InvalidProperty,
    NewerSnapshots,
    NoSuchDataset,
    NoSuchHold,
    NoSuchSnapshot,
    OutOfSpace,
    SnapshotExists,
    SnapshotHeld,
)
from appliance.zfs.model import Source
from appliance.zfs.tests.contract.conftest import IN_GUEST
from appliance.zfs.tests.contract.on_kernel import run
from appliance.zfs.tests.contract.rig import MIB, Rig


def test_several_in_one_step(rig: Rig) -> None:
    names = [rig.volume(), rig.filesystem()]
    rig.engine.snapshot([f"{name}@both" for name in names], properties={"zvaai:schedule": "hourly"})
    snapshots = [rig.engine.snapshots(name, user_properties=["zvaai:schedule"])[0] for name in names]
    assert snapshots[0].createtxg == snapshots[1].createtxg, "one transaction group"
    assert [snapshot.name for snapshot in snapshots] == [f"{name}@both" for name in names]
    assert all(snapshot.properties["zvaai:schedule"].value == "hourly" for snapshot in snapshots)
    assert all(snapshot.properties["zvaai:schedule"].source == Source.LOCAL for snapshot in snapshots)
    assert snapshots[0].guid != snapshots[1].guid and snapshots[0].tag == "both" and snapshots[0].dataset == names[0]


def test_all_or_none(rig: Rig) -> None:
    names = [rig.filesystem(), rig.filesystem()]
    rig.engine.snapshot([f"{names[1]}@s"])
    with pytest.raises(SnapshotExists) as caught:
        rig.engine.snapshot([f"{name}@s" for name in names])
    assert caught.value.name == f"{names[1]}@s"
    with pytest.raises(NoSuchDataset) as missing:
        rig.engine.snapshot([f"{names[0]}@s", f"{rig.name()}@s"])
    assert missing.value.name != names[0]
    assert rig.engine.snapshots(names[0]) == []
    with pytest.raises(DifferentPools):
        rig.engine.snapshot([f"{names[0]}@s", "otherpool/fs@s"])
    with pytest.raises(InvalidName):
        rig.engine.snapshot([f"{names[0]}@"])
    with pytest.raises(InvalidName):
        rig.engine.snapshot([f"{names[0]}@a", f"{names[0]}@b"])
    with pytest.raises(InvalidProperty):
        rig.engine.snapshot([f"{names[0]}@s"], properties={"compression": "lz4"})
    assert rig.engine.snapshots(names[0]) == []


def test_list(rig: Rig) -> None:
    top = rig.filesystem()
    rig.engine.create_filesystem(f"{top}/a")
    for tag in ("z", "y", "x"):
        rig.engine.snapshot([f"{top}@{tag}", f"{top}/a@{tag}"])
    everything = [snapshot.name for snapshot in rig.engine.snapshots(top)]
    assert everything == [f"{top}@z", f"{top}@y", f"{top}@x", f"{top}/a@z", f"{top}/a@y", f"{top}/a@x"], "oldest first"
    assert [snapshot.name for snapshot in rig.engine.snapshots(top, recursive=False)] == everything[:3]
    assert set(everything) <= {snapshot.name for snapshot in rig.engine.snapshots()}
    with pytest.raises(NoSuchDataset):
        rig.engine.snapshots(f"{top}/none")


def test_used_equals_the_space_that_destruction_frees(rig: Rig) -> None:
    name = rig.volume(64 * MIB, compression="off")
    rig.hands.write(name, 4 * MIB)
    rig.engine.snapshot([f"{name}@a"])
    only = rig.engine.snapshots(name)[0]
    assert only.used < MIB and only.referenced >= 4 * MIB
    rig.engine.rollback(f"{name}@a")
    assert rig.engine.volume(name).space.written < MIB


def test_destroy_several(rig: Rig) -> None:
    name, clone = rig.filesystem(), rig.name("clone")
    for tag in "abc":
        rig.engine.snapshot([f"{name}@{tag}"])
    rig.engine.hold([f"{name}@b"], "keep")
    rig.engine.clone(f"{name}@c", clone)
    with pytest.raises(SnapshotHeld) as held:
        rig.engine.destroy_snapshots([f"{name}@a", f"{name}@b"])
    assert (held.value.name, held.value.tags) == (f"{name}@b", ("keep",))
    with pytest.raises(HasDependants) as cloned:
        rig.engine.destroy_snapshots([f"{name}@a", f"{name}@c"])
    assert (cloned.value.name, cloned.value.dependants) == (f"{name}@c", (clone,))
    assert len(rig.engine.snapshots(name)) == 3, "none was destroyed"
    rig.engine.destroy_snapshots([f"{name}@a", f"{name}@none"])
    rig.engine.destroy_snapshots([f"{name}@a"])
    assert [snapshot.tag for snapshot in rig.engine.snapshots(name)] == ["b", "c"]
    assert rig.engine.snapshots(name)[0].holds == 1
    assert rig.engine.snapshots(name)[1].clones == (clone,)
    with pytest.raises(DifferentPools):
        rig.engine.destroy_snapshots([f"{name}@b", "otherpool/fs@b"])


def test_a_snapshot_that_is_being_sent_is_in_use(rig: Rig) -> None:
    name = rig.volume()
    rig.hands.write(name, 8 * MIB)
    rig.engine.snapshot([f"{name}@a"])
    rig.engine.snapshot([f"{name}@sent"])
    with rig.hands.sent(f"{name}@sent"), pytest.raises(DatasetBusy) as busy:
        rig.engine.destroy_snapshots([f"{name}@a", f"{name}@sent"])
    assert busy.value.name == f"{name}@sent"
    assert len(rig.engine.snapshots(name)) == 2, "none was destroyed"
    rig.engine.destroy_snapshots([f"{name}@a", f"{name}@sent"])
    assert rig.engine.snapshots(name) == []


def test_holds(rig: Rig) -> None:
    names = [f"{rig.filesystem()}@s", f"{rig.filesystem()}@s"]
    rig.engine.snapshot(names)
    rig.engine.hold(names, "keep:1")
    rig.engine.hold(names[:1], "also")
    assert [hold.tag for hold in rig.engine.holds(names[0])] == ["also", "keep:1"]
    assert all(hold.created > 1_500_000_000 for hold in rig.engine.holds(names[0]))
    with pytest.raises(HoldExists) as exists:
        rig.engine.hold(names, "also")
    assert (exists.value.name, exists.value.tag) == (names[0], "also")
    assert [hold.tag for hold in rig.engine.holds(names[1])] == ["keep:1"]
    with pytest.raises(NoSuchHold) as missing:
        rig.engine.release(names, "also")
    assert missing.value.name == names[1]
    assert len(rig.engine.holds(names[0])) == 2, "none was released"
    rig.engine.release(names, "keep:1")
    rig.engine.release(names[:1], "also")
    assert rig.engine.holds(names[0]) == []
    with pytest.raises(NoSuchSnapshot):
        rig.engine.holds(f"{names[0]}x")
    with pytest.raises(NoSuchSnapshot):
        rig.engine.hold([f"{names[0]}x"], "keep")


def test_rollback(rig: Rig) -> None:
    name, clone = rig.volume(16 * MIB), rig.name("clone")
    rig.engine.snapshot([f"{name}@a"])
    rig.engine.grow_volume(name, 32 * MIB)
    rig.engine.snapshot([f"{name}@b"])
    rig.engine.snapshot([f"{name}@c"])
    with pytest.raises(NewerSnapshots) as caught:
        rig.engine.rollback(f"{name}@a")
    assert caught.value.newer == (f"{name}@b", f"{name}@c")
    rig.engine.clone(f"{name}@b", clone)
    both = [f"{name}@b", f"{name}@c"]
    with pytest.raises(HasDependants):
        rig.engine.rollback(f"{name}@a", destroy=both)
    assert len(rig.engine.snapshots(name)) == 3 and rig.engine.volume(name).volsize == 32 * MIB
    rig.engine.destroy(clone)
    rig.engine.hold([f"{name}@c"], "keep")
    with pytest.raises(SnapshotHeld):
        rig.engine.rollback(f"{name}@a", destroy=both)
    rig.engine.release([f"{name}@c"], "keep")
    with pytest.raises(NewerSnapshots) as caught:
        rig.engine.rollback(f"{name}@a", destroy=both[:1])
    assert caught.value.newer == (f"{name}@c",), "one that nobody named stays, and so do the others"
    assert len(rig.engine.snapshots(name)) == 3
    rig.engine.rollback(f"{name}@a", destroy=both)
    assert [snapshot.tag for snapshot in rig.engine.snapshots(name)] == ["a"]
    assert rig.engine.volume(name).volsize == 16 * MIB, "a volume's size goes back too"
    with rig.hands.opened(name), pytest.raises(DatasetBusy) as busy:
        assert rig.engine.holders(name)
        rig.engine.rollback(f"{name}@a")
    assert busy.value.holders
    with pytest.raises(NoSuchDataset):
        rig.engine.holders(rig.name())
    with pytest.raises(NoSuchSnapshot):
        rig.engine.rollback(f"{name}@b")


@pytest.mark.skipif(not IN_GUEST, reason="the simulator has no bookmarks")
def test_rollback_below_the_bookmarks_of_a_replication(rig: Rig) -> None:
    name = rig.volume()
    for tag in ("a", "b", "c"):
        rig.engine.snapshot([f"{name}@{tag}"])
        run("zfs", "bookmark", f"{name}@{tag}", f"{name}#sent-{tag}")
    rig.engine.destroy_snapshots([f"{name}@b"])
    with pytest.raises(NewerSnapshots):
        rig.engine.rollback(f"{name}@a")
    bookmarks = ("zfs", "list", "-H", "-o", "name", "-t", "bookmark", name)
    assert len(run(*bookmarks).split()) == 3, "a refused rollback destroys none"
    rig.engine.rollback(f"{name}@a", destroy=[f"{name}@c"])
    assert [snapshot.tag for snapshot in rig.engine.snapshots(name)] == ["a"]
    assert run(*bookmarks).split() == [f"{name}#sent-a"]


def test_rollback_of_a_grown_thick_volume(rig: Rig) -> None:
    name = rig.name("vol")
    before = rig.engine.create_volume(name, 16 * MIB, thick=True).refreservation
    rig.engine.snapshot([f"{name}@a"])
    rig.engine.grow_volume(name, 32 * MIB)
    grown = rig.engine.volume(name).refreservation
    rig.engine.rollback(f"{name}@a")
    assert rig.engine.volume(name).refreservation == grown >= before + 16 * MIB, "whoever owns it makes it smaller"
    rig.engine.destroy(name, with_snapshots=True)


def test_rollback_without_room_destroys_nothing(rig: Rig) -> None:
    name, filler = rig.name("vol"), rig.filesystem()
    rig.engine.create_volume(name, 32 * MIB, thick=True)
    rig.hands.write(name, 8 * MIB)
    rig.engine.snapshot([f"{name}@a"])
    rig.hands.write(name, 12 * MIB)
    rig.engine.snapshot([f"{name}@b"])
    available = rig.engine.filesystem(rig.pool).space.available
    rig.engine.set_properties(filler, {"refreservation": str(available - 4 * MIB)})
    with pytest.raises(OutOfSpace):
        rig.engine.rollback(f"{name}@a", destroy=[f"{name}@b"])
    assert [snapshot.tag for snapshot in rig.engine.snapshots(name)] == ["a", "b"]
    rig.engine.set_properties(name, {"refreservation": "none"})
    rig.engine.rollback(f"{name}@a", destroy=[f"{name}@b"])
    assert [snapshot.tag for snapshot in rig.engine.snapshots(name)] == ["a"], "a thin one needs none"
    rig.engine.destroy(filler)
    rig.engine.destroy(name, with_snapshots=True)


def test_clone(rig: Rig) -> None:
    origin = rig.volume(32 * MIB, **{"zvaai:name": "original", "compression": "zstd"})
    clone = rig.name("clone")
    rig.engine.snapshot([f"{origin}@s"])
    rig.engine.clone(f"{origin}@s", clone, properties={"zvaai:copy": "yes", "sync": "always"})
    made = rig.engine.volume(clone)
    assert made.volsize == 32 * MIB and made.origin == f"{origin}@s" and made.refreservation == 0
    assert made.guid != rig.engine.volume(origin).guid
    assert "zvaai:name" not in made.properties, "properties of the origin are not copied"
    assert made.properties["zvaai:copy"].source == Source.LOCAL and made.properties["sync"].value == "always"
    assert made.properties["compression"].source != Source.LOCAL
    with pytest.raises(DatasetExists):
        rig.engine.clone(f"{origin}@s", clone)
    with pytest.raises(NoSuchSnapshot):
        rig.engine.clone(f"{origin}@t", rig.name())
    with pytest.raises(NoSuchDataset):
        rig.engine.clone(f"{origin}@s", rig.name() + "/below")
    with pytest.raises(DifferentPools):
        rig.engine.clone(f"{origin}@s", "otherpool/clone")
    with pytest.raises(InvalidProperty):
        rig.engine.clone(f"{origin}@s", rig.name(), properties={"recordsize": "16384"})


def test_clone_whose_reservation_has_no_space(rig: Rig) -> None:
    origin, clone = rig.volume(32 * MIB), rig.name("clone")
    rig.engine.snapshot([f"{origin}@s"])
    with pytest.raises(OutOfSpace):
        rig.engine.clone(f"{origin}@s", clone, properties={"refreservation": str(64 << 30)})
    with pytest.raises(NoSuchDataset):
        rig.engine.volume(clone)


def test_snapshots_show_their_datasets_properties(rig: Rig) -> None:
    name = rig.filesystem(**{"zvaai:name": "ds"})
    rig.engine.snapshot([f"{name}@s"])
    shown = rig.engine.snapshots(name, user_properties=["zvaai:name", "zvaai:none"])[0].properties
    assert (shown["zvaai:name"].source, shown["zvaai:name"].inherited_from) == (Source.INHERITED, name)
    assert "zvaai:none" not in shown
    rig.engine.set_properties(f"{name}@s", {"zvaai:name": "its own"})
    assert rig.engine.properties(f"{name}@s")["zvaai:name"].value == "its own"
