# SPDX-License-Identifier: Apache-2.0
"""A working host in a separate process: writes, reads, checks every block, and measures."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from support import cdb
from support.raw_initiator import GOOD, Session

BLOCKS = 8
QUEUE_DEPTH = 8
REGION_BLOCKS = 1024
"""Logical blocks of 512 bytes that each queue slot writes to."""


@dataclass(frozen=True)
class Figures:
    """Commands per second; mean and longest latency in seconds."""

    per_second: float
    mean: float
    longest: float


async def _work(portal: str, lun: int, seconds: float, initiator: str) -> Figures:
    times: list[float] = []

    async def place(number: int, session: Session, until: float) -> None:
        sequence = 0
        while not sequence or time.perf_counter() < until:
            sequence += 1
            address = number * REGION_BLOCKS + sequence * BLOCKS % REGION_BLOCKS
            stamp = (number.to_bytes(8) + sequence.to_bytes(8)) * (BLOCKS * 32)
            before = time.perf_counter()
            written = await session.execute(cdb.write(address, BLOCKS), data_out=stamp)
            between = time.perf_counter()
            read = await session.execute(cdb.read(address, BLOCKS), data_in=len(stamp))
            times.extend((between - before, time.perf_counter() - between))
            assert written.status == GOOD, written
            assert read.status == GOOD and read.data == stamp, f"block {address} is not what was written"

    async with Session(portal, lun=lun, initiator=initiator) as session:
        await session.execute(cdb.TEST_UNIT_READY)  # takes the unit attention of a new nexus
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(QUEUE_DEPTH):
                group.create_task(place(number, session, start + seconds))
    return Figures(len(times) / (time.perf_counter() - start), sum(times) / len(times), max(times))


def work(portal: str, lun: int = 0, seconds: float = 2, initiator: str = "iqn.2026-11.example.zvaai:worker") -> Figures:
    """Logs in and works. Raises AssertionError for wrong data, and Session's exceptions."""
    return asyncio.run(_work(portal, lun, seconds, initiator))


class Worker:
    """Runs `work` in a process."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor

    def start(self, portal: str, lun: int = 0, seconds: float = 2) -> Future[Figures]:
        """Starts the work; the future gets the figures."""
        return self._executor.submit(work, portal, lun, seconds)


@contextlib.contextmanager
def worker() -> Iterator[Worker]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        executor.submit(int).result()  # the process exists
        yield Worker(executor)


def peak_memory_bytes(process_id: int) -> int:
    """VmHWM of a process."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10
