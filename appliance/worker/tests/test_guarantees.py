# SPDX-License-Identifier: Apache-2.0
"""Guarantees for hosts beyond their data: persistent reservations, closed volumes, space, and constant numbers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.target import TargetSimulator

from appliance.dataplane.target import LoggedIn, Lun
from appliance.domain import datastores as domain
from appliance.worker import steps
from appliance.worker.presenting import give_numbers
from appliance.worker.reservations import DATASET
from appliance.zfs.errors import EngineUnavailable, HoldersUnknown, OutOfSpace, PoolBusy, PoolUnavailable
from appliance.zfs.model import Redundancy, VdevSpec

ESX = "iqn.1998-01.com.vmware:esx1"


def target_of(appliance: Appliance) -> TargetSimulator:
    assert isinstance(appliance.target, TargetSimulator)
    return appliance.target


def luns(appliance: Appliance) -> dict[str, Lun]:
    """Served, by UUID."""
    return {lun.lun.uuid: lun.lun for target in appliance.target.targets() for lun in target.luns}


def everything(appliance: Appliance) -> tuple[Any, ...]:
    """All that a refusal must not change. Running jobs continue meanwhile."""
    jobs = [job["id"] for job in appliance.get("/jobs")["items"]]
    return appliance.simulator.volumes(), appliance.simulator.snapshots(), appliance.target.targets(), jobs


def refused(appliance: Appliance, method: str, path: str, body: Any = None) -> Any:
    """The problem of a 409, after which nothing has changed."""
    before = everything(appliance)
    answer = appliance.request(method, path, body)
    assert answer.status_code == 409, answer.text
    assert everything(appliance) == before
    return answer.json


# --- persistent reservations


def test_reservations_lie_in_a_dataset_of_the_pool(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    dataset = appliance.simulator.filesystem(f"tank/{DATASET}")
    assert dataset.mounted and dataset.reservation and dataset.properties["sync"].value == "standard"
    assert luns(appliance)[store].reservations == dataset.mountpoint
    appliance.simulator.unmount(dataset.name)
    appliance.request("POST", "/reconcile")
    assert appliance.simulator.filesystem(dataset.name).mounted


def test_without_its_folder_a_lun_is_not_served(appliance: Appliance) -> None:
    """All reservations would be lost. A served LUN is not affected."""
    store = appliance.datastore("first")
    appliance.simulator.unmount(f"tank/{DATASET}")
    appliance.simulator.fail_next("mount", PoolUnavailable("tank", "odd"), times=2)
    appliance.request("POST", "/reconcile")
    assert luns(appliance).keys() == {store}
    appliance.simulator.fail_next("mount", PoolUnavailable("tank", "odd"), times=9)
    job = appliance.job("POST", "/datastores", {"name": "second", "pool": "tank", "size": str(GIB)})
    assert not job["result"]["served"] and "reservations" in job["result"]["problem"] and luns(appliance).keys() == {store}
    assert any("reservations" in alert["text"] for alert in appliance.get("/alerts")["items"])


# --- closed volumes


def test_a_rollback_waits_until_the_volume_is_closed(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller got "not closed" from the target; the second gets "no such LUN"."""
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    closed = threading.Event()
    order: list[str] = []
    real, target = appliance.simulator.rollback, target_of(appliance)

    def rollback(name: str, **more: Any) -> None:
        order.append("closed" if closed.is_set() else "open")
        real(name, **more)

    monkeypatch.setattr(appliance.simulator, "rollback", rollback)
    target.busy.add(store)
    with appliance.simulator.opened(dataset):
        answer = appliance.request("POST", f"/datastores/{store}/snapshots/one/rollback", {})
        assert answer.json is not None
        limit = threading.Event()
        while luns(appliance):
            limit.wait(0.005)
        appliance.request("POST", "/reconcile")  # as the clock does: the LUN no longer exists
        limit.wait(0.2)
        assert appliance.get(f"/jobs/{answer.json['id']}")["state"] == "running"
        closed.set()
    assert appliance.ended(answer.json["id"])["state"] == "succeeded"
    assert order == ["closed"] and luns(appliance).keys() == {store}


def test_an_open_volume_is_reported_with_its_holders(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "CLOSING_SECONDS", 0.2)
    store = appliance.datastore("first")
    with appliance.simulator.opened(appliance.get(f"/datastores/{store}")["dataset"], "qemu (process 7)"):
        job = appliance.job("DELETE", f"/datastores/{store}", expect="failed")
    assert "qemu (process 7)" in str(job["problem"])
    appliance.request("POST", "/reconcile")
    assert luns(appliance).keys() == {store} and appliance.get(f"/datastores/{store}")["state"] == "active"


def test_a_volume_that_may_be_open_is_not_rolled_back(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenZFS rolls back an open volume too."""
    monkeypatch.setattr(steps, "CLOSING_SECONDS", 0.2)
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})

    def unknown(name: str) -> tuple[str, ...]:
        raise HoldersUnknown(name, "no answer")

    monkeypatch.setattr(appliance.simulator, "holders", unknown)
    job = appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {}, expect="failed")
    assert "no answer" in str(job["problem"]) and luns(appliance).keys() == {store}


# --- thick


def test_thick_is_set_inherited_by_a_clone_and_reported(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"})["result"]["datastore"]
    thin = appliance.datastore("third")
    for identifier, provisioning in ((store, "thick"), (clone, "thick"), (thin, "thin")):
        response = appliance.get(f"/datastores/{identifier}")
        assert response["thick"] == (provisioning == "thick") and luns(appliance)[identifier].provisioning == provisioning
        assert (int(response["reserved"]) >= GIB) == response["thick"]


def test_a_clone_whose_reservation_has_no_space_is_refused(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    appliance.simulator.fail_next("clone", OutOfSpace("tank"))
    appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"}, expect="failed")
    assert len(appliance.simulator.volumes()) == 1 and appliance.simulator.snapshots() == []


def test_a_removed_reservation_is_reported(appliance: Appliance) -> None:
    store = appliance.datastore("first", thick=True)
    appliance.simulator.set_properties(appliance.simulator.volumes()[0].name, {"refreservation": "none"})
    assert appliance.get(f"/datastores/{store}")["thick"] and luns(appliance)[store].provisioning == "thick"
    appliance.service.context.scan()
    appliance.service.periodic.capacity()
    assert [(alert["subject"], alert["severity"]) for alert in appliance.get("/alerts")["items"]] == [(store, "critical")]


def test_an_adopted_volume_is_not_changed(appliance: Appliance) -> None:
    appliance.simulator.create_volume("tank/thick", GIB, thick=True)
    appliance.simulator.create_volume("tank/thin", GIB)
    appliance.simulator.create_volume("tank/between", GIB, properties={"refreservation": "1048576"})
    provisioning = {}
    for name in ("thick", "thin", "between"):
        store = appliance.job("POST", "/volumes/adopt", {"dataset": f"tank/{name}", "name": name})["result"]["datastore"]
        provisioning[name] = luns(appliance)[store].provisioning
    assert provisioning == {"thick": "thick", "thin": "thin", "between": "thin"}


def test_an_adopted_volume_can_have_any_size(appliance: Appliance) -> None:
    appliance.simulator.create_volume("tank/odd", GIB + 16384)
    store = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/odd", "name": "odd"})["result"]["datastore"]
    assert appliance.get(f"/datastores/{store}")["size"] == str(GIB + 16384)
    appliance.job("POST", f"/datastores/{store}/grow", {"size": str(2 * GIB)})
    for size in (GIB // 2, 65536 * GIB + 16384):
        appliance.simulator.create_volume(f"tank/{size}", size)
        answer = appliance.request("POST", "/volumes/adopt", {"dataset": f"tank/{size}", "name": "other"})
        assert answer.status_code == 422 and "not a size of a datastore" in answer.text


# --- snapshots of clones


def test_the_snapshot_of_a_clone_is_destroyed_with_it(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"})["result"]["datastore"]
    second = appliance.get(f"/datastores/{store}/snapshots")["items"][0]["name"]
    again = appliance.job("POST", f"/datastores/{store}/clone", {"name": "third", "snapshot": second})["result"]["datastore"]
    appliance.job("DELETE", f"/datastores/{clone}")
    appliance.job("POST", f"/datastores/{clone}/purge")
    assert len(appliance.simulator.snapshots()) == 1, "another clone hangs on it"
    appliance.job("DELETE", f"/datastores/{again}")
    appliance.job("POST", f"/datastores/{again}/purge")
    assert appliance.simulator.snapshots() == []


def test_the_snapshot_of_a_clone_stays_in_a_replica(appliance: Appliance) -> None:
    disk = next(disk.path for disk in appliance.simulator.disks() if disk.used_by is None)
    appliance.simulator.create_pool("backup", [VdevSpec(devices=(disk,), redundancy=Redundancy.STRIPE)])
    clone = appliance.job("POST", f"/datastores/{appliance.datastore('first')}/clone", {"name": "second"})["result"]["datastore"]
    (snapshot,) = appliance.simulator.snapshots()
    appliance.simulator.receive(snapshot.name, "backup/replica")
    appliance.job("DELETE", f"/datastores/{clone}")
    appliance.job("POST", f"/datastores/{clone}/purge")
    assert [snapshot.dataset for snapshot in appliance.simulator.snapshots()] == ["backup/replica"]


def test_a_manual_snapshot_is_not_destroyed(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "mine", "datastores": [store]})
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second", "snapshot": "mine"})["result"]["datastore"]
    appliance.job("DELETE", f"/datastores/{clone}")
    appliance.job("POST", f"/datastores/{clone}/purge")
    assert [snapshot.tag for snapshot in appliance.simulator.snapshots()] == ["mine"]


def test_jobs_that_need_a_datastore_wait_for_one_that_deletes_it(appliance: Appliance) -> None:
    stores = [appliance.datastore(name) for name in ("first", "second")]
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": stores})
    rollback = f"/datastores/{stores[1]}/snapshots/one/rollback"
    snapshot = {"name": "two", "datastores": stores}
    for first, second in (
        (("/snapshots", snapshot), (rollback, {})),
        ((rollback, {}), ("/snapshots", {**snapshot, "name": "three"})),
    ):
        with appliance.simulator.held_next("create_volume"):
            appliance.request("POST", "/datastores", {"name": f"slow{first[0][:2]}{second[0][:2]}".replace("/", ""),
                                                      "pool": "tank", "size": str(GIB)})  # fmt: skip
            waiting = appliance.request("POST", *first)
            assert waiting.status_code == 202 and waiting.json is not None, waiting.text
            answer = appliance.request("POST", *second)
        assert answer.status_code == 409 and answer.json is not None and waiting.json["id"] in answer.json["detail"]
        assert appliance.ended(waiting.json["id"])["state"] == "succeeded"
        appliance.simulator.destroy_snapshots(
            [snapshot.name for snapshot in appliance.simulator.snapshots() if snapshot.tag == "two"]
        )


def test_a_rollback_that_conflicts_with_a_snapshot_removes_no_lun(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    dataset, taken = appliance.get(f"/datastores/{store}")["dataset"], []
    monkeypatch.setattr(target_of(appliance), "delete_lun", lambda *_: taken.append(1))
    with appliance.simulator.held_next("create_volume"):
        appliance.request("POST", "/datastores", {"name": "slow", "pool": "tank", "size": str(GIB)})
        waiting = appliance.request("POST", f"/datastores/{store}/snapshots/one/rollback", {}).json
        appliance.simulator.snapshot([f"{dataset}@by-hand"])
    assert waiting is not None and "by-hand" in str(appliance.ended(waiting["id"])["problem"])
    assert not taken and luns(appliance).keys() >= {store}


# --- missing objects


def test_a_volume_destroyed_by_hand_is_missing_until_it_is_forgotten(appliance: Appliance) -> None:
    group = appliance.group("cluster", ESX)
    store = appliance.datastore("first", host_groups=[group], lun=5)
    appliance.simulator.destroy(appliance.get(f"/datastores/{store}")["dataset"])
    appliance.request("POST", "/reconcile")
    missing = appliance.get("/datastores?state=missing")["items"]
    assert [(row["id"], row["lun"], row["host_groups"]) for row in missing] == [(store, 5, [group])]
    assert appliance.request("POST", "/datastores", {"name": "a", "pool": "tank", "size": str(GIB), "lun": 5}).status_code == 409
    name = appliance.target_name
    target_of(appliance).logged_in.append(LoggedIn(ESX, name, "192.0.2.9:50000", "192.0.2.1:3260", 0, None))
    assert refused(appliance, "POST", f"/datastores/{store}/forget")["can_force"]
    appliance.job("POST", f"/datastores/{store}/forget?force=true")
    assert appliance.get("/datastores")["items"] == [] and not luns(appliance)
    appliance.datastore("again", lun=5)
    with appliance.store.reading() as session:
        assert domain.kinds_shown(session, group) == set()  # and so can be deleted


def test_only_missing_datastores_are_forgotten(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    refused(appliance, "POST", f"/datastores/{store}/forget")


def test_an_adoption_that_fails_gives_its_number_back(appliance: Appliance) -> None:
    appliance.simulator.create_volume("tank/found", GIB)
    appliance.simulator.fail_next("set_properties", OutOfSpace("tank"))
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/found", "name": "found"}, expect="failed")
    assert appliance.get("/datastores")["items"] == []
    assert appliance.get(f"/datastores/{appliance.datastore('first')}")["lun"] == 0


def test_an_old_scan_assigns_no_number_to_a_deleted_datastore(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    context = appliance.service.context
    old = context.scan()
    appliance.job("DELETE", f"/datastores/{store}")
    context._inventory = old
    with appliance.store.reading() as session:
        stores = domain.datastores(old, session)
    assert [store.state for store in stores] == ["active"]
    give_numbers(context, context.inventory, stores)
    assert appliance.get(f"/datastores/{store}")["lun"] is None


def test_jobs_and_the_clock_at_once(appliance: Appliance) -> None:
    """Neither takes the other's half for drift: no job fails, and all is served in the end as it should be."""
    stores = [appliance.datastore(name, lun=number) for number, name in enumerate(("first", "second"))]
    stopping = threading.Event()
    problems: list[object] = []

    def clock() -> None:
        while not stopping.is_set():
            try:
                problems.extend(appliance.service.context.reconciling.reconcile("periodic").failures)
            except Exception as error:
                problems.append(error)

    thread = threading.Thread(target=clock)
    thread.start()
    try:
        for step in range(1, 7):
            for number, store in enumerate(stores):
                appliance.job("PATCH", f"/datastores/{store}", {"lun": 10 * step + number})
                appliance.job("POST", f"/datastores/{store}/grow", {"size": str((step + 1) * GIB)})
            clone = appliance.job("POST", f"/datastores/{stores[0]}/clone", {"name": f"clone{step}"})["result"]["datastore"]
            appliance.job("DELETE", f"/datastores/{clone}")
            appliance.job("POST", f"/datastores/{clone}/purge")
    finally:
        stopping.set()
        thread.join(60)
    assert not problems
    assert {store: lun.number for store, lun in luns(appliance).items()} == {stores[0]: 60, stores[1]: 61}
    assert {datastore["size"] for datastore in appliance.get("/datastores")["items"]} == {str(7 * GIB)}
    assert appliance.service.context.reconciling.reconcile("again").differences == ()


# --- alerts


def test_alerts_of_single_luns_stay_while_the_target_does_not_answer(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    target = target_of(appliance)
    (served,) = target.targets()
    target._targets[served.name] = replace(served, luns=tuple(replace(lun, state="failed", reason="odd") for lun in served.luns))
    appliance.request("POST", "/reconcile")
    assert [alert["key"] for alert in appliance.get("/alerts")["items"]] == [f"reconcile:{store}"]
    appliance.simulator.fail_next("datasets", EngineUnavailable("the helper restarts"))
    assert appliance.request("POST", "/reconcile").status_code == 503
    assert {alert["key"] for alert in appliance.get("/alerts")["items"]} == {f"reconcile:{store}", "unavailable:reconcile"}
    target._targets[served.name] = served
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert appliance.get("/alerts")["items"] == []


def test_a_lun_stays_out_while_the_pool_is_busy(appliance: Appliance) -> None:
    """A rollback that exceeded its time limit is still in the kernel: the helper refuses the next one until it has ended."""
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    refused, busy = threading.Semaphore(0), [True]
    real = appliance.simulator.rollback

    def rollback(name: str, *, destroy: Sequence[str] = ()) -> None:
        if busy:
            refused.release()
            raise PoolBusy("tank", "rollback")
        real(name, destroy=destroy)

    appliance.simulator.rollback = rollback  # type: ignore[method-assign]
    answer = appliance.request("POST", f"/datastores/{store}/snapshots/one/rollback", {})
    assert answer.status_code == 202 and answer.json is not None
    assert refused.acquire(timeout=60) and refused.acquire(timeout=60)  # it is tried again
    appliance.request("POST", "/reconcile")
    assert store not in luns(appliance) and appliance.get(f"/jobs/{answer.json['id']}")["state"] == "running"
    busy.clear()
    assert appliance.ended(answer.json["id"])["state"] == "succeeded" and store in luns(appliance)


def test_a_job_for_a_pool_that_is_suspended_is_refused(appliance: Appliance) -> None:
    """At the request, except for operations that resume the pool or need no storage."""
    store = appliance.datastore("first")
    appliance.simulator.suspend("tank")
    appliance.service.context.scan()  # as after an event of OpenZFS
    begun = len(appliance.get("/jobs")["items"])
    for method, path, body in (
        ("POST", "/datastores", {"name": "new", "pool": "tank", "size": str(GIB)}),
        ("POST", "/datastores", {"name": "new", "pool": "tank", "size": str(GIB), "kind": "nfs"}),
        ("DELETE", f"/datastores/{store}", None),
        ("POST", f"/datastores/{store}/clone", {"name": "clone"}),
        ("POST", "/snapshots", {"name": "one", "datastores": [store]}),
        ("PATCH", f"/datastores/{store}", {"name": "other"}),
    ):
        answer = appliance.request(method, path, body)
        assert answer.status_code == 409, (method, path, answer.text)
    response = appliance.request("POST", "/datastores", {"name": "new", "pool": "tank", "size": str(GIB)}).json
    assert response is not None and response["detail"].endswith("zvaai pool device tank DEVICE clear")
    assert len(appliance.get("/jobs")["items"]) == begun
    device = appliance.get("/pools/tank")["vdevs"][0]["vdevs"][0]["name"]
    appliance.job("POST", "/pools/tank/device", {"device": device, "action": "clear"})
    appliance.datastore("new")
