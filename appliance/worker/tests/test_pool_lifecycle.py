# SPDX-License-Identifier: Apache-2.0
"""Pools and their devices through their life: created, warned about, mirrored, trimmed, upgraded, destroyed."""

import time
from dataclasses import replace
from typing import Any

import pytest
from simulators.appliance import GIB, PASSWORD, Appliance

from appliance.domain import requests
from appliance.domain.errors import ConflictError
from appliance.worker import encryption
from appliance.worker.pool_operations import DestroyPlan, DestroyPool
from appliance.worker.pools import of_pool
from appliance.worker.snapshot_operations import Promote
from appliance.worker.tests.test_pools import devices_of, free_disks, mirror
from appliance.zfs.errors import Timeout
from appliance.zfs.model import FeatureState, Pool


def pool(appliance: Appliance, name: str = "fast") -> Any:
    """State in the API."""
    return appliance.get(f"/pools/{name}")


def alerts(appliance: Appliance, kind: str) -> list[Any]:
    """Open alerts, by the second part of their key."""
    appliance.service.context.scan(0)
    appliance.service.watch.pools()
    return [alert for alert in appliance.get("/alerts")["items"] if alert["key"].split(":")[1] == kind]


def test_blocks_and_trim_are_chosen_at_creation(appliance: Appliance) -> None:
    first, second, third, fourth = free_disks(appliance)[:4]
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(first, second)], "ashift": 13, "autotrim": True})
    assert (pool(appliance)["ashift"], pool(appliance)["autotrim"]) == (13, True)
    assert appliance.simulator.pool_state("fast").properties["autoexpand"] == "on"
    appliance.job("POST", "/pools", {"name": "usual", "vdevs": [mirror(third, fourth)]})
    assert (pool(appliance, "usual")["ashift"], pool(appliance, "usual")["autotrim"]) == (12, False)
    for wrong in (8, 17, "large"):
        body = {"name": "wrong", "vdevs": [mirror(first, second)], "ashift": wrong}
        assert appliance.request("POST", "/pools", body).status_code == 422, wrong


def test_hard_disks_without_a_log_are_warned_about(appliance: Appliance) -> None:
    disks = free_disks(appliance)[:4]
    data, log = mirror(*disks[:2]), {**mirror(*disks[2:]), "role": "log"}

    def warnings(*vdevs: Any, **more: Any) -> list[str]:
        plan = appliance.request("POST", "/pools/plan", {"name": "fast", "vdevs": vdevs, **more}).json
        assert plan is not None
        return list(plan["warnings"])

    (text,) = warnings(data)
    assert "Slow writes" in text
    assert warnings(data, log) == [] == warnings(data, name="tank", extend=True)
    for path in disks:
        appliance.simulator.machine.devices[path].rotational = False
    assert warnings(data) == []


def test_a_pool_without_redundancy_is_warned_about_until_it_has_some(appliance: Appliance) -> None:
    first, second = free_disks(appliance)[:2]
    body = {"name": "fast", "vdevs": [{"devices": [first]}]}
    plan = appliance.request("POST", "/pools/plan", body).json
    assert plan is not None and "No redundancy" in plan["warnings"][0] and first in plan["warnings"][0]
    safe = appliance.request("POST", "/pools/plan", {"name": "fast", "vdevs": [mirror(first, second)]}).json
    assert safe is not None and not any("No redundancy" in text for text in safe["warnings"])
    appliance.job("POST", "/pools", body)
    (alert,) = alerts(appliance, "redundancy")
    assert alert["severity"] == "warning" and first in alert["text"] and "zvaai pool attach fast" in alert["remedy"]
    appliance.job("POST", "/pools/fast/attach", {"device": first, "new_device": second})
    assert devices_of(pool(appliance)["vdevs"]) == {first, second} and pool(appliance)["vdevs"][0]["kind"] == "mirror"
    assert alerts(appliance, "redundancy") == []
    appliance.job("POST", "/pools/fast/detach", {"device": second})
    assert devices_of(pool(appliance)["vdevs"]) == {first}
    assert appliance.request("POST", "/pools/fast/detach", {"device": first}).status_code == 409, "the last one stays"


def test_devices_that_cannot_be_attached(appliance: Appliance) -> None:
    disks = free_disks(appliance)
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [{"devices": disks[:3], "redundancy": "raidz1"}]})
    refused = appliance.request("POST", "/pools/fast/attach", {"device": disks[0], "new_device": disks[3]})
    assert refused.status_code == 409 and refused.json
    assert f"as root: zpool attach fast raidz1-0 {disks[3]}" in refused.json["detail"]
    assert appliance.request("POST", "/pools/fast/attach", {"device": "absent", "new_device": disks[3]}).status_code == 404
    tank = appliance.get("/pools/tank")["vdevs"][0]["vdevs"][0]["path"]
    assert appliance.request("POST", "/pools/tank/attach", {"device": tank, "new_device": disks[0]}).status_code == 409, "in use"
    forced = {"device": tank, "new_device": disks[3], "force": True}
    for verb in ("attach", "replace"):
        assert appliance.request("POST", f"/pools/tank/{verb}", forced, "operator").status_code == 403, verb
    appliance.job("POST", "/pools/tank/attach", forced)


def test_a_device_of_the_pool_is_not_attached(appliance: Appliance) -> None:
    """Neither a spare, which has to be removed first, nor the device itself."""
    device = pool(appliance, "tank")["vdevs"][0]["vdevs"][0]["path"]
    spare = free_disks(appliance)[0]
    appliance.job("POST", "/pools/tank/extend", {"vdevs": [{"devices": [spare], "role": "spare"}]})
    before = pool(appliance, "tank")["vdevs"]
    for new in (spare, device):
        refused = appliance.request("POST", "/pools/tank/attach", {"device": device, "new_device": new})
        assert refused.status_code == 409 and refused.json is not None, new
        assert f"zvaai pool remove tank {new}" in refused.json["detail"] and pool(appliance, "tank")["vdevs"] == before
    appliance.job("POST", "/pools/tank/remove", {"device": spare})
    appliance.job("POST", "/pools/tank/attach", {"device": device, "new_device": spare})
    (mirrored,) = pool(appliance, "tank")["vdevs"]
    assert [vdev["path"] for vdev in mirrored["vdevs"]][-1] == spare and len(mirrored["vdevs"]) == 3


def test_spares_caches_and_logs_are_removed_and_data_is_not(appliance: Appliance) -> None:
    disks = free_disks(appliance)
    data = appliance.get("/pools/tank")["vdevs"][0]["vdevs"][0]["path"]
    vdevs = [
        {**mirror(*disks[:2]), "role": "log"},
        {"devices": [disks[2]], "role": "cache"},
        {"devices": [disks[3]], "role": "spare"},
    ]
    appliance.job("POST", "/pools/tank/extend", {"vdevs": vdevs})
    for device in (disks[1], disks[2], disks[3]):
        appliance.job("POST", "/pools/tank/remove", {"device": device})
    assert not devices_of(pool(appliance, "tank")["vdevs"]) & set(disks)
    assert appliance.request("POST", "/pools/tank/remove", {"device": disks[2]}).status_code == 404
    refused = appliance.request("POST", "/pools/tank/remove", {"device": data})
    assert refused.status_code == 409 and refused.json and "as root: zpool remove tank mirror-0" in refused.json["detail"]
    appliance.job("POST", "/pools/tank/extend", {"vdevs": [{"devices": disks[:3], "redundancy": "raidz1"}], "force": True})
    refused = appliance.request("POST", "/pools/tank/remove", {"device": data})
    assert refused.status_code == 409 and refused.json and "OpenZFS cannot remove it" in refused.json["detail"]


def test_trim_and_upgrade(appliance: Appliance) -> None:
    assert pool(appliance, "tank")["vdevs"][0]["vdevs"][0]["trim"] == ""
    appliance.job("POST", "/pools/tank/trim", {"action": "start"})
    assert pool(appliance, "tank")["vdevs"][0]["vdevs"][0]["trim"] == "active"
    appliance.job("POST", "/pools/tank/trim", {"action": "start"}, expect="failed")
    appliance.job("POST", "/pools/tank/trim", {"action": "stop"})
    assert pool(appliance, "tank")["upgradable"] is False
    state = appliance.simulator.machine.pools[0]
    state.features["block_cloning"] = FeatureState.DISABLED
    appliance.service.context.scan(0)
    assert pool(appliance, "tank")["upgradable"] is True
    assert appliance.request("POST", "/pools/tank/upgrade", role="operator").status_code == 403
    assert appliance.job("POST", "/pools/tank/upgrade")["result"]["features"] == ["block_cloning"]
    assert pool(appliance, "tank")["upgradable"] is False


def test_a_pool_in_use_cannot_be_destroyed(appliance: Appliance) -> None:
    disks = free_disks(appliance)[:2]
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(*disks)]})
    job = appliance.job("POST", "/datastores", {"name": "store", "pool": "fast", "size": str(GIB)})
    store = job["result"]["datastore"]
    for force in ("", "?force=true"):
        refused = appliance.request("DELETE", f"/pools/fast{force}")
        assert refused.status_code == 409 and refused.json and refused.json["blocking"] == ["store"]
    appliance.job("DELETE", f"/datastores/{store}")
    assert appliance.request("DELETE", "/pools/fast?force=true").status_code == 409, "it can be restored"
    appliance.job("POST", f"/datastores/{store}/purge")
    appliance.simulator.create_volume("fast/foreign", GIB)
    refused = appliance.request("DELETE", "/pools/fast")
    assert refused.status_code == 409 and refused.json
    assert refused.json["blocking"] == ["fast/foreign"] and refused.json["can_force"]
    assert appliance.request("DELETE", "/pools/fast?force=true", role="operator").status_code == 403
    appliance.job("DELETE", "/pools/fast?force=true")
    assert "fast" not in {pool["name"] for pool in appliance.get("/pools")["items"]}
    assert appliance.get("/importable-pools")["items"] == []
    appliance.job("POST", "/pools", {"name": "next", "vdevs": [mirror(*disks)]})


def test_a_datastore_that_was_made_while_the_job_waited_is_not_destroyed(appliance: Appliance) -> None:
    disks = free_disks(appliance)[:2]
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(*disks)]})
    destroy, context = DestroyPool(), appliance.service.context
    plan = destroy.plan(context, requests.DestroyPool(force=True).of(pool="fast"))
    appliance.job("POST", "/datastores", {"name": "store", "pool": "fast", "size": str(GIB)})
    with pytest.raises(ConflictError, match="it has datastores"):
        destroy.change(context, plan)
    assert pool(appliance)["health"] == "ONLINE"


def test_another_pool_with_the_planned_name_is_not_destroyed(appliance: Appliance) -> None:
    """Root renamed both after the plan."""
    disks = free_disks(appliance)[:4]
    for name, devices in (("fast", disks[:2]), ("slow", disks[2:])):
        appliance.job("POST", "/pools", {"name": name, "vdevs": [mirror(*devices)]})
    context, operation = appliance.service.context, DestroyPool()
    plan = operation.plan(context, requests.DestroyPool().of(pool="fast"))
    with pytest.raises(ConflictError, match="now imported as fast"):
        operation.change(context, DestroyPlan(**of_pool("slow"), guid=plan.guid, force=False))
    assert {"fast", "slow"} <= {pool["name"] for pool in appliance.get("/pools")["items"]}


def test_a_dataset_that_was_made_while_the_job_waited_is_not_destroyed(appliance: Appliance) -> None:
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(*free_disks(appliance)[:2])]})
    destroy, context = DestroyPool(), appliance.service.context
    plan = destroy.plan(context, requests.DestroyPool().of(pool="fast"))
    appliance.simulator.create_volume("fast/foreign", GIB)
    with pytest.raises(ConflictError, match="it has other datasets"):
        destroy.change(context, plan)


def test_a_pool_that_cannot_be_read_is_neither_destroyed_nor_exported(appliance: Appliance) -> None:
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(*free_disks(appliance)[:2])]})
    appliance.simulator.suspend("fast")
    appliance.service.context.scan(0)
    for method, path in (("DELETE", "/pools/fast?force=true"), ("POST", "/pools/fast/export")):
        refused = appliance.request(method, path)
        assert refused.status_code == 409 and refused.json, refused.text
        assert "Cannot see what pool fast has." in refused.json["detail"] and "reboot the server" in refused.json["detail"]


def test_a_job_that_is_resumed_destroys_no_other_pool_of_the_name(appliance: Appliance) -> None:
    disks = free_disks(appliance)[:2]
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(*disks)]})
    context, operation = appliance.service.context, DestroyPool()
    plan = operation.plan(context, requests.DestroyPool().of(pool="fast"))
    appliance.job("DELETE", "/pools/fast")
    appliance.job("POST", "/pools", {"name": "fast", "vdevs": [mirror(*disks)]})
    operation.run(context, plan, "resumed", lambda *_: None)
    assert "fast" in {pool["name"] for pool in appliance.get("/pools")["items"]}


def test_an_import_reports_file_systems_that_it_does_not_mount(appliance: Appliance) -> None:
    disks = free_disks(appliance)[:2]
    appliance.job("POST", "/pools", {"name": "old", "vdevs": [mirror(*disks)]})
    appliance.simulator.create_filesystem("old/home", properties={"mountpoint": "/home"})
    appliance.simulator.create_filesystem("old/none", properties={"mountpoint": "none"})
    appliance.job("POST", "/pools/old/export")
    result = appliance.job("POST", "/pools/import", {"pool": "old"})["result"]
    assert result["not_mounted"] == ["old/home"]
    assert appliance.simulator.filesystem("old/home").properties["canmount"].value == "noauto"
    assert appliance.simulator.filesystem("old/none").properties["canmount"].value == "on"
    response = [alert for alert in appliance.get("/alerts?open=false")["items"] if "old/home (/home)" in alert["text"]]
    assert [alert["severity"] for alert in response] == ["info"]


def test_an_import_that_exceeds_its_time_is_completed(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    appliance.job("POST", "/pools", {"name": "old", "vdevs": [mirror(*free_disks(appliance)[:2])]})
    appliance.simulator.create_filesystem("old/home", properties={"mountpoint": "/home"})
    appliance.job("POST", "/pools/old/export")
    really = appliance.simulator.import_pool

    def late(*arguments: Any, **options: Any) -> Pool:
        monkeypatch.undo()
        really(*arguments, **options)
        raise Timeout("zpool import", 300)

    monkeypatch.setattr(appliance.simulator, "import_pool", late)
    result = appliance.job("POST", "/pools/import", {"pool": "old"})["result"]
    assert result["not_mounted"] == ["old/home"]


def test_a_pool_of_the_system_with_datastores_raises_an_alert(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    real = appliance.simulator.pools
    monkeypatch.setattr(appliance.simulator, "pools", lambda: [replace(pool, of_the_system=True) for pool in real()])
    assert alerts(appliance, "system") == [], "nothing of the appliance is in it"
    appliance.datastore("first")
    (alert,) = alerts(appliance, "system")
    assert "carries the running system" in alert["text"] and pool(appliance, "tank")["of_the_system"]


def test_a_promoted_clone_lets_its_origin_be_purged(appliance: Appliance) -> None:
    origin = appliance.datastore("origin")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [origin]})
    clone = appliance.job("POST", f"/datastores/{origin}/clone", {"name": "clone", "snapshot": "one"})["result"]["datastore"]
    assert appliance.request("POST", f"/datastores/{origin}/promote").status_code == 409, "it is not a clone"
    appliance.job("DELETE", f"/datastores/{origin}")
    assert appliance.request("POST", f"/datastores/{origin}/purge").status_code == 409, "the clone needs it"
    response = appliance.request("POST", f"/datastores/{clone}/promote", role="operator")
    assert response.status_code == 403, "a schedule of the clone could destroy the snapshots"
    appliance.job("POST", f"/datastores/{clone}/promote")
    assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{clone}/snapshots")["items"]] == ["one"]
    appliance.job("POST", f"/datastores/{origin}/purge")
    assert [volume.name.split("/")[-1].split("-")[0] for volume in appliance.simulator.volumes()] == ["clone"]


def test_a_purge_fails_if_its_pool_was_exported_meanwhile(appliance: Appliance) -> None:
    store = appliance.datastore("store")
    appliance.job("DELETE", f"/datastores/{store}")
    with appliance.simulator.held_next("export_pool"):
        exporting = appliance.request("POST", "/pools/tank/export").json
        purging = appliance.request("POST", f"/datastores/{store}/purge").json
    assert exporting is not None and purging is not None
    assert appliance.ended(exporting["id"])["state"] == "succeeded"
    ended = appliance.ended(purging["id"])
    assert ended["state"] == "failed" and "tank" in ended["problem"]["text"], ended
    appliance.job("POST", "/pools/import", {"pool": "tank"})
    assert appliance.get(f"/datastores/{store}")["state"] == "deleted"


def clones(appliance: Appliance, *names: str) -> list[str]:
    """Clones of the one snapshot of a datastore."""
    origin = appliance.datastore("origin")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [origin]})
    path = f"/datastores/{origin}/clone"
    return [appliance.job("POST", path, {"name": name, "snapshot": "one"})["result"]["datastore"] for name in names]


def test_a_clone_whose_sibling_was_promoted_before_is_not_reported_as_promoted(appliance: Appliance) -> None:
    """While the job waited: the snapshot is the sibling's now."""
    first, second = clones(appliance, "first", "second")
    promote, context = Promote(), appliance.service.context
    plan = promote.plan(context, requests.PromoteDatastore().of(id=second))
    appliance.job("POST", f"/datastores/{first}/promote")
    with pytest.raises(ConflictError, match="Cannot promote second: its origin has changed meanwhile"):
        promote.run(context, plan, "job", lambda *_: None)
    assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{first}/snapshots")["items"]] == ["one"]
    appliance.job("POST", f"/datastores/{second}/promote")
    assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{second}/snapshots")["items"]] == ["one"]


def test_a_promotion_that_is_resumed_is_done_once(appliance: Appliance) -> None:
    """Also if the origin is a clone itself: the promoted clone then is one of that origin's origin."""
    first, _ = clones(appliance, "first", "second")
    appliance.job("POST", "/snapshots", {"name": "two", "datastores": [first]})
    clone = appliance.job("POST", f"/datastores/{first}/clone", {"name": "third", "snapshot": "two"})["result"]["datastore"]
    promote, context = Promote(), appliance.service.context
    plan = promote.plan(context, requests.PromoteDatastore().of(id=clone))
    for _ in range(2):
        promote.run(context, plan, "job", lambda *_: None)
        assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{clone}/snapshots")["items"]] == ["two"]


@pytest.mark.parametrize(("names", "destroyed"), [(["one"], None), (["one", "three"], 1)])
def test_snapshots_that_a_promotion_took_do_not_count_as_deleted(
    names: list[str], destroyed: int | None, appliance: Appliance
) -> None:
    origin = appliance.datastore("origin")
    for name in ("one", "two", "three"):
        appliance.job("POST", "/snapshots", {"name": name, "datastores": [origin]})
    clone = appliance.job("POST", f"/datastores/{origin}/clone", {"name": "clone", "snapshot": "two"})["result"]["datastore"]
    with appliance.simulator.held_next("promote"):
        promoting = appliance.request("POST", f"/datastores/{clone}/promote").json
        deleting = appliance.request("POST", f"/datastores/{origin}/snapshots/delete", {"names": names}).json
    assert promoting is not None and deleting is not None
    assert appliance.ended(promoting["id"])["state"] == "succeeded"
    ended = appliance.ended(deleting["id"])
    assert ended["state"] == "failed" if destroyed is None else ended["result"] == {"destroyed": destroyed}
    assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{clone}/snapshots")["items"]] == ["one", "two"]


def test_a_deletion_that_is_resumed_counts_what_it_destroyed(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("store")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    really = appliance.simulator.destroy_snapshots

    def late(names: list[str]) -> None:
        monkeypatch.undo()
        really(names)
        raise Timeout("lzc_destroy_snaps", 300)

    monkeypatch.setattr(appliance.simulator, "destroy_snapshots", late)
    deletion = appliance.job("POST", f"/datastores/{store}/snapshots/delete", {"names": ["one"]})
    assert deletion["result"] == {"destroyed": 1}


def test_the_room_of_a_schedule_of_thick_datastores(appliance: Appliance) -> None:
    thin, thick = appliance.datastore("thin"), appliance.datastore("thick", thick=True)
    dataset = appliance.get(f"/datastores/{thick}")["dataset"]
    appliance.simulator.write(dataset, 100 << 20)
    appliance.service.context.scan(0)
    body = {"name": "often", "datastores": [thin, thick], "every_minutes": 60, "keep": 2, "enabled": False}
    made = appliance.request("POST", "/schedules", body).json
    assert made is not None
    room = appliance.get(f"/schedules/{made['id']}/room")
    assert [datastore["name"] for datastore in room["datastores"]] == ["thick"]
    assert 100 << 20 <= int(room["needed"]) <= 101 << 20 and int(room["available"]) > 0
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [thick]})
    assert int(appliance.get(f"/schedules/{made['id']}/room")["needed"]) < 1 << 20, "what a snapshot holds is reserved already"


def test_a_key_that_was_never_exported(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def raised() -> list[tuple[str, str]]:
        encryption.update_alerts(appliance.service.context, 0)
        return [
            (alert["key"], alert["severity"]) for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("key:")
        ]

    assert raised() == []
    appliance.datastore("first", encrypted=True)
    assert raised() == [("key:unexported:tank", "warning")]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86401)
    assert raised() == [("key:unexported:tank", "critical")]
    body = {"name": "second", "pool": "tank", "size": str(GIB), "encrypted": True}
    refused = appliance.request("POST", "/datastores", body)
    assert refused.status_code == 409 and refused.json and "zvaai key export tank" in refused.json["detail"]
    appliance.datastore("plain")
    assert appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}).status_code == 200
    assert raised() == []
    appliance.job("POST", "/datastores", body)
