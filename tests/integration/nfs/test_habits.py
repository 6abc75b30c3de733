# SPDX-License-Identifier: Apache-2.0
"""Habits of ESXi on a datastore: lock files, renames over existing files, exclusive creation, concurrent hosts."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, running_ganesha
from support.libnfs import Client, mounted


@pytest.fixture(scope="module")
def served(lasting_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Content of /one."""
    with running_ganesha(tmp_path_factory.mktemp("daemon") / "ganesha", [Export(1, lasting_store, "/one")]):
        yield lasting_store


@pytest.fixture(params=[3, 4])
def hosts(served: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Client, Client]]:
    """Two clients of an empty export."""
    with mounted("/one", request.param) as first, mounted("/one", request.param) as second:
        yield first, second
        for name in first.names():
            first.unlink(f"/{name}")


def test_lock_file_is_made_by_one_host_and_seen_by_the_other(hosts: tuple[Client, Client]) -> None:
    first, second = hosts
    lock = "/.lck-3409000000000000"
    with first.opened(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR) as file:
        file.write(0, b"first" + bytes(79))
        file.sync()
        with pytest.raises(FileExistsError):
            second.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    assert second.read_file(lock)[:5] == b"first"
    for beat in range(5):  # the heartbeat of the holder
        with first.opened(lock, os.O_RDWR) as file:
            file.write(5, bytes([beat]))
            file.sync()
        assert second.read_file(lock)[5] == beat
    first.unlink(lock)
    with pytest.raises(FileNotFoundError):
        second.read_file(lock)
    second.write_file(lock, b"second")
    assert first.read_file(lock) == b"second"


def test_one_of_many_hosts_gets_an_exclusive_file(hosts: tuple[Client, Client]) -> None:
    taken: list[int] = []

    def take(number: int, host: Client) -> None:
        for attempt in range(20):
            try:
                with host.opened(f"/lock{attempt}", os.O_CREAT | os.O_EXCL | os.O_RDWR) as file:
                    file.write(0, bytes([number]))
                    taken.append(attempt)
            except FileExistsError:
                pass

    threads = [threading.Thread(target=take, args=pair) for pair in enumerate(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(20))


def test_rename_over_replaces_at_once_and_open_files_stay(hosts: tuple[Client, Client]) -> None:
    first, second = hosts
    first.write_file("/vm.vmx", b"old" * 1000)
    held = second.open("/vm.vmx")
    first.write_file("/vm.vmx~", b"new" * 2000)
    first.rename("/vm.vmx~", "/vm.vmx")
    assert second.read_file("/vm.vmx") == b"new" * 2000
    assert first.names() == {"vm.vmx"}
    held.close()


def test_disks_of_several_hosts_stay_apart(hosts: tuple[Client, Client], seed: int) -> None:
    data = [random.Random(seed + number).randbytes(4 << 20) for number in range(2)]

    def fill(number: int) -> None:
        with hosts[number].opened(f"/disk{number}", os.O_CREAT | os.O_RDWR) as file:
            for offset in range(0, len(data[number]), 64 << 10):
                file.write(offset, data[number][offset : offset + (64 << 10)])
            file.sync()

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [hosts[1 - number].read_file(f"/disk{number}") for number in range(2)] == data


def test_growing_shrinking_and_holes(hosts: tuple[Client, Client]) -> None:
    first, second = hosts
    with first.opened("/disk", os.O_CREAT | os.O_RDWR) as file:
        file.truncate(1 << 30)
        file.write((1 << 30) - 4096, b"e" * 4096)
        file.sync()
        file.truncate(1 << 20)
        file.write(0, b"b" * 4096)
        file.sync()
    assert second.size("/disk") == 1 << 20
    assert second.read_file("/disk") == b"b" * 4096 + bytes((1 << 20) - 4096)
    second.truncate("/disk", 0)
    assert first.size("/disk") == 0
