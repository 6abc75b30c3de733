"""The target beside tgt and beside the bound, natively, on one file, in one run.

Every round runs each workload on every contender in turn, so that what else the machine does hits all alike. Printed: the median
of the rounds with minimum and maximum, the ratio ours / tgt of the medians, and the contender's CPU time per I/O.

The client is qemu-img bench, one thread. The bound is the same client on the file itself: no iSCSI at all. Both targets write to
the page cache and report a write cache (WCE = 1): equal durability. tgt is tuned: 256 KiB segments, 1 MiB bursts. The file lies
first on tmpfs, where nothing waits for a disk, then on the file system of the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.programs import CACHE, run, wait_for
from support.target import Target

FILE_BYTES = 1 << 30
TGT_IQN = "iqn.2026-11.example.zvaai:peer"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STRIDE_BYTES = 4096 * 7919
"""Offsets of the 4K workloads: each I/O lies this far from the last, round the whole file: no readahead, no merging."""


@dataclass(frozen=True)
class Workload:
    """What the client does: block size in bytes, I/Os in flight, bytes from one I/O to the next, writing or reading, how many."""

    name: str
    block_bytes: int
    depth: int
    step_bytes: int
    write: bool
    count: int


WORKLOADS = [
    Workload("4K random read, QD1", 4096, 1, STRIDE_BYTES, False, 20_000),
    Workload("4K random write, QD1", 4096, 1, STRIDE_BYTES, True, 20_000),
    Workload("4K random read, QD32", 4096, 32, STRIDE_BYTES, False, 80_000),
    Workload("4K random write, QD32", 4096, 32, STRIDE_BYTES, True, 80_000),
    Workload("1M sequential read, QD8", 1 << 20, 8, 1 << 20, False, 3_000),
    Workload("1M sequential write, QD8", 1 << 20, 8, 1 << 20, True, 3_000),
]


@dataclass
class Contender:
    """Something the client can open: its URL or path, and the process whose CPU time counts, if any."""

    name: str
    url: str
    process_id: int | None
    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)

    def cpu_seconds(self) -> float:
        """User and system time of the process so far, all threads (proc(5): utime, stime)."""
        if self.process_id is None:
            return 0.0
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def measure(contender: Contender, workload: Workload, scale: float) -> None:
    """One run of the client; adds I/Os a second and CPU microseconds an I/O."""
    count = max(1, int(workload.count * scale))
    before = contender.cpu_seconds()
    output = run(
        *("qemu-img", "bench", "-f", "raw", "-t", "writeback", "-c", str(count), "-d", str(workload.depth)),
        *(
            "-s",
            str(workload.block_bytes),
            "-S",
            str(workload.step_bytes),
            *(["-w"] if workload.write else []),
            contender.url,
        ),
        timeout=600,
    )
    seconds = re.search(r"Run completed in ([\d.]+) seconds", output)
    assert seconds, output
    contender.rates.setdefault(workload.name, []).append(count / float(seconds[1]))
    contender.cpu_us.setdefault(workload.name, []).append((contender.cpu_seconds() - before) / count * 1e6)


@contextmanager
def serving_ours(directory: Path, file: Path) -> Iterator[Contender]:
    """The target under test."""
    target = Target(directory)
    target.start()
    try:
        target.create()
        target.add_lun(0, file, write_cache=True)
        yield Contender("zvaai", target.url(0), target.process_id)
    finally:
        target.stop()


@contextmanager
def serving_tgt(directory: Path, file: Path) -> Iterator[Contender]:
    """tgt, with the settings that make it fast."""
    portal = "127.0.0.1:3261"
    control = {"TGT_IPC_SOCKET": str(directory / "tgt.sock")}
    process = subprocess.Popen(
        ["tgtd", "--foreground", "--iscsi", f"portal={portal}", "--nr_iothreads", "8"],
        env={**os.environ, **control},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def administer(*words: str) -> None:
        run("tgtadm", "--lld", "iscsi", *words, env={**os.environ, **control})

    def listens() -> bool:
        return "127.0.0.1:3261" in run("ss", "-ltn")

    try:
        wait_for(listens, "tgtd listens")
        administer("--op", "new", "--mode", "target", "--tid", "1", "-T", TGT_IQN)
        for name, value in (("MaxRecvDataSegmentLength", 262144), ("MaxXmitDataSegmentLength", 262144),
                            ("MaxBurstLength", 1048576), ("FirstBurstLength", 262144)):  # fmt: skip
            administer("--op", "update", "--mode", "target", "--tid", "1", "--name", name, "--value", str(value))
        administer("--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", str(file))
        administer("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")
        yield Contender("tgt", f"iscsi://{portal}/{TGT_IQN}/1", process.pid)
    finally:
        process.kill()
        process.wait()


def spread(values: Sequence[float]) -> str:
    """median [minimum - maximum]"""
    return f"{statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}]"


def report(ours: Contender, peer: Contender, bound: Contender) -> None:
    """The tables, one line a workload."""
    print(f"\n{'':26}{'zvaai I/O/s':>28}{'tgt I/O/s':>28}{'ratio':>8}{'bound I/O/s':>28}{'of bound':>10}")
    for workload in WORKLOADS:
        mine, theirs, best = (statistics.median(c.rates[workload.name]) for c in (ours, peer, bound))
        cells = [spread(c.rates[workload.name]) for c in (ours, peer, bound)]
        print(f"{workload.name:26}{cells[0]:>28}{cells[1]:>28}{mine / theirs:8.2f}{cells[2]:>28}{mine / best:10.0%}")
    print(f"\n{'':26}{'zvaai CPU us per I/O':>28}{'tgt CPU us per I/O':>28}{'ratio':>8}")
    for workload in WORKLOADS:
        mine, theirs = (statistics.median(c.cpu_us[workload.name]) for c in (ours, peer))
        cells = [spread(c.cpu_us[workload.name]) for c in (ours, peer)]
        print(f"{workload.name:26}{cells[0]:>28}{cells[1]:>28}{mine / theirs:8.2f}")


def main(words: Sequence[str]) -> int:
    """Runs the rounds and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of every workload on every contender (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="how much longer or shorter each run is (default 1)")
    parser.add_argument("--json", type=Path, help="also write every single value to this file")
    options = parser.parse_args(words)
    values = {}
    # /tmp of the environment is a tmpfs of its own.
    for place, parent in (("tmpfs", None), ("the file system of the checkout", CACHE)):
        with tempfile.TemporaryDirectory(dir=parent) as name:
            contenders = compare(Path(name), place, options.rounds, options.scale)
        values[place] = {c.name: {"io_per_second": c.rates, "cpu_us_per_io": c.cpu_us} for c in contenders}
    if options.json:
        options.json.write_text(json.dumps(values, indent=1))
    return 0


def compare(directory: Path, place: str, rounds: int, scale: float) -> list[Contender]:
    """All rounds on one file in `directory`; prints the tables."""
    file = directory / "volume"
    with file.open("wb") as volume:
        for _ in range(FILE_BYTES >> 20):
            volume.write(os.urandom(1 << 20))
    bound = Contender("bound", str(file), None)
    with serving_ours(directory, file) as ours, serving_tgt(directory, file) as peer:
        contenders = [ours, peer, bound]
        started = time.monotonic()
        for number in range(rounds):
            print(f"bench: {place}, round {number + 1} of {rounds} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
            for workload in WORKLOADS:
                # The order turns from round to round.
                for offset in range(len(contenders)):
                    measure(contenders[(number + offset) % len(contenders)], workload, scale)
        print(f"\nFile on {place}, {rounds} rounds: median [minimum-maximum]")
        report(ours, peer, bound)
    return contenders


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
