# SPDX-License-Identifier: Apache-2.0
"""A pool in use, by the API: a disk replaced under load, a threshold, a copy, and another server."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import cdb
from support.appliance import GIB, PASSWORD, Appliance, running_appliance, running_helper
from support.programs import IN_GUEST, ProgramFailed, run, wait_for
from support.raw_initiator import CHECK_CONDITION, GOOD, Session
from support.zfs import destroy_pool

from appliance.zfs.kernel import KernelEngine
from appliance.zfs.model import Redundancy, VdevSpec

POOL = "moved"
DEVICES = tuple(f"/dev/shm/{POOL}{number}" for number in range(3))
HELPER = Path(f"/run/zvaai-helper-{POOL}.sock")
KEYS = Path(f"/run/zvaai-helper-{POOL}.keys")
ESX = "iqn.1998-01.com.vmware:esx1"
BLOCK = 512
PIECE_BLOCKS = 128
PIECES = 12
TEST_UNIT_READY = bytes(6)
SECONDS = 120.0
"""Seconds; allows for a loaded machine."""
UNIT_ATTENTION = 0x06
THRESHOLD_REACHED = (0x06, 0x38, 0x07)
MIB_BLOCKS = 2048
FILLED_MIB = 14
"""More than one percent of the volume."""


@pytest.fixture
def helper() -> Iterator[Path]:
    """A helper with unused devices in memory; destroys the pool at the end."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(3 * GIB)
    shutil.rmtree(KEYS, ignore_errors=True)
    with running_helper(HELPER, "--keys", str(KEYS)):
        yield HELPER
    if POOL in run("zpool", "list", "-H", "-o", "name").split():
        destroy_pool(POOL)
    for device in DEVICES:
        Path(device).unlink()


def session(appliance: Appliance, lun: int) -> Session:
    return Session(appliance.target.portal, iqn=appliance.iqn, initiator=ESX, lun=lun)


async def ready(host: Session) -> None:
    """Takes the unit attentions and waits until the LUN is ready: udev may be slow to make a volume's link."""
    limit = time.monotonic() + SECONDS
    while (answer := await host.execute(TEST_UNIT_READY)).status != GOOD:
        assert time.monotonic() < limit, answer
        if answer.status != CHECK_CONDITION or answer.sense_codes[0] != UNIT_ATTENTION:
            await asyncio.sleep(0.1)


def piece(number: int, turn: int) -> bytes:
    return f"{number} in turn {turn} ".encode().ljust(BLOCK, b".") * PIECE_BLOCKS


class Load:
    """A host that writes in pieces and verifies each, until it is stopped."""

    def __init__(self, appliance: Appliance, lun: int) -> None:
        self._appliance, self._lun = appliance, lun
        self._ending = threading.Event()
        self.turns = 0
        self.problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        wait_for(lambda: self.turns > 0 or self.problem is not None, "the host writes", SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._write())
        except BaseException as problem:
            self.problem = problem

    async def _write(self) -> None:
        async with session(self._appliance, self._lun) as host:
            await ready(host)
            while not self._ending.is_set():
                for number in range(PIECES):
                    at = number * PIECE_BLOCKS
                    written = await host.execute(cdb.write(at, PIECE_BLOCKS), 0, piece(number, self.turns))
                    assert written.status == GOOD, written
                    read = await host.execute(cdb.read(at, PIECE_BLOCKS), PIECE_BLOCKS * BLOCK)
                    assert read.data == piece(number, self.turns), f"piece {number} in turn {self.turns}"
                self.turns += 1


def read_pieces(appliance: Appliance, lun: int) -> bytes:
    async def read() -> bytes:
        async with session(appliance, lun) as host:
            await ready(host)
            pieces = [await host.execute(cdb.read(n * PIECE_BLOCKS, PIECE_BLOCKS), PIECE_BLOCKS * BLOCK) for n in range(PIECES)]
        return b"".join(piece.data for piece in pieces)

    return asyncio.run(read())


def value(dataset: str, name: str) -> str:
    """Value of a property."""
    return run("zfs", "get", "-H", "-p", "-o", "value", name, dataset).strip()


def identity(appliance: Appliance, lun: int) -> tuple[bytes, bytes]:
    """Serial number and NAA designator, which comes first."""

    async def read() -> tuple[bytes, bytes]:
        async with session(appliance, lun) as host:
            await ready(host)
            serial, names = [await host.execute(bytes([0x12, 1, code, 0, 255, 0]), 255) for code in (0x80, 0x83)]
        return serial.data, names.data[4:24]

    return asyncio.run(read())


def replace_under_load(appliance: Appliance, lun: int) -> None:
    """The host continues, the old disk is removed, and the new one has all data."""
    with Load(appliance, lun) as load:
        appliance.cli("pool", "replace", POOL, DEVICES[1], DEVICES[2], "--force", "--wait")

        def replaced() -> bool:
            pool = appliance.json("pool", "show", POOL)
            devices = [device["path"] for vdev in pool["vdevs"] for device in vdev["vdevs"]]
            return devices == [DEVICES[0], DEVICES[2]] and pool["health"] == "ONLINE"

        wait_for(replaced, "the disk is replaced", SECONDS)
        turns = load.turns
        wait_for(lambda: load.turns > turns + 1 or load.problem is not None, "the host continues", SECONDS)
    assert load.problem is None, load.problem
    last = b"".join(piece(number, load.turns - 1) for number in range(PIECES))
    assert read_pieces(appliance, lun) == last
    # The new disk alone has all data.
    appliance.cli("pool", "device", POOL, DEVICES[0], "offline", "--wait")
    assert read_pieces(appliance, lun) == last
    assert appliance.json("pool", "show", POOL)["error_count"] == 0
    appliance.cli("pool", "device", POOL, DEVICES[0], "online", "--wait")


def cross_the_threshold(appliance: Appliance, lun: int, store: str) -> None:
    """The host gets a unit attention, the admin an alert."""

    async def fill() -> None:
        reached = False
        async with session(appliance, lun) as host:
            await ready(host)
            with Path("/dev/urandom").open("rb") as noise:
                for number in range(1, FILLED_MIB + 1):
                    content = noise.read(1 << 20)
                    while (written := await host.execute(cdb.write(number * MIB_BLOCKS, MIB_BLOCKS), 0, content)).status != GOOD:
                        assert written.status == CHECK_CONDITION and written.sense_codes == THRESHOLD_REACHED, written
                        reached = True
            limit = time.monotonic() + SECONDS
            while not reached:  # the daemon checks every few seconds
                answer = await host.execute(TEST_UNIT_READY)
                reached = answer.status == CHECK_CONDITION and answer.sense_codes == THRESHOLD_REACHED
                assert time.monotonic() < limit
                await asyncio.sleep(0.1)

    def pool() -> bool:
        appliance.cli("pool", "change", POOL, "--warning", "75", "--wait")  # afterwards all capacity alerts are evaluated
        return any(store in alert["subject"] and "threshold" in alert["text"] for alert in appliance.json("alert", "list"))

    asyncio.run(fill())
    run("zpool", "sync", POOL)
    wait_for(pool, "the threshold alert is raised", SECONDS)


def receive_a_copy(appliance: Appliance, dataset: str, luns: dict[int, str]) -> None:
    """A copy with all properties of the datastore is listed as a copy, and not served."""
    run("zfs", "snapshot", f"{dataset}@sent")
    with subprocess.Popen(["zfs", "send", "-p", f"{dataset}@sent"], stdout=subprocess.PIPE) as send:
        subprocess.run(["zfs", "receive", "-u", f"{POOL}/received"], stdin=send.stdout, check=True, timeout=60)
    appliance.cli("reconcile")
    (copy,) = appliance.json("datastore", "list", "--state", "copy")
    assert copy["dataset"] == f"{POOL}/received" and copy["copy_reason"] and copy["lun"] is None
    assert appliance.luns() == luns


@pytest.mark.long("115 s; the contract of the engine replaces disks and imports a pool of another system in each run")
def test_a_pool_its_disks_and_its_next_server(helper: Path, tmp_path: Path) -> None:
    with running_appliance(tmp_path / "a", reconcile_seconds=30, helper=helper) as appliance:
        appliance.cli("pool", "create", POOL, "mirror", *DEVICES[:2], "--force", "--wait")
        appliance.cli("group", "create", "cluster")
        appliance.cli("host", "create", "esx1", "--iqn", ESX, "--group", "cluster")
        words = ("--pool", POOL, "--size", "1G", "--lun", "5", "--group", "cluster", "--soft-threshold", "1", "--wait")
        appliance.cli("datastore", "create", "first", *words)
        store = appliance.json("datastore", "show", "first")
        appliance.cli("datastore", "create", "secret", "--pool", POOL, "--size", "1G", "--encrypted", "--wait")
        replace_under_load(appliance, 5)
        cross_the_threshold(appliance, 5, store["uuid"])
        luns = appliance.luns()
        receive_a_copy(appliance, store["dataset"], luns)
        before, content = identity(appliance, 5), read_pieces(appliance, 5)
        secret = appliance.cli("key", "export", POOL, text=f"{PASSWORD}\n").strip()
        encrypted = appliance.json("datastore", "show", "secret")["lun"]
        wait_for(lambda: not appliance.json("host", "sessions"), "the host is logged out", SECONDS)
        appliance.cli("pool", "export", POOL, "--wait")
        with pytest.raises(ProgramFailed):
            run("zpool", "list", POOL)
    # A new server: same names, numbers and content, and the copy is still a copy.
    # An encrypted dataset waits for its key.
    (stored,) = KEYS.glob("*.key")
    stored.unlink()
    with running_appliance(tmp_path / "b", reconcile_seconds=30, helper=helper) as appliance:
        assert appliance.json("datastore", "list") == []
        imported = appliance.run("pool", "import", POOL, "--wait")
        assert imported.returncode == 1 and "its key is not loaded" in imported.stderr, imported
        locked = {number: uuid for number, uuid in luns.items() if number != encrypted}
        wait_for(lambda: appliance.luns() == locked, "its datastores are served, but for the encrypted one", SECONDS)
        appliance.cli("key", "enter", POOL, text=f"{secret}\n")
        wait_for(lambda: appliance.luns() == luns, "the encrypted one too", SECONDS)
        (copy,) = appliance.json("datastore", "list", "--state", "copy")
        assert copy["dataset"] == f"{POOL}/received"
        appliance.cli("group", "create", "cluster")
        appliance.cli("host", "create", "esx1", "--iqn", ESX, "--group", "cluster")
        appliance.cli("datastore", "change", store["uuid"], "--add-group", "cluster", "--wait")
        assert (identity(appliance, 5), read_pieces(appliance, 5)) == (before, content)
        assert value(store["dataset"], "zvaai:uuid") == store["uuid"] and luns[5] == store["uuid"]


@pytest.fixture
def mirrored() -> Iterator[KernelEngine]:
    """A mirror of two devices, and two that are twice as large."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    devices = [f"/dev/shm/growing{number}" for number in range(4)]
    for device, size in zip(devices, (GIB // 4, GIB // 4, GIB // 2, GIB // 2), strict=True):
        with Path(device).open("wb") as file:
            file.truncate(size)
    yield KernelEngine(device_directories=["/dev/shm"])
    if "growing" in run("zpool", "list", "-H", "-o", "name").split():
        destroy_pool("growing")
    for device in devices:
        Path(device).unlink()


@pytest.mark.parametrize("expand", ["on", "off"])
def test_a_pool_grows_with_larger_disks(mirrored: KernelEngine, expand: str) -> None:
    """At the end of the last resilver; a pool without `autoexpand` when its devices are set online."""
    first, second, third, fourth = (f"/dev/shm/growing{number}" for number in range(4))
    disks = [VdevSpec(devices=(first, second), redundancy=Redundancy.MIRROR)]
    mirrored.create_pool("growing", disks, properties={"autoexpand": expand}, force=True)
    before = mirrored.pool("growing").size
    for old, new in ((first, third), (second, fourth)):
        mirrored.replace("growing", old, new, force=True)
        run("zpool", "wait", "-t", "replace", "growing")
    if expand == "off":
        assert mirrored.pool("growing").size == before
        for device in (third, fourth):
            mirrored.online("growing", device)
    wait_for(lambda: mirrored.pool("growing").size > 1.8 * before, "the pool grows")
