# SPDX-License-Identifier: Apache-2.0
"""Contract: keys that are stored next to the engine, on every engine."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from appliance.zfs.errors import (
    DatasetExists,
    KeyConfirmed,
    NoStoredKey,
    NotEncryptionRoot,
    UnexpectedFailure,
    WrongKey,
)
from appliance.zfs.keys import PROPERTY, Keys, StoredKeys
from appliance.zfs.model import KeyStatus
from appliance.zfs.tests.contract.rig import MIB, Rig


def status(rig: Rig, name: str) -> KeyStatus:
    encryption = rig.engine.filesystem(name).encryption
    assert encryption is not None
    return encryption.key_status


def test_a_key_is_created_stored_loaded_and_exported_until_it_is_confirmed(rig: Rig, tmp_path: Path) -> None:
    stored_keys = StoredKeys(rig.engine, tmp_path / "keys")
    keys: Keys = rig.engine if isinstance(rig.engine, Keys) else stored_keys
    name, identifier = rig.name("root"), str(uuid.uuid4())
    keys.create_encryption_root(name, identifier)
    made = rig.engine.filesystem(name)
    assert made.encryption is not None and made.encryption.algorithm == "aes-256-gcm" and not made.mounted
    assert identifier in {key.identifier for key in keys.stored_keys()}
    keys.create_encryption_root(name, identifier)  # as after a crash
    with pytest.raises(DatasetExists):
        keys.create_encryption_root(name, str(uuid.uuid4()))
    # Children are encrypted, and so are their clones.
    rig.engine.create_filesystem(f"{name}/child", properties={"canmount": "off", "mountpoint": "none"})
    rig.engine.create_volume(f"{name}/vol", MIB)
    rig.engine.snapshot([f"{name}/vol@one"])
    rig.engine.clone(f"{name}/vol@one", f"{name}/clone")
    cloned = rig.engine.volume(f"{name}/clone").encryption
    assert cloned is not None and cloned.root == name
    rig.hands.unload_key(name)
    assert status(rig, name) == KeyStatus.UNAVAILABLE
    with pytest.raises(NotEncryptionRoot):
        keys.load_stored_key(f"{name}/child")
    keys.load_stored_key(name)
    keys.load_stored_key(name)
    assert status(rig, name) == KeyStatus.AVAILABLE
    # Exported until a user confirms it, and valid elsewhere.
    secret = keys.export_key(name)
    assert keys.export_key(name) == secret
    (stored,) = [key for key in keys.stored_keys() if key.identifier == identifier]
    assert stored.exported_at is not None and stored.confirmed_at is None
    for wrong in (bytes(32), b"short"):
        with pytest.raises(WrongKey):
            keys.confirm_key(name, wrong)
    keys.confirm_key(name, bytes.fromhex(secret))
    keys.confirm_key(name, bytes.fromhex(secret))
    with pytest.raises(KeyConfirmed):
        keys.export_key(name)
    elsewhere = StoredKeys(rig.engine, tmp_path / "elsewhere")
    with pytest.raises(NoStoredKey):
        elsewhere.load_stored_key(name)
    for wrong in (bytes(32), b"short"):
        with pytest.raises(WrongKey):
            elsewhere.store_key(name, wrong)  # also while the key is loaded
    rig.hands.unload_key(name)
    for wrong in (bytes(32), b"short"):
        with pytest.raises(WrongKey):
            elsewhere.store_key(name, wrong)
    assert elsewhere.stored_keys() == []
    elsewhere.store_key(name, bytes.fromhex(secret))
    assert status(rig, name) == KeyStatus.AVAILABLE
    rig.hands.unload_key(name)
    elsewhere.load_stored_key(name)
    with pytest.raises(KeyConfirmed):
        elsewhere.export_key(name)


def test_a_stored_key_is_never_replaced_by_another(rig: Rig, tmp_path: Path) -> None:
    keys = StoredKeys(rig.engine, tmp_path / "keys")
    name, replica, identifier, other = rig.name("root"), rig.name("replica"), str(uuid.uuid4()), bytes(range(32))
    keys.create_encryption_root(name, identifier)
    named = {"canmount": "off", "mountpoint": "none", PROPERTY: identifier}  # as a raw replica's whose key was changed
    rig.engine.create_filesystem(replica, properties=named, key=other)
    rig.hands.unload_key(replica)
    keys.store_key(replica, other)
    rig.hands.unload_key(replica)
    rig.hands.unload_key(name)
    for root in (name, replica):
        keys.load_stored_key(root)
        assert status(rig, root) == KeyStatus.AVAILABLE
    # The key of another root is refused, though it is stored and the root's own is loaded.
    with pytest.raises(WrongKey):
        keys.store_key(name, other)
    assert rig.engine.filesystem(name).properties[PROPERTY].value == identifier
    # The same key again changes nothing, not even that it may be exported.
    rig.hands.unload_key(name)
    secret = keys.export_key(name)
    keys.store_key(name, bytes.fromhex(secret))
    assert len(keys.stored_keys()) == 2
    # A loaded key is stored elsewhere.
    elsewhere = StoredKeys(rig.engine, tmp_path / "elsewhere")
    elsewhere.store_key(name, bytes.fromhex(secret))
    rig.hands.unload_key(name)
    elsewhere.load_stored_key(name)


def test_datasets_without_a_key(rig: Rig, tmp_path: Path) -> None:
    keys = StoredKeys(rig.engine, tmp_path / "keys")
    plain = rig.filesystem()
    for call in (keys.load_stored_key, keys.export_key):
        with pytest.raises(NotEncryptionRoot):
            call(plain)


def test_keys_are_sealed_once(rig: Rig, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    keys, master = StoredKeys(rig.engine, folder), folder / "master"
    name, identifier = rig.name("root"), str(uuid.uuid4())
    keys.create_encryption_root(name, identifier)
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"{identifier}.key", "master"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600} and folder.stat().st_mode & 0o777 == 0o700
    secret = keys.export_key(name)
    for file in files:
        assert secret not in file.read_text() and bytes.fromhex(secret) not in file.read_bytes()
    # A lost master key is not replaced while there are keys that only it opens.
    content = master.read_bytes()
    master.unlink()
    rig.hands.unload_key(name)
    for call in (keys.load_stored_key, lambda _: keys.create_encryption_root(rig.name("root"), str(uuid.uuid4()))):
        with pytest.raises(UnexpectedFailure, match="restore it"):
            call(name)
    master.write_bytes(content)
    keys.load_stored_key(name)
