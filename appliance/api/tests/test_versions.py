# SPDX-License-Identifier: Apache-2.0
"""If-Match: of two changes of one version, the later one is refused completely."""

from __future__ import annotations

from typing import Any

import pytest
from simulators.appliance import GIB, PASSWORD, Appliance

from appliance.api.operation import DECLARATIONS
from appliance.api.schemas.datastores import DatastoreResponse
from appliance.api.schemas.receivers import ReceiverResponse, ReceiverSecretResponse

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/hosts": ({"name": "esx1"}, {"addresses": ["192.0.2.1"]}),
    "/host-groups": ({"name": "cluster"}, {"disabled_offloads": ["unmap"]}),
    "/users": ({"name": "olga", "role": "viewer", "password": PASSWORD}, {"role": "operator"}),
    "/receivers": ({"name": "pager", "url": "https://receiver.example/"}, {"severity": "critical"}),
}
"""Body of a new object, and of a change."""


@pytest.mark.parametrize("path", KINDS)
def test_of_two_changes_of_one_version_the_later_is_refused(path: str, appliance: Appliance) -> None:
    initial, change = KINDS[path]
    made = appliance.request("POST", path, initial).json
    assert made is not None
    address = f"{path}/{made['id']}"
    version = made["etag"]
    assert appliance.request("GET", address).headers["ETag"] == version
    assert [item["etag"] for item in appliance.get(path)["items"] if item["id"] == made["id"]] == [version]
    changed = appliance.request("PATCH", address, change, If_Match=version)
    assert changed.status_code == 200 and changed.json is not None and changed.json["etag"] != version
    before = appliance.get(address)
    other: dict[str, Any] = {"disabled": True} if path == "/users" else {"name": "later"}
    for method, body in (("PATCH", other), ("DELETE", None)):
        refused = appliance.request(method, address, body, If_Match=version)
        assert refused.status_code == 412 and refused.json is not None and refused.json["code"] == "precondition_failed"
    assert appliance.get(address) == before
    assert appliance.request("DELETE", address, If_Match=changed.json["etag"]).status_code == 200


def test_a_host_with_another_chap_secret_is_another_version(appliance: Appliance) -> None:
    made = appliance.request("POST", "/hosts", {"name": "esx1"}).json
    assert made is not None
    chap = f"/hosts/{made['id']}/chap"
    first = appliance.request("PUT", chap, {"name": "esx1", "secret": "firstSecret12"}, If_Match=made["etag"])
    assert first.status_code == 200 and first.json is not None
    again = appliance.request("PUT", chap, {"name": "esx1", "secret": "otherSecret12"}, If_Match=first.json["etag"])
    assert again.status_code == 200
    for method, body in (("PUT", {"name": "esx1", "secret": "thirdSecret12"}), ("DELETE", None)):
        assert appliance.request(method, chap, body, If_Match=first.json["etag"]).status_code == 412


def test_a_schedule_that_ran_is_the_same_and_one_that_was_changed_is_not(appliance: Appliance) -> None:
    store = appliance.datastore("store")
    body = {"name": "hourly", "datastores": [store], "every_minutes": 60, "keep": 2, "enabled": False}
    made = appliance.request("POST", "/schedules", body).json
    assert made is not None
    address = f"/schedules/{made['id']}"
    appliance.job("POST", f"{address}/run")  # with slots that are never due
    assert appliance.request("PATCH", address, {"keep": 3}, If_Match=made["etag"]).status_code == 200
    assert appliance.request("PATCH", address, {"enabled": True}, If_Match=made["etag"]).status_code == 412
    assert appliance.get(address)["enabled"] is False


def test_no_job_is_begun_for_a_datastore_that_is_another_by_now(appliance: Appliance) -> None:
    address = f"/datastores/{appliance.datastore('store')}"
    version = appliance.get(address)["etag"]
    appliance.job("POST", "/snapshots", {"name": "kept", "datastores": [address.rsplit("/", 1)[1]]})
    assert appliance.get(address)["etag"] == version, "what is measured makes no other version"
    assert appliance.request("POST", f"{address}/grow", {"size": str(2 * GIB)}, If_Match=version).status_code == 202
    appliance.ended(appliance.get("/jobs")["items"][0]["id"])
    jobs = len(appliance.get("/jobs")["items"])
    later: list[tuple[str, str, Any]] = [
        ("PATCH", address, {"soft_threshold": 80}),
        ("POST", f"{address}/grow", {"size": str(3 * GIB)}),
        ("POST", f"{address}/quota", {"size": str(3 * GIB)}),
        ("POST", f"{address}/restore", {}),
        ("POST", f"{address}/purge", None),
        ("POST", f"{address}/forget", None),
        ("DELETE", address, None),
    ]
    for method, path, body in later:
        assert appliance.request(method, path, body, If_Match=version).status_code == 412, path
    assert len(appliance.get("/jobs")["items"]) == jobs


def test_thresholds_of_a_pool_have_a_version_and_its_space_has_not(appliance: Appliance) -> None:
    version = appliance.get("/pools/tank")["etag"]
    appliance.datastore("thick", int(appliance.get("/pools/tank")["size"]) // GIB // 2 * GIB, thick=True)
    pool = appliance.get("/pools/tank")
    assert pool["etag"] == version
    assert 100 * int(pool["allocated"]) // int(pool["size"]) < 45 <= pool["used_percent"]
    short = appliance.get("/status")["pools"][0]
    assert (pool["used_percent"], pool["usable"]) == (short["used_percent"], short["usable"])
    assert appliance.request("PATCH", "/pools/tank", {"warning_percent": 70}, If_Match=version).status_code == 202
    appliance.ended(appliance.get("/jobs")["items"][0]["id"])
    assert appliance.request("PATCH", "/pools/tank", {"warning_percent": 60}, If_Match=version).status_code == 412
    assert appliance.get("/pools/tank")["warning_percent"] == 70


def test_objects_without_version_match_none(appliance: Appliance) -> None:
    body = {"name": "one"}
    assert appliance.request("POST", "/host-groups", body, If_Match='"0123"').status_code == 412
    assert appliance.get("/host-groups")["items"] == []
    assert appliance.request("POST", "/host-groups", body, If_Match="*").status_code == 201


def test_all_changes_of_one_object_check_its_version() -> None:
    changing = {
        f"{declaration.method} {declaration.path.removeprefix('/api/v1')}"
        for declaration in DECLARATIONS.values()
        if declaration.method in ("PATCH", "PUT", "DELETE") and not declaration.matches
    }
    # The caller's session, and objects that never change: they have one version.
    unchanging = {"DELETE /session", "DELETE /tokens/<token_id>", "DELETE /support-bundles/<bundle_id>"}
    # The target stores its portals, and the secret of the target is not readable.
    unchanging |= {f"{method} /portals/<portal>" for method in ("PATCH", "DELETE")}
    unchanging |= {f"{method} /settings/iscsi/target-chap" for method in ("PUT", "DELETE")}
    # nginx serves a new certificate later; two-factor login is the caller's own.
    unchanging |= {"PUT /certificate", "PUT /session/totp"}
    assert changing == unchanging | {"DELETE /datastores/<datastore_id>/snapshots/<name>/holds/<tag>"}


def test_a_secret_is_in_no_version() -> None:
    assert "secret" in ReceiverSecretResponse.MEASURED >= ReceiverResponse.MEASURED
    assert {"etag"} <= set(DatastoreResponse.model_json_schema()["required"])
