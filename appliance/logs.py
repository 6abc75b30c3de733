# SPDX-License-Identifier: Apache-2.0
"""Logs as JSON lines, on standard error for the journal.

Each entry has the identifier of its request, which the API creates and passes to worker and helper. Entries of a running job have
`job-` and its identifier; its creation belongs to the request.
"""

import contextvars
import datetime
import json
import logging
import os
import re
import sys

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
