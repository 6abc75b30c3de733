# SPDX-License-Identifier: Apache-2.0
"""The server's journal: entries of our units and services, and what the kernel says of OpenZFS, by journalctl(1)."""

import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from appliance import decoding
from appliance.domain.errors import UnavailableError

COMMAND = ["journalctl", "--quiet", "--no-pager", "--all", "--reverse", "--output=json"]
KERNEL = "kernel"
Unit = Literal[
    "zvaai-target", "zvaai-worker", "zvaai-api", "zvaai-frontend", "zvaai-helper", "zvaai-mounts", "zvaai-setup",
    "zvaai-login-screen", "zvaai-frontend-reload", "zvaai-frontend-restart",
    "zvol_clone", "nfs-ganesha", "zfs-zed", "nginx", "kernel",
]  # fmt: skip
Priority = Literal["critical", "error", "warning", "info", "debug"]
_PRIORITIES: dict[Priority, int] = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""The largest number of syslog(3) that each has."""
CURSOR = re.compile(r"s=[0-9a-f]{1,32};i=[0-9a-f]{1,16};b=[0-9a-f]{1,32};m=[0-9a-f]{1,16};t=[0-9a-f]{1,16};x=[0-9a-f]{1,16}")
SEARCH_S = 10.0
_FIELDS = "MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,_TRANSPORT,_PID"
_OF_ZFS = re.compile(r"\b(zfs|spl|zpool|zvol\w*|zio|zil|vdev|pool)\b|PANIC at|VERIFY", re.IGNORECASE)
_LONGEST = 8192


@dataclass(frozen=True)
class Entry:
    """An entry. `cursor` is its place in the journal, `at` in seconds since 1970. `request`: see appliance.logs."""

    cursor: str
    at: float
    unit: str
    priority: Priority
    text: str
    request: str | None


@dataclass(frozen=True, kw_only=True)
class Filter:
    """`priority` includes more severe ones. `text` is in the entry, in any case of letters. `after` is a cursor."""

    unit: Unit | None = None
    priority: Priority | None = None
    since: float | None = None
    until: float | None = None
    text: str | None = None
    after: str | None = None


def newest(chosen: Filter, limit: int) -> list[Entry]:
    """So many entries at most, newest first. Raises UnavailableError, also if the search takes too long."""
    try:
        with subprocess.Popen([*COMMAND, *_arguments(chosen)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            over = threading.Timer(SEARCH_S, process.kill)
            over.start()
            try:
                assert process.stdout is not None and process.stderr is not None
                entries: list[Entry] = []
                for entry in _entries(process.stdout):
                    if len(entries) == limit or (chosen.since is not None and entry.at < chosen.since):
                        return entries
                    entries.append(entry)
                if over.finished.is_set():
                    raise UnavailableError(f"the search took more than {SEARCH_S:.0f} s; select a unit or a shorter time")
                if said := process.stderr.read().decode(errors="replace").strip():
                    raise UnavailableError(f"the journal cannot be read: {said}"[:500])
                return entries
            finally:
                over.cancel()
                process.kill()
    except (OSError, msgspec.MsgspecError) as error:
        raise UnavailableError(f"the journal cannot be read: {error}") from error


def _arguments(chosen: Filter) -> Iterator[str]:
    yield f"--output-fields={_FIELDS}"
    if chosen.priority is not None:
        yield f"--priority={_PRIORITIES[chosen.priority]}"
    if chosen.text:
        yield from (f"--grep={re.escape(chosen.text)}", "--case-sensitive=false")
    if chosen.after is not None:  # no other time can be given then, and it is before `until`
        yield f"--after-cursor={chosen.after}"
    elif chosen.until is not None:
        yield f"--until=@{chosen.until:.6f}"
    for number, unit in enumerate(get_args(Unit) if chosen.unit is None else (chosen.unit,)):
        yield from ("+",) if number else ()
        if unit == KERNEL:
            yield "_TRANSPORT=kernel"
        else:  # also what systemd says of it
            yield from (f"_SYSTEMD_UNIT={unit}.service", "+", f"UNIT={unit}.service", "_PID=1")


def _entries(lines: Any) -> Iterator[Entry]:
    for line in lines:
        fields = decoding.decode(line, dict[str, Any])
        text, request = _text(fields.get("MESSAGE"))
        unit = str(fields.get("UNIT") or fields.get("_SYSTEMD_UNIT")).removesuffix(".service")
        if fields.get("_TRANSPORT") == "kernel":
            unit = KERNEL
            if not _OF_ZFS.search(text):
                continue
        number = int(fields.get("PRIORITY") or 6)
        priority: Priority = next((name for name, largest in _PRIORITIES.items() if number <= largest), "debug")
        yield Entry(fields["__CURSOR"], int(fields["__REALTIME_TIMESTAMP"]) / 1e6, unit, priority, text[:_LONGEST], request)


def _text(message: object) -> tuple[str, str | None]:
    """Of our own processes, the message without its JSON, and its request. What is not UTF-8 is a list of bytes."""
    text = bytes(message).decode(errors="replace") if isinstance(message, list) else str(message or "")
    if text.startswith("{"):
        with contextlib.suppress(msgspec.MsgspecError):
            fields = decoding.decode(text, dict[str, Any])
            if isinstance(fields.get("message"), str):
                shown = "\n".join(str(fields[name]) for name in ("message", "exception") if name in fields)
                return shown, str(fields["request"]) if "request" in fields else None
    return text, None
