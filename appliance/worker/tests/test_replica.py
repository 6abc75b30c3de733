# SPDX-License-Identifier: Apache-2.0
"""A replica on another pool replaces a lost datastore: with its number, path and hosts."""

from __future__ import annotations

from typing import Any

import pytest
from simulators.appliance import GIB, Appliance

from appliance.domain.capacity import COPY_REMEDY
from appliance.domain.errors import ConflictError
from appliance.domain.pool_health import LOST
from appliance.domain.requests import AdoptionCreate, ForgetDatastore
from appliance.worker.adoption import OPERATIONS
from appliance.worker.tests.test_datastores import log_in
from appliance.worker.tests.test_nfs_datastores import ESX, cluster, uses
from appliance.worker.trash_operations import Forget
from appliance.zfs.errors import OutOfSpace
from appliance.zfs.model import Redundancy, VdevSpec

IQN = "iqn.1998-01.com.vmware:esx1"


def lost(appliance: Appliance, kind: str, *, suspended: bool = False) -> tuple[str, Any]:
    """A datastore whose pool is missing or `suspended`, and of which the pool `rust` has a received copy; returns its earlier API
    data too.
    """
    simulator = appliance.simulator
    if kind == "vmfs":
        store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
        dataset: Any = simulator.volumes()[0]
    else:
        appliance.nfs_datastore("other")
        body: dict[str, Any] = {
            "host_groups": [cluster(appliance)],
            "clients": ["198.51.100.0/24"],
        }
        store = appliance.nfs_datastore("first", **body)
        (dataset,) = [filesystem for filesystem in simulator.filesystems() if filesystem.name.startswith("tank/zvaai/first")]
    before = appliance.get(f"/datastores/{store}")
    disks = tuple(disk.path for disk in simulator.disks() if disk.used_by is None)[:2]
    simulator.create_pool("rust", [VdevSpec(devices=disks, redundancy=Redundancy.MIRROR)])
    properties = {name: setting.value for name, setting in dataset.properties.items() if name.startswith("zvaai:")}
    if kind == "vmfs":
        simulator.create_volume("rust/received", GIB, properties=properties)
    else:
        simulator.create_filesystem(
            "rust/received", properties={**properties, "mountpoint": dataset.mountpoint, "canmount": "noauto"}
        )
    if suspended:
        simulator.suspend("tank")
    else:
        simulator.export_pool("tank")
    assert appliance.request("POST", "/reconcile").status_code == 200
    return store, before


def shown(details: Any) -> Any:
    return {name: details[name] for name in ("lun", "export", "share", "host_groups", "clients")}


def serves(appliance: Appliance) -> tuple[Any, Any]:
    luns = {lun.lun.number: (lun.lun.uuid, lun.lun.initiators) for target in appliance.target.targets() for lun in target.luns}
    return luns, {export.export_id: (export.pseudo, export.clients) for export in appliance.nfs.served()}


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_replica_replaces_the_lost_datastore(kind: str, appliance: Appliance) -> None:
    store, before = lost(appliance, kind)
    served = serves(appliance)
    states = {
        datastore["state"]: datastore["id"]
        for datastore in appliance.get("/datastores")["items"]
        if datastore["share"] != "/other"
    }
    assert states["missing"] == store and states["copy"].startswith("copy-")
    keep = {"dataset": "rust/received", "name": "first", "identity": "keep"}
    appliance.simulator.fail_next("set_properties", OutOfSpace("rust/received"))
    appliance.job("POST", "/volumes/adopt", keep, expect="failed")
    assert shown(appliance.get(f"/datastores/{store}")) == shown(before), "nothing is forgotten by an adoption that fails"
    appliance.job("POST", "/volumes/adopt", keep)
    after = appliance.get(f"/datastores/{store}")
    assert after["state"] == "active" and after["dataset"] == "rust/received" and shown(after) == shown(before)
    assert serves(appliance) == served, "under the number and path, to the hosts"
    assert store in appliance.service.context.reconciling.serving


def use(appliance: Appliance, kind: str) -> None:
    """A host uses the datastore."""
    if kind == "vmfs":
        log_in(appliance, IQN)
    else:
        uses(appliance)


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_replica_does_not_replace_a_datastore_in_use_unless_forced(kind: str, appliance: Appliance) -> None:
    """Its pool is only suspended: hosts have its LUN or export, and data in their caches."""
    store, before = lost(appliance, kind, suspended=True)
    served = serves(appliance)
    use(appliance, kind)
    keep = {"dataset": "rust/received", "name": "first", "identity": "keep"}
    answer = appliance.request("POST", "/volumes/adopt", keep)
    assert answer.status_code == 409 and answer.json is not None
    assert answer.json["can_force"] and "their cached data does not match the copy" in answer.json["detail"]
    assert answer.json["blocking"] == [f"host of cluster ({IQN if kind == 'vmfs' else ESX})"]
    assert serves(appliance) == served and "zvaai:uuid" in appliance.simulator.properties("rust/received")
    appliance.job("POST", "/volumes/adopt", {**keep, "force": True})
    after = appliance.get(f"/datastores/{store}")
    assert after["state"] == "active" and after["dataset"] == "rust/received" and shown(after) == shown(before)


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_an_adoption_fails_if_a_host_uses_the_original_by_then(kind: str, appliance: Appliance) -> None:
    store, _ = lost(appliance, kind, suspended=True)
    served = serves(appliance)
    context, adopt = appliance.service.context, OPERATIONS["datastore.adopt"]
    plan = adopt.plan(context, AdoptionCreate(dataset="rust/received", name="first", identity="keep"))
    use(appliance, kind)
    with pytest.raises(ConflictError, match="hosts"):
        adopt.run(context, plan, "", lambda _step, _percent: None)
    assert serves(appliance) == served and appliance.get(f"/datastores/{store}")["state"] == "missing"


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_an_adoption_that_is_resumed_is_done_although_hosts_use_the_replica(kind: str, appliance: Appliance) -> None:
    store, _ = lost(appliance, kind)
    context, adopt = appliance.service.context, OPERATIONS["datastore.adopt"]
    plan = adopt.plan(context, AdoptionCreate(dataset="rust/received", name="first", identity="keep"))
    adopt.run(context, plan, "", lambda _step, _percent: None)
    use(appliance, kind)
    adopt.run(context, plan, "", lambda _step, _percent: None)
    assert appliance.get(f"/datastores/{store}")["state"] == "active"


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_no_alert_advises_the_adoption_while_the_original_can_be_in_a_suspended_pool(kind: str, appliance: Appliance) -> None:
    store, _ = lost(appliance, kind, suspended=True)

    def remedies() -> set[str]:
        assert appliance.request("POST", "/reconcile").status_code == 200
        appliance.service.periodic.capacity()
        about = (f"reconcile:{store}", f"reconcile-nfs:{store}", "capacity:copy:rust/received")
        checks = [check["remedy"] for check in appliance.get("/readiness")["checks"] if check["id"] == "copy"]
        raised = [alert["remedy"] for alert in appliance.get("/alerts")["items"] if alert["key"] in about]
        assert len(raised) == 2 and len(checks) == 1, appliance.get("/alerts")
        return {*raised, *checks}

    assert remedies() == {f"Pool tank cannot be read, and can have the original. {LOST}"}
    appliance.simulator.clear("tank")
    appliance.simulator.export_pool("tank")
    assert remedies() == {COPY_REMEDY}


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_replica_without_properties_gets_the_identity_by_hand(kind: str, appliance: Appliance) -> None:
    """`zfs send` without -p; also the defaults of syncoid and zrepl."""
    store, before = lost(appliance, kind)
    served = serves(appliance)
    for name in appliance.simulator.properties("rust/received"):
        if name.startswith("zvaai:"):
            appliance.simulator.inherit_property("rust/received", name)
    keep = {"dataset": "rust/received", "name": "first", "identity": "keep"}
    problem = appliance.request("POST", "/volumes/adopt", keep).json
    assert problem is not None and "zfs set zvaai:uuid=UUID rust/received" in str(problem["errors"])
    assert store in [missing["uuid"] for missing in appliance.get("/datastores?state=missing")["items"]]
    appliance.simulator.set_properties("rust/received", {"zvaai:uuid": store})
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert serves(appliance) == served, "not served by this"
    appliance.job("POST", "/volumes/adopt", keep)
    after = appliance.get(f"/datastores/{store}")
    assert after["state"] == "active" and after["dataset"] == "rust/received" and shown(after) == shown(before)
    assert serves(appliance) == served
    assert store in appliance.service.context.reconciling.serving


def test_on_another_server_it_has_the_number_that_lies_with_its_data(appliance: Appliance) -> None:
    """There no database knows who saw it."""
    store, _ = lost(appliance, "nfs")
    appliance.job("POST", f"/datastores/{store}/forget?force=true")
    keep = {"dataset": "rust/received", "name": "first", "identity": "keep", "clients": ["192.0.2.9"]}
    appliance.job("POST", "/volumes/adopt", keep)
    after = appliance.get(f"/datastores/{store}")
    assert (after["export"], after["share"], after["host_groups"], after["clients"]) == (2, "/first", [], ["192.0.2.9"])


def test_a_requested_adoption_is_done(appliance: Appliance) -> None:
    store, _ = lost(appliance, "vmfs")
    keep = {"dataset": "rust/received", "name": "first", "identity": "keep", "lun": 9, "host_groups": []}
    appliance.job("POST", "/volumes/adopt", keep)
    after = appliance.get(f"/datastores/{store}")
    assert (after["lun"], after["host_groups"]) == (9, [])
    assert serves(appliance)[0] == {9: (store, ())}


def test_a_lost_datastore_is_reported_and_forgotten_next_to_its_copy(appliance: Appliance) -> None:
    store, _ = lost(appliance, "vmfs")
    appliance.service.periodic.capacity()
    assert f"capacity:missing:{store}" in {alert["key"] for alert in appliance.get("/alerts")["items"]}
    appliance.job("POST", f"/datastores/{store}/forget")
    assert [datastore["state"] for datastore in appliance.get("/datastores")["items"]] == ["copy"] and serves(appliance)[0] == {}


def test_an_adoption_checks_again_when_it_runs(appliance: Appliance) -> None:
    """The original has returned after the request."""
    store, _ = lost(appliance, "vmfs")
    context, adopt = appliance.service.context, OPERATIONS["datastore.adopt"]
    plan = adopt.plan(context, AdoptionCreate(dataset="rust/received", name="first", identity="keep"))
    appliance.simulator.import_pool("tank")
    with pytest.raises(ConflictError, match="claims this identity"):
        adopt.run(context, plan, "", lambda _step, _percent: None)
    assert appliance.get(f"/datastores/{store}")["dataset"].startswith("tank/")


def test_a_lost_datastore_that_returns_is_not_forgotten(appliance: Appliance) -> None:
    """Its pool was imported after the request."""
    store, before = lost(appliance, "vmfs")
    context, forget = appliance.service.context, Forget()
    plan = forget.plan(context, ForgetDatastore().of(id=store))
    appliance.simulator.import_pool("tank")
    with pytest.raises(ConflictError, match="not missing any more"):
        forget.run(context, plan, "", lambda _step, _percent: None)
    assert shown(appliance.get(f"/datastores/{store}")) == shown(before)


def test_the_lost_datastore_that_returns_does_not_take_the_lun_back(appliance: Appliance) -> None:
    """Not even while the pool of the replica is away: hosts would read the data of before."""
    store, _ = lost(appliance, "vmfs")
    keep = {"dataset": "rust/received", "name": "first", "identity": "keep"}
    appliance.job("POST", "/volumes/adopt", keep)
    replica = appliance.simulator.volume("rust/received")

    def served() -> list[tuple[str, int | None]]:
        assert appliance.request("POST", "/reconcile").status_code == 200
        return [(lun.lun.uuid, lun.lun.guid) for target in appliance.target.targets() for lun in target.luns]

    assert served() == [(store, replica.guid)]
    appliance.simulator.import_pool("tank")
    assert served() == [(store, replica.guid)], "two claim the identity: the one that hosts use stays"
    as_new = {"dataset": "rust/received", "name": "other", "identity": "new"}
    problem = appliance.request("POST", "/volumes/adopt", as_new).json
    assert problem is not None and "hosts use it as LUN 7" in problem["detail"]
    appliance.simulator.export_pool("rust")
    assert served() == [(store, replica.guid)]
    (failure,) = [alert for alert in appliance.get("/alerts")["items"] if "hosts have written to another volume" in alert["text"]]
    assert "--keep-identity" in failure["remedy"]
    # The admin gives the replica up.
    original = appliance.get(f"/datastores/{store}")
    appliance.job("POST", "/volumes/adopt", {**keep, "dataset": original["dataset"]})
    assert served() == [(store, appliance.simulator.volume(original["dataset"]).guid)]
