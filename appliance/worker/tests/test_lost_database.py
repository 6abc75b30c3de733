# SPDX-License-Identifier: Apache-2.0
"""A database that is lost, or older than the pools: hosts keep what target and NFS server still show them."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from sqlalchemy import delete

from appliance.database.models import Export, ExportGroup, Host, HostGroup, Presentation, PresentationGroup
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.target import LoggedIn, TargetUnreachableError
from appliance.dataplane.target_simulator import TargetSimulator
from appliance.domain import backup, kept_initiators
from appliance.testing import GIB, Appliance
from appliance.worker.tests.test_nfs_datastores import ESX, cluster, nfs, served, told
from appliance.zfs.model import Redundancy, VdevSpec

IQN = "iqn.1998-01.com.vmware:esx1"
NETWORK = "198.51.100.0/24"


def exported(appliance: Appliance) -> tuple[str, Any]:
    """A datastore for a host group and a network; and what is exported then."""
    asked: dict[str, Any] = {"clients": [NETWORK], "versions": ["3"], "squash": "root", "host_groups": [cluster(appliance)]}
    store = appliance.nfs_datastore("first", **asked)
    return store, served(appliance)


def lose(appliance: Appliance, *older: Presentation) -> None:
    """All that the database knows of hosts and exports, between two rounds; but for what an older one has."""
    with appliance.service.context.reconciling.lock, appliance.store.session() as session:
        for table in (ExportGroup, Export, PresentationGroup, Presentation, Host, HostGroup):
            session.execute(delete(table))
        session.add_all(older)


def alerts(appliance: Appliance) -> dict[str, str]:
    return {one["subject"]: one["text"] for one in appliance.get("/alerts")["items"]}


def reconcile(appliance: Appliance) -> Any:
    answer = appliance.request("POST", "/reconcile")
    assert answer.status_code == 200
    return answer.json


def test_who_mounts_it_keeps_it_until_somebody_says_who_may(appliance: Appliance) -> None:
    store, before = exported(appliance)
    lose(appliance)
    assert reconcile(appliance)["differences"] == [] and served(appliance) == before
    after = told(appliance, store)
    assert (after["clients"], after["versions"], after["squash"]) == ([ESX, NETWORK], ["3"], "root")
    assert ESX in alerts(appliance)[store]
    reconcile(appliance)
    assert store in alerts(appliance), "it stays"
    appliance.job("PATCH", f"/datastores/{store}", {"name": "renamed"})
    assert store in alerts(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"clients": [ESX]})
    assert alerts(appliance) == {}


def test_who_sees_its_lun_keeps_it_until_somebody_says_who_does(appliance: Appliance) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    iqns = ("iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2")
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", *iqns)])
    before = appliance.target.targets()
    lose(appliance)
    assert reconcile(appliance)["differences"] == [] and appliance.target.targets() == before
    assert iqns[0] in alerts(appliance)[store] and told(appliance, store)["lun"] == 7
    name = appliance.configuration.target.name
    appliance.target.logged_in.append(LoggedIn(iqns[1], name, "192.0.2.9:1", "192.0.2.1:3260", 0, None))
    one, both = appliance.group("one", iqns[0]), appliance.group("both")
    for method, path, body in (
        ("PATCH", f"/datastores/{store}", {"host_groups": [one]}),
        ("DELETE", f"/datastores/{store}", None),
    ):
        answer = appliance.request(method, path, body)
        assert answer.status_code == 409 and answer.json and answer.json["blocking"] == [f"unknown host ({iqns[1]})"]
    asked = {"name": "second", "group": both, "iqns": [iqns[1]]}
    assert appliance.request("POST", "/hosts", asked).status_code == 201
    appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [one, both]})
    assert alerts(appliance) == {} and [lun.lun.initiators for lun in appliance.target.targets()[0].luns] == [iqns]
    appliance.target.logged_in.clear()
    appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [one]})
    assert [lun.lun.initiators for lun in appliance.target.targets()[0].luns] == [iqns[:1]]


def test_a_restore_takes_nothing_from_them_unforced(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "_SCRYPT_N", 1 << 4)
    assert isinstance(appliance.target, TargetSimulator)
    iqn = "iqn.1998-01.com.vmware:esx1"
    store = appliance.datastore("first", lun=7)
    document = appliance.request("POST", "/configuration/backup", {"passphrase": "long enough for it"}).json
    appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [appliance.group("cluster", iqn)]})
    lose(appliance)
    reconcile(appliance)
    name = appliance.configuration.target.name
    appliance.target.logged_in.append(LoggedIn(iqn, name, "192.0.2.9:1", "192.0.2.1:3260", 0, None))
    asked = {"backup": json.dumps(document), "passphrase": "long enough for it", "dry_run": False}
    answer = appliance.request("POST", "/configuration/restore", asked)
    assert answer.status_code == 409 and answer.json and answer.json["blocking"] == [f"{iqn}: LUN 7 ({store})"]
    assert store in alerts(appliance)
    appliance.target.logged_in.clear()
    assert appliance.request("POST", "/configuration/restore", asked).status_code == 200
    reconcile(appliance)
    assert alerts(appliance) == {} and [lun.lun.initiators for lun in appliance.target.targets()[0].luns] == [()]


def test_while_the_target_can_not_tell_who_sees_it_nobody_is_told(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", "iqn.1998-01.com.vmware:esx1")])
    before = appliance.target.targets()
    lose(appliance)

    def gone() -> Any:
        raise TargetUnreachableError("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(appliance.target, "targets", gone)
        assert appliance.request("POST", "/reconcile").status_code == 503
        assert told(appliance, store)["lun"] is None
    reconcile(appliance)
    assert appliance.target.targets() == before and told(appliance, store)["lun"] == 7


def test_a_target_that_is_away_for_a_moment_of_a_round_keeps_its_luns(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
    before, real, away = appliance.target.targets(), appliance.target.targets, [True]

    def blinks() -> Any:
        if away:
            away.pop()
            raise TargetUnreachableError("it starts anew")
        return real()

    with monkeypatch.context() as patch:
        patch.setattr(appliance.target, "targets", blinks)
        lose(appliance)
        reconcile(appliance)
    assert not away and appliance.target.targets() == before
    reconcile(appliance)
    assert appliance.target.targets() == before and told(appliance, store)["lun"] == 7


def test_while_a_copy_of_its_volume_has_its_identity(appliance: Appliance) -> None:
    appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
    before = appliance.target.targets()
    (volume,) = appliance.simulator.volumes()
    own = {name: one.value for name, one in volume.properties.items() if name.startswith("zvaai:")}
    copy = appliance.simulator.create_volume("tank/copy", volume.volsize, properties=own)
    appliance.simulator.set_properties("tank/copy", {"zvaai:guid": str(copy.guid)})
    lose(appliance)
    reconcile(appliance)
    assert {one["state"] for one in appliance.get("/datastores")["items"]} == {"copy"}
    assert appliance.target.targets() == before


def test_its_lun_keeps_the_number_that_hosts_use(appliance: Appliance) -> None:
    """Whatever lies with its data."""
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
    before = appliance.target.targets()
    lose(appliance)
    appliance.simulator.set_properties(told(appliance, store)["dataset"], {"zvaai:lun": "3"})
    reconcile(appliance)
    assert appliance.target.targets() == before and told(appliance, store)["lun"] == 7


def test_an_older_database_keeps_its_number_for_another(appliance: Appliance) -> None:
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
    before, other = appliance.target.targets(), str(uuid.UUID(int=7))
    lose(appliance, Presentation(datastore=other, lun=7))
    reconcile(appliance)
    assert appliance.target.targets() == before and told(appliance, store)["lun"] is None
    assert other in alerts(appliance)[store]
    appliance.job("POST", f"/datastores/{other}/forget")
    assert appliance.target.targets() == before and told(appliance, store)["lun"] == 7


def test_a_lun_that_is_forgotten_does_not_come_back_with_its_hosts(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though pool and target are away when it is, and return together."""
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])

    def gone() -> Any:
        raise TargetUnreachableError("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(appliance.target, "targets", gone)
        appliance.simulator.export_pool("tank")
        appliance.job("POST", f"/datastores/{store}/forget?force=true")
        appliance.simulator.import_pool("tank")
    reconcile(appliance)
    assert [lun.lun.initiators for lun in appliance.target.targets()[0].luns] == [()] and alerts(appliance) == {}
    with appliance.store.reading() as session:
        assert kept_initiators.forgotten(session) == set()


def test_what_a_pool_that_is_away_has_is_nobody_elses(appliance: Appliance) -> None:
    """Number and path of an export, of which only its file knows: neither a new datastore's nor one's that is found."""
    store, before = exported(appliance)
    simulator, found = appliance.simulator, str(uuid.UUID(int=7))
    disks = tuple(disk.path for disk in simulator.disks() if disk.used_by is None)[:2]
    simulator.create_pool("rust", [VdevSpec(devices=disks, redundancy=Redundancy.MIRROR)])
    simulator.export_pool("tank")
    lose(appliance)
    place = {"mountpoint": f"{appliance.service.context.mounts}/found", "canmount": "on"}
    own = {"zvaai:uuid": found, "zvaai:name": "found", "zvaai:export": "1", "zvaai:share": "/first"}
    simulator.create_filesystem("rust/found", properties={**own, **place})
    simulator.set_properties("rust/found", {"zvaai:guid": str(simulator.filesystem("rust/found").guid)})
    reconcile(appliance)
    appliance.job("POST", "/datastores", {"name": "first", "pool": "rust", "size": str(GIB), "kind": "nfs"})
    after = served(appliance)
    assert after[1] == before[1] and sorted(one.pseudo for one in after.values())[0] == "/first" and len(after) == 3
    simulator.import_pool("tank")
    reconcile(appliance)
    assert served(appliance)[1] == before[1] and told(appliance, store)["clients"] == [ESX, NETWORK]


def test_host_groups_alone_do_not_end_what_is_kept(appliance: Appliance) -> None:
    """The addresses of before may mount it still."""
    store, _ = exported(appliance)
    lose(appliance)
    reconcile(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [cluster(appliance, "new", "192.0.2.12")]})
    assert ESX in told(appliance, store)["clients"] and store in alerts(appliance)
    appliance.job("PATCH", f"/datastores/{store}", {"clients": []})
    assert told(appliance, store)["clients"] == [] and alerts(appliance) == {}


def test_while_its_pool_is_away_too(appliance: Appliance) -> None:
    store, before = exported(appliance)
    appliance.simulator.export_pool("tank")
    lose(appliance)
    assert reconcile(appliance)["differences"] == [] and served(appliance) == before
    assert "import it" in alerts(appliance)[""]
    appliance.simulator.import_pool("tank")
    reconcile(appliance)
    assert served(appliance) == before and set(alerts(appliance)) == {store}


def test_what_is_forgotten_is_not_kept(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its pool is away, and the NFS server too when it is forgotten."""
    store, _ = exported(appliance)
    appliance.simulator.export_pool("tank")

    def gone() -> Any:
        raise GaneshaUnreachableError("it is not on the bus")

    with monkeypatch.context() as patch:
        patch.setattr(appliance.nfs, "served", gone)
        appliance.job("POST", f"/datastores/{store}/forget?force=true")
    reconcile(appliance)
    assert served(appliance) == {} and appliance.get("/datastores")["items"] == []


def test_while_a_copy_has_its_identity(appliance: Appliance) -> None:
    """Neither counts then, and who is to have it only an admin knows."""
    store, before = exported(appliance)
    dataset = told(appliance, store)["dataset"]
    properties = appliance.simulator.filesystem(dataset).properties
    own = {name: one.value for name, one in properties.items() if name.startswith("zvaai:")}
    appliance.simulator.create_filesystem("tank/copy", properties=own)
    appliance.simulator.set_properties("tank/copy", {"zvaai:guid": str(appliance.simulator.filesystem("tank/copy").guid)})
    lose(appliance)
    reconcile(appliance)
    assert {one["state"] for one in appliance.get("/datastores")["items"]} == {"copy"}
    assert served(appliance) == before


@pytest.mark.parametrize("what", ["another path", "another dataset", "edited"])
def test_what_is_not_surely_its_own_gives_nobody_anything(what: str, appliance: Appliance) -> None:
    store, before = exported(appliance)
    lose(appliance)
    text = before[1].text
    assert text is not None
    other = {
        "another path": ('"/first"', '"/other"'),
        "another dataset": ("dataset tank", "dataset rust"),
        "edited": ("TCP", "UDP"),
    }
    changed = text.replace(*other[what])
    fake = nfs(appliance)
    fake.files = lambda: {1: changed}  # type: ignore[method-assign]
    reconcile(appliance)
    assert told(appliance, store)["clients"] == []
