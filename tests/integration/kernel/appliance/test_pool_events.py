# SPDX-License-Identifier: Apache-2.0
"""A device that fails and a scrub that finds damage, on a real pool, with the real zed handing on its events: alerts tell."""

from __future__ import annotations

import contextlib
import os
import shutil
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
PATIENCE = 120
"""Seconds, on a machine that does much else: each look at the pools is eight commands."""
ZEDLET = REPOSITORY / "packaging/zed/all-zvaai.py"


@contextlib.contextmanager
def zed(directory: Path, socket: Path) -> Iterator[None]:
    """OpenZFS's event daemon with our zedlet alone, as packaging/zed says it is to be installed.

    A new one begins with all events that the kernel has kept: those of other tests are forgotten.
    """
    run("zpool", "events", "-c")
    folder = directory / "zed.d"
    folder.mkdir(mode=0o755)
    shutil.copy(ZEDLET, folder)
    (folder / ZEDLET.name).chmod(0o755)
    (folder / "zvaai-socket").write_text(str(socket))
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
    """On a mirror of two devices in memory. Its worker looks by itself once in an hour only: events have it look."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(256 << 20)
    with running_helper(HELPER), running_appliance(tmp_path / "a", reconcile_seconds=3600, helper=HELPER) as appliance:
        tmp_path.chmod(0o755)
        with zed(tmp_path, tmp_path / "a" / "run" / "worker.sock"):
            appliance.cli("pool", "create", POOL, "mirror", *DEVICES, "--force", "--wait")
            yield appliance
    if POOL in run("zpool", "list", "-H", "-o", "name").split():
        run("zpool", "destroy", "-f", POOL)
    for device in DEVICES:
        Path(device).unlink()


def alerts(appliance: Appliance) -> dict[str, str]:
    """Open ones: severities by kind, such as "pool:device"."""
    found = appliance.json("alert", "list")
    return {":".join(one["key"].split(":")[:2]): one["severity"] for one in found}


def test_pool_events_raise_alerts(appliance: Appliance) -> None:
    assert not {one for one in alerts(appliance) if one.startswith("pool:")}

    # A device goes away and comes back.
    run("zpool", "offline", "-f", POOL, DEVICES[0])
    wait_for(lambda: alerts(appliance).get("pool:device") == "critical", "the fault is told", PATIENCE)
    assert "FAULTED" in str(appliance.json("alert", "list")) and DEVICES[0] in str(appliance.json("alert", "list"))
    run("zpool", "clear", POOL)
    wait_for(lambda: "pool:device" not in alerts(appliance), "it is told no more", PATIENCE)

    # Damage on one side of the mirror, that a scrub finds and mends.
    run("zfs", "create", "-o", "mountpoint=/mnt/events", f"{POOL}/files")
    Path("/mnt/events/file").write_bytes(os.urandom(1 << 20))
    run("zpool", "sync", POOL)
    with Path(DEVICES[1]).open("r+b") as device:
        device.seek(5 << 20)
        device.write(os.urandom(200 << 20))
        device.flush()
        os.fsync(device.fileno())
    run("zpool", "scrub", "-w", POOL)
    wait_for(lambda: alerts(appliance).get("pool:errors") == "warning", "checksum errors are told", PATIENCE)
    text = "scrub of pool events has ended"
    wait_for(lambda: text in str(appliance.json("alert", "list", "--all")), "that the scrub ended is told", PATIENCE)
    assert "checksum errors" in str(appliance.json("alert", "list"))

    store = Store(appliance.directory / "state" / "appliance.sqlite")

    def classes() -> set[str]:
        with store.reading() as session:
            return {event.data["event_class"] for event in session.query(Event).filter(Event.kind == "zfs")}

    kept = {"resource.fs.zfs.statechange", "ereport.fs.zfs.checksum", "sysevent.fs.zfs.scrub_finish"}
    wait_for(lambda: kept <= classes(), f"{kept} are kept", PATIENCE)
    store.close()
    # OpenZFS has no event for cleared counters; the end of a job is one for the worker.
    appliance.cli("pool", "device", POOL, DEVICES[1], "clear", "--wait")
    wait_for(lambda: "pool:errors" not in alerts(appliance), "the errors are told no more", PATIENCE)

    # The guest's disks have no SMART, and say so.
    assert all(not disk["smart"]["available"] and disk["smart"]["reason"] for disk in appliance.json("pool", "disks"))
