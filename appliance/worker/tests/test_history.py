# SPDX-License-Identifier: Apache-2.0
"""History, from the target's counters to the API's answers: over restarts, over ranges, and with missing sources."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.target import TargetSimulator

from appliance.database.series import Layout, SeriesFiles
from appliance.dataplane.target import TargetUnreachableError
from appliance.domain.history import CAPACITY, DAY_S, HOUR_S, PEAKS, RATES
from appliance.worker.tests.test_pools import free_disks

ESX = "iqn.1998-01.com.vmware:esx1"
BOUNDS = [1 << power for power in range(27)]
NOW = int(time.time()) // HOUR_S * HOUR_S


def counted(operations: int, cloned: int = 0, **name: Any) -> dict[str, Any]:
    """A row of the target: so many reads of 4096 bytes that took 1 to 2 ms."""
    some = {"operations": operations, "bytes": 4096 * operations, "latency": {"counts": [0] * 11 + [operations]}}
    none = {"operations": 0, "bytes": 0, "latency": {"counts": []}}
    offload = {"cloned_bytes": cloned, "copied_bytes": 0, "zeroed_bytes": 0, "unmapped_bytes": 0}
    return {**name, "read": some, "write": none, "offload": offload}


class Counting:
    """Counters of the simulated target."""

    def __init__(self, appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(appliance.target, TargetSimulator)
        appliance.service.history.stop()  # the tests collect
        self.luns: list[dict[str, Any]] = []
        self.hosts: list[dict[str, Any]] = []
        self.away = False
        monkeypatch.setattr(appliance.target, "statistics", self._report)

    def _report(self, _target: str) -> dict[str, Any]:
        if self.away:
            raise TargetUnreachableError("away")
        return {"latency_bounds_microseconds": BOUNDS, "luns": self.luns, "hosts": self.hosts, "sessions": []}


def last(values: list[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def test_of_datastore_host_and_pool(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has separate values; the pool has the sum; all values survive a restart of the worker."""
    target = Counting(appliance, monkeypatch)
    first, second = appliance.datastore("vmfs1"), appliance.datastore("vmfs2")
    appliance.group("cluster", ESX)
    host = appliance.get("/hosts")["items"][0]["id"]
    history, end = appliance.service.history, int(time.time()) // 60 * 60
    for step in range(13):
        target.luns = [counted(100 * step, 1 << 20, uuid=first), counted(20 * step, uuid=second), counted(7, uuid="stranger")]
        target.hosts = [counted(120 * step, initiator=ESX), counted(step, initiator="iqn.2000-01.absent:x")]
        history.collect(end - 120 + 10 * step)
    appliance.restart_worker()
    result = appliance.get(f"/datastores/{first}/history?range=hour&end={end}")
    assert result["load"]["step_seconds"] == 10 and len(result["load"]["series"]["read_operations"]) == 360
    series = result["load"]["series"]
    assert series["read_operations"][-12:] == [10.0] * 12 and series["write_operations"][-1] == 0
    assert series["read_bytes"][-1] == 40960 and series["cloned_bytes"][-1] == 0
    assert series["p50_ms"][-1] == pytest.approx(1.536) and series["p99_ms"][-1] == pytest.approx(2.038, abs=0.001)
    assert last(result["capacity"]["series"]["size_bytes"]) == 1 << 30
    pool = appliance.get(f"/pools/tank/history?range=hour&end={end}")
    assert pool["load"]["series"]["read_operations"][-1] == 12 and pool["full_at"] is None
    assert last(pool["capacity"]["series"]["used_bytes"]) is not None
    of_host = appliance.get(f"/hosts/{host}/history?range=hour&end={end}")
    assert of_host["load"]["series"]["read_operations"][-1] == 12 and "capacity" not in of_host
    assert len(appliance.get(f"/datastores/{first}/history?range=hour&points=12")["load"]["series"]["p99_ms"]) == 12
    for path in ("/datastores/absent", "/hosts/absent", "/pools/absent"):
        assert appliance.request("GET", f"{path}/history").status_code == 404
    assert appliance.request("GET", f"/hosts/{host}/history?range=century").status_code == 422


def test_use_of_a_pool_includes_reserved_space(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its size is without parity: forecast, bar and alert have one rule."""
    Counting(appliance, monkeypatch)
    raidz = {"devices": free_disks(appliance)[:4], "redundancy": "raidz1"}
    appliance.job("POST", "/pools", {"name": "parity", "vdevs": [raidz]})
    store = appliance.datastore("vmfs1", pool="parity", thick=True)
    pool = appliance.get("/pools/parity")
    end = int(time.time()) // 60 * 60
    appliance.service.history.collect(end)
    series = appliance.get(f"/pools/parity/history?range=hour&end={end}")["capacity"]["series"]
    used, usable = last(series["used_bytes"]), last(series["size_bytes"])
    assert used is not None and usable is not None
    assert used >= int(appliance.get(f"/datastores/{store}")["reserved"]) >= GIB > int(pool["allocated"])
    assert usable == int(pool["usable"]) < 0.76 * int(pool["size"]) and usable - used == int(pool["available"])


def test_load_of_all_datastores_now(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    target, store = Counting(appliance, monkeypatch), appliance.datastore("vmfs1")
    history, end = appliance.service.history, int(time.time()) // 10 * 10
    for step, operations in enumerate((100, 200, None)):
        target.away = operations is None
        target.luns = [counted(operations or 0, uuid=store)]
        history.collect(end - 20 + 10 * step)
        expected = [{"datastore": store, "operations": 10, "bytes": 40960}] if step == 1 else []
        assert appliance.get("/load")["items"] == expected


def test_a_gap_while_the_target_was_stopped_or_restarted(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    target, store = Counting(appliance, monkeypatch), appliance.datastore("vmfs1")
    end = int(time.time()) // 10 * 10
    for step, operations in enumerate((100, 200, None, 400, 500, 20, 120)):
        target.away = operations is None
        target.luns = [counted(operations or 0, uuid=store)]
        appliance.service.history.collect(end - 60 + 10 * step)
    result = appliance.get(f"/datastores/{store}/history?range=hour&end={end}")["load"]["series"]
    assert result["read_operations"][-6:] == [10.0, None, None, 10.0, None, 10.0]


def test_load_latency_and_clones_of_an_nfs_datastore(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export has a row for each name by which hosts use it."""
    Counting(appliance, monkeypatch)
    assert appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [], "addresses": ["192.0.2.7"]}).status_code == 201
    (host,) = (entry["id"] for entry in appliance.get("/hosts")["items"])
    used, unused = appliance.nfs_datastore("nfs1"), appliance.nfs_datastore("nfs2")
    share = appliance.get(f"/datastores/{used}")["share"]
    path = appliance.service.context.datastores()[0].path
    end = int(time.time()) // 10 * 10
    for step in range(2):
        rows = [counted(10 * step, cloned=4096 * 10 * step, export=share), counted(20 * step, export=path)] if step else []
        hosts = [counted(30 * step, host="192.0.2.7")]
        response = {"latency_bounds_microseconds": BOUNDS, "exports": rows, "hosts": hosts}
        monkeypatch.setattr(appliance.service.context.files, "counters", lambda response=response: response)
        appliance.service.history.collect(end - 10 + 10 * step)
    for subject, cloned in ((f"datastores/{used}", 4096), (f"hosts/{host}", 0)):
        series = appliance.get(f"/{subject}/history?range=hour&end={end}")["load"]["series"]
        assert (series["read_operations"][-1], series["read_bytes"][-1], series["write_operations"][-1]) == (3, 12288, 0)
        assert series["cloned_bytes"][-1] == cloned
        assert 1 <= series["p50_ms"][-1] <= series["p99_ms"][-1] <= 2.1
    series = appliance.get(f"/datastores/{unused}/history?range=hour&end={end}")["load"]["series"]
    assert series["read_operations"][-1] == 0 and series["p99_ms"][-1] is None
    load = {entry["datastore"]: (entry["operations"], entry["bytes"]) for entry in appliance.get("/load")["items"]}
    assert load == {used: (3, 12288), unused: (0, 0)}


def test_an_address_that_a_host_gets_counts_from_then_on(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does one whose server did not answer once: what was moved before is not counted."""
    target, added = Counting(appliance, monkeypatch), "192.0.2.8"
    body = {"name": "esx1", "iqns": [ESX], "addresses": ["192.0.2.7"]}
    assert appliance.request("POST", "/hosts", body).status_code == 201
    (host,) = (entry["id"] for entry in appliance.get("/hosts")["items"])
    appliance.nfs_datastore("nfs1")
    end = int(time.time()) // 10 * 10
    for step in range(8):
        if step == 2:
            assert appliance.request("PATCH", f"/hosts/{host}", {"addresses": ["192.0.2.7", added]}).status_code == 200
        target.away = step == 5
        target.hosts = [counted(10**9 + 100 * step, initiator=ESX)]
        hosts = [counted(10 * step, host="192.0.2.7"), counted(10**12 + 20 * step, host=added)]
        response = {"latency_bounds_microseconds": BOUNDS, "exports": [], "hosts": hosts}
        monkeypatch.setattr(appliance.service.context.files, "counters", lambda response=response: response)
        appliance.service.history.collect(end - 70 + 10 * step)
    series = appliance.get(f"/hosts/{host}/history?range=hour&end={end}")["load"]["series"]
    assert series["read_operations"][-7:] == [11, 11, 13, 13, 3, 3, 13]


def test_p99_is_consolidated_by_its_maximum(tmp_path: Path) -> None:
    """An hour of 10 s with one bad sample: the mean of the rate, the worst of p99, in each range."""
    files = SeriesFiles(tmp_path / "history")
    begin = NOW - 2 * HOUR_S
    for minute in range(120):
        times = [begin + 60 * minute + 10 * step for step in range(1, 7)]
        bad = begin + HOUR_S + 1800
        files.append("x", PEAKS, [(at, [900.0 if at == bad else 2.0]) for at in times])
        files.append("x", RATES, [(at, [100.0 if at <= begin + HOUR_S else 200.0] + [0.0] * 8) for at in times])
    month = files.read("x", PEAKS, NOW, 30 * DAY_S, 720)
    assert (month.step_seconds, month.series["p99_ms"][-3:]) == (HOUR_S, [None, 2.0, 900.0])
    assert files.read("x", RATES, NOW, 30 * DAY_S, 720).series["read_operations"][-2:] == [100.0, 200.0]
    day = files.read("x", PEAKS, NOW, DAY_S, 720)
    assert day.step_seconds == 120 and len(day.series["p99_ms"]) == 720
    assert sorted({value for value in day.series["p99_ms"] if value}) == [2.0, 900.0]
    year = files.read("x", PEAKS, NOW, 365 * DAY_S, 720)
    assert max(value for value in year.series["p99_ms"] if value) == 900.0
    assert max(value for value in files.read("x", PEAKS, NOW - 1500, HOUR_S, 720).series["p99_ms"] if value) == 900.0
    assert all(value in (2.0, None) for value in files.read("x", PEAKS, NOW, 1500, 720).series["p99_ms"])


@pytest.mark.parametrize(
    ("layout", "seconds", "step"),
    [(RATES, DAY_S, 120), (RATES, 7 * DAY_S, 840), (CAPACITY, DAY_S, 120), (CAPACITY, 7 * DAY_S, 1200)],
)
def test_a_range_that_ends_now_is_read_from_the_archive_of_its_length(
    tmp_path: Path, layout: Layout, seconds: int, step: int
) -> None:
    files, now = SeriesFiles(tmp_path), time.time()
    end, known = int(now) // layout.step * layout.step, [1.0] * len(layout.values)
    oldest = range(end - seconds - step, end - seconds + 2 * step, layout.step)
    files.append("x", layout, [(at, known) for at in (*oldest, end)])
    part = files.read("x", layout, now, seconds, 720)
    (values, *_) = part.series.values()
    assert (part.step_seconds, values[0]) == (step, 1.0)


def test_files_have_a_fixed_size_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    files = SeriesFiles(tmp_path)
    files.append("x", CAPACITY, [(NOW, [1, 2, 3])])
    (file,) = tmp_path.iterdir()
    size = file.stat().st_size
    files.append("x", CAPACITY, [(NOW + 60 * step, [1, 2, 3]) for step in range(1, 1000)])
    assert file.stat().st_size == size
    files.append("x", CAPACITY, [(NOW, [9, 9, 9])])  # the clock was set back: nothing is lost
    assert last(files.read("x", CAPACITY, NOW + 60000, HOUR_S, 720).series["size_bytes"]) == 3
    file.write_bytes(b"no such file" * 100)
    files = SeriesFiles(tmp_path)  # of the next worker
    assert last(files.read("x", CAPACITY, NOW, HOUR_S, 720).series["size_bytes"]) is None
    files.append("x", CAPACITY, [(NOW, [1, 2, 3])])
    files.append("x", CAPACITY, [(NOW + 60, [1, 2, 4])])
    assert last(files.read("x", CAPACITY, NOW + 60, HOUR_S, 720).series["size_bytes"]) == 4
    files.remove_unused(-1)
    assert list(tmp_path.iterdir()) == []
