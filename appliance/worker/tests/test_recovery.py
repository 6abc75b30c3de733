# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration on pools, and recovery mode for each kind of outdated or lost database."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulators.appliance import PASSWORD, Appliance
from simulators.copies import FolderCopies
from sqlalchemy import select, update

from appliance.database.models import Installation, PublishedCopy
from appliance.database.store import Store
from appliance.dataplane.target import ServedTarget, TargetUnreachableError
from appliance.domain import access, configuration, hosts, recovery, sealed_copy
from appliance.domain.access import Role
from appliance.domain.errors import InvalidError
from appliance.domain.secrets import Seal
from appliance.worker.recovery import Recovery
from appliance.worker.tests.test_files import until
from appliance.zfs.configuration_copies import RETAINED
from appliance.zfs.errors import Refused
from appliance.zfs.model import Redundancy, VdevSpec

IQN = "iqn.1998-01.com.vmware:esx1"


class Sealed:
    """An appliance with two pools, a LUN that a host sees, and copies of its configuration on both pools."""

    def __init__(self, appliance: Appliance) -> None:
        self.appliance = appliance
        disks = tuple(disk.path for disk in appliance.simulator.disks() if disk.used_by is None)[:2]
        appliance.simulator.create_pool("rust", [VdevSpec(devices=disks, redundancy=Redundancy.MIRROR)])
        self.store = appliance.datastore("first", lun=7, host_groups=[appliance.group("cluster", IQN)])
        answer = appliance.request("POST", "/configuration/recovery-key").json
        assert answer is not None
        self.recovery_key = str(answer["secret"])
        self.reconcile()
        self.copied()
        self.older = appliance.configuration.state_directory / "older"

    @property
    def generation(self) -> int:
        with self.appliance.store.reading() as session:
            return sealed_copy.installation(session).generation

    @property
    def copies(self) -> Path:
        return self.appliance.configuration.state_directory / "copies"

    def on(self, pool: str) -> int | None:
        """The generation of this installation's copy on a pool."""
        parsed = [copy for text in FolderCopies(self.copies).read_copies(pool) if (copy := sealed_copy.parse(text))]
        with self.appliance.store.reading() as session:
            installation = sealed_copy.installation(session).id
        return next((copy.header.generation for copy in parsed if copy.header.installation == installation), None)

    def copied(self, *pools: str) -> None:
        """Waits until the pools have the configuration of now."""
        until(lambda: {self.on(pool) for pool in pools or ("tank", "rust")} == {self.generation})

    def reconcile(self) -> int:
        """The status of the answer."""
        return self.appliance.request("POST", "/reconcile").status_code

    def save(self) -> None:
        """Copies the database, as an admin would."""
        copied(self.appliance.configuration.database, self.older)

    def put_back(self) -> None:
        """Restores the saved database."""
        self.restart(lambda: copied(self.older, self.appliance.configuration.database))

    def restart(self, change: Callable[[], object]) -> None:
        """Changes something while the worker is stopped."""
        self.appliance.service.stop()
        change()
        self.appliance.restart_worker()

    def change(self, name: str) -> None:
        """Configures a host, and waits until that is on the pools that answer."""
        answer = self.appliance.request("POST", "/hosts", {"name": name, "iqns": [f"iqn.1998-01.com.vmware:{name}"]})
        assert answer.status_code == 201, answer.text

    def hosts(self) -> set[str]:
        return {host["name"] for host in self.appliance.get("/hosts")["items"]}

    def served(self) -> ServedTarget:
        (target,) = self.appliance.target.targets()
        return target

    def status(self) -> dict[str, Any]:
        """Recovery mode as the API reports it."""
        recovery: dict[str, Any] = self.appliance.get("/recovery")
        return recovery

    def recover(self, **body: Any) -> Any:
        answer = self.appliance.request("POST", "/recovery", body)
        assert answer.status_code == 200, answer.text
        assert not self.status()["active"] and "recovery:database" not in self.alerts()
        self.appliance.wait_until_idle()
        return answer.json

    def alerts(self) -> set[str]:
        """Keys of open alerts."""
        return {alert["key"] for alert in self.appliance.get("/alerts")["items"]}

    def check_needs_decision(self, before: ServedTarget) -> None:
        """It is in recovery mode: hosts are served as before, and nothing is changed."""
        response = self.status()
        assert response["active"] and response["reason"] and "recovery:database" in self.alerts()
        for method, path, body in (
            ("POST", "/hosts", {"name": "refused", "iqns": []}),
            ("DELETE", f"/datastores/{self.store}", None),
            ("PUT", "/settings/iscsi", {"chap_required": True}),
            ("POST", "/reconcile", None),
        ):
            assert self.appliance.request(method, path, body).status_code == 409, path
        login = self.appliance.request("POST", "/tokens", {"name": "zvaai", "scope": "admin", "days": 1})
        assert login.status_code == 201, "an admin can log in by the command line, and decide"
        assert self.served() == before and "refused" not in self.hosts()
        assert not self.appliance.service.context.recovery.allows_jobs


def copied(source: Path, to: Path) -> None:
    with closing(sqlite3.connect(source)) as older, closing(sqlite3.connect(to)) as newer:
        older.backup(newer)


@pytest.fixture
def sealed(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> Sealed:
    monkeypatch.setattr("appliance.worker.recovery.QUIET_SECONDS", 0.01)
    return Sealed(appliance)


def test_each_change_is_on_the_pools_soon(sealed: Sealed) -> None:
    before = sealed.generation
    sealed.change("second")
    assert sealed.generation > before
    sealed.copied()
    for number in range(RETAINED + 2):
        sealed.change(f"host{number}")
        sealed.copied()
    # The oldest one is removed after the newest is written.
    until(lambda: len(list((sealed.copies / "tank").iterdir())) == RETAINED)
    before = sealed.generation
    sealed.appliance.job("POST", "/snapshots", {"name": "s", "datastores": [sealed.store]})
    assert sealed.generation == before, "a job is no configuration"


def test_an_unchanged_database_needs_no_decision(sealed: Sealed) -> None:
    before = sealed.served()
    sealed.restart(lambda: None)
    assert not sealed.status()["active"] and sealed.reconcile() == 200
    sealed.copied()
    assert sealed.served() == before and before.name == sealed.appliance.target_name


def test_an_older_database_is_replaced_by_the_copy_on_the_pools(sealed: Sealed) -> None:
    sealed.save()
    sealed.change("second")
    user = sealed.appliance.request("DELETE", f"/users/{_user(sealed, 'viewer')}")
    assert user.status_code == 200, user.text
    sealed.copied()
    before = sealed.served()
    sealed.put_back()
    sealed.check_needs_decision(before)
    assert sealed.status()["suggested"] in ("tank", "rust") and "second" not in sealed.hosts()
    sealed.recover(from_pool="tank")
    assert "second" in sealed.hosts() and sealed.served() == before
    assert {user["name"] for user in sealed.appliance.get("/users")["items"]} == {"admin", "operator"}
    sealed.copied()
    sealed.change("third")
    sealed.copied()
    sealed.restart(lambda: None)
    assert not sealed.status()["active"] and {"second", "third"} <= sealed.hosts()


def _user(sealed: Sealed, name: str) -> str:
    return next(str(user["id"]) for user in sealed.appliance.get("/users")["items"] if user["name"] == name)


def test_an_older_database_can_be_right(sealed: Sealed) -> None:
    sealed.save()
    sealed.change("second")
    sealed.copied()
    before, highest = sealed.served(), sealed.on("tank")
    sealed.put_back()
    sealed.check_needs_decision(before)
    answer = sealed.appliance.request("POST", "/recovery", {"keep": True, "dry_run": True})
    assert answer.status_code == 422 and sealed.status()["active"], "a dry run decides nothing"
    sealed.recover(keep=True)
    sealed.copied()
    assert "second" not in sealed.hosts() and sealed.generation > (highest or 0) and sealed.reconcile() == 200
    sealed.restart(lambda: None)
    assert not sealed.status()["active"]


def test_a_database_of_the_same_generation_with_other_content(sealed: Sealed) -> None:
    sealed.save()
    sealed.change("second")
    sealed.copied()
    before, generation = sealed.served(), sealed.generation

    def other() -> None:
        copied(sealed.older, sealed.appliance.configuration.database)
        sealed.change("other")
        with sealed.appliance.store.session() as session:
            session.execute(update(Installation).values(generation=generation))

    sealed.restart(other)
    sealed.check_needs_decision(before)
    assert "has not written" in sealed.status()["reason"]
    sealed.recover(from_pool="rust")
    assert "second" in sealed.hosts() and "other" not in sealed.hosts()


def replaced_by_a_new_one(appliance: Appliance) -> None:
    """The database has an admin and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        new = Store(Path(folder, "new"))
        with new.session() as session:
            user = access.add_user(session, "admin", Role.ADMIN, access.new_password("nobody", PASSWORD))
            caller = access.Caller(user.id, user.name, Role.ADMIN, False, "")
            token = access.add_token(session, caller, "test", Role.ADMIN, access.TOKEN_LONGEST_S)[1]
        new.close()
        copied(Path(folder, "new"), appliance.configuration.database)
    appliance.tokens["admin"] = token


@pytest.mark.parametrize("key_is_lost", [False, True])
def test_a_lost_database(sealed: Sealed, tmp_path: Path, key_is_lost: bool) -> None:
    before, appliance = sealed.served(), sealed.appliance
    (group,) = appliance.get(f"/datastores/{sealed.store}")["host_groups"]

    def lose() -> None:
        replaced_by_a_new_one(appliance)
        if key_is_lost:
            appliance.service.context.seal = Seal(tmp_path / "another.key")

    sealed.restart(lose)
    sealed.check_needs_decision(before)
    assert "LUN 7" in sealed.status()["reason"] and sealed.status()["suggested"]
    if key_is_lost:
        wrong = "-".join(["AAAA"] * 8)
        for key in (None, wrong, "nonsense"):
            answer = appliance.request("POST", "/recovery", {"from_pool": "tank", "recovery_key": key})
            assert answer.status_code == 422 and sealed.status()["active"], answer.text
    assert appliance.target_name != before.name
    sealed.recover(from_pool="tank", recovery_key=sealed.recovery_key if key_is_lost else None)
    assert (
        sealed.served() == before
        and appliance.target_name == before.name
        and appliance.get(f"/datastores/{sealed.store}")["host_groups"] == [group]
    )
    assert sealed.hosts() == {"host of cluster"}
    sealed.copied()
    sealed.restart(lambda: None)
    assert not sealed.status()["active"] and sealed.reconcile() == 200


def test_a_lost_database_whose_copies_are_not_taken(sealed: Sealed) -> None:
    before = sealed.served()
    sealed.restart(lambda: replaced_by_a_new_one(sealed.appliance))
    sealed.check_needs_decision(before)
    sealed.recover(keep=True)
    assert sealed.reconcile() == 200
    assert sealed.served().name == sealed.appliance.target_name != before.name


def test_a_replacement_has_the_name_that_hosts_know(sealed: Sealed) -> None:
    """After the copy is taken, and then no other one."""
    before, appliance = sealed.served(), sealed.appliance

    def another_server() -> None:
        replaced_by_a_new_one(appliance)
        appliance.target.delete_target(before.name)

    sealed.restart(another_server)
    assert not sealed.status()["active"]
    new = sealed.served().name
    assert new == appliance.target_name != before.name and re.fullmatch(r"iqn\.2026-11\.zvaai:[0-9a-f]{12}", new)
    sealed.recover(from_pool="tank")
    assert sealed.served() == before and appliance.get("/readiness")["target"] == before.name


def test_the_first_configuration_of_a_replacement_is_not_taken_without_its_key(sealed: Sealed) -> None:
    """It stays on the pools, and its own key opens it."""
    appliance = sealed.appliance
    name = sealed.served().name

    def another_server() -> None:
        replaced_by_a_new_one(appliance)
        appliance.target.delete_target(name)  # the worker is stopped, and does not serve it again

    sealed.restart(another_server)
    assert appliance.request("POST", "/configuration/recovery-key").status_code == 200
    sealed.copied()
    sealed.recover(from_pool="tank", recovery_key=sealed.recovery_key)
    sealed.copied()
    again = appliance.request("POST", "/recovery", {"from_pool": "tank"})
    assert again.status_code == 409 and again.json and again.json["can_force"] and "of another installation" in again.text
    assert sealed.hosts() == {"host of cluster"}


@pytest.mark.parametrize("keep", [False, True])
def test_a_lost_database_can_be_replaced_late_by_a_copy_whose_recovery_key_is_lost(sealed: Sealed, keep: bool) -> None:
    """Recovery mode was not needed, or ended by mistake. The pool has a copy of the new database too."""
    before, appliance = sealed.served(), sealed.appliance

    def lose() -> None:
        replaced_by_a_new_one(appliance)
        if not keep:
            appliance.target.delete_target(before.name)

    sealed.restart(lose)
    if keep:
        sealed.recover(keep=True)
    assert not sealed.status()["active"] and appliance.request("POST", "/configuration/recovery-key").status_code == 200
    sealed.copied()
    refused = appliance.request("POST", "/recovery", {"from_pool": "tank"})
    assert refused.status_code == 409 and refused.json and refused.json["can_force"] and sealed.hosts() == set()
    sealed.recover(from_pool="tank", force=True)
    assert sealed.served() == before and sealed.hosts() == {"host of cluster"}
    sealed.copied()


@pytest.mark.parametrize("paused", [False, True])
def test_a_later_copy_is_found_after_an_older_backup_was_taken(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    """By a replacement whose database has counted more changes, before the pool with the copy is imported. The copy is later by
    one row; the replacement may have to pause a schedule.
    """
    appliance = sealed.appliance
    monkeypatch.setattr(appliance.service.periodic, "schedules", lambda: None)
    body = {"name": "daily", "datastores": [sealed.store], "every_minutes": 1440, "keep": 1}
    schedule = f"/schedules/{(appliance.request('POST', '/schedules', body).json or {})['id']}"
    backup, before = appliance.request("POST", "/configuration/backup", {"password": PASSWORD}).text, sealed.generation
    assert appliance.request("PATCH", schedule, {"keep": 20}).status_code == 200 and sealed.generation == before + 1
    for name in ("daily_2026-01-01_000000Z", "daily_2026-01-02_000000Z") if paused else ():
        monkeypatch.setattr("appliance.domain.schedules.snapshot_name", lambda *_, name=name: name)
        appliance.job("POST", f"{schedule}/run")
    sealed.copied()
    shutil.rmtree(sealed.copies / "tank")
    appliance.simulator.export_pool("rust")

    def another_server() -> None:
        appliance.target.delete_target(sealed.served().name)
        replaced_by_a_new_one(appliance)
        with appliance.store.session() as session:
            session.execute(update(Installation).values(generation=1000))

    sealed.restart(another_server)
    sealed.recover(file=backup)
    served = sealed.served()
    assert appliance.get(schedule)["keep"] == 1 and appliance.get(schedule)["enabled"] != paused
    sealed.copied("tank")
    appliance.simulator.import_pool("rust")
    assert sealed.reconcile() == 409
    sealed.check_needs_decision(served)


def test_a_later_copy_is_found_after_an_older_database_was_kept(sealed: Sealed) -> None:
    """By a database that has counted far more changes, before the pool with the copy is imported."""
    appliance = sealed.appliance
    sealed.save()
    sealed.change("second")
    sealed.copied()
    shutil.copytree(sealed.copies / "tank", sealed.copies / "second")
    sealed.change("third")
    sealed.copied()
    shutil.rmtree(sealed.copies / "tank")
    (sealed.copies / "second").rename(sealed.copies / "tank")
    appliance.simulator.export_pool("rust")

    def older() -> None:
        copied(sealed.older, appliance.configuration.database)
        with appliance.store.session() as session:
            session.execute(update(Installation).values(generation=5000))

    sealed.restart(older)
    sealed.recover(keep=True)
    sealed.copied("tank")
    before = sealed.served()
    appliance.simulator.import_pool("rust")
    assert sealed.reconcile() == 409
    sealed.check_needs_decision(before)


def test_a_lost_database_while_the_target_does_not_answer(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sealed.served()

    def away() -> None:
        raise TargetUnreachableError("away")

    with monkeypatch.context() as patched:
        patched.setattr(sealed.appliance.target, "targets", away)
        sealed.restart(lambda: replaced_by_a_new_one(sealed.appliance))
        assert sealed.reconcile() == 503
    assert sealed.served() == before
    assert sealed.reconcile() == 409
    sealed.check_needs_decision(before)
    sealed.recover(from_pool="tank")
    assert sealed.served() == before


def test_an_older_database_whose_key_is_lost(sealed: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its secrets can be read, and the target does not respond. Those of the copy are sealed with the new key."""
    appliance = sealed.appliance
    chap = {"name": "esx2", "secret": "a good long secret"}
    host = {"name": "second", "iqns": ["iqn.1998-01.com.vmware:esx2"], "chap": chap}
    assert appliance.request("POST", "/hosts", host).status_code == 201
    mutual = {"name": "target", "secret": "the target's secret"}
    assert appliance.request("PUT", "/settings/iscsi/target-chap", mutual).status_code == 200
    sealed.save()
    sealed.change("third")
    sealed.copied()
    before = sealed.served()

    def older() -> None:
        copied(sealed.older, appliance.configuration.database)
        appliance.service.context.seal = Seal(tmp_path / "another.key")

    sealed.restart(older)
    sealed.check_needs_decision(before)

    def away() -> None:
        raise TargetUnreachableError("away")

    with monkeypatch.context() as patched:
        patched.setattr(appliance.target, "sessions", away)
        body = {"from_pool": "tank", "recovery_key": sealed.recovery_key}
        assert appliance.request("POST", "/recovery", body).status_code == 200
    assert "third" in sealed.hosts()
    with appliance.store.reading() as session:
        content = configuration.collect(session, appliance.service.context.seal)
    assert chap["secret"] in str(content["hosts"]) and mutual["secret"] in str(content["settings"])
    sealed.copied()


def test_a_new_database_can_be_right(sealed: Sealed) -> None:
    def lose() -> None:
        with sealed.appliance.store.session() as session:
            for table in ("presentation_groups", "presentations", "jobs", "published_copies"):
                session.connection().exec_driver_sql(f"DELETE FROM {table}")
            session.execute(update(Installation).values(id="00000000-0000-4000-8000-000000000001", generation=1))

    before = sealed.served()
    sealed.restart(lose)
    sealed.check_needs_decision(before)
    sealed.recover(keep=True)
    sealed.reconcile()
    assert sealed.appliance.get(f"/datastores/{sealed.store}")["host_groups"] == []
    assert [lun.lun.initiators for lun in sealed.served().luns] == [()], "the database says that nobody sees it"


def test_another_installations_pool_is_offered_only(sealed: Sealed, tmp_path: Path) -> None:
    other, seal = Store(tmp_path / "other"), Seal(tmp_path / "other.key")
    with other.session() as session:
        key = sealed_copy.new_recovery_key(session, seal)
        access.add_user(session, "somebody", Role.VIEWER, access.new_password("nobody", PASSWORD))
    with other.session() as session:
        copy = sealed_copy.write(session, seal)
        assert copy is not None
        name = hosts.target_name(session)
    other.close()
    FolderCopies(sealed.copies).write_copy("rust", copy.header.installation, copy.header.generation, copy.model_dump_json())
    before = sealed.served()
    sealed.restart(lambda: None)
    response = sealed.status()
    assert not response["active"] and sealed.reconcile() == 200
    assert [copy["pool"] for copy in response["copies"] if not copy["this_installation"]] == ["rust"] and response[
        "suggested"
    ] == "rust"
    assert sealed.appliance.request("POST", "/recovery", {"from_pool": "tank"}).status_code == 422, "it is its own"
    assert sealed.appliance.request("POST", "/recovery", {"keep": True}).status_code == 409, "there is nothing to decide"
    sealed.recover(from_pool="rust", recovery_key=key)
    assert {user["name"] for user in sealed.appliance.get("/users")["items"]} == {"admin", "somebody"} and sealed.hosts() == set()
    assert sealed.status()["installation"] == copy.header.installation
    assert sealed.served().name == name != before.name
    sealed.copied()


def test_pools_that_disagree_are_listed_and_none_is_suggested(sealed: Sealed) -> None:
    sealed.save()
    sealed.change("second")
    sealed.copied()
    shutil.copytree(sealed.copies / "rust", sealed.copies / "second")
    sealed.change("third")
    sealed.copied()
    before = sealed.served()

    def older() -> None:
        shutil.rmtree(sealed.copies / "rust")
        (sealed.copies / "second").rename(sealed.copies / "rust")
        copied(sealed.older, sealed.appliance.configuration.database)

    sealed.restart(older)
    sealed.check_needs_decision(before)
    response = sealed.status()
    assert response["suggested"] is None and {copy["pool"] for copy in response["copies"]} == {"tank", "rust"}
    sealed.recover(from_pool="rust")
    assert "second" in sealed.hosts() and "third" not in sealed.hosts()
    sealed.copied()
    sealed.restart(lambda: None)
    assert not sealed.status()["active"]


def test_the_copy_of_this_installation_is_suggested_before_that_of_another() -> None:
    """That of a lost server stays in its pool after another installation has taken its configuration over."""

    def copy_of(generation: int, *, ours: bool, known: bool = False) -> recovery.PoolCopy:
        header = SimpleNamespace(installation="ours" if ours else "lost", generation=generation, hash="")
        return recovery.PoolCopy(header.installation, cast("sealed_copy.Copy", SimpleNamespace(header=header)), ours, known)

    lost = copy_of(35, ours=False)
    assert recovery.suggested([lost]) == "lost" and recovery.suggested([lost, copy_of(40, ours=True)]) == "ours"
    assert recovery.suggested([copy_of(40, ours=True), copy_of(41, ours=True), lost]) is None
    assert recovery.suggested([copy_of(40, ours=True, known=True)]) is None


class Hung:
    """A pool that hangs until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
        self.released, really = threading.Event(), getattr(FolderCopies, call)

        def hang(copies: FolderCopies, pool: str, *more: Any) -> Any:
            if pool == "rust":
                assert self.released.wait(60)
            return really(copies, pool, *more)

        monkeypatch.setattr(FolderCopies, call, hang)


def test_a_pool_that_hangs_is_compared_when_it_answers(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed.save()
    sealed.change("second")
    sealed.copied()
    shutil.rmtree(sealed.copies / "tank")
    before, hung = sealed.served(), Hung(monkeypatch, "read_copies")
    monkeypatch.setattr("appliance.worker.recovery.READ_SECONDS", 0.2)
    sealed.put_back()
    assert not sealed.status()["active"] and sealed.reconcile() == 200
    sealed.appliance.job("POST", "/snapshots", {"name": "s", "datastores": [sealed.store]})
    hung.released.set()
    until(lambda: sealed.reconcile() == 409)
    sealed.check_needs_decision(before)
    sealed.recover(from_pool="rust")
    assert "second" in sealed.hosts()


def test_a_pool_that_hangs_keeps_no_other_from_its_copy(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    hung = Hung(monkeypatch, "write_copy")
    for name in ("second", "third"):
        sealed.change(name)
        sealed.copied("tank")
        assert sealed.on("rust") != sealed.generation
    hung.released.set()
    sealed.copied()


def test_a_pool_that_refuses_its_copy_is_not_tried_all_the_time(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, really = [], FolderCopies.write_copy

    def refuse(copies: FolderCopies, pool: str, *more: Any) -> None:
        if pool == "rust":
            tried.append(pool)
            raise Refused("read-only")
        really(copies, pool, *more)

    store = sealed.appliance.store
    before = store.wait_for_commit(-1, 0)
    with monkeypatch.context() as patched:
        patched.setattr(FolderCopies, "write_copy", refuse)
        sealed.change("second")
        sealed.copied("tank")
        until(lambda: bool(tried))
        time.sleep(1)
        assert len(tried) <= store.wait_for_commit(-1, 0) - before + 1, "after a commit only"
        sealed.reconcile()
        assert "copies:rust" in sealed.alerts() and "copies:tank" not in sealed.alerts()
    sealed.change("third")
    sealed.copied()
    until(lambda: sealed.reconcile() == 200 and "copies:rust" not in sealed.alerts())


def test_a_lost_key_of_the_secrets_raises_an_alert(sealed: Sealed, tmp_path: Path) -> None:
    context = sealed.appliance.service.context
    before, context.seal = context.seal, Seal(tmp_path / "another.key")
    sealed.change("second")
    until(lambda: sealed.reconcile() == 200 and "copies:/" in sealed.alerts())
    context.seal = before
    # A scan lets the worker try again.
    until(lambda: sealed.reconcile() == 200 and "copies:/" not in sealed.alerts())
    sealed.copied()


def test_a_pool_of_the_system_gets_no_copy(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    real, before = sealed.appliance.simulator.pools, sealed.on("rust")
    monkeypatch.setattr(
        sealed.appliance.simulator, "pools", lambda: [replace(pool, of_the_system=pool.name == "rust") for pool in real()]
    )
    assert sealed.reconcile() == 200
    for name in ("second", "third"):
        sealed.change(name)
        sealed.copied("tank")
    assert sealed.on("rust") == before


def test_a_pool_that_is_imported_later_is_compared_then(sealed: Sealed) -> None:
    sealed.save()
    sealed.change("second")
    sealed.copied()
    before = sealed.served()
    shutil.rmtree(sealed.copies / "tank")
    sealed.appliance.simulator.export_pool("rust")
    sealed.put_back()
    assert not sealed.status()["active"]
    sealed.appliance.simulator.import_pool("rust")
    assert sealed.reconcile() == 409
    sealed.check_needs_decision(before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("moment", ["before it is recorded", "before it is written", "on one pool", "when it is written"])
def test_a_crash_between_a_change_and_its_copies_needs_no_decision(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    died, write = threading.Event(), FolderCopies.write_copy

    def die(*_: Any) -> None:
        died.set()
        raise SystemExit  # of the thread

    def die_on_a_pool(copies: FolderCopies, pool: str, *more: Any) -> None:
        if moment == "when it is written" or (moment == "on one pool" and pool == "tank"):
            write(copies, pool, *more)
        die()

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "published", die) if moment == "before it is recorded" else None
        patched.setattr(FolderCopies, "write_copy", die_on_a_pool)
        sealed.change("second")
        assert died.wait(60)
        sealed.appliance.service.stop()
    sealed.appliance.restart_worker()
    assert not sealed.status()["active"] and sealed.reconcile() == 200 and "second" in sealed.hosts()
    sealed.copied()


def with_an_older_job(sealed: Sealed) -> str:
    """In recovery mode, with a queued job that deletes the datastore; its identifier."""
    appliance = sealed.appliance
    appliance.service.executor.stop()
    answer = appliance.request("DELETE", f"/datastores/{sealed.store}")
    assert answer.status_code == 202 and answer.json is not None
    sealed.save()
    with appliance.store.session() as session:
        session.connection().exec_driver_sql("DELETE FROM jobs")
    appliance.restart_worker()
    sealed.change("second")
    sealed.copied()
    before = sealed.served()
    sealed.put_back()
    sealed.check_needs_decision(before)
    assert appliance.get(f"/jobs/{answer.json['id']}")["state"] == "queued"
    return str(answer.json["id"])


def test_a_job_at_work_continues_after_the_decision(sealed: Sealed) -> None:
    job = with_an_older_job(sealed)
    sealed.appliance.service.context.recovery.keep(lambda at_work: at_work == job)
    sealed.appliance.request("POST", "/reconcile")
    assert sealed.appliance.ended(job)["state"] == "succeeded"


@pytest.mark.parametrize("decision", [{"from_pool": "tank"}, {"keep": True}])
def test_jobs_of_an_older_database_are_not_begun(sealed: Sealed, decision: dict[str, Any]) -> None:
    identifier, appliance = with_an_older_job(sealed), sealed.appliance
    sealed.recover(**decision)
    job = appliance.ended(identifier)
    assert job["state"] == "failed" and "before the recovery" in str(job["problem"])
    assert appliance.get(f"/datastores/{sealed.store}")["state"] == "active"


def test_a_damaged_copy_is_none(sealed: Sealed) -> None:
    text = FolderCopies(sealed.copies).read_copies("tank")[0]
    copy = sealed_copy.parse(text)
    assert copy is not None
    for damaged in (text[:-40], text.replace('"generation":', '"generation":1'), "", "{}", "\0"):
        parsed = sealed_copy.parse(damaged)
        if parsed is not None:
            with pytest.raises(InvalidError):
                sealed_copy.open_copy(parsed, sealed.appliance.service.context.seal, None)
    opened = sealed_copy.open_copy(copy, Seal(Path("/nowhere")), sealed.recovery_key.lower())
    assert "argon2id" in str(opened.content["users"]) and "argon2id" not in text


def test_the_newest_copies_are_recorded(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_HISTORY", 2)
    sealed.change("second")
    sealed.copied()
    with sealed.appliance.store.reading() as session:
        recorded = session.scalars(select(PublishedCopy.generation)).all()
    assert len(recorded) == 2 and max(recorded) == sealed.generation


def test_a_viewer_can_not_decide(sealed: Sealed) -> None:
    assert sealed.appliance.request("POST", "/recovery", {"keep": True}, role="operator").status_code == 403
    assert isinstance(sealed.appliance.service.context.recovery, Recovery)
