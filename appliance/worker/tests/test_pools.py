# SPDX-License-Identifier: Apache-2.0
"""Pools by the API: made, extended, mended, exported and imported under another appliance."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance, running
from simulators.target import TargetSimulator

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.target import LoggedIn, TargetUnreachableError
from appliance.domain import capacity
from appliance.worker.pools import is_device
from appliance.zfs.model import Health, ImportablePool

ESX = "iqn.1998-01.com.vmware:esx1"


def free_disks(appliance: Appliance) -> list[str]:
    return [disk["path"] for disk in appliance.get("/disks")["items"] if disk["used_by"] is None]


def mirror(*devices: str) -> dict[str, Any]:
    return {"devices": list(devices), "redundancy": "mirror"}


def devices_of(vdevs: list[dict[str, Any]]) -> set[str]:
    return {vdev["path"] for vdev in vdevs if vdev["path"]} | {path for vdev in vdevs for path in devices_of(vdev["vdevs"])}


def test_from_empty_disks_to_a_datastore(appliance: Appliance) -> None:
    first, second, third, fourth = free_disks(appliance)[:4]
    body = {"name": "fast", "vdevs": [mirror(first, second)]}
    layout = appliance.request("POST", "/pools/plan", body).json
    assert layout is not None and any(first.rsplit("/", 1)[1] in line for line in layout["layout"])
    assert "fast" not in {pool["name"] for pool in appliance.get("/pools")["items"]}
    appliance.job("POST", "/pools", body)
    appliance.job("POST", "/datastores", {"name": "store", "pool": "fast", "size": str(1 << 30)})
    size = int(appliance.get("/pools/fast")["size"])
    appliance.job("POST", "/pools/fast/extend", {"vdevs": [mirror(third, fourth)]})
    assert int(appliance.get("/pools/fast")["size"]) == 2 * size


def test_a_pool_of_many_mirrors(appliance: Appliance) -> None:
    disks = [f"/dev/disk/by-id/wwn-{number}" for number in range(1300)]
    for disk in disks:
        appliance.simulator.add_disk(disk, GIB)
    mirrors = [mirror(*disks[at : at + 2]) for at in range(0, 120, 2)]
    body = {"name": "fast", "vdevs": [*mirrors, {"devices": disks[120:240], "role": "spare"}]}
    assert appliance.request("POST", "/pools/plan", body).status_code == 200
    appliance.job("POST", "/pools", body)
    assert len(appliance.get("/pools/fast")["vdevs"]) == 60 + 120
    refused = appliance.request("POST", "/pools/fast/extend", {"vdevs": [mirror(*disks[240:900]), mirror(*disks[900:])]})
    assert refused.status_code == 409 and "more than 1024 devices" in refused.text


def test_devices_in_use_are_refused(appliance: Appliance) -> None:
    used = next(disk["path"] for disk in appliance.get("/disks")["items"] if disk["used_by"])
    free = free_disks(appliance)[0]
    for force in (False, True):
        body = {"name": "fast", "vdevs": [{"devices": [used]}], "force": force}
        assert appliance.request("POST", "/pools", body).status_code == 409
    assert appliance.request("POST", "/pools", {"name": "tank", "vdevs": [{"devices": [free]}]}).status_code == 409
    absent = appliance.request("POST", "/pools", {"name": "fast", "vdevs": [{"devices": ["/dev/disk/by-id/absent"]}]})
    assert absent.status_code == 422 and absent.json is not None and absent.json["errors"][0]["field"] == "device"


def test_a_disk_is_replaced(appliance: Appliance) -> None:
    old = appliance.get("/pools/tank")["vdevs"][0]["vdevs"][0]["path"]
    new = free_disks(appliance)[0]
    appliance.job("POST", "/pools/tank/device", {"device": old, "action": "offline"})
    assert appliance.get("/pools/tank")["health"] == "DEGRADED"
    appliance.service.periodic.capacity()
    appliance.service.watch.pools()
    response = [(alert["subject"], alert["key"].split(":")[:2]) for alert in appliance.get("/alerts")["items"]]
    assert response == [("tank", ["pool", "device"])], "one thing, one alert"
    appliance.job("POST", "/pools/tank/replace", {"device": old, "new_device": new})
    devices = devices_of(appliance.get("/pools/tank")["vdevs"])
    assert new in devices and appliance.get("/pools/tank")["scan"]["function"] == "resilver"
    other = next(path for path in devices if path not in (old, new))
    appliance.job("POST", "/pools/tank/scrub", {"action": "start"})
    assert appliance.get("/pools/tank")["scan"]["function"] == "scrub"
    appliance.job("POST", "/pools/tank/device", {"device": other, "action": "offline"})
    refused = appliance.request("POST", "/pools/tank/device", {"device": new, "action": "offline"})
    assert refused.status_code == 409 and refused.json is not None and new in refused.json["detail"], "the last copy"


def test_a_whole_disk_is_changed_by_its_name(appliance: Appliance) -> None:
    """OpenZFS shows the partition that it created on it."""
    disks = ["/dev/disk/by-id/ata-A", "/dev/disk/by-id/ata-B"]
    for disk in disks:
        appliance.simulator.add_disk(f"{disk}-part1", 1 << 40)
    appliance.job("POST", "/pools", {"name": "whole", "vdevs": [mirror(*(f"{disk}-part1" for disk in disks))]})
    for action, health in (("offline", "DEGRADED"), ("clear", "DEGRADED"), ("online", "ONLINE")):
        appliance.job("POST", "/pools/whole/device", {"device": disks[0], "action": action})
        assert appliance.get("/pools/whole")["health"] == health


def test_a_clear_of_any_device_resumes_a_suspended_pool(appliance: Appliance) -> None:
    """The errors of another vdev would suspend it again."""
    disks = free_disks(appliance)[:2]
    appliance.job("POST", "/pools", {"name": "striped", "vdevs": [{"devices": [disk]} for disk in disks]})
    for disk in disks:
        appliance.simulator.fault_disk(disk, write=1)
    assert appliance.simulator.pool("striped").health == Health.SUSPENDED
    appliance.job("POST", "/pools/striped/device", {"device": disks[0], "action": "clear"})
    assert appliance.simulator.pool("striped").health == Health.ONLINE
    for disk in disks:
        appliance.simulator.fault_disk(disk, checksum=1)
    appliance.job("POST", "/pools/striped/device", {"device": disks[0], "action": "clear"})
    errors = [device["checksum_errors"] for device in appliance.get("/pools/striped")["vdevs"]]
    assert errors == [0, 1], "otherwise it clears this device only"


def test_a_new_disk_in_the_same_bay(appliance: Appliance) -> None:
    """It has the path of the old one: the GUID decides, and no job succeeds without effect."""
    old = appliance.get("/pools/tank")["vdevs"][0]["vdevs"][0]
    calls = []
    real = appliance.simulator.replace

    def replace(pool: str, device: str, new_device: str, *, force: bool = False) -> None:
        calls.append((device, new_device))
        real(pool, device, free_disks(appliance)[0], force=force)  # the simulator knows a disk by its path
        state = appliance.simulator.pool_state(pool)
        (leaf,) = (leaf for leaf in state.tops[0].leaves if leaf.replaced_by is not None)
        assert leaf.replaced_by is not None
        leaf.replaced_by.path, leaf.path = leaf.path, f"{leaf.path}/old"  # as OpenZFS names the old one
        appliance.simulator.changed(state)

    appliance.simulator.replace = replace  # type: ignore[method-assign]
    appliance.simulator.scan_seconds = 3600
    body = {"device": old["path"], "new_device": old["path"]}
    appliance.job("POST", "/pools/tank/replace", body)
    assert calls == [(old["guid"], old["path"])]
    appliance.job("POST", "/pools/tank/replace", {**body, "device": old["guid"]})
    assert len(calls) == 1, "it is being replaced already"
    answer = appliance.request("POST", "/pools/tank/replace", {"device": "1234", "new_device": old["path"]})
    assert answer.status_code == 404


def test_a_disk_that_is_being_replaced_gets_no_other_replacement(appliance: Appliance) -> None:
    appliance.simulator.scan_seconds = 3600
    old = appliance.get("/pools/tank")["vdevs"][0]["vdevs"][0]["path"]
    first, second = free_disks(appliance)[:2]
    path, body = "/pools/tank/replace", {"device": old, "new_device": first}
    appliance.job("POST", path, body)
    for new in (second, old):
        assert f"zvaai pool detach tank {first}" in refused(appliance, path, {"device": old, "new_device": new})["detail"]
    appliance.job("POST", path, body)
    appliance.job("POST", "/pools/tank/detach", {"device": first})
    appliance.job("POST", path, {"device": old, "new_device": second})
    assert second in devices_of(appliance.get("/pools/tank")["vdevs"])


@pytest.mark.parametrize(
    ("path", "name", "same"),
    [
        ("/dev/disk/by-id/ata-a-part1", "/dev/disk/by-id/ata-a", True),
        ("/dev/sda1", "/dev/sda", True),
        ("/dev/nvme0n1p1", "/dev/nvme0n1", True),
        ("/dev/disk/by-id/dm-uuid-mpath-35000c500a6b4c1", "/dev/disk/by-id/dm-uuid-mpath-35000c500a6b4c1", True),
        ("/dev/mapper/35000c500a6b4c1", "/dev/mapper/35000c500a6b4c", False),
        ("/dev/disk/by-id/ata-a1", "/dev/disk/by-id/ata-a", False),
        ("/dev/sdaa1", "/dev/sda", False),
        ("/dev/nvme0n11", "/dev/nvme0n1", False),
    ],
)
def test_a_whole_disk_is_known_by_its_partition(path: str, name: str, same: bool) -> None:
    assert is_device(path, name) == same


def refused(appliance: Appliance, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A refusal of the API before the job: nothing was started."""
    jobs = len(appliance.get("/jobs")["items"])
    answer = appliance.request("POST", path, body)
    assert answer.status_code == 409 and answer.json is not None and len(appliance.get("/jobs")["items"]) == jobs, answer.text
    return dict(answer.json)


def test_a_replacement_that_would_fail_is_refused_at_the_request(appliance: Appliance) -> None:
    old, partner = (device["path"] for device in appliance.get("/pools/tank")["vdevs"][0]["vdevs"])
    small, taken = "/dev/disk/by-id/ata-SMALL", "/dev/disk/by-id/ata-TAKEN"
    appliance.simulator.add_disk(small, GIB)
    appliance.simulator.add_disk(taken, 1 << 50, used_by="ext4")
    path = "/pools/tank/replace"
    assert refused(appliance, path, {"device": old, "new_device": small})["detail"] == f"{small} is too small"
    assert refused(appliance, path, {"device": old, "new_device": partner})["can_force"] is False
    assert refused(appliance, path, {"device": old, "new_device": taken})["can_force"] is True
    absent = appliance.request("POST", path, {"device": old, "new_device": "/dev/disk/by-id/ata-ABSENT"})
    assert absent.status_code == 422
    appliance.job("POST", path, {"device": old, "new_device": taken, "force": True})


@pytest.mark.parametrize(("redundancy", "spared"), [("raidz1", 1), ("raidz2", 2), ("mirror", 2)])
def test_as_many_devices_go_offline_as_the_layout_bears(redundancy: str, spared: int, appliance: Appliance) -> None:
    disks = free_disks(appliance)[: 4 if redundancy == "raidz2" else 3]
    appliance.job("POST", "/pools", {"name": "wide", "vdevs": [{"devices": disks, "redundancy": redundancy}]})
    for disk in disks[:spared]:
        appliance.job("POST", "/pools/wide/device", {"device": disk, "action": "offline"})
    response = refused(appliance, "/pools/wide/device", {"device": disks[spared], "action": "offline"})
    assert disks[spared] in response["detail"] and response["can_force"] is False
    appliance.job("POST", "/pools/wide/device", {"device": disks[0], "action": "offline"})
    absent = appliance.request("POST", "/pools/wide/device", {"device": "/dev/disk/by-id/absent", "action": "clear"})
    assert absent.status_code == 404


def test_an_import_scans_in_its_job_and_says_why_it_fails(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = free_disks(appliance)[:2]
    appliance.job("POST", "/pools", {"name": "other", "vdevs": [{"devices": disks}]})
    appliance.job("POST", "/pools/other/export")
    appliance.simulator.used_elsewhere("other", "server2")

    def failed(**body: object) -> str:
        return str(appliance.job("POST", "/pools/import", {"pool": "other", **body}, "failed")["problem"]["text"])

    used = failed()
    assert used.count("server2") == 2 and "--force" in used and "absent" in failed(pool="absent")
    problem = refused(appliance, "/pools/import", {"pool": "other", "new_name": "tank"})
    assert problem["detail"] == "a pool named tank is imported already"
    appliance.simulator.pull_disk(disks[0])
    assert "devices are missing" in failed(force=True)
    appliance.simulator.return_disk(disks[0])
    scanned, may_end, real = threading.Event(), threading.Event(), appliance.simulator.importable
    status = "The pool has the multihost property on. It cannot be safely imported when the system hostid is not set."
    action = "Set a unique system hostid with the zgenhostid(8) command."
    unset = replace(real()[0], health=Health.UNAVAILABLE, status=status, action=action)
    with monkeypatch.context() as patched:
        patched.setattr(appliance.simulator, "importable", lambda: [unset])
        assert f"it is UNAVAIL. {status} {action}" in failed(force=True)

    def importable() -> list[ImportablePool]:
        scanned.set()
        may_end.wait(60)
        return real()

    monkeypatch.setattr(appliance.simulator, "importable", importable)
    answer = appliance.request("POST", "/pools/import", {"pool": "other", "force": True})
    assert answer.status_code == 202 and answer.json is not None and scanned.wait(60)
    appliance.datastore("another")  # the scan of the devices delays no job of another pool
    may_end.set()
    assert appliance.ended(answer.json["id"])["state"] == "succeeded"


def test_a_pool_that_was_exported_during_a_resilver_needs_no_force(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenZFS lists its resilver, not whether another system used it last. The import knows."""
    appliance.job("POST", "/pools", {"name": "other", "vdevs": [{"devices": free_disks(appliance)[:2]}]})
    appliance.job("POST", "/pools/other/export")
    (listed,) = appliance.simulator.importable()
    monkeypatch.setattr(appliance.simulator, "importable", lambda: [replace(listed, last_host="unknown")])
    appliance.job("POST", "/pools/import", {"pool": "other"})
    assert appliance.get("/pools/other")["health"] == "ONLINE"


def test_of_two_pools_of_one_name_the_guid_says_which(appliance: Appliance) -> None:
    guids = []
    for disk in free_disks(appliance)[:2]:
        appliance.job("POST", "/pools", {"name": "other", "vdevs": [{"devices": [disk]}]})
        guids.append(appliance.get("/pools/other")["guid"])
        appliance.job("POST", "/pools/other/export")
    problem = appliance.job("POST", "/pools/import", {"pool": "other"}, "failed")["problem"]
    assert all(guid in problem["text"] for guid in guids), problem
    appliance.job("POST", "/pools/import", {"pool": guids[0]})
    assert appliance.get("/pools/other")["guid"] == guids[0]


def test_a_pool_that_hosts_use_is_not_exported_unless_forced(appliance: Appliance) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    appliance.datastore("store", host_groups=[appliance.group("cluster", ESX)])
    name = appliance.target_name
    appliance.target.logged_in.append(LoggedIn(ESX, name, "192.0.2.9:50000", "192.0.2.1:3260", 0, None))
    assert appliance.request("POST", "/pools/tank/export").status_code == 409
    assert len(appliance.target.targets()[0].luns) == 1
    appliance.job("POST", "/pools/tank/export?force=true")
    assert appliance.target.targets()[0].luns == ()
    assert [datastore["state"] for datastore in appliance.get("/datastores")["items"]] == ["missing"]


def test_a_missing_datastore_is_named_with_its_pool(appliance: Appliance) -> None:
    """By the name that it had last."""
    stores = {"block": appliance.datastore("first"), "files": appliance.nfs_datastore("second")}
    for name, store in stores.items():
        appliance.job("PATCH", f"/datastores/{store}", {"name": name})
    appliance.simulator.export_pool("tank")
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert {store["name"]: store["id"] for store in appliance.get("/datastores")["items"]} == stores
    appliance.service.periodic.capacity()
    alerts = {alert["subject"]: alert for alert in appliance.get("/alerts")["items"]}
    for name, store in stores.items():
        assert alerts[store]["text"].startswith(f"datastore {name} of pool tank is missing. ")
        assert "zvaai pool import tank. " in alerts[store]["remedy"]
    appliance.simulator.import_pool("tank")
    appliance.job("PATCH", f"/datastores/{stores['block']}", {"name": "third"})
    appliance.simulator.export_pool("tank")
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert appliance.get(f"/datastores/{stores['block']}")["name"] == "third"


def test_a_pool_that_is_not_imported_has_one_critical_alert_a_datastore(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, files = appliance.datastore("block"), appliance.nfs_datastore("files")
    target, opened = appliance.target, TargetSimulator._opened
    assert isinstance(target, TargetSimulator)
    appliance.simulator.export_pool("tank")
    monkeypatch.setattr(target, "_opened", lambda lun: replace(opened(target, lun), state="failed", reason="no such device"))
    target.restart()
    assert appliance.request("POST", "/reconcile").status_code == 200
    appliance.service.periodic.capacity()
    raised = [(alert["key"], alert["severity"]) for alert in appliance.get("/alerts")["items"]]
    assert sorted(raised) == sorted((f"capacity:missing:{store}", "critical") for store in (block, files))
    assert "missing datastores: 2" in appliance.get("/status")["reconcile_problem"]
    failed = {(check["id"], check["subject"]) for check in appliance.get("/readiness")["checks"] if check["result"] == "failed"}
    assert {("served", block), ("exported", files)} <= failed
    metrics = appliance.request("GET", "/metrics").text
    assert "zvaai_nfs_up 1.0" in metrics and metrics.count('state="missing"') == 2
    monkeypatch.undo()
    appliance.simulator.import_pool("tank")
    target.restart()
    assert appliance.request("POST", "/reconcile").status_code == 200
    appliance.service.periodic.capacity()
    assert appliance.get("/alerts")["items"] == [] and appliance.get("/status")["reconcile_problem"] is None


def test_a_missing_datastore_stays_reported_while_another_pool_is_suspended(appliance: Appliance) -> None:
    """Apart from those of the suspended pool, and one whose pool is not known: these can be in that pool."""
    store = appliance.datastore("first")
    appliance.job("POST", "/pools", {"name": "rust", "vdevs": [mirror(*free_disks(appliance)[:2])]})
    appliance.job("POST", "/datastores", {"name": "second", "pool": "rust", "size": str(GIB)})
    appliance.simulator.export_pool("tank")
    appliance.simulator.suspend("rust")
    assert appliance.request("POST", "/reconcile").status_code == 200
    appliance.service.periodic.capacity()
    raised = {alert["key"] for alert in appliance.get("/alerts")["items"]}
    assert {key for key in raised if "missing" in key} == {f"capacity:missing:{store}"}
    assert "missing datastores: 1" in appliance.get("/status")["reconcile_problem"]
    inventory = appliance.service.context.inventory
    (missing,) = [listed for listed in appliance.service.context.datastores() if listed.id == store]
    assert capacity.absent(inventory.pools, [replace(missing, former_pool="")]) == []


def test_an_imported_pool_brings_its_datastores(appliance: Appliance, tmp_path: Path) -> None:
    """Under a second, fresh appliance: same identities and numbers, for no host yet."""
    stores = {appliance.datastore("first", lun=7): 7, appliance.datastore("second", lun=0): 0}
    appliance.job("POST", "/pools/tank/export")
    with running(tmp_path / "second") as other:
        other.job("POST", "/pools/tank/export")
        other.simulator.machine = appliance.simulator.machine  # its disks are plugged in there
        other.job("POST", "/pools/import", {"pool": "tank"})
        response = {store["id"]: store for store in other.get("/datastores")["items"]}
        assert {store: row["lun"] for store, row in response.items()} == stores
        assert all(row["state"] == "active" and row["host_groups"] == [] for row in response.values())
        served = {lun.lun.uuid: lun.lun for lun in other.target.targets()[0].luns}
        assert served.keys() == stores.keys() and all(lun.initiators == () for lun in served.values())


@pytest.mark.parametrize("away", ["target", "ganesha"])
def test_a_completed_job_succeeds_without_data_plane(away: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import and a forgetting are done, with the problem reported.

    Servers that return serve the imported and not the forgotten datastores.
    """
    block, files = appliance.datastore("block"), appliance.nfs_datastore("files")
    gone = appliance.datastore("gone"), appliance.nfs_datastore("lost")
    serving = {lun.lun.uuid for lun in appliance.target.targets()[0].luns}, {export.pseudo for export in appliance.nfs.served()}
    assert serving == ({block, gone[0]}, {"/files", "/lost"})
    for store in gone:
        appliance.simulator.destroy(appliance.get(f"/datastores/{store}")["dataset"])
    appliance.job("POST", "/pools/tank/export")

    calls = {"target": "targets", "ganesha": "served"}

    def does_not_answer(*_: Any) -> Any:
        raise TargetUnreachableError("it is away") if away == "target" else GaneshaUnreachableError("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(appliance.target if away == "target" else appliance.nfs, calls[away], does_not_answer)
        imported = appliance.job("POST", "/pools/import", {"pool": "tank"})
        assert imported["result"]["problems"] == ["it is away"]
        for store in gone:
            forgotten = appliance.job("POST", f"/datastores/{store}/forget?force=true")
            assert forgotten["result"]["problems"] == ["it is away"]
        assert [pool["name"] for pool in appliance.get("/pools")["items"]] == ["tank"]
        assert {store["id"] for store in appliance.get("/datastores")["items"]} == {block, files}
        assert any(alert["key"].startswith("unavailable:") for alert in appliance.get("/alerts")["items"])
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert {lun.lun.uuid for lun in appliance.target.targets()[0].luns} == {block}
    assert {export.pseudo for export in appliance.nfs.served()} == {"/files"}
    assert appliance.get("/alerts")["items"] == []


def test_a_pool_has_thresholds_that_act(appliance: Appliance, tmp_path: Path) -> None:
    """Alerts, readiness and the target's thresholds follow; another headroom does not change; they move with the pool."""
    target = appliance.target
    assert isinstance(target, TargetSimulator)
    target.pools.append({"pool": "tank", "total_bytes": 64 * GIB, "headroom_bytes": 2 * GIB, "soft_threshold": None})
    target.pools.append({"pool": "/srv", "total_bytes": 64 * GIB, "headroom_bytes": GIB, "soft_threshold": None})
    appliance.request("POST", "/reconcile")
    assert [pool["soft_threshold"] for pool in target.pools] == [{"percent": 80}, None], "the usual, of our own pools only"
    assert target.pools[0]["headroom_bytes"] == 2 * GIB
    pool = appliance.get("/pools/tank")
    assert (pool["warning_percent"], pool["critical_percent"]) == (80, 90)
    store = appliance.get(f"/datastores/{appliance.datastore('first', int(pool['size']) // (1 << 30) * (1 << 30) // 2)}")
    appliance.simulator.write(store["dataset"], int(pool["size"]) // 4)
    percent = 100 * appliance.simulator.pool("tank").allocated // int(pool["size"])
    assert 10 < percent < 60

    def state() -> tuple[list[str], str]:
        severities = [alert["severity"] for alert in appliance.get("/alerts")["items"] if alert["key"] == "capacity:pool:tank"]
        (ready,) = [check["result"] for check in appliance.get("/readiness")["checks"] if check["id"] == "pool_space"]
        return severities, ready

    assert state() == ([], "ok")
    cases = [
        (percent + 1, 99, []),
        (percent, percent + 1, ["warning"]),
        (1, percent, ["critical"]),
        (1, percent + 2, ["critical"]),  # lowered and cleared only below 2 % less
        (percent + 2, 99, ["warning"]),
        (percent + 3, 99, []),
    ]
    for warning, critical, severities in cases:
        appliance.job("PATCH", "/pools/tank", {"warning_percent": warning, "critical_percent": critical})
        assert state() == (severities, "warning" if percent >= warning else "ok")
        assert target.pools[0]["soft_threshold"] == {"percent": warning}
        assert target.pools[0]["headroom_bytes"] == 2 * GIB
        assert (
            appliance.get("/pools/tank")["warning_percent"] == appliance.get("/status")["pools"][0]["warning_percent"] == warning
        )
    target.set_pool("tank", 5)
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None and answer["differences"] == ["pool tank has another soft threshold"]
    assert target.pools[0]["soft_threshold"] == {"percent": percent + 3}
    before = appliance.simulator.filesystem("tank").properties
    for wrong in ({"critical_percent": percent}, {"warning_percent": 0}, {"warning_percent": 101}):
        assert appliance.request("PATCH", "/pools/tank", wrong).status_code == 422
    assert appliance.simulator.filesystem("tank").properties == before
    appliance.job("POST", "/pools/tank/export")
    appliance.job("POST", "/pools/import", {"pool": "tank", "new_name": "moved"})
    assert appliance.get("/pools/moved")["warning_percent"] == percent + 3
    appliance.job("PATCH", "/pools/moved", {"warning_percent": None, "critical_percent": None})
    assert (appliance.get("/pools/moved")["warning_percent"], appliance.get("/pools/moved")["critical_percent"]) == (80, 90)


def test_a_suspended_pool_keeps_its_thresholds(appliance: Appliance) -> None:
    """Its root dataset, where they lie, can't be seen."""
    target = appliance.target
    assert isinstance(target, TargetSimulator)
    target.pools.append({"pool": "tank", "total_bytes": 64 * GIB, "headroom_bytes": 2 * GIB, "soft_threshold": None})
    size = int(appliance.get("/pools/tank")["size"])
    store = appliance.get(f"/datastores/{appliance.datastore('first', size // GIB * GIB // 2)}")
    appliance.simulator.write(store["dataset"], size // 4)
    percent = 100 * appliance.simulator.pool("tank").allocated // size
    appliance.job("PATCH", "/pools/tank", {"warning_percent": percent, "critical_percent": 99})
    for disk in [disk.path for disk in appliance.simulator.disks() if disk.used_by is not None]:
        appliance.simulator.pull_disk(disk)
    appliance.request("POST", "/reconcile")
    appliance.service.periodic.capacity()
    assert appliance.get("/pools/tank")["health"] == "SUSPENDED"
    assert appliance.get("/pools/tank")["available"] is None
    keys = {alert["key"] for alert in appliance.get("/alerts")["items"]}
    assert "capacity:pool:tank" in keys and f"capacity:missing:{store['id']}" not in keys
    forget = f"/datastores/{store['id']}/forget?force=true"
    problem = refused(appliance, forget, {})
    assert problem["blocking"] == ["tank"] and "reboot the server" in problem["detail"], "it may be in this pool"
    assert target.pools[0]["soft_threshold"] == {"percent": percent}
    assert appliance.get("/pools/tank")["warning_percent"] == percent
