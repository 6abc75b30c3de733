# SPDX-License-Identifier: Apache-2.0
"""Changes written down before they begin, so that the next process knows which of them are still in the kernel.

Each is a file with a lock (flock(2)) on the description that this process has open, and the program that it starts inherits. The
kernel lets the lock go when the last of them has left it: also of a process that was killed and waits there for a pool.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path

from appliance.zfs.errors import EngineUnavailable


class Begun:
    """One of them. `descriptor` is for the program that does it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    def end(self) -> None:
        """It is over."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


class UnderWay:
    """In a directory of one process at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._own: set[str] = set()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def begin(self, operation: str, pools: Collection[str]) -> Begun:
        """Writes it down; of power that is lost nothing has to be known. Raises EngineUnavailable where that can't be."""
        path = self._directory / uuid.uuid4().hex
        new = path.with_suffix(".new")
        with self._lock:
            self._own.add(path.name)
        try:
            descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.write(descriptor, json.dumps({"operation": operation, "pools": sorted(pools)}).encode())
                new.rename(path)
            except BaseException:
                new.unlink(missing_ok=True)
                os.close(descriptor)
                raise
        except OSError as problem:
            raise EngineUnavailable(f"what begins can't be written down: {problem}") from problem
        return Begun(path, descriptor)

    def left(self, pool: str) -> tuple[str, ...]:
        """Operations of processes before this one that name something of the pool and have not ended."""
        with self._lock:
            return tuple(sorted(operation for operation, pools in self._left() if pool in pools))

    def _left(self) -> Iterator[tuple[str, list[str]]]:
        for path in self._directory.iterdir():
            if path.name in self._own or path.stem in self._own:
                continue
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if path.suffix != ".new":  # that had not begun
                        told = json.loads(file.read())
                        yield str(told["operation"]), list(told["pools"])
                else:
                    path.unlink()
