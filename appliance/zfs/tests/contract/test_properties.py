# SPDX-License-Identifier: Apache-2.0
"""Contract: properties, their sources, and encryption keys."""

from __future__ import annotations

import pytest

from appliance.zfs.errors import (
    InvalidProperty,
    KeyLoaded,
    KeyNotLoaded,
    NoSuchDataset,
    NotEncryptionRoot,
    OutOfSpace,
    WrongKey,
)
from appliance.zfs.model import KeyStatus, Source
from appliance.zfs.tests.contract.rig import MIB, Rig


def test_sources(rig: Rig) -> None:
    top = rig.filesystem(**{"zvaai:name": "top", "compression": "zstd"})
    below = f"{top}/below"
    inherited = rig.engine.create_filesystem(below).properties
    for name, value in (("zvaai:name", "top"), ("compression", "zstd")):
        assert (inherited[name].value, inherited[name].source, inherited[name].inherited_from) == (value, Source.INHERITED, top)
    assert inherited["sync"].source == Source.DEFAULT and inherited["sync"].inherited_from is None
    rig.engine.set_properties(below, {"zvaai:name": "below", "compression": "lz4"})
    inherited = rig.engine.filesystem(below).properties
    assert (inherited["zvaai:name"].value, inherited["zvaai:name"].source) == ("below", Source.LOCAL)
    assert (inherited["compression"].value, inherited["compression"].source) == ("lz4", Source.LOCAL)
    rig.engine.inherit_property(below, "zvaai:name")
    rig.engine.inherit_property(below, "compression")
    assert rig.engine.filesystem(below).properties["zvaai:name"].value == "top"
    assert rig.engine.filesystem(below).properties["compression"].inherited_from == top
    rig.engine.inherit_property(top, "zvaai:name")
    assert "zvaai:name" not in rig.engine.filesystem(below).properties
    everything = rig.engine.properties(below)
    assert everything["type"].value == "filesystem" and everything["guid"].value == str(rig.engine.filesystem(below).guid)


def test_guids_are_exact(rig: Rig) -> None:
    """Half of all GUIDs need the 64th bit, which is lost where JSON's numbers are used."""
    guids = [rig.engine.filesystem(rig.filesystem()).guid]
    guids += [filesystem.guid for filesystem in rig.engine.filesystems()] + [volume.guid for volume in rig.engine.volumes()]
    guids += [snapshot.guid for snapshot in rig.engine.snapshots()] + [pool.guid for pool in rig.engine.pools()]
    assert all(0 < guid < 1 << 64 and guid != (1 << 63) - 1 for guid in guids)


TEXTS = ["", "ü €", 'tab\t"quote" \\ back', "line\nbreak", "x" * 8191, "-", "a=b"]


def test_any_text_is_restored(rig: Rig) -> None:
    name = rig.filesystem()
    texts = {f"zvaai:text{number}": text for number, text in enumerate(TEXTS)}
    rig.engine.set_properties(name, texts)
    properties = rig.engine.filesystem(name).properties
    assert {key: properties[key].value for key in texts} == texts


NOT_SETTABLE = [
    ("zvaai:x", "x" * 8192),
    ("zvaai:x", "a\0b"),
    ("Zvaai:x", "1"),
    ("zvaai:" + "x" * 256, "1"),
    ("zvaai", "1"),
    ("compression", "best"),
    ("compression", ""),
    ("sync", "never"),
    ("quota", "1G"),
    ("quota", "-1"),
    ("quota", str(1 << 61)),
    ("recordsize", "5000"),
    ("volsize", "1048576"),
    ("volblocksize", "8192"),
    ("keylocation", "file:///etc/shadow"),
    ("mountpoint", "relative"),
    ("mountpoint", "/srv/../etc"),
    ("used", "0"),
    ("snapdev", "visible"),
    ("sharenfs", "on"),
]


def test_properties_that_cannot_be_set(rig: Rig) -> None:
    filesystem = rig.filesystem()
    before = rig.engine.filesystem(filesystem).properties
    for name, value in NOT_SETTABLE:
        with pytest.raises(InvalidProperty) as caught:
            rig.engine.set_properties(filesystem, {"zvaai:first": "1", name: value})
        assert caught.value.property == name[: len(caught.value.property)]
    assert rig.engine.filesystem(filesystem).properties == before, "all or none"


def test_kinds_differ(rig: Rig) -> None:
    with pytest.raises(InvalidProperty):
        rig.engine.set_properties(rig.volume(), {"quota": "0"})
    with pytest.raises(InvalidProperty):
        rig.engine.create_volume(rig.name(), MIB, properties={"mountpoint": "none"})
    with pytest.raises(InvalidProperty):
        rig.engine.create_filesystem(rig.name(), properties={"volmode": "dev"})
    with pytest.raises(NoSuchDataset):
        rig.engine.set_properties(rig.name(), {"zvaai:x": "1"})
    with pytest.raises(NoSuchDataset):
        rig.engine.inherit_property(rig.name(), "zvaai:x")
    with pytest.raises(NoSuchDataset):
        rig.engine.properties(rig.name())
    with pytest.raises(InvalidProperty):
        rig.engine.inherit_property(rig.pool, "used")


def test_reservations_and_quotas(rig: Rig) -> None:
    name = rig.filesystem()
    rig.engine.set_properties(name, {"refreservation": str(8 * MIB), "quota": str(32 * MIB), "refquota": str(16 * MIB)})
    filesystem = rig.engine.filesystem(name)
    assert (filesystem.refreservation, filesystem.quota, filesystem.refquota) == (8 * MIB, 32 * MIB, 16 * MIB)
    assert 7 * MIB < filesystem.space.used_by_refreservation <= 8 * MIB
    assert rig.engine.filesystem(name).space.available <= 16 * MIB
    with pytest.raises(OutOfSpace):
        rig.engine.set_properties(name, {"reservation": str(64 << 30)})
    with pytest.raises(OutOfSpace):
        rig.engine.set_properties(name, {"quota": "4096"})
    rig.engine.set_properties(name, {"refreservation": "none", "quota": "none", "refquota": "0"})
    filesystem = rig.engine.filesystem(name)
    assert (filesystem.refreservation, filesystem.quota, filesystem.refquota, filesystem.space.used_by_refreservation) == (
        0,
        0,
        0,
        0,
    )


def test_quota_and_reservation_change_together(rig: Rig) -> None:
    """OpenZFS refuses a refquota below the refreservation, except when one call sets both."""
    name = rig.filesystem()

    def both() -> tuple[int, int]:
        filesystem = rig.engine.filesystem(name)
        return filesystem.refquota, filesystem.refreservation

    for size in (16 * MIB, 8 * MIB, 16 * MIB):
        rig.engine.set_properties(name, dict.fromkeys(("refquota", "refreservation"), str(size)))
        assert both() == (size, size)
    with pytest.raises(OutOfSpace):
        rig.engine.set_properties(name, {"refquota": str(8 * MIB)})
    with pytest.raises(OutOfSpace):
        rig.engine.set_properties(name, dict.fromkeys(("refquota", "refreservation"), str(64 << 30)))
    assert both() == (16 * MIB, 16 * MIB), "all or none"
    rig.engine.set_properties(name, {"refquota": str(8 * MIB), "refreservation": "none"})
    assert both() == (8 * MIB, 0)


def test_received_copy(rig: Rig) -> None:
    source, copy = rig.filesystem(**{"zvaai:name": "ds"}), rig.name("copy")
    rig.engine.snapshot([f"{source}@s"], properties={"zvaai:schedule": "nightly"})
    rig.hands.receive(f"{source}@s", copy)
    received = rig.engine.filesystem(copy)
    assert (received.properties["zvaai:name"].value, received.properties["zvaai:name"].source) == ("ds", Source.RECEIVED)
    assert received.guid != rig.engine.filesystem(source).guid, "a copy has a GUID of its own"
    assert rig.engine.snapshots(copy)[0].guid == rig.engine.snapshots(source)[0].guid, "its snapshots keep theirs"
    (snapshot,) = rig.engine.snapshots(copy, user_properties=("zvaai:schedule",))
    mark = snapshot.properties["zvaai:schedule"]
    assert (mark.value, mark.source) == ("nightly", Source.RECEIVED)
    rig.engine.set_properties(copy, {"zvaai:name": "adopted"})
    assert rig.engine.filesystem(copy).properties["zvaai:name"].source == Source.LOCAL
    rig.engine.inherit_property(copy, "zvaai:name")
    assert "zvaai:name" not in rig.engine.filesystem(copy).properties


RAW = bytes(range(32))


def test_encryption(rig: Rig) -> None:
    name = rig.name("enc")
    made = rig.engine.create_filesystem(name, key=RAW)
    assert made.encryption is not None
    assert (made.encryption.root, made.encryption.algorithm) == (name, "aes-256-gcm")
    assert made.encryption.key_status == KeyStatus.AVAILABLE
    below = rig.engine.create_volume(f"{name}/vol", MIB)
    assert below.encryption is not None and below.encryption.root == name
    with pytest.raises(NotEncryptionRoot) as caught:
        rig.engine.load_key(f"{name}/vol", RAW)
    assert caught.value.root == name
    rig.hands.unload_key(name)
    locked = rig.engine.volume(f"{name}/vol").encryption
    assert locked is not None and locked.key_status == KeyStatus.UNAVAILABLE
    with pytest.raises(KeyNotLoaded):
        rig.engine.create_filesystem(f"{name}/more")
    with pytest.raises(WrongKey):
        rig.engine.load_key(name, bytes(32))
    with pytest.raises(WrongKey):
        rig.engine.load_key(name, b"short")
    rig.engine.load_key(name, RAW)
    with pytest.raises(KeyLoaded):
        rig.engine.load_key(name, RAW)
    with pytest.raises(WrongKey):
        rig.engine.load_key(name, bytes(32))
    rig.engine.create_filesystem(f"{name}/more")


def test_a_clone_has_the_encryption_root_of_its_origin(rig: Rig) -> None:
    """Wherever it lies. A promotion makes it the root itself."""
    name, clone = rig.name("enc"), rig.name("clone")
    rig.engine.create_filesystem(name, properties={"mountpoint": "none"}, key=RAW)
    rig.engine.snapshot([f"{name}@s"])
    rig.engine.clone(f"{name}@s", clone, properties={"mountpoint": "none"})

    def roots() -> list[str | None]:
        states = [rig.engine.filesystem(each).encryption for each in (name, clone)]
        return [state.root if state else None for state in states]

    assert roots() == [name, name]
    with pytest.raises(NotEncryptionRoot):
        rig.engine.load_key(clone, RAW)
    rig.engine.promote(clone)
    assert roots() == [clone, clone]


def test_not_encrypted(rig: Rig) -> None:
    name = rig.filesystem()
    with pytest.raises(NotEncryptionRoot) as caught:
        rig.engine.load_key(name, RAW)
    assert caught.value.root == ""
