"""Space promised by ALLOCATE, over NFS: kept in a full pool, and given back when it is no longer needed."""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, mounted_dataset, running_ganesha
from support.libnfs import Client, mounted
from support.nfs_mount import kernel_mount
from support.programs import run, wait_for
from support.short_pool import Filler, ShortPool

MIB = 1 << 20
DATASET = "thick"


def held(pool: ShortPool) -> int:
    return pool.number(DATASET, "refreservation")


@pytest.fixture
def store(short_pool: ShortPool, tmp_path: Path) -> Iterator[Path]:
    """A dataset of the short pool, served as /one."""
    with (
        mounted_dataset(f"{short_pool.name}/{DATASET}", compression="off") as mount,
        running_ganesha(tmp_path / "ganesha", [Export(1, mount, "/one")]),
    ):
        yield mount


def allocate(tmp_path: Path, name: str, size: int) -> None:
    """ALLOCATE, which only the kernel's client asks for."""
    with kernel_mount("/one", tmp_path / "mnt") as mount:
        run("fallocate", "--length", str(size), mount / name)


@pytest.mark.long("70 s; files/test_file_thick.py and test_thick_default.py fill a pool in each run")
def test_allocated_file_is_overwritten_in_a_full_pool(store: Path, short_pool: ShortPool, tmp_path: Path, seed: int) -> None:
    size = 128 * MIB
    allocate(tmp_path, "thick", size)
    data = random.Random(seed).randbytes(MIB)
    with contextlib.ExitStack() as stack:
        filler = stack.enter_context(Filler(short_pool.files))
        wait_for(lambda: filler.refusals > 20, "the pool is full", 240)
        client = stack.enter_context(mounted("/one", 4))  # only now: libnfs renews no lease while it has nothing to do
        file = stack.enter_context(client.opened("/thick", os.O_RDWR))
        for turn in range(2):  # what was a hole first, then what has blocks
            for offset in range(0, size, MIB):
                file.write(offset, data[turn + 1 :] + data[: turn + 1])
            file.sync()
        with pytest.raises(OSError) as failure:  # what nobody promised is refused, and for want of space
            for number in range(64):
                fill(client, f"/thin{number}", data)
        assert failure.value.errno == errno.ENOSPC
        assert file.read(77 * MIB, MIB) == data[2:] + data[:2]


def fill(client: Client, path: str, data: bytes) -> None:
    with client.opened(path, os.O_CREAT | os.O_RDWR) as file:
        for offset in range(0, 64 * MIB, MIB):
            file.write(offset, data)
        file.sync()


@pytest.mark.parametrize("way", ["unlink", "rename_over", "unlink_while_open"])
def test_space_is_given_back_when_the_last_name_goes(store: Path, short_pool: ShortPool, tmp_path: Path, way: str) -> None:
    allocate(tmp_path, "thick", 64 * MIB)
    assert held(short_pool) >= 64 * MIB
    with mounted("/one", 4) as client:
        match way:
            case "unlink":
                client.link("/thick", "/other")
                client.unlink("/thick")
                with client.opened("/other", os.O_RDWR) as file:
                    file.write(0, b"still promised")
                assert held(short_pool) >= 64 * MIB
                client.unlink("/other")
            case "rename_over":
                client.write_file("/new", b"new")
                client.rename("/new", "/thick")
                assert client.read_file("/thick") == b"new"
            case _:
                file = client.open("/thick", os.O_RDWR)
                client.unlink("/thick")
                file.write(0, b"goes with its last user")
                with contextlib.suppress(
                    OSError
                ):  # FSAL_VFS on ZFS, too, answers NFS4ERR_STALE: no handle opens a file without name
                    file.close()
    wait_for(lambda: held(short_pool) == 0, "nothing is held any more", 180)
