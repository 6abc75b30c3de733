# SPDX-License-Identifier: Apache-2.0
"""A key is kept by a second try, whenever the first one was killed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from simulators.zfs import Simulator

from appliance.zfs.errors import KeyLoaded
from appliance.zfs.keys import PROPERTY, KeptKeys
from appliance.zfs.model import KeyStatus, NewEncryption, VdevSpec

ROOT, OTHER = "tank/encrypted", "11111111-1111-4111-8111-111111111111"


class KilledError(Exception):
    """In place of a process that ends."""


@pytest.fixture
def simulator() -> Simulator:
    """With a root that came with its pool, whose key is not loaded."""
    simulator = Simulator()
    simulator.create_pool("tank", [VdevSpec(devices=(simulator.disks()[0].path,))])
    return simulator


def test_killed_between_writing_the_key_and_naming_it(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, before = os.urandom(32), KeptKeys(simulator, tmp_path)
    before.create_encryption_root("tank/mine", OTHER)  # the identifier that the root names has another key here
    properties = {"mountpoint": "none", PROPERTY: OTHER}
    simulator.create_filesystem(ROOT, properties=properties, encryption=NewEncryption(key=key))
    simulator.unload_key(ROOT)

    def killed(_name: str, _properties: Mapping[str, str]) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(simulator, "set_properties", killed)
        with pytest.raises(KilledError):
            before.keep_key(ROOT, key)
    keys = KeptKeys(simulator, tmp_path)
    with pytest.raises(KeyLoaded):  # what opened nothing is not kept
        keys.keep_key(ROOT, os.urandom(32))
    keys.keep_key(ROOT, key)
    assert simulator.filesystem(ROOT).properties[PROPERTY].value != OTHER and len(keys.kept_keys()) == 2
    simulator.unload_key(ROOT)
    keys.load_kept_key(ROOT)
    found = simulator.filesystem(ROOT).encryption
    assert found is not None and found.key_status == KeyStatus.AVAILABLE
