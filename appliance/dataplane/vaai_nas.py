# SPDX-License-Identifier: Apache-2.0
"""Client of the VAAI-NAS service's control socket (docs/vaai_nas.md)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.dataplane import json_rpc
from appliance.dataplane.ganesha import GaneshaUnreachableError

_WAIT_S = 30.0
"""Longer than the 10 s that the service waits for the end of a cancelled clone."""


@dataclass(eq=False)
class FileRefusedError(Exception):
    """The service refuses; nothing was changed. `status` is one of ganesha_fsal/vaai_nas/status.h."""

    status: str
    reason: str
    field: str | None = None

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class ListedFile:
    """A VMDK file that holds data. Sizes in bytes; `allocated` may lack writes of the last seconds."""

    path: str
    total: int
    allocated: int


@dataclass(frozen=True)
class FilePage:
    files: tuple[ListedFile, ...]
    more: bool
    complete: bool
    """False if files were skipped: too deep, too many, or an undecodable name."""


@dataclass(frozen=True)
class FileStatistics:
    """Space of a file in bytes; `unique` bytes are not shared, or an upper bound without `unique_exact`."""

    total: int
    allocated: int
    unique: int
    unique_exact: bool
    snapshot: int = 0
    """Part of these that a snapshot also holds."""
    deduplicated: int = 0
    as_of: float = 0.0
    """Time of the figures, in seconds since 1970."""


@dataclass(frozen=True)
class ExportSpace:
    thick: bool
    size: int
    """Size of a thick export, the limit for the sum of its files."""
    admitted: int
    """Sum over its files of the size, rounded up to the record size, and 16 KiB."""
    counting: bool
    """The daemon is still counting: a file may grow by 1 MiB only."""
    problem: str
    """Why the count may be wrong; "" if it is correct."""


@dataclass(frozen=True)
class SharedSpace:
    """Bytes of an export's files, by the pool's block reference table."""

    complete: bool
    """False: the count is running."""
    shared: int
    """With any other file or volume."""
    snapshot: int
    """Part of the files that a snapshot also holds."""
    deduplicated: int


@dataclass(frozen=True)
class FileJob:
    """A clone with its progress, and bytes by method."""

    job: int
    state: str
    """waiting, running, complete or failed."""
    status: str
    """Status of a failure, as in FileRefusedError."""
    reason: str
    total_bytes: int
    done_bytes: int
    cloned_bytes: int = 0
    copied_bytes: int = 0
    hole_bytes: int = 0
    fallback_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return self.state in ("waiting", "running")


class VaaiNas:
    """The files of exports, by the daemon. Each call raises GaneshaUnreachableError, and FileRefusedError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def problem(self) -> str:
        """Why hosts get no VAAI-NAS, and which package to install; "" if they get it."""
        return self._call("service.get", lambda service: str(service["problem"]))

    def counters(self) -> dict[str, Any]:
        """Offload counters since the daemon's start, by `exports` and `hosts`."""
        try:
            return self._call("statistics.get", lambda counted: {**counted})
        except FileRefusedError as error:
            raise GaneshaUnreachableError(f"the NFS server's counters can't be read at {self._path}: {error}") from error

    def files(self, export: int, after: str, limit: int) -> FilePage:
        """Files whose path is after `after`, 500 at most."""

        def page(response: dict[str, Any]) -> FilePage:
            files = tuple(ListedFile(file["path"], file["total_bytes"], file["allocated_bytes"]) for file in response["files"])
            return FilePage(files, response["more"], response["complete"])

        return self._call("files.list", page, export=export, after=after, limit=limit)

    def statistics(self, export: int, path: str, timeout_s: float = _WAIT_S) -> FileStatistics:
        def read(response: dict[str, Any]) -> FileStatistics:
            sizes = {name: response[f"{name}_bytes"] for name in ("total", "allocated", "unique", "snapshot", "deduplicated")}
            return FileStatistics(unique_exact=response["unique_exact"], as_of=response["as_of"], **sizes)

        return self._call("file.statistics", read, timeout_s, export=export, path=path)

    def space(self, export: int) -> ExportSpace:
        def read(response: dict[str, Any]) -> ExportSpace:
            counted = bool(response["thick"]), response["size_bytes"], response["admitted_bytes"]
            return ExportSpace(*counted, bool(response["counting"]), str(response["problem"]))

        return self._call("space.get", read, export=export)

    def shared(self, export: int, *, restart: bool = False) -> SharedSpace:
        """Shared bytes of its files counted so far; `restart` starts a new count in the background."""

        def read(response: dict[str, Any]) -> SharedSpace:
            return SharedSpace(
                bool(response["complete"]), *(response[f"{name}_bytes"] for name in ("shared", "snapshot", "deduplicated"))
            )

        return self._call("space.shared", read, export=export, restart=restart)

    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool) -> FileJob:
        """Starts a clone, or finds the job of the same `request` (32 hexadecimal digits)."""
        parameters: dict[str, Any] = {"source": source, "destination": destination, "request_id": request, "fast": fast}
        return self._call("clone.start", _job, export=export, **parameters)

    def job(self, export: int, job: int) -> FileJob:
        """State of a job; `interrupted` or `not_found` if the daemon does not know it."""
        return self._call("job.get", _job, export=export, job=job)

    def cancel(self, export: int, job: int) -> FileJob:
        """Cancels a job and waits for its end, 10 s at most; it may have been complete."""
        return self._call("job.cancel", _job, export=export, job=job)

    def _call[Result](
        self, method: str, read: Callable[[dict[str, Any]], Result], timeout_s: float = _WAIT_S, **parameters: Any
    ) -> Result:
        try:
            answer = json_rpc.request(self._path, method, parameters, timeout_s)
        except (OSError, ValueError) as error:
            raise GaneshaUnreachableError(f"the NFS server does not answer at {self._path}: {error}") from error
        try:
            if "error" not in answer:
                return read(answer["result"])
            data = answer["error"].get("data") or {}
            refused = FileRefusedError(str(data.get("status", "fault")), str(answer["error"]["message"]), data.get("field"))
        except (KeyError, TypeError, AttributeError) as error:
            raise GaneshaUnreachableError(f"the NFS server's answer at {self._path} is none: {error!r}") from error
        raise refused


def _job(response: dict[str, Any]) -> FileJob:
    names = ("job", "state", "status", "reason", "total_bytes", "done_bytes", "cloned_bytes", "copied_bytes", "hole_bytes")
    return FileJob(fallback_bytes=dict(response["fallback_bytes"]), **{name: response[name] for name in names})
