# SPDX-License-Identifier: Apache-2.0
"""The helper's latest log entries. The complete log is in the journal, which only root can read."""

import logging
from collections import deque
from pathlib import Path

from appliance import logs
from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.log import Log

LINES = 2000
LONGEST_LINE = 4096
"""Characters, in memory."""
_NAME = "helper"


class MemoryLog(logging.Handler, Log):
    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=LINES)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record)[:LONGEST_LINE])

    def log_lines(self) -> list[str]:
        self.acquire()
        try:
            return list(self._lines)
        finally:
            self.release()


class FileLog(Log):
    """Log in files like the worker's (appliance.logs), including earlier helper processes."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError."""
        self._directory = directory
        self._handler = logs.to_files(directory, _NAME)

    def log_lines(self) -> list[str]:
        self._handler.acquire()  # no rotation meanwhile
        try:
            return logs.of_files(self._directory, _NAME)
        except OSError as problem:
            raise UnexpectedFailure("log_lines", str(problem)) from problem
        finally:
            self._handler.release()


def start(directory: Path | None) -> Log:
    """Starts logging to files in a folder, or to memory without a writable folder."""
    if directory is not None:
        try:
            return FileLog(directory)
        except OSError as problem:
            logging.error("cannot log to %s: %s", directory, problem)
    log = MemoryLog()
    logging.getLogger().addHandler(log)
    return log
