# SPDX-License-Identifier: Apache-2.0
"""A lost pool and a replica with its name: neither target nor NFS server takes the replica for the original."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import cdb
from support.appliance import GIB, Appliance, running_appliance, running_helper
from support.programs import IN_GUEST, REPOSITORY, run, wait_for
from support.raw_initiator import CHECK_CONDITION, GOOD, Response, Session
from support.zfs import destroy_pool

from appliance.dataplane.ganesha import Export
from appliance.zfs.kernel import KernelEngine
from appliance.zfs.keys import StoredKeys
from appliance.zfs.mountinfo import stack

POOL, OTHER = "replaced", "other"
DEVICES = tuple(f"/dev/shm/{POOL}{number}" for number in range(2))
HELPER = Path(f"/run/zvaai-helper-{POOL}.sock")
KEYS = Path(f"/run/zvaai-helper-{POOL}.keys")
ESX = "iqn.1998-01.com.vmware:esx1"
LUN = 5
BLOCK = 512
NOT_READY = 0x02
PATIENCE = 120
"""Seconds; allows for a loaded machine."""
UNIT_ATTENTION = 0x06
CONTENT = b"the original's".ljust(BLOCK, b".")


@contextlib.contextmanager
def disks() -> Iterator[None]:
    """Devices in memory; destroys the pool at the end."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(2 * GIB)
    try:
        yield
    finally:
        if POOL in run("zpool", "list", "-H", "-o", "name").split():
            destroy_pool(POOL)
        for device in DEVICES:
            Path(device).unlink()


def alerts(appliance: Appliance) -> dict[str, dict[str, str]]:
    """Open alerts by key."""
    return {alert["key"]: alert for alert in appliance.json("alert", "list")}


@contextlib.contextmanager
def on_disks(directory: Path, reconcile_seconds: float) -> Iterator[Appliance]:
    """An appliance on these unused disks."""
    shutil.rmtree(KEYS, ignore_errors=True)
    with (
        disks(),
        running_helper(HELPER, "--keys", str(KEYS)),
        running_appliance(directory, reconcile_seconds, HELPER) as appliance,
    ):
        yield appliance


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance that also reconciles periodically."""
    with on_disks(tmp_path / "a", 30) as appliance:
        yield appliance


@pytest.fixture
def without_polling(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance that reconciles only on request, not within a test."""
    with on_disks(tmp_path / "a", 3600) as appliance:
        yield appliance


def does(appliance: Appliance, lun: int, command: bytes, data_in: int = 0, data_out: bytes = b"") -> Response:
    """Response to a command in a new session, after the unit attentions."""

    async def all_of_it() -> Response:
        async with Session(appliance.target.portal, iqn=appliance.iqn, initiator=ESX, lun=lun) as session:
            for _ in range(8):
                answer = await session.execute(command, data_in, data_out)
                if answer.status != CHECK_CONDITION or answer.sense_codes[0] != UNIT_ATTENTION:
                    break
            return answer

    return asyncio.run(all_of_it())


def guid(dataset: str) -> str:
    return run("zfs", "get", "-H", "-p", "-o", "value", "guid", dataset).strip()


def send(snapshot: str, stream: Path) -> None:
    """Writes a replication stream with all properties to a file."""
    with stream.open("wb") as file:
        subprocess.run(["zfs", "send", "-p", snapshot], stdout=file, check=True, timeout=60)


def receive(dataset: str, stream: Path) -> None:
    with stream.open("rb") as file:
        subprocess.run(["zfs", "receive", "-u", dataset], stdin=file, check=True, timeout=60)


def lose_the_pool(dataset: str, stream: Path) -> None:
    """Destroys the pool; a new pool with its name gets a stream of one of its datasets, with all properties."""
    run("zfs", "snapshot", f"{dataset}@sent")
    send(f"{dataset}@sent", stream)
    run("udevadm", "settle")
    destroy_pool(POOL)
    run("zpool", "create", "-f", "-O", "mountpoint=none", POOL, DEVICES[1])
    run("zfs", "create", dataset.rpartition("/")[0])
    receive(dataset, stream)
    run("udevadm", "settle")
    wait_for(Path("/dev/zvol", dataset).exists, "the replica has the original's name", PATIENCE)


@pytest.mark.long("42 s; appliance/worker/tests/test_replica.py adopts replicas on simulated storage in each run")
def test_a_replica_under_the_lost_pools_name_is_not_served_until_it_is_adopted(appliance: Appliance, tmp_path: Path) -> None:
    appliance.cli("pool", "create", POOL, DEVICES[0], "--force", "--wait")
    appliance.cli("group", "create", "cluster")
    appliance.cli("host", "create", "esx1", "--iqn", ESX, "--group", "cluster")
    words = ("--pool", POOL, "--size", "1G", "--lun", str(LUN), "--group", "cluster", "--wait")
    appliance.cli("datastore", "create", "first", *words)
    store = appliance.json("datastore", "show", "first")
    wait_for(lambda: appliance.luns() == {LUN: store["uuid"]}, "it is served", PATIENCE)
    assert does(appliance, LUN, cdb.write(0, 1), 0, CONTENT).status == GOOD
    original = guid(store["dataset"])
    appliance.target.kill()
    lose_the_pool(store["dataset"], tmp_path / "stream")
    replica = guid(store["dataset"])
    assert replica != original
    appliance.target.start()
    # The host sees its disk, without data of the replica, before and after a reconcile.
    for _ in range(2):
        answer = does(appliance, LUN, cdb.read(0, 1), BLOCK)
        assert answer.status == CHECK_CONDITION and answer.sense_codes[0] == NOT_READY and not answer.data.strip(b"\0"), answer
        assert does(appliance, LUN, cdb.write(0, 1), 0, bytes(BLOCK)).status == CHECK_CONDITION
        assert appliance.luns() == {}
        appliance.run("reconcile")  # reports drift that it cannot repair, and fails
    # Two consecutive scans must agree before the location counts as another dataset's.
    key = f"reconcile:{store['uuid']}"
    wait_for(lambda: key in alerts(appliance), "an alert reports the replica", PATIENCE)
    alert = alerts(appliance)[key]
    assert original in alert["text"] and replica in alert["text"] and "--keep-identity" in alert["remedy"]
    appliance.cli("datastore", "adopt", store["dataset"], "first", "--keep-identity", "--group", "cluster", "--wait")
    adopted = appliance.json("datastore", "show", "first")
    wait_for(lambda: appliance.luns() == {int(adopted["lun"]): store["uuid"]}, "it is served", PATIENCE)
    read = does(appliance, int(adopted["lun"]), cdb.read(0, 1), BLOCK)
    assert (read.status, read.data) == (GOOD, CONTENT)


@pytest.mark.parametrize("last", ["original", "replica"])
def test_after_the_start_the_datastore_is_mounted_and_not_the_replica(last: str, tmp_path: Path) -> None:
    """In both mount orders, one over the other."""
    original, replica, place = f"{POOL}/original", f"{POOL}/replica", Path(f"/srv/zvaai/{POOL}")
    with disks():
        run("zpool", "create", "-f", "-O", "mountpoint=none", POOL, DEVICES[0])
        run("zfs", "create", "-o", f"mountpoint={place}", original)
        run("zfs", "set", f"zvaai:guid={guid(original)}", original)
        (place / "whose").write_text("the original's")
        run("zfs", "snapshot", f"{original}@sent")
        send(f"{original}@sent", tmp_path / "stream")
        receive(replica, tmp_path / "stream")
        run("zfs", "unmount", original)
        for dataset in (replica, original) if last == "original" else (original, replica):
            run("zfs", "mount", dataset)
        assert stack(str(place)) == ([replica, original] if last == "original" else [original, replica])
        run(sys.executable, "-m", "appliance.helper", "--repair-mounts", env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
        assert stack(str(place)) == [original]
        assert (place / "whose").read_text() == "the original's"


def test_after_the_start_an_encrypted_datastore_is_mounted(tmp_path: Path) -> None:
    root, place = f"{POOL}/zvaai-encrypted", Path(f"/srv/zvaai/{POOL}")
    with disks():
        run("zpool", "create", "-f", "-O", "mountpoint=none", POOL, DEVICES[0])
        StoredKeys(KernelEngine(), tmp_path / "keys").create_encryption_root(root, str(uuid.uuid4()))
        run("zfs", "create", "-o", f"mountpoint={place}", f"{root}/files")
        (place / "whose").write_text("the datastore's")
        run("zfs", "unmount", f"{root}/files")
        run("zfs", "unload-key", root)
        command = (sys.executable, "-m", "appliance.helper", "--repair-mounts", "--keys", str(tmp_path / "keys"))
        run(*command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
        assert (place / "whose").read_text() == "the datastore's"


@pytest.mark.long("45 s; a replica at the start of the system is in each run")
def test_a_replica_imported_over_a_datastore_is_unmounted(without_polling: Appliance, tmp_path: Path) -> None:
    """`zpool import` mounts it at the datastore's mountpoint. While a process uses it, it remains mounted."""
    without_polling.cli("pool", "create", POOL, DEVICES[0], "--force", "--wait")
    # Mounted; no NFS server runs that could serve it, so this fails, and each reconcile.
    without_polling.run("datastore", "create", "files", "--kind", "nfs", "--pool", POOL, "--size", "1G", "--wait")
    store = without_polling.json("datastore", "show", "files")
    dataset, place, replica = store["dataset"], Path(f"/srv/zvaai/files-{store['uuid'][:8]}"), f"{OTHER}/replica"
    (place / "whose").write_text("the original's")
    run("zfs", "snapshot", f"{dataset}@sent")
    send(f"{dataset}@sent", tmp_path / "stream")
    run("zpool", "create", "-f", "-O", "mountpoint=none", OTHER, DEVICES[1])
    try:
        receive(replica, tmp_path / "stream")
        run("zpool", "export", OTHER)
        (place / "whose").write_text("changed since")
        run("zpool", "import", "-d", "/dev/shm", OTHER)
        assert stack(str(place)) == [dataset, replica] and (place / "whose").read_text() == "the original's"
        with (place / "whose").open():
            without_polling.run("reconcile")
            assert stack(str(place)) == [dataset, replica]
        without_polling.run("reconcile")
        assert stack(str(place)) == [dataset] and (place / "whose").read_text() == "changed since"
    finally:
        destroy_pool(OTHER)


def test_ganesha_starts_with_the_original_dataset(tmp_path: Path) -> None:
    """Not another dataset with its name, mounted at its mountpoint."""
    script = REPOSITORY / "packaging/ganesha/mounted_exports.py"
    dataset, place, to = f"{POOL}/files", tmp_path / "mounted" / "files", tmp_path / "to"
    exports = tmp_path / "exports.d"
    exports.mkdir()

    def taken() -> list[str]:
        run(str(script), str(exports), str(to), str(place.parent))
        return sorted(path.name for path in to.iterdir())

    with disks():
        run("zpool", "create", "-f", "-O", "mountpoint=none", POOL, DEVICES[0])
        run("zfs", "create", "-o", f"mountpoint={place}", dataset)
        for name, number in (("own", int(guid(dataset))), ("other", 4711)):
            (exports / f"{name}.conf").write_text(Export(1, place, "/files", dataset=dataset, guid=number).block())
        assert taken() == ["own.conf"]
        run("zfs", "destroy", dataset)
        run("zfs", "create", "-o", f"mountpoint={place}", dataset)
        assert taken() == []
