"""NFS datastores that are thick by default: set, kept, followed by the NFS server, and told where that is not so."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.vaai_nas import FileRefusedError, FileStatistics
from appliance.dataplane.vaai_nas_simulator import VaaiNasSimulator
from appliance.testing import GIB, Appliance
from appliance.worker.tests.test_nfs_datastores import refused, told
from appliance.zfs.model import Property, Source

ESX = "192.0.2.11"


def nas(appliance: Appliance) -> VaaiNasSimulator:
    files = appliance.service.context.files
    assert isinstance(files, VaaiNasSimulator)
    return files


def promises(appliance: Appliance, store: str) -> bool:
    """Whether the NFS server promises new files of it their size."""
    return nas(appliance).space(told(appliance, store)["export"]).thick_default


def alerts(appliance: Appliance) -> list[tuple[str, str]]:
    """Of promises: their subjects and texts."""
    return [(one["subject"], one["text"]) for one in appliance.get("/alerts")["items"] if "promise:" in one["key"]]


def reconciled(appliance: Appliance) -> Any:
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None
    return answer


def deduplicated(appliance: Appliance, monkeypatch: pytest.MonkeyPatch, but: str = "") -> None:
    """All of the pool is from now on, `but` for one dataset."""
    really, inherited = appliance.simulator.properties, Property("on", Source.INHERITED, "tank")
    here = Property("off", Source.LOCAL)

    def properties(dataset: str) -> dict[str, Property]:
        return {**really(dataset), "dedup": here if dataset == but else inherited}

    monkeypatch.setattr(appliance.simulator, "properties", properties)


def readiness(appliance: Appliance, store: str) -> list[tuple[str, str]]:
    checks = appliance.get("/readiness")["checks"]
    return [(one["result"], one["evidence"]) for one in checks if (one["id"], one["subject"]) == ("promises", store)]


def test_it_is_made_so_and_switched_while_it_is_served(appliance: Appliance) -> None:
    store, thin = appliance.nfs_datastore("first", thick=True, clients=[ESX]), appliance.nfs_datastore("second")
    assert told(appliance, store)["thick"] and promises(appliance, store)
    assert not told(appliance, thin)["thick"] and not promises(appliance, thin)
    assert readiness(appliance, store)[0][0] == "ok" and readiness(appliance, thin) == []
    before = appliance.nfs.served()
    job = appliance.job("PATCH", f"/datastores/{store}", {"thick": False})
    assert (job["result"]["served"], job["result"]["problem"]) == (True, None)
    assert not told(appliance, store)["thick"] and not promises(appliance, store)
    appliance.job("PATCH", f"/datastores/{thin}", {"thick": True})
    assert told(appliance, thin)["thick"] and promises(appliance, thin)
    appliance.job("PATCH", f"/datastores/{thin}", {"name": "other"})
    assert told(appliance, thin)["thick"], "what is not told stays"
    assert appliance.nfs.served() == before, "hosts keep what they have mounted"
    assert appliance.get("/alerts")["items"] == []  # nothing is reserved before there are files, and that is right
    entries = [one for one in appliance.get("/audit")["items"] if one["action"] == "datastore.change"]
    assert [one["before"] and one["before"]["thick"] for one in reversed(entries)] == [True, False, True]


def test_of_two_who_switch_it_the_later_one_is_told(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    etag = told(appliance, store)["etag"]
    appliance.job("PATCH", f"/datastores/{store}", {"thick": True})
    answer = appliance.request("PATCH", f"/datastores/{store}", {"thick": False}, If_Match=etag)
    assert answer.status_code == 412 and told(appliance, store)["thick"]


def test_it_stays_so_in_a_clone_aside_restored_and_after_a_restart(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True, clients=[ESX])
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"})["result"]["datastore"]
    found = appliance.simulator.filesystem(told(appliance, clone)["dataset"]).properties["zvaai:thick"]
    assert (found.value, found.source) == ("on", Source.LOCAL) and promises(appliance, clone)
    appliance.job("DELETE", f"/datastores/{store}")
    assert told(appliance, store)["thick"]
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert told(appliance, store)["thick"] and promises(appliance, store)
    nas(appliance).restart()
    appliance.restart_worker()
    assert promises(appliance, store) and reconciled(appliance)["differences"] == []


@pytest.mark.parametrize(("value", "thick"), [("on", True), ("off", False), ("perhaps", False), (None, False)])
def test_an_adopted_file_system_stays_what_it_is(value: str | None, thick: bool, appliance: Appliance) -> None:
    own = {} if value is None else {"zvaai:thick": value}
    appliance.simulator.create_filesystem("tank/old", properties={"mountpoint": "/srv/zvaai/old", **own})
    store = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old"})["result"]["datastore"]
    assert told(appliance, store)["thick"] is thick and promises(appliance, store) is thick


def test_what_it_lies_below_makes_it_not_thick(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    dataset = told(appliance, store)["dataset"]
    appliance.simulator.inherit_property(dataset, "zvaai:thick")
    appliance.simulator.set_properties("tank/zvaai", {"zvaai:thick": "on"})
    assert reconciled(appliance)["differences"] == []
    assert not told(appliance, store)["thick"] and not promises(appliance, store)


def test_what_the_nfs_server_does_otherwise_is_mended_and_told(appliance: Appliance) -> None:
    """By hand somebody sets it on the dataset: that is what is to be, as for volumes, and the server follows at once."""
    store = appliance.nfs_datastore("first")
    dataset = told(appliance, store)["dataset"]
    appliance.simulator.set_properties(dataset, {"zvaai:thick": "on"})
    assert "promises new files nothing" in reconciled(appliance)["differences"][0]
    assert told(appliance, store)["thick"] and promises(appliance, store)
    assert reconciled(appliance) == {"differences": [], "failures": []}


@pytest.mark.parametrize("thick", [True, False])
def test_a_server_that_does_not_follow_is_told_until_it_does(thick: bool, appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=not thick)
    nas(appliance).stuck = True
    job = appliance.job("PATCH", f"/datastores/{store}", {"thick": thick})
    assert job["result"]["served"] and "does not follow" in job["result"]["problem"]
    assert [subject for subject, _ in alerts(appliance)] == [store]
    assert [result for result, _ in readiness(appliance, store)] == (["failed"] if thick else [])
    assert reconciled(appliance)["differences"] == [], "nothing was done"
    nas(appliance).stuck = False
    reconciled(appliance)
    assert alerts(appliance) == [] and promises(appliance, store) is thick


def test_promises_that_may_not_hold_are_told_until_they_do(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    export = told(appliance, store)["export"]
    nas(appliance).problems[export] = "the pool has less than it has promised"
    reconciled(appliance)
    reconciled(appliance)
    ((subject, text),) = alerts(appliance)
    assert subject == store and "the pool has less than it has promised" in text
    assert readiness(appliance, store)[0][0] == "failed"
    nas(appliance).problems.clear()
    reconciled(appliance)
    assert alerts(appliance) == []


def test_what_is_over_by_the_next_round_is_no_alert(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    problems, export = nas(appliance).problems, told(appliance, store)["export"]
    for _ in range(3):
        problems[export] = "zfs does not answer"
        assert "zfs does not answer" in reconciled(appliance)["failures"][0]["text"]
        appliance.settled()  # the job that has ended asks for no round at once
        assert alerts(appliance) == []
        problems.clear()
        reconciled(appliance)
    assert alerts(appliance) == []


def test_an_alert_outlives_the_worker_that_raised_it(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    nas(appliance).problems[told(appliance, store)["export"]] = "the pool has less than it has promised"
    reconciled(appliance)
    reconciled(appliance)
    (before,) = [one for one in appliance.get("/alerts")["items"] if "promise:" in one["key"]]
    appliance.restart_worker()
    reconciled(appliance)
    (after,) = [one for one in appliance.get("/alerts")["items"] if "promise:" in one["key"]]
    assert (after["id"], after["raised_at"]) == (before["id"], before["raised_at"]), "it is not cleared and raised anew"


def test_of_thin_ones_a_problem_is_told_once_files_are_promised_space(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    export = told(appliance, store)["export"]
    nas(appliance).problems[export] = "zfs does not answer: nothing can be promised"
    reconciled(appliance)
    assert reconciled(appliance)["failures"] == [] and alerts(appliance) == []
    nas(appliance).exports[export] = {"disk-flat.vmdk": FileStatistics(GIB, GIB, GIB, True, GIB)}
    reconciled(appliance)
    assert "zfs does not answer" in reconciled(appliance)["failures"][0]["text"]
    assert [subject for subject, _ in alerts(appliance)] == [store]


def test_a_server_that_does_not_tell_is_told_of_thick_ones_only(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    appliance.nfs_datastore("second")

    def silent(export: int, *, refresh: bool = False, timeout_s: float | None = None) -> Any:
        raise GaneshaUnreachableError("the NFS server does not answer")

    with monkeypatch.context() as away:
        away.setattr(nas(appliance), "space", silent)
        reconciled(appliance)
        reconciled(appliance)
        assert [subject for subject, _ in alerts(appliance)] == [store]
        assert readiness(appliance, store)[0][0] == "unknown"
    reconciled(appliance)
    assert alerts(appliance) == []


def test_full_clones_are_promised_and_fast_ones_not(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    nas(appliance).put(told(appliance, store)["export"], "disk-flat.vmdk", 40 << 30)
    for fast in (False, True):
        body = {"source": "disk-flat.vmdk", "destination": f"{fast}-flat.vmdk", "fast": fast}
        appliance.job("POST", f"/datastores/{store}/files/clone", body)
    files = appliance.get(f"/datastores/{store}/files")["items"]
    assert [(one["path"], one["reserved"]) for one in files] == [
        ("False-flat.vmdk", str(40 << 30)), ("True-flat.vmdk", "0"), ("disk-flat.vmdk", "0"),
    ]  # fmt: skip


def test_where_blocks_are_deduplicated_it_is_refused(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.nfs_datastore("first")
    dataset = told(appliance, store)["dataset"]
    deduplicated(appliance, monkeypatch)
    new = {"kind": "nfs", "name": "second", "pool": "tank", "size": str(GIB), "thick": True}
    changed = ("PATCH", f"/datastores/{store}", {"thick": True}, dataset)
    for method, path, body, there in (changed, ("POST", "/datastores", new, "tank/zvaai")):
        problem = refused(appliance, method, path, body)
        assert f"zfs set dedup=off {there}, " in problem["detail"] and problem["blocking"] == [there]
    appliance.job("PATCH", f"/datastores/{store}", {"thick": False})
    appliance.nfs_datastore("third")


def test_where_blocks_are_deduplicated_nothing_thick_is_cloned_or_adopted(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone inherits it from what it lies below, though its source has it off."""
    store, thin = appliance.nfs_datastore("first", thick=True), appliance.nfs_datastore("second")
    for name, thick in (("old", "on"), ("older", "off")):
        properties = {"mountpoint": f"/srv/zvaai/{name}", "zvaai:thick": thick}
        appliance.simulator.create_filesystem(f"tank/{name}", properties=properties)
    deduplicated(appliance, monkeypatch, but=told(appliance, store)["dataset"])
    problem = refused(appliance, "POST", f"/datastores/{store}/clone", {"name": "third"})
    assert "zfs set dedup=off tank/zvaai, " in problem["detail"]
    problem = refused(appliance, "POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old"})
    assert "zfs set dedup=off tank/old, " in problem["detail"]
    appliance.job("POST", f"/datastores/{thin}/clone", {"name": "third"})
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/older", "name": "older"})


@pytest.mark.parametrize("thick", [True, False])
def test_a_server_that_can_not_look_now_is_told_until_it_can(
    thick: bool, appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = appliance.nfs_datastore("first", thick=not thick)
    space = nas(appliance).space

    def busy(export: int, *, refresh: bool = False, timeout_s: float | None = None) -> Any:
        if refresh:
            raise FileRefusedError("busy", "zfs does not answer", "export")
        return space(export)

    with monkeypatch.context() as now:
        now.setattr(nas(appliance), "space", busy)
        job = appliance.job("PATCH", f"/datastores/{store}", {"thick": thick})
        assert "zfs does not answer" in job["result"]["problem"] and [one for one, _ in alerts(appliance)] == [store]
    reconciled(appliance)
    assert alerts(appliance) == [] and promises(appliance, store) is thick
