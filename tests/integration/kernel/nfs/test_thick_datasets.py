# SPDX-License-Identifier: Apache-2.0
"""A thick datastore: every byte of its size can be written and overwritten over NFS while others fill the pool."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.kernel.nfs.datastores import admitted_for, control_block, counted, thick_dataset
from support.ganesha import Export, Ganesha, running_ganesha
from support.libnfs import Client, mounted
from support.nfs4 import SHARE_BOTH, SHARE_NONE, Nfs4, Nfs4Error
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.programs import run
from support.short_pool import MIB, Filler, ShortPool

from appliance.dataplane.vaai_nas import VaaiNas

SIZE = 80 * MIB
SPARSE, WRITTEN = 24 * MIB, 8 * MIB
ROOM = 32 * MIB
"""Space that others fill."""
NFS_NOSPC = 28


@dataclass
class Store:
    """A thick datastore of the small pool, served as /thick."""

    pool: ShortPool
    ganesha: Ganesha
    control: VaaiNas
    data: bytes
    """An incompressible MiB."""

    def piece(self, place: int, turn: int) -> bytes:
        """Content of a MiB of a file in a pass."""
        at = (place * 7 + turn * 1009) % MIB
        return self.data[at:] + self.data[:at]

    def write(self, client: Client, path: str, size: int, turn: int) -> None:
        """Writes the whole file, stable."""
        with client.opened(path, os.O_CREAT | os.O_RDWR) as file:
            for offset in range(0, size, MIB):
                file.write(offset, self.piece(offset // MIB, turn))
            file.sync()


@pytest.fixture
def store(small_pool: ShortPool, tmp_path: Path, seed: int) -> Iterator[Store]:
    socket = tmp_path / "vaai-nas.socket"
    with (
        thick_dataset(f"{small_pool.name}/thick", SIZE) as place,
        running_ganesha(
            tmp_path / "ganesha", [Export(1, place, "/thick", thick_size=SIZE)], blocks=control_block(socket)
        ) as ganesha,
    ):
        yield Store(small_pool, ganesha, VaaiNas(socket), random.Random(seed).randbytes(MIB))


def test_every_byte_is_written_and_overwritten_while_the_pool_is_full(store: Store, report_line: Callable[[str], None]) -> None:
    """Includes sparse files, and an admitted snapshot."""
    files = (("/sparse", SPARSE), ("/written", WRITTEN))
    begun = time.monotonic()
    with mounted("/thick") as client:
        store.write(client, "/written", WRITTEN, 0)
        client.write_file("/sparse", b"")
        client.truncate("/sparse", SPARSE)
        # A reservation takes most of the free space, so that it need not be written.
        taken = store.pool.available - ROOM
        run("zfs", "create", "-o", f"refreservation={taken}", f"{store.pool.name}/others")
        with Filler(store.pool.files) as filler:
            filler.wait_until_refused()
            for path, size in files:
                store.write(client, path, size, 1)
            filler.pause()
            run("zpool", "sync", store.pool.name)
            run("zfs", "set", f"refreservation={taken - SPARSE - WRITTEN - ROOM}", f"{store.pool.name}/others")
            run("zfs", "snapshot", f"{store.pool.name}/thick@admitted")
            filler.go_on()
            filler.wait_until_refused()
            for turn in (2, 3):
                for path, size in files:
                    store.write(client, path, size, turn)
            for path, size in files:
                with client.opened(path) as file:
                    assert all(file.read(offset, MIB) == store.piece(offset // MIB, 3) for offset in range(0, size, MIB)), path
        seconds = time.monotonic() - begun
        report_line(
            f"{3 * (SPARSE + WRITTEN) // MIB} MiB in {seconds:.0f} s; of the others {filler.refusals} writes were refused"
        )


def test_growth_beyond_the_size_is_refused(store: Store) -> None:
    """Hosts see size and free space; a refused request changes nothing, nor does a kill of the daemon."""
    with mounted("/thick") as client, Nfs3() as nfs, Nfs4() as nfs4:
        assert counted(store.control).admitted == 0
        client.write_file("/disk", b"")
        client.truncate("/disk", SPARSE)
        store.write(client, "/log", WRITTEN, 0)
        sizes = (SPARSE, WRITTEN)
        log, log4 = nfs.lookup(mount("/thick"), "log"), nfs4.open("/thick", "log", SHARE_BOTH, SHARE_NONE)
        growths: list[Callable[[], None]] = [
            lambda: nfs.truncate(log, SIZE),
            lambda: nfs4.truncate(log4, SIZE),
            lambda: nfs.write(log, SIZE - SPARSE, b"beyond"),
            lambda: nfs4.write(log4, SIZE - SPARSE, b"beyond"),
        ]
        for growth in growths:
            with pytest.raises((Nfs3Error, Nfs4Error), match=f"nfsstat[34] {NFS_NOSPC}$"):
                growth()
        assert client.size("/log") == WRITTEN
        nfs4.close(log4)
        assert counted(store.control).admitted == admitted_for(*sizes)
        assert reported(3) == reported(4) == (SIZE, SIZE - admitted_for(*sizes))
        client.truncate("/log", MIB)
        client.truncate("/disk", SPARSE + MIB)
        client.link("/disk", "/other")
        client.unlink("/disk")
        sizes = (SPARSE + MIB, MIB)
        assert counted(store.control).admitted == admitted_for(*sizes)
    store.ganesha.restart_after_kill()
    space = counted(store.control)
    assert (space.thick, space.size, space.admitted, space.problem) == (True, SIZE, admitted_for(*sizes), "")
    with mounted("/thick") as client:
        assert client.space() == (SIZE, SIZE - admitted_for(*sizes))
        client.unlink("/other")
        client.unlink("/log")
        assert client.space() == (SIZE, SIZE)


def reported(version: int) -> tuple[int, int]:
    """Size and free space that a host sees."""
    with mounted("/thick", version) as client:
        return client.space()
