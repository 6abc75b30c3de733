"""The life of datastores on real zvols, by the API alone: API, worker, root helper and target are the real processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import cdb
from support.appliance import GIB, Appliance, running_appliance
from support.programs import IN_GUEST, REPOSITORY, ProgramFailed, run, wait_for
from support.raw_initiator import Session

from appliance.helper.client import HelperClient
from appliance.zfs.errors import ZfsError

ESX = "iqn.1998-01.com.vmware:esx1"
DEVICES = ("/dev/shm/story0", "/dev/shm/story1")
NOBODY = 65534
BLOCK = 512


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """On two devices in memory, not yet a pool's."""
    if not IN_GUEST:
        pytest.fail("this test belongs to the kernel tier: make test-kernel")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(6 * GIB)
    path = Path("/run/zvaai-helper-story.sock")
    words = ["--socket", str(path), "--device-directory", "/dev/shm", "--search", "/dev/shm", "--target-user", "nobody"]
    helper = subprocess.Popen([sys.executable, "-m", "appliance.helper", *words], cwd=REPOSITORY)

    def answers() -> bool:
        assert helper.poll() is None
        try:
            HelperClient(path).pools()
        except ZfsError:
            return False
        return True

    wait_for(answers, "the helper answers")
    with running_appliance(tmp_path / "a", reconcile_seconds=30, helper=path) as appliance:
        yield appliance
    helper.terminate()
    assert helper.wait(60) == 0
    if "story" in run("zpool", "list", "-H", "-o", "name").split():
        run("zpool", "destroy", "-f", "story")
    for device in DEVICES:
        Path(device).unlink()


def value(dataset: str, name: str) -> str:
    """Of a property, as zfs tells it."""
    return run("zfs", "get", "-H", "-p", "-o", "value", name, dataset).strip()


class Host:
    """An initiator that logs in for each thing it does."""

    def __init__(self, appliance: Appliance) -> None:
        self._appliance = appliance

    def session(self, lun: int) -> Session:
        """For the tests that stay logged in."""
        return Session(self._appliance.target.portal, iqn=self._appliance.iqn, initiator=ESX, lun=lun)

    def does(self, lun: int, command: bytes, data_in: int = 0, data_out: bytes = b"") -> bytes:
        """What a command answers, once unit attentions are told."""

        async def all_of_it() -> bytes:
            async with self.session(lun) as session:
                for _ in range(8):
                    if (await session.execute(bytes(6))).status == 0:
                        break
                response = await session.execute(command, data_in, data_out)
                assert response.status == 0, response
                return response.data

        data = asyncio.run(all_of_it())
        wait_for(lambda: not self._appliance.json("host", "sessions"), "it is logged out")
        return data

    def writes(self, lun: int, text: str) -> None:
        """To the first block."""
        self.does(lun, cdb.write(0, 1), 0, text.encode().ljust(BLOCK, b"\0"))

    def reads(self, lun: int) -> str:
        """From the first block."""
        return self.does(lun, cdb.read(0, 1), BLOCK).rstrip(b"\0").decode()


@pytest.mark.long
def test_the_life_of_datastores(appliance: Appliance) -> None:
    def told(name: str) -> Any:
        return appliance.json("datastore", "show", name)

    # From two empty devices to a LUN that a host writes to.
    appliance.cli("pool", "create", "story", "mirror", *DEVICES, "--force", "--wait")
    appliance.cli("group", "create", "cluster")
    appliance.cli("host", "create", "esx1", "--iqn", ESX, "--group", "cluster")
    appliance.cli("datastore", "create", "first", "--pool", "story", "--size", "1G", "--group", "cluster", "--wait")
    first = told("first")
    lun, host = int(first["lun"]), Host(appliance)
    assert appliance.luns()[lun] == first["uuid"] and value(first["dataset"], "zvaai:guid") == value(first["dataset"], "guid")
    host.writes(lun, "before")

    # Persistent reservations lie with the pool, in a folder of the target's user.
    folder = Path(value("story/zvaai-reservations", "mountpoint"))
    assert os.path.ismount(folder) and folder.stat().st_uid == NOBODY and list(folder.glob("naa.*.json"))

    # A snapshot, and back to it: not while the host is logged in, and not while somebody has the volume open.
    appliance.cli("snapshot", "create", "one", "first", "--wait")
    host.writes(lun, "after")

    async def while_logged_in() -> None:
        async with host.session(lun):
            refused = await asyncio.to_thread(appliance.run, "snapshot", "rollback", "first", "one")
            assert refused.returncode == 4 and ESX in refused.stderr, refused

    asyncio.run(while_logged_in())
    wait_for(lambda: not appliance.json("host", "sessions"), "it is logged out")
    assert host.reads(lun) == "after"
    with Path("/dev/zvol", first["dataset"]).open("rb"):
        appliance.cli("snapshot", "rollback", "first", "one")
        wait_for(lambda: lun not in appliance.luns(), "it is out of service")
        assert [job["state"] for job in appliance.json("job", "list") if job["kind"] == "snapshot.rollback"] == ["running"]
    wait_for(lambda: lun in appliance.luns(), "it is served again")
    assert host.reads(lun) == "before"

    # A clone is another LUN with the same content, and its own from then on.
    appliance.cli("datastore", "clone", "first", "second", "--group", "cluster", "--wait")
    clone = int(told("second")["lun"])
    assert host.reads(clone) == "before"
    host.writes(clone, "the clone's")
    assert host.reads(lun) == "before" and told("second")["uuid"] != first["uuid"]

    # It grows under the host's eyes.
    appliance.cli("datastore", "grow", "first", "2G", "--wait")
    capacity = host.does(lun, bytes([0x9E, 0x10, *bytes(8)]) + (32).to_bytes(4) + bytes(2), 32)
    assert (int.from_bytes(capacity[:8]) + 1) * int.from_bytes(capacity[8:12]) == 2 * GIB

    # Thick: reserved on disk, and so is its clone.
    appliance.cli("datastore", "create", "thick", "--pool", "story", "--size", "1G", "--thick", "--wait")
    appliance.cli("datastore", "clone", "thick", "thick-too", "--wait")
    for name in ("thick", "thick-too"):
        assert int(told(name)["lun"]) in appliance.luns(), appliance.json("alert", "list")
        assert told(name)["thick"] and int(value(told(name)["dataset"], "refreservation")) >= GIB
        assert value(told(name)["dataset"], "zvaai:thick") == "on"

    # Deleted, restored, and in the end destroyed, with the snapshots that were made for clones.
    appliance.cli("datastore", "delete", "first", "--wait")
    assert lun not in appliance.luns()
    appliance.cli("datastore", "restore", "first", "--group", "cluster", "--wait")
    assert host.reads(int(told("first")["lun"])) == "before"
    for name in ("thick-too", "thick", "second", "first"):
        appliance.cli("datastore", "delete", name, "--wait")
        appliance.cli("datastore", "purge", name, "--yes", "--wait")
    assert run("zfs", "list", "-H", "-t", "volume,snapshot", "-r", "story") == "" and not appliance.luns()
    appliance.cli("pool", "export", "story", "--wait")
    with pytest.raises(ProgramFailed):
        run("zpool", "list", "story")
    assert not appliance.json("alert", "list")
