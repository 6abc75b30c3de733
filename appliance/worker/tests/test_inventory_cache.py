# SPDX-License-Identifier: Apache-2.0
"""Lists never wait for a scan. They show own changes immediately, others' soon, and report unresponsive storage."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulators.appliance import Appliance, running
from simulators.storage import again

from appliance.config import Worker
from appliance.domain.datastores import Inventory
from appliance.domain.errors import UnavailableError
from appliance.zfs.errors import EngineUnavailable
from appliance.zfs.model import DatasetList, Redundancy, VdevSpec


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance whose inventory is outdated immediately, and may be old."""
    worker = Worker(reconcile_seconds=3600, inventory_seconds=0.05, inventory_oldest_seconds=3600)
    with running(tmp_path / "appliance", worker=worker) as appliance:
        yield appliance


def names(appliance: Appliance) -> list[str]:
    return [datastore["name"] for datastore in appliance.get("/datastores")["items"]]


def test_no_list_waits_for_a_scan(slow: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """During a scan lists show the old state; after it they show manual changes."""
    store = slow.datastore("first")
    scanning, go_on = threading.Event(), threading.Event()
    real = slow.simulator.snapshots

    def snapshots(*arguments: Any, **named: Any) -> Any:
        scanning.set()
        assert go_on.wait(60)
        return real(*arguments, **named)

    monkeypatch.setattr(slow.simulator, "snapshots", snapshots)
    dataset = slow.get(f"/datastores/{store}")["dataset"]
    slow.simulator.snapshot([f"{dataset}@by-hand"], properties={})
    try:
        while not scanning.is_set():
            names(slow)
        for path in ("/datastores", f"/datastores/{store}/snapshots", "/volumes", "/filesystems", "/pools", "/status"):
            assert slow.request("GET", path).status_code == 200, path
        for path in ("/readiness", "/metrics"):
            assert slow.request("GET", path).status_code == 200, path
        assert names(slow) == ["first"] and slow.get(f"/datastores/{store}/snapshots")["items"] == []
    finally:
        go_on.set()
    limit = time.monotonic() + 60
    while not slow.get(f"/datastores/{store}/snapshots")["items"]:
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_change_is_visible_at_once(slow: Appliance) -> None:
    """By a client that has seen the end of the job, whatever it changed."""
    store = slow.datastore("first")
    files = slow.nfs_datastore("files")
    assert names(slow) == ["files", "first"]
    slow.job("POST", "/snapshots", {"name": "one", "datastores": [store, files]})
    assert [snapshot["name"] for snapshot in slow.get(f"/datastores/{store}/snapshots")["items"]] == ["one"]
    slow.job("PATCH", f"/datastores/{store}", {"name": "renamed", "soft_threshold": 70})
    assert slow.get(f"/datastores/{store}")["soft_threshold"] == 70 and "renamed" in names(slow)
    slow.job("POST", f"/datastores/{store}/grow", {"size": str(2 << 30)})
    assert slow.get(f"/datastores/{store}")["size"] == str(2 << 30)
    slow.job("POST", f"/datastores/{files}/snapshots/one/rollback", {})
    slow.job("POST", f"/datastores/{store}/snapshots/delete", {"names": ["one"]})
    assert slow.get(f"/datastores/{store}/snapshots")["items"] == []
    slow.job("DELETE", f"/datastores/{store}")
    assert slow.get(f"/datastores/{store}")["state"] == "deleted"
    slow.job("POST", f"/datastores/{store}/purge")
    assert names(slow) == ["files"]
    slow.job("PATCH", "/pools/tank", {"warning_percent": 70})
    assert slow.get("/pools/tank")["warning_percent"] == 70
    slow.job("POST", "/pools/tank/export")
    assert slow.get("/pools")["items"] == [] and [datastore["state"] for datastore in slow.get("/datastores")["items"]] == [
        "missing"
    ]


def test_unresponsive_storage_is_reported(slow: Appliance) -> None:
    slow.datastore("first")
    slow.simulator.fail_next("datasets", EngineUnavailable("no helper"), times=3)
    limit = time.monotonic() + 60
    while slow.request("GET", "/datastores").status_code == 200:
        assert time.monotonic() < limit
        time.sleep(0.06)
    while slow.request("GET", "/datastores").status_code == 503:
        assert time.monotonic() < limit
    assert names(slow) == ["first"]


def test_one_scan_hangs_for_all_who_would_wait_as_long(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each check of a round waits until the storage is given up, and no alert is raised for a quarter of an hour."""
    appliance.service.stop()  # its scans could get the error, or replace the inventory
    context = appliance.service.context
    monkeypatch.setattr("appliance.worker.context.HANGS_S", 0.0)
    monkeypatch.setattr(context, "_inventory", Inventory(at=-math.inf))
    appliance.simulator.fail_next("datasets", EngineUnavailable("no helper"))
    for _ in range(2):
        with pytest.raises(UnavailableError):
            context.scan(60)
    assert context.scan().pools and context.scan(60).pools, "it works again"


def test_requests_wait_for_a_newer_inventory(tmp_path: Path) -> None:
    worker = Worker(reconcile_seconds=3600, inventory_seconds=0.05, inventory_oldest_seconds=0.05)
    with running(tmp_path / "appliance", worker=worker) as appliance:
        store = appliance.get(f"/datastores/{appliance.datastore('first')}")
        appliance.simulator.snapshot([f"{store['dataset']}@by-hand"], properties={})
        began = time.monotonic()
        while time.monotonic() < began + 0.06:
            time.sleep(0.01)
        assert [snapshot["name"] for snapshot in appliance.get(f"/datastores/{store['id']}/snapshots")["items"]] == ["by-hand"]


def test_before_the_first_scan_no_empty_machine_is_reported(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the monotonic clock began a moment ago, with the machine."""
    old = appliance.service.context
    new = again(old)
    with monkeypatch.context() as patch:
        patch.setattr("appliance.worker.context.time", SimpleNamespace(monotonic=lambda: 5.0, time=time.time, sleep=time.sleep))
        inventory = new.scan(60)
    assert [pool.name for pool in inventory.pools] == ["tank"]


def test_a_job_reads_only_its_pool(slow: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that cannot be read delays no job of another one."""
    disks = tuple(disk.path for disk in slow.simulator.disks() if disk.used_by is None)[:2]
    slow.simulator.create_pool("rust", [VdevSpec(devices=disks, redundancy=Redundancy.MIRROR)])
    store = slow.datastore("first")
    read: list[str | None] = []
    real = slow.simulator.datasets

    def datasets(root: str | None = None) -> DatasetList:
        read.append(root)
        return real(root)

    monkeypatch.setattr(slow.simulator, "datasets", datasets)
    slow.datastore("second")
    slow.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    assert read and set(read) == {"tank"}
