# SPDX-License-Identifier: Apache-2.0
"""Files of exports in memory, for tests of the worker, the API and the console."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from appliance.dataplane import export_file
from appliance.dataplane.ganesha import ServedExport
from appliance.dataplane.vaai_nas import (
    ExportSpace,
    FileControl,
    FileJob,
    FilePage,
    FileRefusedError,
    FileStatistics,
    FoundFile,
    SharedSpace,
)

_RECORD, _OF_A_FILE = 65536, 16384
"""What is admitted of a file: its size, rounded up to the record size, and a constant."""


@dataclass
class _Clone:
    asked: tuple[int, str, str, bool]
    request: str
    told: FileJob
    why: str
    """Why its bytes are copied; "" while they are shared."""


@dataclass
class VaaiNasSimulator(FileControl):
    """Keeps what it is told, and refuses what the daemon would.

    Files that lie in the folder of an export are told too. What it clones is in memory only, as the simulator's snapshots are.
    """

    folder: Callable[[int], Path | None] = lambda export: None
    """Where the files of an export lie, if anywhere."""
    served: Callable[[], Iterable[ServedExport]] = tuple
    """What the daemon exports."""
    counting: bool = False
    """It has not counted its files yet, for tests to set."""
    without_vaai: str = ""
    """Why hosts get no VAAI-NAS, for tests to set."""
    problems: dict[int, str] = field(default_factory=dict)
    """Why the count of an export may be wrong, for tests to set."""
    sharing: dict[int, SharedSpace | FileRefusedError] = field(default_factory=dict)
    """What files of an export share, for tests to set; nothing unless told."""
    exports: dict[int, dict[str, FileStatistics]] = field(default_factory=dict)
    """Files by export and path, for tests to set."""
    paused: bool = False
    """Clones come half way, for tests to set."""
    cannot_share: bool = False
    """Fast clones are refused, and others copied; for tests to set."""
    _jobs: dict[int, _Clone] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def counters(self) -> dict[str, Any]:
        """See FileControl."""
        return {"exports": [], "hosts": []}

    def put(self, export: int, path: str, size: int) -> None:
        """A file that shares nothing."""
        self.exports.setdefault(export, {})[path] = FileStatistics(size, size, size, True)

    def restart(self) -> None:
        """As the daemon's: what was under way is not made, and no job is known any more."""
        with self._lock:
            self._jobs.clear()

    def problem(self) -> str:
        """See FileControl."""
        return self.without_vaai

    def space(self, export: int) -> ExportSpace:
        """See FileControl."""
        with self._lock:
            if not any(one.served and one.export_id == export for one in self.served()):
                raise FileRefusedError("stale", "export: stale", "export")
            size, files = self._thick_size(export), self._there(export).values()
            admitted = sum(-(-one.total // _RECORD) * _RECORD + _OF_A_FILE for one in files)
            return ExportSpace(size is not None, size or 0, admitted, self.counting, self.problems.get(export, ""))

    def shared(self, export: int, *, restart: bool = False) -> SharedSpace:
        """See FileControl."""
        found = self.sharing.get(export, SharedSpace(True, 0, 0, 0))
        if isinstance(found, FileRefusedError):
            raise found
        return found

    def _thick_size(self, export: int) -> int | None:
        there = (export_file.read(one.text or "") for one in self.served() if one.served and one.export_id == export)
        return next((one.thick_size for one in there if one is not None), None)

    def files(self, export: int, after: str, limit: int) -> FilePage:
        """See FileControl."""
        there = self._there(export)
        chosen = sorted((path for path in there if path.endswith(".vmdk")), key=str.encode)
        rest = [path for path in chosen if path.encode() > after.encode()]
        told = [(path, there[path]) for path in rest[:limit]]
        return FilePage(tuple(FoundFile(path, one.total, one.allocated) for path, one in told), len(rest) > limit, True)

    def statistics(self, export: int, path: str, timeout_s: float = 0) -> FileStatistics:
        """See FileControl."""
        return self._file(export, path, "path")

    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool) -> FileJob:
        """See FileControl."""
        asked = (export, source, destination, fast)
        with self._lock:
            for clone in self._jobs.values():
                if clone.request == request:
                    if clone.asked != asked:
                        raise FileRefusedError("exists", "the request id belongs to another request", "request_id")
                    return self.job(export, clone.told.job)
            total = self._file(export, source, "source").total
            if destination in self._there(export):
                raise FileRefusedError("exists", "the name is taken; nothing was changed", "destination")
            if (folder := self.folder(export)) is not None and not Path(folder, destination).parent.is_dir():
                raise FileRefusedError("not_found", "destination: not_found; nothing was changed", "destination")
            why = "thick" if self._thick_size(export) is not None else "not_supported" if self.cannot_share else ""
            if fast and why:
                raise FileRefusedError("not_supported", "the file system can't share these blocks")
            told = FileJob(next(self._numbers), "running", "ok", "", total, total // 2)
            self._jobs[told.job] = _Clone(asked, request, told, why)
            return told

    def job(self, export: int, job: int) -> FileJob:
        """See FileControl."""
        with self._lock:
            clone = self._find(job)
            if clone.told.active and not self.paused:
                _export, source, destination, _fast = clone.asked
                of, total = self._file(export, source, "source"), clone.told.total_bytes
                clone.told = replace(clone.told, state="complete", done_bytes=total)
                if why := clone.why:
                    clone.told = replace(clone.told, copied_bytes=total, reason=f"copied: {why}", fallback_bytes={why: total})
                else:
                    clone.told, of = replace(clone.told, cloned_bytes=total), replace(of, unique=0, unique_exact=True)
                self.exports.setdefault(export, {})[destination] = of
            return clone.told

    def cancel(self, export: int, job: int) -> FileJob:
        """See FileControl."""
        with self._lock:
            clone = self._find(job)
            if clone.told.active:
                clone.told = replace(clone.told, state="failed", status="cancelled", reason="the destination was not made")
            return clone.told

    def _find(self, job: int) -> _Clone:
        if job not in self._jobs:
            raise FileRefusedError("interrupted", "job: interrupted", "job")
        return self._jobs[job]

    def _file(self, export: int, path: str, what: str) -> FileStatistics:
        found = self._there(export).get(path)
        if found is None:
            raise FileRefusedError("not_found", f"{what}: not_found; nothing was changed", what)
        return found

    def _there(self, export: int) -> dict[str, FileStatistics]:
        """Those of the folder, and what tests and clones have made. What files in the folder share is not known: at most all."""
        return {**_lying_in(self.folder(export)), **self.exports.get(export, {})}


def _lying_in(folder: Path | None) -> dict[str, FileStatistics]:
    found: dict[str, FileStatistics] = {}
    if folder is None:
        return found
    for directory, _, names in os.walk(folder):
        for name in names:
            path = Path(directory, name)
            with contextlib.suppress(FileNotFoundError):
                told = path.lstat()
                if stat.S_ISREG(told.st_mode):
                    allocated = 512 * told.st_blocks
                    found[str(path.relative_to(folder))] = FileStatistics(
                        told.st_size, allocated, allocated, False, as_of=time.time()
                    )
    return found
