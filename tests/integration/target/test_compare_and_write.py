# SPDX-License-Identifier: Apache-2.0
"""ATS: eight hosts on 64 shared counters, alone and during bulk writes; and against overlapping writes. Both tiers.

A counter is a block with its value and last host, so that no two contents are the same.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import random
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

import pytest
from support import cdb
from support.programs import wait_for
from support.raw_initiator import CHECK_CONDITION, GOOD, Session
from support.target import Target
from support.volumes import VolumeMaker

HOSTS, COUNTERS = 8, 64
SECONDS = float(os.environ.get("ZVAAI_ATS_SECONDS", "6"))
STAMP = struct.Struct(">QQ")
MISCOMPARE = (0xE, 0x1D, 0x00)
FIRST_BULK_BLOCK = 2048
SIZE_MIB = 64
LONGEST_SECONDS = 4
"""ESXi drops a datastore whose heartbeats take more than 8 s."""
ATTEMPTS = 3
"""Attempts: latency limits must hold in at least one, because the machine may stall for a moment."""


def stamp(value: int, host: int) -> bytes:
    """Content of a counter's block."""
    return STAMP.pack(value, host) * (512 // STAMP.size)


@dataclass
class Tally:
    """Results of a run: who set which value of which counter, count by host, latencies."""

    set_by: dict[tuple[int, int], int]
    successes: list[int] = field(default_factory=lambda: [0] * HOSTS)
    miscompares: int = 0
    times: list[float] = field(default_factory=list)
    longest_gap: float = 0

    def problem(self) -> str | None:
        """A result that is too slow, or too small to prove anything."""
        done = sum(self.successes)
        if not self.miscompares or done <= COUNTERS:
            return f"they did not meet: {done} set, {self.miscompares} miscompares"
        if min(self.successes) * 4 < done / HOSTS:
            return f"a host starved: {self.successes}"
        if max(self.times) >= LONGEST_SECONDS or self.longest_gap >= LONGEST_SECONDS:
            return f"a command took {max(self.times):.1f} s, and a host waited {self.longest_gap:.1f} s for a success"
        return None


async def count(portal: str, host: int, until: float, choice: random.Random, tally: Tally) -> None:
    """A host that increments counters until the time is over. Raises AssertionError at the first error."""
    async with Session(portal, initiator=f"iqn.2026-11.example.zvaai:esx{host}") as session:
        await session.execute(cdb.TEST_UNIT_READY)
        last_success = time.perf_counter()
        while (now := time.perf_counter()) < until:
            counter = choice.randrange(COUNTERS)
            old = (await session.execute(cdb.read(counter, 1), data_in=512)).data
            value = STAMP.unpack_from(old)[0] + 1
            before = time.perf_counter()
            answer = await session.execute(cdb.compare_and_write(counter, 1), data_out=old + stamp(value, host))
            now = time.perf_counter()
            tally.times.append(now - before)
            if answer.status == GOOD:
                other = tally.set_by.setdefault((counter, value), host)
                assert other == host, f"hosts {other} and {host} both set counter {counter} to {value}"
                tally.successes[host] += 1
                tally.longest_gap = max(tally.longest_gap, now - last_success)
                last_success = now
            else:
                assert answer.status == CHECK_CONDITION and answer.sense_codes == MISCOMPARE, answer
                tally.miscompares += 1
                content = (await session.execute(cdb.read(counter, 1), data_in=512)).data
                assert content != old, f"counter {counter} holds what was expected: the miscompare was false"


async def _bulk(portal: str, written: Synchronized[int], enough: Event) -> None:
    """Writes 1 MiB at a time, eight at once; counts the bytes in `written`."""
    data = os.urandom(1 << 20)

    async def place(session: Session, number: int) -> None:
        for attempt in itertools.count():
            if enough.is_set():
                return
            address = FIRST_BULK_BLOCK + (attempt * 8 + number) * 2048 % ((SIZE_MIB - 1) * 2048)
            assert (await session.execute(cdb.write(address, 2048), data_out=data)).status == GOOD
            with written:
                written.value += 1

    async with Session(portal, initiator="iqn.2026-11.example.zvaai:bulk") as session:
        await session.execute(cdb.TEST_UNIT_READY)
        await asyncio.gather(*(place(session, number) for number in range(8)))


def bulk(portal: str, written: Synchronized[int], enough: Event) -> None:
    """`_bulk` in a separate process."""
    asyncio.run(_bulk(portal, written, enough))


@contextmanager
def bulk_writes(portal: str) -> Iterator[Synchronized[int]]:
    """Bulk writes during the whole body: in the guest their process takes seconds to start."""
    spawn = multiprocessing.get_context("spawn")
    written, enough = spawn.Value("Q", 0), spawn.Event()
    process = spawn.Process(target=bulk, args=(portal, written, enough))
    process.start()
    try:
        wait_for(lambda: written.value > 0 or process.exitcode is not None, "bulk is written")
        yield written
    finally:
        enough.set()
        process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("during_bulk", [False, True], ids=["alone", "during bulk"])
def test_no_update_is_lost_and_no_host_starves(
    target: Target, make_volume: VolumeMaker, seed: int, report_line: Callable[[str], None], during_bulk: bool
) -> None:
    target.add_lun(0, make_volume("volume", SIZE_MIB))
    set_by: dict[tuple[int, int], int] = {}

    async def act(tally: Tally) -> None:
        until = time.perf_counter() + SECONDS
        hosts = [count(target.portal, host, until, random.Random(seed * HOSTS + host), tally) for host in range(HOSTS)]
        await asyncio.gather(*hosts)
        async with Session(target.portal) as session:
            await session.execute(cdb.TEST_UNIT_READY)
            for counter in range(COUNTERS):
                values = [value for number, value in set_by if number == counter]
                held = (await session.execute(cdb.read(counter, 1), data_in=512)).data
                last = max(values, default=0)
                assert len(values) == last, f"counter {counter}: {len(values)} successes, and the last value is {last}"
                assert held == (stamp(last, set_by[counter, last]) if values else bytes(512))

    problems = []
    miscompares = 0
    for _ in range(ATTEMPTS):
        tally = Tally(set_by)
        with bulk_writes(target.portal) if during_bulk else nullcontext() as written:
            asyncio.run(asyncio.wait_for(act(tally), SECONDS + 60))
            bulk_mib = written.value if written else 0
        times = sorted(tally.times)
        if not times:
            problems.append(f"no host sent a command within {SECONDS:g} s")
            continue
        report_line(
            f"{HOSTS} hosts, {COUNTERS} counters, {SECONDS:g} s: {sum(tally.successes)} set, {tally.miscompares} miscompares, "
            f"by host {min(tally.successes)} to {max(tally.successes)}; ATS median {statistics.median(times) * 1000:.1f} ms, "
            f"99% {times[len(times) * 99 // 100] * 1000:.1f} ms, longest {times[-1] * 1000:.0f} ms; {bulk_mib} MiB of bulk writes"
        )
        miscompares += tally.miscompares
        assert target.counters()["offload"]["miscompares"] == miscompares
        problem = tally.problem() or ("hardly any bulk writes" if during_bulk and bulk_mib <= 8 else None)
        if not problem:
            return
        problems.append(problem)
    raise AssertionError("\n".join(problems))


def test_it_is_atomic_against_overlapping_writes(target: Target, make_volume: VolumeMaker, seed: int) -> None:
    """Concurrent writes of 256 blocks and compare-and-writes of 255 of them: the last one wins entirely, whichever it is."""
    target.add_lun(0, make_volume("volume", 16))
    choice = random.Random(seed)

    async def act() -> None:
        names = [f"iqn.2026-11.example.zvaai:esx{host}" for host in range(4)]
        async with Session(target.portal, initiator=names[0]) as first, Session(target.portal, initiator=names[1]) as other:
            for session in (first, other):
                await session.execute(cdb.TEST_UNIT_READY)
            generation = itertools.count(1)
            held = bytes(512 * 255)
            won = 0
            for _ in range(60):
                contents: dict[bytes, str] = {held: "nothing"}
                commands = []
                for _ in range(4):
                    data = stamp(next(generation), 0) * 256
                    contents[data[: 512 * 255]] = "write"
                    commands.append(choice.choice([first, other]).execute(cdb.write(0, 256), data_out=data))
                    data = stamp(next(generation), 1) * 255
                    contents[data] = "compare and write"
                    commands.append(choice.choice([first, other]).execute(cdb.compare_and_write(0, 255), data_out=held + data))
                choice.shuffle(commands)
                answers = await asyncio.gather(*commands)
                assert all(answer.status == GOOD or answer.sense_codes == MISCOMPARE for answer in answers), answers
                # Two commands with the same expected data never both succeed: the first one changed the block.
                succeeded = sum(answer.status == GOOD for answer in answers) - 4
                assert succeeded in (0, 1), f"{succeeded} of one expectation succeeded"
                won += succeeded
                held = (await first.execute(cdb.read(0, 255), data_in=512 * 255)).data
                assert held in contents, "two commands' data are mixed"
            assert won, "no compare-and-write was first in any round: the test shows nothing"

    asyncio.run(asyncio.wait_for(act(), 120))
