# SPDX-License-Identifier: Apache-2.0
"""CPU time of the target per I/O with 1, 2, 4 and 8 reactors, natively, on one file in memory, in one run.

The file costs next to nothing, so what reactors share shows: the LUN, its locks and its counters. Each repetition runs each
workload with each number of reactors; the order rotates. Printed: median [minimum-maximum].
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import target_and_tgt, vaai
from bench.target_and_tgt import LOAD, Contender, Workload, measure_target
from support.programs import run
from support.target import Target

FILE_BYTES = 256 << 20
WORKLOADS = [
    Workload("4K read, 8 sessions, QD8", 4096, 8, 8, False),
    Workload("4K write, 8 sessions, QD8", 4096, 8, 8, True),
    Workload("4K read, 32 sessions, QD2", 4096, 32, 2, False),
    Workload("128K read, 8 sessions, QD2", 128 << 10, 8, 2, False),
    Workload("128K write, 8 sessions, QD2", 128 << 10, 8, 2, True),
]


@contextmanager
def serving(folder: Path, file: Path, reactors: int) -> Iterator[Contender]:
    """The target with so many reactors."""
    target = Target(folder, options=["--reactors", str(reactors)])
    target.start()
    try:
        target.create()
        target.add_lun(0, file, write_cache=True)
        yield Contender(f"{reactors} reactors", target.url(0), target.process_id)
    finally:
        target.stop()


def main(words: Sequence[str]) -> int:
    """Runs the workloads and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reactors", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a run (default 2)")
    options = parser.parse_args(words)
    run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(LOAD), str(Path(__file__).with_name("load.c")), "-liscsi")
    columns: dict[int, Contender] = {}
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "volume")
        with file.open("wb") as volume:
            for _ in range(FILE_BYTES >> 20):
                volume.write(os.urandom(1 << 20))
        for number in range(options.repetitions):
            for offset in range(len(options.reactors)):
                reactors = options.reactors[(number + offset) % len(options.reactors)]
                folder = Path(name, f"{number}-{reactors}")
                folder.mkdir()
                with serving(folder, file, reactors) as contender:
                    column = columns.setdefault(reactors, contender)
                    for workload in WORKLOADS:
                        result = measure_target(contender, workload, options.seconds)
                        column.results.setdefault(workload.name, []).append(result)
            print(f"bench: repetition {number + 1} of {options.repetitions}", file=sys.stderr, flush=True)
    for title, value, spread in (
        ("CPU us per I/O", "cpu_us", vaai.spread),
        ("I/Os per second", "rate", target_and_tgt.spread),
    ):
        print(f"\n{title:30}" + "".join(f"{f'{reactors} reactors':>28}" for reactors in options.reactors))
        for workload in WORKLOADS:
            cells = [
                [getattr(result, value) for result in columns[reactors].results[workload.name]] for reactors in options.reactors
            ]
            print(f"{workload.name:30}" + "".join(f"{spread(values):>28}" for values in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
