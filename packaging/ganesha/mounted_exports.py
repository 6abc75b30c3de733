#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""Selects the exports whose datasets are mounted for the NFS server, and starts it; installed in /usr/lib/zvaai.

usage: mounted_exports.py FROM TO BELOW [COMMAND...]     COMMAND starts the NFS server in this process

Hosts wait while this program runs. So it imports little, and needs no process of systemd in addition to the NFS server's.

If a pool is not imported, its mount point is an empty folder or missing. ganesha 6.5 would export the folder of another file
system, or refuse to start and take the datastores of other pools away too. A received copy of a datastore has the same
mountpoint, and may be mounted over the original. So the mount at the path, one name below BELOW, must be of the dataset in the
export's file, with the GUID in the file.

The owner of a file decides what is exported. So FROM and its files must belong to the caller (root), be writable by no other
user, and name one dataset, one GUID and one path. All else in them is the appliance's alone: after an upgrade the files of the
previous version must be exported, as the appliance may be down.

zfs(8) may hang in the kernel, where no signal ends it. So one runs for each pool, all at once, and all together for SECONDS
at most. The appliance adds the missing exports when their pools answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

POOL_STATES = Path(os.environ.get("ZVAAI_POOL_STATES", "/proc/spl/kstat/zfs"))
"""States of pools: the kernel reports them without a query to the pool. Tests have another folder."""
SECONDS = float(os.environ.get("ZVAAI_POOL_SECONDS", "20"))
PIPE_BYTES = 1 << 20
"""Room for the answer for some 4,000 datasets, so that zfs can end before it is read."""
GUID = re.compile(r"^([^\t\n]+)\t([0-9]+)$", re.MULTILINE)
UNUSABLE = ("SUSPENDED", "UNAVAIL", "FAULTED")
DATASET = re.compile(r"^ *# dataset (.+)$", re.MULTILINE)
GUID_OF_EXPORT = re.compile(r"^ *# guid ([0-9]+)$", re.MULTILINE)
PATH = re.compile(r'\bPath\s*=\s*"?([^"\\;\n]*)', re.IGNORECASE)  # ganesha ignores the case


class Export:
    """An export of the appliance."""

    def __init__(self, file: Path, text: str, dataset: str, guid: str) -> None:
        """`text` is the file's."""
        self.file, self.text, self.dataset, self.guid = file, text, dataset, guid
        self.pool = dataset.partition("/")[0]


class Refused(Exception):
    """An export cannot be served at this start; the text has the reason."""


def safe(status: os.stat_result, is_type: bool) -> bool:
    """Whether only the caller may write it, and it is of the right type."""
    return is_type and status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def read(file: Path) -> str:
    """Raises Refused."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8", newline="") as source:
            status = os.fstat(source.fileno())
            if safe(status, stat.S_ISREG(status.st_mode)):
                return source.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} is not a file of root that can be read ({error}), and not exported") from None
    raise Refused(f"{file} is not a file of root alone, and not exported")


def mounts() -> dict[str, str]:
    """Source of the topmost mount at each path (proc(5), mountinfo); empty for a bind mount of a folder."""

    def plain(field: str) -> str:
        return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)

    sources = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        first, _, last = line.partition(" - ")
        root, path = first.split(" ")[3:5]
        sources[plain(path)] = plain(last.split(" ")[1]) if root == "/" else ""
    return sources


def mounted(file: Path, below: str, sources: Mapping[str, str]) -> Export:
    """The export in a file. Raises Refused, also if its dataset is not mounted at its path."""
    text = read(file)
    fields = [pattern.findall(text) for pattern in (DATASET, GUID_OF_EXPORT, PATH)]
    if any(len(values) != 1 for values in fields):
        raise Refused(f"{file} does not have one dataset, one GUID and one path, and is not exported")
    (dataset,), (guid,), (path,) = fields
    export = Export(file, text, dataset, guid)
    state = ""
    with contextlib.suppress(OSError):  # the pool is not imported
        state = (POOL_STATES / export.pool / "state").read_text().strip()
    if state in UNUSABLE:
        raise Refused(f"{file}: the pool of {export.dataset} is {state}, and it is not exported")
    if sources.get(path) != export.dataset or path.rpartition("/")[0] != below:
        raise Refused(f"{file}: {export.dataset} is not mounted at {path}, and not exported")
    return export


def guids(exports: Sequence[Export]) -> dict[str, str]:
    """GUIDs of the datasets by name, without those of pools that do not answer in time."""
    pools: dict[str, list[str]] = {}
    for export in exports:
        pools.setdefault(export.pool, []).append(export.dataset)
    deadline = time.monotonic() + SECONDS
    queries = [
        # If a dataset is missing, zfs reports the others.
        subprocess.Popen(
            ["zfs", "list", "-H", "-p", "-o", "name,guid", "--", *names],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pipesize=PIPE_BYTES,
            text=True,
        )
        for names in pools.values()
    ]
    answers: dict[str, str] = {}
    for query in queries:
        try:
            query.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            query.kill()
        else:
            assert query.stdout is not None
            answers.update(GUID.findall(query.stdout.read()))
    return answers


def exports_of(source: Path, below: str) -> Iterator[Export]:
    """The exports for the daemon. Prints the reasons for the others on standard error."""
    exports = []
    sources = mounts()
    for file in sorted(source.glob("*.conf")):
        try:
            exports.append(mounted(file, below, sources))
        except Refused as refusal:
            print(refusal, file=sys.stderr)
    answers = guids(exports)
    for export in exports:
        guid = answers.get(export.dataset, "unknown")
        if export.guid == guid:
            yield export
        else:
            text = f"the GUID of {export.dataset} is {guid} instead of {export.guid}"
            print(f"{export.file}: {text}: it is a copy, or another dataset, and not exported", file=sys.stderr)


def select(source: Path, to: Path, below: str) -> None:
    """Replaces the content of the folder `to`."""
    to.mkdir(parents=True, exist_ok=True)
    for old in to.iterdir():
        old.unlink()
    if not os.path.lexists(source):
        return
    status = os.lstat(source)
    if not safe(status, stat.S_ISDIR(status.st_mode)):
        print(f"{source} is not a folder of root alone, and nothing in it is exported", file=sys.stderr)
        return
    for export in exports_of(source, below):
        (to / export.file.name).write_text(export.text, encoding="utf-8")


def main(source: str, to: str, below: str, *command: str) -> None:
    select(Path(source), Path(to), below)
    if command:
        sys.stderr.flush()
        os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
