# SPDX-License-Identifier: Apache-2.0
"""Unique bytes that hosts read of files agree with zdb's block addresses. LUNs of the pool clone too."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from integration.kernel.nfs.datastores import cloned, control_block
from integration.kernel.zvol_clone.blocks import (
    MIB,
    allocated_and_shared,
    opened,
    random_blocks,
    references_of,
    write_direct,
)
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.ganesha import Daemon, Export, Ganesha, mounted_dataset, running_ganesha
from support.libnfs import Client, mounted
from support.onc_rpc import Nfs3, mount
from support.procedure22 import COMPLETE, Procedure22
from support.programs import run
from support.short_pool import ShortPool
from support.volume_tool import discard

from appliance.dataplane.vaai_nas import FileStatistics, VaaiNas

SIZE = 4 * MIB


@dataclass
class Stores:
    """Two datastores and two LUNs of one pool."""

    pool: ShortPool
    places: dict[int, Path]
    """Folders by export; exported as /1 and /2."""
    zvols: list[Path]
    control: VaaiNas
    directory: Path
    files: set[tuple[int, str]] = field(default_factory=set)

    @contextlib.contextmanager
    def served(self) -> Iterator[Ganesha]:
        exports = [Export(number, place, f"/{number}") for number, place in self.places.items()]
        blocks = control_block(self.directory / "vaai-nas.socket")
        with running_ganesha(self.directory / "ganesha", exports, Daemon.PATCHED, blocks=blocks) as ganesha:
            yield ganesha

    def write(self, client: Client, path: str, offset: int, length: int) -> None:
        """Writes incompressible data to a file of the first export."""
        with client.opened(f"/{path}", os.O_CREAT | os.O_RDWR) as file:
            for at in range(offset, offset + length, MIB):
                file.write(at, random_blocks(MIB))
            file.sync()
        self.files.add((1, path))

    def counted(self, file: tuple[int, str]) -> FileStatistics:
        """The figures of a file, once its blocks are counted."""
        while not (statistics := self.control.statistics(*file)).unique_exact:
            pass
        return statistics

    def compare(self) -> dict[tuple[int, str], int]:
        """Compares each file with the references of all files (no zvol shares with those); returns unique bytes."""
        run("zpool", "sync", self.pool.name)
        references = {number: references_of(f"{self.pool.name}/{number}") for number in self.places}
        objects: dict[tuple[int, str], Counter[tuple[str, int]]] = {}
        for number, path in self.files:
            objects[number, path] = references[number][(self.places[number] / path).stat().st_ino]
        unique = {}
        for file, blocks in objects.items():
            allocated, shared = allocated_and_shared(blocks, *(of for other, of in objects.items() if other != file))
            statistics = self.counted(file)
            assert (statistics.allocated, statistics.unique) == (allocated, allocated - shared), file
            unique[file] = statistics.unique
        return unique


@pytest.fixture
def stores(short_pool: ShortPool, tmp_path: Path) -> Iterator[Stores]:
    with (
        mounted_dataset(f"{short_pool.name}/1", compression="off") as first,
        mounted_dataset(f"{short_pool.name}/2", recordsize="16K") as two,
    ):
        zvols = [short_pool.create_volume(name, 16) for name in ("lun1", "lun2")]
        write_direct(zvols[0], random_blocks(8 * MIB))
        yield Stores(short_pool, {1: first, 2: two}, zvols, VaaiNas(tmp_path / "vaai-nas.socket"), tmp_path)


def change_luns(stores: Stores, device: ZvolClone) -> None:
    """The LUNs share blocks, and one is changed: sharing of LUNs does not affect the files' figures."""
    with opened(stores.zvols[0], os.O_RDONLY) as read, opened(stores.zvols[1], os.O_RDWR | os.O_DIRECT) as write:
        run("zpool", "sync", stores.pool.name)
        assert device.clone(read, write, 8 * MIB).error == 0
        write_direct(write, random_blocks(MIB), MIB)
        discard(write, 4 * MIB, MIB)


def change_files(stores: Stores) -> None:
    """Fast clones, one into the other dataset; overwrites of either side; a removed clone."""
    with mounted("/1") as client:
        stores.write(client, "template", 0, SIZE)
        for name in ("whole", "changed", "gone"):
            assert cloned(stores.control, "template", name, fast=True) == {"cloned": SIZE}
            stores.files.add((1, name))
        with Nfs3() as nfs:
            result = Procedure22(nfs).full_clone(nfs.lookup(mount("/1"), "template"), nfs.create(mount("/2"), "there"))
            assert (result.status, result.clone_flag) == (0, COMPLETE)
        stores.files.add((2, "there"))
        stores.write(client, "changed", MIB, MIB)
        client.unlink("/gone")
        stores.files.remove((1, "gone"))
        assert stores.compare() == {(1, "template"): 0, (1, "whole"): 0, (1, "changed"): MIB, (2, "there"): 0}


def test_they_are_exact(stores: Stores, device: ZvolClone) -> None:
    with stores.served() as ganesha:
        change_luns(stores, device)
        change_files(stores)
        with mounted("/1") as client:
            stores.write(client, "template", 0, SIZE)
            client.unlink("/whole")
        stores.files.remove((1, "whole"))
        ganesha.restart_after_kill()
        changed = stores.compare()
        assert changed[1, "template"] == SIZE
        assert changed[1, "changed"] == MIB and changed[2, "there"] == MIB, "what only they two had"
    run("zpool", "export", stores.pool.name)
    run("zpool", "import", stores.pool.name)
    with stores.served():
        assert stores.compare() == changed
