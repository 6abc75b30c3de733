# SPDX-License-Identifier: Apache-2.0
"""Problems of pools, devices and disks raise alerts, which clear when the problem ends."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from simulators.appliance import Appliance

from appliance.database.models import Event
from appliance.dataplane.target import ServedTarget
from appliance.domain import disks, pool_health
from appliance.domain.errors import InvalidError
from appliance.domain.receivers import SEVERITIES
from appliance.worker import watch
from appliance.zfs.errors import Timeout
from appliance.zfs.model import DiskHealth, Health, Role, Scan, ScanState, Vdev

WELL = DiskHealth(available=True, passed=True, temperature=35, reallocated=0, pending=0)


def alerts(appliance: Appliance, area: str) -> dict[str, str]:
    """Severities of open alerts, by subject."""
    alerts = appliance.get("/alerts")["items"]
    return {alert["key"].split(":")[1]: alert["severity"] for alert in alerts if alert["key"].startswith(f"{area}:")}


def severity(appliance: Appliance, path: str) -> str | None:
    """That of a disk in the list of disks."""
    (smart,) = [disk["smart"] for disk in appliance.get("/disks")["items"] if disk["path"] == path]
    return smart["severity"]  # type: ignore[no-any-return]


def scan(appliance: Appliance) -> None:
    appliance.service.context.scan()
    appliance.service.watch.pools()


def event(appliance: Appliance, event_class: str, **more: Any) -> Any:
    event = {"class": event_class, "pool": "tank", "vdev": "/dev/sda", "state": "", "eid": 7, **more}
    return appliance.service.watch.event(event)


def test_devices_that_fail_and_return(appliance: Appliance) -> None:
    first, second = (disk.path for disk in appliance.simulator.disks()[:2])
    scan(appliance)
    assert alerts(appliance, "pool") == {}
    appliance.simulator.fault_disk(first, checksum=12)
    scan(appliance)
    assert alerts(appliance, "pool") == {"errors": "warning"}
    appliance.simulator.fault_disk(first, read=3)
    scan(appliance)
    assert alerts(appliance, "pool") == {"errors": "warning", "device": "critical"}
    text = " ".join(alert["text"] for alert in appliance.get("/alerts")["items"])
    assert "3 read, 0 write, 12 checksum errors" in text and first in text and second not in text
    (faulted,) = [alert["remedy"] for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("pool:device:")]
    assert f"{first} clear" in faulted, "a device that is FAULTED stays so when it is brought online"
    appliance.simulator.clear("tank")
    scan(appliance)
    assert "errors" not in alerts(appliance, "pool") and "device" not in alerts(appliance, "pool")
    appliance.simulator.offline("tank", second)
    scan(appliance)
    assert alerts(appliance, "pool")["device"] == "warning"


@pytest.mark.parametrize("of_the_system", [False, True])
def test_a_device_of_a_suspended_pool_needs_a_clear(of_the_system: bool, shared: Appliance) -> None:
    """A suspended pool refuses `online` and `replace`."""
    lost = Vdev(name="/dev/sdx", kind="disk", guid=5, health=Health.REMOVED, path="/dev/sdx", write_errors=3)
    pool = replace(shared.simulator.pool("tank"), health=Health.SUSPENDED, vdevs=(lost,), of_the_system=of_the_system)
    remedies = [f.remedy for f in pool_health.findings([pool], 3.0) if f.key.startswith(("pool:device:", "pool:errors:"))]
    clear = "zpool clear tank" if of_the_system else "zvaai pool device tank /dev/sdx clear"
    assert remedies == [f"Reconnect the disk and run: {clear}", f"Check the disk and its cables. Then run: {clear}"]


def test_a_successful_scrub_is_reported_once(appliance: Appliance) -> None:
    """In the history of alerts: it needs no action, so none is open."""
    appliance.simulator.scrub_start("tank")
    while (scrub := appliance.simulator.pool("tank").scan) is None or scrub.ended is None:
        time.sleep(0.01)
    for _ in range(2):
        scan(appliance)
    assert alerts(appliance, "pool") == {}
    scans = [alert for alert in appliance.get("/alerts?open=false")["items"] if alert["key"].startswith("pool:scan:")]
    assert [alert["severity"] for alert in scans] == ["info"] and "scrub of pool tank has ended" in scans[0]["text"]


def test_a_resilver_repairs_nothing(appliance: Appliance) -> None:
    pool = appliance.simulator.pool("tank")
    for function, done in (("scrub", "5 bytes repaired"), ("resilver", "5 bytes written")):
        ended = Scan(function=function, state=ScanState.FINISHED, started=1, ended=2, repaired=5)
        (finding,) = pool_health.scans([replace(pool, scan=ended)], now=3)
        assert done in finding.text


def test_events_are_published_and_start_a_scan(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storm is cut off, and its changes are found nevertheless, without waiting for the clock."""
    monkeypatch.setattr(watch, "EVENTS_A_MINUTE", 3)
    appliance.service.watch.now = lambda: 1_800_000_000.0
    first = appliance.simulator.disks()[0].path
    appliance.simulator.fault_disk(first, read=1)
    assert [event(appliance, "ereport.fs.zfs.io") for _ in range(5)] == [True, True, True, False, False]
    with appliance.store.reading() as session:
        assert session.query(Event).filter(Event.kind == "zfs").count() == 3
    limit = time.monotonic() + 60
    while "device" not in alerts(appliance, "pool"):
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_slow_scans_leave_time_to_others(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is as many times as long as the last scan: here so many that the second event has to wait."""
    appliance.service.context.scan()
    monkeypatch.setattr(watch, "_SCAN_INTERVAL_S", 0.0)
    monkeypatch.setattr(watch, "_SCAN_TIMES", 1e6)
    for _ in range(2):
        event(appliance, "ereport.fs.zfs.io")
    assert appliance.service.watch._waiting


def test_a_fault_is_reported_while_the_target_does_not_answer(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    called, answers, targets = threading.Event(), threading.Event(), appliance.target.targets

    def late() -> list[ServedTarget]:
        called.set()
        answers.wait(120)
        return targets()

    monkeypatch.setattr(appliance.target, "targets", late)
    appliance.service.scheduler.request()
    try:
        assert called.wait(60)
        appliance.simulator.fault_disk(appliance.simulator.disks()[0].path, read=1)
        event(appliance, "ereport.fs.zfs.io")
        limit = time.monotonic() + 60
        while "device" not in alerts(appliance, "pool"):
            assert time.monotonic() < limit
            time.sleep(0.01)
    finally:
        answers.set()


def test_slow_devices_are_reported_for_an_hour(appliance: Appliance) -> None:
    now = [1_800_000_000.0]
    appliance.service.watch.now = lambda: now[0]
    event(appliance, "ereport.fs.zfs.delay")
    scan(appliance)
    assert alerts(appliance, "slow") == {"tank": "warning"}
    event(appliance, "ereport.fs.zfs.deadman")
    scan(appliance)
    assert alerts(appliance, "slow") == {"tank": "critical"}
    now[0] += 3601
    scan(appliance)
    assert alerts(appliance, "slow") == {}


@pytest.mark.parametrize(
    "wrong",
    [{"class": "no class!"}, {"class": ""}, {"class": 5}, {"pool": "a\nb"}, {"vdev": "x" * 2000}, {"eid": "7"}, {"eid": -1}],
)
def test_invalid_events_are_refused(shared: Appliance, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        shared.service.watch.event({"class": "a.b", "pool": "tank", "vdev": "", "state": "", "eid": 1, **wrong})


# --- SMART


def test_smart_data_is_shown_and_raises_alerts(appliance: Appliance) -> None:
    path = appliance.simulator.disks()[0].path
    others = {disk.path for disk in appliance.simulator.disks()[1:]}

    def says(health: DiskHealth) -> dict[str, str]:
        appliance.simulator.smart[path] = health
        appliance.service.watch.read_disks()
        assert severity(appliance, path) == max(alerts(appliance, "disk").values(), key=SEVERITIES.index, default=None)
        return alerts(appliance, "disk")

    assert says(WELL) == {}
    shown = {disk["path"]: disk["smart"] for disk in appliance.get("/disks")["items"]}
    assert shown[path]["passed"] and shown[path]["temperature"] == 35 and shown[path]["read_at"]
    assert all(not shown[other]["available"] and shown[other]["reason"] for other in others), "who has none says so"
    assert says(replace(WELL, passed=False)) == {"failing": "critical"}
    assert says(replace(WELL, pending=4, reallocated=1)) == {"pending": "warning", "reallocated": "warning"}
    assert says(replace(WELL, wear=92)) == {"wear": "warning"} and says(replace(WELL, wear=101)) == {"wear": "critical"}
    assert says(replace(WELL, spare=4, spare_limit=10)) == {"spare": "critical"}
    hot = replace(WELL, passed=False, critical_warning=2, spare=100, temperature=71)
    assert says(hot) == {"temperature": "warning"}, "smartctl says that such an NVMe disk fails"
    assert says(replace(WELL, temperature=71, spare=100)) == {}, "an NVMe disk knows its limit"
    assert says(replace(WELL, passed=False, critical_warning=8)) == {"failing": "critical"}
    assert "takes no writes" in appliance.get("/alerts")["items"][0]["text"]
    assert says(WELL) == {}


def test_a_disk_outside_pools_has_no_command_of_a_pool(shared: Appliance) -> None:
    disk, worn = shared.simulator.disks()[0], replace(WELL, wear=101, pending=4)
    for used_by, commands in (("mounted on /", False), (None, False), ("pool tank", True)):
        findings = disks.findings({disk.path: (replace(disk, used_by=used_by), worn)})
        assert [" tank" in finding.remedy and "zvaai pool" in finding.remedy for finding in findings] == [commands, commands]
        assert all("replace the disk" in finding.remedy.lower() and "POOL" not in finding.remedy for finding in findings)


def test_remedies_for_a_pool_of_the_system_are_not_refused(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    pools, first = appliance.simulator.pools, appliance.simulator.disks()[0].path
    marked = [replace(pool, of_the_system=True, error_count=1) for pool in pools()]
    monkeypatch.setattr(appliance.simulator, "pools", lambda: marked)
    (vdev,) = marked[0].vdevs
    failed = (
        replace(vdev.devices()[0], health=Health.FAULTED, checksum_errors=1),
        replace(vdev.devices()[1], health=Health.OFFLINE),
    )
    marked[0] = replace(marked[0], vdevs=(replace(vdev, vdevs=failed),))
    appliance.simulator.smart[first] = replace(WELL, passed=False, pending=1)
    event(appliance, "ereport.fs.zfs.delay", vdev=first)
    scan(appliance)
    appliance.service.watch.read_disks()
    remedies = " ".join(alert["remedy"] for alert in appliance.get("/alerts")["items"])
    assert "zvaai pool" not in remedies
    for command in (f"clear tank {first}", "online tank", f"replace tank {first} NEW_DISK", "scrub tank", "status -v tank"):
        assert f"zpool {command}" in remedies


def test_a_dead_cache_or_spare_is_removed_as_openzfs_replaces_none(shared: Appliance) -> None:
    pool = shared.simulator.pool("tank")
    for role in (Role.CACHE, Role.SPARE):
        dead = Vdev(name="/dev/sdx", kind="disk", guid=5, health=Health.UNAVAILABLE, role=role, path="/dev/sdx")
        for of_the_system, tool, add in ((False, "zvaai pool", "extend"), (True, "zpool", "add")):
            (finding,) = pool_health.findings([replace(pool, vdevs=(*pool.vdevs, dead), of_the_system=of_the_system)], 3.0)
            assert finding.severity == "warning", "no data is lost"
            assert finding.remedy == (
                f"Remove it: {tool} remove tank /dev/sdx. Then add another: {tool} {add} tank {role} NEW_DISK"
            )


def test_damaged_data_says_how_to_find_and_restore_it(appliance: Appliance) -> None:
    pool = appliance.service.context.scan().pools[0]
    ended = Scan(function="scrub", state=ScanState.FINISHED, started=1, ended=2, errors=3)
    findings = pool_health.findings([replace(pool, error_count=3, scan=ended)], 3.0)
    damaged = [finding.remedy for finding in findings if finding.key.startswith(("pool:data:", "pool:scan:"))]
    assert len(damaged) == 2 and all("zpool status -v tank" in remedy and "zvaai pool scrub tank" in remedy for remedy in damaged)


def test_a_pool_whose_io_does_not_wait_for_lost_devices(appliance: Appliance) -> None:
    pool = appliance.service.context.scan().pools[0]
    assert not [finding for finding in pool_health.findings([pool], 3.0) if "failmode" in finding.text]
    for failmode, effect in (("continue", "VMs see damaged disks"), ("panic", "the server panics")):
        (finding,) = pool_health.findings([replace(pool, failmode=failmode)], 3.0)
        assert finding.severity == "warning" and effect in finding.text
        assert finding.remedy.endswith("zpool set failmode=wait tank")


def test_warm_disks_do_not_flap(appliance: Appliance) -> None:
    path = appliance.simulator.disks()[0].path

    def at(degrees: int, limit: int | None = None) -> dict[str, str]:
        appliance.simulator.smart[path] = replace(WELL, temperature=degrees, temperature_limit=limit)
        appliance.service.watch.read_disks()
        assert severity(appliance, path) == alerts(appliance, "disk").get("temperature")
        return alerts(appliance, "disk")

    hot = {"temperature": "warning"}
    assert [at(temperature) for temperature in (59, 60, 58, 55, 54, 58)] == [{}, hot, hot, hot, {}, {}]
    assert at(disks.HOT, 84) == {} and at(84, 84) == hot


def test_the_health_of_silent_and_sleeping_disks_does_not_change(appliance: Appliance) -> None:
    """Also for a restarted worker: a disk that reported a failure, and then nothing, is not healthy again."""
    path = appliance.simulator.disks()[0].path

    def says(health: DiskHealth) -> dict[str, str]:
        appliance.simulator.smart[path] = health
        appliance.service.watch.read_disks()
        assert severity(appliance, path) == max(alerts(appliance, "disk").values(), key=SEVERITIES.index, default=None)
        return alerts(appliance, "disk")

    before = says(replace(WELL, passed=False, pending=1))
    assert before == {"failing": "critical", "pending": "warning"}
    asleep = DiskHealth(available=False, asleep=True, reason="Device is in STANDBY mode")
    unanswered = DiskHealth(available=False, unanswered=True, reason="Smartctl open device failed: Input/output error")
    assert says(asleep) == before
    appliance.service.watch._healths = {}  # as after a start
    assert says(asleep) == before
    for _ in range(2):
        assert says(unanswered) == {**before, "silent": "warning"}
        appliance.service.watch._healths = {}
    appliance.simulator.fail_next("disk_health", Timeout("disk_health", 60), times=8)
    assert "failing" in says(replace(WELL, passed=False))
    assert says(WELL) == {}
    says(replace(WELL, pending=1))
    appliance.simulator.pull_disk(path)
    appliance.service.watch.read_disks()
    assert alerts(appliance, "disk") == {}


def test_growing_counters_are_reported_until_acknowledged_and_after_growth(appliance: Appliance) -> None:
    path = appliance.simulator.disks()[0].path

    def says(**counts: Any) -> dict[str, str]:
        appliance.simulator.smart[path] = replace(WELL, **counts)
        appliance.service.watch.read_disks()
        return alerts(appliance, "disk")

    def acknowledge() -> None:
        for alert in appliance.get("/alerts")["items"]:
            assert appliance.request("POST", f"/alerts/{alert['id']}/acknowledge").status_code == 200

    both = {"reallocated": "warning", "uncorrectable": "warning"}
    assert says(reallocated=5, uncorrectable=1) == both
    assert says(reallocated=6, uncorrectable=1) == both, "until somebody has seen it"
    acknowledge()
    assert says(reallocated=6, uncorrectable=1) == {}
    appliance.service.watch._healths = {}  # as after a start
    assert says(reallocated=6, uncorrectable=1) == {}
    assert says(reallocated=7, uncorrectable=1) == {"reallocated": "warning"}
    (alert,) = appliance.get("/alerts")["items"]
    assert alert["acknowledged_at"] is None and "7 sectors" in alert["text"]
    acknowledge()
    assert says(reallocated=9, uncorrectable=1) == {"reallocated": "warning"}, "it has grown since it was acknowledged"
    assert appliance.get("/alerts")["items"][0]["acknowledged_at"] is None
    acknowledge()
    assert says(reallocated=9, uncorrectable=1) == {}
    assert says(reallocated=9, uncorrectable=1, wear=92) == {"wear": "warning"}
    acknowledge()
    assert [says(reallocated=9, uncorrectable=1, wear=wear) for wear in (92, 94, 95, 101)] == [
        {}, {}, {"wear": "warning"}, {"wear": "critical"}
    ]  # fmt: skip
    assert says(reallocated=2) == {"reallocated": "warning"}, "a disk that counts anew is another one"
    assert says(pending=3) == {"pending": "warning"}
    acknowledge()
    assert says(pending=3) == {"pending": "warning"}, "what goes down again is open until it does"
    assert says() == {}


def test_a_change_found_after_an_event_is_drift(appliance: Appliance) -> None:
    """A run after an event reports differences as drift."""
    store = appliance.datastore("first")
    target = appliance.target.targets()[0]
    appliance.target.delete_lun(target.name, appliance.get(f"/datastores/{store}")["lun"])
    event(appliance, "sysevent.fs.zfs.vdev_remove_dev")
    limit = time.monotonic() + 60
    while True:
        with appliance.store.reading() as session:
            kinds = [event.kind for event in session.query(Event).order_by(Event.id) if event.data.get("cause") == "event"]
        if kinds:
            break
        assert time.monotonic() < limit
        time.sleep(0.01)
    assert kinds == ["drift"] and len(appliance.target.targets()[0].luns) == 1


def test_an_event_at_the_moment_of_the_stop_does_not_delay_it(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop comes after the thread has seen the event, before it clears it."""
    watched = appliance.service.watch
    clear, stopped = watched._changed.clear, threading.Event()

    def stop() -> None:
        if not stopped.is_set():
            stopped.set()
            watched._stopping.set()
            watched._changed.set()
        clear()

    monkeypatch.setattr(watched._changed, "clear", stop)
    assert event(appliance, "vdev.unknown")
    assert stopped.wait(60)
    watched._threads[1].join(10)
    assert not watched._threads[1].is_alive()
