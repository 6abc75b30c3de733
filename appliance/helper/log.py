# SPDX-License-Identifier: Apache-2.0
"""The helper's newest log entries: its whole log is root's, in the journal."""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

from appliance import logs
from appliance.zfs.errors import UnexpectedFailure
from appliance.zfs.log import Log

LINES = 2000
LONGEST_LINE = 4096
"""In memory."""
_NAME = "helper"


class Kept(logging.Handler, Log):
    """In memory, of this process."""

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


class KeptInFiles(Log):
    """In files as the worker's (appliance.logs), of helpers before this one too."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError."""
        self._directory = directory
        self._handler = logs.to_files(directory, _NAME)

    def log_lines(self) -> list[str]:
        """See Log."""
        self._handler.acquire()  # no file is given another name meanwhile
        try:
            return logs.of_files(self._directory, _NAME)
        except OSError as problem:
            raise UnexpectedFailure("log_lines", str(problem)) from problem
        finally:
            self._handler.release()


def keep(directory: Path | None) -> Log:
    """From now on: in files of a folder, or in memory where there is none, or it can't be written."""
    if directory is not None:
        try:
            return KeptInFiles(directory)
        except OSError as problem:
            logging.error("the log is not kept in %s: %s", directory, problem)
    kept = Kept()
    logging.getLogger().addHandler(kept)
    return kept
