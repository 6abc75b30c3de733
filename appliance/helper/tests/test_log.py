# SPDX-License-Identifier: Apache-2.0
"""The helper's log in files and in memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance import logs
from appliance.helper.log import FileLog, MemoryLog, start

_log = logging.getLogger("zvaai-helper")


@pytest.fixture(autouse=True)
def handlers_removed() -> Iterator[None]:
    """Removes the handlers of the test."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(level)
    started_anew(before)


def started_anew(before: list[logging.Handler]) -> None:
    """Removes what another process would not have."""
    root = logging.getLogger()
    for handler in set(root.handlers).difference(before):
        root.removeHandler(handler)
        handler.close()


def messages(log: FileLog | MemoryLog) -> list[str]:
    return [json.loads(line)["message"] for line in log.log_lines()]


def test_it_outlives_the_helper(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    first = start(tmp_path / "logs")
    assert isinstance(first, FileLog)
    _log.info("one")
    started_anew(before)
    second = start(tmp_path / "logs")
    _log.info("two")
    assert isinstance(second, FileLog) and messages(second) == ["one", "two"]
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "logs").iterdir()} == {0o600}


def test_the_newest_are_retained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 2000)
    log = start(tmp_path)
    for number in range(1000):
        _log.info("line %d", number)
    assert isinstance(log, FileLog)
    lines = messages(log)
    assert lines == [f"line {number}" for number in range(1000 - len(lines), 1000)] and 20 < len(lines) < 200
    assert len(list(tmp_path.iterdir())) == logs.FILES


def test_without_a_writable_file_it_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    log = start(tmp_path / "logs")
    _log.info("line")
    assert isinstance(log, MemoryLog) and [line.rpartition(" ")[2] for line in log.log_lines()][-1:] == ["line"]
