# SPDX-License-Identifier: Apache-2.0
"""Client of the VAAI-NAS service's control socket (docs/vaai_nas.md): JSON-RPC 2.0, a message a line."""

from __future__ import annotations

import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from appliance.dataplane.ganesha import GaneshaUnreachableError

_LONGEST_ANSWER = 64 << 20
_WAIT_S = 30.0
"""For the end of a clone that is cancelled it waits 10 s."""
_Told = TypeVar("_Told")


@dataclass(eq=False)
class FileRefusedError(Exception):
    """The service does not do it; nothing was changed. `status` is one of ganesha_fsal/vaai_nas/status.h."""

    status: str
    reason: str
    field: str | None = None
    """The parameter that is in the way."""

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class FoundFile:
    """A VMDK file that holds data. Sizes in bytes; `allocated` may lack what was written in the last seconds."""

    path: str
    total: int
    allocated: int


@dataclass(frozen=True)
class FilePage:
    """Some of an export's, by the bytes of their paths."""

    files: tuple[FoundFile, ...]
    more: bool
    complete: bool
    """False where something was not looked at: too deep, too many, or a name that is no text."""


@dataclass(frozen=True)
class FileStatistics:
    """What a file takes, in bytes; `unique` nothing else in the pool shares. Without `unique_exact` an upper bound."""

    total: int
    allocated: int
    unique: int
    unique_exact: bool
    snapshot: int = 0
    """Of these, what a snapshot also holds."""
    deduplicated: int = 0
    as_of: float = 0.0
    """The moment that the figures are of, in seconds since 1970."""


@dataclass(frozen=True)
class ExportSpace:
    """What files of an export were admitted, in bytes."""

    thick: bool
    size: int
    """Of a thick one: its files grow to this together."""
    admitted: int
    """The sum over its files: the size, rounded up to the record size, and 16 KiB."""
    counting: bool
    """The daemon still counts: a file may grow by 1 MiB only."""
    problem: str
    """Why the count may be wrong; "" while it is right."""


@dataclass(frozen=True)
class SharedSpace:
    """Bytes of an export's files, by the pool's block reference table."""

    complete: bool
    """Else it still counts."""
    shared: int
    """With any other file or volume."""
    snapshot: int
    """Of these files, what a snapshot also holds."""
    deduplicated: int


@dataclass(frozen=True)
class FileJob:
    """A clone, how far it is, and how its bytes went."""

    job: int
    state: str
    """waiting, running, complete or failed."""
    status: str
    """Why it failed, as of FileRefusedError."""
    reason: str
    total_bytes: int
    done_bytes: int
    cloned_bytes: int = 0
    copied_bytes: int = 0
    hole_bytes: int = 0
    fallback_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("waiting", "running")


class FileControl(ABC):
    """The files of exports. Each call raises GaneshaUnreachableError, and FileRefusedError."""

    @abstractmethod
    def problem(self) -> str:
        """Why hosts get no VAAI-NAS, and which package to install; "" if they get it."""

    @abstractmethod
    def counters(self) -> dict[str, Any]:
        """What was offloaded since the daemon began, by `exports` and `hosts`."""

    @abstractmethod
    def files(self, export: int, after: str, limit: int) -> FilePage:
        """Those whose path is after `after`, 500 at most."""

    @abstractmethod
    def statistics(self, export: int, path: str, timeout_s: float = _WAIT_S) -> FileStatistics:
        """Of one."""

    @abstractmethod
    def space(self, export: int) -> ExportSpace:
        """What its files were admitted."""

    @abstractmethod
    def shared(self, export: int, *, restart: bool = False) -> SharedSpace:
        """What its files share, as far as it is counted; with `restart` it is counted anew, in the background."""

    @abstractmethod
    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool) -> FileJob:
        """Starts it, or finds what the same `request` (32 hexadecimal digits) has started."""

    @abstractmethod
    def job(self, export: int, job: int) -> FileJob:
        """As it is now. Status `interrupted` or `not_found` for one that the daemon does not know (any more)."""

    @abstractmethod
    def cancel(self, export: int, job: int) -> FileJob:
        """Waits for its end, for 10 s at most; it may have been complete."""


class VaaiNas(FileControl):
    """The daemon's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def problem(self) -> str:
        """See FileControl."""
        return self._call("service.get", lambda service: str(service["problem"]))

    def counters(self) -> dict[str, Any]:
        """See FileControl."""
        try:
            return self._call("statistics.get", lambda counted: {**counted})
        except FileRefusedError as error:
            raise GaneshaUnreachableError(f"the NFS server's counters can't be read at {self._path}: {error}") from error

    def files(self, export: int, after: str, limit: int) -> FilePage:
        """See FileControl."""

        def page(told: dict[str, Any]) -> FilePage:
            found = tuple(FoundFile(one["path"], one["total_bytes"], one["allocated_bytes"]) for one in told["files"])
            return FilePage(found, told["more"], told["complete"])

        return self._call("files.list", page, export=export, after=after, limit=limit)

    def statistics(self, export: int, path: str, timeout_s: float = _WAIT_S) -> FileStatistics:
        """See FileControl."""

        def read(told: dict[str, Any]) -> FileStatistics:
            sizes = {name: told[f"{name}_bytes"] for name in ("total", "allocated", "unique", "snapshot", "deduplicated")}
            return FileStatistics(unique_exact=told["unique_exact"], as_of=told["as_of"], **sizes)

        return self._call("file.statistics", read, timeout_s, export=export, path=path)

    def space(self, export: int) -> ExportSpace:
        """See FileControl."""

        def read(told: dict[str, Any]) -> ExportSpace:
            counted = bool(told["thick"]), told["size_bytes"], told["admitted_bytes"]
            return ExportSpace(*counted, bool(told["counting"]), str(told["problem"]))

        return self._call("space.get", read, export=export)

    def shared(self, export: int, *, restart: bool = False) -> SharedSpace:
        """See FileControl."""

        def read(told: dict[str, Any]) -> SharedSpace:
            return SharedSpace(
                bool(told["complete"]), *(told[f"{name}_bytes"] for name in ("shared", "snapshot", "deduplicated"))
            )

        return self._call("space.shared", read, export=export, restart=restart)

    def clone(self, export: int, source: str, destination: str, *, request: str, fast: bool) -> FileJob:
        """See FileControl."""
        asked: dict[str, Any] = {"source": source, "destination": destination, "request_id": request, "fast": fast}
        return self._call("clone.start", _job, export=export, **asked)

    def job(self, export: int, job: int) -> FileJob:
        """See FileControl."""
        return self._call("job.get", _job, export=export, job=job)

    def cancel(self, export: int, job: int) -> FileJob:
        """See FileControl."""
        return self._call("job.cancel", _job, export=export, job=job)

    def _call(self, method: str, read: Callable[[dict[str, Any]], _Told], timeout_s: float = _WAIT_S, **parameters: Any) -> _Told:
        answer = _ask(self._path, method, parameters, timeout_s)
        try:
            if "error" not in answer:
                return read(answer["result"])
            data = answer["error"].get("data") or {}
            refused = FileRefusedError(str(data.get("status", "fault")), str(answer["error"]["message"]), data.get("field"))
        except (KeyError, TypeError, AttributeError) as error:
            raise GaneshaUnreachableError(f"the NFS server's answer at {self._path} is none: {error!r}") from error
        raise refused


def _job(told: dict[str, Any]) -> FileJob:
    names = ("job", "state", "status", "reason", "total_bytes", "done_bytes", "cloned_bytes", "copied_bytes", "hole_bytes")
    return FileJob(fallback_bytes=dict(told["fallback_bytes"]), **{name: told[name] for name in names})


def _ask(path: Path, method: str, parameters: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(json.dumps(request, ensure_ascii=False).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline(_LONGEST_ANSWER))
        return dict(answer)
    except (OSError, ValueError, TypeError) as error:
        raise GaneshaUnreachableError(f"the NFS server does not answer at {path}: {error}") from error
