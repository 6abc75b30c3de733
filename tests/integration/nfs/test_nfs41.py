# SPDX-License-Identifier: Apache-2.0
"""NFSv4.1 as ESXi uses it: a disk opened with a share reservation, and reclaimed after a kill of the daemon.

During the grace period clones by VAAI-NAS are busy, as every new open is.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.nfs4 import (
    NFS4ERR_BAD_STATEID,
    NFS4ERR_GRACE,
    NFS4ERR_NO_GRACE,
    NFS4ERR_SHARE_DENIED,
    SHARE_BOTH,
    SHARE_NONE,
    SHARE_READ,
    SHARE_WRITE,
    Nfs4,
    Nfs4Error,
    OpenFile,
)
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.procedure22 import BUSY, COMPLETE, DISK_FULL, RESERVE, STATISTICS, Procedure22
from support.programs import wait_for

MIB = 1 << 20
SIZE = 64 * MIB
OK, NOSPC, JUKEBOX = 0, 28, 10008


@pytest.fixture
def served(nfs_store: Path, tmp_path: Path) -> Iterator[tuple[Ganesha, Path]]:
    """A daemon that allows reclaims after a crash, and the folder exported as /one."""
    exports = [Export(1, nfs_store, "/one")]
    with running_ganesha(tmp_path / "ganesha", exports, Daemon.PATCHED, graceless=False) as ganesha:
        yield ganesha, nfs_store


def refusal(client: Nfs4, access: int, deny: int = SHARE_NONE) -> int:
    """The nfsstat4 of opening the disk."""
    try:
        client.close(client.open("/one", "disk", access, deny))
    except Nfs4Error as error:
        return error.status
    return 0


def opened(host: Nfs4, *others: Nfs4) -> OpenFile:
    """The disk, created by this host with a deny-write open. The leases of other clients do not expire meanwhile."""
    files: list[OpenFile] = []

    def is_open() -> bool:  # until the new daemon's grace period ends nothing can be opened
        for other in others:
            other.renew()
        try:
            files.append(host.open("/one", "disk", SHARE_BOTH, SHARE_WRITE, create=True))
        except Nfs4Error as error:
            if error.status != NFS4ERR_GRACE:
                raise
        return bool(files)

    wait_for(is_open, "the disk is open")
    return files[0]


def test_a_disk_is_reclaimed_after_a_kill(served: tuple[Ganesha, Path], seed: int) -> None:
    ganesha, store = served
    data = random.Random(seed).randbytes(2 * MIB)
    with Nfs4() as host, Nfs4() as other:
        disk = opened(host, other)
        host.truncate(disk, SIZE)
        host.write(disk, 0, data[:MIB])
        assert (store / "disk").stat().st_size == SIZE
        assert (refusal(other, SHARE_WRITE), refusal(other, SHARE_READ, SHARE_READ)) == (NFS4ERR_SHARE_DENIED,) * 2
        assert refusal(other, SHARE_READ) == 0
        ganesha.restart_after_kill()
    with host.after_restart() as host, other.after_restart() as other:
        with pytest.raises(Nfs4Error) as failure:
            host.write(disk, MIB, data[MIB:])
        assert failure.value.status == NFS4ERR_BAD_STATEID, "the session is new, the stateid is not"
        assert refusal(other, SHARE_WRITE) == NFS4ERR_GRACE, "others wait for those who reclaim"
        disk = host.reclaim(disk)
        host.reclaim_complete()
        other.reclaim_complete()

        def has_ended() -> bool:
            host.renew()
            return refusal(other, SHARE_READ) == 0

        wait_for(has_ended, "the grace period ends when both have reclaimed")
        assert refusal(other, SHARE_WRITE) == NFS4ERR_SHARE_DENIED, "what was reclaimed is what was open"
        with pytest.raises(Nfs4Error) as failure:
            host.reclaim(disk)
        assert failure.value.status == NFS4ERR_NO_GRACE
        host.write(disk, MIB, data[MIB:])
        host.truncate(disk, 2 * SIZE)
        assert host.read(disk, MIB // 2, MIB) == data[MIB // 2 : MIB // 2 + MIB]
        host.close(disk)
        assert refusal(other, SHARE_WRITE) == 0
    assert (store / "disk").stat().st_size == 2 * SIZE
    with (store / "disk").open("rb") as file:
        assert file.read(3 * MIB) == data + bytes(MIB)


def test_clones_wait_for_the_end_of_the_grace_period(served: tuple[Ganesha, Path], seed: int) -> None:
    """As a create by NFSv4 and a new size by NFSv3 do. Nothing is made or changed; statistics are answered."""
    ganesha, store = served
    data = random.Random(seed).randbytes(MIB)
    with Nfs4() as host, Nfs3() as nfs:
        host.write(opened(host), 0, data)
        root = mount("/one")
        source, file = nfs.lookup(root, "disk"), nfs.create(root, "file")
        ganesha.restart_after_kill()
    with host.after_restart() as host, Nfs4() as other, Nfs3() as nfs:
        procedure = Procedure22(nfs)
        with pytest.raises(Nfs4Error, match=f" {NFS4ERR_GRACE}$"):
            other.open("/one", "made", SHARE_BOTH, SHARE_NONE, create=True)
        with pytest.raises(Nfs3Error, match=f" {JUKEBOX}$"):
            nfs.truncate(file, MIB)
        for refused in (
            procedure.clone(source, root, "clone"),
            procedure.clone(source, file, ""),
            procedure.command(RESERVE, file),
        ):
            assert (refused.status, refused.result) == (JUKEBOX, BUSY)
        assert procedure.command(STATISTICS, source).status == OK
        assert {path.name: path.stat().st_size for path in store.iterdir()} == {"disk": MIB, "file": 0}
        host.reclaim_complete()
        wait_for(lambda: refusal(other, SHARE_READ) == 0, "the grace period ends")
        made = procedure.clone(source, root, "clone")
        assert (made.status, made.clone_flag) == (OK, COMPLETE)
        assert procedure.full_clone(source, file).status == OK
        refused = procedure.command(RESERVE, file)
        assert (refused.status, refused.result) == (NOSPC, DISK_FULL)
    assert (store / "clone").read_bytes() == (store / "file").read_bytes() == data


@pytest.mark.long("the leases of 18 hosts have to end; the daemon decides which of them it keeps")
def test_all_hosts_keep_their_files_through_an_outage(served: tuple[Ganesha, Path]) -> None:
    """By default ganesha keeps 16 hosts whose lease ended."""
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(Nfs4()) for _ in range(18)]
        files = [host.open("/one", f"disk{number}", SHARE_BOTH, SHARE_WRITE, create=True) for number, host in enumerate(hosts)]
        time.sleep(30)  # a lease lasts 10 s, and ganesha looks every 5 s for those that ended
        for host, file in zip(hosts, files, strict=True):
            host.write(file, 0, b"data")
