# SPDX-License-Identifier: Apache-2.0
"""API, worker and root helper killed (kill -9) at random moments of a day. The client repeats its requests.

After each kill, with the process restarted and the request answered, storage, database and target have the exact set of volumes,
snapshots, holds, numbers, LUNs and jobs. The audit has one entry for each change.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulators.zfs import state
from support.appliance import Appliance, running_appliance
from support.day import Client, Day
from support.programs import wait_for

FOLDERS = {"", "zvaai", "zvaai-reservations"}
VICTIMS = ("worker", "helper", "api", "server")
"""The last is gunicorn's worker process, without its parent."""
INSIDE = 0.1
"""Minimum share of kills that must hit a running request or job; on a quiet machine 3 of 4 do.

If the load of the machine changes, the measured moments are wrong.
"""


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance with a separate helper, which has a simulator, and a pool."""
    with running_appliance(tmp_path / "a", simulating_helper=True) as appliance:
        disks = [disk["path"] for disk in appliance.json("pool", "disks")][:2]
        appliance.cli("pool", "create", "tank", "mirror", *disks, "--wait")
        yield appliance


class Killer:
    """Kills a process during a step and restarts it immediately, as systemd does."""

    def __init__(self, appliance: Appliance, client: Client) -> None:
        self._appliance, self.client = appliance, client
        self.kills: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        """Requests and jobs that were running."""
        self.places: Counter[str] = Counter()
        """Kinds of jobs, and their steps."""

    @property
    def hits(self) -> int:
        """Kills during a request or a job."""
        return self.met["a job"] + self.met["a request"]

    def strike(self, victim: str) -> None:
        """kill -9."""
        process = {"worker": self._appliance.worker, "helper": self._appliance.helper}.get(victim, self._appliance.api)
        assert process is not None
        requesting = self.client.requesting
        if victim == "server":
            process.kill_child()
        else:
            process.kill()
        with closing(self._appliance) as database:
            job = database.execute("SELECT kind, step FROM jobs WHERE state = 'running'").fetchone()
        self.kills[victim] += 1
        self.met["a job" if job else "a request" if requesting else "nothing"] += 1
        if job:
            self.places[f"{job[0]}: {job[1]}"] += 1
        if victim != "server":
            process.start()

    def during(self, victim: str, delay: float, work: Callable[[], None]) -> None:
        """Does the work, and kills `delay` seconds after its start."""
        failed: list[BaseException] = []

        def later() -> None:
            time.sleep(delay)
            try:
                self.strike(victim)
            except BaseException as error:
                failed.append(error)

        timer = threading.Thread(target=later)
        timer.start()
        try:
            work()
        finally:
            timer.join()
        assert not failed, failed


@contextlib.contextmanager
def closing(appliance: Appliance) -> Iterator[sqlite3.Connection]:
    """The database, for queries."""
    with contextlib.closing(sqlite3.connect(f"file:{appliance.directory}/state/appliance.sqlite?mode=ro", uri=True)) as database:
        yield database


def wait_until_quiet(appliance: Appliance, day: Day) -> None:
    """Returns when all processes answer, no job runs, and the target serves the desired LUNs."""

    def quiet() -> bool:
        status = day.client.get("/status")
        return bool(not status["active_jobs"] and status["reconciled_at"] and not status["reconcile_problem"])

    wait_for(quiet, "it is quiet")
    expected = {store.lun: store.id for store in day.stores.values() if store.lun is not None}
    wait_for(lambda: appliance.luns() == expected, f"the target serves {expected}")


def check(appliance: Appliance, day: Day) -> None:
    wait_until_quiet(appliance, day)
    _check_reports(day)
    _check_storage(appliance, day)
    _check_target(appliance, day)
    _check_database(appliance, day)


def _check_reports(day: Day) -> None:
    get = day.client.get
    status = {datastore["id"]: datastore for datastore in get("/datastores?limit=500")["items"]}
    shown = ("name", "size", "state", "lun", "soft_threshold", "kind", "host_groups")
    assert {key: tuple(unit[name] for name in shown) for key, unit in status.items()} == {
        store.id: (
            store.name, str(store.size), store.state, store.lun, store.soft_threshold, store.kind,
            [store.group] if store.state == "active" else [],
        )
        for store in day.stores.values()
    }  # fmt: skip
    clients = {store.id: store.clients for store in day.stores.values() if store.kind == "nfs" and store.state == "active"}
    assert {key: unit["clients"] for key, unit in status.items() if key in clients} == clients
    hosts = {host["id"]: (host["iqns"], host["group"], host["addresses"]) for host in get("/hosts")["items"]}
    assert hosts == {host.id: ([host.iqn], host.group, host.addresses) for host in day.hosts.values()}
    assert {group["id"]: group["name"] for group in get("/host-groups")["items"]} == {
        key: name for name, key in day.groups.items()
    }
    assert {schedule["id"]: schedule["name"] for schedule in get("/schedules")["items"]} == {
        key: name for name, key in day.schedules.items()
    }
    users = {user["id"]: user["name"] for user in get("/users")["items"] if user["name"] != "admin"}
    assert users == {key: name for name, key in day.users.items()}

    def troubles() -> list[str]:
        return [
            alert["key"] for alert in get("/alerts")["items"] if alert["severity"] != "info" and "capacity:" not in alert["key"]
        ]

    wait_for(lambda: not troubles(), "what was wrong meanwhile is no more")


def _check_storage(appliance: Appliance, day: Day) -> None:
    machine = state.load(appliance.directory / "simulator.json")
    assert machine is not None
    pool = next(pool for pool in machine.pools if pool.imported)
    volumes = {path: dataset for path, dataset in pool.datasets.items() if path not in FOLDERS}
    volumes_by_uuid = {dataset.local["zvaai:uuid"]: dataset for dataset in volumes.values()}
    assert len(volumes_by_uuid) == len(volumes)
    kinds = {store.id: store.kind for store in day.stores.values()}
    assert {uuid: "vmfs" if dataset.is_volume else "nfs" for uuid, dataset in volumes_by_uuid.items()} == kinds
    assert {uuid: [snapshot.tag for snapshot in dataset.snapshots] for uuid, dataset in volumes_by_uuid.items()} == {
        store.id: store.snapshots for store in day.stores.values()
    }
    assert not [snapshot.tag for dataset in volumes.values() for snapshot in dataset.snapshots if snapshot.holds]
    assert all(dataset.local["zvaai:guid"] == str(dataset.guid) for dataset in volumes.values())


def _check_target(appliance: Appliance, day: Day) -> None:
    members: dict[str, list[str]] = {}
    for host in day.hosts.values():
        members.setdefault(host.group or "", []).append(host.iqn)
    expected = {
        store.id: (store.lun, sorted(members.get(store.group, []))) for store in day.stores.values() if store.lun is not None
    }

    def served() -> dict[str, tuple[int, list[str]]]:
        targets = appliance.target.call("targets.list")["targets"]
        return {lun["uuid"]: (lun["number"], lun["initiators"]) for target in targets for lun in target["luns"]}

    wait_for(lambda: served() == expected, "the target serves what the database says")


def _check_database(appliance: Appliance, day: Day) -> None:
    """No duplicate or lost job; each change once in the audit with its success; no permanent failure."""
    client = day.client
    with closing(appliance) as database:

        def rows(query: str) -> list[Any]:
            return database.execute(query).fetchall()

        assert dict(rows("SELECT datastore, lun FROM presentations")) == {
            store.id: store.lun for store in day.stores.values() if store.lun is not None
        }
        exported = {store.id for store in day.stores.values() if store.kind == "nfs" and store.state == "active"}
        assert {uuid for (uuid,) in rows("SELECT datastore FROM exports")} == exported
        assert not rows("SELECT id FROM jobs WHERE state != 'succeeded'")
        jobs = dict(rows("SELECT kind, count(*) FROM jobs WHERE actor = 'admin' AND kind != 'pool.create' GROUP BY kind"))
        requested = {kind: number for kind, number in client.done.items() if kind in jobs}
        assert jobs == requested
        audited = dict(
            rows("SELECT action, count(*) FROM audit WHERE status BETWEEN 200 AND 299 AND actor = 'admin' GROUP BY action")
        )
        assert {action: audited.get(action, 0) for action in client.done} == dict(client.done)
        refused = rows("SELECT action, status FROM audit WHERE status NOT IN (200, 201, 202, 409, 503)")
        assert refused == []


def kill_all_day(appliance: Appliance, seed: int, kills: int) -> Killer:
    """Kills at `kills` moments, each within a step; at up to three times as many until the share INSIDE hits work.

    A run without kills measures when the change is requested and when its job runs. The moment is random within that time, scaled
    by the pace of later steps without a kill.
    """
    choice = random.Random(seed)
    certificate = appliance.frontend.certificate
    client = Client(appliance.port, certificate, appliance.token(), f"day-{seed}")
    day, killer = Day(client), Killer(appliance, client)
    moments: dict[str, tuple[float, float]] = {}
    for name, work in day.steps(0):
        began = time.time()
        work()
        moments[name] = client.last[0] - began, client.last[1] - began
    check(appliance, day)
    victims: list[str] = []
    number, left, pace = 1, kills, 1.0
    while left or (killer.hits < INSIDE * kills and sum(killer.kills.values()) < 3 * kills):
        steps = list(day.steps(number))
        chosen = set(choice.sample(range(len(steps)), min(left or kills, len(steps))))
        for at, (name, work) in enumerate(steps):
            if at not in chosen:
                began = time.time()
                work()
                pace = (pace + min(max((client.last[1] - began) / moments[name][1], 0.1), 10)) / 2
                continue
            if not victims:
                victims = list(VICTIMS)
                choice.shuffle(victims)
            victim, delay = victims.pop(), pace * choice.uniform(*moments[name])
            try:
                killer.during(victim, delay, work)
                check(appliance, day)
            except Exception as error:
                raise AssertionError(f"{victim} killed {delay:.3f} s after the beginning of {name}: {error}") from error
        left = max(left - len(chosen), 0)
        number += 1
    return killer


def run_day(appliance: Appliance, seed: int, kills: int, report_line: Callable[[str], None]) -> None:
    killer = kill_all_day(appliance, seed, kills)
    report_line(
        f"killed {dict(killer.kills)}; under way was {dict(killer.met)}, jobs at {len(killer.places)} places; "
        f"requests sent again {killer.client.sent_again} times"
    )
    assert set(killer.kills) == set(VICTIMS)
    assert killer.hits >= INSIDE * kills


def test_a_day_with_kills(appliance: Appliance, seed: int, report_line: Callable[[str], None]) -> None:
    run_day(appliance, seed, 16, report_line)


@pytest.mark.long("200 kills; test_a_day_with_kills has some in each run")
def test_a_long_day_with_kills(appliance: Appliance, seed: int, report_line: Callable[[str], None]) -> None:
    run_day(appliance, seed, 200, report_line)
