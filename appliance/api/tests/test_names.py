# SPDX-License-Identifier: Apache-2.0
"""Audit and jobs have the names of their time, even if objects are renamed or deleted later."""

from typing import Any

from simulators.appliance import Appliance


def test_names_are_those_of_then(appliance: Appliance) -> None:
    store = appliance.datastore("gold1")
    appliance.job("POST", "/snapshots", {"name": "before", "datastores": [store]})
    host: Any = appliance.request("POST", "/hosts", {"name": "test1", "iqns": []}).json
    assert appliance.request("PATCH", f"/hosts/{host['id']}", {"name": "esx-a"}).status_code == 200
    assert appliance.request("DELETE", f"/hosts/{host['id']}").status_code == 200
    appliance.job("PATCH", f"/datastores/{store}", {"name": "silver"})
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/purge")
    jobs = {job["kind"]: job["name"] for job in appliance.get("/jobs")["items"]}
    assert jobs["datastore.create"] == "gold1" and jobs["snapshot.create"] == "gold1@before"
    assert jobs["datastore.delete"] == "silver" and jobs["datastore.purge"] == "silver"
    audit = [(entry["action"], entry["name"]) for entry in reversed(appliance.get("/audit")["items"])]
    expected = [
        ("datastore.create", "gold1"), ("host.create", "test1"), ("host.change", "test1"), ("host.delete", "esx-a"),
        ("datastore.change", "gold1"), ("datastore.delete", "silver"), ("datastore.purge", "silver"),
    ]  # fmt: skip
    assert [entry for entry in audit if entry[0] in dict(expected)] == expected


def test_jobs_of_a_datastore(appliance: Appliance) -> None:
    """Of itself, of its files and snapshots, and jobs of several datastores; the 200 newest jobs of others do not hide them."""
    first, second = appliance.datastore("first"), appliance.datastore("second")
    appliance.job("POST", "/snapshots", {"name": "both", "datastores": [second, first]})
    appliance.job("POST", f"/datastores/{first}/snapshots/delete", {"names": ["both"]})
    appliance.job("POST", "/pools/tank/scrub", {"action": "start"})

    def kinds(query: str) -> list[str]:
        return [job["kind"] for job in appliance.get(f"/jobs?{query}")["items"]]

    assert kinds(f"subject={first}") == ["snapshot.delete", "snapshot.create", "datastore.create"]
    assert kinds(f"subject={second}") == ["snapshot.create", "datastore.create"]
    assert kinds("subject=pool tank") == ["pool.scrub"] and kinds("subject=%25") == kinds("subject=pool") == []
    assert kinds("active=true") == []
    assert appliance.request("GET", '/jobs?subject="').status_code == 422
