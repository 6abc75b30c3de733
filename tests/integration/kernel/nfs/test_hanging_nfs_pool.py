# SPDX-License-Identifier: Apache-2.0
"""A pool hangs with many requests of NFS. Hosts of another pool continue."""

from __future__ import annotations

import os
import struct
from contextlib import ExitStack
from pathlib import Path

from integration.kernel.nfs.test_heartbeats import LONGEST_S, Heartbeats
from integration.kernel.removable_pool import RemovablePool
from support.ganesha import Export, mounted_dataset, running_ganesha
from support.onc_rpc import NFS_PROGRAM, Nfs3, Reader, mount, opaque
from support.programs import wait_for
from support.short_pool import MIB, ShortPool

REQUESTS, OF_A_CONNECTION = 500, 50
READ, WRITE, FILE_SYNC = 6, 7, 2


class Host:
    """Sends reads and writes of a file, and does not wait for the answers."""

    def __init__(self, stack: ExitStack, file: bytes) -> None:
        self._stack, self._file, self._sent, self._clients = stack, file, 0, list[Nfs3]()

    def send(self, count: int) -> list[Nfs3]:
        """Each request has its own block; returns the connections."""
        clients = [self._stack.enter_context(Nfs3()) for _ in range(count // OF_A_CONNECTION)]
        for client in clients:
            for _ in range(OF_A_CONNECTION):
                self._sent += 1
                place = opaque(self._file) + struct.pack(">QI", self._sent << 13, 512)
                if self._sent % 2:
                    client.connection.send(NFS_PROGRAM, 3, READ, place)
                else:
                    client.connection.send(NFS_PROGRAM, 3, WRITE, place + struct.pack(">I", FILE_SYNC) + opaque(os.urandom(512)))
        return clients


def statuses(clients: list[Nfs3]) -> set[int]:
    """The nfsstat3 of all answers."""
    return {Reader(client.connection.receive()[1]).uint32() for client in clients for _ in range(OF_A_CONNECTION)}


def test_hosts_of_another_pool_continue(removable_pool: RemovablePool, small_pool: ShortPool, tmp_path: Path) -> None:
    with (
        mounted_dataset(f"{removable_pool.name}/removed", compression="off", primarycache="metadata", recordsize="8K") as removed,
        mounted_dataset(f"{small_pool.name}/working", compression="off") as working,
        running_ganesha(tmp_path / "ganesha", [Export(1, removed, "/removed"), Export(2, working, "/working")]),
        ExitStack() as stack,
    ):
        (removed / "disk").write_bytes(os.urandom(16 * MIB))
        os.sync()
        with Nfs3() as nfs:
            host = Host(stack, nfs.lookup(mount("/removed"), "disk"))
        beats = Heartbeats("/working")
        beats.start()
        with removable_pool.removed():
            hanging = host.send(REQUESTS)
            wait_for(removable_pool.is_suspended, "the pool is suspended")
            before = beats.count
            wait_for(lambda: beats.count > before + 20, "the other pool is written")
        removable_pool.clear()
        assert statuses(hanging) == {0}
        beats.stop.set()
        beats.join()
    assert beats.longest < LONGEST_S
