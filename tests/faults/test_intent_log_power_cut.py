# SPDX-License-Identifier: Apache-2.0
"""The guest is killed right after a stable unmap and zeroing, or the flush of a clone: after its boot they are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.power_cut import check_after_cut, cut_power


@pytest.mark.parametrize(
    ("program", "action", "record", "finds"),
    [
        ("clearer.py", "clear", "cleared", "cleared ranges are zero after the cut"),
        ("cloner.py", "clone", "flushed", "flushed clone whole after the cut"),
    ],
)
def test_stable_changes_survive_a_power_cut(state: Path, program: str, action: str, record: str, finds: str) -> None:
    words = ["--disk", f"1G:{state / 'disk'}", "python3", Path(__file__).with_name(program), state]
    recorded = state / record
    cut_power([*words, action], state, lambda: recorded.exists() and recorded.stat().st_size > 0, f"it is {record}")
    before, after = recorded.read_text().split()
    assert before == after, "a transaction group closed between: it does not prove the intent log"
    assert finds in check_after_cut(words)
