# SPDX-License-Identifier: Apache-2.0
"""The guest is killed, as by a power cut: every acknowledged write is on the disk afterwards.

With the kernel's initiator, one kind of write; with our initiator, every kind of write command.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from faults.power_cut import check_after_cut, cut_power

WRITER = Path(__file__).with_name("power_cut_writer.py")
COMMANDS = Path(__file__).with_name("command_writer.py")
RECORD_BYTES = 16
CUTS = int(os.environ.get("ZVAAI_POWER_CUTS", "20"))


def write_until_cut(words: Sequence[object], state: Path, writes: int) -> None:
    """Kills the guest that runs the program with these words after `writes` records in the folder."""
    acknowledged = state / "acknowledged"

    def enough() -> bool:
        return acknowledged.exists() and acknowledged.stat().st_size >= RECORD_BYTES * writes

    cut_power(words, state, enough, f"{writes} acknowledged writes")


def assert_nothing_lost(state: Path) -> int:
    """Returns how many acknowledged blocks were checked."""
    outcome: dict[str, tuple[int, int]] = json.loads((state / "found.json").read_text())
    unstable = {kind: counts for kind, counts in outcome.items() if "sync=disabled" in kind}
    assert {kind: lost for kind, (_, lost) in outcome.items() if lost and kind not in unstable} == {}
    assert all(blocks > 0 for blocks, _ in outcome.values()), outcome
    assert unstable and all(lost > 0 for _, lost in unstable.values()), "nothing was lost with sync=disabled: no power cut"
    return sum(blocks for blocks, _ in outcome.values())


def test_acknowledged_writes_survive_a_power_cut(state: Path, seed: int) -> None:
    words = ["--disk", f"2G:{state / 'disk'}", "python3", WRITER, state]
    write_until_cut([*words, seed], state, random.Random(seed).randrange(100, 400))
    assert "lost: []" in check_after_cut(words)


def test_every_kind_of_write_command_survives_a_power_cut(state: Path, seed: int) -> None:
    """Without any SYNCHRONIZE CACHE. What is on a zvol with sync=disabled is lost.

    That loss proves the cut, and that only the target made the other blocks durable.
    """
    words = ["--disk", f"2G:{state / 'disk'}", "python3", COMMANDS, state]
    write_until_cut([*words, seed], state, random.Random(seed).randrange(600, 1200))
    check_after_cut(words)
    assert_nothing_lost(state)


@pytest.mark.long("12 s a cut and more: test_every_kind_of_write_command_survives_a_power_cut cuts the power in each run")
def test_many_power_cuts(state: Path, seed: int, report_line: Callable[[str], None]) -> None:
    """Each guest checks what the cut before it left, then writes until the next one. ZVAAI_POWER_CUTS sets how many."""
    words = ["--disk", f"2G:{state / 'disk'}", "python3", COMMANDS]
    blocks, before = 0, None
    for cut in range(seed, seed + CUTS):
        current = state / str(cut)
        current.mkdir()
        write_until_cut([*words, current, cut, *([before] if before else [])], current, random.Random(cut).randrange(200, 1200))
        if before:
            blocks += assert_nothing_lost(before)
            shutil.rmtree(before)
        before = current
    assert before
    check_after_cut([*words, before])
    report_line(f"{CUTS} power cuts, {blocks + assert_nothing_lost(before)} acknowledged blocks checked, none lost")
