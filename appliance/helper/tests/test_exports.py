# SPDX-License-Identifier: Apache-2.0
"""A worker under an attacker's control can export only datastores: refusals, with a ganesha that accepts anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from simulators.ganesha import GaneshaSimulator
from simulators.zfs import Simulator

from appliance.dataplane.ganesha import (
    Clients,
    Export,
    ExportRefusedError,
    ExportSettings,
    GaneshaUnreachableError,
    NoSuchExportError,
)
from appliance.helper.checks import Policy
from appliance.helper.client import HelperClient, connect
from appliance.helper.exports import CheckedExports
from appliance.helper.tests.served import client_of, served
from appliance.zfs.errors import NoSuchDataset, Refused, ZfsError
from appliance.zfs.model import VdevSpec

PLACE = "/srv/zvaai/one"


@dataclass
class Rig:
    """A helper with a datastore, tank/one; the visible mounts; and another owner's export 9."""

    simulator: Simulator
    ganesha: GaneshaSimulator
    seen: dict[str, str] = field(default_factory=dict)
    client: HelperClient = field(init=False)

    def filesystem(self, name: str, mountpoint: str, **more: str) -> int:
        """Creates another file system; returns its GUID."""
        made = self.simulator.create_filesystem(name, properties={"mountpoint": mountpoint, **more})
        self.seen.setdefault(mountpoint, name)
        return made.guid

    def add(self, dataset: str = "tank/one", guid: int | None = None, **other: Any) -> None:
        """Adds a valid export, with other arguments if given."""
        number, share = other.pop("number", 1), other.pop("share", "/one")
        settings = ExportSettings(**{"clients": ["192.0.2.1"], **other})
        dataset_guid = self.simulator.filesystem(dataset).guid if guid is None else guid
        self.client.add_export(dataset, dataset_guid, number, share, settings)

    @property
    def served(self) -> dict[int, str]:
        return {export.export_id: export.path for export in self.ganesha.served()}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    simulator, ganesha = Simulator(), GaneshaSimulator()
    simulator.create_pool("tank", [VdevSpec(devices=(simulator.disks()[0].path,))], force=True)
    rig = Rig(simulator, ganesha)
    rig.filesystem("tank/one", PLACE)
    ganesha.add(Export(9, Path("/usr"), "/others"))
    ganesha.lose_file(9)
    exports = CheckedExports(simulator, ganesha, Policy().mount_directories, lambda place: rig.seen.get(place))
    with served(simulator, tmp_path / "helper.sock", exports=exports):
        rig.client = connect(tmp_path / "helper.sock")
        yield rig


def test_a_datastore_is_exported_as_requested(rig: Rig) -> None:
    rig.add(clients=["192.0.2.1", "2001:db8::/32"])
    (export, _) = rig.ganesha.served()
    assert (export.path, export.pseudo) == (PLACE, "/one")
    assert export.clients == {"192.0.2.1", "2001:db8::/32"}
    assert (
        export.text
        and "FSAL { Name = ZVAAI; }" in export.text
        and f"# guid {rig.simulator.filesystem('tank/one').guid}" in export.text
    )
    guid = rig.simulator.filesystem("tank/one").guid
    rig.client.change_export("tank/one", guid, 1, "/one", ExportSettings([], 1 << 40))
    (export, _) = rig.ganesha.served()
    assert export.clients == set() and export.text and f"FSAL {{ Name = ZVAAI; Thick_Size = {1 << 40}; }}" in export.text
    rig.client.remove_export(1)
    assert set(rig.served) == {9}


@pytest.mark.parametrize(
    "wrong",
    [
        {"guid": 4711},
        {"guid": 0},
        {"guid": 1 << 64},
        {"number": 0},
        {"number": 65536},
        {"share": "one"},
        {"share": "/"},
        {"share": "/a/../b"},
        {"share": '/one"; FSAL { Name = VFS; } #'},
        {"share": "/one\n"},
        {"share": "/" + "a" * 255},
        {"clients": ["*"]},
        {"clients": ["192.0.2.1; }"]},
        {"clients": ["192.0.2.1", "192.0.2.1/32"]},
        {"clients": ["fe80::1%eth0"]},
        {"clients": ["192.0.2.1"] * 16_385},
        {"thick_size": 0},
        {"thick_size": 1 << 61},
        {"thick_size": "1; }"},
    ],
)  # fmt: skip
def test_invalid_values_of_an_export(rig: Rig, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        rig.add(**wrong)
    assert set(rig.served) == {9}


@pytest.mark.parametrize("mountpoint", ["/usr", "/srv/zvaai", "/srv/zvaai/one/two", "/srv/zvaai-else"])
def test_file_systems_mounted_elsewhere(rig: Rig, mountpoint: str) -> None:
    rig.filesystem("tank/else", mountpoint)
    with pytest.raises(Refused, match="is mounted at"):
        rig.add("tank/else")
    assert set(rig.served) == {9}


def test_hidden_mounts(rig: Rig) -> None:
    with pytest.raises(NoSuchDataset):
        rig.add("tank/none", 1)
    rig.seen[PLACE] = "tank/copy"
    with pytest.raises(Refused, match="at /srv/zvaai/one is tank/copy mounted"):
        rig.add()
    rig.seen[PLACE] = "tank/one"
    rig.simulator.unmount("tank/one")
    with pytest.raises(Refused, match="nothing mounted"):
        rig.add()
    assert set(rig.served) == {9}
    rig.simulator.mount("tank/one")
    rig.add()
    assert set(rig.served) == {1, 9}


@pytest.mark.parametrize("instead", [None, "tank/copy"])
def test_a_mount_that_ends_before_ganesha_exports_it(rig: Rig, monkeypatch: pytest.MonkeyPatch, instead: str | None) -> None:
    """The same caller unmounts it on another connection."""
    real = rig.ganesha.add

    def late(export: Export) -> None:
        rig.seen.pop(PLACE)
        if instead:
            rig.seen[PLACE] = instead
        else:
            rig.simulator.unmount("tank/one")
        real(export)

    monkeypatch.setattr(rig.ganesha, "add", late)
    with pytest.raises(Refused, match=f"{instead or 'nothing'} mounted"):
        rig.add()
    assert set(rig.served) == {9}


def test_plain_datasets(rig: Rig) -> None:
    rig.filesystem("tank/zvaai-reservations", "/srv/zvaai/any")
    rig.filesystem("tank/else", "/srv/zvaai/.reservations-4711")
    rig.filesystem("tank/replica", "/srv/zvaai/replica", **{"zvaai:guid": "4711"})
    for dataset, says in (
        ("tank/zvaai-reservations", "the target's"),
        ("tank/else", "the target's"),
        ("tank/replica", "a copy"),
    ):
        with pytest.raises(Refused, match=says):
            rig.add(dataset)
    assert set(rig.served) == {9}


def test_others_exports_are_left_alone(rig: Rig) -> None:
    before = rig.ganesha.served()
    guid = rig.simulator.filesystem("tank/one").guid
    with pytest.raises(Refused, match="none of the appliance's"):
        rig.client.change_export("tank/one", guid, 9, "/others", ExportSettings([]))
    with pytest.raises(Refused, match="none of the appliance's"):
        rig.client.remove_export(9)
    assert rig.ganesha.served() == before


def test_values_of_ganesha_survive_a_round_trip(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.add()
    with pytest.raises(ExportRefusedError, match="1 is there"):
        rig.add()
    with pytest.raises(NoSuchExportError):
        rig.client.remove_export(2)

    def gone() -> Clients:
        raise GaneshaUnreachableError("it is away")

    monkeypatch.setattr(rig.ganesha, "served", gone)
    with pytest.raises(GaneshaUnreachableError, match="it is away"):
        rig.client.remove_export(1)


def test_pools_that_are_not_the_helpers(rig: Rig, tmp_path: Path) -> None:
    exports = CheckedExports(rig.simulator, rig.ganesha, Policy().mount_directories, lambda _: "tank/one")
    with served(rig.simulator, tmp_path / "other.sock", policy=Policy(pools=frozenset({"other"})), exports=exports):
        rig.client = connect(tmp_path / "other.sock")
        with pytest.raises(Refused, match="none of this helper's"):
            rig.add()
    assert set(rig.served) == {9}


def test_without_a_folder_of_exports_there_are_none(rig: Rig, tmp_path: Path) -> None:
    with client_of(rig.simulator, tmp_path / "without.sock") as client, pytest.raises(ZfsError, match="--exports"):
        client.remove_export(1)
