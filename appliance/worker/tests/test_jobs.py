# SPDX-License-Identifier: Apache-2.0
"""Jobs: their stored form, and which of them wait for which."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from sqlalchemy import delete

from appliance.database.models import Job
from appliance.domain import jobs, requests
from appliance.worker import executor
from appliance.worker.executor import BY_REQUEST, OPERATIONS
from appliance.worker.pool_reading import PoolReading
from appliance.worker.tests.test_files import until
from appliance.zfs.model import DatasetList, Redundancy, VdevSpec


@pytest.mark.parametrize("kind", ["datastore.of_tomorrow", "datastore.grow"])
def test_a_job_that_this_version_cannot_read_fails_alone(kind: str, appliance: Appliance) -> None:
    """Like after a downgrade: an unknown kind, or a plan with other fields."""
    job = str(uuid.uuid4())
    with appliance.store.session() as session:
        jobs.submit(session, job, kind, jobs.Plan(subject="something", pools=("tank",)), "tomorrow")
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and "does not know" in ended["problem"]["text"]
    appliance.datastore("first")


def test_each_request_has_one_operation_and_each_plan_one_row() -> None:
    assert len(BY_REQUEST) == len(OPERATIONS)
    for operation in OPERATIONS.values():
        assert issubclass(operation.request, requests.Request) and issubclass(operation.plan_type, jobs.Plan)
        assert operation.plan_type is not jobs.Plan, "its fields would be lost"


# --- a pool that hangs


@pytest.fixture
def hanging(appliance: Appliance) -> Iterator[str]:
    """A second pool with a datastore, which will hang."""
    disks = appliance.simulator.disks()
    appliance.simulator.create_pool("rust", [VdevSpec(devices=(disks[2].path,), redundancy=Redundancy.STRIPE)])
    appliance.job("POST", "/datastores", {"name": "stuck", "pool": "rust", "size": str(GIB)})
    yield "rust"


def hang(appliance: Appliance, pool: str) -> threading.Event:
    answers = threading.Event()
    appliance.simulator.hanging[pool] = answers
    return answers


def within[T](seconds: float, what: Callable[[], T]) -> T:
    began = time.monotonic()
    result = what()
    assert time.monotonic() - began < seconds
    return result


def test_a_pool_that_hangs_delays_no_job_snapshot_or_list_of_another(appliance: Appliance, hanging: str) -> None:
    store = appliance.datastore("works")
    limit = 60  # What waited for the other pool would wait without end.
    answers = hang(appliance, hanging)
    try:
        made = within(limit, lambda: appliance.datastore("another"))
        within(limit, lambda: appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]}))
        within(limit, lambda: appliance.job("POST", f"/datastores/{store}/snapshots/one/rollback", {}))
        listed = within(
            limit, lambda: {datastore["id"]: datastore["state"] for datastore in appliance.get("/datastores")["items"]}
        )
        assert listed[store] == listed[made] == "active"
        pools = within(limit, lambda: {pool["name"]: pool for pool in appliance.get("/pools")["items"]})
        assert pools["tank"]["health"] == "ONLINE"
        assert pools["rust"]["health"] == "SUSPENDED" and "does not answer" in pools["rust"]["status"]
    finally:
        answers.set()
        appliance.simulator.hanging.clear()
    wait_for(lambda: {pool["name"]: pool["health"] for pool in appliance.get("/pools")["items"]}["rust"] == "ONLINE")


def test_a_pool_raises_an_alert_only_after_it_was_read_for_a_minute(
    appliance: Appliance, hanging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a boot a slow pool can be read for some seconds longer than a quick one."""
    monkeypatch.setattr("appliance.worker.pool_reading.SHORTEST_LIMIT", 0.1)
    answers = hang(appliance, hanging)

    def alerts() -> list[tuple[str, str]]:
        inventory = appliance.service.context.scan()
        assert {pool.name: pool.health for pool in inventory.pools}[hanging] == "SUSPENDED"
        appliance.service.periodic.capacity()
        return [(alert["key"], alert["severity"]) for alert in appliance.get("/alerts")["items"]]

    try:
        assert alerts() == []
        monkeypatch.setattr("appliance.domain.capacity.UNREAD_S", 0.01)
        assert alerts() == [(f"capacity:health:{hanging}", "critical")]
    finally:
        answers.set()
        appliance.simulator.hanging.clear()


def test_a_slow_pool_is_not_shown_as_suspended_by_a_quick_one(
    appliance: Appliance, hanging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = appliance.simulator.datasets

    def datasets(root: str | None = None) -> DatasetList:
        time.sleep(1.0 if root == hanging else 0.0)
        return real(root)

    monkeypatch.setattr(appliance.simulator, "datasets", datasets)
    monkeypatch.setattr("appliance.worker.pool_reading.SHORTEST_LIMIT", 0.1)
    reading = PoolReading(appliance.simulator, ())
    for _ in range(2):
        reading.read()
        time.sleep(1.5)
    reading.read()
    assert {pool.name: pool.health for pool in reading.content().pools} == {"tank": "ONLINE", hanging: "ONLINE"}


def test_no_pool_is_shown_as_suspended_because_the_machine_was_stopped(
    appliance: Appliance, hanging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a minute, while a pool was being read."""
    real, reader, times, stopped = appliance.simulator.datasets, threading.current_thread(), itertools.count(1), threading.Event()

    def datasets(root: str | None = None) -> DatasetList:
        assert root != hanging or stopped.wait(60)
        return real(root)

    def monotonic() -> float:
        number = next(times) if threading.current_thread() is reader else 0
        if number > 2:
            stopped.set()
        return time.monotonic() + (60 if number > 1 else 0)

    monkeypatch.setattr(appliance.simulator, "datasets", datasets)
    monkeypatch.setattr("appliance.worker.pool_reading.time", SimpleNamespace(monotonic=monotonic))
    reading = PoolReading(appliance.simulator, ())
    reading.read()
    assert {pool.name: pool.health for pool in reading.content().pools} == {"tank": "ONLINE", hanging: "ONLINE"}


def test_a_pool_that_cannot_be_read_hides_no_other(appliance: Appliance, hanging: str) -> None:
    stuck = next(datastore for datastore in appliance.get("/datastores")["items"] if datastore["name"] == "stuck")
    appliance.simulator.set_properties(stuck["dataset"], {"org.example:odd": "a\ufffd"})  # not UTF-8
    appliance.datastore("works")
    until(lambda: any("cannot be read" in pool.status for pool in appliance.service.context.scan(0).pools))
    pools = {pool["name"]: pool for pool in appliance.get("/pools")["items"]}
    assert pools["tank"]["health"] == "ONLINE"
    assert pools[hanging]["health"] == "SUSPENDED" and "cannot be read" in pools[hanging]["status"]
    assert stuck["id"] in served(appliance), "its LUN stays"


def test_an_admin_abandons_a_job_of_a_pool_that_hangs(appliance: Appliance, hanging: str) -> None:
    stuck = next(datastore["id"] for datastore in appliance.get("/datastores")["items"] if datastore["name"] == "stuck")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [stuck]})
    answers, real = threading.Event(), appliance.simulator.rollback
    begun = threading.Event()

    def rollback(*arguments: Any, **options: Any) -> None:
        begun.set()
        answers.wait()
        real(*arguments, **options)

    appliance.simulator.rollback = rollback  # type: ignore[method-assign]
    answer = appliance.request("POST", f"/datastores/{stuck}/snapshots/one/rollback", {})
    assert answer.status_code == 202 and answer.json is not None and begun.wait(60)
    job = answer.json["id"]
    try:
        assert appliance.request("POST", f"/jobs/{job}/abandon", role="operator").status_code == 403
        abandoned = appliance.request("POST", f"/jobs/{job}/abandon")
        assert abandoned.status_code == 200 and abandoned.json is not None and abandoned.json["state"] == "failed"
        assert "repeat the job" in abandoned.json["problem"]["text"]
        appliance.service.context.reconciling.reconcile("test")
        assert stuck not in served(appliance), "its LUN stays out of service"
        assert appliance.request("POST", f"/jobs/{job}/abandon").status_code == 409
    finally:
        answers.set()
    appliance.ended(job)
    assert appliance.get(f"/jobs/{job}")["problem"]["code"] == "abandoned", "what its thread does afterwards changes nothing"
    appliance.service.context.reconciling.reconcile("test")
    assert stuck not in served(appliance), "it remains out of service"
    appliance.service.periodic.capacity()
    until(lambda: any("is not served" in alert["text"] for alert in appliance.get("/alerts")["items"]))
    within(30, lambda: appliance.job("PATCH", f"/datastores/{stuck}", {"soft_threshold": 50}))
    appliance.service.context.reconciling.reconcile("test")
    assert stuck in served(appliance), "another job of it has succeeded"
    with appliance.store.session() as session:
        session.execute(delete(Job).where(Job.state == jobs.SUCCEEDED))  # as of old jobs
        assert jobs.out_of_service(session) == set()


def test_clear_waits_for_no_job_of_its_pool(appliance: Appliance, hanging: str) -> None:
    stuck = next(datastore["id"] for datastore in appliance.get("/datastores")["items"] if datastore["name"] == "stuck")
    device = appliance.get(f"/pools/{hanging}")["vdevs"][0]["path"]
    with appliance.simulator.held_next("snapshot"):
        job = appliance.request("POST", "/snapshots", {"name": "one", "datastores": [stuck]}).json
        wait_for(lambda: not appliance.simulator.waits["snapshot"])
        appliance.job("POST", f"/pools/{hanging}/device", {"device": device, "action": "clear"})
        assert job is not None and appliance.get(f"/jobs/{job['id']}")["state"] == "running"
    assert appliance.ended(job["id"])["state"] == "succeeded"


def test_clear_waits_for_no_other_job_either(appliance: Appliance, hanging: str) -> None:
    """Neither for another change of the pool that hangs, nor for a place among the jobs without a pool."""
    device = appliance.get(f"/pools/{hanging}")["vdevs"][0]["path"]
    with pytest.MonkeyPatch.context() as patch, appliance.simulator.held_next("trim_start"):
        patch.setattr(executor, "_WITHOUT_POOL", 0)
        job = appliance.request("POST", f"/pools/{hanging}/trim", {"action": "start"}).json
        wait_for(lambda: not appliance.simulator.waits["trim_start"])
        appliance.job("POST", f"/pools/{hanging}/device", {"device": device, "action": "clear"})
        assert job is not None and appliance.get(f"/jobs/{job['id']}")["state"] == "running"


@pytest.mark.parametrize(("by", "new_name"), [("name", None), ("guid", None), ("name", "other")])
def test_an_export_that_was_abandoned_ends_with_the_next_import(
    appliance: Appliance, hanging: str, by: str, new_name: str | None
) -> None:
    pool = appliance.get(f"/pools/{hanging}")
    stuck = next(datastore["id"] for datastore in appliance.get("/datastores")["items"] if datastore["name"] == "stuck")
    with appliance.simulator.held_next("export_pool"):
        job = appliance.request("POST", f"/pools/{hanging}/export", {}).json
        assert job is not None
        wait_for(lambda: not appliance.simulator.waits["export_pool"])
        assert appliance.request("POST", f"/jobs/{job['id']}/abandon").status_code == 200
    appliance.ended(job["id"])
    wait_for(lambda: all(pool["name"] != hanging for pool in appliance.get("/pools")["items"]))
    appliance.job("POST", "/pools/import", {"pool": pool[by], "new_name": new_name})
    assert stuck in served(appliance)


def served(appliance: Appliance) -> set[str]:
    return {lun.lun.uuid for target in appliance.target.targets() for lun in target.luns}


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_jobs_of_one_pool_run_in_order_one_at_a_time(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store, running, most, order = appliance.datastore("first"), [0], [0], []
    real = appliance.simulator.snapshot

    def snapshot(names: Any, **options: Any) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        order.append(names[0].partition("@")[2])
        time.sleep(0.02)
        real(names, **options)
        running[0] -= 1

    monkeypatch.setattr(appliance.simulator, "snapshot", snapshot)
    names = [f"snapshot{number}" for number in range(5)]
    made = [appliance.request("POST", "/snapshots", {"name": name, "datastores": [store]}).json for name in names]
    for job in made:
        assert job is not None and appliance.ended(job["id"])["state"] == "succeeded"
    assert most == [1] and order == names
