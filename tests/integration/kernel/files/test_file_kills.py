"""kill -9 at random points of clones, promises and removals on real ZFS: the ledger is right after each, nothing leaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.file_crowd import Crowd
from support.file_tool import FileTool
from support.programs import run
from support.short_pool import MIB, ShortPool


def beside_the_ledger(pool: ShortPool, root: Path) -> int:
    """Bytes that the dataset takes for all else; the ledger's file does not become smaller."""
    run("zpool", "sync", pool.name)
    ledger = sum(path.stat().st_blocks * 512 for path in (root / ".zvaai").iterdir() if path.is_file())
    return pool.number("datastore", "used") - ledger


def operate(crowd: Crowd, tool: FileTool, wanted: int, seconds: float) -> int:
    """Operations until the kill, so long after so many answers; how many were answered."""
    operations = [crowd.operation() for _ in range(40)]
    for words in operations:
        tool.send(*words)
    answers = [tool.line() for _ in range(wanted)]
    time.sleep(seconds)  # the moment is what is tried
    answers += tool.killed()
    for words, answer in zip(operations, [*answers, None], strict=False):
        crowd.learn(words, answer)
    return len(answers)


@pytest.mark.long("20 s and more; test_ganesha_kills.py kills the daemon in each run")
@pytest.mark.parametrize("kills", [12, 100])
def test_kills_leave_right_books_and_no_lost_space(
    short_pool: ShortPool, tmp_path: Path, seed: int, kills: int, tell: Callable[[str], None]
) -> None:
    """At any moment; what was promised stays so, no clone is half, clients go on, and in the end all space is back.

    Moments are counted in answers: in seconds alone a slow machine has all in the first operation, a fast one after the last.
    """
    root, dataset = tmp_path / "datastore", f"{short_pool.name}/datastore"
    run("zfs", "create", "-o", f"mountpoint={root}", "-o", "compression=off", dataset)
    with FileTool(root, zfs=True):
        pass
    before = beside_the_ledger(short_pool, root)
    crowd = Crowd(root, dataset, seed)
    crowd.begin()
    done = []
    opened = 0.0
    for _ in range(kills):
        begun = time.monotonic()
        tool = FileTool(root, zfs=True)
        opened += time.monotonic() - begun
        crowd.check(tool)
        done.append(operate(crowd, tool, crowd.choose.randrange(12), crowd.choose.uniform(0, 0.1)))
    with FileTool(root, zfs=True) as tool:
        crowd.check(tool)
        crowd.end(tool)
    left = beside_the_ledger(short_pool, root) - before
    assert left < MIB // 8, f"{left} bytes are lost"
    short_pool.scrub()
    assert len(set(done)) > 3, "kills came at one moment only"
    tell(f"{kills} kills after {min(done)} to {max(done)} operations, books open again in {opened / kills:.2f} s")
