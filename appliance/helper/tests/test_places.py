# SPDX-License-Identifier: Apache-2.0
"""Mounts before anything is served: locked datastores, and several datasets at a mountpoint."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from simulators.zfs import Simulator

from appliance.helper.places import repair, unlock
from appliance.zfs.errors import DatasetBusy
from appliance.zfs.keys import StoredKeys
from appliance.zfs.model import VdevSpec

PLACE = "/srv/zvaai/one"
DIRECTORIES = ("/srv/zvaai/",)
ORIGINAL, COPY = "tank/one", "rust/one"


@pytest.fixture
def simulator() -> Simulator:
    """A datastore in one pool, a copy of it in the other, with the same mountpoint."""
    simulator = Simulator()
    disks = [disk.path for disk in simulator.disks()]
    for pool, disk in zip(("tank", "rust"), disks, strict=False):
        simulator.create_pool(pool, [VdevSpec(devices=(disk,))])
    guid = simulator.create_filesystem(ORIGINAL, properties={"mountpoint": PLACE}).guid
    simulator.create_filesystem(COPY, properties={"mountpoint": PLACE})
    for name in (ORIGINAL, COPY):
        simulator.set_properties(name, {"zvaai:guid": str(guid)})
    return simulator


def mounted(simulator: Simulator) -> set[str]:
    return {name for name in (ORIGINAL, COPY) if simulator.filesystem(name).mounted}


@pytest.mark.parametrize("mounted_datasets", [[ORIGINAL, COPY], [COPY, ORIGINAL], [COPY]])
def test_the_datastore_alone_stays(simulator: Simulator, mounted_datasets: list[str]) -> None:
    for name in {ORIGINAL, COPY} - set(mounted_datasets):
        simulator.unmount(name)
    assert repair(simulator, DIRECTORIES, lambda _place: mounted_datasets)
    assert mounted(simulator) == {ORIGINAL}


@pytest.mark.parametrize("mounted_datasets", [[ORIGINAL], []])
def test_correct_mounts_are_not_changed(simulator: Simulator, mounted_datasets: list[str]) -> None:
    for name in {ORIGINAL, COPY} - set(mounted_datasets):
        simulator.unmount(name)
    assert repair(simulator, DIRECTORIES, lambda _place: mounted_datasets)
    assert mounted(simulator) == set(mounted_datasets), "an unmounted datastore is unmounted on purpose, or has no key"


def test_a_copy_alone_has_no_right_to_the_place(simulator: Simulator) -> None:
    simulator.destroy(ORIGINAL)
    assert repair(simulator, DIRECTORIES, lambda _place: [COPY])
    assert not simulator.filesystem(COPY).mounted


def test_plain_datasets_are_not_changed(simulator: Simulator) -> None:
    simulator.create_filesystem("tank/home", properties={"mountpoint": "/home"})
    simulator.create_filesystem("tank/theirs", properties={"mountpoint": "/srv/zvaai/theirs"})
    simulator.create_filesystem("rust/theirs", properties={"mountpoint": "/srv/zvaai/theirs"})
    simulator.unmount(COPY)
    datasets_by_place = {
        "/home": ["tank/home", "rust/home"],
        "/srv/zvaai/theirs": ["tank/theirs", "rust/theirs"],
        PLACE: [ORIGINAL],
    }
    assert repair(simulator, DIRECTORIES, lambda place: datasets_by_place[place])
    assert all(simulator.filesystem(name).mounted for name in ("tank/home", "tank/theirs", "rust/theirs"))


def test_a_mountpoint_in_use_does_not_block_the_repair_of_another(simulator: Simulator) -> None:
    second = simulator.create_filesystem("tank/two", properties={"mountpoint": "/srv/zvaai/two"})
    simulator.create_filesystem("rust/two", properties={"mountpoint": "/srv/zvaai/two"})
    for name in ("tank/two", "rust/two"):
        simulator.set_properties(name, {"zvaai:guid": str(second.guid)})
    simulator.fail_next("unmount", DatasetBusy(COPY, ("tar (process 7)",)))
    datasets_by_place = {PLACE: [ORIGINAL, COPY], "/srv/zvaai/two": ["tank/two", "rust/two"]}
    assert not repair(simulator, DIRECTORIES, lambda place: datasets_by_place[place])
    assert mounted(simulator) == {ORIGINAL, COPY}
    assert simulator.filesystem("tank/two").mounted and not simulator.filesystem("rust/two").mounted


def test_reservations_belong_to_their_pool(simulator: Simulator) -> None:
    place = f"/srv/zvaai/.reservations-{simulator.pool('tank').guid}"
    for pool in ("tank", "rust"):
        simulator.create_filesystem(f"{pool}/zvaai-reservations", properties={"mountpoint": place})
    simulator.unmount(COPY)
    datasets_by_place = {PLACE: [ORIGINAL], place: ["tank/zvaai-reservations", "rust/zvaai-reservations"]}
    assert repair(simulator, DIRECTORIES, lambda place: datasets_by_place[place])
    assert simulator.filesystem("tank/zvaai-reservations").mounted
    assert not simulator.filesystem("rust/zvaai-reservations").mounted


def test_locked_datastores_are_mounted(simulator: Simulator, tmp_path: Path) -> None:
    """The key of the second root is not stored here."""
    keys, elsewhere = StoredKeys(simulator, tmp_path / "keys"), StoredKeys(simulator, tmp_path / "elsewhere")
    for pool, stored in (("tank", keys), ("rust", elsewhere)):
        root = f"{pool}/zvaai-encrypted"
        stored.create_encryption_root(root, str(uuid.uuid4()))
        for name, canmount in (("store", "on"), ("by-hand", "noauto")):
            properties = {"mountpoint": f"/srv/zvaai/{pool}-{name}", "canmount": canmount}
            simulator.create_filesystem(f"{root}/{name}", properties=properties)
        simulator.unmount(f"{root}/store")
        simulator.unload_key(root)
    for _ in range(2):  # the second time after a kill before the mount
        unlock(simulator, DIRECTORIES, keys)
        assert simulator.filesystem("tank/zvaai-encrypted/store").mounted
        simulator.unmount("tank/zvaai-encrypted/store")
    assert not simulator.filesystem("tank/zvaai-encrypted/by-hand").mounted
    assert not simulator.filesystem("rust/zvaai-encrypted/store").mounted
    for file in (tmp_path / "keys").glob("*.key"):
        file.write_text("damaged")
    simulator.unload_key("tank/zvaai-encrypted")
    unlock(simulator, DIRECTORIES, keys)
    assert not simulator.filesystem("tank/zvaai-encrypted/store").mounted


def test_encrypted_datastores_are_mounted_at_once(simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that replays much after a crash does not use up the time of the others: here each waits for the other."""
    keys, together, mount = StoredKeys(simulator, tmp_path / "keys"), threading.Barrier(2, timeout=60), simulator.mount
    keys.create_encryption_root("tank/zvaai-encrypted", str(uuid.uuid4()))
    names = [f"tank/zvaai-encrypted/{name}" for name in ("one", "two")]
    for name in names:
        simulator.create_filesystem(name, properties={"mountpoint": f"/srv/zvaai/{name.rpartition('/')[2]}"})
        simulator.unmount(name)

    def late(name: str) -> None:
        together.wait()
        mount(name)

    monkeypatch.setattr(simulator, "mount", late)
    unlock(simulator, DIRECTORIES, keys)
    assert [simulator.filesystem(name).mounted for name in names] == [True, True]
