# SPDX-License-Identifier: Apache-2.0
"""The life of VMFS datastores: operations, refusals, and no change after a refusal."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.target import TargetSimulator
from support.names_of_disk import of_lio

from appliance import decoding
from appliance.database.models import Job, Schedule
from appliance.dataplane.target import LoggedIn, ServedLun
from appliance.domain import datastores as domain
from appliance.domain import schedules
from appliance.domain.secrets import Seal
from appliance.worker.executor import OPERATIONS
from appliance.zfs.errors import DatasetBusy, EngineUnavailable, NoSuchDataset, OutOfSpace
from appliance.zfs.model import DatasetList, Source, VdevSpec

ESX = "iqn.1998-01.com.vmware:esx1"


def served(appliance: Appliance) -> dict[int, ServedLun]:
    targets = [target for target in appliance.target.targets() if target.name == appliance.target_name]
    return {lun.lun.number: lun for target in targets for lun in target.luns}


def log_in(appliance: Appliance, iqn: str = ESX) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    name = appliance.target_name
    appliance.target.logged_in.append(LoggedIn(iqn, name, "192.0.2.9:50000", "192.0.2.1:3260", 0, None))


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


def test_its_identity_lies_with_its_data(appliance: Appliance) -> None:
    group = appliance.group("cluster", ESX)
    store = appliance.datastore("first", host_groups=[group], soft_threshold=80)
    volume = appliance.simulator.volumes()[0]
    local = {name: setting.value for name, setting in volume.properties.items() if setting.source == Source.LOCAL}
    assert {name: value for name, value in local.items() if name.startswith("zvaai:")} == {
        "zvaai:uuid": store,
        "zvaai:guid": str(volume.guid),
        "zvaai:name": "first",
        "zvaai:lun": "0",
        "zvaai:soft_threshold": "80",
        "zvaai:thick": "off",
    }
    lun = served(appliance)[0].lun
    assert (lun.uuid, lun.initiators, lun.soft_threshold) == (store, (ESX,), 80)


def test_a_new_name_does_not_rename_the_volume(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    before = appliance.get(f"/datastores/{store}")
    appliance.job("PATCH", f"/datastores/{store}", {"name": "other"})
    after = appliance.get(f"/datastores/{store}")
    assert after["name"] == "other" and after["dataset"] == before["dataset"]
    appliance.datastore("first")  # the old name is free again


def test_names_are_taken_once(appliance: Appliance) -> None:
    appliance.datastore("first")
    problem = refused(appliance, "POST", "/datastores", {"name": "FIRST", "pool": "tank", "size": str(GIB)})
    assert problem["blocking"]


def test_lun_numbers_are_taken_once_and_found(appliance: Appliance) -> None:
    first = appliance.datastore("first", lun=5)
    problem = refused(appliance, "POST", "/datastores", {"name": "second", "pool": "tank", "size": str(GIB), "lun": 5})
    assert problem["detail"].endswith(f"zvaai datastore show {first}")
    second = appliance.datastore("second")
    assert appliance.get(f"/datastores/{second}")["lun"] == 0
    appliance.job("PATCH", f"/datastores/{second}", {"lun": 9})
    assert {number: lun.lun.uuid for number, lun in served(appliance).items()} == {5: first, 9: second}


def test_it_grows_and_never_shrinks(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    appliance.job("POST", f"/datastores/{store}/grow", {"size": str(3 * GIB)})
    assert appliance.get(f"/datastores/{store}")["size"] == str(3 * GIB)
    answer = appliance.request("POST", f"/datastores/{store}/grow", {"size": str(2 * GIB)})
    assert answer.status_code == 422 and answer.json is not None
    assert answer.json["errors"][0]["field"] == "size" and answer.json["errors"][0]["allowed"] == f"{3 * GIB} (3 GiB) or more"


def test_restore_omits_a_deleted_group(appliance: Appliance) -> None:
    made = [appliance.request("POST", "/host-groups", {"name": name}).json for name in ("gone", "stays", "other")]
    gone, stays, other = (row["id"] for row in made if row is not None)
    store = appliance.datastore("first", host_groups=[gone, stays])
    appliance.job("DELETE", f"/datastores/{store}")
    assert appliance.request("DELETE", f"/host-groups/{gone}").status_code == 200
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert appliance.get(f"/datastores/{store}")["host_groups"] == [stays]
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/restore", {"host_groups": [other]})
    assert appliance.get(f"/datastores/{store}")["host_groups"] == [other]


def test_delete_restore_purge(appliance: Appliance) -> None:
    group = appliance.group("cluster", ESX)
    store = appliance.datastore("first", host_groups=[group])
    appliance.job("DELETE", f"/datastores/{store}")
    assert not served(appliance)
    deleted = appliance.get(f"/datastores/{store}")
    assert (deleted["host_groups"], deleted["previous_host_groups"]) == ([], [group])
    assert deleted["state"] == "deleted" and deleted["deleted_at"]
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert appliance.get(f"/datastores/{store}")["previous_host_groups"] == []
    assert served(appliance)[0].lun.uuid == store and served(appliance)[0].lun.initiators == (ESX,)
    assert refused(appliance, "POST", f"/datastores/{store}/purge")["blocking"] == ["first"]
    appliance.job("DELETE", f"/datastores/{store}")
    assert isinstance(appliance.target, TargetSimulator) and not appliance.target.forgotten
    appliance.job("POST", f"/datastores/{store}/purge")
    assert appliance.simulator.volumes() == []
    assert appliance.request("GET", f"/datastores/{store}").status_code == 404
    # Files of its LUN in the folder for persistent reservations are removed too.
    folder = appliance.simulator.filesystem("tank/zvaai-reservations").mountpoint
    assert appliance.target.forgotten == [(folder, store)]


def test_only_hosts_that_lose_the_datastore_are_in_the_way(appliance: Appliance) -> None:
    used, other = appliance.group("used", ESX), appliance.group("other", f"{ESX}-other")
    store = appliance.datastore("first", host_groups=[used, other])
    log_in(appliance)
    problem = refused(appliance, "PATCH", f"/datastores/{store}", {"host_groups": [other]})
    assert problem["blocking"] == [f"host of used ({ESX})"]
    appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [used]})
    assert served(appliance)[0].lun.initiators == (ESX,)


def test_datastores_in_use_are_deleted_only_by_force(appliance: Appliance) -> None:
    group = appliance.group("cluster", ESX)
    store = appliance.datastore("first", host_groups=[group])
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    log_in(appliance)
    for method, path, body in (
        ("DELETE", f"/datastores/{store}", None),
        ("PATCH", f"/datastores/{store}", {"host_groups": []}),
        ("PATCH", f"/datastores/{store}", {"lun": 7}),
        ("POST", f"/datastores/{store}/snapshots/one/rollback", {}),
    ):
        problem = refused(appliance, method, path, body)
        assert problem["can_force"] and problem["blocking"] == [f"host of cluster ({ESX})"]
    host = appliance.get("/hosts")["items"][0]["id"]
    assert appliance.request("DELETE", f"/hosts/{host}").status_code == 409
    assert appliance.request("PATCH", f"/hosts/{host}", {"group": None}).status_code == 409
    appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {"force": True})
    assert served(appliance)[0].lun.uuid == store  # served again after it
    appliance.job("DELETE", f"/datastores/{store}?force=true")
    assert not served(appliance)


def test_hosts_may_log_in_while_their_lun_is_rolled_back(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("first", host_groups=[appliance.group("cluster", ESX)])
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    rollback = appliance.simulator.rollback
    seen: list[tuple[Any, ...]] = []

    def watched(*words: Any, **more: Any) -> None:
        seen.extend((target.initiators, target.luns) for target in appliance.target.targets())
        rollback(*words, **more)

    monkeypatch.setattr(appliance.simulator, "rollback", watched)
    appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {})
    assert seen == [((ESX,), ())] and served(appliance)[0].lun.initiators == (ESX,)
    # Not while a datastore is purged.
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.request("POST", "/reconcile")
    assert [target.initiators for target in appliance.target.targets()] == [()]


def test_a_rollback_lists_snapshots_to_destroy(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    for name in ("one", "two", "three"):
        appliance.job("POST", "/snapshots", {"name": name, "datastores": [store]})
    problem = refused(appliance, "POST", f"/datastores/{store}/snapshots/one/rollback", {})
    assert problem["blocking"] == ["two", "three"] and not problem["can_force"]
    problem = refused(appliance, "POST", f"/datastores/{store}/snapshots/one/rollback", {"force": True})
    assert problem["blocking"] == ["two", "three"], "force is about hosts"
    problem = refused(appliance, "POST", f"/datastores/{store}/snapshots/one/rollback", {"destroy": ["two"]})
    assert problem["blocking"] == ["three"], "taken since the caller looked"
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "clone", "snapshot": "two"})["result"]["datastore"]
    problem = refused(appliance, "POST", f"/datastores/{store}/snapshots/one/rollback", {"force": True})
    assert not problem["can_force"] and problem["blocking"] == ["clone"]
    advice = "newer snapshots have clones. Delete and purge these; or clone one and use that clone"
    assert advice in problem["detail"], "not to promote the clone: that takes the snapshot one away too"
    deletion = ("POST", f"/datastores/{store}/snapshots/delete", {"names": ["one", "two"]})
    assert refused(appliance, *deletion)["blocking"] == ["two (clone: clone)"]
    appliance.job("DELETE", f"/datastores/{clone}")
    assert refused(appliance, *deletion)["blocking"] == ["two (clone: clone (deleted))"]
    appliance.job("POST", f"/datastores/{clone}/purge")
    appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {"destroy": ["two", "three"]})
    assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"]] == ["one"]


def test_snapshots_of_other_programs_are_destroyed_and_cloned(appliance: Appliance) -> None:
    """With names that the appliance does not give."""
    store, names = appliance.datastore("first"), ("one", "before the update", "x" * 70)
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    for name in names:
        appliance.simulator.snapshot([f"{dataset}@{name}"])
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "clone", "snapshot": names[1]})["result"]["datastore"]
    appliance.job("DELETE", f"/datastores/{clone}")
    appliance.job("POST", f"/datastores/{clone}/purge")
    appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {"destroy": list(names[1:])})
    assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"]] == ["one"]


@pytest.mark.parametrize(
    ("needed", "block_size", "proposed"),
    [(1, 1, (GIB, "1 GiB")), (GIB + 1, 1, (GIB + (1 << 20), "1025 MiB")), (3 * GIB, 1, (3 * GIB, "3 GiB")),
     (GIB + 1, 16 << 20, (GIB + (16 << 20), "1040 MiB"))],
)  # fmt: skip
def test_a_refusal_proposes_a_size_that_is_accepted(needed: int, block_size: int, proposed: tuple[int, str]) -> None:
    size, written = proposed
    assert domain.size_or_more(needed, block_size) == f"{size} ({written}) or more"
    domain.check_size(size, block_size)


def test_snapshots_of_several_are_of_one_moment(appliance: Appliance) -> None:
    stores = [appliance.datastore(name) for name in ("first", "second", "third")]
    appliance.job("POST", "/snapshots", {"name": "together", "datastores": stores})
    assert len({snapshot.createtxg for snapshot in appliance.simulator.snapshots()}) == 1
    assert len(refused(appliance, "POST", "/snapshots", {"name": "together", "datastores": stores})["blocking"]) == 3


def test_a_clone_is_another_datastore(appliance: Appliance) -> None:
    store = appliance.datastore("first", soft_threshold=70)
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"})["result"]["datastore"]
    assert clone != store and {lun.lun.uuid for lun in served(appliance).values()} == {store, clone}
    assert len({lun.naa for lun in served(appliance).values()}) == 2
    response = appliance.get(f"/datastores/{clone}")
    assert response["origin"] and response["soft_threshold"] == 70
    appliance.job("DELETE", f"/datastores/{store}")
    assert refused(appliance, "POST", f"/datastores/{store}/purge")["blocking"] == [response["name"]]


def test_a_host_that_logs_in_while_a_job_waits_retains_its_lun(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    group = appliance.group("cluster", ESX)
    store = appliance.datastore("first", host_groups=[group])
    real, logged_in = appliance.simulator.create_volume, threading.Event()

    def waits(*arguments: Any, **named: Any) -> Any:
        assert logged_in.wait(60)
        return real(*arguments, **named)

    monkeypatch.setattr(appliance.simulator, "create_volume", waits)
    appliance.request("POST", "/datastores", {"name": "slow", "pool": "tank", "size": str(GIB)})
    waiting = appliance.request("PATCH", f"/datastores/{store}", {"host_groups": []}).json
    assert waiting is not None
    log_in(appliance, ESX)
    logged_in.set()
    job = appliance.ended(waiting["id"])
    assert job["state"] == "failed" and f"host of cluster ({ESX})" in str(job["problem"])
    (lun,) = [lun.lun for lun in served(appliance).values() if lun.lun.uuid == store]
    assert lun.initiators == (ESX,) and appliance.get(f"/datastores/{store}")["host_groups"] == [group]


def test_a_copy_is_shown_and_not_served_until_it_is_adopted(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    source = appliance.simulator.volumes()[0]
    properties_of_source = {name: setting.value for name, setting in source.properties.items() if name.startswith("zvaai:")}
    appliance.simulator.create_volume("tank/received", source.volsize, properties=properties_of_source)
    appliance.request("POST", "/reconcile")
    copy = next(datastore for datastore in appliance.get("/datastores?state=copy")["items"])
    assert copy["copy_of"] == store and str(source.guid) in copy["copy_reason"]
    assert [lun.lun.uuid for lun in served(appliance).values()] == [store]
    keep = {"dataset": "tank/received", "name": "kept", "identity": "keep"}
    assert refused(appliance, "POST", "/volumes/adopt", keep)["blocking"] == [source.name]
    adopted = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/received", "name": "adopted"})["result"]["datastore"]
    assert adopted != store and len(served(appliance)) == 2
    assert refused(appliance, "POST", "/volumes/adopt", {"dataset": "tank/received", "name": "again"})


def test_a_received_copy_retains_the_identity_after_the_loss_of_the_source(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    source = appliance.simulator.volumes()[0]
    properties_of_source = {name: setting.value for name, setting in source.properties.items() if name.startswith("zvaai:")}
    appliance.simulator.create_volume("tank/received", source.volsize, properties=properties_of_source)
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/purge")
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/received", "name": "again", "identity": "keep"})
    assert [lun.lun.uuid for lun in served(appliance).values()] == [store]


def test_drift_is_reported_and_repaired(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    name = appliance.target_name
    appliance.target.delete_lun(name, 0)
    response = appliance.request("POST", "/reconcile").json
    assert response == {"differences": ["LUN 0 is not served"], "failures": []}
    assert served(appliance)[0].lun.uuid == store
    assert appliance.request("POST", "/reconcile").json == {"differences": [], "failures": []}


def test_the_undo_of_a_job_destroys_no_complete_datastore(appliance: Appliance) -> None:
    """Hosts may have written to it, before the job was resumed and failed."""
    first = appliance.datastore("first")
    second = appliance.job("POST", f"/datastores/{first}/clone", {"name": "second"})["result"]["datastore"]
    with appliance.store.reading() as session:
        made = [(OPERATIONS[job.kind], job.parameters) for job in session.query(Job)]
    for operation, parameters in made:
        assert not operation.undo(appliance.service.context, decoding.convert(parameters, operation.plan_type))
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert {lun.lun.uuid for lun in served(appliance).values()} == {first, second}


def test_a_failed_job_removes_everything(appliance: Appliance) -> None:
    appliance.simulator.fail_next("create_volume", OutOfSpace("tank"))
    job = appliance.job("POST", "/datastores", {"name": "first", "pool": "tank", "size": str(GIB)}, expect="failed")
    assert job["problem"]["code"] == "conflict"
    appliance.simulator.fail_next("set_properties", OutOfSpace("tank"))  # after the volume was made
    appliance.job("POST", "/datastores", {"name": "first", "pool": "tank", "size": str(GIB)}, expect="failed")
    assert appliance.simulator.volumes() == [] and not served(appliance) and appliance.get("/datastores")["items"] == []
    assert appliance.get(f"/datastores/{appliance.datastore('first')}")["lun"] == 0  # its number is free again


@pytest.mark.parametrize("error", [DatasetBusy("tank/first", ("backup",)), RuntimeError("a fault of ours")])
def test_a_job_reports_a_failed_undo(error: Exception, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def destroy(name: str) -> None:
        raise error

    body = {"name": "first", "pool": "tank", "size": str(GIB)}
    appliance.simulator.fail_next("set_properties", OutOfSpace("tank"))  # after the volume was made
    with monkeypatch.context() as patch:
        patch.setattr(appliance.simulator, "destroy", destroy)
        problem = appliance.job("POST", "/datastores", body, expect="failed")["problem"]
    assert problem["code"] == "conflict" and "space" in problem["text"]
    assert not problem["undone"]
    assert problem["left"] == ("the worker is at fault; see its log" if isinstance(error, RuntimeError) else str(error))
    assert len(appliance.simulator.volumes()) == 1, "it is there still"
    appliance.simulator.fail_next("create_volume", OutOfSpace("tank"))
    problem = appliance.job("POST", "/datastores", {**body, "name": "second"}, expect="failed")["problem"]
    assert problem["undone"] and problem["left"] is None


def test_a_job_waits_for_an_engine_that_is_away(appliance: Appliance) -> None:
    appliance.simulator.fail_next("create_volume", EngineUnavailable("the helper restarts"))
    appliance.datastore("first")


def test_missing_space_is_not_reserved(appliance: Appliance) -> None:
    body = {"name": "first", "pool": "tank", "size": str(8192 * GIB), "thick": True}
    assert refused(appliance, "POST", "/datastores", body)["blocking"] == ["tank"]


@pytest.mark.parametrize("action", ["pause", "stop"])
def test_a_scrub_that_does_not_run(action: str, appliance: Appliance) -> None:
    appliance.job("POST", "/pools/tank/scrub", {"action": action}, expect="failed")


def test_a_dataset_removed_during_a_scan_is_no_failure(appliance: Appliance) -> None:
    """For example a pool that is exported at the begin of a scan."""
    appliance.simulator.fail_next("datasets", NoSuchDataset("tank"), times=2)
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert appliance.get("/alerts")["items"] == []


def test_alerts_begin_and_end(appliance: Appliance) -> None:
    store = appliance.datastore("first", soft_threshold=10)
    appliance.simulator.write(appliance.simulator.volumes()[0].name, GIB // 2)
    appliance.service.context.scan()
    appliance.service.periodic.capacity()
    alerts = appliance.get("/alerts")["items"]
    assert [(alert["subject"], alert["severity"]) for alert in alerts] == [(store, "warning")]
    acknowledged = appliance.request("POST", f"/alerts/{alerts[0]['id']}/acknowledge").json
    assert acknowledged is not None and acknowledged["acknowledged_by"] == "admin"
    appliance.job("PATCH", f"/datastores/{store}", {"soft_threshold": None})
    appliance.service.context.scan()  # a scan after the end of a job reports its subject
    appliance.service.periodic.capacity()
    assert appliance.get("/alerts")["items"] == []


def test_schedules_take_and_keep(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    body = {"name": "often", "datastores": [store], "every_minutes": 5, "keep": 2}
    schedule = appliance.request("POST", "/schedules", body).json
    assert schedule is not None
    context, now = appliance.service.context, [1_800_000_000.0]
    appliance.service.periodic.now = lambda: now[0]
    with appliance.store.session() as session:
        row = session.get(Schedule, schedule["id"])
        assert row is not None
        row.attempted_at = now[0] - 301
    for _ in range(4):
        appliance.service.periodic.schedules()
        for job in appliance.get("/jobs")["items"]:
            appliance.ended(job["id"])
        context.scan()
        appliance.service.periodic.schedules()  # not due: only snapshots that are too old are destroyed
        for job in appliance.get("/jobs")["items"]:
            appliance.ended(job["id"])
        context.scan()
        now[0] += 300
    assert len(appliance.get(f"/datastores/{store}/snapshots")["items"]) == 2


def test_a_schedule_needs_existing_datastores(appliance: Appliance) -> None:
    """At its creation or change; later an alert reports it."""
    store, gone = appliance.datastore("first"), appliance.datastore("second")
    appliance.job("DELETE", f"/datastores/{gone}")
    body = {"name": "often", "datastores": [store], "every_minutes": 5, "keep": 2, "enabled": False}
    for wrong in (["absent"], [store, gone]):
        answer = appliance.request("POST", "/schedules", {**body, "datastores": wrong})
        assert answer.status_code == 422 and answer.json and answer.json["errors"][0]["field"] == "datastores"
    assert appliance.get("/schedules")["items"] == []
    schedule = appliance.request("POST", "/schedules", body).json
    assert schedule is not None
    path = f"/schedules/{schedule['id']}"
    assert appliance.request("PATCH", path, {"datastores": [gone]}).status_code == 422
    assert appliance.get(path)["datastores"] == [store]


def test_datastores_of_two_pools_are_no_schedule(appliance: Appliance) -> None:
    """One step could not take a snapshot of both."""
    disks = [disk.path for disk in appliance.simulator.disks() if disk.used_by is None][:1]
    appliance.simulator.create_pool("other", [VdevSpec(devices=tuple(disks))])
    first = appliance.datastore("first")
    second = appliance.job("POST", "/datastores", {"name": "second", "pool": "other", "size": str(GIB)})["result"]["datastore"]
    body = {"name": "both", "datastores": [first, second], "every_minutes": 5, "keep": 2}
    answer = appliance.request("POST", "/schedules", body)
    assert answer.status_code == 422 and answer.json and "several pools: other, tank" in answer.json["errors"][0]["reason"]


def test_a_schedule_runs_on_request(appliance: Appliance) -> None:
    """Also while it is disabled; its clock does not move, its retention holds, its failure raises the alert."""
    store = appliance.datastore("first")
    body = {"name": "often", "datastores": [store], "every_minutes": 5, "keep": 2, "enabled": False}
    schedule = appliance.request("POST", "/schedules", body).json
    assert schedule is not None
    path = f"/schedules/{schedule['id']}"
    appliance.job("POST", f"{path}/run")
    snapshots = appliance.get(f"/datastores/{store}/snapshots")["items"]
    assert [snapshot["name"].startswith("often_2") for snapshot in snapshots] == [True]
    assert appliance.get(path)["last_at"] is not None
    appliance.simulator.fail_next("snapshot", OutOfSpace("tank"))
    while time.strftime("%H%M%SZ", time.gmtime()) == snapshots[0]["name"][-7:]:  # the snapshots are named by the second
        time.sleep(0.01)
    failed = appliance.job("POST", f"{path}/run", expect="failed")
    alerts = appliance.get("/alerts")["items"]
    assert [alert["key"] for alert in alerts] == [f"schedule-{schedule['id']}:failed"] and failed["problem"]["text"] in alerts[0][
        "text"
    ]
    appliance.job("POST", f"{path}/run")
    assert appliance.get("/alerts")["items"] == []
    appliance.job("DELETE", f"/datastores/{store}")
    refused = appliance.request("POST", f"{path}/run")
    assert refused.status_code == 409 and refused.json and refused.json["blocking"] == [store]


def test_a_worker_that_dies_before_it_notes_that_a_schedule_was_taken(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    store = appliance.datastore("first")
    now = time.time() // 300 * 300 + 60  # not at the end of a slot
    appliance.service.periodic.now = lambda: now
    with appliance.store.session() as session:
        schedules.add(session, schedules.ScheduleCreate(name="often", datastores=[store], every_minutes=5, keep=2))
    with monkeypatch.context() as patch:
        patch.setattr(schedules, "attempted", lambda *_, **_options: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            appliance.service.periodic.schedules()
    now += 2  # the next worker, at another second
    for _ in range(2):
        appliance.service.periodic.schedules()
        for job in appliance.get("/jobs")["items"]:
            assert appliance.ended(job["id"])["state"] == "succeeded"
    assert len(appliance.get(f"/datastores/{store}/snapshots")["items"]) == 1


def test_a_pool_that_can_not_be_seen_keeps_its_luns(appliance: Appliance) -> None:
    """Suspended, exported by an admin, not imported yet: hosts find their disk not ready, not lost."""
    group = appliance.group("cluster", ESX)
    store = appliance.datastore("first", host_groups=[group])
    before = appliance.target.targets()
    appliance.simulator.export_pool("tank")
    response = appliance.request("POST", "/reconcile").json
    assert response is not None and response["differences"] == [] and appliance.target.targets() == before
    appliance.simulator.import_pool("tank")
    appliance.request("POST", "/reconcile")
    assert appliance.target.targets() == before and served(appliance)[0].lun.uuid == store


def test_a_served_datastore_is_not_affected_by_a_duplicate(appliance: Appliance) -> None:
    """Like the import of half a split pool: the new dataset is not served, and the old one is still served."""
    store = appliance.datastore("first", host_groups=[appliance.group("cluster", ESX)])
    before = appliance.target.targets()
    source = appliance.simulator.volumes()[0]
    double = replace(source, name="split/zvaai/first")
    real = appliance.simulator.datasets

    def with_double(root: str | None = None) -> DatasetList:
        listed = real(root)
        return replace(listed, volumes=[*listed.volumes, double])

    appliance.simulator.datasets = with_double  # type: ignore[method-assign]
    appliance.request("POST", "/reconcile")
    assert {datastore["state"] for datastore in appliance.get("/datastores")["items"]} == {"copy"}
    assert appliance.target.targets() == before and served(appliance)[0].lun.uuid == store


def test_an_account_is_bound_to_all_names_of_its_host_and_to_no_other(appliance: Appliance) -> None:
    second = f"{ESX}-second"
    body = {"name": "esx1", "iqns": [second, ESX], "chap": {"name": "esx1", "secret": "a good long secret"}}
    host = appliance.request("POST", "/hosts", body).json
    assert host is not None
    nameless = {"name": "esx2", "iqns": [], "chap": {"name": "esx2", "secret": "another good secret"}}
    assert appliance.request("POST", "/hosts", nameless).status_code == 201
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200

    def accounts() -> dict[str, tuple[str, ...] | None]:
        appliance.request("POST", "/reconcile")
        return {account.name: account.initiators for account in appliance.target.targets()[0].accounts}

    # A nameless host has no account: an account without initiators would be open to all.
    assert accounts() == {"esx1": (ESX, second)}
    assert appliance.request("PATCH", f"/hosts/{host['id']}", {"iqns": [second]}).status_code == 200
    assert accounts() == {"esx1": (second,)}
    assert appliance.request("PATCH", f"/hosts/{host['id']}", {"iqns": []}).status_code == 200
    assert accounts() == {} and appliance.target.targets()[0].chap_required


def test_accounts_stay_when_their_key_is_lost(appliance: Appliance) -> None:
    body = {"name": "esx1", "iqns": [ESX], "chap": {"name": "esx1", "secret": "a good long secret"}}
    assert appliance.request("POST", "/hosts", body).status_code == 201
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    appliance.request("POST", "/reconcile")
    accounts = appliance.target.targets()[0].accounts
    assert [(account.name, account.initiators) for account in accounts] == [("esx1", (ESX,))]  # bound to its host
    appliance.configuration.secrets_key.unlink()
    appliance.service.context.seal = Seal(appliance.configuration.secrets_key)
    appliance.request("POST", "/reconcile")
    assert appliance.target.targets()[0].accounts == accounts and not appliance.configuration.secrets_key.exists()
    assert ("chap", "failed") in {(check["id"], check["result"]) for check in appliance.get("/readiness")["checks"]}


def test_a_failed_delete_does_not_remove_the_datastore(appliance: Appliance) -> None:
    store = appliance.datastore("first", host_groups=[appliance.group("cluster", ESX)])
    appliance.simulator.fail_next("set_properties", OutOfSpace("tank/zvaai/first"))
    appliance.job("DELETE", f"/datastores/{store}", expect="failed")
    appliance.request("POST", "/reconcile")
    assert appliance.get(f"/datastores/{store}")["state"] == "active" and served(appliance)[0].lun.uuid == store


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("DELETE", "/datastores/{}", None), ("PATCH", "/datastores/{}", {"lun": 9}), ("POST", "/pools/tank/export", {})],
)
def test_a_host_that_logs_in_while_a_job_waits_retains_its_disk(
    method: str, path: str, body: dict[str, int] | None, appliance: Appliance
) -> None:
    store = appliance.datastore("first", host_groups=[appliance.group("cluster", ESX)], lun=5)
    with appliance.simulator.held_next("create_volume"):
        appliance.request("POST", "/datastores", {"name": "slow", "pool": "tank", "size": str(GIB)})
        waiting = appliance.request(method, path.format(store), body).json
        log_in(appliance)
    assert waiting is not None
    job = appliance.ended(waiting["id"])
    assert job["state"] == "failed" and ESX in job["problem"]["text"]
    assert served(appliance)[5].lun.uuid == store


@pytest.mark.parametrize("number", ["99999", "1024", "9" * 20, "\u00b2", "-1", ""])
def test_lun_properties_of_a_foreign_pool_are_ignored(number: str, appliance: Appliance) -> None:
    store = appliance.datastore("first", lun=5)
    volume = appliance.simulator.volumes()[0]
    appliance.simulator.set_properties(volume.name, {"zvaai:lun": number})
    with appliance.service.context.reconciling.lock, appliance.store.session() as session:
        domain.forget(session, store)
        appliance.target.delete_lun(appliance.target_name, 5)
    response = appliance.request("POST", "/reconcile")
    assert response.status_code == 200 and [lun.lun.number for lun in served(appliance).values()] == [0]


def test_numbers_and_names_of_waiting_changes_are_taken(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    with appliance.simulator.held_next("create_volume"):
        appliance.request("POST", "/datastores", {"name": "slow", "pool": "tank", "size": str(GIB)})
        assert appliance.request("PATCH", f"/datastores/{store}", {"name": "other", "lun": 7}).status_code == 202
        for more, field in (({"name": "third", "lun": 7}, []), ({"name": "first"}, ["name"]), ({"name": "other"}, ["name"])):
            problem = refused(appliance, "POST", "/datastores", {"pool": "tank", "size": str(GIB), **more})
            assert [error["field"] for error in problem["errors"]] == field


def test_the_thread_of_jobs_outlives_a_database_that_fails(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        monkeypatch.undo()
        raise OSError("disk full")

    monkeypatch.setattr("appliance.worker.executor.jobs.end", fail)
    answer = appliance.request("POST", "/datastores", {"name": "first", "pool": "tank", "size": str(GIB)})
    assert answer.json is not None
    appliance.ended(answer.json["id"])
    appliance.datastore("second")


SERIAL = "e4a3b2c1-0f0e-4d0c-8b0a-090807060504"
NAA = "naa.6001405e4a3b2c10f0e4d0c8b0a09080"
LIO = of_lio(SERIAL, NAA[4:], "disk1")


def test_a_volume_of_lio_keeps_the_names_its_hosts_know(appliance: Appliance) -> None:
    appliance.simulator.create_volume("tank/old", GIB, volblocksize=65536)
    body = {"dataset": "tank/old", "name": "moved", "known_as": LIO, "lun": 7}
    store = appliance.job("POST", "/volumes/adopt", body)["result"]["datastore"]
    (lun,) = served(appliance).values()
    assert (lun.lun.number, lun.naa, lun.serial_number, lun.lun.product) == (7, NAA, f"{SERIAL}\0", "disk1")
    assert lun.lun.designation is not None and lun.lun.designation.vendor == "LIO-ORG"
    assert appliance.get(f"/datastores/{store}")["designation"]["designators"][0] == NAA
    # No other volume gets them, even while the first can still be restored.
    appliance.simulator.create_volume("tank/other", GIB, volblocksize=65536)
    again = {**body, "dataset": "tank/other", "name": "double", "lun": None}
    assert NAA in refused(appliance, "POST", "/volumes/adopt", again)["blocking"]
    appliance.job("DELETE", f"/datastores/{store}")
    assert NAA in refused(appliance, "POST", "/volumes/adopt", again)["blocking"]
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert [lun.naa for lun in served(appliance).values()] == [NAA]
    # A clone has different names.
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "clone"})["result"]["datastore"]
    assert appliance.get(f"/datastores/{clone}")["designation"] is None
    # Nor does a volume that is adopted at the same moment, or a file system.
    appliance.simulator.create_volume("tank/third", GIB, volblocksize=65536)
    others = {**again, "known_as": of_lio("11112222333344445555", "60014051111222233334444555500000", "disk1")}
    with appliance.simulator.held_next("set_properties"):
        job = appliance.request("POST", "/volumes/adopt", others)
        late = appliance.request("POST", "/volumes/adopt", {**others, "dataset": "tank/third", "name": "triple"})
    assert late.status_code == 409 and "running job" in late.text
    assert job.json is not None and appliance.ended(job.json["id"])["state"] == "succeeded"
    appliance.simulator.create_filesystem("tank/files", properties={"mountpoint": "none"})
    files = appliance.request("POST", "/volumes/adopt", {"dataset": "tank/files", "name": "files", "known_as": LIO})
    assert files.status_code == 422 and "known_as" in files.text
    bad = appliance.request(
        "POST",
        "/volumes/adopt",
        {**again, "dataset": "tank/third", "name": "bad", "known_as": {**LIO, "page_80": "no digits"}},
    )
    assert bad.status_code == 422 and bad.json is not None and bad.json["errors"][0]["field"].startswith("known_as")


def test_of_two_adoptions_at_once_one_gets_a_name(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if their other names differ. Both are planned before one of them is queued."""
    for name in ("old", "third"):
        appliance.simulator.create_volume(f"tank/{name}", GIB, volblocksize=65536)
    executor, faster = appliance.service.executor, list[Any]()
    real = executor._queue

    def queue(*arguments: Any) -> str | None:
        if not faster:
            faster.append(None)
            body = {"dataset": "tank/third", "name": "triple", "known_as": of_lio(SERIAL, NAA[4:], "disk2"), "lun": 8}
            faster[0] = appliance.request("POST", "/volumes/adopt", body)
        return real(*arguments)

    monkeypatch.setattr(executor, "_queue", queue)
    with appliance.simulator.held_next("set_properties"):
        body = {"dataset": "tank/old", "name": "moved", "known_as": LIO, "lun": 7}
        late = appliance.request("POST", "/volumes/adopt", body)
        assert late.status_code == 409 and late.json is not None and NAA in late.json["blocking"]
    assert appliance.ended(faster[0].json["id"])["state"] == "succeeded"
    assert [lun.naa for lun in served(appliance).values()] == [NAA]


def test_another_name_is_another_lun(appliance: Appliance) -> None:
    """Changed names of a dataset do not change for a logged-in host: the LUN is removed, and added as another one."""
    appliance.simulator.create_volume("tank/old", GIB, volblocksize=65536)
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "moved", "known_as": LIO})
    stored = appliance.simulator.volume("tank/old").properties["zvaai:designation"].value
    appliance.simulator.set_properties("tank/old", {"zvaai:designation": stored.replace("naa.6", "naa.4")})
    appliance.request("POST", "/reconcile")
    (store,) = appliance.get("/datastores")["items"]
    assert store["state"] == "copy" and "designation" in store["copy_reason"]
    appliance.simulator.set_properties("tank/old", {"zvaai:designation": stored.replace('080"', '081"', 1)})
    appliance.request("POST", "/reconcile")
    (lun,) = served(appliance).values()
    assert lun.naa == f"{NAA[:-1]}1"


def test_a_deleted_dataset_retains_its_name(appliance: Appliance) -> None:
    """OpenZFS moves nothing below another parent in a full pool. The datastore's name is free all the same."""
    appliance.simulator.create_volume("tank/old", GIB, volblocksize=65536)
    adopted = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "adopted"})["result"]["datastore"]
    for name, store in (("adopted", adopted), ("first", appliance.datastore("first"))):
        dataset = appliance.get(f"/datastores/{store}")["dataset"]
        appliance.job("DELETE", f"/datastores/{store}")
        assert appliance.get(f"/datastores/{store}")["dataset"] == dataset
        new = appliance.datastore(name)
        assert appliance.get(f"/datastores/{new}")["dataset"] != dataset
        appliance.job("POST", f"/datastores/{store}/restore", {"name": f"{name}-too"})
        assert appliance.get(f"/datastores/{store}")["dataset"] == dataset
    assert not [each for each in appliance.simulator.filesystems() if "deleted" in each.name]
