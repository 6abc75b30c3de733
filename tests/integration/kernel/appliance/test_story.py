# SPDX-License-Identifier: Apache-2.0
"""VMFS datastores on real zvols by the API, from creation to deletion: API, worker, root helper and target are real."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import cdb
from support.appliance import GIB, Appliance, running_appliance, running_helper
from support.programs import IN_GUEST, ProgramFailed, run, wait_for
from support.raw_initiator import Session
from support.third_party_copy import Segment, extended_copy, naa_of, parameter_list
from support.zfs import destroy_pool

ESX = "iqn.1998-01.com.vmware:esx1"
DEVICES = ("/dev/shm/story0", "/dev/shm/story1")
HELPER = Path("/run/zvaai-helper-story.sock")
NOBODY = 65534
BLOCK = 512
COPIED_BLOCKS = 128
"""One block of the volume."""
PATIENCE = 120
"""Seconds; allows for a loaded machine."""
LOGICAL_UNIT_NOT_SUPPORTED = (0x05, 0x25, 0x00)


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance with two unused devices in memory."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(6 * GIB)
    with running_helper(HELPER), running_appliance(tmp_path / "a", reconcile_seconds=30, helper=HELPER) as appliance:
        yield appliance
    if "story" in run("zpool", "list", "-H", "-o", "name").split():
        destroy_pool("story")
    for device in DEVICES:
        Path(device).unlink()


def value(dataset: str, name: str) -> str:
    """Value of a property."""
    return run("zfs", "get", "-H", "-p", "-o", "value", name, dataset).strip()


class Host:
    """An initiator that logs in for each command."""

    def __init__(self, appliance: Appliance) -> None:
        self._appliance = appliance

    def session(self, lun: int) -> Session:
        """A session, for tests that stay logged in."""
        return Session(self._appliance.target.portal, iqn=self._appliance.iqn, initiator=ESX, lun=lun)

    def does(self, lun: int, command: bytes, data_in: int = 0, data_out: bytes = b"") -> bytes:
        """Response to a command, after the unit attentions."""

        async def all_of_it() -> bytes:
            async with self.session(lun) as session:
                await ready(session, lun)
                response = await session.execute(command, data_in, data_out)
                assert response.status == 0, response
                return response.data

        data = asyncio.run(all_of_it())
        wait_for(lambda: not self._appliance.json("host", "sessions"), "it is logged out", PATIENCE)
        return data

    def writes(self, lun: int, text: str) -> None:
        """Writes to the first block."""
        self.does(lun, cdb.write(0, 1), 0, text.encode().ljust(BLOCK, b"\0"))

    def reads(self, lun: int) -> str:
        """Reads from the first block."""
        return self.does(lun, cdb.read(0, 1), BLOCK).rstrip(b"\0").decode()


async def ready(host: Session, lun: int) -> None:
    """Takes the unit attentions and waits until the LUN is ready: udev may be slow to make a volume's link."""
    limit = time.monotonic() + PATIENCE
    while (answer := await host.execute(bytes(6), lun=lun)).status != 0:
        assert time.monotonic() < limit, answer
        await asyncio.sleep(0.05)


def roll_back(appliance: Appliance, host: Host, first: Any) -> None:
    """Refused while the host is logged in, and while a program has the volume open. During the rollback the host sees no LUN."""
    lun = int(first["lun"])

    async def while_logged_in() -> None:
        async with host.session(lun):
            refused = await asyncio.to_thread(appliance.run, "snapshot", "rollback", "first", "one", "--yes")
            assert refused.returncode == 4 and ESX in refused.stderr, refused

    async def while_out_of_service() -> None:
        async with host.session(lun) as session:
            response = await session.execute(bytes(6))
            assert response.sense_codes == LOGICAL_UNIT_NOT_SUPPORTED, response

    asyncio.run(while_logged_in())
    wait_for(lambda: not appliance.json("host", "sessions"), "it is logged out", PATIENCE)
    assert host.reads(lun) == "after"
    with Path("/dev/zvol", first["dataset"]).open("rb"):
        appliance.cli("snapshot", "rollback", "first", "one", "--yes")
        wait_for(lambda: lun not in appliance.luns(), "it is out of service", PATIENCE)
        asyncio.run(while_out_of_service())
        assert [job["state"] for job in appliance.json("job", "list") if job["kind"] == "snapshot.rollback"] == ["running"]
    wait_for(lambda: lun in appliance.luns(), "it is served again", PATIENCE)
    assert host.reads(lun) == "before"


def copy(appliance: Appliance, host: Host, source: int, destination: int) -> None:
    """EXTENDED COPY between LUNs counts as an offload of the destination."""

    async def extended() -> None:
        async with host.session(source) as session:
            for lun in (source, destination):
                await ready(session, lun)
            naas = [await naa_of(session, lun) for lun in (source, destination)]
            parameters = parameter_list(naas, [Segment(0, 1, COPIED_BLOCKS, 0, 0)])
            response = await session.execute(extended_copy(parameters), 0, parameters, lun=destination)
            assert response.status == 0, response

    asyncio.run(extended())
    wait_for(lambda: not appliance.json("host", "sessions"), "it is logged out", PATIENCE)
    (counted,) = [lun["offload"] for lun in appliance.json("offloads")["luns"] if lun["number"] == destination]
    assert counted["cloned_bytes"] + counted["copied_bytes"] == COPIED_BLOCKS * BLOCK, counted
    assert host.reads(destination) == host.reads(source)


@pytest.mark.long("190 s; the demo leads datastores of both kinds through their life by the console, on this module, in each run")
def test_the_life_of_datastores(appliance: Appliance) -> None:
    def shown(name: str) -> Any:
        return appliance.json("datastore", "show", name)

    # From two unused devices to a LUN that a host writes to.
    appliance.cli("pool", "create", "story", "mirror", *DEVICES, "--force", "--wait")
    appliance.cli("group", "create", "cluster")
    appliance.cli("host", "create", "esx1", "--iqn", ESX, "--group", "cluster")
    appliance.cli("datastore", "create", "first", "--pool", "story", "--size", "1G", "--group", "cluster", "--wait")
    first = shown("first")
    lun, host = int(first["lun"]), Host(appliance)
    wait_for(lambda: appliance.luns().get(lun) == first["uuid"], "it is served", PATIENCE)
    assert value(first["dataset"], "zvaai:guid") == value(first["dataset"], "guid")
    host.writes(lun, "before")

    # Persistent reservations are in the pool, in a folder of the target's user.
    folder = Path(value("story/zvaai-reservations", "mountpoint"))
    assert os.path.ismount(folder) and folder.stat().st_uid == NOBODY and list(folder.glob("naa.*.json"))

    # A snapshot, and a rollback to it.
    appliance.cli("snapshot", "create", "one", "first", "--wait")
    host.writes(lun, "after")
    roll_back(appliance, host, first)

    # A clone is another LUN with the same content, independent from then on.
    appliance.cli("datastore", "clone", "first", "second", "--group", "cluster", "--wait")
    clone = int(shown("second")["lun"])
    assert host.reads(clone) == "before"
    host.writes(clone, "the clone's")
    assert host.reads(lun) == "before" and shown("second")["uuid"] != first["uuid"]

    copy(appliance, host, clone, lun)

    # It grows while the host uses it.
    appliance.cli("datastore", "grow", "first", "2G", "--wait")
    capacity = host.does(lun, bytes([0x9E, 0x10, *bytes(8)]) + (32).to_bytes(4) + bytes(2), 32)
    assert (int.from_bytes(capacity[:8]) + 1) * int.from_bytes(capacity[8:12]) == 2 * GIB

    # Thick: space is reserved, also for its clone.
    appliance.cli("datastore", "create", "thick", "--pool", "story", "--size", "1G", "--thick", "--wait")
    appliance.cli("datastore", "clone", "thick", "thick-too", "--wait")
    for name in ("thick", "thick-too"):
        thick = int(shown(name)["lun"])
        wait_for(lambda thick=thick: thick in appliance.luns(), f"{name} is served", PATIENCE)  # type: ignore[misc]
        assert shown(name)["thick"] and int(value(shown(name)["dataset"], "refreservation")) >= GIB
        assert value(shown(name)["dataset"], "zvaai:thick") == "on"

    # Delete, restore, destroy, including the snapshots that were made for clones.
    appliance.cli("datastore", "delete", "first", "--yes", "--wait")
    assert lun not in appliance.luns()
    appliance.cli("datastore", "restore", "first", "--group", "cluster", "--wait")
    assert host.reads(int(shown("first")["lun"])) == "the clone's"
    for name in ("thick-too", "thick", "second", "first"):
        appliance.cli("datastore", "delete", name, "--yes", "--wait")
        appliance.cli("datastore", "purge", name, "--yes", "--wait")
    assert run("zfs", "list", "-H", "-t", "volume,snapshot", "-r", "story") == "" and not appliance.luns()
    appliance.cli("pool", "export", "story", "--wait")
    with pytest.raises(ProgramFailed):
        run("zpool", "list", "story")
    # After the end of a job the worker scans again.
    wait_for(lambda: not appliance.json("alert", "list"), "no alert is left", PATIENCE)
