# SPDX-License-Identifier: Apache-2.0
"""In the midst of a job: half of it is seen, and no alert tells of what is none; when it has ended, they tell the truth."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.target import TargetSimulator
from sqlalchemy import select

from appliance.database.models import Delivery
from appliance.dataplane.ganesha import ExportRefusedError
from appliance.domain import jobs
from appliance.domain.capacity import HIDDEN_SECONDS
from appliance.domain.journal import Finding
from appliance.zfs.errors import OutOfSpace


def look(appliance: Appliance) -> set[str]:
    """All that the clock does, and the keys of the open alerts then."""
    assert appliance.request("POST", "/reconcile").status_code == 200
    appliance.service._capacity()
    return opened(appliance)


def opened(appliance: Appliance) -> set[str]:
    """The keys of the open alerts."""
    return {one["key"] for one in appliance.get("/alerts")["items"]}


def told(appliance: Appliance) -> list[tuple[str, str]]:
    """What receivers were to be sent: its kind, and the alert's key."""
    with appliance.store.reading() as session:
        sent = session.scalars(select(Delivery).order_by(Delivery.id)).all()
    return [(one.kind, json.loads(one.body)["data"]["key"]) for one in sent]


@pytest.fixture
def hooked(appliance: Appliance) -> Appliance:
    """With a receiver of all alerts."""
    hook = {"name": "pager", "url": "https://192.0.2.1/", "severity": "info"}
    assert appliance.request("POST", "/receivers", hook).status_code == 201
    return appliance


class Held:
    """A call of the engine that waits, in a job's thread, before it is made or after."""

    def __init__(self, appliance: Appliance, call: str, when: Callable[[Any], bool], after: bool) -> None:
        self._reached, self._go_on, self._real = threading.Event(), threading.Event(), getattr(appliance.simulator, call)
        self._when, self._after = when, after

    def call(self, *arguments: Any, **named: Any) -> Any:
        """The first one whose last argument is meant waits."""
        mine = not self._reached.is_set() and self._when(arguments[-1])
        result = self._real(*arguments, **named) if self._after or not mine else None
        if mine:
            self._reached.set()
            assert self._go_on.wait(60)
        return result if self._after or not mine else self._real(*arguments, **named)

    def __enter__(self) -> None:
        assert self._reached.wait(60), "no job came so far"

    def __exit__(self, *_: object) -> None:
        self._go_on.set()


@pytest.fixture
def hold(hooked: Appliance, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Held]:
    """Holds the next call of this name."""

    def held(call: str, when: Callable[[Any], bool] = bool, *, after: bool = False) -> Held:
        made = Held(hooked, call, when, after)
        monkeypatch.setattr(hooked.simulator, call, made.call)
        return made

    return held


def begin(appliance: Appliance, method: str, path: str, body: Any = None) -> str:
    """A job; its identifier."""
    answer = appliance.request(method, path, body).json
    assert answer is not None
    return str(answer["id"])


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_what_is_being_made_is_no_copy(kind: str, hooked: Appliance, hold: Callable[..., Held]) -> None:
    """It has its identity, and not yet the GUID with which that counts; its number is in the database already."""
    waits = hold("set_properties", lambda given: "zvaai:guid" in given)
    asked = {"name": "first", "pool": "tank", "size": str(GIB), "kind": kind}
    job = begin(hooked, "POST", "/datastores", asked)
    with waits:
        assert look(hooked) == set()
        assert {one["state"] for one in hooked.get("/datastores")["items"]} == {"copy", "missing"}, "half of it is seen"
    assert hooked.ended(job)["state"] == "succeeded"
    assert look(hooked) == set() and told(hooked) == []


def test_what_is_gone_when_its_job_has_ended_is_told_then(hooked: Appliance, hold: Callable[..., Held]) -> None:
    store = hooked.datastore("first")
    waits = hold("rename")
    job = begin(hooked, "DELETE", f"/datastores/{store}")
    with waits:
        hooked.simulator.destroy(hooked.simulator.volumes()[0].name)
        assert look(hooked) == set()
        assert [one["state"] for one in hooked.get("/datastores")["items"]] == ["missing"]
    assert hooked.ended(job)["state"] == "failed"
    key = f"capacity:missing:{store}"
    assert look(hooked) == {key} and told(hooked) == [("alert.raised", key)]


def test_a_job_that_does_not_end_hides_nothing(hooked: Appliance, hold: Callable[..., Held]) -> None:
    store = hooked.datastore("first")
    waits = hold("rename")
    job = begin(hooked, "DELETE", f"/datastores/{store}")
    with waits:
        hooked.simulator.destroy(hooked.simulator.volumes()[0].name)
        assert look(hooked) == set()
        with hooked.store.session() as session:
            jobs.job(session, job).started_at = time.time() - HIDDEN_SECONDS
        assert look(hooked) == {f"capacity:missing:{store}"}
    assert hooked.ended(job)["state"] == "failed"


def test_an_open_alert_stays_until_the_job_has_ended(hooked: Appliance, hold: Callable[..., Held]) -> None:
    hooked.datastore("first")
    (volume,) = hooked.simulator.volumes()
    hooked.simulator.inherit_property(volume.name, "zvaai:name")
    key = f"capacity:copy:{volume.name}"
    assert key in look(hooked)
    waits = hold("set_properties", after=True)
    job = begin(hooked, "POST", "/volumes/adopt", {"dataset": volume.name, "name": "first", "identity": "keep"})
    with waits:
        assert key in look(hooked) and ("alert.cleared", key) not in told(hooked)
    assert hooked.ended(job)["state"] == "succeeded"
    assert opened(hooked) == set() and told(hooked).count(("alert.cleared", key)) == 1, "without waiting for the clock"


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_what_a_job_takes_out_of_service_keeps_its_alert_until_it_has_ended(
    kind: str, outcome: str, hooked: Appliance, hold: Callable[..., Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can't be served as it should, and is not to be for a while: that is no end of it."""
    store = hooked.datastore("first", kind=kind)
    key = cannot_be_served(hooked, store, kind, monkeypatch)
    assert look(hooked) == {key} and told(hooked) == [("alert.raised", key)]
    waits = hold("rename")
    if outcome == "failed":
        hooked.simulator.fail_next("rename", OutOfSpace("tank"))
    job = begin(hooked, "DELETE", f"/datastores/{store}")
    with waits:
        assert look(hooked) == {key} and told(hooked) == [("alert.raised", key)]
    assert hooked.ended(job)["state"] == outcome
    gone = outcome == "succeeded"
    assert opened(hooked) == (set() if gone else {key})
    assert told(hooked) == [("alert.raised", key), *([("alert.cleared", key)] if gone else [])]


def cannot_be_served(appliance: Appliance, store: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """From now on; the key of the alert that tells it."""
    if kind == "vmfs":
        assert isinstance(appliance.target, TargetSimulator)
        appliance.target.guid_at = lambda _path: 5
        appliance.target.restart()
        return f"reconcile:{store}"

    def refuse(*_: Any) -> None:
        raise ExportRefusedError("no such path")

    (export,) = appliance.nfs.served()
    appliance.nfs.remove(export.export_id)
    monkeypatch.setattr(appliance.nfs, "add", refuse)
    return f"reconcile-nfs:{store}"


def test_many_jobs_have_one_round_after_the_last(
    hooked: Appliance, hold: Callable[..., Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks at all of storage."""
    store = hooked.datastore("first")
    key = cannot_be_served(hooked, store, "vmfs", monkeypatch)
    assert look(hooked) == {key}
    rounds = []

    def capacity() -> None:
        with hooked.store.reading() as session:
            rounds.append([job.id for job in jobs.active(session)])

    monkeypatch.setattr(hooked.service, "_capacity", capacity)
    waits = hold("snapshot")
    names = [f"s{number}" for number in range(20)]
    begun = [begin(hooked, "POST", "/snapshots", {"name": name, "datastores": [store]}) for name in names]
    with waits:
        assert rounds == []
    assert {hooked.ended(job)["state"] for job in begun} == {"succeeded"}
    assert rounds == [[]]


def test_what_is_left_by_who_looked_before_a_job_had_ended_is_settled(hooked: Appliance) -> None:
    """The job's end saw nothing yet that was left, and asked for no round."""
    hooked.datastore("first")
    settling, asked = hooked.service.context.settling, threading.Event()
    settling.ask = asked.set
    settling.consider()
    assert not asked.is_set()
    key = "capacity:missing:one"
    with hooked.store.session() as session:
        settling.settle(session, "capacity", [Finding(key, "warning", "one", "it is missing")], {key})
    settling.consider()
    assert asked.is_set() and opened(hooked) == set()
    asked.clear()
    settling.consider()
    assert not asked.is_set(), "once, however long it can't be settled"


def test_a_job_that_waits_for_others_hides_nothing(hooked: Appliance, hold: Callable[..., Held]) -> None:
    first, second = hooked.datastore("first"), hooked.datastore("second")
    waits = hold("grow_volume")
    jobs = [begin(hooked, "POST", f"/datastores/{one}/grow", {"size": str(2 * GIB)}) for one in (first, second)]
    lost = hooked.get(f"/datastores/{second}")["dataset"]
    with waits:
        hooked.simulator.destroy(lost)
        assert look(hooked) == {f"capacity:missing:{second}"}
    assert [hooked.ended(job)["state"] for job in jobs] == ["succeeded", "failed"]
