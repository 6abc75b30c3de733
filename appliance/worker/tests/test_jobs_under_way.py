"""In the midst of a job: half of it is seen, and no alert tells of what is none; when it has ended, they tell the truth."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from appliance.database.models import WebhookDelivery
from appliance.domain import jobs
from appliance.domain.capacity import HIDDEN_SECONDS
from appliance.testing import GIB, Appliance


def look(appliance: Appliance) -> set[str]:
    """All that the clock does, and the keys of the open alerts then."""
    assert appliance.request("POST", "/reconcile").status_code == 200
    appliance.service._capacity()
    return {one["key"] for one in appliance.get("/alerts")["items"]}


def told(appliance: Appliance) -> list[tuple[str, str]]:
    """What webhooks were to be sent: its kind, and the alert's key."""
    with appliance.store.reading() as session:
        sent = session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.id)).all()
    return [(one.kind, json.loads(one.body)["data"]["key"]) for one in sent]


@pytest.fixture
def hooked(appliance: Appliance) -> Appliance:
    """With a receiver of all alerts."""
    hook = {"name": "pager", "url": "https://192.0.2.1/", "severity": "info"}
    assert appliance.request("POST", "/webhooks", hook).status_code == 201
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
    assert look(hooked) == set() and told(hooked).count(("alert.cleared", key)) == 1


def test_a_job_that_waits_for_others_hides_nothing(hooked: Appliance, hold: Callable[..., Held]) -> None:
    first, second = hooked.datastore("first"), hooked.datastore("second")
    waits = hold("grow_volume")
    jobs = [begin(hooked, "POST", f"/datastores/{one}/grow", {"size": str(2 * GIB)}) for one in (first, second)]
    lost = hooked.get(f"/datastores/{second}")["dataset"]
    with waits:
        hooked.simulator.destroy(lost)
        assert look(hooked) == {f"capacity:missing:{second}"}
    assert [hooked.ended(job)["state"] for job in jobs] == ["succeeded", "failed"]
