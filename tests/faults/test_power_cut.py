# SPDX-License-Identifier: Apache-2.0
"""The guest is killed, as by a power cut: every acknowledged write is on the disk afterwards.

With the kernel's initiator, one kind of write; with our initiator, every kind of write command.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
WRITER = Path(__file__).with_name("power_cut_writer.py")


COMMANDS = Path(__file__).with_name("command_writer.py")
RECORD_BYTES = 16


def cut_while_writing(program: Path, state: Path, seed: int, writes: int) -> subprocess.CompletedProcess[str]:
    """Kills the guest after `writes` records; returns the result of the program's check in a new guest."""
    disk = ["--disk", f"2G:{state / 'disk'}"]
    acknowledged = state / "acknowledged"
    guest = subprocess.Popen([RUN, *disk, "python3", program, state, str(seed)], start_new_session=True)
    try:

        def enough() -> bool:
            assert guest.poll() is None, "the guest ended before its power was cut"
            return acknowledged.exists() and acknowledged.stat().st_size >= RECORD_BYTES * writes

        wait_for(enough, f"{writes} acknowledged writes", timeout=600)
    finally:
        os.killpg(guest.pid, 9)
        guest.wait()
    return subprocess.run(
        [RUN, *disk, "python3", program, state, "check"], capture_output=True, text=True, timeout=900, check=False
    )


def test_acknowledged_writes_survive_a_power_cut(state: Path, seed: int) -> None:
    check = cut_while_writing(WRITER, state, seed, random.Random(seed).randrange(100, 400))
    assert check.returncode == 0, check.stdout + check.stderr
    assert "lost: []" in check.stdout


def test_every_kind_of_write_command_survives_a_power_cut(state: Path, seed: int) -> None:
    """Without SYNCHRONIZE CACHE if the LUN reports no write cache. Data in a cache that was never flushed is lost.

    That loss proves the cut, and that only the target made the other blocks durable.
    """
    writes = random.Random(seed).randrange(600, 1200)
    check = cut_while_writing(COMMANDS, state, seed, writes)
    assert check.returncode == 0, check.stdout + check.stderr
    outcome: dict[str, tuple[int, int]] = json.loads((state / "found.json").read_text())
    never_flushed = {kind: counts for kind, counts in outcome.items() if "never flushed" in kind}
    assert {kind: lost for kind, (_, lost) in outcome.items() if lost and kind not in never_flushed} == {}
    assert all(blocks > 0 for blocks, _ in outcome.values()), outcome
    assert all(lost > 0 for _, lost in never_flushed.values()), "nothing was lost that was only in a cache: no power cut"
