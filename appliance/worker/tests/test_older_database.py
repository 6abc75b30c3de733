# SPDX-License-Identifier: Apache-2.0
"""An older copy of the database that is put back by hand: what was under way in it is not done now."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from appliance.domain import datastores as domain
from appliance.domain import exports, jobs
from appliance.domain.requests import CreateDatastore
from appliance.helper.client import HelperClient
from appliance.helper.tests.served import served
from appliance.testing import GIB, Appliance
from appliance.worker.context import Context
from appliance.worker.operations import Create, CreatePlan
from appliance.zfs.errors import EngineUnavailable
from appliance.zfs.job_notes import Noted, NotesFile, PoolMarks


@pytest.fixture
def copied(appliance: Appliance, tmp_path: Path) -> Callable[[Callable[[], Any]], str]:
    """Has a job asked for, which is under way in a copy of the database, and ends then; its identifier."""

    def ask(request: Callable[[], Any]) -> str:
        appliance.service.executor.stop()
        answer = request()
        assert answer.status_code == 202, answer.text
        copied_database(appliance.configuration.database, tmp_path / "older")
        appliance.restart_worker()
        job = str(answer.json["id"])
        assert appliance.ended(job)["state"] == "succeeded", "it was interrupted, and is taken up again"
        return job

    return ask


def copied_database(source: Path, to: Path) -> None:
    with closing(sqlite3.connect(source)) as older, closing(sqlite3.connect(to)) as newer:
        older.backup(newer)


def put_back(appliance: Appliance, older: Path) -> None:
    """While the worker is stopped, as an admin would."""
    appliance.service.executor.stop()
    copied_database(older, appliance.configuration.database)
    appliance.restart_worker()


def waiting(appliance: Appliance, request: Callable[[], Any]) -> str:
    """A job that is asked for and does not begin: the worker ends."""
    appliance.service.executor.stop()
    answer = request()
    assert answer.status_code == 202, answer.text
    return str(answer.json["id"])


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


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
@pytest.mark.parametrize("moment", ["planned", "noted"])
def test_a_number_is_chosen_anew_that_was_given_away_meanwhile(
    moment: str, kind: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reconciler, to a datastore that it finds between plan and job."""
    found, real, really = [str(uuid.UUID(int=7))], Create.plan, NotesFile.note_jobs
    plans: list[CreatePlan] = []

    def give_away() -> None:
        if not found:
            return
        with appliance.store.session() as session:
            if kind == "vmfs":
                domain.present(session, found.pop(), plans[-1].claims.lun or 0, None)
            else:
                exports.show(session, found.pop(), plans[-1].claims.export or 0, "/found")

    def plan(self: Create, context: Context, asked: CreateDatastore) -> CreatePlan:
        planned = real(self, context, asked)
        plans.append(planned)
        if moment == "planned":
            give_away()
        return planned

    def note_jobs(self: NotesFile, ids: Sequence[str], database: str, ended: int) -> None:
        really(self, ids, database, ended)
        give_away()

    monkeypatch.setattr(Create, "plan", plan)
    monkeypatch.setattr(NotesFile, "note_jobs", note_jobs)
    store = appliance.get(f"/datastores/{appliance.datastore('first', kind=kind)}")
    assert (store["lun"], store["export"]) == ((1, None) if kind == "vmfs" else (None, 2))
    assert len(plans) == 2 and not NotesFile(appliance.configuration.jobs_under_way).noted_jobs().jobs, "nothing is under way"


def test_who_writes_does_not_wait_for_the_helper_that_notes(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take long: logins and other jobs would fail meanwhile."""
    store, written, really = appliance.datastore("first"), threading.Event(), NotesFile.note_jobs

    def note_jobs(self: NotesFile, ids: Sequence[str], database: str, ended: int) -> None:
        if ids:
            with closing(sqlite3.connect(appliance.configuration.database, timeout=20, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            written.set()
        really(self, ids, database, ended)

    monkeypatch.setattr(NotesFile, "note_jobs", note_jobs)
    appliance.job("DELETE", f"/datastores/{store}")
    assert written.is_set()


def test_a_queued_job_that_was_cancelled_is_not_done(appliance: Appliance, tmp_path: Path) -> None:
    store = appliance.datastore("first")
    appliance.service.executor.stop()
    answer = appliance.request("DELETE", f"/datastores/{store}")
    assert answer.json is not None
    copied_database(appliance.configuration.database, tmp_path / "older")
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


def test_what_had_begun_by_another_installations_database_may_be_there_still(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    job = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))
    with appliance.store.session() as session:
        jobs.begin(session, job)
    appliance.configuration.jobs_under_way.unlink()
    appliance.restart_worker()
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and "not taken back" in ended["problem"]["left"], ended
    assert appliance.get(f"/datastores/{store}")["state"] == "active"


def test_the_whole_folder_put_back_begins_nothing(appliance: Appliance, tmp_path: Path) -> None:
    """What tells old from new lies with the root helper."""
    state, then = appliance.configuration.state_directory, tmp_path / "then"
    store = appliance.datastore("first")
    with _by_helper(appliance, tmp_path / "one"):
        job = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))
        then.mkdir()
        copied_database(appliance.configuration.database, then / appliance.configuration.database.name)
        for file in state.iterdir():
            if file.is_file() and not file.name.startswith(appliance.configuration.database.name):
                shutil.copy(file, then)
        appliance.restart_worker()
        assert appliance.ended(job)["state"] == "succeeded", "it was interrupted, and is taken up again"
        appliance.job("POST", f"/datastores/{store}/restore", {})
        appliance.service.executor.stop()
        for file in then.iterdir():
            if file.name != appliance.configuration.database.name:
                shutil.copy(file, state)
        put_back(appliance, then / appliance.configuration.database.name)
        assert appliance.ended(job)["state"] == "failed" and appliance.get(f"/datastores/{store}")["state"] == "active"
        job = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))
    with _by_helper(appliance, tmp_path / "another"):  # another server's, which got the folder
        assert appliance.ended(job)["state"] == "failed" and appliance.get(f"/datastores/{store}")["state"] == "active"


@contextmanager
def _by_helper(appliance: Appliance, directory: Path) -> Iterator[None]:
    """The worker, started anew, asks a helper, which keeps its notes there."""
    directory.mkdir()
    notes = NotesFile(directory / "jobs", PoolMarks(appliance.simulator))
    engine = appliance.service.context.engine
    with served(appliance.simulator, directory / "helper.sock", notes=notes):
        appliance.service.context.engine = client = HelperClient(directory / "helper.sock")
        appliance.restart_worker()
        yield
        appliance.service.stop()
        appliance.service.context.engine = engine
        client.close()


def test_a_helper_that_is_away_at_the_start_is_waited_for(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    store, away, asked = appliance.datastore("first"), [True], threading.Event()
    job = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))
    really = NotesFile.noted_jobs

    def noted_jobs(self: NotesFile) -> Noted:
        if away:
            asked.set()
            raise EngineUnavailable("the helper does not answer")
        return really(self)

    monkeypatch.setattr(NotesFile, "noted_jobs", noted_jobs)
    appliance.restart_worker(sorts_out=False)
    assert asked.wait(60) and appliance.get(f"/jobs/{job}")["state"] == "queued"
    away.clear()
    assert appliance.ended(job)["state"] == "succeeded"


def test_a_worker_starts_though_it_can_note_nothing_in_the_database(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk; what is under way waits until it can."""
    store = appliance.datastore("first")
    job = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))
    appliance.configuration.jobs_under_way.unlink()
    full, tried, really = [True], threading.Event(), jobs.end

    def end(*arguments: Any, **named: Any) -> None:
        if full:
            tried.set()
            raise OperationalError("UPDATE jobs", None, Exception("database or disk is full"))
        really(*arguments, **named)

    monkeypatch.setattr(jobs, "end", end)
    appliance.restart_worker(sorts_out=False)
    new = appliance.request("POST", "/datastores", {"name": "second", "pool": "tank", "size": str(GIB)}).json
    assert new is not None and tried.wait(60)
    assert {appliance.get(f"/jobs/{one}")["state"] for one in (job, new["id"])} == {"queued"}
    full.clear()
    assert [appliance.ended(one)["state"] for one in (job, new["id"])] == ["failed", "succeeded"]
    assert appliance.get(f"/datastores/{store}")["state"] == "active"


def test_what_can_not_be_noted_is_not_begun(appliance: Appliance) -> None:
    store = appliance.datastore("first")
    appliance.configuration.jobs_under_way.with_suffix(".new").mkdir()
    answer = appliance.request("DELETE", f"/datastores/{store}")
    assert answer.status_code == 503 and "noted" in answer.text
    assert appliance.get(f"/datastores/{store}")["state"] == "active"
    assert not [one for one in appliance.get("/jobs")["items"] if one["kind"] == "datastore.delete"]
    appliance.configuration.jobs_under_way.with_suffix(".new").rmdir()
    appliance.job("DELETE", f"/datastores/{store}")
