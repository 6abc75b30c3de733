# SPDX-License-Identifier: Apache-2.0
"""Simulator: a ZfsEngine in memory, with failures and events that tests inject."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import NoSuchDevice, NoSuchPool, OutOfSpace, ZfsError
from simulators.zfs import state
from simulators.zfs.blocks import total, with_written
from simulators.zfs.pools import Pools
from simulators.zfs.snapshots import Snapshots
from simulators.zfs.space import parent_of, size_of
from simulators.zfs.state import DatasetState, Device, Machine, PoolState, SnapshotState

GIB = 1 << 30
TIB = 1 << 40


class Simulator(Pools, Snapshots, ZfsEngine):
    """A machine with disks and OpenZFS.

    With `path` every change is stored in that file and loaded from there, so that a killed process continues with its state.
    `scan_seconds` is the minimum duration of a scrub or resilver.
    """

    def __init__(
        self,
        *,
        disks: int = 8,
        disk_size: int = 4 * TIB,
        path: Path | None = None,
        scan_seconds: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        machine = state.load(path) if path else None
        if machine is None:
            machine = Machine()
            for number in range(disks):
                device = f"/dev/disk/by-id/ata-simulated-{number}"
                machine.devices[device] = Device(device, disk_size, serial=f"SIM{number:04}")
        super().__init__(machine, clock=clock, path=path)
        self.scan_seconds = scan_seconds

    # --- clients of datasets

    def write(self, name: str, size: int, *, overwritten: int = 0) -> None:
        """A client writes `size` bytes, `overwritten` of them over existing blocks. Raises NoSuchDataset, OutOfSpace."""
        with self.lock:
            pool, path, dataset = self.find(name)
            before, blocks = self.space_of(pool).used(path), dataset.blocks
            dataset.blocks = with_written(blocks, pool.txg, size, overwritten)
            self.touched()
            after = self.space_of(pool)
            if after.used(path) > before and after.used("") > after.usable or self._over_quota(pool, path):
                quota = after.used("") <= after.usable
                dataset.blocks = blocks
                self.touched()
                raise OutOfSpace(name, quota=quota)
            self.changed(pool)

    def _over_quota(self, pool: PoolState, path: str) -> bool:
        space, at = self.space_of(pool), path
        if 0 < size_of(pool.datasets[path], "refquota") < space.space(path).referenced:
            return True
        while True:
            if 0 < size_of(pool.datasets[at], "quota") < space.used(at):
                return True
            if not at:
                return False
            at = parent_of(at)

    @contextlib.contextmanager
    def opened(self, name: str, holder: str = "zvaai-target (process 4711)") -> Iterator[None]:
        """A program has the dataset open."""
        with self.lock:
            _, _, dataset = self.find(name)
            dataset.holders.append(holder)
            self.changed()
        yield
        with self.lock:
            if holder in dataset.holders:
                dataset.holders.remove(holder)
            self.changed()

    def blocks_cloned(self, pool: str, size: int) -> None:
        """A client cloned `size` bytes by range: bclone_* of the pool."""
        with self.lock:
            used = self.pool_state(pool)
            used.bclone_used += size
            used.bclone_saved += size
            self.changed(used)

    def receive(self, source: str, name: str) -> None:
        """Creates a copy of a snapshot as `zfs send -p | zfs receive` does: properties are RECEIVED."""
        with self.lock:
            _, _, origin, sent = self.find_snapshot(source)
            pool, path = self.find_parent_of_new(name)
            copy = DatasetState(self.new_guid(), pool.txg, self.now(), sent.volsize, origin.volblocksize)
            copy.received = dict(origin.local)
            copy.blocks = ((pool.txg, total(sent.blocks)),)
            received = SnapshotState(sent.tag, sent.guid, pool.txg, self.now(), copy.blocks, sent.volsize)
            received.received = dict(sent.properties)
            copy.snapshots = [received]
            self.need_room(pool, parent_of(path), total(sent.blocks), name)
            pool.datasets[path] = copy
            self.changed(pool)

    # --- failures

    def fail_next(self, operation: str, error: ZfsError, *, times: int = 1) -> None:
        """The next calls of this operation raise `error` and change nothing."""
        self.failures.setdefault(operation, []).extend([error] * times)

    def delay_next(self, operation: str, seconds: float, *, times: int = 1) -> None:
        """The next calls of this operation take longer."""
        self.delays.setdefault(operation, []).extend([seconds] * times)

    @contextlib.contextmanager
    def held_next(self, operation: str) -> Iterator[None]:
        """The next call of this operation waits for the end of the body."""
        go_on = threading.Event()
        self.waits.setdefault(operation, []).append(go_on)
        try:
            yield
        finally:
            go_on.set()

    def add_disk(self, path: str, size: int, *, used_by: str | None = None) -> None:
        """Adds a disk to the machine."""
        with self.lock:
            self.machine.devices[path] = Device(path, size, serial=f"SIM-{path.rpartition('-')[2]}", used_by=used_by)
            self.changed()

    def pull_disk(self, path: str) -> None:
        """Removes a disk. A pool that needs the disk is suspended."""
        self._set_present(path, present=False)

    def return_disk(self, path: str) -> None:
        """Returns a disk. `clear` resumes a suspended pool."""
        self._set_present(path, present=True)

    def _set_present(self, path: str, *, present: bool) -> None:
        with self.lock:
            if path not in self.machine.devices:
                raise NoSuchDevice(path)
            self.machine.devices[path].present = present
            self._suspend_what_fails()

    def fault_disk(self, path: str, *, read: int = 0, write: int = 0, checksum: int = 0) -> None:
        """Adds errors to a disk. Read and write errors make it FAULTED."""
        with self.lock:
            for pool in self.machine.pools:
                for leaf in pool.devices():
                    if leaf.path == path:
                        leaf.read_errors += read
                        leaf.write_errors += write
                        leaf.checksum_errors += checksum
                        leaf.faulted = leaf.faulted or bool(read or write)
                        self._suspend_what_fails()
                        return
            raise NoSuchDevice(path)

    def suspend(self, pool: str) -> None:
        """Suspends the pool: every operation on it is refused until `clear`."""
        self._imported(pool).suspended = True
        self.changed()

    def used_elsewhere(self, pool: str, host: str) -> None:
        """Marks an exported pool as used by another system."""
        for exported in self.machine.pools:
            if exported.name == pool and not exported.imported:
                exported.last_host = host
                self.changed()
                return
        raise NoSuchPool(pool)

    def _suspend_what_fails(self) -> None:
        for pool in self.machine.pools:
            if pool.imported and self._health(pool) == "UNAVAIL":
                pool.suspended = True
        self.changed()

    def _imported(self, name: str) -> PoolState:
        for pool in self.machine.pools:
            if pool.imported and pool.name == name:
                return pool
        raise NoSuchPool(name)
