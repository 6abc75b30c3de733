# SPDX-License-Identifier: Apache-2.0
"""A failed device and a scrub with errors, on a real pool, with the real zed forwarding events: both raise alerts."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.appliance import Appliance, running_appliance, running_helper
from support.programs import IN_GUEST, REPOSITORY, run, wait_for

from appliance.database.models import Event
from appliance.database.store import Store

DEVICES = ("/dev/shm/events0", "/dev/shm/events1")
POOL = "events"
HELPER = Path("/run/zvaai-helper-events.sock")
ZEDLET = REPOSITORY / "packaging/zed/all-zvaai.py"
WORKER = "/run/zvaai/worker.sock"


@contextlib.contextmanager
def zed(directory: Path, socket: Path) -> Iterator[None]:
    """OpenZFS's event daemon with only our zedlet, installed as packaging/zed says.

    A new daemon starts with all events that the kernel has queued, so those of other tests are cleared.
    """
    run("zpool", "events", "-c")
    folder = directory / "zed.d"
    folder.mkdir(mode=0o755)
    text = ZEDLET.read_text()
    assert WORKER in text
    (folder / ZEDLET.name).write_text(text.replace(WORKER, str(socket)))
    (folder / ZEDLET.name).chmod(0o755)
    words = ["/usr/sbin/zed", "-F", "-d", str(folder), "-p", str(directory / "zed.pid"), "-s", str(directory / "zed.state")]
    with (directory / "zed.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance on a mirror of two devices in memory. Neither the clock nor requests make its worker scan: events do."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(256 << 20)
    with (
        running_helper(HELPER),
        running_appliance(tmp_path / "a", reconcile_seconds=3600, helper=HELPER, inventory_seconds=600) as appliance,
    ):
        tmp_path.chmod(0o755)
        with zed(tmp_path, tmp_path / "a" / "run" / "worker.sock"):
            appliance.cli("pool", "create", POOL, "mirror", *DEVICES, "--force", "--wait")
            yield appliance
    if POOL in run("zpool", "list", "-H", "-o", "name").split():
        run("zpool", "destroy", "-f", POOL)
    for device in DEVICES:
        Path(device).unlink()


def alerts(appliance: Appliance) -> dict[str, str]:
    """Severities of open alerts by kind, such as "pool:device"."""
    alerts = appliance.json("alert", "list")
    return {":".join(alert["key"].split(":")[:2]): alert["severity"] for alert in alerts}


def test_pool_events_raise_alerts(appliance: Appliance) -> None:
    assert not {alert for alert in alerts(appliance) if alert.startswith("pool:")}

    # A device fails and returns.
    run("zpool", "offline", "-f", POOL, DEVICES[0])
    wait_for(lambda: alerts(appliance).get("pool:device") == "critical", "the fault is reported")
    assert "FAULTED" in str(appliance.json("alert", "list")) and DEVICES[0] in str(appliance.json("alert", "list"))
    run("zpool", "clear", POOL)
    wait_for(lambda: "pool:device" not in alerts(appliance), "the alert is cleared")

    # Damage on one side of the mirror, which a scrub finds and repairs.
    run("zfs", "create", "-o", "mountpoint=/mnt/events", f"{POOL}/files")
    Path("/mnt/events/file").write_bytes(os.urandom(1 << 20))
    run("zpool", "sync", POOL)
    with Path(DEVICES[1]).open("r+b") as device:
        device.seek(5 << 20)
        device.write(os.urandom(200 << 20))
        device.flush()
        os.fsync(device.fileno())
    run("zpool", "scrub", "-w", POOL)
    wait_for(lambda: alerts(appliance).get("pool:errors") == "warning", "checksum errors are reported")
    text = "scrub of pool events has ended"
    wait_for(lambda: text in str(appliance.json("alert", "list", "--all")), "the end of the scrub is reported")
    assert "checksum errors" in str(appliance.json("alert", "list"))

    store = Store(appliance.directory / "state" / "appliance.sqlite")

    def classes() -> set[str]:
        with store.reading() as session:
            return {event.data["event_class"] for event in session.query(Event).filter(Event.kind == "zfs")}

    stored = {"resource.fs.zfs.statechange", "ereport.fs.zfs.checksum"}
    wait_for(lambda: stored <= classes(), f"{stored} are kept")
    assert not {name for name in classes() if name.endswith(("history_event", "config_sync"))}, "these have no use"
    store.close()
    # OpenZFS has no event for cleared counters; the worker scans at the end of its job.
    appliance.cli("pool", "device", POOL, DEVICES[1], "clear", "--wait")
    wait_for(lambda: "pool:errors" not in alerts(appliance), "the error alert is cleared")

    # The guest's disks have no SMART.
    assert all(not disk["smart"]["available"] and disk["smart"]["reason"] for disk in appliance.json("pool", "disks"))
