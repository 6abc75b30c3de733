# SPDX-License-Identifier: Apache-2.0
"""Programs that udev runs have a volume open for a moment, which is not a use of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import run, wait_for
from support.zfs import Pool

from appliance.zfs.kernel import KernelEngine

RULE = Path("/run/udev/rules.d/90-slow-program.rules")

FILE = Path("/dev/shm/opened")


@pytest.fixture
def slow_program() -> Iterator[None]:
    """At each change of a zvol, udev runs a program that has it open for 3 s."""
    RULE.parent.mkdir(parents=True, exist_ok=True)
    RULE.write_text("""ACTION=="change", KERNEL=="zd*", PROGRAM="/bin/sh -c 'sleep 3 <%N'"\n""")
    run("udevadm", "control", "--reload")
    yield
    RULE.unlink()
    run("udevadm", "control", "--reload")


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Of a file in memory."""
    with FILE.open("wb") as file:
        file.truncate(1 << 30)
    pool = Pool("opened", str(FILE))
    yield pool
    pool.destroy()
    FILE.unlink()


@pytest.mark.usefixtures("slow_program")
def test_a_volume_with_snapshots_is_destroyed(pool: Pool) -> None:
    name = f"{pool.name}/volume"
    run("zfs", "create", "-V", "16M", name)
    engine = KernelEngine()
    engine.snapshot([f"{name}@s"])
    run("udevadm", "settle")
    run("udevadm", "trigger", "--action=change", f"/dev/zvol/{name}")
    wait_for(lambda: any("udev" not in holder for holder in engine.who(name)), "udev's program has it open")
    engine.destroy(name, with_snapshots=True)
    assert name not in run("zfs", "list", "-H", "-o", "name", "-t", "all")
