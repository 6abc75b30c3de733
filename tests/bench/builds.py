# SPDX-License-Identifier: Apache-2.0
"""Builds of the target side by side on one zvol, in one run: reads, stable writes, ATS, UNMAP. In the guest.

Contenders: this build with `volthreading=off` and each I/O engine; another build (--before) with `volthreading=on`;
LIO with `sync=always`, because only then its GOOD means stable; with --from-memory also LIO without that.
Each repetition runs each job by each contender; the order rotates. Printed: median [minimum-maximum].
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import support.target
from bench import peers
from bench.offload_jobs import LOAD, OFFLOAD, compile_clients
from support.programs import run
from support.target import PROGRAM, Target
from support.zfs import Pool

MIB = 1 << 20
SIZE_MIB = 1024
UNMAPPED = 128 * MIB


@dataclass
class Contender:
    """Server of the zvol, the zvol's properties, and values by job."""

    name: str
    properties: dict[str, str]
    serve: Callable[[], AbstractContextManager[str]]
    values: dict[str, list[float]] = field(default_factory=dict)


@contextmanager
def ours(device: Path, program: Path, engine: str) -> Iterator[str]:
    """URL of the LUN, served by a build of the target."""
    with tempfile.TemporaryDirectory() as name:
        support.target.PROGRAM = program
        target = Target(Path(name), options=["--engine", engine])
        target.start()
        try:
            target.create()
            target.add_lun(0, device)
            yield target.url(0)
        finally:
            target.stop()
            support.target.PROGRAM = PROGRAM


@contextmanager
def lio(device: Path) -> Iterator[str]:
    """URL of the LUN, served by LIO."""
    with peers.lio([device]) as peer:
        yield peer.urls[0]


def load(url: str, kind: str, sessions: int, depth: int, size: int, seconds: float) -> float:
    """Random reads or writes a second."""
    words = [url, str(sessions), str(depth), str(size), kind, "random", str(seconds)]
    answer = json.loads(run(LOAD, *words, timeout=seconds * 10 + 60))
    return float(answer["ios"] / answer["seconds"])


def ats(url: str, sessions: int, seconds: float) -> dict[str, float]:
    """COMPARE AND WRITE: the output of offload.c."""
    return dict(json.loads(run(OFFLOAD, "ats", "-", url, str(seconds), str(sessions), timeout=seconds * 10 + 60)))


def ats_during_bulk(url: str, seconds: float) -> dict[str, float]:
    """COMPARE AND WRITE by 8 sessions, while another client writes 1 MiB at depth 16."""
    words = [str(LOAD), url, "1", "16", str(MIB), "write", "sequential", str(seconds + 4)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as bulk:
        time.sleep(1)
        result = ats(url, 8, seconds)
        bulk.wait()
    return result


def unmap(url: str) -> float:
    """Seconds to unmap the LUN after it was filled, by commands of 1 MiB at depth 8."""
    run(OFFLOAD, "fill", "-", url, str(UNMAPPED), str(MIB), "8", timeout=300)
    return float(json.loads(run(OFFLOAD, "unmap", "-", url, str(UNMAPPED), str(MIB), "8", timeout=300))["seconds"])


JOBS = ["writes", "reads", "ats", "bulk", "unmap"]


def jobs(chosen: Sequence[str], url: str, seconds: float) -> Iterator[tuple[str, float]]:
    """Runs the chosen jobs on one LUN: names and values."""
    if "writes" in chosen:
        yield "4K stable writes/s, 1 session, depth 1", load(url, "write", 1, 1, 4096, seconds)
        yield "4K stable writes/s, 1 session, depth 32", load(url, "write", 1, 32, 4096, seconds)
        yield "4K stable writes/s, 4 sessions, depth 32", load(url, "write", 4, 32, 4096, seconds)
    if "reads" in chosen:
        yield "4K reads/s, depth 1", load(url, "read", 1, 1, 4096, seconds)
        yield "4K reads/s, depth 32", load(url, "read", 1, 32, 4096, seconds)
        yield "1 MiB reads/s, depth 8", load(url, "read", 1, 8, MIB, seconds)
    if "ats" in chosen:
        for sessions in (1, 8):
            result = ats(url, sessions, seconds)
            yield f"ATS/s, {sessions} sessions", result["commands"] / result["seconds"]
    if "bulk" in chosen:
        during_bulk = ats_during_bulk(url, seconds)
        for name in ("p50", "p99", "longest"):
            yield f"ATS during 1 MiB writes, {name}, ms", during_bulk[f"{name}_s"] * 1e3
    if "unmap" in chosen:
        yield "UNMAP of 128 MiB by 1 MiB, s", unmap(url)


def spread(values: Sequence[float]) -> str:
    """median [minimum-maximum]"""
    digits = 0 if min(values) >= 100 else 1 if min(values) >= 10 else 2
    return f"{statistics.median(values):,.{digits}f} [{min(values):,.{digits}f}-{max(values):,.{digits}f}]"


def main(words: Sequence[str]) -> int:
    """Runs the jobs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the program of another build")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run")
    parser.add_argument("--volblocksize", default="16K")
    parser.add_argument("--from-memory", action="store_true", help="LIO also with sync=standard, where it answers from memory")
    parser.add_argument("--volthreading", action="store_true", help="this build also with volthreading=on")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--engines", nargs="+", default=["auto"], help="of this build")
    options = parser.parse_args(words)
    compile_clients()
    pool = Pool("bench", os.environ["ZVAAI_DISKS"].split()[0])
    device = pool.create_volume("lun", SIZE_MIB, volblocksize=options.volblocksize)
    contenders = [
        Contender(f"zvaai, {engine}", {"volthreading": "off", "sync": "standard"}, partial(ours, device, PROGRAM, engine))
        for engine in options.engines
    ]
    if options.volthreading:
        contenders.append(
            Contender("zvaai, volthreading", {"volthreading": "on", "sync": "standard"}, partial(ours, device, PROGRAM, "auto"))
        )
    if options.before:
        before = Contender("before", {"volthreading": "on", "sync": "standard"}, partial(ours, device, options.before, "auto"))
        contenders.append(before)
    contenders.append(Contender("LIO, sync=always", {"volthreading": "on", "sync": "always"}, partial(lio, device)))
    if options.from_memory:
        contenders.append(Contender("LIO, from memory", {"volthreading": "on", "sync": "standard"}, partial(lio, device)))
    started = time.monotonic()
    for number in range(options.repetitions):
        for offset in range(len(contenders)):
            contender = contenders[(number + offset) % len(contenders)]
            for name, value in contender.properties.items():
                run("zfs", "set", f"{name}={value}", f"{pool.name}/lun")
            with contender.serve() as url:
                for job, figure in jobs(options.jobs, url, options.seconds):
                    contender.values.setdefault(job, []).append(figure)
                    at = time.monotonic() - started
                    print(
                        f"bench: round {number + 1}, {contender.name}, {job}: {figure:.2f} ({at:.0f} s)",
                        file=sys.stderr,
                        flush=True,
                    )
    print(f"\nzvol of {options.volblocksize}, {options.repetitions} times {options.seconds:g} s: median [minimum-maximum]\n")
    print(f"{'':44}" + "".join(f"{contender.name:>26}" for contender in contenders))
    for job in contenders[0].values:
        print(f"{job:44}" + "".join(f"{spread(contender.values[job]):>26}" for contender in contenders))
    pool.destroy_volume("lun")
    pool.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
