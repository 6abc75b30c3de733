# SPDX-License-Identifier: Apache-2.0
"""The only module that runs programs as root: zfs, zpool, lsblk, udevadm, smartctl, systemctl.

Fixed absolute paths, a fixed environment, no shell, a time limit, bounded output. `messages`
converts error messages to ZfsErrors.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from appliance.zfs import leftover
from appliance.zfs.errors import EngineUnavailable, Timeout, UnexpectedFailure

ZFS, ZPOOL, LSBLK, UDEVADM = "/usr/sbin/zfs", "/usr/sbin/zpool", "/usr/bin/lsblk", "/usr/bin/udevadm"
SMARTCTL, SYSTEMCTL = "/usr/sbin/smartctl", "/usr/bin/systemctl"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "ZFS_COLOR": ""}
MAX_OUTPUT_BYTES = 256 << 20
"""Limit of a program's output: 10,000 datasets with all properties are about 60 MB."""
MAX_COMPLAINT_BYTES = 64 << 10
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    output: bytes
    complaint: str


def run(words: Sequence[str], *, seconds: float, stdin: bytes = b"") -> Result:
    """Runs a program. Raises Timeout; EngineUnavailable if it is missing; UnexpectedFailure for too much output."""
    what = " ".join(words[:2])
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )
    except OSError as problem:
        raise EngineUnavailable(f"{words[0]}: {problem.strerror}") from problem
    except ValueError as problem:  # a zero byte
        raise UnexpectedFailure(what, str(problem)) from problem
    try:
        output, complaint = _read(process, what, stdin, seconds)
    except BaseException:
        _kill(process)
        if process.poll() is None:
            leftover.add(lambda: process.poll() is not None)
        raise
    return Result(process.returncode, output, complaint)


def _read(process: subprocess.Popen[bytes], what: str, stdin: bytes, seconds: float) -> tuple[bytes, str]:
    assert process.stdin and process.stdout and process.stderr
    until = time.monotonic() + seconds
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(stdin)  # a key: less than a pipe holds
        process.stdin.close()
    parts: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    limits = {process.stdout.fileno(): MAX_OUTPUT_BYTES, process.stderr.fileno(): MAX_COMPLAINT_BYTES}
    with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
        for descriptor in parts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(max(0.0, until - time.monotonic())):
                part = os.read(key.fd, 1 << 20)
                if not part:
                    selector.unregister(key.fd)
                    continue
                limits[key.fd] -= len(part)
                if limits[key.fd] < 0:
                    raise UnexpectedFailure(what, "its output is beyond all bounds")
                parts[key.fd].append(part)
            if time.monotonic() >= until:
                raise Timeout(what, seconds)
        first, second = (b"".join(part) for part in parts.values())
    try:
        process.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Timeout(what, seconds) from None
    return first, second.decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills it and its children. A program that waits in the kernel for a suspended pool ends only after the pool's return."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)


def json_of(output: bytes, what: str) -> Json:
    """A program's JSON output; empty without output. Raises UnexpectedFailure."""
    if not output.strip():
        return {}
    try:
        document = json.loads(output)
    except ValueError as problem:
        raise UnexpectedFailure(what, f"no JSON: {problem}") from problem
    if not isinstance(document, dict):
        raise UnexpectedFailure(what, "no JSON object")
    return cast(Json, document)
