# SPDX-License-Identifier: Apache-2.0
"""A copy in the place of a lost datastore: under its name, with its identity, and not served before it is adopted."""

from __future__ import annotations

from typing import Any

import pytest
from simulators.appliance import Appliance
from simulators.target import TargetSimulator

from appliance.dataplane.target import ServedLun
from appliance.domain import datastores
from appliance.zfs.model import Filesystem, Volume

ESX = "iqn.1998-01.com.vmware:esx1"
ADDRESS = "192.0.2.11"


def luns(appliance: Appliance) -> list[ServedLun]:
    return [lun for target in appliance.target.targets() for lun in target.luns]


def alerts(appliance: Appliance) -> dict[str, Any]:
    """Alerts about served datastores, by subject. Those about capacity follow at any time."""
    appliance.request("POST", "/reconcile")
    return {alert["subject"]: alert for alert in appliance.get("/alerts")["items"] if not alert["key"].startswith("capacity:")}


def properties_of(dataset: Volume | Filesystem) -> dict[str, str]:
    return {name: setting.value for name, setting in dataset.properties.items() if name.startswith("zvaai:")}


def lost_volume(appliance: Appliance) -> tuple[Volume, Volume]:
    """The lost volume of the only datastore, and a copy under its name; the target was restarted."""
    (lost,) = appliance.simulator.volumes()
    appliance.simulator.destroy(lost.name)
    copy = appliance.simulator.create_volume(lost.name, lost.volsize, properties=properties_of(lost))
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.guid_at = lambda _path: copy.guid
    appliance.target.restart()
    return lost, copy


def test_a_copy_under_the_name_of_a_lun_is_not_served_until_it_is_adopted(appliance: Appliance) -> None:
    store = appliance.datastore("first", host_groups=[appliance.group("cluster", ESX)])
    (lun,) = luns(appliance)
    lost, copy = lost_volume(appliance)
    assert lun.lun.guid == lost.guid and copy.guid != lost.guid
    response = alerts(appliance)[store]
    assert response["severity"] == "critical" and "--keep-identity" in response["remedy"]
    assert {str(lost.guid), str(copy.guid)} <= {word.strip("():;,.") for word in response["text"].split()}, response["text"]
    # Its place is retained until it returns.
    (stored,) = luns(appliance)
    assert (stored.state, stored.lun.guid, stored.dataset_guid) == ("failed", lost.guid, copy.guid)
    assert "active" not in {datastore["state"] for datastore in appliance.get("/datastores")["items"]}
    appliance.job("POST", "/volumes/adopt", {"dataset": copy.name, "name": "first", "identity": "keep"})
    (adopted,) = luns(appliance)
    assert (adopted.state, adopted.lun.uuid, adopted.lun.guid) == ("serving", store, copy.guid)
    assert alerts(appliance) == {}
    appliance.service.scheduler.request()
    appliance.wait_until_idle()
    assert appliance.get("/alerts")["items"] == []


def test_a_lun_of_before_guids_is_taken_off_a_copy(appliance: Appliance) -> None:
    """A target without a GUID check would serve it."""
    appliance.service.context.on_files = True
    store = appliance.datastore("first")
    assert [lun.lun.guid for lun in luns(appliance)] == [None]
    lost_volume(appliance)
    assert store in alerts(appliance) and luns(appliance) == []


def test_an_adopted_copy_of_a_deleted_datastore_is_active(appliance: Appliance) -> None:
    appliance.datastore("first", soft_threshold=80)
    (original,) = appliance.simulator.volumes()
    copied = {**properties_of(original), "zvaai:deleted": "1"}
    appliance.simulator.create_volume("tank/copy", original.volsize, properties=copied)
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/copy", "name": "second", "identity": "new"})
    stores = {store["name"]: (store["state"], store["soft_threshold"]) for store in appliance.get("/datastores")["items"]}
    assert stores == {"first": ("active", 80), "second": ("active", None)}


def test_a_replica_is_not_a_problem(appliance: Appliance) -> None:
    """Replicas of datastores that were never presented to hosts here."""
    store = appliance.datastore("first")
    lost_volume(appliance)
    assert store in alerts(appliance)
    with appliance.store.session() as session:
        datastores.forget(session, store)
    assert alerts(appliance) == {}


def test_a_copy_at_the_path_of_an_export_is_not_exported_until_it_is_adopted(appliance: Appliance) -> None:
    store = appliance.nfs_datastore("first", clients=[ADDRESS])
    lost = appliance.simulator.filesystem(appliance.get(f"/datastores/{store}")["dataset"])
    (export,) = appliance.nfs.served()
    assert export.text is not None and f"# guid {lost.guid}\n" in export.text
    appliance.simulator.unmount(lost.name)
    appliance.simulator.destroy(lost.name)
    # Its pool may only be away: hosts keep their handles.
    alerts(appliance)
    assert appliance.nfs.served() == [export]
    place = {"mountpoint": str(lost.mountpoint), "canmount": "on"}
    copy = appliance.simulator.create_filesystem(lost.name, properties={**properties_of(lost), **place})
    assert copy.mounted
    response = alerts(appliance)[store]
    assert str(copy.guid) in response["text"] and str(lost.guid) in response["text"] and "--keep-identity" in response["remedy"]
    assert appliance.nfs.served() == []
    body = {"dataset": copy.name, "name": "first", "identity": "keep", "clients": [ADDRESS]}
    appliance.job("POST", "/volumes/adopt", body)
    (export,) = appliance.nfs.served()
    assert export.text is not None and f"# guid {copy.guid}\n" in export.text
    assert alerts(appliance) == {}


@pytest.mark.parametrize("damage", ["another name", "no name", "no GUID"])
def test_a_damaged_property_takes_nothing_from_hosts(damage: str, appliance: Appliance) -> None:
    """It can be the original: no remedy requests its destruction."""
    appliance.service.context.on_files = True  # a target without a GUID check
    block = appliance.datastore("block", host_groups=[appliance.group("cluster", ESX)])
    files = appliance.nfs_datastore("files", clients=[ADDRESS])
    datasets = [appliance.get(f"/datastores/{store}")["dataset"] for store in (block, files)]
    before = appliance.target.targets(), appliance.nfs.served()
    for dataset in datasets:
        if damage == "another name":
            appliance.simulator.set_properties(dataset, {"zvaai:name": "prod store"})
        else:
            appliance.simulator.inherit_property(dataset, "zvaai:name" if damage == "no name" else "zvaai:guid")
    alerts(appliance)
    appliance.service.periodic.capacity()
    assert (appliance.target.targets(), appliance.nfs.served()) == before
    response = appliance.get("/alerts")["items"]
    assert {block, files, *datasets} <= {alert["subject"] for alert in response if "--keep-identity" in alert["remedy"]}
    assert not [alert for alert in response if "destroy" in alert["remedy"] or "is not served" in alert["text"]]
    checks = [check for check in appliance.get("/readiness")["checks"] if check["id"] == "copy"]
    assert len(checks) == 2 and "destroy" not in str([check["remedy"] for check in checks])


def problems(appliance: Appliance) -> dict[str, str]:
    """Remedies of the alerts and checks about copies, by dataset."""
    alerts(appliance)
    appliance.service.periodic.capacity()
    raised = {alert["subject"]: alert["remedy"] for alert in appliance.get("/alerts")["items"] if "capacity:copy" in alert["key"]}
    checks = appliance.get("/readiness")["checks"]
    assert raised == {check["subject"]: check["remedy"] for check in checks if check["id"] == "copy"}
    return raised


@pytest.mark.parametrize("by", ["zfs send -p", "syncoid"])
def test_a_replica_is_a_problem_only_if_its_original_is_missing(by: str, appliance: Appliance) -> None:
    store = appliance.datastore("first")
    (volume,) = appliance.simulator.volumes()
    if by == "syncoid":
        appliance.simulator.create_volume("tank/replica", volume.volsize, properties=properties_of(volume))
    else:
        appliance.simulator.snapshot([f"{volume.name}@sent"])
        appliance.simulator.receive(f"{volume.name}@sent", "tank/replica")
    assert problems(appliance) == {}
    assert sorted(listed["state"] for listed in appliance.get("/datastores")["items"]) == ["active", "copy"]
    appliance.simulator.destroy(volume.name, with_snapshots=True)
    assert "--keep-identity" in problems(appliance)["tank/replica"]
    appliance.job("POST", f"/datastores/{store}/forget")
    assert problems(appliance) == {}, "as on a standby server"


def test_a_copy_without_a_guid_next_to_its_original_can_become_another_datastore(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    appliance.simulator.create_volume("tank/copy", 1 << 30, properties={"zvaai:uuid": store})
    assert problems(appliance) == {"tank/copy": "zvaai datastore adopt tank/copy NAME --group GROUP"}
