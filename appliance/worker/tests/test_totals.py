# SPDX-License-Identifier: Apache-2.0
"""Totals of offloaded bytes never decrease: not when a LUN is removed or returns, nor after a restart of target or worker."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from simulators.appliance import Appliance


def row(uuid: str, cloned: int, dirty: int = 0) -> dict[str, Any]:
    offload = {"cloned_bytes": cloned, "copied_bytes": dirty, "zeroed_bytes": 0, "unmapped_bytes": 0}
    return {"number": 0, "uuid": uuid, "aborted": 0, "offload": {**offload, "miscompares": 0, "fallback_bytes": {"dirty": dirty}}}


def test_totals_survive(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    def total(*luns: dict[str, Any]) -> tuple[int, int]:
        counters = {"luns": list(luns), "sessions": [], "hosts": []}
        monkeypatch.setattr(appliance.target, "statistics", lambda _target: counters)
        totals = appliance.get("/offloads")["totals"]["luns"]
        return totals.get("cloned_bytes", 0), totals["fallback_bytes"].get("dirty", 0)

    assert total(row("a", 100, 7)) == (100, 7)
    assert total(row("a", 150, 7), row("b", 20)) == (170, 7)
    assert total(row("b", 20)) == (170, 7), "a LUN is deleted"
    assert total(row("a", 0), row("b", 20)) == (170, 7), "rolled back, it is served again and counts from 0"
    assert total(row("a", 30, 5), row("b", 20)) == (200, 12)
    appliance.restart_worker()
    assert total(row("a", 30, 5), row("b", 25)) == (205, 12)
    assert total(row("a", 1), row("b", 2)) == (208, 12), "the target was restarted"
    metrics = appliance.request("GET", "/metrics").text
    assert 'zvaai_offloaded_bytes_total{kind="cloned",protocol="iscsi"} 208.0' in metrics


def test_totals_of_exports_survive_a_time_without_exports(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The NFS server keeps the counters of a removed export, and continues them."""

    def total(*cloned: int) -> int:
        rows = [{"export": f"/files{place}", **row("", count)} for place, count in enumerate(cloned)]
        monkeypatch.setattr(appliance.service.context.files, "counters", lambda: {"exports": rows})
        return int(appliance.get("/offloads")["totals"]["exports"]["cloned_bytes"])

    store = appliance.nfs_datastore("files0")
    assert total(100) == 100
    appliance.job("DELETE", f"/datastores/{store}")
    assert total(100) == 100 and appliance.get("/offloads")["exports"] == []
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert total(100) == 100
    assert total(130, 5) == 135
    assert total() == 135, "the NFS server was restarted"
    assert total(140) == 275


def test_older_counters_that_come_late_are_not_counted(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are lower than those of a faster reader, as after a restart of the target."""
    counters: dict[str, Any] = {"luns": [row("a", 100)], "sessions": [], "hosts": []}
    monkeypatch.setattr(appliance.target, "statistics", lambda _target: dict(counters))
    appliance.nfs_datastore("files")
    waiting, go_on = threading.Event(), threading.Event()

    def slow() -> dict[str, Any]:
        first = not waiting.is_set()
        waiting.set()
        assert not first or go_on.wait(60)
        return {"exports": [{"export": "/files", **row("", 7 if first else 8)}]}

    monkeypatch.setattr(appliance.service.context.files, "counters", slow)
    with ThreadPoolExecutor(1) as other:
        late = other.submit(appliance.get, "/offloads")
        try:
            assert waiting.wait(60)
            counters["luns"] = [row("a", 150)]
            totals = [appliance.get("/offloads")["totals"]]
        finally:
            go_on.set()
        totals += [late.result(60)["totals"], appliance.get("/offloads")["totals"]]
    assert [(each["luns"]["cloned_bytes"], each["exports"]["cloned_bytes"]) for each in totals] == [(150, 8)] * 3


def test_periodic_tasks_store_them_too(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A LUN that exists only between two visits of the dashboard is counted."""
    counters: dict[str, Any] = {"luns": [row("a", 40)], "sessions": [], "hosts": []}
    monkeypatch.setattr(appliance.target, "statistics", lambda _target: counters)
    appliance.service.scheduler.request()
    appliance.wait_until_idle()
    counters["luns"] = []
    assert appliance.get("/offloads")["totals"]["luns"]["cloned_bytes"] == 40
