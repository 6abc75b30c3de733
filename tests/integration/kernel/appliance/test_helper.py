# SPDX-License-Identifier: Apache-2.0
"""The root helper as a process on the kernel's OpenZFS, with requests of an unprivileged user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.appliance import START_SECONDS
from support.programs import IN_GUEST, REPOSITORY, run, wait_for
from support.zfs import destroy_pool

from appliance.helper.client import connect
from appliance.worker import reservations
from appliance.worker.kinds import FilesystemLayout, VolumeLayout
from appliance.zfs.errors import ZfsError
from appliance.zfs.tests.contract.on_kernel import wait_for as wait_for_link

NOBODY = 65534
DEVICES = ("/dev/shm/helper0", "/dev/shm/helper1")
STORY = f"""
import json, os, sys
from pathlib import Path
from appliance.helper.client import connect
from appliance.zfs.errors import *
from appliance.zfs.model import *

assert os.getuid() == {NOBODY}
zfs = connect(Path(sys.argv[1]))

def refused(kind, act, *arguments, **options):
    try:
        act(*arguments, **options)
    except kind as problem:
        return str(problem)
    raise AssertionError(f"{{act.__name__}} was not refused")

mirror = VdevSpec(devices={DEVICES!r}, redundancy=Redundancy.MIRROR)
zfs.create_pool("unprivileged", [mirror], force=True)
refused(Refused, zfs.create_pool, "stolen", [VdevSpec(devices=("/dev/ubda",))], force=True)
refused(Refused, zfs.create_filesystem, "unprivileged/fs", properties={{"mountpoint": "/etc"}})
refused(Refused, zfs.create_filesystem, "unprivileged/fs", properties={{"mountpoint": "legacy"}})
volume = zfs.create_volume("unprivileged/vol", 32 << 20, thick=True, properties={{"zvaai:name": "ds 1"}})
filesystem = zfs.create_filesystem("unprivileged/fs", properties={{"mountpoint": "/srv/zvaai/fs"}})
zfs.snapshot(["unprivileged/vol@s", "unprivileged/fs@s"])
zfs.hold(["unprivileged/vol@s"], "keep")
refused(SnapshotHeld, zfs.destroy_snapshots, ["unprivileged/vol@s", "unprivileged/fs@s"])
zfs.release(["unprivileged/vol@s"], "keep")
zfs.clone("unprivileged/vol@s", "unprivileged/clone")
zfs.create_filesystem("unprivileged/secret", properties={{"canmount": "off"}}, key=b"k" * 32)
print(json.dumps({{"guids": [volume.guid, filesystem.guid], "mounted": filesystem.mounted}}))
"""


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Socket and log of a helper with devices in memory; no client uses its pools."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    for device in DEVICES:
        with Path(device).open("wb") as file:
            file.truncate(256 << 20)
    path, log = Path("/run/zvaai-helper-test.sock"), tmp_path / "log"
    words = ["--socket", str(path), "--user", "nobody", "--device-directory", "/dev/shm", "--search", "/dev/shm"]
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "appliance.helper", *words], cwd=REPOSITORY, stderr=file)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            connect(path).pools()
        except ZfsError:
            return False
        return True

    wait_for(answers, "the helper answers", START_SECONDS)
    yield path, log
    process.terminate()
    assert process.wait(60) == 0
    if "unprivileged" in run("zpool", "list", "-H", "-o", "name").split():
        destroy_pool("unprivileged")
    for device in DEVICES:
        Path(device).unlink()


def test_a_worker_without_privileges(helper: tuple[Path, Path]) -> None:
    """The worker makes a pool and datasets through the helper; forbidden requests are refused; everything is in the audit."""
    path, log = helper
    words = [sys.executable, "-c", STORY, str(path)]
    nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    result = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False, **nobody)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    guids = run("zfs", "get", "-H", "-p", "-o", "value", "guid", "unprivileged/vol", "unprivileged/fs").split()
    assert {str(guid) for guid in answer["guids"]} == set(guids)
    assert answer["mounted"] and os.path.ismount("/srv/zvaai/fs"), "mounted for everybody"
    assert run("zfs", "get", "-H", "-o", "value,source", "zvaai:name", "unprivileged/vol").split("\t") == ["ds 1", "local\n"]
    assert int(run("zfs", "get", "-H", "-p", "-o", "value", "refreservation", "unprivileged/vol")) > 32 << 20
    txgs = run("zfs", "list", "-H", "-p", "-t", "snapshot", "-r", "-o", "createtxg", "unprivileged").split()
    assert len(txgs) == 2 and txgs[0] == txgs[1], "both in one transaction group"
    assert run("zfs", "get", "-H", "-o", "value", "keystatus", "unprivileged/secret").strip() == "available"
    messages = [json.loads(line)["message"] for line in log.read_text().splitlines()]
    audit = [json.loads(message) for message in messages if '"audit"' in message]
    begun = [line["operation"] for line in audit if line["audit"] == "begun"]
    assert begun.count("create_volume") == 1 and begun.count("create_filesystem") == 2, "what was refused is no change"
    assert all(line["user"] == NOBODY for line in audit if line["audit"] == "begun")
    assert "kkkk" not in log.read_text() and "a2tr" not in log.read_text()


def test_a_shared_read_only_root_of_a_pool_is_not_inherited(helper: tuple[Path, Path]) -> None:
    """`zfs create` of a shared file system fails here, where no NFS or SMB server is installed."""
    client = connect(helper[0])
    root = ("-O", "mountpoint=none", "-O", "sharenfs=on", "-O", "sharesmb=on", "-O", "readonly=on")
    run("zpool", "create", "-f", *root, "unprivileged", *DEVICES)
    pool = client.pool("unprivileged")
    reservations.ensure(client, pool, None, first=True)
    client.write_copy("unprivileged", str(uuid.UUID(int=1)), 1, "copy")
    common: dict[str, Any] = {"size": 16 << 20, "compression": "lz4", "sync": "standard", "thick": False, "refreservation": 0}
    files, blocks = FilesystemLayout(**common, record_size=65536), VolumeLayout(**common, block_size=65536)
    client.create_filesystem("unprivileged/fs", properties=files.clone_properties("/srv/zvaai/fs"))
    client.set_properties("unprivileged/fs", {"canmount": "noauto"})
    client.set_properties("unprivileged/fs", {"canmount": "on"})
    client.create_volume("unprivileged/vol", 16 << 20, properties=blocks.clone_properties(""))
    client.snapshot(["unprivileged/fs@s", "unprivileged/vol@s"])
    client.clone("unprivileged/fs@s", "unprivileged/fs2", properties=files.clone_properties("/srv/zvaai/fs2"))
    client.clone("unprivileged/vol@s", "unprivileged/vol2", properties=blocks.clone_properties(""))
    for folder in ("/srv/zvaai/fs", "/srv/zvaai/fs2", reservations.mountpoint(pool)):
        Path(folder, "file").write_text("text")
    for name in ("vol", "vol2"):
        wait_for_link(f"/dev/zvol/unprivileged/{name}")
        Path(f"/dev/zvol/unprivileged/{name}").write_bytes(bytes(4096))
    shares = run("zfs", "get", "-H", "-o", "name,value", "-t", "filesystem", "-r", "sharenfs,sharesmb", "unprivileged").split()
    assert {name for name, value in zip(shares[::2], shares[1::2], strict=True) if value != "off"} == {"unprivileged"}


def test_reservations_and_copies_need_no_key_of_the_pools_root(helper: tuple[Path, Path], tmp_path: Path) -> None:
    client, key = connect(helper[0]), tmp_path / "key"
    key.write_bytes(os.urandom(32))
    root = ("-O", "mountpoint=none", "-O", "encryption=on", "-O", "keyformat=raw", "-O", f"keylocation=file://{key}")
    run("zpool", "create", "-f", *root, "unprivileged", *DEVICES)
    pool = client.pool("unprivileged")
    reservations.ensure(client, pool, None, first=True)
    client.write_copy("unprivileged", str(uuid.UUID(int=1)), 1, "copy")
    Path(reservations.mountpoint(pool), "file").write_text("text")
    client.export_pool("unprivileged")
    client.import_pool("unprivileged")
    assert run("zfs", "get", "-H", "-o", "value", "keystatus", "unprivileged").strip() == "unavailable"
    assert client.read_copies("unprivileged") == ["copy"]
    assert Path(reservations.mountpoint(pool), "file").read_text() == "text"


def test_an_open_volume_does_not_hang_the_export(helper: tuple[Path, Path]) -> None:
    """OpenZFS 2.3 itself would wait in the kernel for the last close, and block new opens."""
    path, _ = helper
    assert "unprivileged" not in run("zpool", "list", "-H", "-o", "name").split()
    client = connect(path)
    run("zpool", "create", "-f", "-O", "mountpoint=none", "unprivileged", *DEVICES)
    client.create_volume("unprivileged/vol", 16 << 20)
    wait_for_link("/dev/zvol/unprivileged/vol")
    with Path("/dev/zvol/unprivileged/vol").open("rb"), pytest.raises(ZfsError) as caught:
        client.export_pool("unprivileged", force=True)
    assert f"(process {os.getpid()})" in str(caught.value)
    client.export_pool("unprivileged")
    assert [pool.name for pool in client.importable()] == ["unprivileged"]
    client.import_pool("unprivileged")


def test_a_volume_that_udev_has_open_is_rolled_back(helper: tuple[Path, Path], tmp_path: Path) -> None:
    """udev opens each volume briefly after the last writer's close; that must not count as in use."""
    client, opens = connect(helper[0]), tmp_path / "udev-opens"
    run("zpool", "create", "-f", "-O", "mountpoint=none", "unprivileged", *DEVICES)
    client.create_volume("unprivileged/vol", 16 << 20)
    client.snapshot(["unprivileged/vol@s"])
    wait_for_link("/dev/zvol/unprivileged/vol")
    shutil.copy("/bin/sleep", opens)
    with Path("/dev/zvol/unprivileged/vol").open("rb") as device:
        udev = subprocess.Popen([opens, "0.4"], stdin=device)
    client.rollback("unprivileged/vol@s")
    assert udev.wait(60) == 0
