# SPDX-License-Identifier: Apache-2.0
"""A clone by name counts for its owner's quota, and is refused when that is reached, as any new file is."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.ganesha import Daemon, Export, mounted_dataset, running_ganesha
from support.libnfs import mounted
from support.onc_rpc import Nfs3, Nfs3Error, User, mount
from support.procedure22 import DISK_FULL, Procedure22
from support.programs import run, wait_for
from support.zfs import Pool

OWNER, SIZE, QUOTA = 1000, 4 << 20, 1 << 20
NFS3ERR_NOSPC = 28


def test_a_quota_is_the_owner_s(pool: Pool, tmp_path: Path) -> None:
    dataset = f"{pool.name}/quota"
    with mounted_dataset(dataset) as store:
        (store / "template").write_bytes(os.urandom(SIZE))
        (store / "template").chmod(0o644)
        (store / "his").mkdir()
        os.chown(store / "his", OWNER, OWNER)
        run("zfs", "set", f"userquota@{OWNER}={QUOTA}", dataset)

        def used() -> int:
            run("zpool", "sync", pool.name)  # ZFS counts what users have at the end of a transaction group
            return int(run("zfs", "get", "-Hpo", "value", f"userused@{OWNER}", dataset))

        with running_ganesha(tmp_path / "ganesha", [Export(1, store, "/one")], Daemon.PATCHED), Nfs3(User(OWNER, OWNER)) as nfs:
            root = mount("/one")
            template, folder = nfs.lookup(root, "template"), nfs.lookup(root, "his")
            assert Procedure22(nfs).clone(template, folder, "his/one").status == 0
            wait_for(lambda: used() > QUOTA, "the clone counts for its owner")
            refused = Procedure22(nfs).clone(template, folder, "his/two")
            assert (refused.status, refused.result) == (NFS3ERR_NOSPC, DISK_FULL)
            with pytest.raises(Nfs3Error) as failure:
                nfs.create(folder, "three")
            assert failure.value.status == NFS3ERR_NOSPC
            assert {path.name for path in store.iterdir()} == {"template", "his"}
            assert {path.name for path in (store / "his").iterdir()} == {"one"}


@pytest.mark.parametrize("later", ["64K", "1M"])
def test_a_clone_that_meets_a_full_datastore_has_no_space(pool: Pool, tmp_path: Path, later: str) -> None:
    """The first transaction of ZFS exceeds the refquota, the second is refused: no space, not "the blocks can't be shared".

    Records of 64 KiB, as datastores have. A file keeps its own when the dataset gets another size.
    """
    dataset = f"{pool.name}/full"
    with mounted_dataset(dataset, recordsize="64K", refquota="72M", compression="off") as store:
        (store / "template").write_bytes(os.urandom(64 << 20))
        run("zfs", "set", f"recordsize={later}", dataset)
        run("zpool", "sync", pool.name)
        with running_ganesha(tmp_path / "ganesha", [Export(1, store, "/one")], Daemon.PATCHED), Nfs3() as nfs:
            root = mount("/one")
            refused = Procedure22(nfs).clone(nfs.lookup(root, "template"), root, "clone")
            assert (refused.status, refused.result) == (NFS3ERR_NOSPC, DISK_FULL)
            assert {path.name for path in store.iterdir()} == {"template"}


@pytest.mark.parametrize("version", [3, 4])
def test_a_full_datastore_has_no_space(pool: Pool, tmp_path: Path, version: int) -> None:
    """A thin datastore has a refquota, for which ZFS says "quota exceeded". Nobody has set hosts a quota."""
    with (
        mounted_dataset(f"{pool.name}/full", refquota="8M", compression="off") as store,
        running_ganesha(tmp_path / "ganesha", [Export(1, store, "/one")]),
        mounted("/one", version) as host,
    ):
        host.write_file("/before", b"")

        def is_full() -> bool:
            with suppress(OSError), (store / "filler").open("ab", buffering=0) as filler:
                while True:
                    filler.write(os.urandom(64 << 10))
            run("zpool", "sync", pool.name)
            return (store / "filler").stat().st_size >= 7 << 20

        wait_for(is_full, "the dataset is full")
        changes: dict[str, Callable[[], object]] = {
            "create": lambda: host.write_file("/file", b""),
            "mkdir": lambda: host.mkdir("/folder"),
            "symlink": lambda: host.symlink("before", "/symlink"),
            "link": lambda: host.link("/before", "/link"),
            "write": lambda: host.write_file("/before", bytes(1 << 20)),
        }
        for name, change in changes.items():
            with pytest.raises(OSError, match="NOSPC") as refused:
                change()
            assert refused.value.errno == errno.ENOSPC, name
