# SPDX-License-Identifier: Apache-2.0
"""Contract: keys that are kept where the engine is, on every engine."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from appliance.zfs.errors import (
    DatasetExists,
    KeyLoaded,
    KeyToldAlready,
    NoKeptKey,
    NotEncryptionRoot,
    UnexpectedFailure,
    WrongKey,
)
from appliance.zfs.keys import PROPERTY, KeptKeys, Keys
from appliance.zfs.model import KeyStatus, NewEncryption
from appliance.zfs.tests.contract.rig import MIB, Rig


def status(rig: Rig, name: str) -> KeyStatus:
    found = rig.engine.filesystem(name).encryption
    assert found is not None
    return found.key_status


def test_a_key_is_made_kept_loaded_and_told_until_it_is_confirmed(rig: Rig, tmp_path: Path) -> None:
    own = KeptKeys(rig.engine, tmp_path / "keys")
    keys: Keys = rig.engine if isinstance(rig.engine, Keys) else own
    name, identifier = rig.name("root"), str(uuid.uuid4())
    keys.create_encryption_root(name, identifier)
    made = rig.engine.filesystem(name)
    assert made.encryption is not None and made.encryption.algorithm == "aes-256-gcm" and not made.mounted
    assert identifier in {key.identifier for key in keys.kept_keys()}
    keys.create_encryption_root(name, identifier)  # as after a crash
    with pytest.raises(DatasetExists):
        keys.create_encryption_root(name, str(uuid.uuid4()))
    # What is below is encrypted, and so are its clones, which move within the root.
    rig.engine.create_volume(f"{name}/vol", MIB)
    rig.engine.snapshot([f"{name}/vol@one"])
    rig.engine.clone(f"{name}/vol@one", f"{name}/clone")
    rig.engine.create_filesystem(f"{name}/aside", properties={"canmount": "off", "mountpoint": "none"})
    rig.engine.rename(f"{name}/clone", f"{name}/aside/clone")
    moved = rig.engine.volume(f"{name}/aside/clone").encryption
    assert moved is not None and moved.root == name
    # As after a restart or an import.
    rig.engine.unload_key(name)
    assert status(rig, name) == KeyStatus.UNAVAILABLE
    with pytest.raises(NotEncryptionRoot):
        keys.load_kept_key(f"{name}/aside")
    keys.load_kept_key(name)
    keys.load_kept_key(name)
    assert status(rig, name) == KeyStatus.AVAILABLE
    # Told until somebody shows that he has it, and good elsewhere.
    secret = keys.export_kept_key(name)
    assert keys.export_kept_key(name) == secret
    (kept,) = [key for key in keys.kept_keys() if key.identifier == identifier]
    assert kept.told_at is not None and kept.confirmed_at is None
    for wrong in (bytes(32), b"short"):
        with pytest.raises(WrongKey):
            keys.confirm_kept_key(name, wrong)
    keys.confirm_kept_key(name, bytes.fromhex(secret))
    keys.confirm_kept_key(name, bytes.fromhex(secret))
    with pytest.raises(KeyToldAlready):
        keys.export_kept_key(name)
    elsewhere = KeptKeys(rig.engine, tmp_path / "elsewhere")
    with pytest.raises(NoKeptKey):
        elsewhere.load_kept_key(name)
    with pytest.raises(KeyLoaded):
        elsewhere.keep_key(name, bytes.fromhex(secret))
    rig.engine.unload_key(name)
    for wrong in (bytes(32), b"short"):
        with pytest.raises(WrongKey):
            elsewhere.keep_key(name, wrong)
    assert elsewhere.kept_keys() == []
    elsewhere.keep_key(name, bytes.fromhex(secret))
    assert status(rig, name) == KeyStatus.AVAILABLE
    rig.engine.unload_key(name)
    elsewhere.load_kept_key(name)
    with pytest.raises(KeyToldAlready):
        elsewhere.export_kept_key(name)


def test_a_kept_key_is_never_replaced_by_another(rig: Rig, tmp_path: Path) -> None:
    keys = KeptKeys(rig.engine, tmp_path / "keys")
    name, replica, identifier, other = rig.name("root"), rig.name("replica"), str(uuid.uuid4()), bytes(range(32))
    keys.create_encryption_root(name, identifier)
    named = {"canmount": "off", "mountpoint": "none", PROPERTY: identifier}  # as a raw replica's whose key was changed
    rig.engine.create_filesystem(replica, properties=named, encryption=NewEncryption(key=other))
    rig.engine.unload_key(replica)
    keys.keep_key(replica, other)
    rig.engine.unload_key(replica)
    rig.engine.unload_key(name)
    for root in (name, replica):
        keys.load_kept_key(root)
        assert status(rig, root) == KeyStatus.AVAILABLE
    # The same key once more: nothing is forgotten, not even that it may be told.
    rig.engine.unload_key(name)
    secret = keys.export_kept_key(name)
    keys.keep_key(name, bytes.fromhex(secret))
    assert len(keys.kept_keys()) == 2


def test_what_no_key_was_made_for(rig: Rig, tmp_path: Path) -> None:
    keys = KeptKeys(rig.engine, tmp_path / "keys")
    plain = rig.filesystem()
    for call in (keys.load_kept_key, keys.export_kept_key):
        with pytest.raises(NotEncryptionRoot):
            call(plain)


def test_keys_are_sealed_and_never_sealed_anew(rig: Rig, tmp_path: Path) -> None:
    keys = KeptKeys(rig.engine, tmp_path / "keys", tmp_path / "master")
    name, identifier = rig.name("root"), str(uuid.uuid4())
    keys.create_encryption_root(name, identifier)
    files = [*(tmp_path / "keys").iterdir(), tmp_path / "master"]
    assert [file.name for file in files] == [f"{identifier}.key", "master"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600} and (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    secret = keys.export_kept_key(name)
    for file in files:
        assert secret not in file.read_text() and bytes.fromhex(secret) not in file.read_bytes()
    # A lost master key is not replaced while there are keys that it alone opens.
    master = (tmp_path / "master").read_bytes()
    (tmp_path / "master").unlink()
    rig.engine.unload_key(name)
    for call in (keys.load_kept_key, lambda _: keys.create_encryption_root(rig.name("root"), str(uuid.uuid4()))):
        with pytest.raises(UnexpectedFailure, match="put it back"):
            call(name)
    (tmp_path / "master").write_bytes(master)
    keys.load_kept_key(name)
