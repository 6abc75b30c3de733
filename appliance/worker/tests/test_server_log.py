# SPDX-License-Identifier: Apache-2.0
"""The server's journal, in a real one."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from simulators.appliance import Appliance
from support import journal
from support.journal import entry
from support.programs import REPOSITORY

from appliance.worker import server_log

AT = 1_795_000_000.0


def of_unit(seconds: float, unit: str, message: str | bytes, priority: int = 6) -> bytes:
    fields = {"_SYSTEMD_UNIT": f"{unit}.service", "_TRANSPORT": "stdout", "PRIORITY": priority, "_PID": 77}
    return entry(AT + seconds, message, **fields)


def of_kernel(seconds: float, message: str) -> bytes:
    return entry(AT + seconds, message, _TRANSPORT="kernel", PRIORITY=4)


ENTRIES = [
    of_unit(0, "zvaai-worker", json.dumps({"level": "info", "message": "the job of vmfs1 ended", "from": "worker"})),
    of_unit(1, "zvaai-target", "WARN targetd: session of esx1 ended", 4),
    of_unit(2, "sshd", "nobody here may read this", 3),
    of_kernel(3, "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure"),
    of_kernel(4, "usb 1-1: new device"),
    of_unit(5, "nfs-ganesha", b"name of a file: \xff\xfe", 3),
    entry(AT + 6, "Started zvaai-worker.service.", UNIT="zvaai-worker.service", _PID=1, _TRANSPORT="journal", PRIORITY=6),
    entry(AT + 7, "pretends to be of zvaai-worker", UNIT="zvaai-worker.service", _PID=99, _TRANSPORT="journal", PRIORITY=6),
    of_unit(8, "zvaai-api", json.dumps({"message": "POST (50%): 500", "exception": "Traceback\nValueError"}), 3),
]
TEXTS = [
    "POST (50%): 500\nTraceback\nValueError", "Started zvaai-worker.service.", "name of a file: \ufffd\ufffd",
    "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure", "WARN targetd: session of esx1 ended",
    "the job of vmfs1 ended",
]  # fmt: skip
"""Of those that are for administrators, newest first."""


@pytest.fixture(scope="module", autouse=True)
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("journal")
    journal.write(folder, ENTRIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_log, "COMMAND", [*server_log.COMMAND, f"--directory={folder}"])
        yield folder


def texts(shared: Appliance, **query: object) -> list[str]:
    return [item["text"] for item in read(shared, **query)["items"]]


def read(shared: Appliance, **query: object) -> Any:
    answer = shared.application.test_client().get(
        "/api/v1/logs", query_string=query, headers={"Authorization": f"Bearer {shared.tokens['admin']}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json


def test_it_has_our_units_newest_first_and_no_others(shared: Appliance) -> None:
    assert texts(shared) == TEXTS
    newest = read(shared)["items"][0]
    assert (newest["unit"], newest["priority"], newest["at"]) == ("zvaai-api", "error", "2026-11-18T11:06:48.000Z")
    assert {item["unit"] for item in read(shared)["items"]} == {
        "zvaai-api", "zvaai-worker", "nfs-ganesha", "kernel", "zvaai-target",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"unit": "zvaai-worker"}, [1, 5]),
        ({"unit": "kernel"}, [3]),
        ({"priority": "error"}, [0, 2]),
        ({"priority": "warning"}, [0, 2, 3, 4]),
        ({"unit": "zvaai-target", "priority": "error"}, []),
        ({"since": AT + 3}, [0, 1, 2, 3]),
        ({"until": AT + 3}, [3, 4, 5]),
        ({"since": AT + 1, "until": AT + 3}, [3, 4]),
        ({"text": "VMFS1"}, [5]),
        ({"text": "(50%)"}, [0]),
        ({"text": ".*"}, []),
        ({"text": "--directory=/"}, []),
    ],
)
def test_filters(shared: Appliance, query: dict[str, object], shown: list[int]) -> None:
    assert texts(shared, **query) == [TEXTS[number] for number in shown]


@pytest.mark.parametrize("query", [{}, {"since": AT + 1}, {"until": AT + 6}, {"priority": "warning"}])
def test_pages_have_each_entry_once(shared: Appliance, query: dict[str, object]) -> None:
    whole, texts_of_pages, cursor = texts(shared, **query), [], None
    while True:
        page = read(shared, limit=2, **query, **({"cursor": cursor} if cursor else {}))
        assert 0 < len(page["items"]) <= 2
        texts_of_pages += [item["text"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert texts_of_pages == whole


def test_it_is_for_administrators(shared: Appliance) -> None:
    for role in ("viewer", "operator"):
        assert shared.request("GET", "/logs", role=role).status_code == 403


def test_a_cursor_is_one_of_the_journal(shared: Appliance) -> None:
    for cursor in ("LS1maWxlPS9ldGMvcGFzc3dk", "AAAA", "x"):
        assert shared.request("GET", f"/logs?cursor={cursor}").status_code == 422


def test_a_search_that_takes_too_long_is_ended(shared: Appliance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "journalctl"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(server_log, "COMMAND", [str(slow)])
    monkeypatch.setattr(server_log, "SEARCH_S", 0.1)
    assert shared.request("GET", "/logs").status_code == 503
    monkeypatch.setattr(server_log, "COMMAND", [str(tmp_path / "absent")])
    assert shared.request("GET", "/logs").status_code == 503


def test_each_of_our_units_is_known() -> None:
    units = {
        file.stem for folder in ("systemd", "dkms/zvol_clone") for file in (REPOSITORY / "packaging" / folder).glob("*.service")
    }
    assert units <= set(get_args(server_log.Unit))


@pytest.mark.parametrize(("level", "number"), [(logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6)])
def test_our_processes_tell_the_journal_their_priority(level: int, number: int) -> None:
    code = f"import logging; from appliance.logs import to_standard_error; to_standard_error(); logging.log({level}, 'said')"
    for environment, begin in (({"JOURNAL_STREAM": "9:9"}, f"<{number}>{{"), ({}, "{")):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        assert done.stderr.startswith(begin) and json.loads(done.stderr.removeprefix(f"<{number}>"))["message"] == "said"
