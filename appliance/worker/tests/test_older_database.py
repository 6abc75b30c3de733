"""An older copy of the database that is put back by hand: what was under way in it is not done now."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from appliance.testing import GIB, Appliance


@pytest.fixture
def copied(appliance: Appliance, tmp_path: Path) -> Callable[[Callable[[], Any]], str]:
    """Has a job asked for, which is under way in a copy of the database, and ends then; its identifier."""

    def ask(request: Callable[[], Any]) -> str:
        appliance.service.executor.stop()
        answer = request()
        assert answer.status_code == 202, answer.text
        _copied(appliance.configuration.database, tmp_path / "older")
        appliance.restart_worker()
        job = str(answer.json["id"])
        assert appliance.ended(job)["state"] == "succeeded", "it was interrupted, and is taken up again"
        return job

    return ask


def _copied(source: Path, to: Path) -> None:
    with closing(sqlite3.connect(source)) as older, closing(sqlite3.connect(to)) as newer:
        older.backup(newer)


def put_back(appliance: Appliance, older: Path) -> None:
    """While the worker is stopped, as an admin would."""
    appliance.service.executor.stop()
    _copied(older, appliance.configuration.database)
    appliance.restart_worker()


def test_a_datastore_that_is_there_again_is_not_deleted(
    appliance: Appliance, copied: Callable[[Callable[[], Any]], str], tmp_path: Path
) -> None:
    store = appliance.datastore("first")
    job = copied(lambda: appliance.request("DELETE", f"/datastores/{store}"))
    appliance.job("POST", f"/datastores/{store}/restore", {})
    put_back(appliance, tmp_path / "older")
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and "older copy" in ended["problem"]["text"], ended
    appliance.datastore("second")  # jobs go on
    assert appliance.get(f"/datastores/{store}")["state"] == "active"


def test_what_it_had_made_is_not_taken_back(
    appliance: Appliance, copied: Callable[[Callable[[], Any]], str], tmp_path: Path
) -> None:
    body = {"name": "first", "pool": "tank", "size": str(GIB)}
    job = copied(lambda: appliance.request("POST", "/datastores", body))
    before = [one.guid for one in appliance.simulator.volumes()]
    put_back(appliance, tmp_path / "older")
    assert appliance.ended(job)["state"] == "failed"
    appliance.datastore("second")
    assert [one.guid for one in appliance.simulator.volumes()][: len(before)] == before and before
    assert appliance.request("POST", "/reconcile").status_code == 200
    assert {one["name"]: one["state"] for one in appliance.get("/datastores")["items"]} == {"first": "active", "second": "active"}


def test_a_queued_job_that_was_cancelled_is_not_done(appliance: Appliance, tmp_path: Path) -> None:
    store = appliance.datastore("first")
    appliance.service.executor.stop()
    answer = appliance.request("DELETE", f"/datastores/{store}")
    assert answer.json is not None
    _copied(appliance.configuration.database, tmp_path / "older")
    assert appliance.request("POST", f"/jobs/{answer.json['id']}/cancel").status_code == 200
    appliance.restart_worker()
    appliance.datastore("second")
    put_back(appliance, tmp_path / "older")
    assert appliance.ended(answer.json["id"])["state"] == "failed" and appliance.get(f"/datastores/{store}")["state"] == "active"


def test_another_installations_database(appliance: Appliance) -> None:
    """It has no file beside it."""
    store = appliance.datastore("first")
    appliance.service.executor.stop()
    answer = appliance.request("DELETE", f"/datastores/{store}")
    assert answer.json is not None
    appliance.configuration.jobs_under_way.unlink()
    appliance.restart_worker()
    assert appliance.ended(answer.json["id"])["state"] == "failed" and appliance.get(f"/datastores/{store}")["state"] == "active"


def test_what_can_not_be_noted_is_not_begun(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    appliance.configuration.jobs_under_way.with_suffix(".new").mkdir()
    answer = appliance.request("DELETE", f"/datastores/{store}")
    assert answer.status_code == 503 and "noted" in answer.text
    assert appliance.get(f"/datastores/{store}")["state"] == "active"
    assert not [one for one in appliance.get("/jobs")["items"] if one["kind"] == "datastore.delete"]
    appliance.configuration.jobs_under_way.with_suffix(".new").rmdir()
    appliance.job("DELETE", f"/datastores/{store}")
