# SPDX-License-Identifier: Apache-2.0
"""Holds on snapshots: effects, owners and refusals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from simulators.appliance import Appliance

from appliance.domain import requests, retention
from appliance.worker.snapshot_operations import Retire, TakeSnapshot
from appliance.zfs.errors import SnapshotExists


@pytest.fixture
def store(appliance: Appliance) -> str:
    """A datastore with snapshots `one`, which is held, and `two`."""
    made = appliance.datastore("first")
    for name in ("one", "two"):
        appliance.job("POST", "/snapshots", {"name": name, "datastores": [made]})
    hold(appliance, made, "audit")
    return made


def hold(appliance: Appliance, store: str, tag: str, snapshot: str = "one") -> Any:
    return appliance.job("POST", f"/datastores/{store}/snapshots/{snapshot}/holds", {"tag": tag})


def tags(appliance: Appliance, store: str, snapshot: str = "one") -> dict[str, str]:
    return {hold["tag"]: hold["of"] for hold in appliance.get(f"/datastores/{store}/snapshots/{snapshot}/holds")["items"]}


def refused(appliance: Appliance, method: str, path: str, body: Any = None, status: int = 409, role: str = "admin") -> Any:
    answer = appliance.request(method, path, body, role=role)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json"), answer.text
    return answer.json


def test_a_held_snapshot_is_retained_until_its_release(appliance: Appliance, store: str) -> None:
    assert tags(appliance, store) == {"audit": "user"} and tags(appliance, store, "two") == {}
    path = f"/datastores/{store}/snapshots/one"
    deletion = ("POST", f"/datastores/{store}/snapshots/delete", {"names": ["one"]})
    assert refused(appliance, *deletion)["blocking"] == ["one (held: audit)"]
    hold(appliance, store, "legal:2026")
    first = appliance.get(f"{path}/holds?limit=1")
    second = appliance.get(f"{path}/holds?limit=1&cursor={first['next_cursor']}")
    assert [page["items"][0]["tag"] for page in (first, second)] == ["audit", "legal:2026"] and second["next_cursor"] is None
    appliance.job("DELETE", f"{path}/holds/audit")
    assert refused(appliance, *deletion)["blocking"] == ["one (held: legal:2026)"]
    appliance.job("DELETE", f"{path}/holds/legal:2026")
    appliance.job(*deletion)
    actions = [(entry["action"], entry["status"]) for entry in appliance.get("/audit")["items"]]
    assert actions[0] == ("snapshot.delete", 202) and actions[2] == ("snapshot.delete", 409)
    assert actions[1] == actions[3] == ("snapshot.release", 202)


def test_several_are_deleted_or_none(appliance: Appliance, store: str) -> None:
    """One refusal names all snapshots in the way, and what prevents the deletion of each."""
    appliance.job("POST", f"/datastores/{store}/clone", {"name": "copy", "snapshot": "two"})
    appliance.job("POST", "/snapshots", {"name": "safe", "datastores": [store], "protect_days": 7})
    for name in ("three", "four"):
        appliance.job("POST", "/snapshots", {"name": name, "datastores": [store]})
    path = f"/datastores/{store}/snapshots/delete"
    hold(appliance, store, "legal:2026")
    problem = refused(appliance, "POST", path, {"names": ["three", "one", "two", "safe"]})
    held, cloned, protected = problem["blocking"]
    assert (held, cloned) == ("one (held: audit; held: legal:2026)", "two (clone: copy)")
    assert protected.startswith("safe (protected until 2") and "zvaai" not in protected and not problem["can_force"]
    assert "'absent'" in refused(appliance, "POST", path, {"names": ["three", "absent"]}, 404)["detail"]
    refused(appliance, "POST", path, {"names": []}, 422)
    refused(appliance, "POST", path, {"names": ["three"]}, 403, "operator")
    names = [snapshot["name"] for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"]]
    assert names == ["one", "two", "safe", "three", "four"]
    assert appliance.job("POST", path, {"names": ["three", "four", "three"]})["result"] == {"destroyed": 2}
    names = [snapshot["name"] for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"]]
    assert names == ["one", "two", "safe"]


def test_a_purge_names_the_end_of_a_protection(appliance: Appliance, store: str) -> None:
    appliance.job("POST", "/snapshots", {"name": "safe", "datastores": [store], "protect_days": 7})
    appliance.job("DELETE", f"/datastores/{store}")
    assert "protection ends at 2" in refused(appliance, "POST", f"/datastores/{store}/purge")["detail"]


def test_a_received_mark_protects_nothing(appliance: Appliance, store: str) -> None:
    """`zfs send -p` copies the mark and no hold. What holds the copy is another program's, which can be released."""
    name = f"{appliance.get(f'/datastores/{store}')['dataset']}@received"
    appliance.simulator.snapshot([name], properties={retention.PROTECT: str(2**31)})
    appliance.simulator.hold([name], "zrepl_1")
    appliance.request("POST", "/reconcile")
    deletion = ("POST", f"/datastores/{store}/snapshots/delete", {"names": ["received"]})
    assert refused(appliance, *deletion)["blocking"] == ["received (held: zrepl_1)"]
    appliance.job("DELETE", f"/datastores/{store}")
    assert "Release the holds first" in refused(appliance, "POST", f"/datastores/{store}/purge")["detail"]


def test_snapshots_are_listed_as_a_rollback_sees_them(appliance: Appliance, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them was taken while the clock was ahead."""
    with monkeypatch.context() as patch:
        patch.setattr(appliance.simulator, "now", lambda: int(time.time()) + 86400)
        appliance.job("POST", "/snapshots", {"name": "ahead", "datastores": [store]})
    appliance.job("POST", "/snapshots", {"name": "after", "datastores": [store]})
    listed = appliance.get(f"/datastores/{store}/snapshots")["items"]
    assert [snapshot["name"] for snapshot in listed] == ["one", "two", "ahead", "after"]
    assert listed[2]["created_at"] > listed[3]["created_at"]


@pytest.mark.parametrize("missing", [False, True])
def test_protections_end_together(appliance: Appliance, store: str, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release is a transaction group. A snapshot that disappeared does not keep the others protected."""
    tagged = [f"safe{number}" for number in range(5)]
    for name in tagged:
        appliance.job("POST", "/snapshots", {"name": name, "datastores": [store], "protect_days": 7})
    hold(appliance, store, "audit", "safe1")
    listed = appliance.get(f"/datastores/{store}/snapshots")["items"]
    expired = [snapshot["full_name"] for snapshot in listed if snapshot["name"] in tagged]
    simulator, context, retire = appliance.simulator, appliance.service.context, Retire()
    steps: list[tuple[str, int]] = []
    calls: list[int] = []
    plan = retire.plan(context, requests.RetireSnapshots(pool="tank", names=[], about=[store], expired=expired))
    if missing:
        simulator.release([expired[0]], retention.PROTECTED)
        simulator.destroy_snapshots([expired[0]])
    release = simulator.release

    def counted(names: Sequence[str], tag: str) -> None:
        calls.append(len(names))
        release(names, tag)

    monkeypatch.setattr(simulator, "release", counted)
    retire.run(context, plan, "job", lambda step, percent: steps.append((step, percent)))
    assert steps == [("ending the protection", 0)] and calls == [5, *[1] * 5 * missing]
    shown = {snapshot["name"]: snapshot for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"]}
    left = tagged[1:] if missing else tagged
    assert [tags(appliance, store, name) for name in left] == [{"audit": "user"} if name == "safe1" else {} for name in left]
    assert {shown[name]["protected_until"] for name in left} == {None}
    assert simulator.properties(expired[1]).get(retention.PROTECT) is None
    appliance.job("POST", f"/datastores/{store}/snapshots/delete", {"names": [name for name in left if name != "safe1"]})


def test_a_snapshot_that_somebody_else_took_meanwhile_is_not_protected(appliance: Appliance, store: str) -> None:
    """The job fails: that snapshot is of another moment, and its owner may destroy it."""
    take, context = TakeSnapshot(), appliance.service.context
    plan = take.plan(context, requests.SnapshotCreate(name="three", datastores=[store], protect_days=1))
    appliance.simulator.snapshot(plan.names)
    with pytest.raises(SnapshotExists):
        take.run(context, plan, "job", lambda *_: None)
    assert appliance.simulator.holds(plan.names[0]) == []


def test_neither_a_rollback_nor_a_purge_takes_it(appliance: Appliance, store: str) -> None:
    hold(appliance, store, "audit", "two")
    path = f"/datastores/{store}/snapshots/one/rollback"
    problem = refused(appliance, "POST", path, {"force": True})
    assert "two (audit)" in problem["blocking"][0] and not problem["can_force"]
    appliance.job("DELETE", f"/datastores/{store}/snapshots/two/holds/audit")
    appliance.job("POST", path, {"destroy": ["two"]})
    appliance.job("DELETE", f"/datastores/{store}")
    assert "@one" in refused(appliance, "POST", f"/datastores/{store}/purge")["blocking"][0]
    refused(appliance, "POST", f"/datastores/{store}/snapshots/one/holds", {"tag": "more"})
    appliance.job("DELETE", f"/datastores/{store}/snapshots/one/holds/audit")
    appliance.job("POST", f"/datastores/{store}/purge")


def test_holds_of_the_appliance_and_of_a_send_are_listed_and_not_released(appliance: Appliance, store: str) -> None:
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    for tag in ("zvaai:replica-1", "ZVAAI-job", ".send-4711-1"):
        appliance.simulator.hold([f"{dataset}@one"], tag)
    assert tags(appliance, store) == {
        "audit": "user", "zvaai:replica-1": "appliance", "ZVAAI-job": "appliance", ".send-4711-1": "openzfs",
    }  # fmt: skip
    path = f"/datastores/{store}/snapshots/one/holds"
    for tag, why in (("zvaai:replica-1", "replica"), ("ZVAAI-job", "replica"), (".send-4711-1", "zfs send")):
        problem = refused(appliance, "DELETE", f"{path}/{tag}")
        assert why in problem["detail"] and problem["blocking"] == [tag] and not problem["can_force"]
    assert len(tags(appliance, store)) == 4


def test_a_hold_by_a_tag_that_is_none_here_is_refused_at_the_request(appliance: Appliance, store: str) -> None:
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    # As `zfs hold` makes it: the engine takes no such tag.
    *_, snapshot = appliance.simulator.find_snapshot(f"{dataset}@one")
    snapshot.holds["my backup"] = snapshot.holds["audit"]
    jobs = appliance.get("/jobs")
    problem = refused(appliance, "DELETE", f"/datastores/{store}/snapshots/one/holds/my%20backup")
    assert "zfs release" in problem["detail"] and problem["blocking"] == ["my backup"]
    assert appliance.get("/jobs") == jobs and "my backup" in tags(appliance, store)


def test_refusals_name_the_field_and_change_nothing(appliance: Appliance, store: str) -> None:
    path = f"/datastores/{store}/snapshots/one/holds"
    before = tags(appliance, store), appliance.get("/jobs")
    for tag in ("", "-x", ".send-1", "zvaai", "zvaai:job", "Zvaai-x", "a b", "a/b", "x" * 65, "ä"):
        assert refused(appliance, "POST", path, {"tag": tag}, 422)["errors"][0]["field"] == "tag", tag
    assert refused(appliance, "POST", path, {"tag": "audit"})["errors"][0]["field"] == "tag"
    refused(appliance, "POST", path, {"tag": "new"}, 403, "viewer")
    refused(appliance, "DELETE", f"{path}/audit", None, 403, "viewer")
    refused(appliance, "DELETE", f"{path}/absent", None, 404)
    refused(appliance, "POST", f"/datastores/{store}/snapshots/absent/holds", {"tag": "new"}, 404)
    refused(appliance, "GET", f"/datastores/{store}/snapshots/absent/holds", None, 404)
    assert appliance.request("GET", path, role="viewer").status_code == 200
    assert (tags(appliance, store), appliance.get("/jobs")) == before


def test_the_number_of_holds_is_limited(appliance: Appliance, store: str) -> None:
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    for number in range(63):
        appliance.simulator.hold([f"{dataset}@one"], f"hold-{number}")
    problem = refused(appliance, "POST", f"/datastores/{store}/snapshots/one/holds", {"tag": "more"})
    assert "at most 64" in problem["detail"]


def test_repeated_requests_are_executed_once(appliance: Appliance, store: str) -> None:
    path = f"/datastores/{store}/snapshots/two/holds"
    first, again = (appliance.request("POST", path, {"tag": "new"}, Idempotency_Key="same") for _ in range(2))
    assert first.json and again.json and first.json["id"] == again.json["id"]
    assert appliance.ended(first.json["id"])["state"] == "succeeded"
    assert tags(appliance, store, "two") == {"new": "user"}
