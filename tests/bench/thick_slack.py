# SPDX-License-Identifier: Apache-2.0
"""How much larger than its size a thick NFS dataset must be: all of it is written and overwritten while its pool is full.

In the guest, on files as disks: `tests/bench/run thick-slack`. Each row is a pool. A write that ZFS refuses is counted, and
repeated after the next transaction group, as FSAL_ZVAAI does. `lost` must be 0.
"""

from __future__ import annotations

import argparse
import errno
import functools
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.programs import run

MIB = 1 << 20
POOL = "slack"
SHARES = (8, 4, 2, 2)
"""Sixteenths of the datastore that each file takes."""
TRIES = 5
RANDOM = os.urandom(4 * MIB)


@dataclass
class Result:
    """Refused writes of 1 MiB by pass, and those refused for good."""

    refused: list[int]
    lost: int = 0
    seconds: float = 0
    """Refusals of the last pass."""


def cost(size: int, recordsize: str) -> int:
    """Reservation of ZFS for a volume of this size and block size on this pool: data, indirect blocks, padding of raidz."""
    printed = run("zfs", "create", "-n", "-v", "-P", "-V", str(size), "-b", recordsize, f"{POOL}/none")
    match = re.search(r"^property\s+refreservation\s+(\d+)$", printed, re.MULTILINE)
    assert match, printed
    return int(match[1])


def number(name: str, dataset: str) -> int:
    """A property in bytes."""
    return int(run("zfs", "get", "-H", "-p", "-o", "value", name, dataset))


def patiently(act: Callable[[], int], result: Result) -> int:
    """Repeats an operation that ZFS refuses for lack of space after each transaction group; -1 if ZFS still refuses."""
    for _ in range(TRIES):
        try:
            return act()
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
        result.refused[-1] += 1
        run("zpool", "sync", POOL)
    result.lost += 1
    return -1


def write(path: Path, size: int, result: Result) -> None:
    """Writes or overwrites a whole file, by stable writes of 1 MiB."""
    file = patiently(lambda: os.open(path, os.O_RDWR | os.O_CREAT | os.O_DSYNC), result)
    if file < 0:
        return
    done = 0
    while done < size:
        begin = os.urandom(1)[0] << 12
        data = RANDOM[begin : begin + min(MIB, size - done)]
        part = patiently(functools.partial(os.pwrite, file, data, done), result)
        done += part if part > 0 else len(data)
    os.close(file)


def fill(by_data: bool) -> None:
    """Fills the free space of the pool."""
    run("zfs", "create", "-o", "recordsize=1M", f"{POOL}/others")
    if not by_data:
        run("zfs", "set", f"refreservation={number('available', POOL) - MIB}", f"{POOL}/others")
        return
    refused = 0
    with Path(f"/{POOL}/others/data").open("wb", buffering=0) as file:
        while refused < 3:
            try:
                file.write(RANDOM)
            except OSError:
                refused += 1
                run("zpool", "sync", POOL)


def passes(size: int, snapshot: bool, fill_rest: Callable[[], None]) -> Result:
    """Writes the whole thick datastore, then overwrites it twice; the snapshot precedes the full pool."""
    result = Result([])
    files = [(Path(f"/{POOL}/thick/{index}"), size * share // 16) for index, share in enumerate(SHARES)]

    def whole() -> None:
        result.refused.append(0)
        started = time.monotonic()
        for path, length in files:
            write(path, length, result)
        result.seconds = time.monotonic() - started

    if snapshot:
        whole()
        run("zpool", "sync", POOL)
        run("zfs", "snapshot", f"{POOL}/thick@before")
    fill_rest()
    for _ in range(2 if snapshot else 3):
        whole()
    return result


def pools(disks: Path, disk_mib: int) -> Iterator[tuple[str, list[str]]]:
    names = [str(disks / f"disk{index}") for index in range(6)]
    for name in names:
        with Path(name).open("wb") as file:
            file.truncate(disk_mib * MIB)
    yield "disk", names[:1]
    yield "mirror", ["mirror", *names[:2]]
    yield "raidz1 of 3", ["raidz1", *names[:3]]
    yield "raidz1 of 5", ["raidz1", *names[:5]]
    yield "raidz2 of 6", ["raidz2", *names[:6]]


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=192, metavar="MIB", help="of the datastore")
    parser.add_argument("--disk", type=int, default=1536, metavar="MIB", help="of each disk (a sparse file)")
    parser.add_argument("--slack", type=int, nargs="+", default=[128], metavar="MIB")
    parser.add_argument("--records", nargs="+", default=["16K", "128K"])
    parser.add_argument("--layouts", nargs="+", help="only these")
    parser.add_argument("--reserve", action="store_true", help="fill the pool by a reservation, not by data (for large pools)")
    arguments = parser.parse_args()
    run("mkfs.xfs", "-f", "-q", os.environ["ZVAAI_DISKS"].split()[0])
    disks = Path("/run/slack")
    disks.mkdir()
    run("mount", os.environ["ZVAAI_DISKS"].split()[0], str(disks))
    size = arguments.size * MIB
    print("layout       record  slack  cost/size  snapshot  refused by round      lost  referenced/size", end="")
    print("  MiB/s of the last round", flush=True)
    for (layout, vdevs), record, slack, snapshot in itertools.product(
        pools(disks, arguments.disk), arguments.records, arguments.slack, (False, True)
    ):
        if arguments.layouts and layout not in arguments.layouts:
            continue
        run("zpool", "create", "-f", "-o", "ashift=12", "-O", "compression=lz4", "-O", f"mountpoint=/{POOL}", POOL, *vdevs)
        held = cost(size, record) + slack * MIB
        words = ["-o", f"recordsize={record}", "-o", f"refquota={held}", "-o", f"refreservation={held}"]
        run("zfs", "create", *words, f"{POOL}/thick")
        result = passes(size, snapshot, lambda: fill(not arguments.reserve))
        run("zpool", "sync", POOL)
        refused = "/".join(map(str, result.refused))
        referenced = number("referenced", f"{POOL}/thick") / size
        print(
            f"{layout:12} {record:>6} {slack:5}M {cost(size, record) / size:9.4f}  {'yes' if snapshot else 'no':8}  "
            f"{refused:20} {result.lost:5}  {referenced:15.4f} {arguments.size / result.seconds:7.1f}",
            flush=True,
        )
        run("zpool", "destroy", "-f", POOL)


if __name__ == "__main__":
    main()
