"""A database that is lost, or older than the pools: hosts keep the NFS datastores that the NFS server still exports to them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete

from appliance.database.models import Export, ExportGroup, Host, HostGroup
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.testing import Appliance
from appliance.worker.tests.test_nfs_datastores import ESX, cluster, nfs, served, told

NETWORK = "198.51.100.0/24"


def exported(appliance: Appliance) -> tuple[str, Any]:
    """A datastore for a host group and a network; and what is exported then."""
    asked: dict[str, Any] = {"clients": [NETWORK], "versions": ["3"], "squash": "root", "host_groups": [cluster(appliance)]}
    store = appliance.nfs_datastore("first", **asked)
    return store, served(appliance)


def lose(appliance: Appliance) -> None:
    """All that the database knows of hosts and exports, between two rounds."""
    with appliance.service.context._reconciling, appliance.store.session() as session:
        for table in (ExportGroup, Export, Host, HostGroup):
            session.execute(delete(table))


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
