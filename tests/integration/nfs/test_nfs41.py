# SPDX-License-Identifier: Apache-2.0
"""NFSv4.1 as ESXi uses it: a disk opened with a share reservation, and reclaimed after a kill of the daemon."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, Ganesha, running_ganesha
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
from support.programs import wait_for

MIB = 1 << 20
SIZE = 64 * MIB


@pytest.fixture
def served(nfs_store: Path, tmp_path: Path) -> Iterator[tuple[Ganesha, Path]]:
    """A daemon that allows reclaims after a crash, and the folder exported as /one."""
    with running_ganesha(tmp_path / "ganesha", [Export(1, nfs_store, "/one")], graceless=False) as ganesha:
        yield ganesha, nfs_store


def refusal(client: Nfs4, access: int, deny: int = SHARE_NONE) -> int:
    """The nfsstat4 of opening the disk."""
    try:
        client.close(client.open("/one", "disk", access, deny))
    except Nfs4Error as error:
        return error.status
    return 0


def opened(host: Nfs4) -> OpenFile:
    """The disk, created by this host with a deny-write open."""
    files: list[OpenFile] = []

    def is_open() -> bool:  # until the new daemon's grace period ends nothing can be opened
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
        disk = opened(host)
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
        wait_for(lambda: refusal(other, SHARE_READ) == 0, "the grace period ends when both have reclaimed")
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
