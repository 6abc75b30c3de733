# SPDX-License-Identifier: Apache-2.0
"""Alerts are raised and cleared when two checks agree, so that a check within a job raises none."""

from __future__ import annotations

import contextlib
import json
import logging
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
from appliance.domain.journal import Finding, note, update_alerts
from appliance.worker import alerts
from appliance.worker.alerts import Alerts
from appliance.zfs.errors import NoSuchDataset


def scan_and_read(appliance: Appliance) -> set[str]:
    """All that the clock does, and the keys of the open alerts then."""
    assert appliance.request("POST", "/reconcile").status_code == 200
    appliance.service.periodic.capacity()
    return opened(appliance)


def opened(appliance: Appliance) -> set[str]:
    """The keys of the open alerts."""
    return {alert["key"] for alert in appliance.get("/alerts")["items"]}


def notifications(appliance: Appliance) -> list[tuple[str, str]]:
    """Deliveries to receivers: kind, and the alert's key."""
    with appliance.store.reading() as session:
        sent = session.scalars(select(Delivery).order_by(Delivery.id)).all()
    return [(delivery.kind, json.loads(delivery.body)["data"]["key"]) for delivery in sent]


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
        """The first call whose last argument matches waits."""
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
    answer = appliance.request(method, path, body).json
    assert answer is not None
    return str(answer["id"])


def finding(severity: str) -> Finding:
    return Finding("odd:one", severity, "one", "it is odd")


def test_two_checks_raise_an_alert_and_two_clear_it(hooked: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "APART_S", 3.0)
    seen, clock, again = Alerts(hooked.store), [0.0], list[float]()
    seen.now, seen.request_after = lambda: clock[0], again.append

    def check_at(at: float, *findings: Finding) -> list[str]:
        clock[0] = at
        seen.update("odd", findings)
        return [alert["severity"] for alert in hooked.get("/alerts")["items"]]

    assert check_at(0, finding("warning")) == [] and again == [3.0]
    assert check_at(1, finding("warning")) == [], "a round of the same moment proves nothing"
    assert check_at(2) == [] and check_at(5, finding("warning")) == [], "once found, once not"
    assert check_at(8, finding("warning")) == ["warning"]
    again.clear()
    assert check_at(9, finding("critical")) == ["warning"] and again == [3.0]
    assert check_at(12, finding("critical")) == ["critical"]
    assert check_at(15) == ["critical"] and check_at(16, finding("critical")) == ["critical"]
    again.clear()
    assert check_at(30, finding("critical")) == ["critical"] and again == [], "nothing is open between checks that agree"
    assert check_at(40) == ["critical"] and check_at(43) == []
    assert [kind for kind, key in notifications(hooked) if key == "odd:one"] == ["alert.raised", "alert.changed", "alert.cleared"]


def test_the_second_round_does_not_wait_for_the_clock(hooked: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock's round comes once an hour here."""
    store = hooked.datastore("first")
    monkeypatch.setattr(alerts, "APART_S", 0.05)
    key = cannot_be_served(hooked, store, "vmfs", monkeypatch)
    hooked.service.scheduler.request()
    limit = time.monotonic() + 60
    while opened(hooked) != {key}:
        assert time.monotonic() < limit, "no second round"
        time.sleep(0.005)


def test_an_alert_ends_at_once_after_a_job_fixed_its_cause(hooked: Appliance) -> None:
    """The clock's round comes once an hour here, and OpenZFS has no event for cleared counters."""
    device = hooked.simulator.disks()[0].path
    hooked.simulator.fault_disk(device, checksum=12)
    hooked.service.scheduler.request()
    hooked.wait_until_idle()
    assert [key.startswith("pool:errors:") for key in opened(hooked)] == [True]
    hooked.job("POST", "/pools/tank/device", {"device": device, "action": "clear"})
    assert opened(hooked) == set()


def test_a_full_pool_is_news_after_its_threshold_was_acknowledged(hooked: Appliance) -> None:
    """At the threshold the alert is critical already, and does not change at another fill level."""
    hooked.datastore("first")
    usable = int(hooked.get("/pools/tank")["available"])
    headroom, near, full = min(usable // 64, 4 * GIB), "capacity:pool:tank", "capacity:full:tank"

    def opened_with(left: int) -> set[str]:
        with contextlib.suppress(NoSuchDataset):
            hooked.simulator.destroy("tank/others")
        hooked.simulator.create_filesystem("tank/others")
        hooked.simulator.write("tank/others", usable - left)
        hooked.service.context.scan()
        hooked.service.periodic.capacity()
        return opened(hooked)

    assert opened_with(headroom * 3 // 2) == {near}
    (alert,) = hooked.get("/alerts")["items"]
    assert hooked.request("POST", f"/alerts/{alert['id']}/acknowledge").status_code == 200
    assert opened_with(headroom // 2) == {near, full}
    assert notifications(hooked) == [("alert.raised", near), ("alert.raised", full)]
    assert opened_with(headroom * 9 // 8) == {near, full}, "it flaps if the same limit raises and clears it"
    assert opened_with(headroom * 3 // 2) == {near}


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_dataset_being_created_is_not_a_copy(
    kind: str, hooked: Appliance, hold: Callable[..., Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its identity, and not yet the GUID with which that counts; its number is in the database already."""
    waits = hold("set_properties", lambda given: "zvaai:guid" in given)
    monkeypatch.setattr(alerts, "APART_S", 3600.0)
    body = {"name": "first", "pool": "tank", "size": str(GIB), "kind": kind}
    job = begin(hooked, "POST", "/datastores", body)
    with waits:
        assert scan_and_read(hooked) == set()
        assert {datastore["state"] for datastore in hooked.get("/datastores")["items"]} == {"copy", "missing"}, (
            "half of it is seen"
        )
    assert hooked.ended(job)["state"] == "succeeded"
    assert scan_and_read(hooked) == set() and notifications(hooked) == []


def cannot_be_served(appliance: Appliance, store: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes a datastore unservable; returns the key of its alert."""
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


def test_each_change_of_an_alert_is_one_line_of_the_log(appliance: Appliance, caplog: pytest.LogCaptureFixture) -> None:
    """With a level by its severity, once it is committed."""
    caplog.set_level(logging.INFO, "appliance.domain.journal")

    def logged(*findings: Finding) -> list[tuple[int, str]]:
        caplog.clear()
        with appliance.store.session() as session:
            update_alerts(session, "odd", findings)
            assert not caplog.messages
        return [(record.levelno, record.getMessage()) for record in caplog.records]

    critical = Finding("odd:one", "critical", "tank", "80 % is used", "Add vdevs")
    assert logged(critical) == [(logging.ERROR, "alert raised (critical): odd:one: 80 % is used; remedy: Add vdevs")]
    assert logged(Finding("odd:one", "critical", "tank", "81 % is used")) == [], "a new fill level is no news"
    warning = Finding("odd:one", "warning", "tank", "70 % is used", "long " * 100)
    assert logged(warning) == [(logging.WARNING, "alert changed (warning): odd:one: 70 % is used")]
    assert logged() == [(logging.INFO, "alert cleared (warning): odd:one: 70 % is used")]
    (line,) = logged(Finding("odd:two", "info", "tank", "x" * 5000))
    assert line[0] == logging.INFO and len(line[1]) < 1100
    caplog.clear()
    with appliance.store.session() as session:
        note(session, Finding("odd:three", "info", "tank", "a scrub ended"))
    assert caplog.messages == ["alert raised (info): odd:three: a scrub ended"]
    with pytest.raises(KeyError), appliance.store.session() as session:
        update_alerts(session, "odd", [critical])
        raise KeyError
    assert len(caplog.messages) == 1, "the alert was not stored"
