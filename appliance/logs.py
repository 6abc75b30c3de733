# SPDX-License-Identifier: Apache-2.0
"""Logs as JSON lines: on standard error for the journal, and in a few files for the support bundle.

Each entry has the identifier of its request, which the API creates and passes to worker and helper. Entries of a running job have
`job-` and its identifier; its creation belongs to the request.
"""

import contextlib
import contextvars
import datetime
import json
import logging
import logging.handlers
import os
import re
import sys
from pathlib import Path

FILE_BYTES, FILES = 4 << 20, 5
"""Size of each log file, and how many a process has."""
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))
_REQUEST = re.compile(r"[A-Za-z0-9-]{8,64}")
_request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="")


def of_request(identifier: object) -> None:
    """Sets the request of this thread's entries; none for an invalid identifier."""
    _request.set(identifier if isinstance(identifier, str) and _REQUEST.fullmatch(identifier) else "")


def request() -> str:
    return _request.get()


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        entry = {"at": at, "level": record.levelname.lower(), "from": record.name, "message": record.getMessage()}
        if belongs := request():
            entry["request"] = belongs
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class _Prioritised(_Lines):
    """With its priority before it, as the journal reads it (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next(number for least, number in _PRIORITIES if record.levelno >= least)
        return f"<{priority}>{super().format(record)}"


def to_standard_error() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Prioritised() if "JOURNAL_STREAM" in os.environ else _Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def to_files(directory: Path, name: str, mode: int = 0o600) -> logging.Handler:
    """Also there, in files of that mode; what writes them. Raises OSError."""
    directory.mkdir(mode=0o700 if mode == 0o600 else 0o750, parents=True, exist_ok=True)
    file = directory / f"{name}.log"
    file.touch(mode=mode)
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="ascii")
    handler.setFormatter(_Lines())
    logging.getLogger().addHandler(handler)
    return handler


def of_files(directory: Path, name: str) -> list[str]:
    """Lines of those that `to_files` has written, the oldest first. Raises OSError."""
    lines = []
    for number in reversed(range(FILES)):
        with contextlib.suppress(FileNotFoundError):
            lines += Path(directory, f"{name}.log{f'.{number}' if number else ''}").read_text(errors="replace").splitlines()
    return lines
