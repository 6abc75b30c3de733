# SPDX-License-Identifier: Apache-2.0
"""Client of the VAAI-NAS service's control socket (docs/vaai_nas.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from appliance import decoding
from appliance.dataplane import json_rpc
from appliance.dataplane.ganesha import GaneshaUnreachableError

_BYTES = ("total", "allocated", "unique", "snapshot", "deduplicated", "size", "admitted", "shared")
_WAIT_S = 30.0
"""Longer than the 5 s that the service waits for the end of a cancelled clone."""


@dataclass(eq=False)
class FileRefusedError(Exception):
    """The service refuses; nothing was changed. `status` is one of ganesha_fsal/vaai_nas/status.h."""

    status: str
    reason: str
    field: str | None = None

    def __str__(self) -> str:
        return self.reason


def _in_bytes(name: str) -> str:
    """Name in a response of a field with a number of bytes."""
    return f"{name}_bytes" if name in _BYTES else name


class ListedFile(msgspec.Struct, frozen=True, rename=_in_bytes):
    """A VMDK file that holds data. Sizes in bytes; `allocated` may lack writes of the last seconds."""

    path: str
    total: int
    allocated: int


class FilePage(msgspec.Struct, frozen=True):
    files: tuple[ListedFile, ...]
    more: bool
    complete: bool
    """False if files were skipped: too deep, too many, or an undecodable name."""


class FileStatistics(msgspec.Struct, frozen=True, rename=_in_bytes):
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


class ExportSpace(msgspec.Struct, frozen=True, rename=_in_bytes):
    thick: bool
    size: int
    """Size of a thick export, the limit for the sum of its files."""
    admitted: int
    """Sum over its files of the size, rounded up to the record size, and 16 KiB."""
    counting: bool
    """The daemon is still counting: a file can grow by 1 MiB at a time."""
    problem: str
    """Why the count may be wrong; "" if it is correct."""


class SharedSpace(msgspec.Struct, frozen=True, rename=_in_bytes):
    """Bytes of an export's files, by the pool's block reference table."""

    complete: bool
    """False: the count is running."""
    shared: int
    """With any other file or volume."""
    deduplicated: int


class FileJob(msgspec.Struct, frozen=True):
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
    fallback_bytes: Mapping[str, int] = {}

    @property
    def active(self) -> bool:
        return self.state in ("waiting", "running")


class _Service(msgspec.Struct):
    problem: str


class VaaiNas:
    """The files of exports, by the daemon. Each call raises GaneshaUnreachableError, and FileRefusedError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def problem(self) -> str:
        """Why hosts get no VAAI-NAS, and which package to install; "" if they get it."""
        return self._call("service.get", _Service).problem

    def counters(self) -> dict[str, Any]:
        """Offload counters since the daemon's start, by `exports` and `hosts`."""
        try:
            return self._call("statistics.get", dict[str, Any])
        except FileRefusedError as error:
            raise GaneshaUnreachableError(f"the NFS server's counters can't be read at {self._path}: {error}") from error

    def files(self, export: int, after: str, limit: int) -> FilePage:
        """Files whose path is after `after`, 500 at most."""
        return self._call("files.list", FilePage, export=export, after=after, limit=limit)

    def statistics(self, export: int, path: str, timeout_s: float = _WAIT_S) -> FileStatistics:
        return self._call("file.statistics", FileStatistics, timeout_s, export=export, path=path)

    def space(self, export: int) -> ExportSpace:
        return self._call("space.get", ExportSpace, export=export)

    def shared(self, export: int, *, restart: bool = False) -> SharedSpace:
        """Shared bytes of its files counted so far; `restart` starts a new count in the background."""
        return self._call("space.shared", SharedSpace, export=export, restart=restart)

    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool) -> FileJob:
        """Starts a clone, or finds the job of the same `request` (32 hexadecimal digits)."""
        parameters: dict[str, Any] = {"source": source, "destination": destination, "request_id": request, "fast": fast}
        return self._call("clone.start", FileJob, export=export, **parameters)

    def job(self, export: int, job: int) -> FileJob:
        """State of a job; `interrupted` or `not_found` if the daemon does not know it."""
        return self._call("job.get", FileJob, export=export, job=job)

    def cancel(self, export: int, job: int) -> FileJob:
        """Cancels a job and waits for its end, 5 s at most; it may have been complete."""
        return self._call("job.cancel", FileJob, export=export, job=job)

    def _call[Result](self, method: str, result: type[Result], timeout_s: float = _WAIT_S, **parameters: Any) -> Result:
        try:
            answer = json_rpc.request(self._path, method, parameters, timeout_s)
        except (OSError, ValueError) as error:
            raise GaneshaUnreachableError(f"the NFS server does not answer at {self._path}: {error}") from error
        try:
            if "error" not in answer:
                return decoding.convert(answer["result"], result)
            data = answer["error"].get("data") or {}
            refused = FileRefusedError(str(data.get("status", "fault")), str(answer["error"]["message"]), data.get("field"))
        except (KeyError, TypeError, AttributeError, msgspec.ValidationError) as error:
            raise GaneshaUnreachableError(f"the NFS server's answer at {self._path} is none: {error!r}") from error
        raise refused
