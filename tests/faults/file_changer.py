# SPDX-License-Identifier: Apache-2.0
"""In the guest: changes files through the file operations library and records each answer, until the host cuts the power.

Or checks afterwards.

usage: file_changer.py STATE_DIRECTORY SEED change | check
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.file_crowd import Crowd
from support.file_tool import FileTool, Refused
from support.programs import run
from support.zfs import Pool

POOL, DATASET = "cut", "cut/datastore"
ROOT = Path("/cut-datastore")


def crowd_of(seed: str) -> Crowd:
    """The same operations in the same order on each run."""
    return Crowd(ROOT, DATASET, int(seed))


def change(state: Path, seed: str) -> None:
    """Never returns."""
    Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    run("zfs", "create", "-o", f"mountpoint={ROOT}", "-o", "compression=off", DATASET)
    crowd = crowd_of(seed)
    crowd.begin()
    run("zpool", "sync", POOL)
    with FileTool(ROOT) as tool, (state / "answers").open("a", buffering=1) as answers:
        while True:
            try:
                tool.call(*crowd.operation())
                answers.write("ok\n")
            except Refused as refused:
                answers.write(f"error {refused.name}\n")


def check(state: Path, seed: str) -> None:
    """Imports the pool after the cut, which replays the ZIL, and opens the dataset."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    crowd = crowd_of(seed)
    answers = (state / "answers").read_text().splitlines()
    for answer in (*answers, None):
        crowd.learn(crowd.operation(), answer)
    with FileTool(ROOT) as tool:
        crowd.check()
        crowd.end(tool)
    run("zpool", "scrub", "-w", POOL)
    status = run("zpool", "status", POOL)
    assert "with 0 errors" in status, status
    print(f"files right after {len(answers)} operations and a cut, {sum(answer == 'ok' for answer in answers)} of them done")


if __name__ == "__main__":
    (check if sys.argv[3] == "check" else change)(Path(sys.argv[1]), sys.argv[2])
