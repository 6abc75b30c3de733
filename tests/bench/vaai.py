# SPDX-License-Identifier: Apache-2.0
"""Offloads compared in one run: the target, a peer, and the host that does the work itself.

In the guest on zvols of two block sizes, with LIO and a bound: the kernel's way without a target (the zvol_clone ioctl,
blkdiscard), with no sync before the end.
Natively on files of an XFS file system, with tgt; the bound is FICLONERANGE and punching holes.

Each repetition runs each job by each contender. A job's time includes the sync of the pool or file system. Ours acknowledges
only stable data; LIO on a zvol acknowledges from memory, which favours LIO.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import peers
from bench.offload_jobs import BOUND, COPY_COMMAND, HOST, OURS, PEER, THIN_COMMAND, Bench, Job, compile_clients, run_jobs
from bench.stores import GIB, MIB, Store, on_files, on_zvols
from support.programs import IN_GUEST

RUNS = (13 * MIB, 50 * MIB)
"""13 of every 50 MiB are 10.4 of 40 GiB."""
FLOORS = {("clone", HOST): 30, ("clone", PEER): 10, ("zero", HOST): 20, ("unmap", HOST): 20, ("during writes", HOST): 1}
"""Required speed in multiples of the other contender, by the first words of the job; slower results are marked, not failed."""


def spread(values: Sequence[float], unit: str = "") -> str:
    """median [minimum-maximum]"""
    digits = 1 if min(values) >= 10 else 2
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}-{max(values):.{digits}f}]{unit}"


def report(jobs: Sequence[Job], peer: str) -> None:
    """Prints seconds, the ratio to peer and host per repetition, and the share of the bound."""
    names = {OURS: "zvaai", PEER: peer, HOST: "host's own work", BOUND: "bound"}
    print(f"\n{'seconds':38}" + "".join(f"{names[name]:>24}" for name in (OURS, PEER, HOST, BOUND)))
    for job in jobs:
        cells = [spread(job.seconds[name]) if name in job.seconds else "-" for name in (OURS, PEER, HOST, BOUND)]
        print(f"{job.name:38}" + "".join(f"{cell:>24}" for cell in cells))
    print(f"\n{'times faster':38}{'than the host':>24}{'than ' + peer:>24}{'of the bound':>24}")
    for job in jobs:
        print(f"{job.name:38}" + "".join(f"{ratios(job, name):>24}" for name in (HOST, PEER)) + f"{of_bound(job):>24}")
    print()
    for job in jobs:
        for (words, name), floor in FLOORS.items():
            if words in job.name and ("during" in words) == ("during" in job.name) and name in job.seconds:
                ratio = statistics.median(job.seconds[name]) / statistics.median(job.seconds[OURS])
                verdict = "met" if ratio >= floor else "NOT met"
                print(f"floor: {job.name}, at least {floor} times {names[name]}: {ratio:.1f}, {verdict}")


def ratios(job: Job, name: str) -> str:
    """How many times longer a contender took, in repetitions that both had."""
    theirs = job.seconds.get(name)
    return spread([duration / other for duration, other in zip(theirs, job.seconds[OURS], strict=False)]) if theirs else "-"


def of_bound(job: Job) -> str:
    """Share of the bound's speed."""
    if BOUND not in job.seconds:
        return "-"
    return f"{statistics.median(job.seconds[BOUND]) / statistics.median(job.seconds[OURS]):.0%}"


def all_jobs(bench: Bench, store: Store, large: int, deploy: int, options: argparse.Namespace) -> list[Job]:
    """Runs the requested jobs: copies of a full source, of a template, and clearing."""
    full = [bench.copies("clone of 1 GiB", GIB, COPY_COMMAND), bench.concurrent_writes(GIB // 2)]
    if large:
        few = {HOST: 1, PEER: 1}
        full.append(bench.copies(f"clone of {large // GIB} GiB", large, COPY_COMMAND, repetitions=few))
    template = [bench.copies(f"clone: deploy, 1/{options.scale} of 40 GiB", deploy, THIN_COMMAND, RUNS)]
    clearing = [bench.clearing(kind, GIB // 2, largest) for kind in ("same", "unmap") for largest in (False, True)]
    done = []
    for jobs, fill in ((full, (max(GIB, large),)), (template, (deploy, *RUNS)), (clearing, None)):
        chosen = [job for job in jobs if options.only in job.name]
        if chosen and fill:
            store.fill(store.source, *fill)
        run_jobs(chosen, options.repetitions)
        done += chosen
    return done


def ats(bench: Bench, peer: str, repetitions: int, seconds: float) -> dict[int, dict[str, list[float]]]:
    """Prints and returns commands per second, by sessions and contender."""
    rates: dict[int, dict[str, list[float]]] = {1: {}, 8: {}}
    for _ in range(repetitions):
        for sessions, rates_of_sessions in rates.items():
            for name, rate in bench.ats(sessions, seconds).items():
                rates_of_sessions.setdefault(name, []).append(rate)
    print(f"\n{'COMPARE AND WRITE a second':38}{'zvaai':>24}{peer:>24}{'fio, stable writes':>24}")
    for sessions, rates_of_sessions in rates.items():
        print(f"{f'{sessions} sessions':38}" + "".join(f"{spread(rates_of_sessions[name]):>24}" for name in (OURS, PEER, BOUND)))
    return rates


def main(words: Sequence[str]) -> int:
    """Runs the jobs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3, help="repetitions of every job (default 3)")
    parser.add_argument(
        "--large", type=int, default=10, metavar="GIB", help="the large clone; 0: none (default 10; host and peer once)"
    )
    parser.add_argument("--scale", type=int, default=8, help="the deploy of 40 GiB is made smaller by this (default 8)")
    parser.add_argument("--seconds", type=float, default=3, help="length of a run of ATS (default 3)")
    parser.add_argument(
        "--volblocksize", nargs="+", default=["16K", "64K"], metavar="SIZE", help="of the zvols, in turn (default 16K 64K)"
    )
    parser.add_argument("--only", default="", help="jobs whose name has this in it")
    parser.add_argument("--json", type=Path, help="also write every single value to this file")
    options = parser.parse_args(words)
    compile_clients()
    large = options.large * GIB if IN_GUEST else 0
    deploy = 40 * GIB // options.scale // RUNS[1] * RUNS[1]
    length = max(GIB, deploy, large)
    results = {}
    if IN_GUEST:
        for size in options.volblocksize:
            with on_zvols(length, size) as store:
                results[size] = tables(f"zvols of {size} in the guest", store, large, deploy, options)
    else:
        with on_files(length) as store:
            results["files"] = tables("files on XFS", store, large, deploy, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


def tables(where: str, store: Store, large: int, deploy: int, options: argparse.Namespace) -> dict[str, object]:
    """All jobs on a store: prints the tables, returns every value."""
    peer = "LIO" if IN_GUEST else "tgt"
    paths = [store.source, store.destination]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if IN_GUEST:
            bench = Bench(store, lambda: peers.lio(paths), folder, peer_copies=True)
        else:
            bench = Bench(store, lambda: peers.tgt(folder, paths, stable=False), folder, peer_copies=False)
        done = all_jobs(bench, store, large, deploy, options)
        print(f"\nOn {where}, {options.repetitions} repetitions, what makes it stable included: median [minimum-maximum]")
        if not IN_GUEST:
            print("tgt has no EXTENDED COPY: its copies are the host's own work by it. It acknowledges from the page cache.")
        report(done, peer)
        rates = ats(bench, peer, options.repetitions, options.seconds) if options.only in "ats" else {}
    return {"seconds": {job.name: job.seconds for job in done}, "ats": rates}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
