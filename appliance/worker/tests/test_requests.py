# SPDX-License-Identifier: Apache-2.0
"""Requests to the worker: late, repeated, concurrent; and its status."""

import threading
import time
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance

from appliance.domain.errors import UnavailableError


def jobs_of(appliance: Appliance, kind: str) -> list[Any]:
    return [job for job in appliance.get("/jobs?limit=500")["items"] if job["kind"] == kind]


def test_the_same_request_after_a_503_is_the_same_job(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    submit = appliance.service.executor.submit

    def submit_and_be_late(*arguments: Any, **named: Any) -> Any:
        submit(*arguments, **named)
        raise UnavailableError("the answer came too late")

    path, body = f"/datastores/{store}/snapshots/one/rollback", {"force": True}
    with monkeypatch.context() as patch:
        patch.setattr(appliance.service.executor, "submit", submit_and_be_late)
        assert appliance.request("POST", path, body, Idempotency_Key="roll back").status_code == 503
    begun = jobs_of(appliance, "snapshot.rollback")
    assert appliance.ended(begun[0]["id"])["state"] == "succeeded"  # and hosts write again
    again = appliance.request("POST", path, body, Idempotency_Key="roll back")
    assert again.status_code == 202 and again.json is not None and again.json["id"] == begun[0]["id"]
    assert len(jobs_of(appliance, "snapshot.rollback")) == 1
    other = appliance.request("POST", path, body, Idempotency_Key="another")
    assert other.json is not None and appliance.ended(other.json["id"])["id"] != begun[0]["id"]


def test_abandoned_requests_are_not_begun(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    appliance.service.context.scan()
    scan = appliance.service.context.scan

    def scan_slowly(*arguments: Any) -> Any:
        time.sleep(0.6)
        return scan(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("appliance.api.operation.SUBMIT_S", 0.5)
        patch.setattr(appliance.service.context, "scan", scan_slowly)
        answer = appliance.request("POST", "/datastores", {"name": "first", "pool": "tank", "size": str(GIB)})
        assert answer.status_code == 503
    assert jobs_of(appliance, "datastore.create") == []
    appliance.datastore("first")


class Waiting:
    """A lock that counts its waiting threads."""

    def __init__(self) -> None:
        self.changed, self.count, self._lock = threading.Condition(), 0, threading.Lock()

    def __enter__(self) -> None:
        with self.changed:
            self.count += 1
            self.changed.notify_all()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_many_waiting_requests_scan_once(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    context, scans, callers = appliance.service.context, [], 16
    datasets, waiting = context.engine.datasets, Waiting()

    def scan_slowly(*arguments: Any) -> Any:
        scans.append(1)
        with waiting.changed:
            assert waiting.changed.wait_for(lambda: waiting.count >= callers, 60)
        return datasets(*arguments)

    monkeypatch.setattr(context.engine, "datasets", scan_slowly)
    monkeypatch.setattr(context, "_scanning", waiting)
    for newest in (0.0, None):
        scans.clear()
        waiting.count = 0
        callers_threads = [threading.Thread(target=context.scan, args=(newest,)) for _ in range(callers)]
        for thread in callers_threads:
            thread.start()
        for thread in callers_threads:
            thread.join()
        assert 1 <= len(scans) <= 3


def test_an_internal_error_is_not_a_restart(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(appliance.service, "pools", fail)
    answer = appliance.request("GET", "/pools")
    assert answer.status_code == 500 and answer.json is not None and answer.json["code"] == "internal"
    assert "a fault" not in answer.text
