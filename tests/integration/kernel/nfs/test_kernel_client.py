# SPDX-License-Identifier: Apache-2.0
"""NFSv4.1 and 4.2 by the kernel's client, on a dataset: operations that libnfs lacks."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, Ganesha, mounted_dataset, running_ganesha
from support.nfs_mount import kernel_mount
from support.programs import ProgramFailed, run
from support.zfs import Pool

MIB = 1 << 20
DATASET = "kernelclient"


@pytest.fixture(scope="module")
def served(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ganesha, Path]]:
    """A daemon that allows reclaims after a crash, and the dataset exported as /one."""
    with (
        mounted_dataset(f"{pool.name}/{DATASET}", compression="off") as store,
        running_ganesha(tmp_path_factory.mktemp("nfs") / "ganesha", [Export(1, store, "/one")], graceless=False) as ganesha,
    ):
        yield ganesha, store


@pytest.fixture(autouse=True)
def emptied(served: tuple[Ganesha, Path], tmp_path: Path) -> Iterator[None]:
    """Removes everything for the next test."""
    yield
    with kernel_mount("/one", tmp_path / "emptied") as mount:
        for path in mount.iterdir():
            path.unlink()


@pytest.mark.parametrize("version", ["3", "4.0", "4.1", "4.2"])
def test_bytes_survive_a_round_trip(served: tuple[Ganesha, Path], tmp_path: Path, version: str, seed: int) -> None:
    data = random.Random(seed).randbytes(3 * MIB + 17)
    with kernel_mount("/one", tmp_path / "mnt", version) as mount:
        with (mount / "disk").open("wb") as file:
            file.write(data)
            os.fsync(file.fileno())
        assert {path.name for path in mount.iterdir()} == {"disk"}
    assert (served[1] / "disk").read_bytes() == data
    with kernel_mount("/one", tmp_path / "mnt", version) as mount:
        assert (mount / "disk").read_bytes() == data


def test_holes_are_found_and_made(served: tuple[Ganesha, Path], tmp_path: Path) -> None:
    store = served[1]
    with kernel_mount("/one", tmp_path / "mnt") as mount:
        with (mount / "disk").open("wb") as file:
            file.write(b"d" * 4 * MIB)
            os.fsync(file.fileno())
        run("fallocate", "--punch-hole", "--offset", str(MIB), "--length", str(2 * MIB), mount / "disk")
        assert (mount / "disk").read_bytes() == b"d" * MIB + bytes(2 * MIB) + b"d" * MIB
        with (mount / "disk").open("rb") as file:
            assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == MIB
            assert os.lseek(file.fileno(), MIB, os.SEEK_DATA) == 3 * MIB
        assert (mount / "disk").stat().st_size == 4 * MIB
    run("sync")
    run("zpool", "sync")
    assert (store / "disk").stat().st_blocks * 512 < 3 * MIB


def test_allocate_is_not_supported(served: tuple[Ganesha, Path], tmp_path: Path) -> None:
    """ALLOCATE guarantees space, which ZFS cannot do for a part of a file. The file does not change, and grows by writing."""
    with kernel_mount("/one", tmp_path / "mnt") as mount:
        (mount / "disk").write_bytes(b"before")
        with pytest.raises(ProgramFailed, match="not supported"):
            run("fallocate", "--length", str(64 * MIB), mount / "disk")
        assert (served[1] / "disk").read_bytes() == b"before"
        with (mount / "disk").open("ab") as file:
            file.write(bytes(MIB))
        (mount / "disk").unlink()


def test_locks_of_two_hosts(served: tuple[Ganesha, Path], tmp_path: Path) -> None:
    with (
        kernel_mount("/one", tmp_path / "first", "4.1") as first,
        kernel_mount("/one", tmp_path / "second", "4.1") as second,
        (first / "disk").open("w+b") as first_file,
        (second / "disk").open("r+b") as other,
    ):
        fcntl.lockf(first_file, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 0)
        with pytest.raises(BlockingIOError):
            # In another process: POSIX locks of a process have one owner, whatever the mount.
            _lock_elsewhere(second / "disk")
        fcntl.lockf(first_file, fcntl.LOCK_UN, 100, 0)
        _lock_elsewhere(second / "disk")
        os.fstat(other.fileno())


def _lock_elsewhere(path: Path) -> None:
    program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 0)"
    result = subprocess.run(["python3", "-c", program, str(path)], check=False, capture_output=True, text=True)
    if "BlockingIOError" in result.stderr:
        raise BlockingIOError
    assert result.returncode == 0, result.stderr


def test_open_file_is_usable_after_kill_and_restart(served: tuple[Ganesha, Path], tmp_path: Path, seed: int) -> None:
    ganesha, store = served
    # The server waits only for clients that it knows: this one, however long it takes to return.
    for gone in (ganesha.directory / "recovery" / "v4recov").iterdir():
        shutil.rmtree(gone)
    data = random.Random(seed).randbytes(2 * MIB)
    with kernel_mount("/one", tmp_path / "mnt", "4.1") as mount, (mount / "disk").open("wb", buffering=0) as file:
        file.write(data[:MIB])
        os.fsync(file.fileno())
        ganesha.restart_after_kill()
        file.write(data[MIB:])
        os.fsync(file.fileno())
    assert (store / "disk").read_bytes() == data
