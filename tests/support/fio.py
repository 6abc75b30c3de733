# SPDX-License-Identifier: Apache-2.0
"""fio with verification."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from support.programs import run, wait_for


def words(path: Path, size_mib: int, seed: int) -> list[str]:
    """Command line: random writes to a disk or file, then each block is read and its checksum compared."""
    return [
        # fio separates file names by colons.
        *("fio", "--name=verify", f"--filename={path.resolve()}", f"--size={size_mib}M", "--rw=randwrite", "--bsrange=4k-64k"),
        *("--ioengine=libaio", "--iodepth=16", "--direct=1", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"),
        *(f"--randseed={seed}", "--output-format=terse", "--verify_state_save=0"),
    ]


def verify(path: Path, size_mib: int, seed: int) -> None:
    """Runs fio. Raises ProgramFailed for a wrong block."""
    run(*words(path, size_mib, seed), timeout=600)


class Verifying:
    """Repeats fio until the block ends. Leaving the block raises AssertionError if a run failed.

    `written` is the number of bytes written to the target in all.
    """

    def __init__(self, path: Path, size_mib: int, seed: int, written: Callable[[], int]) -> None:
        self._path, self._size_mib, self._seed = path, size_mib, seed
        self._written = written
        self._stop = threading.Event()
        self._round: subprocess.Popen[str] | None = None
        self._failure = ""
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set() and not self._failure:
            self._seed += 1
            command = words(self._path, self._size_mib, self._seed)
            self._round = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            output, _ = self._round.communicate()
            if self._round.returncode:
                self._failure = f"exit code {self._round.returncode}: {output}"

    def __enter__(self) -> Verifying:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._stop.set()
        if kind and self._round:
            self._round.kill()
        self._thread.join()
        assert kind or not self._failure, self._failure

    def goes_on(self, when: str) -> None:
        """Returns after 4 MiB more are written. Raises AssertionError if fio failed, TimeoutError."""
        before = self._written()
        wait_for(lambda: bool(self._failure) or self._written() > before + (4 << 20), f"4 MiB are written {when}", 300)
        assert not self._failure, self._failure
