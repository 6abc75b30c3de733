# SPDX-License-Identifier: Apache-2.0
"""Thick VMFS datastores: their refreservation, and the change between thick and thin."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.target import TargetSimulator

from appliance.dataplane.target import LunSpace, TargetUnreachableError
from appliance.worker import reservations, thick
from appliance.worker.tests.test_files import until
from appliance.worker.tests.test_pools import free_disks
from appliance.zfs.errors import OutOfSpace, PoolBusy, UnexpectedFailure
from appliance.zfs.model import Volume
from appliance.zfs.properties import thick_refreservation


def volume(appliance: Appliance, name: str) -> Volume:
    store = next(datastore for datastore in appliance.service.context.datastores() if datastore.name == name)
    return appliance.simulator.volume(store.dataset)


def provisioning(appliance: Appliance, store: str) -> str:
    (lun,) = [lun.lun for target in appliance.target.targets() for lun in target.luns if lun.lun.uuid == store]
    return lun.provisioning


def change(appliance: Appliance, store: str, body: dict[str, Any], expect: str = "succeeded") -> Any:
    return appliance.job("PATCH", f"/datastores/{store}", body, expect=expect)


def shares(appliance: Appliance, store: str, shared: int | None, *, exact: bool = True) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.spaces[store] = LunSpace(GIB, shared, GIB - (shared or 0), exact, 0, time.time())


def test_thin_is_the_default(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    assert (volume(appliance, "first").refreservation, provisioning(appliance, store)) == (0, "thin")


def test_a_missing_refreservation_is_set_again_once(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    usual = volume(appliance, "first").refreservation
    assert usual > GIB and provisioning(appliance, store) == "thick"
    appliance.simulator.set_properties(volume(appliance, "first").name, {"refreservation": "none"})
    appliance.request("POST", "/reconcile")
    assert volume(appliance, "first").refreservation == usual
    reconciled = appliance.request("POST", "/reconcile").json
    assert reconciled is not None and reconciled["differences"] == []


@pytest.mark.parametrize(("block_size", "metadata"), [(16384, True), (1 << 20, False)])
def test_an_adopted_one_has_its_metadata_reserved_too(block_size: int, metadata: bool, appliance: Appliance) -> None:
    """TrueNAS reserves only the size."""
    simulator = appliance.simulator
    simulator.create_volume("tank/old", GIB, volblocksize=block_size, properties={"refreservation": str(GIB)})
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old"})
    appliance.request("POST", "/reconcile")
    usual = thick_refreservation(GIB, block_size) if metadata else GIB
    assert simulator.volume("tank/old").refreservation == usual
    reconciled = appliance.request("POST", "/reconcile").json
    assert reconciled is not None and reconciled["differences"] == []


def test_a_pool_that_cannot_be_changed_stops_no_other(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        appliance.datastore(name, thick=True)
    for name in ("first", "second"):
        appliance.simulator.set_properties(volume(appliance, name).name, {"refreservation": "none"})
    first, set_properties = volume(appliance, "first").name, appliance.simulator.set_properties

    def refused(dataset: str, properties: Mapping[str, str]) -> None:
        if dataset == first:
            raise UnexpectedFailure("zfs set", "the pool is read-only")
        set_properties(dataset, properties)

    monkeypatch.setattr(appliance.simulator, "set_properties", refused)
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert volume(appliance, "first").refreservation == 0 and volume(appliance, "second").refreservation > GIB


def test_a_datastore_that_becomes_thin_during_a_reconciliation_is_not_reserved(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, real, made = appliance.datastore("first", thick=True), reservations.folders, list[str]()
    dataset = volume(appliance, "first").name
    appliance.simulator.set_properties(dataset, {"refreservation": "none"})

    def after_the_scan(*arguments: Any) -> Any:
        if not made:
            job = appliance.request("PATCH", f"/datastores/{store}", {"thick": False}).json
            assert job is not None
            made.append(job["id"])
            until(lambda: appliance.simulator.volume(dataset).properties["zvaai:thick"].value == "off")
        return real(*arguments)

    monkeypatch.setattr(reservations, "folders", after_the_scan)
    appliance.service.context.reconciling.reconcile("test")
    assert appliance.ended(made[0])["state"] == "succeeded"
    assert appliance.get(f"/datastores/{store}")["thick"] is False and volume(appliance, "first").refreservation == 0


def test_an_older_list_makes_no_datastore_thick(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    dataset = volume(appliance, "first").name
    appliance.simulator.set_properties(dataset, {"refreservation": "none"})
    older = appliance.service.context.datastores()
    change(appliance, store, {"thick": False})
    thick.reserve_again(appliance.service.context, older)
    assert appliance.simulator.volume(dataset).properties["zvaai:thick"].value == "off"
    assert appliance.simulator.volume(dataset).refreservation == 0


def test_no_room_to_set_it_again_is_an_alert(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    appliance.simulator.set_properties(volume(appliance, "first").name, {"refreservation": "none"})
    appliance.simulator.fail_next("set_properties", OutOfSpace("tank"), times=1)
    appliance.request("POST", "/reconcile")
    appliance.service.periodic.capacity()
    (alert,) = appliance.get("/alerts")["items"]
    usual = thick_refreservation(GIB, volume(appliance, "first").volblocksize)
    assert alert["subject"] == store and f"0 of {usual} bytes reserved" in alert["text"]


def test_thick_and_thin_again(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    shares(appliance, store, 0)
    change(appliance, store, {"thick": True})
    assert volume(appliance, "first").refreservation > GIB and provisioning(appliance, store) == "thick"
    change(appliance, store, {"thick": False})
    assert (volume(appliance, "first").refreservation, provisioning(appliance, store)) == (0, "thin")


@pytest.mark.parametrize(("shared", "exact", "says"), [
    (65536, True, "65536 of its bytes are shared"), (None, False, "exactly"), (0, False, "exactly"),
])  # fmt: skip
def test_a_datastore_with_shared_blocks_does_not_become_thick(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, shared: int | None, exact: bool, says: str
) -> None:
    monkeypatch.setattr(thick, "LUN_SECONDS", 0)
    store = appliance.datastore("first")
    shares(appliance, store, shared, exact=exact)
    problem = change(appliance, store, {"thick": True}, expect="failed")["problem"]
    assert says in problem["text"]
    assert (volume(appliance, "first").refreservation, provisioning(appliance, store)) == (0, "thin")
    assert appliance.get(f"/datastores/{store}")["thick"] is False


def test_shared_blocks_are_not_reserved_though_it_can_not_be_made_thin_again(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until an admin makes it thick or thin, it shares nothing more."""
    store = appliance.datastore("first")
    shares(appliance, store, 65536)

    def busy(*_: object) -> None:
        raise PoolBusy("tank", "restore_range")

    with monkeypatch.context() as patched:
        patched.setattr(thick, "make_thin", busy)
        problem = change(appliance, store, {"thick": True}, expect="failed")["problem"]
        assert problem["left"], problem
        problem = change(appliance, store, {"thick": True}, expect="failed")["problem"]
        assert "65536 of its bytes are shared" in problem["text"], "the repeated change counts again"
    appliance.request("POST", "/reconcile")
    assert (volume(appliance, "first").refreservation, provisioning(appliance, store)) == (0, "thick")
    appliance.service.periodic.capacity()
    (alert,) = appliance.get("/alerts")["items"]
    assert "was not made thick" in alert["text"] and "--thin" in alert["remedy"]
    shares(appliance, store, 0)
    change(appliance, store, {"thick": True})
    assert volume(appliance, "first").refreservation > GIB and appliance.get("/alerts")["items"] == []


def test_a_target_that_cannot_count_refuses(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    assert "exactly" in change(appliance, store, {"thick": True}, expect="failed")["problem"]["text"]
    assert provisioning(appliance, store) == "thin"


def test_lack_of_space_names_the_missing_bytes(appliance: Appliance) -> None:
    store = appliance.datastore("first", size=8192 * GIB)
    shares(appliance, store, 0)
    text = change(appliance, store, {"thick": True}, expect="failed")["problem"]["text"]
    assert "the pool lacks" in text and int(text.partition("lacks ")[2].split()[0]) > GIB
    assert (volume(appliance, "first").refreservation, provisioning(appliance, store)) == (0, "thin")


def test_on_raidz_lack_of_space_has_no_figure(appliance: Appliance) -> None:
    """OpenZFS reserves more there than the estimate."""
    raidz = {"devices": free_disks(appliance)[:4], "redundancy": "raidz1"}
    appliance.job("POST", "/pools", {"name": "parity", "vdevs": [raidz]})
    store = appliance.datastore("first", size=60000 * GIB, pool="parity")
    shares(appliance, store, 0)
    text = change(appliance, store, {"thick": True}, expect="failed")["problem"]["text"]
    assert "the pool lacks the space. Add vdevs" in text
    appliance.simulator.fail_next("grow_volume", OutOfSpace("parity"))
    text = appliance.job("POST", f"/datastores/{store}/grow", {"size": str(60001 * GIB)}, expect="failed")["problem"]["text"]
    assert "Cannot grow: the pool lacks the space. Add vdevs" in text
    appliance.simulator.fail_next("create_volume", OutOfSpace("parity"))
    body = {"name": "second", "pool": "parity", "size": str(GIB), "thick": True}
    text = appliance.job("POST", "/datastores", body, expect="failed")["problem"]["text"]
    assert "Cannot create second: it needs more space. Add vdevs" in text


def test_it_is_changed_alone(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    answer = appliance.request("PATCH", f"/datastores/{store}", {"thick": True, "name": "other"})
    assert answer.status_code == 422 and "not with name" in answer.text


def test_a_thick_clone_is_reserved_too(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"})
    assert volume(appliance, "second").refreservation == volume(appliance, "first").refreservation


def test_snapshots_and_clones_report_the_space_that_they_need(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    appliance.simulator.write(volume(appliance, "first").name, GIB // 2)
    appliance.service.context.scan()
    appliance.simulator.fail_next("snapshot", OutOfSpace("tank"))
    body = {"name": "one", "datastores": [store]}
    text = appliance.job("POST", "/snapshots", body, expect="failed")["problem"]["text"]
    needed = volume(appliance, "first").space.written
    assert needed >= GIB // 2 and f"it needs {needed} bytes for" in text
    appliance.simulator.fail_next("clone", OutOfSpace("tank"))
    problem = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"}, expect="failed")["problem"]
    assert f"needs {volume(appliance, 'first').refreservation} bytes reserved" in problem["text"]


def test_a_rollback_without_room_names_the_way_out(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    for error, way in (
        (OutOfSpace("tank"), "zvaai datastore change first --thin"),
        (OutOfSpace("tank", quota=True), "Raise its quota"),
    ):
        appliance.simulator.fail_next("rollback", error)
        problem = appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {}, expect="failed")["problem"]
        assert "Cannot roll back first" in problem["text"] and way in problem["text"]
    assert appliance.get(f"/datastores/{store}")["state"] == "active"


def test_reserved_space_makes_a_pool_full(appliance: Appliance) -> None:
    pool = appliance.get("/pools/tank")
    appliance.datastore("first", int(pool["available"]) * 85 // 100 // GIB * GIB, thick=True)
    appliance.service.context.scan()
    appliance.service.periodic.capacity()
    assert 100 * appliance.simulator.pool("tank").allocated // int(pool["size"]) < 10
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if alert["key"] == "capacity:pool:tank"]
    assert alert["severity"] == "warning" and "of pool tank are used or reserved" in alert["text"]


def test_a_datastore_without_a_threshold_never_exceeds_it(appliance: Appliance) -> None:
    """With small blocks on raidz a zvol takes more than its size."""
    store = appliance.datastore("first")
    appliance.simulator.write(volume(appliance, "first").name, GIB + GIB // 2)
    appliance.service.context.scan()
    appliance.service.periodic.capacity()
    assert int(appliance.get(f"/datastores/{store}")["referenced"]) > GIB
    assert f"capacity:datastore:{store}" not in {alert["key"] for alert in appliance.get("/alerts")["items"]}


def test_unique_bytes_of_a_lun(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    appliance.simulator.write(volume(appliance, "first").name, GIB // 2)
    appliance.service.context.scan()
    unknown = appliance.get(f"/datastores/{store}/space")
    assert int(unknown["unique"]) >= GIB // 2 and not unknown["unique_exact"] and unknown["as_of"] is None
    shares(appliance, store, 65536)
    space = appliance.get(f"/datastores/{store}/space")
    assert (space["shared"], space["unique"], space["unique_exact"]) == ("65536", str(GIB - 65536), True)


def test_without_the_target_the_known_space_of_a_lun_is_shown(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("first")

    def away(_uuid: str) -> None:
        raise TargetUnreachableError("no answer")

    monkeypatch.setattr(appliance.target, "lun_space", away)
    space = appliance.get(f"/datastores/{store}/space")
    assert (space["problem"], space["size"], space["unique"]) == ("no answer", str(GIB), None) and space["allocated"]
