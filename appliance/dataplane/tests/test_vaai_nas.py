# SPDX-License-Identifier: Apache-2.0
"""Any response of the control socket is a result, a known refusal, or counts as no response."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.vaai_nas import ExportSpace, FileRefusedError, SharedSpace, VaaiNas


@contextmanager
def answering(path: Path, line: bytes) -> Iterator[list[Any]]:
    """A socket that answers each request with this line; the requests."""
    requests: list[Any] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _address = listener.accept()
            with connection, connection.makefile("rb") as lines:
                requests.append(json.loads(lines.readline()))
                connection.sendall(line)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield requests
        finally:
            thread.join(30)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"[]\n",
        b"[1]\n",
        b'"x"\n',
        b"{}\n",
        b'{"result": 5}\n',
        b'{"result": {"files": [1]}}\n',
        b'{"error": 7}\n',
        b"\xff\n",
    ],
)
def test_an_odd_answer_is_none(tmp_path: Path, line: bytes) -> None:
    with answering(tmp_path / "s", line), pytest.raises(GaneshaUnreachableError):
        VaaiNas(tmp_path / "s").files(1, "", 5)


def test_a_refusal_names_the_obstacle(tmp_path: Path) -> None:
    error = {"code": -32000, "message": "taken", "data": {"status": "exists", "field": "destination"}}
    with answering(tmp_path / "s", json.dumps({"error": error}).encode() + b"\n") as requests:
        with pytest.raises(FileRefusedError) as refused:
            VaaiNas(tmp_path / "s").clone(1, "ä", "b", request="0" * 32, fast=True)
        assert (refused.value.status, refused.value.field, str(refused.value)) == ("exists", "destination", "taken")
    parameters = {"export": 1, "source": "ä", "destination": "b", "request_id": "0" * 32, "fast": True}
    assert (requests[0]["method"], requests[0]["params"]) == ("clone.start", parameters)


def test_space_of_an_export_is_read(tmp_path: Path) -> None:
    response = {"thick": True, "size_bytes": 1 << 40, "admitted_bytes": 5, "counting": True, "problem": "a walk failed"}
    with answering(tmp_path / "s", json.dumps({"result": response}).encode() + b"\n") as requests:
        assert VaaiNas(tmp_path / "s").space(7) == ExportSpace(True, 1 << 40, 5, True, "a walk failed")
    assert (requests[0]["method"], requests[0]["params"]) == ("space.get", {"export": 7})


def test_shared_bytes_of_an_export_are_read(tmp_path: Path) -> None:
    response = {"complete": True, "shared_bytes": 3, "deduplicated_bytes": 1}
    with answering(tmp_path / "s", json.dumps({"result": response}).encode() + b"\n") as requests:
        assert VaaiNas(tmp_path / "s").shared(7, restart=True) == SharedSpace(True, 3, 1)
    assert (requests[0]["method"], requests[0]["params"]) == ("space.shared", {"export": 7, "restart": True})


def test_a_host_without_answers_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(GaneshaUnreachableError):
        VaaiNas(path).space(1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(GaneshaUnreachableError):
            VaaiNas(path).statistics(1, "a", 0.1)
