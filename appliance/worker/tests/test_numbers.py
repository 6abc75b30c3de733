# SPDX-License-Identifier: Apache-2.0
"""Numbers of LUNs and exports: stored with the data, taken over from a pool that is imported, and never given twice."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from simulators.appliance import GIB, PASSWORD, Appliance

from appliance.domain import datastores as domain
from appliance.domain import exports, jobs
from appliance.worker.tests.test_nfs_datastores import details


def reconcile(appliance: Appliance) -> Any:
    answer = appliance.request("POST", "/reconcile")
    assert answer.status_code == 200
    return answer.json


def stored(appliance: Appliance, store: str, name: str = "zvaai:lun") -> str:
    """A property of its dataset."""
    return appliance.simulator.properties(details(appliance, store)["dataset"])[name].value


def test_a_restored_backup_reports_newer_copies_on_pools(appliance: Appliance) -> None:
    store, mounted = appliance.datastore("first", lun=7), appliance.nfs_datastore("mounted")
    assert appliance.request("POST", "/configuration/recovery-key").status_code == 200
    file = json.dumps(appliance.request("POST", "/configuration/backup", {"password": PASSWORD}).json)
    appliance.job("PATCH", f"/datastores/{store}", {"lun": 8})
    assert stored(appliance, store) == "8"
    appliance.simulator.set_properties(
        details(appliance, mounted)["dataset"], {"zvaai:share": "/elsewhere", "zvaai:export": "77"}
    )
    assert appliance.request("POST", "/recovery", {"file": file}).status_code == 200
    reconcile(appliance)
    assert [lun.lun.number for lun in appliance.target.targets()[0].luns] == [7] and stored(appliance, store) == "7"
    assert [stored(appliance, mounted, f"zvaai:{name}") for name in ("share", "export")] == ["/mounted", "1"]


@pytest.mark.parametrize(("number", "given"), [("5", 5), ("0", 1)])
def test_datastores_of_an_imported_pool_retain_their_free_numbers(appliance: Appliance, number: str, given: int) -> None:
    appliance.datastore("first", lun=0)
    properties = {"zvaai:uuid": "00000000-0000-4000-8000-000000000007", "zvaai:name": "found", "zvaai:lun": number}
    volume = appliance.simulator.create_volume("tank/found", GIB, properties=properties)
    appliance.simulator.set_properties("tank/found", {"zvaai:guid": str(volume.guid)})
    reconcile(appliance)
    store = properties["zvaai:uuid"]
    assert details(appliance, store)["lun"] == given and details(appliance, store)["host_groups"] == []
    reconcile(appliance)
    assert stored(appliance, store) == str(given)


def test_the_number_of_a_deleted_datastore_is_not_given_until_the_purge(appliance: Appliance) -> None:
    """A host with its stale device would write to the new disk."""
    store = appliance.datastore("first")
    appliance.job("DELETE", f"/datastores/{store}")
    assert details(appliance, appliance.datastore("second"))["lun"] == 1
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert details(appliance, store)["lun"] == 0
    appliance.job("DELETE", f"/datastores/{store}")
    chosen = appliance.datastore("third", lun=0)
    assert details(appliance, chosen)["lun"] == 0, "an admin may choose it"
    appliance.job("DELETE", f"/datastores/{chosen}")
    appliance.job("POST", f"/datastores/{store}/purge")
    assert details(appliance, appliance.datastore("fourth"))["lun"] == 2
    appliance.job("POST", f"/datastores/{chosen}/purge")
    assert details(appliance, appliance.datastore("fifth"))["lun"] == 0


def test_the_export_number_of_a_deleted_datastore_is_not_given_until_the_purge(appliance: Appliance) -> None:
    """The handles of hosts contain it."""
    store = appliance.nfs_datastore("first")
    appliance.job("DELETE", f"/datastores/{store}")
    assert details(appliance, appliance.nfs_datastore("second"))["export"] == 2
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert details(appliance, store)["export"] == 1
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/purge")
    assert details(appliance, appliance.nfs_datastore("third"))["export"] == 1


def waiting(appliance: Appliance, request: Callable[[], Any]) -> str:
    """A job that is queued and does not begin: the worker ends."""
    appliance.service.executor.stop()
    answer = request()
    assert answer.status_code == 202, answer.text
    return str(answer.json["id"])


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_queued_jobs_number_that_is_anothers_when_it_begins_is_a_conflict(kind: str, appliance: Appliance) -> None:
    body = {"name": "first", "pool": "tank", "size": str(GIB), "kind": kind}
    job = waiting(appliance, lambda: appliance.request("POST", "/datastores", body))
    other_uuid = str(uuid.UUID(int=7))
    with appliance.store.session() as session:
        decided = jobs.job(session, job).parameters
        if kind == "vmfs":
            domain.present(session, other_uuid, decided["shown"]["lun"], None)
        else:
            exports.show(session, other_uuid, decided["shown"]["export"], "/found")
    appliance.restart_worker()
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and ended["problem"]["code"] == "conflict" and other_uuid in str(ended["problem"]), ended
    assert [datastore["id"] for datastore in appliance.get("/datastores")["items"]] == [other_uuid], (
        "the job took back what it had made"
    )


def test_chap_switched_on_by_hand_is_switched_off_again(appliance: Appliance) -> None:
    """The database has no setting until an admin stores one: then CHAP is not required."""
    reconcile(appliance)
    appliance.target.require_chap(appliance.target_name, True)
    assert any("CHAP" in difference for difference in reconcile(appliance)["differences"])
    assert not appliance.target.targets()[0].chap_required
