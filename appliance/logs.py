"""Logs as JSON, a line an entry, on standard error: for the journal."""

from __future__ import annotations

import json
import logging
import sys


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry = {"level": record.levelname.lower(), "from": record.name, "message": record.getMessage()}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def to_standard_error() -> None:
    """From now on, for this process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
