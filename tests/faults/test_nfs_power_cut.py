# SPDX-License-Identifier: Apache-2.0
"""The guest is killed right after NFS operations that modify. Each answered one is done (RFC 1813 4.7)."""

from __future__ import annotations

from pathlib import Path

from faults.power_cut import check_after_cut, cut_power

CHANGER = Path(__file__).with_name("nfs_changer.py")


def test_answered_changes_survive_a_power_cut(state: Path) -> None:
    words = ["--disk", f"2G:{state / 'disk'}", "python3", CHANGER, state]
    cut_power([*words, "change"], state, (state / "answered").exists, "all operations are answered")
    check_after_cut(words)
