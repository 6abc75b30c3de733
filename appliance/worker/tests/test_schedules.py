# SPDX-License-Identifier: Apache-2.0
"""Schedules of snapshots and scrubs: due times, alerts, retention and protection."""

import datetime as dt
import json
import time
import zoneinfo
from typing import Any

import pytest
from simulators.appliance import PASSWORD, Appliance
from sqlalchemy import text

from appliance.domain import jobs, requests
from appliance.domain.errors import ConflictError
from appliance.worker.periodic import RETRY_SECONDS
from appliance.worker.snapshot_operations import Retire, RetirePlan
from appliance.worker.vm_operations import RestoreVm, RestoreVmPlan
from appliance.zfs.errors import OutOfSpace

DAY = 86400


class Clock:
    """By which snapshots are taken here, instead of the worker's own."""

    def __init__(self, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
        self.appliance, self.now = appliance, float(int(time.time()) // 300 * 300)
        self._take = appliance.service.periodic.schedules
        monkeypatch.setattr(appliance.service.periodic, "schedules", lambda: None)
        monkeypatch.setattr(appliance.service.periodic, "now", lambda: self.now)
        monkeypatch.setattr(appliance.simulator, "clock", lambda: self.now)

    def schedule(self, *datastores: str, keep: int = 2) -> str:
        """Creates a schedule that is due every five minutes."""
        body = {"name": "often", "datastores": datastores, "every_minutes": 5, "keep": keep}
        made = self.appliance.request("POST", "/schedules", body).json
        assert made is not None
        return str(made["id"])

    def due(self, seconds: float = 300) -> None:
        self.now += seconds
        self.appliance.service.context.scan(0)
        self._take()
        for job in self.appliance.get("/jobs?limit=500")["items"]:
            self.appliance.ended(job["id"])


@pytest.fixture
def clock(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(appliance, monkeypatch)


def test_a_schedule_whose_job_fails_raises_an_alert_until_one_succeeds(appliance: Appliance, clock: Clock) -> None:
    schedule = clock.schedule(appliance.datastore("first"))
    appliance.simulator.fail_next("snapshot", OutOfSpace("tank"))
    clock.due()
    alerts = appliance.get("/alerts")["items"]
    assert [alert["key"] for alert in alerts] == [f"schedule-{schedule}:failed"] and "often" in alerts[0]["text"]
    clock.due()
    assert appliance.get("/alerts")["items"] == []


def test_a_deleted_datastore_does_not_stop_its_schedule(appliance: Appliance, clock: Clock) -> None:
    stays, goes = appliance.datastore("stays"), appliance.datastore("goes")
    schedule = clock.schedule(stays, goes)
    appliance.job("DELETE", f"/datastores/{goes}")
    clock.due()
    assert len(appliance.get(f"/datastores/{stays}/snapshots")["items"]) == 1
    alerts = appliance.get("/alerts")["items"]
    assert [alert["key"] for alert in alerts] == [f"schedule-missing-{schedule}:gone"] and alerts[0]["text"].endswith(": goes")
    assert alerts[0]["remedy"] == f"zvaai schedule change often --remove-datastore {goes}"
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"enabled": False}).status_code == 200
    assert appliance.get("/alerts")["items"] == []
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"enabled": True}).status_code == 200
    clock.due()
    assert len(appliance.get("/alerts")["items"]) == 1
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"datastores": [stays]}).status_code == 200
    assert appliance.get("/alerts")["items"] == []
    assert appliance.request("DELETE", f"/schedules/{schedule}").status_code == 200
    assert appliance.get("/alerts")["items"] == []


def test_a_schedule_whose_pool_is_away_is_not_to_be_deleted(appliance: Appliance, clock: Clock) -> None:
    clock.schedule(appliance.datastore("first"))
    appliance.job("POST", "/pools/tank/export")
    clock.due()
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("schedule-missing")]
    assert "zvaai pool import" in alert["remedy"]


def test_datastores_of_a_suspended_pool_are_not_called_missing(appliance: Appliance, clock: Clock) -> None:
    clock.schedule(appliance.datastore("first"))
    appliance.simulator.suspend("tank")
    appliance.service.context.scan(0)
    clock.due()
    assert not [alert for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("schedule-missing")]


def test_a_pool_that_is_away_costs_no_slot(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    clock.schedule(store)
    appliance.simulator.suspend("tank")
    appliance.service.context.scan(0)
    clock.due()
    appliance.simulator.clear("tank")
    appliance.service.context.scan(0)
    assert names(appliance, store) == []
    clock.due(60)
    assert len(names(appliance, store)) == 1
    clock.due(60)
    assert len(names(appliance, store)) == 1


def test_slots_that_come_again_after_a_clock_was_ahead_are_used(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    clock.schedule(store, keep=20)
    for _ in range(6):
        clock.due()
    clock.now -= 1500 - 5  # snapshots have other names
    clock.due(0)
    for _ in range(4):
        clock.due()
    assert len(names(appliance, store)) == 11


def test_retention_is_one_job(appliance: Appliance, clock: Clock) -> None:
    stores = [appliance.datastore("first"), appliance.datastore("second")]
    schedule = clock.schedule(*stores, keep=20)
    for _ in range(12):
        clock.due()
    oldest = min(appliance.get(f"/datastores/{stores[0]}/snapshots")["items"], key=lambda snapshot: snapshot["name"])
    appliance.simulator.hold([oldest["full_name"]], "kept")
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"keep": 2}).status_code == 200
    appliance.service.context.scan(0)
    appliance.service.periodic.retention()
    (job,) = [job for job in appliance.get("/jobs?limit=500")["items"] if job["kind"] == "snapshot.retention"]
    assert appliance.ended(job["id"])["result"] == {"destroyed": 19}
    left = [len(appliance.get(f"/datastores/{store}/snapshots")["items"]) for store in stores]
    assert left == [3, 2]


def test_a_snapshot_that_is_being_sent_does_not_stop_retention(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    schedule = clock.schedule(store, keep=20)
    for _ in range(4):
        clock.due()
    oldest = min(appliance.get(f"/datastores/{store}/snapshots")["items"], key=lambda snapshot: snapshot["name"])
    appliance.simulator.sent.add(oldest["full_name"])
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"keep": 1}).status_code == 200
    clock.due(1)
    left = names(appliance, store)
    assert len(left) == 2 and oldest["name"] in left
    clock.due(1)
    assert len([job for job in appliance.get("/jobs?limit=500")["items"] if job["kind"] == "snapshot.retention"]) == 1
    appliance.simulator.sent.clear()
    clock.due(RETRY_SECONDS)  # takes one, too: retention need not see it yet
    clock.due(1)
    assert len(names(appliance, store)) == 1


def test_a_paused_schedule_deletes_nothing(appliance: Appliance, clock: Clock) -> None:
    """Nor does another schedule of the same datastore delete what the paused one took."""
    store = appliance.datastore("first")
    paused = clock.schedule(store, keep=2)
    clock.due()
    clock.due()
    change = {"name": "paused", "enabled": False, "keep": 1}
    assert appliance.request("PATCH", f"/schedules/{paused}", change).status_code == 200
    enabled = clock.schedule(store, keep=1)

    def taken_by(schedule: str) -> int:
        return [shown["schedule"] for shown in appliance.get(f"/datastores/{store}/snapshots")["items"]].count(schedule)

    for _ in range(3):
        clock.due()
    clock.due(1)
    assert (taken_by(paused), taken_by(enabled)) == (2, 1)
    assert appliance.request("POST", f"/schedules/{paused}/run").status_code == 202
    clock.due(1)
    clock.due(1)
    assert taken_by(paused) == 3
    assert appliance.request("PATCH", f"/schedules/{paused}", {"enabled": True}).status_code == 200
    clock.due()
    clock.due(1)
    assert taken_by(paused) == 1


def names(appliance: Appliance, store: str) -> list[str]:
    return [snapshot["name"] for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"]]


def overdue(appliance: Appliance) -> list[str]:
    return [alert["text"] for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("schedule-overdue:")]


def test_last_run_is_that_of_the_job(appliance: Appliance, clock: Clock) -> None:
    schedule = clock.schedule(appliance.datastore("first"))
    appliance.simulator.fail_next("snapshot", OutOfSpace("tank"))
    clock.due()
    assert appliance.get(f"/schedules/{schedule}")["last_at"] is None, "the job failed"
    clock.due()
    assert appliance.get(f"/schedules/{schedule}")["last_at"] is not None


def test_next_run_is_its_slot(appliance: Appliance, clock: Clock) -> None:
    """Not an interval after the end of the last run."""
    path = f"/schedules/{clock.schedule(appliance.datastore('first'))}"

    def next_at() -> float | None:
        text = appliance.get(path)["next_at"]
        return None if text is None else dt.datetime.fromisoformat(text).timestamp()

    due = next_at()
    assert due is not None and due <= time.time(), "the first run is due at once"
    begin = time.time()
    clock.now = begin
    clock.due(0)
    assert next_at() in {moment // 300 * 300 + 300 for moment in (begin, time.time())}
    appliance.request("PATCH", path, {"enabled": False})
    assert next_at() is None
    weekly = {"every_minutes": 7 * 1440, "at": "02:00", "time_zone": "Europe/Berlin"}
    scrub = appliance.request("POST", "/schedules", {"name": "weekly", "kind": "scrub", "pool": "tank", **weekly}).json
    assert scrub is not None
    first = dt.datetime.fromisoformat(scrub["next_at"]).astimezone(zoneinfo.ZoneInfo("Europe/Berlin"))
    assert (first.weekday(), first.hour, first.minute) == (0, 2, 0) and first.timestamp() > begin


def test_a_clock_that_was_ahead_stops_nothing(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    clock.schedule(store, keep=10)
    clock.due(365 * DAY)
    assert len(names(appliance, store)) == 1
    clock.due(-365 * DAY)  # it is set right
    clock.due()
    assert len(names(appliance, store)) == 3


def test_a_slot_of_a_clock_that_was_ahead_is_used_again(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    clock.schedule(store, keep=10)
    clock.due(DAY)
    clock.due(-DAY)  # it is set right
    clock.due(DAY + 7)
    assert len(names(appliance, store)) == 3


def test_an_unknown_time_zone_stops_only_its_schedule(appliance: Appliance, clock: Clock) -> None:
    """As when tzdata no longer has it."""
    store = appliance.datastore("first")
    often = clock.schedule(store, keep=1)
    body = {"name": "odd", "datastores": [store], "every_minutes": 5, "keep": 1, "daily": 2}
    odd = appliance.request("POST", "/schedules", body).json
    assert odd is not None
    clock.due()
    with appliance.store.session() as session:
        session.execute(text("UPDATE schedules SET time_zone = 'Europe/Atlantis' WHERE name = 'odd'"))
    for _ in range(3):
        clock.due()
    shown = appliance.get(f"/datastores/{store}/snapshots")["items"]
    assert [snapshot["schedule"] for snapshot in shown].count(odd["id"]) == 1, "its retention stops too"
    assert [snapshot["schedule"] for snapshot in shown].count(often) in (1, 2)
    assert {item["id"]: item["next_at"] for item in appliance.get("/schedules")["items"]}[odd["id"]] is None
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if "Europe/Atlantis" in alert["text"]]
    assert "--time-zone" in alert["remedy"]
    assert appliance.request("PATCH", f"/schedules/{odd['id']}", {"enabled": False}).status_code == 200
    assert not [alert for alert in appliance.get("/alerts")["items"] if "Europe/Atlantis" in alert["text"]]
    assert appliance.request("PATCH", f"/schedules/{odd['id']}", {"enabled": True}).status_code == 422
    assert appliance.request("PATCH", f"/schedules/{odd['id']}", {"enabled": True, "time_zone": "UTC"}).status_code == 200


def test_protection_ends_in_the_trash(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "safe", "datastores": [store], "protect_days": 7})
    appliance.job("DELETE", f"/datastores/{store}")
    assert appliance.request("POST", f"/datastores/{store}/purge").status_code == 409
    clock.due(8 * DAY)
    appliance.job("POST", f"/datastores/{store}/purge")


def test_snapshots_that_are_too_old_raise_an_alert_until_there_is_a_new_one(appliance: Appliance, clock: Clock) -> None:
    first, second = appliance.datastore("first"), appliance.datastore("second")
    clock.schedule(first, second)
    clock.due()
    assert overdue(appliance) == []
    for _ in range(4):
        appliance.simulator.fail_next("snapshot", OutOfSpace("tank"))
        clock.due()
    (alert,) = overdue(appliance)
    assert "often" in alert and alert.endswith("two intervals, of first, second")
    clock.due()
    clock.due(1)
    assert overdue(appliance) == []


def test_a_datastore_that_is_added_to_a_schedule_is_not_overdue(appliance: Appliance, clock: Clock) -> None:
    first, second = appliance.datastore("first"), appliance.datastore("second")
    schedule = clock.schedule(first)
    with appliance.store.session() as session:
        session.execute(text("UPDATE schedules SET created_at = created_at - 86400"))
    clock.due()
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"datastores": [first, second]}).status_code == 200
    for _ in range(2):
        clock.due(1)
    assert overdue(appliance) == []
    appliance.simulator.fail_next("snapshot", OutOfSpace("tank"), times=4)
    for _ in range(4):
        clock.due()
    assert "second" in overdue(appliance)[0], "the first run with it fails"


def test_a_job_in_the_way_costs_no_slot(appliance: Appliance, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of a minute must not cost a day's snapshot: the next round tries again."""
    store = appliance.datastore("first")
    clock.schedule(store)
    real = appliance.service.executor.submit

    def submit(*_: Any, **__: Any) -> Any:
        raise ConflictError("another job is changing it")

    with monkeypatch.context() as patch:
        patch.setattr(appliance.service.executor, "submit", submit)
        clock.due()
    assert names(appliance, store) == [] and appliance.service.executor.submit == real
    clock.due(30)
    assert len(names(appliance, store)) == 1


def active_job(appliance: Appliance, plan: jobs.Plan, kind: str = "snapshot.create") -> None:
    """A job that is queued and does not begin: the worker's queue ends."""
    appliance.service.executor.stop()
    with appliance.store.session() as session:
        jobs.submit(session, "waiting", kind, plan, "somebody")


def test_a_run_that_has_not_ended_is_the_only_one(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    schedule = clock.schedule(store)
    active_job(appliance, jobs.Plan(subject="something", pools=("tank",), schedule=schedule))
    for _ in range(3):
        clock.now += 300
        clock._take()
    assert [job["id"] for job in appliance.get("/jobs?limit=500")["items"] if job["state"] == "queued"] == ["waiting"]
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if alert["key"] == f"schedule-{schedule}:failed"]
    assert "the previous run has not ended" in alert["text"]
    with appliance.store.session() as session:
        jobs.end(session, "waiting", jobs.SUCCEEDED)
    clock._take()
    clock._take()
    assert len([job for job in appliance.get("/jobs?limit=500")["items"] if job["state"] == "queued"]) == 1


def test_retention_leaves_the_datastore_of_a_job_alone(appliance: Appliance, clock: Clock) -> None:
    """Such as the restore of a VM, whose subject is the VM."""
    store = appliance.datastore("first")
    schedule = clock.schedule(store, keep=20)
    for _ in range(3):
        clock.due()
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"keep": 1}).status_code == 200
    active_job(appliance, jobs.Plan(subject=f"{store}/vm", pools=(), about=(store,)))
    appliance.service.context.scan(0)
    appliance.service.periodic.retention()
    assert [job["id"] for job in appliance.get("/jobs?limit=500")["items"] if job["state"] == "queued"] == ["waiting"]
    with appliance.store.session() as session:
        jobs.end(session, "waiting", jobs.SUCCEEDED)
    appliance.service.periodic.retention()
    assert len([job for job in appliance.get("/jobs?limit=500")["items"] if job["state"] == "queued"]) == 1


def queued_retention(appliance: Appliance, clock: Clock) -> tuple[str, str, list[str], RetirePlan]:
    """A datastore, the path of its schedule, its three snapshots, and a plan that destroys the first two of them."""
    store = appliance.datastore("first")
    path = f"/schedules/{clock.schedule(store, keep=20)}"
    for _ in range(3):
        clock.due()
    snapshots = sorted(snapshot["full_name"] for snapshot in appliance.get(f"/datastores/{store}/snapshots")["items"])
    assert appliance.request("PATCH", path, {"keep": 1}).status_code == 200
    retention = requests.RetireSnapshots(pool="tank", names=snapshots[:2], about=[store])
    return store, path, snapshots, Retire().plan(appliance.service.context, retention)


def test_a_queued_retention_spares_the_snapshot_that_a_vm_is_restored_from(appliance: Appliance, clock: Clock) -> None:
    store, _, snapshots, plan = queued_retention(appliance, clock)
    vm: dict[str, Any] = {"datastore": store, "snapshot": snapshots[0], "folder": "vm", "name": "vm2", "identifier": "unfinished"}
    active_job(appliance, RestoreVmPlan(subject=f"{store}/vm2", pools=(), about=(store,), **vm), RestoreVm.kind)
    assert Retire().run(appliance.service.context, plan, "job", lambda _step, _percent: None).destroyed == 1
    assert {snapshot.name for snapshot in appliance.simulator.snapshots()} == {snapshots[0], snapshots[2]}


@pytest.mark.parametrize("change", [{"enabled": False}, {"keep": 20}, None], ids=["paused", "retains more", "deleted"])
def test_a_queued_retention_heeds_the_schedule_of_now(appliance: Appliance, clock: Clock, change: dict[str, Any] | None) -> None:
    store, path, _, plan = queued_retention(appliance, clock)
    assert appliance.request("PATCH" if change else "DELETE", path, change).status_code == 200
    assert Retire().run(appliance.service.context, plan, "job", lambda _step, _percent: None).destroyed == 0
    assert len(names(appliance, store)) == 3


def test_named_by_schedule_and_time_at_a_time_of_day(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    body = {"name": "every night", "datastores": [store], "every_minutes": 1440, "at": "22:00", "time_zone": "Europe/Berlin"}
    made = appliance.request("POST", "/schedules", {**body, "keep": 1, "daily": 7}).json
    assert made is not None and made["daily"] == 7 and made["at"] == "22:00"
    clock.due(1)
    (name,) = names(appliance, store)
    assert name == f"every-night_{time.strftime('%Y-%m-%d_%H%M%SZ', time.gmtime(clock.now))}"
    clock.due(60)
    assert len(names(appliance, store)) == 1, "its first one is taken at once, the next one in the next slot"
    mistakes: list[dict[str, Any]] = [{"at": "25:00"}, {"time_zone": "Europe/Atlantis"}, {"every_minutes": 7}, {"datastores": []}]
    for wrong in mistakes:
        assert appliance.request("POST", "/schedules", {**body, "name": "wrong", **wrong}).status_code == 422, wrong


def test_only_an_admin_can_reduce_the_retention(appliance: Appliance, clock: Clock) -> None:
    schedule = clock.schedule(appliance.datastore("first"), keep=20)
    path = f"/schedules/{schedule}"
    more = {"keep": 21, "daily": 7, "protect_days": 7, "every_minutes": 10}
    assert appliance.request("PATCH", path, more, "operator").status_code == 200
    smaller: list[dict[str, Any]] = [{"keep": 20}, {"daily": 6}, {"protect_days": 6}, {"every_minutes": 5}]
    for lower in (*smaller, {"at": "00:01"}, {"time_zone": "Europe/Berlin"}):
        assert appliance.request("PATCH", path, lower, "operator").status_code == 403, lower
        assert appliance.request("PATCH", path, lower).status_code == 200, lower
    assert appliance.get(path)["keep"] == 20
    assert appliance.request("POST", f"{path}/run", role="operator").status_code == 403, "its snapshot displaces an older one"
    assert appliance.request("POST", f"{path}/run").status_code == 202


def test_a_restored_schedule_destroys_no_snapshots_unasked(appliance: Appliance, clock: Clock) -> None:
    """It is paused, with an alert, until an admin enables it."""
    store = appliance.datastore("first")
    path = f"/schedules/{clock.schedule(store, keep=2)}"
    appliance.request("POST", "/configuration/recovery-key")
    copy = {"file": json.dumps(appliance.request("POST", "/configuration/backup", {"password": PASSWORD}).json)}
    appliance.request("PATCH", path, {"keep": 20})
    clock.due()
    clock.due()
    appliance.request("POST", "/recovery", copy)
    assert appliance.get(path)["enabled"], "it retains both snapshots"
    appliance.request("PATCH", path, {"keep": 20})
    clock.due()
    changes = appliance.request("POST", "/recovery", copy).json
    assert changes and "schedule often: enabled from True to False" in changes["changes"]
    clock.due()
    (alert,) = appliance.get("/alerts")["items"]
    assert "often is paused" in alert["text"] and "(1)" in alert["text"] and "often --enable" in alert["remedy"]
    assert len(names(appliance, store)) == 3
    assert appliance.request("PATCH", path, {"enabled": True}, "operator").status_code == 403, "that would destroy a snapshot"
    appliance.request("PATCH", path, {"enabled": True})
    assert appliance.get("/alerts")["items"] == []


def test_a_protected_snapshot_cannot_be_destroyed_before_its_age(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    schedule = clock.schedule(store, keep=1)
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"protect_days": 7}).status_code == 200
    appliance.job("POST", "/snapshots", {"name": "before", "datastores": [store]})
    clock.due()
    clock.due()
    protected = [name for name in names(appliance, store) if name != "before"]
    assert len(protected) == 2, "the schedule keeps 1, and may not destroy the other"
    taken_by = {shown["name"]: shown["schedule"] for shown in appliance.get(f"/datastores/{store}/snapshots")["items"]}
    assert taken_by == {"before": None} | dict.fromkeys(protected, schedule)
    deletion = ("POST", f"/datastores/{store}/snapshots/delete", {"names": protected[:1]})
    refused = appliance.request(*deletion)
    assert refused.status_code == 409 and refused.json and "(protected until " in refused.json["blocking"][0]
    hold = f"/datastores/{store}/snapshots/{protected[0]}/holds/zvaai-protect"
    assert appliance.request("DELETE", hold).status_code == 409
    rollback = appliance.request("POST", f"/datastores/{store}/snapshots/before/rollback", {"force": True})
    assert rollback.status_code == 409 and rollback.json and "protect" in rollback.json["detail"]
    assert appliance.request("PATCH", f"/schedules/{schedule}", {"protect_days": 0}).status_code == 200
    assert appliance.request(*deletion).status_code == 409, "less protection is for snapshots to come"
    appliance.job("DELETE", f"/datastores/{store}")
    assert appliance.request("POST", f"/datastores/{store}/purge").status_code == 409
    appliance.job("POST", f"/datastores/{store}/restore", {})
    clock.due(7 * DAY)  # the hold is released
    clock.due(1)
    assert [name for name in names(appliance, store) if name in protected] == []


def test_the_end_of_a_protection_is_one_job_though_a_user_holds_the_snapshot(appliance: Appliance, clock: Clock) -> None:
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "safe", "datastores": [store], "protect_days": 7})
    appliance.job("POST", f"/datastores/{store}/snapshots/safe/holds", {"tag": "audit"})
    clock.schedule(store, keep=9)
    clock.due(8 * DAY)
    clock.due(1)
    clock.due(1)
    ended = [job for job in appliance.get("/jobs?limit=500")["items"] if job["kind"] == "snapshot.retention"]
    assert len(ended) == 1
    deletion = appliance.request("POST", f"/datastores/{store}/snapshots/delete", {"names": ["safe"]})
    assert deletion.json and deletion.json["blocking"] == ["safe (held: audit)"]


def test_a_pool_is_scrubbed_by_the_clock(appliance: Appliance, clock: Clock) -> None:
    body = {"name": "scrub tank", "kind": "scrub", "pool": "tank", "every_minutes": 7 * 1440, "at": "02:00"}
    made = appliance.request("POST", "/schedules", body).json
    assert made is not None
    clock.due(1)
    assert appliance.get("/pools/tank")["scan"] is None, "the first is in the next slot"
    clock.due(7 * DAY)
    assert appliance.get("/pools/tank")["scan"]["function"] == "scrub" and overdue(appliance) == []
    for wrong in ({"pool": "absent"}, {"pool": None}, {"every_minutes": 60}, {"datastores": [appliance.datastore("first")]}):
        assert appliance.request("POST", "/schedules", {**body, "name": "wrong", **wrong}).status_code in (404, 422), wrong


@pytest.mark.parametrize("changed", ["at", "every_minutes", "enabled", "name"])
def test_a_scrub_schedule_that_is_changed_starts_in_its_next_slot(appliance: Appliance, clock: Clock, changed: str) -> None:
    """Not at once, in working hours. But a slot that was missed stays due while another setting changes."""
    at, earlier = (time.strftime("%H:%M", time.gmtime(clock.now - hours * 3600)) for hours in (1, 2))
    body = {"name": "scrub", "kind": "scrub", "pool": "tank", "every_minutes": 1440, "at": at}
    start = {"at": earlier, "every_minutes": 7 * 1440, "enabled": False, "name": "weekly"}
    made = appliance.request("POST", "/schedules", {**body, changed: start[changed]}).json
    assert made is not None
    with appliance.store.session() as session:
        session.execute(text("UPDATE schedules SET attempted_at = :at"), {"at": clock.now - 1.5 * DAY})
    value = {"enabled": True, **body}[changed]
    assert appliance.request("PATCH", f"/schedules/{made['id']}", {changed: value}).status_code == 200
    clock.due(1)
    assert (appliance.get("/pools/tank")["scan"] is None) == (changed != "name")
    clock.due(DAY)
    assert appliance.get("/pools/tank")["scan"]["function"] == "scrub"


def test_a_scheduled_scrub_meets_another_scan(appliance: Appliance, clock: Clock) -> None:
    """It waits for a resilver, and is content with a scrub."""
    appliance.request("POST", "/schedules", {"name": "weekly", "kind": "scrub", "pool": "tank", "every_minutes": 7 * 1440})
    clock.due(1)
    simulator = appliance.simulator
    simulator.scan_seconds = 1e9
    free = next(disk.path for disk in simulator.disks() if disk.used_by is None)
    simulator.replace("tank", simulator.pool("tank").devices()[0].path or "", free)
    clock.due(7 * DAY)
    (alert,) = appliance.get("/alerts")["items"]
    assert alert["text"] == "schedule weekly: pool tank resilvers. A scrub can start after that"
    assert alert["remedy"] == "It is tried again until the next slot"
    resilver = simulator.pool_state("tank").scan
    assert resilver is not None
    resilver.seconds = 0
    clock.due(60)
    scrub = appliance.get("/pools/tank")["scan"]
    assert (scrub["function"], scrub["state"], appliance.get("/alerts")["items"]) == ("scrub", "scanning", [])
    clock.due(7 * DAY)
    assert appliance.get("/pools/tank")["scan"]["started"] == scrub["started"] and appliance.get("/alerts")["items"] == []


def test_a_scheduled_scrub_waits_for_its_pool(appliance: Appliance, clock: Clock) -> None:
    appliance.request("POST", "/schedules", {"name": "weekly", "kind": "scrub", "pool": "tank", "every_minutes": 7 * 1440})
    clock.due(1)
    appliance.simulator.export_pool("tank")
    clock.due(7 * DAY)
    appliance.simulator.import_pool("tank")
    clock.due(60)
    assert appliance.get("/pools/tank")["scan"]["function"] == "scrub"


def test_a_run_is_no_change_of_the_configuration(appliance: Appliance, clock: Clock) -> None:
    """Each change is copied to each pool: not with each snapshot."""
    clock.schedule(appliance.datastore("first"))

    def generation() -> int:
        with appliance.store.reading() as session:
            return int(session.execute(text("SELECT generation FROM installation")).scalar_one())

    before = generation()
    clock.due()
    clock.due()
    assert generation() == before
