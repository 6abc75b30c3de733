# SPDX-License-Identifier: Apache-2.0
"""The life of NFS datastores: operations, refusals, and no change after a refusal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import GIB, PASSWORD, Appliance
from simulators.ganesha import GaneshaSimulator
from sqlalchemy import select

from appliance.database.models import Export as ExportRow
from appliance.dataplane.ganesha import Export, ExportRefusedError, GaneshaUnreachableError, NfsClient, ServedExport
from appliance.dataplane.target import TargetUnreachableError
from appliance.domain.addresses import Address
from appliance.domain.exports import IDLE_SECONDS
from appliance.worker import reservations
from appliance.zfs.errors import DatasetBusy, OutOfSpace
from appliance.zfs.model import Property, Source

ESX = "192.0.2.11"


def nfs(appliance: Appliance) -> GaneshaSimulator:
    assert isinstance(appliance.nfs, GaneshaSimulator)
    return appliance.nfs


def served(appliance: Appliance) -> dict[int, ServedExport]:
    return {export.export_id: export for export in appliance.nfs.served()}


def details(appliance: Appliance, store: str) -> Any:
    return appliance.get(f"/datastores/{store}")


def uses(appliance: Appliance, address: str = ESX, *, idle: float = 0, opens: int = 0, exports: bool = True) -> None:
    """A client that has used all exports."""
    fake = nfs(appliance)
    fake.known.append(NfsClient(address, fake.now - idle, opens))
    if exports:
        fake.used = dict.fromkeys(served(appliance), fake.now - idle)


def cluster(appliance: Appliance, name: str = "cluster", address: str = ESX) -> str:
    """A host group with a host of this address."""
    group = appliance.request("POST", "/host-groups", {"name": name}).json
    assert group is not None
    body = {"name": f"host of {name}", "group": group["id"], "iqns": [], "addresses": [address]}
    assert appliance.request("POST", "/hosts", body).status_code == 201
    return str(group["id"])


def everything(appliance: Appliance) -> tuple[Any, ...]:
    """All that a refusal must not change. Running jobs continue meanwhile."""
    jobs = [job["id"] for job in appliance.get("/jobs")["items"]]
    simulator = appliance.simulator
    return simulator.filesystems(), simulator.volumes(), simulator.snapshots(), appliance.nfs.served(), jobs


def refused(appliance: Appliance, method: str, path: str, body: Any = None, status: int = 409) -> Any:
    """The problem, after which nothing has changed."""
    before = everything(appliance)
    answer = appliance.request(method, path, body)
    assert answer.status_code == status, answer.text
    assert everything(appliance) == before
    return answer.json


def test_its_dataset_suits_ganesha_and_has_its_identity(appliance: Appliance) -> None:
    group = cluster(appliance)
    store = appliance.nfs_datastore(
        "first", host_groups=[group], clients=["198.51.100.0/24"], soft_threshold=80, record_size=131072, sync="always"
    )
    (created,) = [filesystem for filesystem in appliance.simulator.filesystems() if "zvaai:uuid" in filesystem.properties]
    local = {name: setting.value for name, setting in created.properties.items() if setting.source == Source.LOCAL}
    assert {name: value for name, value in local.items() if name.startswith("zvaai:")} == {
        "zvaai:uuid": store, "zvaai:guid": str(created.guid), "zvaai:name": "first", "zvaai:export": "1",
        "zvaai:share": "/first", "zvaai:soft_threshold": "80", "zvaai:thick": "off",
    }  # fmt: skip
    natives = {name: created.properties[name].value for name in ("acltype", "xattr", "sync", "compression", "canmount")}
    assert natives == {"acltype": "posix", "xattr": "sa", "sync": "always", "compression": "lz4", "canmount": "on"}
    assert (created.refquota, created.recordsize, created.mounted) == (GIB, 131072, True)
    export = served(appliance)[1]
    assert (export.path, export.pseudo) == (created.mountpoint, "/first")
    assert export.clients == {ESX, "198.51.100.0/24"}
    assert export.text is not None
    others = re.findall(r"^  Access_Type = (.*);$", export.text, re.MULTILINE)
    assert others == ["None"], "whom it does not name it does not admit"
    shown = details(appliance, store)
    assert (shown["kind"], shown["size"], shown["share"], shown["host_groups"]) == ("nfs", str(GIB), "/first", [group])


def test_one_list_has_both_kinds(appliance: Appliance) -> None:
    block, files = appliance.datastore("block"), appliance.nfs_datastore("files")
    assert {datastore["id"]: datastore["kind"] for datastore in appliance.get("/datastores")["items"]} == {
        block: "vmfs",
        files: "nfs",
    }
    assert [datastore["id"] for datastore in appliance.get("/datastores?kind=nfs")["items"]] == [files]
    refused(appliance, "POST", "/datastores", {"kind": "nfs", "name": "BLOCK", "pool": "tank", "size": str(GIB)})


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [("nfs", "lun", 3), ("nfs", "block_size", 65536), ("vmfs", "clients", ["192.0.2.1"]),
     ("vmfs", "record_size", 65536), ("nfs", "clients", ["192.0.2.1/24"]),
     ("nfs", "clients", ["::g"]), ("nfs", "size", str(GIB + 1))],
)  # fmt: skip
def test_fields_of_another_kind_and_invalid_values_are_named(kind: str, field: str, value: Any, appliance: Appliance) -> None:
    body = {"kind": kind, "name": "first", "pool": "tank", "size": str(GIB), field: value}
    problem = refused(appliance, "POST", "/datastores", body, status=422)
    assert problem["errors"][0]["field"].startswith(field)


def test_a_new_name_does_not_change_path_and_export(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    before = served(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"name": "other"})
    assert details(appliance, store)["name"] == "other" and details(appliance, store)["share"] == "/first"
    assert served(appliance) == before
    second = appliance.nfs_datastore("first")
    assert details(appliance, second)["share"] == f"/first-{second[:8]}"


def test_the_quota_grows_and_shrinks_but_not_below_the_used_space(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", 4 * GIB)
    dataset = details(appliance, store)["dataset"]
    appliance.simulator.write(dataset, 2 * GIB)
    problem = refused(appliance, "POST", f"/datastores/{store}/quota", {"size": str(GIB)}, status=422)
    assert problem["errors"][0]["field"] == "size" and str(2 * GIB)[:3] in problem["errors"][0]["allowed"]
    appliance.job("POST", f"/datastores/{store}/quota", {"size": str(3 * GIB)})
    assert appliance.simulator.filesystem(dataset).refquota == 3 * GIB
    assert "set its quota" in refused(appliance, "POST", f"/datastores/{store}/grow", {"size": str(8 * GIB)})["detail"]
    appliance.job("POST", f"/datastores/{store}/quota", {"size": str(8 * GIB)})
    assert details(appliance, store)["size"] == str(8 * GIB)
    block = appliance.datastore("block")
    refused(appliance, "POST", f"/datastores/{block}/quota", {"size": str(2 * GIB)})


def test_a_quota_of_an_unserved_datastore_is_reported(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first")
    job = appliance.job("POST", f"/datastores/{store}/quota", {"size": str(2 * GIB)})
    assert (job["result"]["served"], job["result"]["problem"]) == (True, None)
    appliance.service.context.reconciling.serving.clear()
    job = appliance.job("POST", f"/datastores/{store}/quota", {"size": str(3 * GIB)})
    assert not job["result"]["served"] and "serves it" in job["result"]["problem"]


def test_a_host_that_has_mounted_it_retains_it(appliance: Appliance) -> None:
    group = cluster(appliance)
    store = appliance.nfs_datastore("first", host_groups=[group], clients=["198.51.100.0/24"])
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    uses(appliance)
    for method, path, body in (
        ("DELETE", f"/datastores/{store}", None),
        ("POST", f"/datastores/{store}/snapshots/one/rollback", {}),
        ("PATCH", f"/datastores/{store}", {"host_groups": []}),
        ("PATCH", f"/datastores/{store}", {"host_groups": [], "clients": []}),
        ("POST", "/pools/tank/export", None),
    ):
        problem = refused(appliance, method, path, body)
        assert problem["can_force"] and problem["blocking"] == [f"host of cluster ({ESX})"], problem
    host = appliance.get("/hosts")["items"][0]["id"]
    changes: list[tuple[str, Any]] = [("PATCH", {"addresses": []}), ("PATCH", {"group": None}), ("DELETE", None)]
    for method, body in changes:
        assert appliance.request(method, f"/hosts/{host}", body).status_code == 409
    (client,) = appliance.get("/nfs-clients")["items"]
    assert (client["address"], client["datastores"]) == (ESX, [store])
    appliance.job("PATCH", f"/datastores/{store}", {"clients": ["198.51.100.0/24", "203.0.113.7"]})  # more is not a loss
    appliance.job("DELETE", f"/datastores/{store}?force=true")
    assert served(appliance) == {}


def test_a_client_that_keeps_its_access_is_not_in_the_way(appliance: Appliance) -> None:
    """By the address of its host, or by a network that contains it."""
    group = cluster(appliance)
    path = f"/datastores/{appliance.nfs_datastore('first', host_groups=[group], clients=['192.0.2.0/25'])}"
    uses(appliance)
    lost = {"host_groups": [], "clients": ["192.0.2.12/30"]}  # the network has no 192.0.2.11
    assert refused(appliance, "PATCH", path, lost)["blocking"] == [f"host of cluster ({ESX})"]
    appliance.job("PATCH", path, {"clients": []})
    appliance.job("PATCH", path, {"host_groups": [], "clients": ["192.0.2.0/24", "198.51.100.7"]})
    appliance.job("PATCH", path, {"clients": ["192.0.2.8/29"]})
    assert refused(appliance, "PATCH", path, {"clients": ["192.0.2.12/30"]})["blocking"] == [ESX]


def test_each_permitted_network_counts_while_the_nfs_server_knows_no_client(appliance: Appliance) -> None:
    path = f"/datastores/{appliance.nfs_datastore('first', clients=['192.0.2.0/25', '198.51.100.0/24'])}"
    nfs(appliance).started_at = nfs(appliance).now
    assert refused(appliance, "PATCH", path, {"clients": ["192.0.2.0/26"]})["blocking"] == ["192.0.2.0/25", "198.51.100.0/24"]
    appliance.job("PATCH", path, {"clients": ["192.0.2.0/24", "198.51.100.0/24"]})


def test_the_same_addresses_written_otherwise_take_nothing_away(appliance: Appliance) -> None:
    group = cluster(appliance, address="2001:db8::9")
    store = appliance.nfs_datastore("first", host_groups=[group], clients=["2001:DB8::9/128"])
    uses(appliance, "2001:db8::9")
    appliance.job("PATCH", f"/datastores/{store}", {"clients": ["2001:DB8::9/128"]})
    host = appliance.get("/hosts")["items"][0]["id"]
    assert appliance.request("PATCH", f"/hosts/{host}", {"addresses": ["2001:DB8:0::9"]}).status_code == 200


@pytest.mark.parametrize(
    ("address", "idle", "opens", "exports", "in_use"),
    [(ESX, 0, 0, True, True), (ESX, IDLE_SECONDS, 0, True, False), ("203.0.113.1", 0, 9, True, False),
     (ESX, 0, 0, False, False), (ESX, 0, 1, False, True), (ESX, IDLE_SECONDS, 1, False, False)],
)  # fmt: skip
def test_users_of_a_datastore(address: str, idle: float, opens: int, exports: bool, in_use: bool, appliance: Appliance) -> None:
    """Permitted, seen recently, and either a recent use of the export or open files."""
    store = appliance.nfs_datastore("first", clients=["192.0.2.0/24"])
    uses(appliance, address, idle=idle, opens=opens, exports=exports)
    assert appliance.request("DELETE", f"/datastores/{store}").status_code == (409 if in_use else 202)


def test_a_host_that_mounts_while_a_job_waits_retains_it(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    with appliance.simulator.held_next("create_volume"):
        appliance.request("POST", "/datastores", {"name": "slow", "pool": "tank", "size": str(GIB)})
        waiting = appliance.request("DELETE", f"/datastores/{store}").json
        uses(appliance)
    assert waiting is not None
    job = appliance.ended(waiting["id"])
    assert job["state"] == "failed" and ESX in job["problem"]["text"]
    assert details(appliance, store)["export"] in served(appliance)


def test_deleted_restored_purged(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    before = details(appliance, store)
    appliance.job("DELETE", f"/datastores/{store}")
    deleted = details(appliance, store)
    trashed = appliance.simulator.filesystem(deleted["dataset"])
    assert deleted["state"] == "deleted" and not trashed.mounted and trashed.properties["canmount"].value == "noauto"
    assert served(appliance) == {}
    other = appliance.nfs_datastore("first")
    refused(appliance, "POST", f"/datastores/{store}/restore", {})
    appliance.job("POST", f"/datastores/{store}/restore", {"name": "back", "clients": [ESX]})
    after = details(appliance, store)
    assert after["uuid"] == before["uuid"] and after["guid"] == before["guid"]
    assert after["share"] == "/back", "its own path is another's now"
    assert {export.pseudo for export in appliance.nfs.served()} == {"/first", "/back"}
    assert appliance.simulator.filesystem(after["dataset"]).mounted
    appliance.job("DELETE", f"/datastores/{other}")
    appliance.job("POST", f"/datastores/{other}/purge")
    assert len([filesystem for filesystem in appliance.simulator.filesystems() if "zvaai:uuid" in filesystem.properties]) == 1


@pytest.mark.parametrize("call", ["unmount", "set_properties"])
def test_after_a_failed_delete_it_is_mounted_at_each_boot(
    call: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = details(appliance, appliance.nfs_datastore("first"))["dataset"]
    real = appliance.simulator.unmount

    def unmount(name: str) -> None:
        """It or the next call, which sets the marks, fails."""
        appliance.simulator.fail_next(call, DatasetBusy(dataset))
        real(name)

    monkeypatch.setattr(appliance.simulator, "unmount", unmount)
    appliance.job("DELETE", f"/datastores/{appliance.get('/datastores')['items'][0]['id']}", expect="failed")
    filesystem = appliance.simulator.filesystem(dataset)
    assert filesystem.mounted and filesystem.properties["canmount"].value == "on"


def test_restored_it_has_the_path_and_number_that_hosts_know(appliance: Appliance) -> None:
    appliance.nfs_datastore("first")
    group = appliance.group("cluster")
    store = appliance.nfs_datastore("second", host_groups=[group], clients=[ESX])
    before = details(appliance, store)
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/restore", {})
    after = details(appliance, store)
    seen = [after[name] for name in ("host_groups", "clients")]
    assert seen == [[group], [ESX]]
    assert (after["export"], after["share"]) == (before["export"], before["share"]) == (2, "/second")


def test_both_kinds_in_one_snapshot(appliance: Appliance) -> None:
    stores = [appliance.datastore("block"), appliance.nfs_datastore("files")]
    appliance.job("POST", "/snapshots", {"name": "both", "datastores": stores})
    taken = appliance.simulator.snapshots()
    assert len(taken) == 2 and len({snapshot.createtxg for snapshot in taken}) == 1


def test_a_clone_is_independent(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", 2 * GIB, record_size=131072, clients=[ESX])
    job = appliance.job("POST", f"/datastores/{store}/clone", {"name": "second", "clients": ["192.0.2.12"]})
    clone = details(appliance, job["result"]["datastore"])
    assert clone["origin"] and clone["uuid"] != store and clone["share"] == "/second" and clone["size"] == str(2 * GIB)
    assert clone["block_size"] == 131072
    filesystem = appliance.simulator.filesystem(clone["dataset"])
    assert (
        filesystem.mounted and filesystem.properties["acltype"].value == "posix" and filesystem.properties["xattr"].value == "sa"
    )
    assert served(appliance)[clone["export"]].clients == {"192.0.2.12"}
    appliance.job("DELETE", f"/datastores/{clone['id']}")
    appliance.job("POST", f"/datastores/{clone['id']}/purge")
    assert not appliance.simulator.snapshots(), "the snapshot that was taken for it is gone too"


def test_rollback_takes_it_out_of_service_and_back(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    dataset = details(appliance, store)["dataset"]
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    appliance.simulator.write(dataset, GIB // 4)
    seen: list[tuple[bool, set[int]]] = []
    real = appliance.simulator.rollback

    def rollback(*arguments: Any, **named: Any) -> None:
        seen.append((appliance.simulator.filesystem(dataset).mounted, set(served(appliance))))
        real(*arguments, **named)

    appliance.simulator.rollback = rollback  # type: ignore[method-assign]
    appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {})
    assert seen == [(False, set())], "nobody could use it meanwhile"
    assert appliance.simulator.filesystem(dataset).mounted and 1 in served(appliance)
    assert appliance.simulator.filesystem(dataset).space.referenced < GIB // 4


def test_after_a_failed_rollback_the_datastore_is_served(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    appliance.simulator.fail_next("unmount", DatasetBusy(details(appliance, store)["dataset"], ("qemu",)))
    appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {}, expect="failed")
    appliance.request("POST", "/reconcile")
    assert 1 in served(appliance) and appliance.simulator.filesystem(details(appliance, store)["dataset"]).mounted


def test_a_pool_that_can_not_be_seen_keeps_its_exports(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    before = served(appliance)
    appliance.simulator.export_pool("tank")
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None and answer["differences"] == [] and served(appliance) == before
    missing = details(appliance, store)
    assert (missing["state"], missing["kind"], missing["share"]) == ("missing", "nfs", "/first")
    appliance.simulator.import_pool("tank")
    appliance.request("POST", "/reconcile")
    assert served(appliance) == before and details(appliance, store)["state"] == "active"


def test_a_missing_datastore_is_forgotten(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    appliance.simulator.export_pool("tank")
    uses(appliance)
    refused(appliance, "POST", f"/datastores/{store}/forget")
    appliance.job("POST", f"/datastores/{store}/forget?force=true")
    assert served(appliance) == {}
    with appliance.store.reading() as session:
        assert session.get(ExportRow, store) is None


def test_a_datastore_of_an_imported_pool_has_its_number_and_path(appliance: Appliance) -> None:
    appliance.nfs_datastore("zero")
    store = appliance.nfs_datastore("first", clients=[ESX])
    before = details(appliance, store)
    appliance.job("DELETE", f"/datastores/{appliance.get('/datastores?kind=nfs')['items'][1]['id']}")
    appliance.simulator.export_pool("tank")
    appliance.job("POST", f"/datastores/{store}/forget")
    assert served(appliance) == {}
    appliance.simulator.import_pool("tank")
    appliance.request("POST", "/reconcile")
    after = details(appliance, store)
    assert (after["export"], after["share"]) == (before["export"], before["share"]) == (2, "/first")
    assert served(appliance)[2].clients == frozenset(), "who sees it an admin says"


def test_a_copy_is_not_served_until_it_is_adopted(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    dataset = details(appliance, store)["dataset"]
    appliance.simulator.snapshot([f"{dataset}@s"])
    properties = {"zvaai:uuid": store, "zvaai:guid": details(appliance, store)["guid"], "zvaai:name": "first"}
    appliance.simulator.clone(f"{dataset}@s", "tank/copy", properties={**properties, "mountpoint": "/srv/zvaai/copy"})
    appliance.request("POST", "/reconcile")
    (copy,) = [datastore for datastore in appliance.get("/datastores")["items"] if datastore["dataset"] == "tank/copy"]
    assert copy["state"] == "copy" and set(served(appliance)) == {1}
    body = {"dataset": "tank/copy", "name": "second", "clients": ["192.0.2.12"]}
    refused(appliance, "POST", "/volumes/adopt", {**body, "identity": "keep"})
    job = appliance.job("POST", "/volumes/adopt", body)
    adopted = details(appliance, job["result"]["datastore"])
    assert adopted["state"] == "active" and served(appliance)[adopted["export"]].clients == {"192.0.2.12"}


def test_an_existing_file_system_is_adopted(appliance: Appliance) -> None:
    appliance.simulator.create_filesystem("tank/old", properties={"mountpoint": "/srv/zvaai/old", "acltype": "off"})
    appliance.service.context.scan()
    assert {filesystem["dataset"] for filesystem in appliance.get("/filesystems")["items"]} >= {"tank/old"}
    job = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old", "clients": [ESX]})
    old = appliance.simulator.filesystem("tank/old")
    assert old.mounted and old.properties["acltype"].value == "posix" and old.mountpoint != "/srv/zvaai/old"
    assert details(appliance, job["result"]["datastore"])["size"] == "0", "it has no quota"
    for dataset_of_appliance in ("tank/zvaai", "tank/zvaai-reservations"):
        refused(appliance, "POST", "/volumes/adopt", {"dataset": dataset_of_appliance, "name": "own"}, status=422)
    appliance.simulator.create_filesystem("tank/parent")
    appliance.simulator.create_filesystem("tank/parent/child")
    refused(appliance, "POST", "/volumes/adopt", {"dataset": "tank/parent", "name": "parent"})
    refused(appliance, "POST", "/volumes/adopt", {"dataset": "tank", "name": "whole"}, status=422)


def test_a_failed_adoption_restores_the_file_system(appliance: Appliance) -> None:
    simulator = appliance.simulator
    properties = {"mountpoint": "/srv/zvaai/old", "acltype": "nfsv4", "zvaai:soft_threshold": "70"}
    simulator.create_filesystem("tank/old", properties=properties)
    body = {"dataset": "tank/old", "name": "old", "clients": [ESX]}

    before = simulator.filesystem("tank/old")
    for refusal in (DatasetBusy("tank/old", ("smbd",)), OutOfSpace("tank/old")):
        simulator.fail_next("set_properties", refusal)
        appliance.job("POST", "/volumes/adopt", body, expect="failed")
        assert simulator.filesystem("tank/old") == before and served(appliance) == {}
    with appliance.store.reading() as session:
        assert not session.scalars(select(ExportRow)).all()
    with simulator.opened("tank/old", "smbd"):
        appliance.job("POST", "/volumes/adopt", body, expect="failed")
    assert simulator.filesystem("tank/old") == before


@pytest.mark.parametrize("setting", ["readonly=on", "sharenfs=rw", "sharesmb=on", "quota=1073741824"])
def test_unsuitable_datasets_are_not_adopted(setting: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = appliance.simulator
    name, value = setting.split("=")
    native = {} if "share" in name else {name: value}
    simulator.create_filesystem("tank/old", properties={"mountpoint": "/srv/zvaai/old", **native})
    if not native:
        properties_of = simulator.properties
        shared = {name: Property(value, Source.LOCAL)}
        monkeypatch.setattr(simulator, "properties", lambda dataset: dict(properties_of(dataset)) | shared)
    problem = refused(appliance, "POST", "/volumes/adopt", {"dataset": "tank/old", "name": "old"})
    assert f"zfs set {'refquota' if name == 'quota' else name}=" in problem["detail"]


def test_datastores_of_a_read_only_pool_root_can_be_written(appliance: Appliance) -> None:
    simulator = appliance.simulator
    simulator.set_properties("tank", {"readonly": "on"})
    for store in (appliance.datastore("vmfs"), appliance.nfs_datastore("nfs")):
        appliance.job("POST", f"/datastores/{store}/clone", {"name": f"clone-{store[:8]}"})
    names = [f"tank/{reservations.DATASET}", *(store.dataset for store in appliance.service.context.datastores())]
    assert len(names) == 5
    for name in names:
        assert simulator.properties(name)["readonly"].value == "off", name


def test_a_hidden_file_system_is_not_adopted(appliance: Appliance) -> None:
    """Unmounting it would unmount the other one."""
    appliance.simulator.create_filesystem("tank/old", properties={"mountpoint": "/srv/zvaai/old"})
    context = appliance.service.context
    context.topmost = lambda _path: "tank/original"
    body = {"dataset": "tank/old", "name": "old"}
    assert "tank/original" in refused(appliance, "POST", "/volumes/adopt", body)["detail"]
    context.topmost = lambda _path: "tank/old"
    appliance.job("POST", "/volumes/adopt", body)


def test_drift_is_seen_and_mended(appliance: Appliance) -> None:
    appliance.nfs_datastore("first", clients=[ESX])
    before = served(appliance)
    export = Export(1, path=Path(before[1].path), pseudo="/first", clients=["*"])
    appliance.nfs.change(export)
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None and "other clients" in answer["differences"][0] and served(appliance) == before
    appliance.nfs.remove(1)
    appliance.nfs.add(Export(1, path=export.path, pseudo="/stolen"))
    appliance.nfs.add(Export(7, path=Path("/srv/zvaai/x"), pseudo="/x", clients=["*"]))
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None and len(answer["differences"]) == 3 and served(appliance) == before
    assert appliance.request("POST", "/reconcile").json == {"differences": [], "failures": []}


def test_unmounted_file_systems_are_not_exported(appliance: Appliance) -> None:
    """The mountpoint of an unmounted file system is a folder of another file system."""
    store = appliance.nfs_datastore("first", clients=[ESX])
    dataset = details(appliance, store)["dataset"]
    appliance.nfs.remove(1)
    appliance.simulator.unmount(dataset)
    appliance.simulator.fail_next("mount", DatasetBusy(dataset), times=1)
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None and answer["failures"][0]["subject"] == store and served(appliance) == {}
    appliance.request("POST", "/reconcile")
    assert 1 in served(appliance) and appliance.simulator.filesystem(dataset).mounted


def test_without_an_nfs_server_luns_are_served_and_the_other_way_round(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> Any:
        raise GaneshaUnreachableError("it is not on the bus")

    monkeypatch.setattr(appliance.nfs, "served", gone)
    appliance.datastore("block")  # without an NFS datastore, no NFS server is needed
    assert appliance.request("POST", "/reconcile").status_code == 200
    job = appliance.job("POST", "/datastores", {"kind": "nfs", "name": "files", "pool": "tank", "size": str(GIB)})
    assert job["result"]["served"] is False and "bus" in job["result"]["problem"]
    block = appliance.datastore("more")
    assert appliance.ended(appliance.get("/jobs")["items"][0]["id"])["result"]["served"] is True, "its LUN is"
    appliance.job("DELETE", f"/datastores/{block}")
    appliance.job("POST", f"/datastores/{block}/restore", {})
    keys = {alert["key"] for alert in appliance.get("/alerts")["items"]}
    assert "unavailable:nfs" in keys and "unavailable:reconcile" not in keys
    assert len([lun for target in appliance.target.targets() for lun in target.luns]) == 2
    assert appliance.request("POST", "/reconcile").status_code == 503
    monkeypatch.undo()
    appliance.request("POST", "/reconcile")
    assert [export.pseudo for export in appliance.nfs.served()] == ["/files"]


def test_only_the_serving_daemon_is_queried(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the other daemon stopped nothing is refused; nor with both stopped by force, if nothing needs to be done."""
    group = cluster(appliance)
    first = appliance.nfs_datastore("first", host_groups=[group])
    appliance.nfs_datastore("second", host_groups=[group])
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [first]})
    host = appliance.get("/hosts")["items"][0]["id"]
    assert appliance.request("POST", "/configuration/recovery-key").status_code == 200
    file = {"file": json.dumps(appliance.request("POST", "/configuration/backup", {"password": PASSWORD}).json)}

    def no_target(*_: Any) -> Any:
        raise TargetUnreachableError("no target")

    def no_ganesha(*_: Any) -> Any:
        raise GaneshaUnreachableError("no ganesha")

    with monkeypatch.context() as patch:
        for name in ("targets", "sessions", "host_groups", "status"):
            patch.setattr(appliance.target, name, no_target)
        appliance.job("POST", f"/datastores/{first}/snapshots/one/rollback", {})
        appliance.job("DELETE", f"/datastores/{first}")
        assert appliance.request("PATCH", f"/hosts/{host}", {"addresses": ["192.0.2.12"]}).status_code == 200
        assert appliance.request("POST", "/recovery", file).status_code == 200
    block = appliance.datastore("block", host_groups=[appliance.group("others", "iqn.1998-01.com.vmware:esx1")])
    other = next(host["id"] for host in appliance.get("/hosts")["items"] if host["iqns"])
    with monkeypatch.context() as patch:
        for name in ("served", "clients"):
            patch.setattr(appliance.nfs, name, no_ganesha)
        assert appliance.request("PATCH", f"/hosts/{host}", {"addresses": []}).status_code == 503, "it may be using it"
        assert appliance.request("PATCH", f"/hosts/{host}", {"addresses": [], "force": True}).status_code == 200
        assert appliance.request("DELETE", f"/hosts/{other}").status_code == 200
        assert appliance.request("POST", "/recovery", file | {"force": True}).status_code == 200
        appliance.job("DELETE", f"/datastores/{block}")


def test_a_refused_export_is_reported(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ExportRefusedError("no such path")

    monkeypatch.setattr(appliance.nfs, "add", refuse)
    job = appliance.job("POST", "/datastores", {"kind": "nfs", "name": "files", "pool": "tank", "size": str(GIB)})
    assert job["result"]["served"] is False and "no such path" in job["result"]["problem"]
    store = job["result"]["datastore"]
    assert f"reconcile-nfs:{store}" in {alert["key"] for alert in appliance.get("/alerts")["items"]}
    monkeypatch.undo()
    appliance.request("POST", "/reconcile")
    assert appliance.get("/alerts")["items"] == []


def test_a_copy_that_is_mounted_over_it_is_not_exported_for_it(appliance: Appliance) -> None:
    """A received copy has the mountpoint of its source, and OpenZFS mounts it over the source."""
    store = appliance.nfs_datastore("first", clients=[ESX])
    dataset = details(appliance, store)["dataset"]
    before = served(appliance)
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    context = appliance.service.context
    context.topmost = lambda _path: "tank/received"
    for method, path in (("DELETE", f"/datastores/{store}"), ("POST", f"/datastores/{store}/snapshots/one/rollback")):
        job = appliance.job(method, path, {} if method == "POST" else None, expect="failed")
        assert "tank/received" in job["problem"]["text"] and appliance.simulator.filesystem(dataset).mounted
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None and answer["failures"][0]["subject"] == store
    assert served(appliance) == {}, "what a job took away is not given back at another's place"
    context.topmost = lambda _path: dataset
    appliance.request("POST", "/reconcile")
    assert served(appliance) == before


def test_a_copy_that_hides_a_datastore_is_unmounted_by_the_helper(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like the root helper before it mounts a datastore; a copy in use is reported."""
    store, other = appliance.nfs_datastore("first", clients=[ESX]), appliance.nfs_datastore("second", clients=[ESX])
    before, context = served(appliance), appliance.service.context
    datasets = {datastore.dataset: datastore.path for datastore in context.datastores()}
    hidden = {
        datasets[details(appliance, identifier)["dataset"]]: copy
        for identifier, copy in ((store, "rust/first"), (other, "rust/second"))
    }
    context.topmost = lambda path: hidden.get(path) or next(name for name, place in datasets.items() if place == path)

    def mount(name: str) -> None:
        if hidden[datasets[name]] == "rust/second":
            raise DatasetBusy("rust/second", ("tar (process 7)",))
        del hidden[datasets[name]]

    monkeypatch.setattr(appliance.simulator, "mount", mount)
    answer = appliance.request("POST", "/reconcile").json
    assert answer is not None
    (failure,) = answer["failures"]
    assert failure["subject"] == other and "rust/second" in failure["text"] and "tar" in failure["text"]
    assert served(appliance) == before, "hosts keep what they have"


def test_an_export_that_can_not_be_written_ends_nothing_else(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"kind": "nfs", "name": "first", "pool": "tank", "size": str(GIB), "clients": ["fe80::1%eth0"]}
    refused(appliance, "POST", "/datastores", body, status=422)
    assert appliance.request("POST", "/hosts", {"name": "h", "iqns": [], "addresses": ["fe80::1%eth0"]}).status_code == 422

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(appliance.nfs, "add", full)
    files, block = appliance.nfs_datastore("files"), appliance.datastore("block")
    assert details(appliance, block)["state"] == "active"
    alerts = {alert["subject"]: alert["text"] for alert in appliance.get("/alerts")["items"]}
    assert "No space left" in alerts[files] and block not in alerts
    monkeypatch.undo()
    appliance.request("POST", "/reconcile")
    assert [export.pseudo for export in appliance.nfs.served()] == ["/files"]


def test_a_daemon_that_just_started_knows_no_clients(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ESX])
    nfs(appliance).started_at = nfs(appliance).now - 1
    assert refused(appliance, "DELETE", f"/datastores/{store}")["blocking"] == [ESX]
    nfs(appliance).started_at = 0
    appliance.job("DELETE", f"/datastores/{store}")


def test_then_hosts_that_may_are_not_changed_either(appliance: Appliance) -> None:
    group = cluster(appliance)
    store = appliance.nfs_datastore("first", host_groups=[group])
    host = appliance.get("/hosts")["items"][0]["id"]
    nfs(appliance).started_at = nfs(appliance).now - 1
    changes: list[tuple[str, Any]] = [("PATCH", {"addresses": []}), ("PATCH", {"group": None}), ("DELETE", None)]
    for method, body in changes:
        assert appliance.request(method, f"/hosts/{host}", body).status_code == 409
    assert served(appliance)[details(appliance, store)["export"]].clients == {ESX}
    nfs(appliance).started_at = 0
    assert appliance.request("PATCH", f"/hosts/{host}", {"group": None}).status_code == 200


def test_ganesha_is_queried_once_for_all_of_them(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [appliance.nfs_datastore(f"store{number}", clients=[ESX]) for number in range(3)]
    uses(appliance)
    real, queries = appliance.nfs.served, []

    def counted() -> list[ServedExport]:
        queries.append(1)
        return real()

    with appliance.service.context.reconciling.lock:  # which queries too
        monkeypatch.setattr(appliance.nfs, "served", counted)
        (client,) = appliance.get("/nfs-clients")["items"]
        assert client["datastores"] == sorted(stores) and len(queries) == 1
    monkeypatch.undo()


def test_readiness_of_nfs(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(store: str) -> dict[str, str]:
        return {
            check["id"]: check["result"] for check in appliance.get("/readiness")["checks"] if check["subject"] in ("", store)
        }

    assert not {"nfs", "vaai_nas"} & results("").keys(), "who has no NFS datastore needs no NFS server"
    addresses = [Address("eth0", "203.0.113.1"), Address("eth1", "192.0.2.1")]
    monkeypatch.setattr("appliance.api.appliance_resource.local_addresses", lambda: addresses)
    store = appliance.nfs_datastore("first", host_groups=[cluster(appliance)])
    assert results(store).items() >= {"nfs": "ok", "exported": "ok", "clients": "ok"}.items()
    assert not {"served", "initiator"} & results(store).keys(), results(store)
    (line,) = [check["remedy"] for check in appliance.get("/readiness")["checks"] if check["id"] == "clients"]
    assert line == "esxcli storage nfs add -H 192.0.2.1 -s /first -v first; esxcli storage nfs list"
    appliance.job("PATCH", f"/datastores/{store}", {"host_groups": []})
    assert results(store)["clients"] == "warning"
    appliance.nfs.remove(1)
    assert results(store)["exported"] == "failed"

    def gone() -> Any:
        raise GaneshaUnreachableError("it is not on the bus")

    monkeypatch.setattr(appliance.nfs, "served", gone)
    assert results(store).items() >= {"nfs": "failed", "exported": "unknown"}.items()
