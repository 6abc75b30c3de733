"""Files of exports in memory, for tests of the worker, the API and the console."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.dataplane import export_file
from appliance.dataplane.ganesha import ServedExport
from appliance.dataplane.vaai_nas import FileControl, FileJob, FilePage, FileRefusedError, FileStatistics, FoundFile, Promises


@dataclass
class _Clone:
    asked: tuple[int, str, str, bool]
    request: str
    told: FileJob
    promised: bool
    """Its file gets a promise of its size."""


@dataclass
class VaaiNasSimulator(FileControl):
    """Keeps what it is told, and refuses what the daemon would.

    Files that lie in the folder of an export are told too. What it clones is in memory only, as the simulator's snapshots are.
    """

    folder: Callable[[int], Path | None] = lambda export: None
    """Where the files of an export lie, if anywhere."""
    served: Callable[[], Iterable[ServedExport]] = tuple
    """What the daemon exports."""
    thick: Callable[[str], bool] = lambda dataset: False
    """Whether a dataset is set so that new files are promised their space."""
    stuck: bool = False
    """It does not follow what datasets are set to, for tests to set."""
    problems: dict[int, str] = field(default_factory=dict)
    """Why promises of an export may not hold, for tests to set."""
    exports: dict[int, dict[str, FileStatistics]] = field(default_factory=dict)
    """Files by export and path, for tests to set."""
    paused: bool = False
    """Clones come half way, for tests to set."""
    cannot_share: bool = False
    """Fast clones are refused, and others copied; for tests to set."""
    _followed: dict[tuple[int, str], bool] = field(default_factory=dict)
    """By an export's number and dataset: as it was when it was looked at last, which is when it was exported, and when asked."""
    _jobs: dict[int, _Clone] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, export: int, path: str, size: int) -> None:
        """A file that shares nothing."""
        self.exports.setdefault(export, {})[path] = FileStatistics(size, size, size, True, 0)

    def restart(self) -> None:
        """As the daemon's: what was under way is not made, and no job is known any more."""
        with self._lock:
            self._jobs.clear()
            self._followed.clear()

    def space(self, export: int, *, refresh: bool = False, timeout_s: float | None = None) -> Promises:
        """See FileControl."""
        with self._lock:
            if not self._is_exported(export):
                raise FileRefusedError("stale", "export: stale", "export")
            dataset = next(_dataset(one) for one in self.served() if one.export_id == export)
            key = (export, dataset)
            if key not in self._followed or (refresh and not self.stuck):
                self._followed[key] = self._is_set(dataset)
            files = sum(one.reserved > 0 for one in self._there(export).values())
            return Promises(self._followed[key], "possible", files, self.problems.get(export, ""))

    def _is_exported(self, export: int) -> bool:
        return any(one.served and one.export_id == export for one in self.served())

    def _is_set(self, dataset: str) -> bool:
        return bool(dataset) and self.thick(dataset)

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

    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool, dry_run: bool = False) -> FileJob:
        """See FileControl."""
        asked = (export, source, destination, fast)
        with self._lock:
            for clone in self._jobs.values():
                if clone.request == request and not dry_run:
                    if clone.asked != asked:
                        raise FileRefusedError("exists", "the request id belongs to another request", "request_id")
                    return self.job(export, clone.told.job)
            total = self._file(export, source, "source").total
            if destination in self._there(export):
                raise FileRefusedError("exists", "the name is taken; nothing was changed", "destination")
            if (folder := self.folder(export)) is not None and not Path(folder, destination).parent.is_dir():
                raise FileRefusedError("not_found", "destination: not_found; nothing was changed", "destination")
            if fast and self.cannot_share:
                raise FileRefusedError("not_supported", "the file system can't share these blocks")
            told = FileJob(0 if dry_run else next(self._numbers), "running", "ok", "", total, total // 2)
            if dry_run:
                return replace(told, state="complete")
            promised = not fast and self._is_exported(export) and self.space(export).thick_default
            self._jobs[told.job] = _Clone(asked, request, told, promised)
            return told

    def job(self, export: int, job: int) -> FileJob:
        """See FileControl."""
        with self._lock:
            clone = self._find(job)
            if clone.told.active and not self.paused:
                _export, source, destination, _fast = clone.asked
                of, total = self._file(export, source, "source"), clone.told.total_bytes
                how = {"copied_bytes": total} if self.cannot_share else {"cloned_bytes": total}
                why = {"reason": "copied: not_supported", "fallback_bytes": {"not_supported": total}} if self.cannot_share else {}
                clone.told = replace(clone.told, state="complete", done_bytes=total, **how, **why)  # type: ignore[arg-type]
                made = of if self.cannot_share else replace(of, unique=0, unique_exact=True)
                self.exports.setdefault(export, {})[destination] = replace(made, reserved=total if clone.promised else 0)
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


def _dataset(export: ServedExport) -> str:
    """Of one that the appliance made; else ""."""
    kept = export_file.read(export.text or "")
    return kept.dataset if kept is not None else ""


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
                    found[str(path.relative_to(folder))] = FileStatistics(told.st_size, allocated, allocated, False, 0)
    return found
