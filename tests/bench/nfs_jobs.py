# SPDX-License-Identifier: Apache-2.0
"""Jobs of the NFS benchmark: clones, many clones that are then written, and the cost of FSAL_ZVAAI compared with FSAL_VFS."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.stores import MIB, timed
from support.libnfs import Client, mounted
from support.nfs_mount import kernel_mount
from support.programs import run, wait_for
from support.vaai_nas import COMMAND, vaai_nas

HOST = "127.0.0.1"
WAYS = ("clone", "fast-clone")
SERVER_COPIES = WAYS
CLIENT_COPIES = "client, FSAL_VFS"
RECORD = 128 << 10


class BenchFailed(Exception):
    """The measured operation did not do what it should."""


def noise(path: Path, length: int, run_bytes: int, stride: int) -> int:
    """Makes a file with data in the first `run_bytes` of each `stride`, without equal records. Returns the bytes of data."""
    data, written = bytearray(os.urandom(MIB)), 0
    with path.open("wb", buffering=0) as file:
        for at in range(0, length, MIB):
            if at % stride < run_bytes:
                for record in range(0, MIB, RECORD):
                    data[record : record + 8] = (at + record).to_bytes(8)
                written += os.pwrite(file.fileno(), data, at)
        file.truncate(length)
        os.fsync(file.fileno())
    return written


@dataclass
class LargeClones:
    """Clones of a large file with holes: by the server, and by a client that reads and writes."""

    pool: str
    store: Path
    """Exported as /zvaai, with the source."""
    vfs_store: Path
    """Exported by FSAL_VFS as /vfs, with the same source."""
    scratch: Path

    def server(self, name: str) -> float:
        """Seconds of a clone by the server with a pool sync; checks that it shares blocks. Raises BenchFailed."""
        from integration.kernel.zvol_clone.blocks import pool_property  # noqa: PLC0415  # of the guest

        before = pool_property(self.pool, "bcloneused")

        def clone() -> None:
            result = vaai_nas(name, f"{HOST}:/zvaai", "source", "copy")
            if result.returncode != 0:
                raise BenchFailed(result.stderr)
            run("zpool", "sync", self.pool)

        seconds = timed(clone)
        shared = pool_property(self.pool, "bcloneused") - before
        allocated = (self.store / "source").stat().st_blocks * 512
        if shared < allocated * 0.98:  # the rest is not shared: indirect blocks
            raise BenchFailed(f"{name}: {shared} bytes are shared of {allocated}")
        return seconds

    def prove(self) -> int:
        """Number of blocks of the copy, which must all have the source's addresses. Raises BenchFailed."""
        from integration.kernel.files.test_file_clone import blocks_of  # noqa: PLC0415  # of the guest

        source, copy = (blocks_of(self.store / name) for name in ("source", "copy"))
        if not source or source != copy:
            raise BenchFailed(f"{sum(source[at] != copy.get(at) for at in source)} of {len(source)} blocks lie elsewhere")
        return len(copy)

    def client(self) -> float:
        """Seconds of a copy by the kernel's client over NFSv4.2, which finds the holes by SEEK, with a pool sync."""
        with kernel_mount("/vfs", self.scratch / "vfs") as mount:

            def copy() -> None:
                run("cp", "--reflink=never", "--sparse=always", mount / "source", mount / "copy", timeout=3600)
                run("sync", "-f", mount / "copy", timeout=3600)
                run("zpool", "sync", self.pool)

            return timed(copy)

    def remove(self, name: str = "copy") -> None:
        """Removes the copy as a client does: otherwise the daemon keeps deleted files open."""
        from integration.kernel.zvol_clone.blocks import pool_property  # noqa: PLC0415  # of the guest

        for export in ("/zvaai", "/vfs"):
            with mounted(export) as client, contextlib.suppress(FileNotFoundError):
                client.unlink(f"/{name}")
        # OpenZFS frees large files in the background.
        wait_for(lambda: pool_property(self.pool, "bcloneused") == 0, "nothing is shared any more", 120)
        wait_for(lambda: pool_property(self.pool, "freeing") == 0, "all is free", 120)


Change = tuple[int, bytes]


class ManyClones:
    """Fast clones of a template, which several clients then write."""

    CLIENTS = 4
    WRITES = 3
    """Bytes of each client to each clone."""

    def __init__(self, pool: str, store: Path, count: int, length: int, seed: int) -> None:
        self._pool, self._store, self._length = pool, store, length
        self.names = [f"clone{number}" for number in range(count)]
        self._random = random.Random(seed)
        self._noise = self._random.randbytes(MIB)
        self._changes: dict[tuple[str, int], list[Change]] = {}

    def _expected(self, at: int) -> bytearray:
        """The template's MiB at an offset: all its records differ."""
        data = bytearray(self._noise)
        for record in range(0, MIB, RECORD):
            data[record : record + 8] = (at + record).to_bytes(8)
        return data

    def make_template(self) -> None:
        """Writes the template to disk."""
        with (self._store / "template").open("wb") as file:
            for at in range(0, self._length, MIB):
                file.write(self._expected(at))
            file.flush()
            os.fsync(file.fileno())
        run("zpool", "sync", self._pool)

    def clone_by_commands(self) -> list[float]:
        """Seconds of each clone by a separate command, in sequence; removes the clones. Raises BenchFailed."""
        seconds = []
        for name in self.names:
            begun = time.perf_counter()
            result = vaai_nas("fast-clone", f"{HOST}:/zvaai", "template", name)
            seconds.append(time.perf_counter() - begun)
            if result.returncode != 0:
                raise BenchFailed(result.stdout + result.stderr)
        for name in self.names:
            (self._store / name).unlink()
        run("zpool", "sync", self._pool)
        return seconds

    def clone_in_a_session(self) -> list[float]:
        """Seconds of each clone in one session, as of a host with a mounted datastore; the first includes the opening.

        Raises BenchFailed.
        """
        seconds = []
        begun = time.perf_counter()
        words = ["fast-clone", f"{HOST}:/zvaai", "template", *self.names]
        with subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, text=True) as command:
            assert command.stdout is not None
            for line in command.stdout:
                if "done:" not in line:
                    raise BenchFailed(line)
                seconds.append(time.perf_counter() - begun)
                begun = time.perf_counter()
        if command.returncode != 0 or len(seconds) != len(self.names):
            raise BenchFailed(f"exit code {command.returncode} after {len(seconds)} clones")
        return seconds

    def write(self) -> int:
        """All clients write concurrently to each clone, in different places. Returns the bytes written."""
        plans: list[list[tuple[str, int, bytes]]] = [[] for _ in range(self.CLIENTS)]
        for name in self.names:
            for number, plan in enumerate(plans):
                for _ in range(self.WRITES):
                    place = self._random.randrange(self._length // MIB // self.CLIENTS) * self.CLIENTS + number
                    data = self._random.randbytes(self._random.choice((512, 4096, 5000, 65536)))
                    offset = self._random.randrange(MIB - len(data))
                    self._changes.setdefault((name, place), []).append((offset, data))
                    plan.append((name, place * MIB + offset, data))
        with concurrent.futures.ThreadPoolExecutor(self.CLIENTS) as clients:
            return sum(clients.map(write_all, range(self.CLIENTS), plans))

    def compare(self) -> int:
        """Compares every byte of every clone and of the template; returns the number of bytes. Raises BenchFailed."""
        files = {name: (self._store / name).open("rb", buffering=0) for name in (*self.names, "template")}
        buffer = bytearray(MIB)
        for place in range(self._length // MIB):
            template = self._expected(place * MIB)
            for name, file in files.items():
                expected = bytearray(template)
                for offset, data in self._changes.get((name, place), []):
                    expected[offset : offset + len(data)] = data
                if os.preadv(file.fileno(), [buffer], place * MIB) != MIB or buffer != expected:
                    raise BenchFailed(f"{name} is wrong in its {place}th MiB")
        for name, file in files.items():
            if os.fstat(file.fileno()).st_size != self._length:
                raise BenchFailed(f"{name} has another size")
            file.close()
        return self._length * len(files)


def write_all(number: int, plan: Sequence[tuple[str, int, bytes]]) -> int:
    """Writes of one client, by NFSv3 or v4.0; returns the bytes written."""
    done = 0
    with mounted("/zvaai", (3, 4)[number % 2]) as client:
        for name, offset, data in plan:
            with client.opened(f"/{name}", os.O_RDWR) as file:
                file.write(offset, data)
                done += len(data)
    return done


class CpuClock:
    """CPU time of all threads of a process, in seconds."""

    def __init__(self, pid: int) -> None:
        self._clock = (~pid << 3) | 2  # clock_getcpuclockid(3): CPUCLOCK_SCHED of a thread group

    def now(self) -> float:
        """Seconds from the start of the process on."""
        return time.clock_gettime(self._clock)


@dataclass(frozen=True)
class Cost:
    """Seconds of one operation."""

    cpu: float
    wall: float


@dataclass
class Costs:
    """Reads and writes of files of several exports in turn: the daemon's CPU time for each, and the elapsed time."""

    pid: int
    paths: dict[str, str]
    """Export by contender."""
    operations: int
    """Operations of each repetition."""
    span: int = 8 * MIB
    """Range of the file that is read and written."""

    def prepare(self) -> None:
        for contender, export in self.paths.items():
            with mounted(export) as client, client.opened(f"/{contender}", os.O_CREAT | os.O_RDWR) as file:
                for at in range(0, self.span, MIB):
                    file.write(at, os.urandom(MIB))
                file.sync()

    def measure(self, what: str, size: int, repetitions: int) -> dict[str, list[Cost]]:
        """Costs of an operation by repetition and contender; the order rotates."""
        clock, costs = CpuClock(self.pid), {name: list[Cost]() for name in self.paths}
        clients = {name: Client(export) for name, export in self.paths.items()}
        files = {name: clients[name].open(f"/{name}", os.O_RDWR) for name in clients}
        data = os.urandom(size)
        order = list(self.paths)
        for number in range(repetitions + 1):  # the first one warms up
            places = [random.Random(number).randrange(self.span // size) * size for _ in range(self.operations)]
            for name in order:
                file = files[name]
                cpu, wall = clock.now(), time.perf_counter()
                for at in places:
                    if what == "write":
                        file.write(at, data)
                    else:
                        file.read(at, size)
                cost = Cost((clock.now() - cpu) / self.operations, (time.perf_counter() - wall) / self.operations)
                if number:
                    costs[name].append(cost)
            order.append(order.pop(0))
            if what == "write":
                for file in files.values():
                    file.sync()
        for name, client in clients.items():
            files[name].close()
            client.leave()
        return costs
