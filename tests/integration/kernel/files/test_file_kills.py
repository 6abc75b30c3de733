# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random points of clones and removals on real ZFS: no clone is partial, and no space is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.file_crowd import Crowd
from support.file_tool import FileTool
from support.programs import run
from support.short_pool import MIB, ShortPool


def used(pool: ShortPool) -> int:
    """Bytes that the dataset uses."""
    run("zpool", "sync", pool.name)
    return pool.number("datastore", "used")


def operate(crowd: Crowd, tool: FileTool, answered: int, seconds: float) -> int:
    """Runs operations until the kill, `seconds` after `answered` answers; returns the number of answers."""
    operations = [crowd.operation() for _ in range(40)]
    for words in operations:
        tool.send(*words)
    answers = [tool.line() for _ in range(answered)]
    time.sleep(seconds)  # the random moment is the test
    answers += tool.killed()
    for words, answer in zip(operations, [*answers, None], strict=False):
        crowd.learn(words, answer)
    return len(answers)


@pytest.mark.long("20 s and more; test_ganesha_kills.py kills the daemon in each run")
@pytest.mark.parametrize("kills", [12, 100])
def test_kills_cause_no_partial_clone_and_no_lost_space(
    short_pool: ShortPool, tmp_path: Path, seed: int, kills: int, report_line: Callable[[str], None]
) -> None:
    """The kill depends on answers, not on seconds: a slow machine would never get past the first operation."""
    root, dataset = tmp_path / "datastore", f"{short_pool.name}/datastore"
    run("zfs", "create", "-o", f"mountpoint={root}", "-o", "compression=off", dataset)
    before = used(short_pool)
    crowd = Crowd(root, dataset, seed)
    crowd.begin()
    done = []
    for _ in range(kills):
        tool = FileTool(root)
        crowd.check()
        done.append(operate(crowd, tool, crowd.choose.randrange(12), crowd.choose.uniform(0, 0.1)))
    with FileTool(root) as tool:
        crowd.check()
        crowd.end(tool)
    left = used(short_pool) - before
    assert left < MIB // 8, f"{left} bytes are lost"
    short_pool.scrub()
    assert len(set(done)) > 3, "kills came at one moment only"
    report_line(f"{kills} kills after {min(done)} to {max(done)} operations")
