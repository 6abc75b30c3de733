# SPDX-License-Identifier: Apache-2.0
"""Offloads side by side, in one run: the target beside a peer, and beside the host that does the work itself.

In the guest on zvols of two block sizes, beside LIO and beside the bound: the kernel's own way without a target (the zvol_clone
ioctl, blkdiscard), with nothing stable before the end.
Natively on files of an XFS file system beside tgt; the bound is FICLONERANGE and punching holes.

Every round does each job by each contender in turn. A job's time has what makes it stable on disk: the pool is synced, or the
file system. Ours acknowledges nothing that is not stable, LIO on a zvol acknowledges from memory: that is to LIO's favour.
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
from bench.offload_jobs import BOUND, COPY_COMMAND, HOST, LOAD, OFFLOAD, OURS, PEER, THIN_COMMAND, Bench, Job, run_jobs
from bench.stores import GIB, MIB, Store, on_files, on_zvols
from support.programs import IN_GUEST, run

RUNS = (13 * MIB, 50 * MIB)
"""13 of every 50 MiB are 10.4 of 40 GiB."""
FLOORS = {("clone", HOST): 30, ("clone", PEER): 10, ("zero", HOST): 20, ("unmap", HOST): 20, ("beside writes", HOST): 1}
"""How many times faster ours has to be, by the first words of the job; what is slower is told, and fails nothing."""


def spread(values: Sequence[float], unit: str = "") -> str:
    """median [minimum-maximum]"""
    digits = 1 if min(values) >= 10 else 2
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}-{max(values):.{digits}f}]{unit}"


def report(jobs: Sequence[Job], peer: str) -> None:
    """Seconds, and how many times faster than peer and host round by round, and how much of the bound."""
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
            if words in job.name and ("beside" in words) == ("beside" in job.name) and name in job.seconds:
                ratio = statistics.median(job.seconds[name]) / statistics.median(job.seconds[OURS])
                verdict = "met" if ratio >= floor else "NOT met"
                print(f"floor: {job.name}, at least {floor} times {names[name]}: {ratio:.1f}, {verdict}")


def ratios(job: Job, name: str) -> str:
    """How many times longer a contender took, in rounds that both had."""
    theirs = job.seconds.get(name)
    return spread([one / other for one, other in zip(theirs, job.seconds[OURS], strict=False)]) if theirs else "-"


def of_bound(job: Job) -> str:
    """How much of the bound's speed ours has."""
    if BOUND not in job.seconds:
        return "-"
    return f"{statistics.median(job.seconds[BOUND]) / statistics.median(job.seconds[OURS]):.0%}"


def all_jobs(bench: Bench, store: Store, large: int, deploy: int, options: argparse.Namespace) -> list[Job]:
    """Runs the jobs that were asked for: copies of a full source, of a template, and clearing."""
    full = [bench.copies("clone of 1 GiB", GIB, COPY_COMMAND), bench.concurrent_writes(GIB // 2)]
    if large:
        few = {HOST: 1, PEER: 1}
        full.append(bench.copies(f"clone of {large // GIB} GiB", large, COPY_COMMAND, rounds=few))
    template = [bench.copies(f"clone: deploy, 1/{options.scale} of 40 GiB", deploy, THIN_COMMAND, RUNS)]
    clearing = [bench.clearing(kind, GIB // 2, largest) for kind in ("same", "unmap") for largest in (False, True)]
    done = []
    for jobs, fill in ((full, (max(GIB, large),)), (template, (deploy, *RUNS)), (clearing, None)):
        chosen = [job for job in jobs if options.only in job.name]
        if chosen and fill:
            store.fill(store.source, *fill)
        run_jobs(chosen, options.rounds)
        done += chosen
    return done


def ats(bench: Bench, peer: str, rounds: int, seconds: float) -> dict[int, dict[str, list[float]]]:
    """Prints and returns commands a second, by sessions and contender."""
    rates: dict[int, dict[str, list[float]]] = {1: {}, 8: {}}
    for _ in range(rounds):
        for sessions, found in rates.items():
            for name, rate in bench.ats(sessions, seconds).items():
                found.setdefault(name, []).append(rate)
    print(f"\n{'COMPARE AND WRITE a second':38}{'zvaai':>24}{peer:>24}{'fio, stable writes':>24}")
    for sessions, found in rates.items():
        print(f"{f'{sessions} sessions':38}" + "".join(f"{spread(found[name]):>24}" for name in (OURS, PEER, BOUND)))
    return rates


def main(words: Sequence[str]) -> int:
    """Runs the jobs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of every job (default 3)")
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
    for program in (OFFLOAD, LOAD):
        source = Path(__file__).with_name(f"{program.name}.c")
        run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-liscsi")
    large = options.large * GIB if IN_GUEST else 0
    deploy = 40 * GIB // options.scale // RUNS[1] * RUNS[1]
    length = max(GIB, deploy, large)
    found = {}
    if IN_GUEST:
        for size in options.volblocksize:
            with on_zvols(length, size) as store:
                found[size] = tables(f"zvols of {size} in the guest", store, large, deploy, options)
    else:
        with on_files(length) as store:
            found["files"] = tables("files on XFS", store, large, deploy, options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def tables(where: str, store: Store, large: int, deploy: int, options: argparse.Namespace) -> dict[str, object]:
    """All jobs on one store: prints the tables; every single value."""
    peer = "LIO" if IN_GUEST else "tgt"
    paths = [store.source, store.destination]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if IN_GUEST:
            bench = Bench(store, lambda: peers.lio(paths), folder, peer_copies=True)
        else:
            bench = Bench(store, lambda: peers.tgt(folder, paths, stable=False), folder, peer_copies=False)
        done = all_jobs(bench, store, large, deploy, options)
        print(f"\nOn {where}, {options.rounds} rounds, what makes it stable included: median [minimum-maximum]")
        if not IN_GUEST:
            print("tgt has no EXTENDED COPY: its copies are the host's own work by it. It acknowledges from the page cache.")
        report(done, peer)
        rates = ats(bench, peer, options.rounds, options.seconds) if options.only in "ats" else {}
    return {"seconds": {job.name: job.seconds for job in done}, "ats": rates}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
