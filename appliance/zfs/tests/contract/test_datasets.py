# SPDX-License-Identifier: Apache-2.0
"""Contract: volumes and file systems."""

from __future__ import annotations

import dataclasses
import time

import pytest

from appliance.zfs.errors import (
    DatasetBusy,
    DatasetExists,
    HasDependants,
    InvalidName,
    InvalidProperty,
    NoSuchDataset,
    NotAClone,
    OutOfSpace,
    SnapshotExists,
    SnapshotHeld,
    UnexpectedFailure,
)
from appliance.zfs.kernel import core
from appliance.zfs.model import DependantKind
from appliance.zfs.tests.contract.rig import MIB, Rig


def test_a_volume_with_a_space_in_its_name(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The links of udev have "+" there."""
    monkeypatch.setattr(core, "DEVICE_SECONDS", 600)
    rig.engine.create_filesystem(above := rig.name("with space"))
    name, began = f"{above}/a b", time.monotonic()
    assert rig.engine.create_volume(name, 16 * MIB).device == f"/dev/zvol/{name.replace(' ', '+')}"
    assert time.monotonic() - began < 300, "the link was found"
    with rig.hands.opened(name):
        assert len(rig.engine.holders(name)) == 1
    rig.engine.snapshot([f"{name}@s"])
    rig.engine.rollback(f"{name}@s")
    rig.engine.destroy(name, with_snapshots=True)
    rig.engine.destroy(above)


def test_thin_volume(rig: Rig) -> None:
    name = rig.name("vol")
    properties = {"compression": "lz4", "sync": "always", "zvaai:name": "Datastore 1"}
    made = rig.engine.create_volume(name, 32 * MIB, volblocksize=65536, properties=properties)
    assert (made.name, made.volsize, made.volblocksize, made.refreservation) == (name, 32 * MIB, 65536, 0)
    assert {key: made.properties[key].value for key in properties} == properties
    assert made.guid > 0 and made.createtxg > 0 and made.creation > 1_500_000_000
    # The space that it takes changes with the transaction group; nothing else does.
    (listed,) = rig.engine.volumes(name)
    for again in (rig.engine.volume(name), listed):
        assert dataclasses.replace(again, space=made.space) == made
    assert made.origin is None and made.encryption is None


def test_thick_volume_holds_its_space(rig: Rig) -> None:
    before = rig.engine.filesystem(rig.pool).space.available
    name = rig.name("vol")
    made = rig.engine.create_volume(name, 64 * MIB, thick=True)
    assert 64 * MIB < made.refreservation < 80 * MIB
    assert before - rig.engine.filesystem(rig.pool).space.available >= 64 * MIB
    assert made.space.used_by_refreservation > 60 * MIB
    rig.engine.set_properties(name, {"refreservation": "none"})
    rig.engine.set_properties(name, {"refreservation": "auto"})
    assert rig.engine.volume(name).refreservation == made.refreservation, "what OpenZFS computes at create"
    rig.engine.destroy(name)
    with pytest.raises(OutOfSpace):
        rig.engine.create_volume(name, 64 << 30, thick=True)
    with pytest.raises(NoSuchDataset):
        rig.engine.volume(name)


def test_filesystem(rig: Rig) -> None:
    name = rig.name("fs")
    made = rig.engine.create_filesystem(name, properties={"quota": str(64 * MIB), "recordsize": "16384", "atime": "off"})
    assert (made.name, made.quota, made.recordsize, made.reservation) == (name, 64 * MIB, 16384, 0)
    assert made.properties["atime"].value == "off"
    assert made.mountpoint is None and not made.mounted, "the pool's mountpoint is none"
    assert made.space.available <= 64 * MIB
    assert dataclasses.replace(rig.engine.filesystem(name), space=made.space) == made
    rig.engine.destroy(name)
    with pytest.raises(NoSuchDataset):
        rig.engine.filesystem(name)


@pytest.mark.parametrize("size", [0, -16384, 16384 + 512, 1 << 62])
def test_impossible_size(rig: Rig, size: int) -> None:
    with pytest.raises(InvalidProperty) as caught:
        rig.engine.create_volume(rig.name(), size)
    assert caught.value.property == "volsize" and caught.value.allowed


@pytest.mark.parametrize("size", [0, 256, 5000, 32 * MIB])
def test_impossible_block_size(rig: Rig, size: int) -> None:
    with pytest.raises(InvalidProperty) as caught:
        rig.engine.create_volume(rig.name(), 32 * MIB, volblocksize=size)
    assert caught.value.property == "volblocksize"


@pytest.mark.parametrize(
    "suffix", ["/", "//x", "/a b\t", "/ä", "/x@y", "/..", "/" + "n" * 256, "/" + "/".join("n" * 60), "/x\0", "/-\n"]
)
def test_impossible_name(rig: Rig, suffix: str) -> None:
    for create in (rig.engine.create_filesystem, lambda name: rig.engine.create_volume(name, MIB)):
        with pytest.raises(InvalidName):
            create(rig.pool + suffix)


def test_name_is_taken_or_nothing_is_above(rig: Rig) -> None:
    volume = rig.volume()
    with pytest.raises(DatasetExists) as caught:
        rig.engine.create_volume(volume, MIB)
    assert caught.value.name == volume
    with pytest.raises(DatasetExists):
        rig.engine.create_filesystem(volume)
    with pytest.raises(NoSuchDataset):
        rig.engine.create_filesystem(rig.name() + "/below")
    with pytest.raises(NoSuchDataset):
        rig.engine.create_volume("nosuchpool/volume", MIB)
    with pytest.raises(NoSuchDataset):
        rig.engine.filesystem(volume)
    with pytest.raises(NoSuchDataset):
        rig.engine.volume(rig.pool)


def test_lists_are_sorted_and_limited_to_descendants(rig: Rig) -> None:
    top = rig.filesystem()
    for name in ("b", "a", "a/c"):
        rig.engine.create_filesystem(f"{top}/{name}")
    rig.engine.create_volume(f"{top}/v", MIB)
    rig.filesystem()
    assert [filesystem.name for filesystem in rig.engine.filesystems(top)] == [top, f"{top}/a", f"{top}/a/c", f"{top}/b"]
    assert [volume.name for volume in rig.engine.volumes(top)] == [f"{top}/v"]
    both = rig.engine.datasets(top)
    assert both.filesystems == rig.engine.filesystems(top) and [volume.name for volume in both.volumes] == [f"{top}/v"]
    everything = rig.engine.filesystems()
    assert {filesystem.name for filesystem in rig.engine.filesystems(top)} < {filesystem.name for filesystem in everything}
    assert [filesystem.name for filesystem in everything] == sorted(filesystem.name for filesystem in everything)
    with pytest.raises(NoSuchDataset):
        rig.engine.filesystems(f"{top}/none")
    with pytest.raises(NoSuchDataset):
        rig.engine.volumes(f"{top}/none")


def test_a_property_that_is_not_utf8_hides_only_its_dataset(rig: Rig) -> None:
    odd, other = rig.filesystem(), rig.filesystem()
    rig.hands.spoil(odd)
    with pytest.raises(UnexpectedFailure):
        rig.engine.datasets(rig.pool)
    assert [filesystem.name for filesystem in rig.engine.datasets(other).filesystems] == [other]
    rig.engine.destroy(odd)
    rig.engine.datasets(rig.pool)


def test_grow(rig: Rig) -> None:
    name = rig.volume(16 * MIB)
    assert rig.engine.grow_volume(name, 48 * MIB).volsize == 48 * MIB
    assert rig.engine.grow_volume(name, 48 * MIB).volsize == 48 * MIB
    for size in (16 * MIB, 48 * MIB + 512):
        with pytest.raises(InvalidProperty) as caught:
            rig.engine.grow_volume(name, size)
        assert caught.value.property == "volsize"
    assert rig.engine.volume(name).volsize == 48 * MIB
    with pytest.raises(NoSuchDataset):
        rig.engine.grow_volume(rig.filesystem(), 48 * MIB)


def test_grown_thick_volume_stays_thick(rig: Rig) -> None:
    name = rig.name("vol")
    rig.engine.create_volume(name, 16 * MIB, thick=True)
    grown = rig.engine.grow_volume(name, 32 * MIB)
    assert grown.volsize == 32 * MIB and grown.refreservation >= 32 * MIB
    with pytest.raises(OutOfSpace):
        rig.engine.grow_volume(name, 64 << 30)
    after = rig.engine.volume(name)
    # The space that it takes changes with the transaction group; nothing else does.
    assert dataclasses.replace(after, space=grown.space) == grown
    rig.engine.destroy(name)


@pytest.mark.parametrize("copies", ["1", "2"])
def test_a_killed_grow_reserves_once(copies: str, rig: Rig) -> None:
    killed, other = rig.name("vol"), rig.name("vol")
    for name in (killed, other):
        rig.engine.create_volume(name, 16 * MIB, thick=True, properties={"copies": copies})
    grown = rig.engine.grow_volume(other, 32 * MIB)
    rig.engine.set_properties(killed, {"refreservation": str(grown.refreservation)})  # its first step
    assert rig.engine.grow_volume(killed, 32 * MIB).refreservation == grown.refreservation
    rig.engine.create_volume(whole := rig.name("vol"), 32 * MIB, thick=True, properties={"copies": copies})
    assert rig.engine.volume(whole).refreservation == grown.refreservation
    for name in (killed, other, whole):
        rig.engine.destroy(name)


def test_volume_in_use_is_not_destroyed(rig: Rig) -> None:
    name = rig.volume()
    with rig.hands.opened(name):
        with pytest.raises(DatasetBusy) as caught:
            rig.engine.destroy(name)
        assert caught.value.name == name
        assert caught.value.holders, "the holders are reported"
    rig.engine.destroy(name)


def test_destroy_names_the_obstacle(rig: Rig) -> None:
    top = rig.filesystem()
    rig.engine.create_filesystem(f"{top}/child")
    rig.engine.snapshot([f"{top}@s"])
    with pytest.raises(HasDependants) as caught:
        rig.engine.destroy(top)
    assert set(caught.value.dependants) == {f"{top}/child", f"{top}@s"}
    with pytest.raises(HasDependants) as caught:
        rig.engine.destroy(top, with_snapshots=True)
    assert caught.value.dependants == (f"{top}/child",)
    rig.engine.destroy(f"{top}/child")
    rig.engine.hold([f"{top}@s"], "keep")
    with pytest.raises(SnapshotHeld):
        rig.engine.destroy(top, with_snapshots=True)
    rig.engine.release([f"{top}@s"], "keep")
    clone = rig.name("clone")
    rig.engine.clone(f"{top}@s", clone)
    with pytest.raises(HasDependants) as caught:
        rig.engine.destroy(top, with_snapshots=True)
    assert clone in caught.value.dependants
    rig.engine.destroy(clone)
    rig.engine.destroy(top, with_snapshots=True)
    with pytest.raises(NoSuchDataset):
        rig.engine.destroy(top)
    with pytest.raises(InvalidName):
        rig.engine.destroy(rig.pool)


def test_dependants(rig: Rig) -> None:
    top, clone = rig.filesystem(), rig.name("clone")
    rig.engine.create_filesystem(f"{top}/child")
    rig.engine.snapshot([f"{top}@a", f"{top}/child@a"])
    rig.engine.clone(f"{top}/child@a", clone)
    rig.engine.snapshot([f"{clone}@b"])
    dependants = {dependant.name: (dependant.kind, dependant.of) for dependant in rig.engine.dependants(top)}
    assert dependants == {
        f"{top}/child": (DependantKind.CHILD, top),
        f"{top}@a": (DependantKind.SNAPSHOT, top),
        f"{top}/child@a": (DependantKind.SNAPSHOT, f"{top}/child"),
        clone: (DependantKind.CLONE, f"{top}/child@a"),
        f"{clone}@b": (DependantKind.SNAPSHOT, clone),
    }
    assert [dependant.name for dependant in rig.engine.dependants(f"{top}/child@a")] == sorted([clone, f"{clone}@b"])
    assert rig.engine.dependants(f"{top}@a") == []
    with pytest.raises(NoSuchDataset):
        rig.engine.dependants(rig.name())


def test_promote(rig: Rig) -> None:
    origin, clone = rig.volume(), rig.name("clone")
    rig.engine.snapshot([f"{origin}@s"])
    rig.engine.clone(f"{origin}@s", clone)
    assert rig.engine.volume(clone).origin == f"{origin}@s"
    rig.engine.promote(clone)
    assert rig.engine.volume(clone).origin is None
    assert rig.engine.volume(origin).origin == f"{clone}@s"
    rig.engine.destroy(origin)
    with pytest.raises(NotAClone):
        rig.engine.promote(clone)
    with pytest.raises(NoSuchDataset):
        rig.engine.promote(origin)


def test_promote_needs_the_tag_free(rig: Rig) -> None:
    origin, clone = rig.filesystem(), rig.name("clone")
    rig.engine.snapshot([f"{origin}@s"])
    rig.engine.clone(f"{origin}@s", clone)
    rig.engine.snapshot([f"{clone}@s"])
    with pytest.raises(SnapshotExists) as caught:
        rig.engine.promote(clone)
    assert caught.value.name == f"{clone}@s"


def test_space(rig: Rig) -> None:
    name = rig.volume(64 * MIB, compression="off")
    rig.hands.write(name, 8 * MIB)
    space = rig.engine.volume(name).space
    assert 8 * MIB <= space.used_by_dataset < 9 * MIB
    assert 8 * MIB <= space.referenced < 9 * MIB
    rig.engine.snapshot([f"{name}@s"])
    rig.hands.write(name, 4 * MIB)
    space = rig.engine.volume(name).space
    assert 4 * MIB <= space.written < 5 * MIB
    assert space.used == space.used_by_dataset + space.used_by_snapshots + space.used_by_children + space.used_by_refreservation
    clone = rig.name("clone")
    rig.engine.clone(f"{name}@s", clone)
    cloned = rig.engine.volume(clone).space
    assert cloned.used < MIB and cloned.referenced >= 8 * MIB


def test_mounting(rig: Rig) -> None:
    name = rig.name("fs")
    where = f"/srv/zvaai/{name.replace('/', '-')}"
    assert rig.engine.create_filesystem(name, properties={"mountpoint": where}).mounted
    assert rig.engine.filesystem(name).mountpoint == where
    below = rig.engine.create_filesystem(f"{name}/below", properties={"mountpoint": f"{where}-below"})
    assert below.mounted and below.mountpoint == f"{where}-below"
    with rig.hands.opened(name), pytest.raises(DatasetBusy):
        rig.engine.unmount(name)
    rig.engine.unmount(name)
    rig.engine.unmount(name)
    assert not rig.engine.filesystem(name).mounted and not rig.engine.filesystem(f"{name}/below").mounted
    rig.engine.mount(name)
    rig.engine.mount(name)
    assert rig.engine.filesystem(name).mounted
    rig.engine.destroy(f"{name}/below")
    rig.engine.destroy(name)


def test_a_mounted_file_system_gets_another_mountpoint_with_all_else_or_nothing(rig: Rig) -> None:
    """Adoption relies on it: a dataset in use keeps all its properties."""
    name = rig.name("fs")
    before, after = (f"/srv/zvaai/{name.replace('/', '-')}-{when}" for when in ("before", "after"))
    rig.engine.create_filesystem(name, properties={"mountpoint": before, "acltype": "off"})
    requested = {"mountpoint": after, "acltype": "posix", "xattr": "sa", "canmount": "on", "zvaai:name": "adopted"}
    with rig.hands.opened(name):
        with pytest.raises(DatasetBusy):
            rig.engine.set_properties(name, requested)
        filesystem = rig.engine.filesystem(name)
        assert filesystem.mounted and filesystem.mountpoint == before
        assert filesystem.properties["acltype"].value == "off" and "zvaai:name" not in filesystem.properties
    rig.engine.set_properties(name, requested)
    filesystem = rig.engine.filesystem(name)
    assert filesystem.mountpoint == after and filesystem.properties["acltype"].value == "posix"
    assert filesystem.properties["zvaai:name"].value == "adopted"
    rig.engine.mount(name)
    assert rig.engine.filesystem(name).mounted
    rig.engine.destroy(name)
