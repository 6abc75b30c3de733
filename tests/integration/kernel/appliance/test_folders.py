# SPDX-License-Identifier: Apache-2.0
"""A folder of a real snapshot: read below .zfs, and restored by block cloning."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from support.programs import IN_GUEST, run
from support.zfs import destroy_pool

from appliance.helper.mounts import Mounts
from appliance.zfs.errors import NoSuchSnapshot, Refused
from appliance.zfs.folders import UNFINISHED, SnapshotFolders
from appliance.zfs.kernel import KernelEngine
from appliance.zfs.model import VdevSpec

pytestmark = pytest.mark.skipif(not IN_GUEST, reason="needs the real OpenZFS module: runs in the guest")
POOL, DEVICE, SIZE = "folders", "/dev/shm/folders0", 32 << 20


def test_a_folder_is_restored_from_a_snapshot() -> None:
    run("truncate", "-s", "512M", DEVICE)
    engine = KernelEngine()
    engine.create_pool(POOL, [VdevSpec(devices=(DEVICE,))], force=True)
    try:
        engine.create_filesystem(f"{POOL}/nfs", properties={"mountpoint": "/srv/zvaai/folders"})
        vm = Path("/srv/zvaai/folders/web")
        vm.mkdir()
        content = os.urandom(SIZE)
        (vm / "web-flat.vmdk").write_bytes(content)
        (vm / "web-flat.vmdk").chmod(0o640)
        os.chown(vm / "web-flat.vmdk", 4711, 4712)
        run("zpool", "sync", POOL)
        snapshot = f"{POOL}/nfs@one"
        engine.snapshot([snapshot])
        (vm / "web-flat.vmdk").write_bytes(b"changed since")
        folders = SnapshotFolders(engine, Mounts(("/srv/zvaai/",), frozenset).place)
        (entry,) = folders.list_folder(snapshot, "web")
        assert (entry.name, entry.kind, entry.size) == ("web-flat.vmdk", "file", SIZE)
        with pytest.raises(NoSuchSnapshot):
            folders.list_folder(f"{POOL}/nfs@absent", "")
        identifier, before = str(uuid.uuid4()), engine.pool(POOL).bclone_saved
        folders.begin_folder(snapshot, "web", identifier)
        unfinished = Path(f"/srv/zvaai/folders/{UNFINISHED}{identifier}")
        os.mkfifo(unfinished / "fifo")
        (unfinished / "link").symlink_to(vm / "web-flat.vmdk")
        for name in ("fifo", "link"):  # by a client
            with pytest.raises(Refused):
                folders.restore_range(snapshot, "web/web-flat.vmdk", identifier, name, 0, 1 << 30)
            with pytest.raises(Refused):
                folders.restore_text(snapshot, "web/web-flat.vmdk", identifier, name, b"text")
        assert folders.restore_range(snapshot, "web/web-flat.vmdk", identifier, "new-flat.vmdk", 0, 1 << 30) == SIZE
        folders.end_folder(snapshot, "web", identifier, "new")
        made = Path("/srv/zvaai/folders/new/new-flat.vmdk")
        assert made.read_bytes() == content and (vm / "web-flat.vmdk").read_bytes() == b"changed since"
        status = made.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (4711, 4712, 0o640)
        run("zpool", "sync", POOL)
        assert engine.pool(POOL).bclone_saved - before >= SIZE, "its blocks are shared with the snapshot"
        with pytest.raises(Refused):
            folders.end_folder(snapshot, "web", str(uuid.uuid4()), "web/..")
    finally:
        run("sh", "-c", "umount -a -t zfs -O noauto 2>/dev/null; true")
        destroy_pool(POOL)
        Path(DEVICE).unlink()
