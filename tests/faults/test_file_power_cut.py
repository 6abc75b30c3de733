# SPDX-License-Identifier: Apache-2.0
"""The guest is killed while files are cloned, changed and removed; then each clone is complete or absent."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faults.power_cut import check_after_cut, cut_power

CHANGER = Path(__file__).with_name("file_changer.py")


@pytest.mark.long("23 s each; test_power_cut.py and test_intent_log_power_cut.py cut the power in each run")
@pytest.mark.parametrize("cut", range(5))
def test_clones_survive_a_power_cut(state: Path, seed: int, cut: int) -> None:
    """Answered operations are done, and no clone is partial."""
    words = ["--disk", f"2G:{state / 'disk'}", "python3", CHANGER, state, seed + cut]
    operations, answers = random.Random(seed + cut).randrange(20, 60), state / "answers"

    def enough() -> bool:
        return answers.exists() and answers.read_text().count("\n") >= operations

    cut_power([*words, "change"], state, enough, f"{operations} answers")
    assert "files right after" in check_after_cut(words)
