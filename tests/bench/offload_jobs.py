# SPDX-License-Identifier: Apache-2.0
"""Jobs of the benchmark of offloads: copies, zeroing, unmapping and ATS by the target, a peer, the host and the kernel."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers import Peer
from bench.stores import MIB, Store, clone_bound, timed
from support.programs import CACHE, ProgramFailed, run, wait_for
from support.target import Target, table

OFFLOAD, LOAD = CACHE / "offload", CACHE / "load"
DEPTH = 8
COPY_COMMAND = 4 * MIB
"""Bytes of an EXTENDED COPY of ESXi on a thick disk."""
THIN_COMMAND = MIB
"""... and on a thin disk, and of a WRITE SAME or UNMAP."""
OURS, PEER, HOST, BOUND = "zvaai", "peer", "host", "bound"
"""Contenders; the host's copy goes through our target, over the same loopback."""


@dataclass
class Job:
    """A job: how to prepare the destination, and the seconds of each contender's work."""

    name: str
    contenders: dict[str, Callable[[], float]]
    prepare: Callable[[], None]
    repetitions: dict[str, int] = field(default_factory=dict)
    """Contenders with fewer repetitions."""
    seconds: dict[str, list[float]] = field(default_factory=dict)


def compile_clients() -> None:
    """Compiles both clients."""
    for program in (OFFLOAD, LOAD):
        source = Path(__file__).with_name(f"{program.name}.c")
        run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-liscsi")


def offload(*words: object) -> float:
    """Runs the client; returns seconds. Raises ProgramFailed."""
    return float(json.loads(run(OFFLOAD, *(str(word) for word in words), timeout=3600))["seconds"])


class Bench:
    """The jobs on a store, against a peer."""

    def __init__(
        self, store: Store, peer: Callable[[], AbstractContextManager[Peer]], folder: Path, *, peer_copies: bool
    ) -> None:
        self._store, self._peer, self._folder, self._peer_copies = store, peer, folder, peer_copies

    @contextmanager
    def _ours(self) -> Iterator[list[str]]:
        directory = Path(tempfile.mkdtemp(dir=self._folder))
        target = Target(directory)
        target.start()
        try:
            target.create()
            for number, path in enumerate((self._store.source, self._store.destination)):
                target.add_lun(number, path)
            # A copy to a LUN waits some time after the LUN was added; datastores exist for longer.
            wait_for(lambda: len(target.call("space.get")["luns"]) == 2, "the space of both LUNs is known")
            yield [target.url(0), target.url(1)]
        finally:
            target.stop()

    @contextmanager
    def _served_by(self, name: str) -> Iterator[list[str]]:
        if name == PEER:
            with self._peer() as peer:
                yield peer.urls
        else:
            with self._ours() as urls:
                yield urls

    def _stable(self, name: str, work: Callable[[list[str]], float]) -> Callable[[], float]:
        """Work by a target, including the sync to disk."""

        def run_() -> float:
            with self._served_by(name) as urls:
                seconds = work(urls)
                return seconds + timed(self._store.sync)

        return run_

    def copies(
        self, name: str, length: int, command: int, runs: Sequence[int] = (), repetitions: dict[str, int] | None = None
    ) -> Job:
        """A copy of `length` bytes to an empty destination; of `runs` (bytes and stride) only, if set."""

        def by(job: str, size: int) -> Callable[[list[str]], float]:
            return lambda urls: offload(job, *urls, length, size, DEPTH, *runs)

        contenders = {
            OURS: self._stable(OURS, by("xcopy", command)),
            PEER: self._stable(PEER, by("xcopy", command) if self._peer_copies else by("copy", MIB)),
            HOST: self._stable(HOST, by("copy", MIB)),
            BOUND: lambda: clone_bound(self._store, length, command, *runs),
        }
        return Job(name, contenders, lambda: self._store.empty(self._store.destination), repetitions or {})

    def clearing(self, kind: str, length: int, largest: bool) -> Job:
        """WRITE SAME of zeroes (`same`) or UNMAP of a full destination, against the host that writes zeroes."""

        def by(job: str) -> Callable[[list[str]], float]:
            def work(urls: list[str]) -> float:
                size = largest_command(urls[1], job, length) if largest else THIN_COMMAND
                return offload(job, "-", urls[1], length, size, DEPTH)

            return work

        contenders = {
            OURS: self._stable(OURS, by(kind)),
            PEER: self._stable(PEER, by(kind)),
            HOST: self._stable(HOST, lambda urls: offload("zero", "-", urls[1], length, MIB, DEPTH)),
            BOUND: lambda: timed(lambda: self._store.empty(self._store.destination)),
        }
        word = "zero" if kind == "same" else "unmap"
        size = "largest commands" if largest else "1 MiB commands"
        return Job(f"{word}, {size}", contenders, lambda: self._store.fill(self._store.destination, length))

    def concurrent_writes(self, length: int) -> Job:
        """A copy of a source that a host writes to all the time: 16K, random, four at once."""

        def by(job: str, size: int) -> Callable[[list[str]], float]:
            def work(urls: list[str]) -> float:
                words = [str(LOAD), urls[0], "1", "4", "16384", "write", "random", "3600"]
                with subprocess.Popen(words, stdout=subprocess.DEVNULL) as writer:
                    time.sleep(1)
                    try:
                        return offload(job, *urls, length, size, DEPTH)
                    finally:
                        assert writer.poll() is None, "the writer ended: the figure is of something else"
                        writer.kill()

            return work

        contenders = {OURS: self._stable(OURS, by("xcopy", COPY_COMMAND)), HOST: self._stable(HOST, by("copy", MIB))}
        return Job("clone during writes", contenders, lambda: self._store.empty(self._store.destination))

    def ats(self, sessions: int, seconds: float) -> dict[str, float]:
        """COMPARE AND WRITE commands per second; the bound is fio's stable writes of a block."""
        rates = {}
        for name in (OURS, PEER):
            with self._served_by(name) as urls:
                try:
                    answer = json.loads(run(OFFLOAD, "ats", "-", urls[1], str(seconds), str(sessions), timeout=seconds + 60))
                    rates[name] = answer["commands"] / answer["seconds"]
                except ProgramFailed:
                    rates[name] = 0.0  # tgt has no such command
        words = ["fio", "--name=bound", f"--filename={self._store.destination}", "--rw=randwrite", "--bs=512", "--size=32M"]
        words += ["--ioengine=psync", "--sync=dsync", "--thread", f"--numjobs={sessions}", "--group_reporting"]
        words += ["--time_based", f"--runtime={seconds}", "--output-format=json"]
        rates[BOUND] = float(json.loads(run(*words))["jobs"][0]["write"]["iops"])
        return rates


def largest_command(url: str, job: str, length: int) -> int:
    """The target's limit for a WRITE SAME or UNMAP in its Block Limits page, rounded down to a power of two."""
    page = table(run("iscsi-inq", "-e", "1", "-c", "0xb0", url))
    blocks = int(page["maximum write same length" if job == "same" else "maximum unmap lba count"])
    # 0: no limit.
    return min(length, 1 << (blocks * 512).bit_length() - 1) if blocks else length


def run_jobs(jobs: Sequence[Job], repetitions: int) -> None:
    """Each repetition runs each job by each contender; the order rotates."""
    started = time.monotonic()
    for number in range(repetitions):
        for job in jobs:
            names = [name for name in job.contenders if number < job.repetitions.get(name, repetitions)]
            for offset in range(len(names)):
                name = names[(number + offset) % len(names)]
                job.prepare()
                seconds = job.contenders[name]()
                job.seconds.setdefault(name, []).append(seconds)
                at = time.monotonic() - started
                print(f"bench: round {number + 1}, {job.name}, {name}: {seconds:.2f} s ({at:.0f} s)", file=sys.stderr, flush=True)
