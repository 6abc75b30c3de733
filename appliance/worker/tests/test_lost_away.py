# SPDX-License-Identifier: Apache-2.0
"""A database that is lost while a pool is away: what hosts have of it stays, and who has to prove himself still has to."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete

from appliance.database.models import Export, ExportGroup, Host, HostGroup, Presentation, PresentationGroup, Setting
from appliance.dataplane.target import LoggedIn, ServedTarget
from appliance.dataplane.target_simulator import TargetSimulator
from appliance.testing import GIB, Appliance
from appliance.worker.tests.test_lost_database import alerts, exported, reconcile
from appliance.worker.tests.test_nfs_datastores import served as exports
from appliance.worker.tests.test_nfs_datastores import told
from appliance.zfs.model import Redundancy, VdevSpec

IQN, OTHER = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"
SECRET = {"name": "esx1", "secret": "a good long secret"}


@pytest.fixture
def luns(appliance: Appliance) -> str:
    """A datastore on a zvol of the pool tank, LUN 7 for one host; another pool is there."""
    disks = tuple(disk.path for disk in appliance.simulator.disks() if disk.used_by is None)[:2]
    appliance.simulator.create_pool("rust", [VdevSpec(devices=disks, redundancy=Redundancy.MIRROR)])
    store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
    appliance.service.context.device = lambda volume: volume.device if volume.pool == "tank" else "/dev/null"
    reconcile(appliance)
    return store


def lose(appliance: Appliance, *older: Presentation) -> None:
    """All that the database knows, between two rounds; but for what an older one has."""
    tables: tuple[Any, ...] = (ExportGroup, Export, PresentationGroup, Presentation, Host, HostGroup)
    with appliance.service.context.reconciling.lock, appliance.store.session() as session:
        for table in (*tables, *((Setting,) if not older else ())):
            session.execute(delete(table))
        session.add_all(older)


def target(appliance: Appliance) -> ServedTarget:
    """As it is."""
    (found,) = appliance.target.targets()
    return found


@pytest.mark.parametrize("how", ["exported", "suspended"])
def test_its_lun_stays_with_its_number_and_hosts(appliance: Appliance, luns: str, how: str) -> None:
    before = target(appliance)
    assert [(one.lun.number, one.lun.path) for one in before.luns] == [(7, f"/dev/zvol/{told(appliance, luns)['dataset']}")]
    if how == "exported":
        appliance.simulator.export_pool("tank")
    else:
        appliance.simulator.suspend("tank")
    lose(appliance)
    for _ in range(2):
        assert reconcile(appliance)["differences"] == [] and target(appliance) == before
    missing = told(appliance, luns)
    assert (missing["state"], missing["lun"]) == ("missing", 7) and IQN in alerts(appliance)[luns]
    assert any("/dev/zvol/tank" in one["text"] and f"forget {luns}" in one["remedy"] for one in appliance.get("/alerts")["items"])
    new = appliance.job("POST", "/datastores", {"name": "new", "pool": "rust", "size": str(GIB)})["result"]["datastore"]
    assert told(appliance, new)["lun"] != 7
    appliance.job("DELETE", f"/datastores/{new}")
    if how == "exported":
        appliance.simulator.import_pool("tank")
        reconcile(appliance)
        assert target(appliance) == before and (told(appliance, luns)["state"], told(appliance, luns)["lun"]) == ("active", 7)
        assert IQN in alerts(appliance)[luns], "until somebody says who sees it"


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
@pytest.mark.parametrize("how", ["exported", "suspended"])
def test_a_pool_that_comes_while_it_is_looked_takes_nothing(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, how: str, kind: str, request: pytest.FixtureRequest
) -> None:
    """Its datasets were asked for before it was there, and are not all that it has."""
    if kind == "vmfs":
        request.getfixturevalue("luns")
    else:
        exported(appliance)
    before, simulator, pending = (target(appliance), exports(appliance)), appliance.simulator, [True]
    ways: dict[str, tuple[Callable[[str], object], Callable[[str], object]]] = {
        "exported": (simulator.export_pool, simulator.import_pool),
        "suspended": (simulator.suspend, simulator.clear),
    }
    go, come = ways[how]
    go("tank")
    lose(appliance)
    really = simulator.datasets

    def listed(*arguments: Any) -> Any:
        found = really(*arguments)
        if pending and appliance.service.context.reconciling.lock.locked():
            pending.clear()
            come("tank")
        return found

    monkeypatch.setattr(simulator, "datasets", listed)
    for _ in range(2):
        reconcile(appliance)
        assert not pending and (target(appliance), exports(appliance)) == before


def test_what_is_forgotten_goes_though_its_pool_is_away(appliance: Appliance, luns: str) -> None:
    appliance.simulator.export_pool("tank")
    lose(appliance)
    reconcile(appliance)
    appliance.job("POST", f"/datastores/{luns}/forget?force=true")
    reconcile(appliance)
    assert target(appliance).luns == () and luns not in alerts(appliance) and appliance.get("/datastores")["items"] == []


def test_what_was_destroyed_is_taken_away(appliance: Appliance, luns: str) -> None:
    appliance.simulator.destroy(told(appliance, luns)["dataset"])
    lose(appliance)
    reconcile(appliance)
    assert target(appliance).luns == ()


def test_an_older_database_has_its_number_for_another(appliance: Appliance, luns: str) -> None:
    before, other = target(appliance), str(uuid.UUID(int=7))
    appliance.simulator.export_pool("tank")
    lose(appliance, Presentation(datastore=other, lun=7))
    assert reconcile(appliance)["differences"] == [] and target(appliance) == before
    assert other in alerts(appliance)[luns] and told(appliance, other)["lun"] == 7
    appliance.job("POST", f"/datastores/{other}/forget?force=true")
    reconcile(appliance)
    assert target(appliance) == before and told(appliance, luns)["lun"] == 7


def test_an_export_of_a_suspended_pool_stays(appliance: Appliance) -> None:
    _, before = exported(appliance)
    appliance.simulator.suspend("tank")
    lose(appliance)
    assert reconcile(appliance)["differences"] == [] and exports(appliance) == before


def required(appliance: Appliance) -> dict[str, Any]:
    """CHAP is, with an account of one host; the target's accounts then."""
    host = {"name": "esx1", "iqns": [IQN], "chap": SECRET}
    assert appliance.request("POST", "/hosts", host).status_code == 201
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    reconcile(appliance)
    found = target(appliance)
    assert found.chap_required
    return {one.name: one.initiators for one in found.accounts}


def test_chap_stays_required_and_its_accounts_stay(appliance: Appliance) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    before = required(appliance)
    assert before == {"esx1": (IQN,)}
    lose(appliance)
    for _ in range(2):
        reconcile(appliance)
        after = target(appliance)
        assert after.chap_required and {one.name: one.initiators for one in after.accounts} == before
    assert appliance.get("/settings/iscsi") == {"chap_required": True}
    assert "esx1" in alerts(appliance)["target"]

    # A host that is made anew has its account as the database has it; another's stays.
    other = {"name": "esx2", "iqns": [OTHER], "chap": {"name": "esx2", "secret": "another good secret"}}
    assert appliance.request("POST", "/hosts", other).status_code == 201
    reconcile(appliance)
    assert {one.name for one in target(appliance).accounts} == {"esx1", "esx2"} and "esx1" in alerts(appliance)["target"]
    again = {"name": "esx1", "iqns": [IQN], "chap": SECRET}
    assert appliance.request("POST", "/hosts", again).status_code == 201
    reconcile(appliance)
    assert {one.name for one in target(appliance).accounts} == {"esx1", "esx2"} and "knows all accounts" in alerts(appliance)[
        "target"
    ]
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    reconcile(appliance)
    assert "target" not in alerts(appliance) and {one.name for one in target(appliance).accounts} == {"esx1", "esx2"}


@pytest.mark.parametrize("still", [True, False])
def test_who_says_whether_chap_is_required_has_only_accounts_of_hosts(appliance: Appliance, still: bool) -> None:
    required(appliance)
    lose(appliance)
    reconcile(appliance)
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": still}).status_code == 200
    reconcile(appliance)
    after = target(appliance)
    assert after.chap_required is still and after.accounts == () and "target" not in alerts(appliance)


def test_chap_switched_on_by_hand_is_switched_off_again(appliance: Appliance) -> None:
    """The database knows that it is not required, though nobody has said so."""
    reconcile(appliance)
    appliance.target.require_chap(appliance.configuration.target.name, True)
    assert any("CHAP" in one for one in reconcile(appliance)["differences"])
    assert not target(appliance).chap_required and "target" not in alerts(appliance)


def test_who_uses_its_lun_keeps_it_from_being_forgotten(appliance: Appliance, luns: str) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    appliance.simulator.export_pool("tank")
    lose(appliance)
    reconcile(appliance)
    appliance.target.logged_in.append(
        LoggedIn(IQN, appliance.configuration.target.name, "192.0.2.9:1", "192.0.2.1:3260", 0, None)
    )
    answer = appliance.request("POST", f"/datastores/{luns}/forget")
    assert answer.status_code == 409 and answer.json and answer.json["blocking"] == [f"unknown host ({IQN})"]
