# SPDX-License-Identifier: Apache-2.0
"""Thick NFS datastores: quota and refreservation, requests to the NFS server, other sizes, and the change from thin."""

from __future__ import annotations

from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.vaai_nas import VaaiNasSimulator

from appliance.dataplane.vaai_nas import FileRefusedError, SharedSpace
from appliance.domain.thick import with_slack, without_slack
from appliance.worker import thick
from appliance.worker.tests.test_files import DISK, begun, until
from appliance.worker.tests.test_nfs_datastores import details, refused
from appliance.worker.tests.test_pools import free_disks
from appliance.zfs.errors import OutOfSpace, PoolBusy
from appliance.zfs.model import Property, Source

MIB = 1 << 20
SLACK = 128 * MIB
"""Slack of the smallest datastore."""


def nas(appliance: Appliance) -> VaaiNasSimulator:
    files = appliance.service.context.files
    assert isinstance(files, VaaiNasSimulator)
    return files


def held(appliance: Appliance, store: str) -> tuple[int, int]:
    """Quota and refreservation of its dataset."""
    filesystem = appliance.simulator.filesystem(details(appliance, store)["dataset"])
    return filesystem.refquota, filesystem.refreservation


def served(appliance: Appliance, store: str) -> int | None:
    """Size of the thick export in the NFS server; None if it is thin."""
    space = nas(appliance).space(details(appliance, store)["export"])
    return space.size if space.thick else None


def shares(appliance: Appliance, store: str, answer: SharedSpace | FileRefusedError) -> None:
    nas(appliance).sharing[details(appliance, store)["export"]] = answer


def size(text: str) -> dict[str, str]:
    return {"size": text}


def everything(appliance: Appliance, store: str) -> tuple[Any, ...]:
    shown = details(appliance, store)
    return shown["thick"], shown["size"], held(appliance, store), served(appliance, store)


def thin(gibibytes: int = 1) -> tuple[Any, ...]:
    return False, str(gibibytes * GIB), (gibibytes * GIB, 0), None


def thick_of(gibibytes: int = 1) -> tuple[Any, ...]:
    return True, str(gibibytes * GIB), (gibibytes * GIB + SLACK,) * 2, gibibytes * GIB


@pytest.mark.parametrize(
    ("size", "slack"),
    [(GIB, SLACK), (2 * GIB, SLACK), (2 * GIB + MIB, SLACK + MIB // 16), (512 * GIB, 32 * GIB), (2 << 40, 32 * GIB),
     ((2 << 40) + MIB, 32 * GIB + MIB // 64), (64 << 40, 1 << 40)],
)  # fmt: skip
def test_the_slack_of_a_size_and_back(size: int, slack: int) -> None:
    """At least the metadata of 16K records, which the quota counts: an indirect block of 128 KiB for 1024, twice."""
    assert with_slack(size) == size + slack and without_slack(size + slack) == size
    assert slack >= size // (1024 * 16384) * 2 * (128 << 10)


def test_a_thick_one_has_its_size_and_slack_reserved(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    assert everything(appliance, store) == thick_of()
    assert everything(appliance, appliance.nfs_datastore("second")) == thin()
    assert appliance.get("/alerts")["items"] == []


def test_it_grows_and_shrinks_with_all_that_is_reserved(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    appliance.job("POST", f"/datastores/{store}/quota", size(str(2 * GIB)))
    assert everything(appliance, store) == thick_of(2)
    appliance.job("POST", f"/datastores/{store}/quota", size(str(GIB)))
    assert everything(appliance, store) == thick_of()


def test_it_does_not_become_smaller_than_its_files_need(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", 2 * GIB, thick=True)
    nas(appliance).put(details(appliance, store)["export"], "disk-flat.vmdk", GIB)
    problem = refused(appliance, "POST", f"/datastores/{store}/quota", size(str(GIB)), status=422)
    assert problem["errors"][0]["reason"] == f"its files need {GIB + 16384} bytes"
    assert problem["errors"][0]["allowed"] == f"{GIB + MIB} (1025 MiB) or more", "a size that is accepted"
    nas(appliance).counting = True
    assert "still counts" in refused(appliance, "POST", f"/datastores/{store}/quota", size(str(GIB)))["detail"]


def test_files_that_grow_while_it_is_made_smaller_have_it_as_before(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = appliance.nfs_datastore("first", 2 * GIB, thick=True)
    really, export = thick.resize, details(appliance, store)["export"]

    def late(*arguments: Any) -> None:
        really(*arguments)
        nas(appliance).put(export, "disk-flat.vmdk", GIB)

    monkeypatch.setattr(thick, "resize", late)
    job = appliance.job("POST", f"/datastores/{store}/quota", size(str(GIB)), expect="failed")
    assert f"{GIB + 16384} bytes" in job["problem"]["text"]
    assert everything(appliance, store) == thick_of(2)


def test_lack_of_space_to_grow_names_the_missing_bytes_and_changes_nothing(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    text = appliance.job("POST", f"/datastores/{store}/quota", size(str(8192 * GIB)), expect="failed")["problem"]["text"]
    assert "the pool lacks" in text and int(text.partition("lacks ")[2].split()[0]) > GIB
    assert everything(appliance, store) == thick_of()


def test_a_size_that_was_set_by_half_is_as_before(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenZFS has set the quota, and has no space for the reservation."""
    store = appliance.nfs_datastore("first", thick=True)
    really = appliance.simulator.set_properties

    def half(name: str, properties: dict[str, str]) -> None:
        monkeypatch.undo()
        really(name, {"refquota": properties["refquota"]})
        raise OutOfSpace(name)

    monkeypatch.setattr(appliance.simulator, "set_properties", half)
    appliance.job("POST", f"/datastores/{store}/quota", size(str(2 * GIB)), expect="failed")
    assert everything(appliance, store) == thick_of()


def test_no_room_to_make_it_is_refused(appliance: Appliance) -> None:
    body = {"kind": "nfs", "name": "first", "pool": "tank", "size": str(8192 * GIB), "thick": True}
    assert f"{with_slack(8192 * GIB)} bytes are needed" in refused(appliance, "POST", "/datastores", body)["detail"]
    appliance.simulator.fail_next("create_filesystem", OutOfSpace("tank"))  # of the folder above
    job = appliance.job("POST", "/datastores", {**body, **size(str(GIB))}, expect="failed")
    assert job["problem"]["text"] and appliance.get("/datastores")["items"] == []


def test_a_clone_has_a_separate_reservation(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second"})["result"]["datastore"]
    assert everything(appliance, clone) == thick_of()
    appliance.simulator.fail_next("clone", OutOfSpace("tank"))
    text = appliance.job("POST", f"/datastores/{store}/clone", {"name": "third"}, expect="failed")["problem"]["text"]
    assert f"needs {GIB + SLACK} bytes reserved. Add vdevs" in text


def test_a_snapshot_reports_the_space_that_it_needs(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    dataset = details(appliance, store)["dataset"]
    appliance.simulator.write(dataset, GIB // 2)
    appliance.service.context.scan()
    appliance.simulator.fail_next("snapshot", OutOfSpace("tank"))
    text = appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]}, expect="failed")["problem"]["text"]
    assert f"it needs {appliance.simulator.filesystem(dataset).space.used_by_dataset} bytes for {dataset}" in text


def test_thick_and_thin_again(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    before = appliance.nfs.served()[0].clients
    appliance.job("PATCH", f"/datastores/{store}", {"thick": True})
    assert everything(appliance, store) == thick_of()
    appliance.job("PATCH", f"/datastores/{store}", {"thick": False})
    assert everything(appliance, store) == thin() and appliance.nfs.served()[0].clients == before


def test_space_beyond_its_size_is_retained_when_it_becomes_thin(appliance: Appliance) -> None:
    """Metadata can use the slack: then the quota is the used space."""
    store = appliance.nfs_datastore("first", thick=True)
    appliance.simulator.write(details(appliance, store)["dataset"], GIB + MIB)
    appliance.job("PATCH", f"/datastores/{store}", {"thick": False})
    quota, reserved = held(appliance, store)
    used = appliance.simulator.filesystem(details(appliance, store)["dataset"]).space.referenced
    assert reserved == 0 and GIB < used <= quota < used + MIB and quota % MIB == 0


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (SharedSpace(True, 65536, 0), "65536 of its bytes are shared"),
        (SharedSpace(True, 0, 4096), "4096 of its bytes are deduplicated"),
        (SharedSpace(False, 0, 0), "could not count"),
        (FileRefusedError("not_supported", "load zvol_clone"), "load zvol_clone"),
    ],
)
def test_a_datastore_with_shared_blocks_does_not_become_thick(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, answer: SharedSpace | FileRefusedError, says: str
) -> None:
    monkeypatch.setattr(thick, "FILES_SECONDS", 0)
    store = appliance.nfs_datastore("first")
    shares(appliance, store, answer)
    assert says in appliance.job("PATCH", f"/datastores/{store}", {"thick": True}, expect="failed")["problem"]["text"]
    assert everything(appliance, store) == thin()


def test_a_datastore_that_is_neither_thick_nor_thin_reserves_nothing_and_is_reported(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is made thick or thin, also if an admin sets its refreservation."""
    store = appliance.nfs_datastore("first")
    shares(appliance, store, SharedSpace(True, 65536, 0))

    def busy(*_: object) -> None:
        raise PoolBusy("tank", "restore_range")

    with monkeypatch.context() as patched:
        patched.setattr(thick, "make_thin", busy)
        appliance.job("PATCH", f"/datastores/{store}", {"thick": True}, expect="failed")
    assert "--thin" in refused(appliance, "POST", f"/datastores/{store}/quota", size(str(2 * GIB)))["detail"]
    assert held(appliance, store) == (GIB + SLACK, 0)
    appliance.simulator.set_properties(details(appliance, store)["dataset"], {"refreservation": str(GIB + SLACK)})
    appliance.service.context.scan()
    appliance.service.periodic.capacity()
    (alert,) = appliance.get("/alerts")["items"]
    assert alert["subject"] == store and "was not made thick" in alert["text"]
    appliance.job("PATCH", f"/datastores/{store}", {"thick": False})
    appliance.service.periodic.capacity()
    assert everything(appliance, store) == thin() and appliance.get("/alerts")["items"] == []


def test_files_that_need_more_than_its_size_keep_it_thin(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    nas(appliance).put(details(appliance, store)["export"], "sparse-flat.vmdk", 2 * GIB)
    text = appliance.job("PATCH", f"/datastores/{store}", {"thick": True}, expect="failed")["problem"]["text"]
    assert f"its files need {2 * GIB + 16384} bytes, and it has {GIB}" in text
    assert everything(appliance, store) == thin()


def test_no_room_keeps_it_thin(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", 8192 * GIB)
    text = appliance.job("PATCH", f"/datastores/{store}", {"thick": True}, expect="failed")["problem"]["text"]
    assert "the pool lacks" in text and int(text.partition("lacks ")[2].split()[0]) > GIB
    assert everything(appliance, store) == thin(8192)


def test_it_is_changed_alone_and_needs_a_size(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    answer = appliance.request("PATCH", f"/datastores/{store}", {"thick": True, "clients": ["192.0.2.1"]})
    assert answer.status_code == 422 and "not with clients" in answer.text
    appliance.simulator.create_filesystem("tank/old", properties={"mountpoint": "/srv/zvaai/old"})
    old = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old"})["result"]["datastore"]
    assert "set its quota first" in refused(appliance, "PATCH", f"/datastores/{old}", {"thick": True})["detail"]


def test_a_removed_reservation_is_set_again_or_reported(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    dataset = details(appliance, store)["dataset"]
    appliance.simulator.set_properties(dataset, {"refreservation": "none"})
    appliance.request("POST", "/reconcile")
    assert everything(appliance, store) == thick_of()
    appliance.simulator.set_properties(dataset, {"refreservation": "none"})
    appliance.simulator.fail_next("set_properties", OutOfSpace("tank"), times=1)
    appliance.request("POST", "/reconcile")
    appliance.service.periodic.capacity()
    (alert,) = appliance.get("/alerts")["items"]
    assert alert["subject"] == store and f"0 of {GIB + SLACK} bytes reserved" in alert["text"]


def test_a_conversion_to_thick_raises_no_alert(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    nas(appliance).counting = True
    job = appliance.request("PATCH", f"/datastores/{store}", {"thick": True}).json
    until(lambda: served(appliance, store) is not None)
    appliance.service.context.scan()
    for _ in range(2):
        appliance.service.periodic.capacity()
        assert appliance.get("/alerts")["items"] == []
    nas(appliance).counting = False
    assert job is not None and appliance.ended(job["id"])["state"] == "succeeded"
    assert everything(appliance, store) == thick_of()


@pytest.mark.parametrize(
    ("properties", "thick"),
    [
        ({"zvaai:thick": "on", "refquota": str(GIB + SLACK)}, True),
        ({"zvaai:thick": "on"}, False),
        ({"refquota": str(GIB)}, False),
    ],
)
def test_an_adopted_file_system_is_not_changed(properties: dict[str, str], thick: bool, appliance: Appliance) -> None:
    appliance.simulator.create_filesystem("tank/old", properties={"mountpoint": "/srv/zvaai/old", **properties})
    store = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old"})["result"]["datastore"]
    assert details(appliance, store)["thick"] is thick and served(appliance, store) == (GIB if thick else None)
    appliance.request("POST", "/reconcile")
    assert held(appliance, store)[1] == (GIB + SLACK if thick else 0)


@pytest.mark.parametrize("kind", ["nfs", "vmfs"])
def test_where_blocks_are_deduplicated_nothing_is_thick(kind: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("first", kind=kind)
    dataset, really = details(appliance, store)["dataset"], appliance.simulator.properties
    dedup = Property("on", Source.INHERITED, "tank")
    monkeypatch.setattr(appliance.simulator, "properties", lambda name: {**really(name), "dedup": dedup})
    new = {"kind": kind, "name": "second", "pool": "tank", "size": str(GIB), "thick": True}
    changed = ("PATCH", f"/datastores/{store}", {"thick": True}, dataset)
    for method, path, body, place in (changed, ("POST", "/datastores", new, "tank/zvaai")):
        problem = refused(appliance, method, path, body)
        assert problem["detail"].endswith(f"run: zfs set dedup=off {place}")
    appliance.datastore("third", kind=kind)


def test_records_that_take_more_than_their_size_are_not_thick(appliance: Appliance) -> None:
    raidz = {"devices": free_disks(appliance)[:3], "redundancy": "raidz1"}
    appliance.job("POST", "/pools", {"name": "parity", "vdevs": [raidz]})
    new = {"kind": "nfs", "name": "second", "pool": "parity", "size": str(GIB), "thick": True}
    old = {"mountpoint": "/srv/zvaai/old", "recordsize": "65536", "zvaai:thick": "on", "refquota": str(GIB + SLACK)}
    appliance.simulator.create_filesystem("parity/old", properties=old)
    store = appliance.nfs_datastore("first", pool="parity")
    for method, path, body in (
        ("POST", "/datastores", {**new, "record_size": 65536}),
        ("PATCH", f"/datastores/{store}", {"thick": True}),
        ("POST", "/volumes/adopt", {"dataset": "parity/old", "name": "old"}),
    ):
        assert "record size 131072 or more" in refused(appliance, method, path, body)["detail"], path
    made = appliance.nfs_datastore("second", pool="parity", thick=True)
    assert (details(appliance, store)["block_size"], details(appliance, made)["block_size"]) == (65536, 131072)


@pytest.mark.parametrize("kind", ["nfs", "vmfs"])
def test_copies_that_take_more_than_the_size_are_not_thick(
    kind: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenZFS reserves a volume's size once."""
    store = appliance.datastore("first", kind=kind)
    really, copies = appliance.simulator.properties, Property("2", Source.INHERITED, "tank")
    monkeypatch.setattr(appliance.simulator, "properties", lambda name: {**really(name), "copies": copies})
    assert "zfs set copies=1 tank/" in refused(appliance, "PATCH", f"/datastores/{store}", {"thick": True})["detail"]
    new = {"kind": kind, "name": "second", "pool": "tank", "size": str(GIB), "thick": True}
    assert "zfs set copies=1 tank/" in refused(appliance, "POST", "/datastores", new)["detail"]
    appliance.datastore("third", kind=kind)


def test_no_file_is_cloned_or_restored_while_it_becomes_thick(appliance: Appliance) -> None:
    store, other = appliance.nfs_datastore("first"), appliance.nfs_datastore("second")
    clone = f"/datastores/{store}/files/clone"
    for each in (store, other):
        nas(appliance).put(details(appliance, each)["export"], DISK, MIB)
    job = begun(appliance, store)
    assert "file.clone" in refused(appliance, "PATCH", f"/datastores/{store}", {"thick": True})["detail"]
    appliance.job("PATCH", f"/datastores/{other}", {"thick": True})
    nas(appliance).paused = False
    assert appliance.ended(job)["state"] == "succeeded"
    nas(appliance).counting = True
    change = appliance.request("PATCH", f"/datastores/{store}", {"thick": True}).json
    answer = appliance.request("POST", clone, {"source": DISK, "destination": "second.vmdk"})
    assert answer.status_code == 409 and "datastore.change" in answer.text
    snapshot = appliance.request("POST", "/snapshots", {"name": "one", "datastores": [store]}).json
    nas(appliance).counting = False
    for made in (change, snapshot):
        assert made is not None and appliance.ended(made["id"])["problem"] is None, "a snapshot waits"


def test_clones_of_files_are_copied(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    nas(appliance).put(details(appliance, store)["export"], "disk-flat.vmdk", MIB)
    body = {"source": "disk-flat.vmdk", "destination": "new-flat.vmdk"}
    job = appliance.job("POST", f"/datastores/{store}/files/clone", body)
    assert job["result"]["copied_because"] == {"thick": str(MIB)}


def test_the_space_of_its_files_is_reported(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", thick=True)
    export = details(appliance, store)["export"]
    nas(appliance).put(export, "disk-flat.vmdk", MIB)

    def space() -> tuple[Any, ...]:
        space = appliance.get(f"/datastores/{store}/space")
        return space["thick"], space["size"], space["admitted"], space["counting"], space["problem"]

    def ready() -> str:
        checks = appliance.get("/readiness")["checks"]
        return str(next(check["result"] for check in checks if (check["id"], check["subject"]) == ("thick", store)))

    needed = str(MIB + 16384)
    assert (space(), ready()) == ((True, str(GIB), needed, False, ""), "ok")
    nas(appliance).counting = True
    assert (space()[3], ready()) == (True, "warning")
    nas(appliance).problems[export] = "a folder could not be read"
    assert (space()[4], ready()) == ("a folder could not be read", "failed")
    appliance.nfs.remove(export)
    assert (space()[2], space()[4], ready()) == (None, "export: stale", "unknown")
