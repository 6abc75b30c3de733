"""The helper's newest log entries, in memory: its whole log is root's, in the journal."""

from __future__ import annotations

import logging
from collections import deque

from appliance.zfs.log import Log

LINES = 2000
LONGEST_LINE = 4096


class Kept(logging.Handler, Log):
    """Keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """One more."""
        self._lines.append(self.format(record)[:LONGEST_LINE])

    def log_lines(self) -> list[str]:
        """See Log."""
        self.acquire()
        try:
            return list(self._lines)
        finally:
            self.release()
