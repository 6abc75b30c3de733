# SPDX-License-Identifier: Apache-2.0
"""Files of exports in memory, for tests of the worker, the API and the console."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from appliance.dataplane.ganesha import ServedExport
from appliance.dataplane.vaai_nas import (
    ExportSpace,
    FileJob,
    FilePage,
    FileRefusedError,
    FileStatistics,
    ListedFile,
    SharedSpace,
    VaaiNas,
)

_RECORD, _OF_A_FILE = 65536, 16384
"""Admitted space of a file: its size, rounded up to the record size, and a constant."""


@dataclass
class _Clone:
    arguments: tuple[int, str, str, bool]
    request: str
    job: FileJob
    why: str
    """Why the bytes are copied; "" for a clone that shares blocks."""


@dataclass
class VaaiNasSimulator(VaaiNas):
    """Keeps its files, and refuses what the daemon refuses.

    Includes the files in the folder of an export. Clones are in memory only, as the simulator's snapshots are.
    """

    folder: Callable[[int], Path | None] = lambda export: None
    """Folder with the files of an export, if any."""
    served: Callable[[], Iterable[ServedExport]] = tuple
    """Exports of the daemon."""
    counting: bool = False
    """The daemon is still counting its files; set by tests."""
    without_vaai: str = ""
    """Why hosts get no VAAI-NAS, set by tests."""
    problems: dict[int, str] = field(default_factory=dict)
    """Why the count of an export may be wrong, set by tests."""
    sharing: dict[int, SharedSpace | FileRefusedError] = field(default_factory=dict)
    """Shared bytes of an export, set by tests; default none."""
    exports: dict[int, dict[str, FileStatistics]] = field(default_factory=dict)
    """Files by export and path, set by tests."""
    paused: bool = False
    """Clones stop half way; set by tests."""
    cannot_share: bool = False
    """Fast clones are refused, other clones copy; set by tests."""
    _jobs: dict[int, _Clone] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def counters(self) -> dict[str, Any]:
        return {"exports": [], "hosts": []}

    def put(self, export: int, path: str, size: int) -> None:
        """A file that shares nothing."""
        self.exports.setdefault(export, {})[path] = FileStatistics(size, size, size, True)

    def restart(self) -> None:
        """Discards running clones and all jobs, as the daemon does."""
        with self._lock:
            self._jobs.clear()

    def problem(self) -> str:
        return self.without_vaai

    def space(self, export: int) -> ExportSpace:
        with self._lock:
            if not any(other.served and other.export_id == export for other in self.served()):
                raise FileRefusedError("stale", "export: stale", "export")
            size, files = self._thick_size(export), self._all_files(export).values()
            admitted = sum(-(-file.total // _RECORD) * _RECORD + _OF_A_FILE for file in files)
            return ExportSpace(size is not None, size or 0, admitted, self.counting, self.problems.get(export, ""))

    def shared(self, export: int, *, restart: bool = False) -> SharedSpace:
        shared = self.sharing.get(export, SharedSpace(True, 0, 0))
        if isinstance(shared, FileRefusedError):
            raise shared
        return shared

    def _thick_size(self, export: int) -> int | None:
        texts = (other.text or "" for other in self.served() if other.served and other.export_id == export)
        return next((int(size[1]) for text in texts if (size := re.search(r"Thick_Size = ([0-9]+);", text))), None)

    def files(self, export: int, after: str, limit: int) -> FilePage:
        files = self._all_files(export)
        chosen = sorted((path for path in files if path.endswith(".vmdk")), key=str.encode)
        rest = [path for path in chosen if path.encode() > after.encode()]
        page = [(path, files[path]) for path in rest[:limit]]
        return FilePage(tuple(ListedFile(path, file.total, file.allocated) for path, file in page), len(rest) > limit, True)

    def statistics(self, export: int, path: str, timeout_s: float = 0) -> FileStatistics:
        return self._file(export, path, "path")

    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool) -> FileJob:
        arguments = (export, source, destination, fast)
        with self._lock:
            for clone in self._jobs.values():
                if clone.request == request:
                    if clone.arguments != arguments:
                        raise FileRefusedError("exists", "the request id belongs to another request", "request_id")
                    return self.job(export, clone.job.job)
            total = self._file(export, source, "source").total
            if destination in self._all_files(export):
                raise FileRefusedError("exists", "the name is taken; nothing was changed", "destination")
            if (folder := self.folder(export)) is not None and not Path(folder, destination).parent.is_dir():
                raise FileRefusedError("not_found", "destination: not_found; nothing was changed", "destination")
            why = "thick" if self._thick_size(export) is not None else "not_supported" if self.cannot_share else ""
            if fast and why:
                raise FileRefusedError("not_supported", "the file system can't share these blocks")
            job = FileJob(next(self._numbers), "running", "ok", "", total, total // 2)
            self._jobs[job.job] = _Clone(arguments, request, job, why)
            return job

    def job(self, export: int, job: int) -> FileJob:
        with self._lock:
            clone = self._find(job)
            if clone.job.active and not self.paused:
                _export, source, destination, _fast = clone.arguments
                statistics, total = self._file(export, source, "source"), clone.job.total_bytes
                clone.job = replace(clone.job, state="complete", done_bytes=total)
                if why := clone.why:
                    clone.job = replace(clone.job, copied_bytes=total, reason=f"copied: {why}", fallback_bytes={why: total})
                else:
                    clone.job, statistics = (
                        replace(clone.job, cloned_bytes=total),
                        replace(statistics, unique=0, unique_exact=True),
                    )
                self.exports.setdefault(export, {})[destination] = statistics
            return clone.job

    def cancel(self, export: int, job: int) -> FileJob:
        with self._lock:
            clone = self._find(job)
            if clone.job.active:
                clone.job = replace(clone.job, state="failed", status="cancelled", reason="the destination was not created")
            return clone.job

    def _find(self, job: int) -> _Clone:
        if job not in self._jobs:
            raise FileRefusedError("interrupted", "job: interrupted", "job")
        return self._jobs[job]

    def _file(self, export: int, path: str, what: str) -> FileStatistics:
        file = self._all_files(export).get(path)
        if file is None:
            raise FileRefusedError("not_found", f"{what}: not_found; nothing was changed", what)
        return file

    def _all_files(self, export: int) -> dict[str, FileStatistics]:
        """Files of the folder, and those of tests and clones. Unique bytes of files in the folder are an upper bound."""
        return {**_files_of(self.folder(export)), **self.exports.get(export, {})}


def _files_of(folder: Path | None) -> dict[str, FileStatistics]:
    files: dict[str, FileStatistics] = {}
    if folder is None:
        return files
    for directory, _, names in os.walk(folder):
        for name in names:
            path = Path(directory, name)
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    allocated = 512 * status.st_blocks
                    files[str(path.relative_to(folder))] = FileStatistics(
                        status.st_size, allocated, allocated, False, as_of=time.time()
                    )
    return files
