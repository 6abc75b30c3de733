# SPDX-License-Identifier: Apache-2.0
"""The target compared with tgt and with a bound, natively, on one file, in one run.

Each repetition runs each workload on every contender, so that other load of the machine affects all. Printed: median with minimum
and maximum, the ratio ours / tgt of the medians, the contender's CPU time per I/O, how busy the client's core was with ours, and
memory of the targets.

The client is `load.c` on libiscsi: any number of sessions in one thread. The bound is fio on the file itself, without iSCSI.
tgt is tuned: 256 KiB segments, 1 MiB bursts. Durability is equal: every completed write is stable, so tgt has O_SYNC. The file
lies on tmpfs, where nothing waits for a disk, and for writes also on the file system of the checkout, and on XFS on a loop device
there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import peers
from support.programs import CACHE, run
from support.target import Target

FILE_BYTES = 1 << 30
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
LOAD = CACHE / "load"


@dataclass(frozen=True)
class Workload:
    """Load of the client: bytes per I/O, sessions, I/Os in flight per session; alone, or during bulk writes of another client."""

    name: str
    block_bytes: int
    sessions: int
    depth: int
    write: bool
    random: bool = True
    during_bulk: bool = False


WORKLOADS = [
    Workload("4K random read, QD1", 4096, 1, 1, False),
    Workload("4K random write, QD1", 4096, 1, 1, True),
    Workload("4K random read, QD32", 4096, 1, 32, False),
    Workload("4K random write, QD32", 4096, 1, 32, True),
    Workload("128K random read, QD8", 128 << 10, 1, 8, False),
    Workload("128K random write, QD8", 128 << 10, 1, 8, True),
    Workload("1M sequential read, QD8", 1 << 20, 1, 8, False, random=False),
    Workload("1M sequential write, QD8", 1 << 20, 1, 8, True, random=False),
    Workload("4K read, 4 sessions, QD8", 4096, 4, 8, False),
    Workload("4K write, 4 sessions, QD8", 4096, 4, 8, True),
    Workload("4K read, 32 sessions, QD4", 4096, 32, 4, False),
    Workload("4K write, 32 sessions, QD4", 4096, 32, 4, True),
    Workload("1M write, 32 sessions, QD4", 1 << 20, 32, 4, True, random=False),
    Workload("4K read, QD1, with 1M", 4096, 1, 1, False, during_bulk=True),
]
WRITES = [workload for workload in WORKLOADS if workload.write and workload.sessions == 1]
BULK = Workload("bulk", 1 << 20, 1, 16, True, random=False)


@dataclass
class Result:
    """A run: I/Os per second, the contender's CPU time per I/O and the 99th percentile in microseconds, the client's load."""

    rate: float
    cpu_us: float = 0
    p99_us: float = 0
    client_busy: float = 0


@dataclass
class Contender:
    """A server under load: URL of a LUN or a file, and the process for CPU time and memory, if any."""

    name: str
    url: str
    process_id: int | None
    results: dict[str, list[Result]] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)

    def cpu_seconds(self) -> float:
        """User and system time of all threads of the process (proc(5): utime, stime)."""
        if self.process_id is None:
            return 0.0
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def begin_peak(self) -> None:
        """Resets the peak of resident memory (proc(5): clear_refs)."""
        if self.process_id is not None:
            Path(f"/proc/{self.process_id}/clear_refs").write_text("5")

    def end_peak(self, workload: str) -> None:
        """Records the peak of resident memory after `begin_peak` (proc(5): VmHWM)."""
        if self.process_id is not None:
            lines = Path(f"/proc/{self.process_id}/status").read_text().splitlines()
            peak = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
            self.peak_bytes[workload] = max(peak, self.peak_bytes.get(workload, 0))


def load_command(url: str, workload: Workload, seconds: float) -> list[str]:
    """Command line of the client."""
    numbers = [str(number) for number in (workload.sessions, workload.depth, workload.block_bytes)]
    kinds = ["write" if workload.write else "read", "random" if workload.random else "sequential"]
    return [str(LOAD), url, *numbers, *kinds, str(seconds)]


def measure_target(contender: Contender, workload: Workload, seconds: float) -> Result:
    """A run of the client on an iSCSI target."""
    bulk = None
    if workload.during_bulk:
        bulk = subprocess.Popen(load_command(contender.url, BULK, seconds + 2), stdout=subprocess.DEVNULL)
        time.sleep(1)
    contender.begin_peak()
    before = contender.cpu_seconds()
    answer = json.loads(run(*load_command(contender.url, workload, seconds), timeout=seconds * 10 + 60))
    cpu = contender.cpu_seconds() - before
    contender.end_peak(workload.name)
    if bulk is not None:
        bulk.wait()
    ios = answer["ios"]
    busy = answer["client_cpu_seconds"] / answer["seconds"]
    return Result(ios / answer["seconds"], cpu / ios * 1e6, answer["p99_us"], busy)


def measure_bound(path: str, workload: Workload, seconds: float) -> Result:
    """The same workload on the file itself, by fio with io_uring."""
    kind = ("rand" if workload.random else "") + ("write" if workload.write else "read")
    words = ["fio", "--name=bound", f"--filename={path}", f"--rw={kind}", f"--bs={workload.block_bytes}", "--ioengine=io_uring"]
    words += [
        f"--iodepth={workload.depth * workload.sessions}",
        "--time_based",
        f"--runtime={seconds}",
        f"--size={FILE_BYTES}",
        "--sync=dsync",
    ]
    answer = json.loads(run(*words, "--output-format=json", timeout=seconds * 10 + 60))
    return Result(float(answer["jobs"][0]["write" if workload.write else "read"]["iops"]))


@contextmanager
def serving_ours(directory: Path, file: Path) -> Iterator[Contender]:
    target = Target(directory)
    target.start()
    try:
        target.create()
        target.add_lun(0, file)
        yield Contender("zvaai", target.url(0), target.process_id)
    finally:
        target.stop()


@contextmanager
def serving_tgt(directory: Path, file: Path) -> Iterator[Contender]:
    with peers.tgt(directory, [file], stable=True) as peer:
        yield Contender("tgt", peer.urls[0], peer.process_id)


def spread(values: Sequence[float]) -> str:
    """median [minimum-maximum]"""
    return f"{statistics.median(values):,.0f} [{min(values):,.0f}-{max(values):,.0f}]"


def report(workloads: Sequence[Workload], ours: Contender, peer: Contender, bound: Contender) -> None:
    """Prints the tables, a line per workload."""
    print(f"\n{'I/Os per second':28}{'zvaai':>28}{'tgt':>26}{'ratio':>7}{'bound':>28}{'of bound':>9}{'client busy':>12}")
    for workload in workloads:
        rates = [[result.rate for result in c.results[workload.name]] for c in (ours, peer, bound)]
        mine, theirs, best = (statistics.median(values) for values in rates)
        busy = statistics.median(result.client_busy for result in ours.results[workload.name])
        mine_text, theirs_text, best_text = (spread(values) for values in rates)
        print(
            f"{workload.name:28}{mine_text:>28}{theirs_text:>26}{mine / theirs:7.2f}",
            f"{best_text:>27}{mine / best:9.0%}{busy:12.0%}",
        )
    for title, value in (("CPU us per I/O", "cpu_us"), ("99th percentile, us", "p99_us")):
        print(f"\n{title:28}{'zvaai':>28}{'tgt':>26}{'ratio':>7}")
        for workload in workloads:
            values = [[getattr(result, value) for result in c.results[workload.name]] for c in (ours, peer)]
            mine, theirs = (statistics.median(column) for column in values)
            print(f"{workload.name:28}{spread(values[0]):>28}{spread(values[1]):>26}{mine / theirs:7.2f}")
    print("\nResident memory at most, MiB")
    for workload in workloads:
        if workload.sessions > 1:
            mine, theirs = (c.peak_bytes[workload.name] / (1 << 20) for c in (ours, peer))
            print(f"{workload.name:28}{mine:28.0f}{theirs:26.0f}")


def main(words: Sequence[str]) -> int:
    """Runs the workloads and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="runs of every workload on every contender (default 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run (default 3)")
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--places", default="", help="tables whose title has this in it: tmpfs, checkout, XFS")
    parser.add_argument("--json", type=Path, help="also write every single value to this file")
    options = parser.parse_args(words)
    run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(LOAD), str(Path(__file__).with_name("load.c")), "-liscsi")
    values = {}
    # /tmp of the environment is a separate tmpfs.
    for place, folder, workloads in (
        ("tmpfs", tempfile.TemporaryDirectory, WORKLOADS),
        ("the file system of the checkout", on_checkout, WRITES),
        ("XFS", on_xfs, WRITES),
    ):
        chosen = [workload for workload in workloads if options.only in workload.name]
        if options.places not in place:
            continue
        with folder() as name:
            contenders = compare(Path(name), place, chosen, options.repetitions, options.seconds)
        values[place] = {c.name: {key: [vars(r) for r in results] for key, results in c.results.items()} for c in contenders}
    if options.json:
        options.json.write_text(json.dumps(values, indent=1))
    return 0


def on_checkout() -> AbstractContextManager[str]:
    """A folder on the file system of the checkout."""
    return tempfile.TemporaryDirectory(dir=CACHE)


@contextmanager
def on_xfs() -> Iterator[str]:
    """An XFS file system on a loop device there."""
    with on_checkout() as name:
        image, mounted = Path(name, "image"), Path(name, "mounted")
        with image.open("wb") as file:
            file.truncate(2 * FILE_BYTES)
        run("mkfs.xfs", "-q", image)
        mounted.mkdir()
        run("mount", "-o", "loop", image, mounted)
        try:
            yield str(mounted)
        finally:
            run("umount", mounted)


def compare(directory: Path, place: str, workloads: Sequence[Workload], repetitions: int, seconds: float) -> list[Contender]:
    """All repetitions on a file in `directory`; prints the tables."""
    file = directory / "volume"
    with file.open("wb") as volume:
        for _ in range(FILE_BYTES >> 20):
            volume.write(os.urandom(1 << 20))
    bound = Contender("bound", str(file), None)
    with serving_ours(directory, file) as ours, serving_tgt(directory, file) as peer:
        contenders = [ours, peer, bound]
        started = time.monotonic()
        for number in range(repetitions):
            print(
                f"bench: {place}, repetition {number + 1} of {repetitions} ({time.monotonic() - started:.0f} s)", file=sys.stderr
            )
            for workload in workloads:
                # The order rotates.
                for offset in range(len(contenders)):
                    contender = contenders[(number + offset) % len(contenders)]
                    if contender is bound:
                        result = measure_bound(contender.url, workload, seconds)
                    else:
                        result = measure_target(contender, workload, seconds)
                    contender.results.setdefault(workload.name, []).append(result)
        print(f"\nFile on {place}, {repetitions} repetitions of {seconds:g} s: median [minimum-maximum]")
        report(workloads, ours, peer, bound)
    return contenders


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
