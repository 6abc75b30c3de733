# SPDX-License-Identifier: Apache-2.0
"""A second attempt stores a key, wherever the first one was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from simulators.zfs import Simulator

from appliance.zfs import stable
from appliance.zfs.errors import WrongKey
from appliance.zfs.keys import PROPERTY, StoredKeys
from appliance.zfs.model import KeyStatus, VdevSpec

ROOT, OTHER = "tank/encrypted", "11111111-1111-4111-8111-111111111111"


class KilledError(Exception):
    """Simulates the kill of the process."""


@pytest.fixture
def simulator() -> Simulator:
    """A simulator with an encryption root from another server, without its key."""
    simulator = Simulator()
    simulator.create_pool("tank", [VdevSpec(devices=(simulator.disks()[0].path,))])
    return simulator


@pytest.mark.parametrize("step", ["set_properties", "replace"])
def test_killed_before_naming_or_writing_the_key(
    step: str, simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, before = os.urandom(32), StoredKeys(simulator, tmp_path)
    before.create_encryption_root("tank/mine", OTHER)  # the identifier that the root names has another key here
    properties = {"mountpoint": "none", PROPERTY: OTHER}
    simulator.create_filesystem(ROOT, properties=properties, key=key)
    simulator.unload_key(ROOT)

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(simulator if step == "set_properties" else stable, step, killed)
        with pytest.raises(KilledError):
            before.store_key(ROOT, key)
    keys = StoredKeys(simulator, tmp_path)
    with pytest.raises(WrongKey):  # a key that opened nothing is not stored
        keys.store_key(ROOT, os.urandom(32))
    keys.store_key(ROOT, key)
    assert simulator.filesystem(ROOT).properties[PROPERTY].value != OTHER and len(keys.stored_keys()) == 2
    simulator.unload_key(ROOT)
    keys.load_stored_key(ROOT)
    encryption = simulator.filesystem(ROOT).encryption
    assert encryption is not None and encryption.key_status == KeyStatus.AVAILABLE
