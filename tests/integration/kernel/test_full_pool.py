# SPDX-License-Identifier: Apache-2.0
"""A full pool: which commands are refused, which are not, and recovery. Facts: zvol_target/docs/space.md."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.kernel.offload.disks import luns
from integration.kernel.zvol_clone.blocks import random_blocks, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support import cdb
from support.programs import run, wait_for
from support.raw_initiator import CHECK_CONDITION, GOOD, Response, Session
from support.short_pool import BLOCK, MIB, Filler, ShortPool, in_full, is_held, ready, space, write
from support.target import Target

BLOCKS = MIB // BLOCK
OUT_OF_SPACE = (0x07, 0x27, 0x07)
SOFT_THRESHOLD = (0x06, 0x38, 0x07)
HOSTS = 8
HEARTBEAT_LIMIT = 8.0
"""Seconds after which VMFS drops a heartbeat."""


class Load:
    """Load of hosts on a LUN with `allocated` bytes, while its pool is full. Counts, and the longest latency of each kind."""

    def __init__(self, sessions: list[Session], allocated: int, size: int, seed: int) -> None:
        self.sessions = sessions
        self.allocated = allocated
        self.size = size
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.longest: dict[str, float] = {}
        self.until = 0.0

    async def run(self, seconds: float) -> None:
        """Returns at the end of the time. Raises AssertionError if a command ends wrongly."""
        self.until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for host, session in enumerate(self.sessions):
                tasks.create_task(self.heartbeat(session, host))
            tasks.create_task(self.overwrite(self.sessions[0], [4096, 16384, 65536]))
            tasks.create_task(self.overwrite(self.sessions[1], [MIB]))
            tasks.create_task(self.unmap(self.sessions[2]))
            tasks.create_task(self.grow(self.sessions[3]))

    async def timed(self, kind: str, command: Any) -> Response:
        """Runs a command, and counts it."""
        began = time.monotonic()
        response: Response = await command
        self.longest[kind] = max(self.longest.get(kind, 0), time.monotonic() - began)
        self.done[kind] += 1
        return response

    async def heartbeat(self, session: Session, host: int) -> None:
        """A host's sector, repeatedly compared and written: MiB 0 belongs to the heartbeats."""
        address = host * 256
        stored = bytes(BLOCK)
        first = await write(session, address * BLOCK, stored)
        assert first.status == GOOD, first.sense_codes
        while time.monotonic() < self.until:
            fresh = os.urandom(BLOCK)
            response = await self.timed("heartbeat", session.execute(cdb.compare_and_write(address, 1), data_out=stored + fresh))
            assert response.status == GOOD, f"heartbeat of host {host}: {response.sense_codes}"
            stored = fresh
            await asyncio.sleep(0.3)

    async def overwrite(self, session: Session, sizes: list[int]) -> None:
        """Overwrites allocated blocks at random places behind the heartbeats."""
        while time.monotonic() < self.until:
            size = self.random.choice(sizes)
            places = (self.allocated - MIB) // size - 1
            offset = MIB + self.random.randrange(places) * size
            response = await self.timed(f"overwrite {size >> 10}K", write(session, offset, os.urandom(size)))
            assert response.status == GOOD, f"{size} bytes at {offset}: {response.sense_codes}"

    async def unmap(self, session: Session) -> None:
        """Unmaps allocated blocks that nothing overwrites, from the end on."""
        offset = self.allocated
        while time.monotonic() < self.until and offset < self.allocated + 32 * MIB:
            command, parameters = cdb.unmap((offset // BLOCK, 16384 // BLOCK))
            response = await self.timed("unmap", session.execute(command, data_out=parameters))
            assert response.status == GOOD, response.sense_codes
            offset += 16384
            await asyncio.sleep(0.5)

    async def grow(self, session: Session) -> None:
        """Writes blocks that need new space."""
        while time.monotonic() < self.until:
            size = self.random.choice([512, 16384, MIB])
            offset = self.random.randrange(self.size * 3 // 4, self.size - 128 * MIB) // 16384 * 16384
            response = await self.timed("refused", write(session, offset, os.urandom(size)))
            assert response.status == CHECK_CONDITION and response.sense_codes == OUT_OF_SPACE, (
                f"{size} bytes at {offset}: {response.status} {response.sense[:14].hex()}"
            )
            await asyncio.sleep(0.2)


def test_only_new_space_is_refused_when_a_pool_is_full(
    short_pool: ShortPool, short_target: Target, seed: int, report_line: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    """Files and a LUN fill a pool, with 8 hosts on the LUN; then space is added, twice, and everything continues.

    `--full-pool-seconds` is the time for which the pool is full.
    """
    seconds = float(request.config.getoption("--full-pool-seconds"))
    size, allocated = 4096 * MIB, 192 * MIB
    volume = short_pool.create_volume("lun", size // MIB, volblocksize="16K", compression="off")
    short_target.add_lun(0, volume)
    process = short_target.process_id

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            sessions = [
                await stack.enter_async_context(Session(short_target.portal, initiator=f"iqn.2026-11.example.zvaai:host{host}"))
                for host in range(HOSTS)
            ]
            for session in sessions:
                await ready(session)
            await in_full(sessions[0], 0, allocated // MIB + 32)
            await asyncio.to_thread(wait_for, lambda: is_held(short_target), "the overwrites are held", 180)
            filler = stack.enter_context(Filler(short_pool.files))
            at = allocated + 32 * MIB
            while True:  # both fill the pool
                response = await write(sessions[0], at, os.urandom(MIB))
                if response.status != GOOD:
                    break
                at += MIB
            assert response.sense_codes == OUT_OF_SPACE, response.sense_codes
            await asyncio.to_thread(filler.wait_until_refused)
            await asyncio.to_thread(wait_for, lambda: space(short_target)["growth"] == "refused", "that is seen", 120)
            load = Load(sessions, allocated, size, seed)
            refused = filler.refusals
            await load.run(seconds)
            assert filler.refusals > refused, "the pool was not full all the time"
            longest = {kind: f"{load.longest[kind]:.2f} s" for kind in load.done}
            report_line(f"{seconds:.0f} s on a full pool: {dict(load.done)}, longest {longest}")
            assert load.longest["heartbeat"] < HEARTBEAT_LIMIT
            assert {"unmap", "refused", "overwrite 1024K"} <= set(load.done)

            async def grows(session: Session, offset: int) -> None:
                until = time.monotonic() + 180
                while (response := await write(session, offset, os.urandom(MIB))).status != GOOD:
                    assert response.sense_codes == OUT_OF_SPACE, response.sense_codes
                    assert time.monotonic() < until, "space is back, and the LUN is still refused more"
                    await asyncio.sleep(0.2)

            await asyncio.to_thread(filler.remove)  # in a thread, because it may take a while: sessions must answer pings
            await grows(sessions[0], size - 64 * MIB)
            filler.go_on()
            await asyncio.to_thread(filler.wait_until_refused)
            await asyncio.to_thread(wait_for, lambda: space(short_target)["growth"] == "refused", "it is full again", 120)
            await asyncio.to_thread(filler.pause)
            await asyncio.to_thread(short_pool.add_disk, Path("/dev/shm/added"), 512)
            await grows(sessions[1], size - 32 * MIB)

    asyncio.run(scenario())
    assert short_target.process_id == process


def test_hosts_get_one_unit_attention_when_space_gets_short(short_pool: ShortPool, short_target: Target) -> None:
    """The thresholds of a LUN and of its pool: a unit attention to each host."""
    volume = short_pool.create_volume("lun", 1024, compression="off")
    short_target.add_lun(0, volume, soft_threshold={"percent": 6})

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            sessions = [
                await stack.enter_async_context(Session(short_target.portal, initiator=f"iqn.2026-11.example.zvaai:host{host}"))
                for host in range(HOSTS)
            ]
            for session in sessions:
                await ready(session)

            async def each_gets_one() -> None:
                for session in sessions:
                    until = time.monotonic() + 180
                    while SOFT_THRESHOLD not in (taken := await ready(session)):
                        assert time.monotonic() < until, f"no unit attention: {taken}"
                        await asyncio.sleep(0.1)
                    assert taken.count(SOFT_THRESHOLD) == 1

            writer = await stack.enter_async_context(Session(short_target.portal))
            await ready(writer)
            for at in range(80):
                while (response := await write(writer, at * MIB, os.urandom(MIB))).status != GOOD:
                    assert response.sense_codes == SOFT_THRESHOLD, response
            await each_gets_one()
            settings = {"headroom_bytes": 96 * MIB, "soft_threshold": {"percent": 30}}
            short_target.call("space.set_pool", {"pool": short_pool.name, **settings})

            def has_checked() -> bool:
                (pool,) = short_target.call("space.get")["pools"]
                return bool(pool["headroom_bytes"] == settings["headroom_bytes"])

            await asyncio.to_thread(wait_for, has_checked, "the target has checked", 120)
            assert SOFT_THRESHOLD not in [code for session in sessions for code in await ready(session)]
            with Filler(short_pool.files) as filler:

                def filled() -> bool:
                    return filler.path.exists() and filler.path.stat().st_size > 500 * MIB

                await asyncio.to_thread(wait_for, filled, "files fill the pool", 240)
            await each_gets_one()

    asyncio.run(scenario())


@pytest.mark.long("30 s each; test_only_new_space_is_refused_when_a_pool_is_full fills a pool in each run")
@pytest.mark.parametrize(
    ("full", "blk_mq"),
    [("pool", 1), ("pool", 0), ("quota", 0), ("quota", 1)],
)
def test_the_kernel_s_eio_is_want_of_space(
    short_pool: ShortPool, short_target: Target, zfs_parameter: Callable[[str, int], None], full: str, blk_mq: int
) -> None:
    """EDQUOT arrives as EIO, and ENOSPC does too with blk-mq: hosts get a lack of space, never a medium error."""
    zfs_parameter("zvol_use_blk_mq", blk_mq)
    run("zfs", "create", f"{short_pool.name}/parent")
    volume = short_pool.create_volume("parent/lun", 1024, compression="off")
    short_target.add_lun(0, volume)
    # Headroom is not the subject: writes are always admitted.
    short_target.call("space.set_pool", {"pool": short_pool.name, "headroom_bytes": 0})

    async def scenario() -> None:
        async with Session(short_target.portal) as session:
            await ready(session)
            await in_full(session, 0, 32)
            if full == "quota":
                run("zfs", "set", "quota=200M", f"{short_pool.name}/parent")
            with Filler(short_pool.files) as filler:
                if full == "pool":
                    await asyncio.to_thread(filler.wait_until_refused)
                at = 64 * MIB
                while (response := await write(session, at, os.urandom(MIB))).status == GOOD:
                    at += MIB
                    assert at < 1000 * MIB, "nothing is refused"
                assert response.sense_codes == OUT_OF_SPACE, response.sense_codes
                for offset in (0, 16 * MIB, 31 * MIB):
                    response = await write(session, offset, os.urandom(65536))
                    assert response.status == GOOD, response.sense_codes

    asyncio.run(scenario())
    errors = short_target.counters()["write"]["medium_errors"]
    assert errors == 0


@pytest.mark.long("a minute; the decision has unit tests with the figures of large pools")
def test_overwrites_of_shared_blocks_are_refused_before_the_pool_hangs(
    short_pool: ShortPool, short_target: Target, device: ZvolClone, tmp_path: Path
) -> None:
    """They need new space within reservations. What is free on a special vdev is none for them."""
    special = tmp_path / "special"
    with special.open("wb") as file:
        file.truncate(1 << 30)
    run("zpool", "add", "-f", short_pool.name, "special", str(special))
    shared = 512 * MIB
    for number in range(2):
        volume = short_pool.create_volume(f"lun{number}", 600, volblocksize="16K", compression="off")
        short_target.add_lun(number, volume)

    async def scenario() -> None:
        async with luns(short_target, 2) as disks:
            await disks.write(0, random_blocks(shared), 0)
            await disks.copy(shared)
            run("zpool", "sync", short_pool.name)
            assert int(run("zpool", "get", "-Hpo", "value", "bclonesaved", short_pool.name)) > shared * 9 // 10
            await asyncio.to_thread(
                wait_for, lambda: is_held(short_target, 0) and is_held(short_target, 1), "both are held", timeout=180
            )
            with Filler(short_pool.files) as filler:
                await asyncio.to_thread(filler.wait_until_refused)
                for at in range(0, shared, MIB):
                    response = await disks.session.execute(
                        cdb.sixteen(0x8A, at // BLOCK, BLOCKS), data_out=os.urandom(MIB), lun=1
                    )
                    if response.status != GOOD:
                        break
                assert response.sense_codes == OUT_OF_SPACE, response.sense_codes
                run("zpool", "sync", short_pool.name)
                filler.remove()

    asyncio.run(scenario())


def test_a_removed_reservation_is_set_again(short_pool: ShortPool, short_target: Target) -> None:
    """An admin removes the reservation for a LUN's overwrites: the target sets it again."""
    volume = short_pool.create_volume("lun", 512, volblocksize="16K")
    short_target.add_lun(0, volume)
    wait_for(lambda: is_held(short_target), "the overwrites are held", timeout=180)
    before = short_pool.number("lun", "reservation")
    assert before > short_pool.number("lun", "used")
    run("zfs", "set", "reservation=none", f"{short_pool.name}/lun")
    wait_for(lambda: short_pool.number("lun", "reservation") == before, "the reservation is set again", timeout=180)


def test_figures_of_a_pool_are_fresh_while_its_reservations_are_set(short_pool: ShortPool, tmp_path: Path) -> None:
    """After reservations have taken 5 s the target reads figures again, before it sets the others.

    Each `zfs set` waits for the test. The target would kill it after 20 s.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    started, once, always = (programs / name for name in ("started", "once", "always"))
    started.touch()
    waiting = programs / "zfs"
    waiting.write_text(f"""#!/bin/sh
if [ "$1" = set ]; then
  echo >>{started}
  until [ -e {always} ] || mv {once} {once}.done 2>/dev/null; do sleep 0.1; done
fi
exec {shutil.which("zfs")} "$@"
""")
    waiting.chmod(0o755)
    volumes = [short_pool.create_volume(f"lun{number}", 64) for number in range(8)]
    target = Target(tmp_path)
    target.enter(["env", f"PATH={programs}:{os.environ['PATH']}"])
    target.start()
    try:
        target.create()
        for number, volume in enumerate(volumes):
            target.add_lun(number, volume)

        def held() -> int:
            return sum(is_held(target, number) for number in range(1, 8))

        wait_for(lambda: started.stat().st_size >= 1, "the first LUN's reservation is set")
        once.touch()
        wait_for(lambda: started.stat().st_size >= 2, "the others are set, in one update")
        write_direct(volumes[0], random_blocks(16 * MIB))
        run("zpool", "sync", short_pool.name)
        time.sleep(5)
        once.touch()
        # Without new figures between them, six more would end first: after 120 s.
        wait_for(lambda: space(target)["used_bytes"] > 12 * MIB, "new figures", timeout=60)
        always.touch()
        wait_for(lambda: held() == 7, "all reservations are set")
        for number in range(1, 8):
            unused = short_pool.number(f"lun{number}", "reservation") - short_pool.number(f"lun{number}", "used")
            assert space(target, number)["held_bytes"] == unused
    finally:
        always.touch()
        assert target.stop() == 0
