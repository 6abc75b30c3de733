# SPDX-License-Identifier: Apache-2.0
"""NFS offloads and the cost of FSAL_ZVAAI, in one run of one daemon: in the guest on datasets, natively on XFS (the cost only).

- A clone of a large file with holes, by `vaai-nas`, compared with a client of FSAL_VFS that copies: the kernel's, over NFSv4.2,
  which finds holes by SEEK. Times include the sync. bcloneused proves sharing each time, and zdb's addresses of all blocks once
  per method.
- Many fast clones of a template, then written by four clients; every byte is compared.
- Reads and writes alternate: CPU time of the daemon and elapsed time, for files of FSAL_VFS, of FSAL_ZVAAI, and of a thick
  datastore of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.nfs_jobs import CLIENT_COPIES, SERVER_COPIES, BenchFailed, Costs, LargeClones, ManyClones, noise
from bench.stores import GIB, MIB, timed
from bench.vaai import spread
from support.ganesha import Daemon, Export, Ganesha, mounted_dataset, mounted_xfs, running_ganesha
from support.programs import IN_GUEST, run

LARGE_RUN, LARGE_STRIDE = 8 * MIB, 50 * MIB
"""Data and hole of the large file: 1.6 of 10 GiB are data."""
FLOOR_GIB_A_SECOND = 3
FLOOR_SECONDS = 60
OPERATIONS = (("write", 4096), ("read", 4096), ("write", 65536), ("read", 65536))
REACHED = 0.98
"""Share of FSAL_VFS's speed."""
VFS, ZVAAI, THICK = "VFS", "ZVAAI", "ZVAAI, thick"


def verdict(met: bool) -> str:
    """As in the other tables."""
    return "met" if met else "NOT met"


def large_clones(jobs: LargeClones, gib: int, repetitions: int, client_repetitions: int) -> dict[str, list[float]]:
    """Prints and returns the seconds of each method."""
    data = noise(jobs.store / "source", gib * GIB, LARGE_RUN, LARGE_STRIDE)
    noise(jobs.vfs_store / "source", gib * GIB, LARGE_RUN, LARGE_STRIDE)
    run("zpool", "sync", jobs.pool)
    seconds_by_copy: dict[str, list[float]] = {name: [] for name in (*SERVER_COPIES, CLIENT_COPIES)}
    blocks: dict[str, int] = {}
    for number in range(max(repetitions, client_repetitions)):
        for name in SERVER_COPIES if number < repetitions else ():
            seconds_by_copy[name].append(jobs.server(name))
            if not number:
                blocks[name] = jobs.prove()
            jobs.remove()
        if number < client_repetitions:
            seconds_by_copy[CLIENT_COPIES].append(jobs.client())
            jobs.remove()
    print(f"\nClone of {gib} GiB with {data / GIB:.1f} GiB of data, 128K records, on disk before and after: median [min-max]")
    print(f"{'':28}{'seconds':>24}{'GiB/s of its size':>24}{'times faster':>14}  {'blocks at the same place':>26}")
    by_client = statistics.median(seconds_by_copy[CLIENT_COPIES]) if seconds_by_copy[CLIENT_COPIES] else None
    for name, seconds in seconds_by_copy.items():
        if seconds:
            speeds = spread([gib / second for second in seconds])
            times = f"{by_client / statistics.median(seconds):.0f}" if by_client else "-"
            print(f"{name:28}{spread(seconds):>24}{speeds:>24}{times:>14}  {blocks.get(name, '-'):>26}")
    for name in SERVER_COPIES:
        speed = gib / statistics.median(seconds_by_copy[name]) if seconds_by_copy[name] else 0
        print(f"floor: {name}, at least {FLOOR_GIB_A_SECOND} GiB/s: {speed:.1f}, {verdict(speed >= FLOOR_GIB_A_SECOND)}")
    jobs.remove("source")
    return seconds_by_copy


def many_clones(jobs: ManyClones) -> dict[str, list[float]]:
    """Prints and returns the seconds of each clone, by method."""
    jobs.make_template()
    times = {"a command each": jobs.clone_by_commands(), "one session": jobs.clone_in_a_session()}
    count = len(jobs.names)
    written = jobs.write()
    compared: list[int] = []
    comparing = timed(lambda: compared.append(jobs.compare()))
    print(f"\n{count} fast clones of a template by `vaai-nas`")
    for how, seconds in times.items():
        met = verdict(sum(seconds) <= FLOOR_SECONDS)
        print(f"{how}: {sum(seconds):.1f} s, each {spread(seconds)}; floor: within {FLOOR_SECONDS} s, {met}")
    print(
        f"then {written / MIB:.1f} MiB written into them by {jobs.CLIENTS} clients; "
        f"all {compared[0] / GIB:.0f} GiB are right (compared in {comparing:.0f} s)"
    )
    return times


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and the ends of its 95 % interval by order statistics, without an assumed distribution."""
    ordered, count = sorted(values), len(values)
    below = 0.0
    for rank in range(count // 2):
        below += math.comb(count, rank) / 2**count
        if below > 0.025:
            break
    else:
        rank = count // 2
    return statistics.median(ordered), ordered[max(rank - 1, 0)], ordered[count - max(rank, 1)]


def costs(jobs: Costs, repetitions: int) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Prints and returns CPU time and elapsed time of each operation and contender."""
    measurements = {}
    others = [name for name in jobs.paths if name != VFS]
    print(f"\nSpeed of FSAL_ZVAAI as a share of FSAL_VFS's, {repetitions} repetitions of {jobs.operations} operations in turn:")
    print(f"by wall time and by the daemon's CPU time, median of the pairs [95 % interval]; the interval must reach {REACHED}")
    print(f"{'':16}{'VFS: CPU us, wall us':>24}" + "".join(f"{name + ': wall':>30}{'CPU':>26}" for name in others))
    for what, size in OPERATIONS:
        measured = jobs.measure(what, size, repetitions)
        base = measured[VFS]
        microseconds = [
            statistics.median(values) * 1e6 for values in ([sample.cpu for sample in base], [sample.wall for sample in base])
        ]
        row = f"{f'{what} {size >> 10}K':16}{f'{microseconds[0]:.1f}, {microseconds[1]:.1f}':>24}"
        for name in others:
            pairs = list(zip(measured[name], base, strict=True))
            wall = interval([other.wall / cost.wall for cost, other in pairs])
            cpu = interval([other.cpu / cost.cpu for cost, other in pairs])
            cell = "{:.3f} [{:.3f}-{:.3f}]"
            row += f"{cell.format(*wall) + ' ' + verdict(wall[2] >= REACHED):>30}{cell.format(*cpu):>26}"
        print(row, flush=True)
        measurements[f"{what} {size}"] = {name: [(cost.cpu, cost.wall) for cost in values] for name, values in measured.items()}
    return measurements


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[Ganesha, str, Path, Path]]:
    """A daemon with /zvaai, /vfs and /thick; the pool's name, and the folders of the first two."""
    with contextlib.ExitStack() as stack:
        name = "bench"
        if IN_GUEST:
            from support.zfs import Pool  # noqa: PLC0415  # of the guest

            disk = run("sh", "-c", "echo $ZVAAI_DISKS").split()[0]
            pool = Pool(name, disk)
            stack.callback(pool.destroy)
            stores = [
                stack.enter_context(mounted_dataset(f"{name}/{part}", compression="off", recordsize="128K"))
                for part in ("zvaai", "vfs", "thick")
            ]
        else:
            stores = [stack.enter_context(mounted_xfs(folder / part)) for part in ("zvaai", "vfs", "thick")]
        exports = [Export(1, stores[0], "/zvaai"), Export(2, stores[1], "/vfs", fsal="VFS")]
        exports.append(Export(3, stores[2], "/thick", thick_size=GIB))
        ganesha = stack.enter_context(running_ganesha(folder / "ganesha", exports, Daemon.PATCHED))
        yield ganesha, name, stores[0], stores[1]


def main(words: Sequence[str]) -> int:
    """Runs the jobs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("large", "many", "cost"), default=["large", "many", "cost"])
    parser.add_argument("--large", type=int, default=10, metavar="GIB", help="size of the large file (default 10)")
    parser.add_argument("--repetitions", type=int, default=5, help="repetitions of the large clone (default 5)")
    parser.add_argument("--client-repetitions", type=int, default=3, help="... and by the client (default 3)")
    parser.add_argument("--clones", type=int, default=200, help="clones of the template (default 200)")
    parser.add_argument("--template", type=int, default=1024, metavar="MIB", help="size of the template (default 1024)")
    parser.add_argument("--cost-repetitions", type=int, default=21, help="repetitions of reads and writes (default 21)")
    parser.add_argument(
        "--operations", type=int, default=1000, help="of each round; the guest counts CPU time in 10 ms (default 1000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of what is written (default 1)")
    parser.add_argument("--json", type=Path, help="also write every single value to this file")
    options = parser.parse_args(words)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as (ganesha, pool, store, vfs_store):
        try:
            if "large" in options.only and IN_GUEST:
                large = LargeClones(pool, store, vfs_store, Path(name))
                results["large"] = large_clones(large, options.large, options.repetitions, options.client_repetitions)
            if "many" in options.only and IN_GUEST:
                many = ManyClones(pool, store, options.clones, options.template * MIB, options.seed)
                results["many"] = many_clones(many)
            if "cost" in options.only:
                jobs = Costs(ganesha.pid, {VFS: "/vfs", ZVAAI: "/zvaai", THICK: "/thick"}, options.operations)
                jobs.prepare()
                results["cost"] = costs(jobs, options.cost_repetitions)
        except BenchFailed as failure:
            print(f"bench: {failure}", file=sys.stderr)
            return 1
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
