# SPDX-License-Identifier: Apache-2.0
"""A system disk that is put back as it was, with database and root helper's note: the pools know what has been since."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from appliance.database.models import Setting
from appliance.domain import jobs
from appliance.testing import GIB, Appliance
from appliance.worker.tests.test_older_database import copied_database, put_back, waiting
from appliance.zfs.errors import OutOfSpace
from appliance.zfs.job_notes import PROPERTY, Ended, NotesFile, PoolMarks

ELSEWHERE = "99999999-0000-4000-8000-000000000000"


class Disk:
    """The appliance's system disk as it was when this was made."""

    def __init__(self, appliance: Appliance, folder: Path) -> None:
        self._appliance, self._folder = appliance, folder
        folder.mkdir()
        configuration = appliance.configuration
        copied_database(configuration.database, folder / "database")
        shutil.copy(configuration.jobs_under_way, folder / "jobs")

    def put_back(self) -> None:
        """And the worker started on it."""
        self._appliance.service.stop()
        shutil.copy(self._folder / "jobs", self._appliance.configuration.jobs_under_way)
        put_back(self._appliance, self._folder / "database")


@pytest.fixture
def began(appliance: Appliance, tmp_path: Path) -> Callable[[Callable[[], Any]], tuple[str, Disk]]:
    """Has a job asked for, which is under way on a copy of the disk, and ends then."""

    def ask(request: Callable[[], Any]) -> tuple[str, Disk]:
        job = waiting(appliance, request)
        with appliance.store.session() as session:
            jobs.begin(session, job)
        disk = Disk(appliance, tmp_path / "older")
        appliance.restart_worker()
        assert appliance.ended(job)["state"] == "succeeded", "it was interrupted, and is taken up again"
        return job, disk

    return ask


def older(appliance: Appliance) -> list[dict[str, Any]]:
    """Open alerts that tell of it."""
    return [one for one in appliance.get("/alerts")["items"] if one["key"].startswith("older-database:jobs:")]


def test_what_was_under_way_is_not_begun_again(
    appliance: Appliance, began: Callable[[Callable[[], Any]], tuple[str, Disk]]
) -> None:
    store = appliance.datastore("first")
    job, disk = began(lambda: appliance.request("DELETE", f"/datastores/{store}"))
    appliance.job("POST", f"/datastores/{store}/restore", {})
    disk.put_back()
    ended = appliance.ended(job)
    assert ended["state"] == "failed" and "at least 2 jobs have ended since" in ended["problem"]["text"], ended
    assert "not taken back" in ended["problem"]["left"]
    assert appliance.get(f"/datastores/{store}")["state"] == "active"
    (alert,) = older(appliance)
    assert "at least 2 jobs" in alert["text"] and "1 that were under way" in alert["text"]
    appliance.restart_worker()
    assert [one["id"] for one in older(appliance)] == [alert["id"]], "told until somebody says that it was seen"
    assert appliance.request("POST", f"/alerts/{alert['id']}/acknowledge").status_code == 200
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.restart_worker()
    assert older(appliance) == []


def test_a_rollback_that_has_ended_takes_nothing_that_was_written_since(
    appliance: Appliance, began: Callable[[Callable[[], Any]], tuple[str, Disk]]
) -> None:
    """No other job was asked for since: its own end tells."""
    store = appliance.datastore("first")
    appliance.job("POST", "/snapshots", {"name": "s", "datastores": [store]})
    job, disk = began(lambda: appliance.request("POST", f"/datastores/{store}/snapshots/s/rollback", {}))
    (volume,) = appliance.simulator.volumes()
    appliance.simulator.write(volume.name, 1 << 20)
    written = appliance.simulator.volume(volume.name).space.referenced
    disk.put_back()
    assert appliance.ended(job)["state"] == "failed"
    assert appliance.simulator.volume(volume.name).space.referenced == written
    assert len(older(appliance)) == 1


def test_a_pool_that_comes_later_tells_it(
    appliance: Appliance, began: Callable[[Callable[[], Any]], tuple[str, Disk]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = appliance.datastore("first")
    job, disk = began(lambda: appliance.request("DELETE", f"/datastores/{store}"))
    appliance.job("POST", f"/datastores/{store}/restore", {})
    really, asked = PoolMarks.read, [0]

    def read(self: PoolMarks) -> Sequence[Ended]:
        asked[0] += 1
        return really(self) if asked[0] > 1 else ()

    monkeypatch.setattr(PoolMarks, "read", read)
    disk.put_back()
    assert appliance.ended(job)["state"] == "failed" and asked[0] > 1
    assert appliance.get(f"/datastores/{store}")["state"] == "active" and len(older(appliance)) == 1


def test_a_disk_of_before_an_older_one_was_put_back_begins_nothing_either(
    appliance: Appliance, began: Callable[[Callable[[], Any]], tuple[str, Disk]], tmp_path: Path
) -> None:
    """What the older one had fail are ends too."""
    store = appliance.datastore("first")
    job, disk = began(lambda: appliance.request("DELETE", f"/datastores/{store}"))
    appliance.job("POST", f"/datastores/{store}/restore", {})
    last = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))
    newer = Disk(appliance, tmp_path / "newer")
    disk.put_back()
    assert appliance.ended(job)["state"] == "failed"
    newer.put_back()
    assert appliance.ended(last)["state"] == "failed" and appliance.get(f"/datastores/{store}")["state"] == "active"


def test_what_a_failed_job_gives_back_to_hosts_waits_for_no_pool_that_is_marked(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, really = appliance.datastore("first"), PoolMarks.write
    served: list[list[str]] = []

    def write(self: PoolMarks, ended: Ended) -> None:
        served.append([one.lun.uuid for one in appliance.target.targets()[0].luns])
        really(self, ended)

    monkeypatch.setattr(PoolMarks, "write", write)
    appliance.simulator.fail_next("rename", OutOfSpace("tank"))
    appliance.job("DELETE", f"/datastores/{store}", expect="failed")
    assert served == [[store]]


@pytest.fixture
def waits(appliance: Appliance) -> Iterator[Callable[[], str]]:
    """A job that is taken up at the next start; it is asked for at once."""

    def ask() -> str:
        store = appliance.datastore("first")
        return waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{store}"))

    yield ask


@pytest.mark.parametrize(("owner", "part"), [(NotesFile, "note_jobs"), (PoolMarks, "write")])
def test_who_dies_before_an_end_is_noted_goes_on(
    owner: type, part: str, appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has it; the note has not, or the pools have not."""
    first, second = appliance.datastore("first"), appliance.datastore("second")
    last = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{first}"))
    job = waiting(appliance, lambda: appliance.request("DELETE", f"/datastores/{second}"))
    with monkeypatch.context() as patch:
        patch.setattr(owner, part, lambda *_: None)
        with appliance.store.session() as session:
            jobs.end(session, last, jobs.SUCCEEDED)
        appliance.service.executor._note()
        appliance.service.executor._mark()
    appliance.restart_worker()
    assert appliance.ended(job)["state"] == "succeeded" and older(appliance) == []


def test_what_was_under_way_is_sorted_out_once_the_pools_have_what_is_noted(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for that meets no change of storage that is nobody's job."""
    really, sorted_out = PoolMarks.write, []

    def write(self: PoolMarks, ended: Ended) -> None:
        sorted_out.append(appliance.service.executor.sorted_out.is_set())
        really(self, ended)

    appliance.service.stop()
    monkeypatch.setattr(PoolMarks, "write", write)
    appliance.restart_worker()
    assert sorted_out == [False]


def test_another_servers_pool_tells_nothing(appliance: Appliance, waits: Callable[[], str]) -> None:
    job = waits()
    appliance.simulator.set_properties("tank", {PROPERTY: f"{ELSEWHERE} 1000"})
    appliance.restart_worker()
    assert appliance.ended(job)["state"] == "succeeded" and older(appliance) == []


def test_another_databases_note_is_told(appliance: Appliance, waits: Callable[[], str]) -> None:
    job, noted = waits(), NotesFile(appliance.configuration.jobs_under_way)
    noted.note_jobs([], ELSEWHERE, 1)
    appliance.restart_worker()
    assert appliance.ended(job)["state"] == "failed"
    (alert,) = older(appliance)
    assert "1 that were under way" in alert["text"] and "another database" in alert["text"]


def test_a_new_databases_worker_that_died_before_it_had_noted_that_tells_nothing(appliance: Appliance) -> None:
    """The database was lost, and there is no older one."""
    NotesFile(appliance.configuration.jobs_under_way).note_jobs([], ELSEWHERE, 5)
    appliance.restart_worker()
    assert older(appliance) == []


@pytest.mark.parametrize("counted", [True, False])
def test_a_database_of_before_ends_were_counted(appliance: Appliance, counted: bool) -> None:
    """Put back beside a note that counts, it is an older copy; as long as nobody has counted, it is the one before an upgrade."""
    job = waiting(appliance, lambda: appliance.request("POST", "/datastores", {"name": "a", "pool": "tank", "size": str(GIB)}))
    with appliance.store.session() as session:
        session.execute(delete(Setting).where(Setting.name == "jobs_ended"))
    if not counted:
        appliance.simulator.inherit_property("tank", PROPERTY)
        appliance.configuration.jobs_under_way.write_text(f"{job}\n")
    appliance.restart_worker()
    assert len(older(appliance)) == (1 if counted else 0)
    assert appliance.ended(job)["state"] == "succeeded", "it is noted"


@pytest.mark.parametrize("marked", [True, False])
def test_a_note_that_was_lost_makes_no_older_copy_of_what_a_pool_knows(
    appliance: Appliance, waits: Callable[[], str], marked: bool
) -> None:
    """What was under way fails all the same: the pool does not know which that was."""
    job = waits()
    appliance.configuration.jobs_under_way.unlink()
    if not marked:
        appliance.simulator.inherit_property("tank", PROPERTY)
    appliance.restart_worker()
    assert appliance.ended(job)["state"] == "failed" and len(older(appliance)) == (0 if marked else 1)


@pytest.mark.parametrize(("witnessed", "begun"), [(True, False), (False, False), (False, True)])
def test_disks_are_taken_by_force_only_where_a_pool_tells_that_the_job_is_of_now(
    appliance: Appliance, witnessed: bool, begun: bool
) -> None:
    """A pool made of them since, and not imported by the older disk, tells nothing."""
    free = [disk.path for disk in appliance.simulator.disks() if disk.used_by is None]
    asked = {"name": "other", "vdevs": [{"devices": free[:1]}], "force": True}
    appliance.datastore("first")
    job = waiting(appliance, lambda: appliance.request("POST", "/pools", asked))
    if begun:
        with appliance.store.session() as session:
            jobs.begin(session, job)
    if not witnessed:
        appliance.simulator.inherit_property("tank", PROPERTY)
    appliance.restart_worker()
    ended = appliance.ended(job)
    assert ended["state"] == ("succeeded" if witnessed else "failed"), ended
    assert len(appliance.simulator.pools()) == (2 if witnessed else 1)
    assert witnessed or ("not taken back" in str(ended["problem"]["left"])) == begun, "the kernel may have done it"


def test_an_older_databases_schedule_destroys_nothing_until_it_was_seen(
    appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept fewer then."""
    store = appliance.datastore("first")
    asked = {"name": "often", "datastores": [store], "every_minutes": 5, "keep": 1}
    answer = appliance.request("POST", "/schedules", asked).json
    assert answer is not None
    copied_database(appliance.configuration.database, tmp_path / "older")
    assert appliance.request("PATCH", f"/schedules/{answer['id']}", {"keep": 9}).status_code == 200
    for now in (1e9, 1e9 + 600, 1e9 + 1200):
        monkeypatch.setattr(appliance.service, "now", itertools.repeat(now).__next__)
        appliance.service._schedules()
        for job in appliance.get("/jobs")["items"]:
            appliance.ended(job["id"])
    kept = [one.name for one in appliance.simulator.snapshots()]
    assert len(kept) == 3
    put_back(appliance, tmp_path / "older")
    appliance.service._retention()
    (alert,) = older(appliance)
    assert appliance.request("POST", f"/alerts/{alert['id']}/acknowledge").status_code == 200
    for job in appliance.get("/jobs")["items"]:
        appliance.ended(job["id"])
    assert set(kept) <= {one.name for one in appliance.simulator.snapshots()}
    appliance.service._retention()
    for job in appliance.get("/jobs")["items"]:
        appliance.ended(job["id"])
    assert len(appliance.simulator.snapshots()) == 1
