"""The command `vaai-nas`, and the program of vaai_nas.x in raw bytes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ganesha import FSAL_LIBRARY
from support.onc_rpc import Reader, RpcConnection, User, opaque, port_of

COMMAND = FSAL_LIBRARY.parent.parent / "client" / "vaai-nas"
PROGRAM, VERSION = 0x2A564E53, 1
NULL, CAPABILITIES, CLONE, RESERVE, STATISTICS, JOB_STATUS, JOB_LIST, JOB_CANCEL = range(8)
WAITING, RUNNING, COMPLETE, FAILED = range(4)


def vaai_nas(*words: str | Path, user: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command; as another user from a place that everybody can read."""
    with tempfile.TemporaryDirectory() as directory:
        as_user: list[str] = []
        command, environment = COMMAND, dict(os.environ)
        if user:
            as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            Path(directory).chmod(0o755)
            command = Path(shutil.copy(COMMAND, directory))
            shutil.copy(COMMAND.parent / "libvaainas.so.1", directory)
            environment["LD_LIBRARY_PATH"] = directory
        return subprocess.run(
            [*as_user, command, *words], check=False, capture_output=True, text=True, timeout=300, env=environment
        )


@dataclass(frozen=True)
class Job:
    """struct vaai_job."""

    id: int
    request_id: bytes
    state: int
    error: int
    total: int
    done: int
    cloned: int
    copied: int
    milliseconds: int
    host: str
    name: str
    reason: str


def _job(reader: Reader) -> Job:
    numbers = (reader.uint64(), reader.take(16), reader.uint32(), reader.uint32())
    sizes = (reader.uint64(), reader.uint64(), reader.uint64(), reader.uint64(), reader.uint32())
    return Job(*numbers, *sizes, reader.opaque().decode(), reader.opaque().decode(), reader.opaque().decode())


class ProgramError(Exception):
    """A vaai_error."""

    def __init__(self, error: int, reason: str) -> None:
        super().__init__(f"vaai_error {error}: {reason}")
        self.error = error
        self.reason = reason


def clone_arguments(
    source: bytes,
    destination: bytes,
    name: str | bytes = "",
    *,
    request_id: bytes = bytes(16),
    fast: bool = False,
    guarded: bool = False,
    dry_run: bool = False,
    span: tuple[int, int, int] | None = None,
    wait_ms: int = 10_000,
) -> bytes:
    """vaai_clone_arguments; `span` is source offset, destination offset, length."""
    text = name.encode() if isinstance(name, str) else name
    flags = struct.pack(">4I", fast, guarded, dry_run, span is not None)
    return (
        request_id
        + opaque(source)
        + opaque(destination)
        + opaque(text)
        + flags
        + struct.pack(">3QI", *(span or (0, 0, 0)), wait_ms)
    )


class Program:
    """Calls of the program."""

    def __init__(self, user: User | None = None) -> None:
        self.connection = RpcConnection(port_of(PROGRAM, VERSION), user)

    def raw(self, procedure: int, arguments: bytes = b"") -> Reader:
        """Any call. Raises RpcError."""
        return Reader(self.connection.call(PROGRAM, VERSION, procedure, arguments))

    def _checked(self, procedure: int, arguments: bytes, *, reason: bool = True) -> Reader:
        reader = self.raw(procedure, arguments)
        error = reader.uint32()
        if error:
            raise ProgramError(error, reader.opaque().decode() if reason else "")
        return reader

    def capabilities(self, handle: bytes) -> tuple[bool, ...]:
        """Clone, fast clone, reserve, statistics, unique exact."""
        reader = self._checked(CAPABILITIES, opaque(handle), reason=False)
        return tuple(bool(reader.uint32()) for _ in range(5))

    def clone(self, arguments: bytes) -> Job:
        """Starts a clone. With a `wait_ms` its end is waited for, longer than the server does at a time."""
        job = _job(self._checked(CLONE, arguments))
        reader = Reader(arguments)
        reader.take(16)
        reader.opaque()
        destination, waits = reader.opaque(), arguments[-4:] != bytes(4)
        while waits and job.state in (WAITING, RUNNING):
            job = self.job(destination, job.id, 10_000)
        return job

    def statistics(self, handle: bytes, procedure: int = STATISTICS) -> tuple[int, int, int, bool, int]:
        """Total, allocated, unique, whether exact, reserved."""
        reader = self._checked(procedure, opaque(handle))
        return reader.uint64(), reader.uint64(), reader.uint64(), bool(reader.uint32()), reader.uint64()

    def job(self, handle: bytes, number: int, wait_ms: int = 0) -> Job:
        """A job by its id."""
        return _job(self._checked(JOB_STATUS, opaque(handle) + struct.pack(">QI", number, wait_ms)))

    def jobs(self, handle: bytes) -> list[Job]:
        """The export's jobs."""
        reader = self._checked(JOB_LIST, opaque(handle), reason=False)
        jobs = [_job(reader) for _ in range(reader.uint32())]
        reader.end()
        return jobs

    def cancel(self, destination: bytes, number: int) -> Job:
        """Cancels a job."""
        return _job(self._checked(JOB_CANCEL, opaque(destination) + struct.pack(">Q", number)))


def ask_control_socket(path: Path, *lines: bytes) -> list[Any]:
    """What the control socket answers to lines, whatever they are."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(path))
        connection.sendall(b"".join(line + b"\n" for line in lines))
        with connection.makefile("rb") as answers:
            return [json.loads(answers.readline()) for _ in lines]
