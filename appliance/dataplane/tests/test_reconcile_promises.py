"""What is told of other exports while the NFS server does not answer for one, and how often it is waited for."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.reconcile_promises import WantedPromises, reconcile, told
from appliance.dataplane.vaai_nas import NobodyListensError, Promises, VaaiNas
from appliance.dataplane.vaai_nas_simulator import VaaiNasSimulator

FOLLOWED = Promises(True, "possible", 0, "")


class _Server(VaaiNasSimulator):
    """Answers as `told` says, and keeps what it was asked."""

    def __init__(self, told: Callable[[int, bool], Promises]) -> None:
        super().__init__()
        self._told = told
        self.asked: list[tuple[int, bool]] = []

    def space(self, export: int, *, refresh: bool = False, timeout_s: float | None = None) -> Promises:
        self.asked.append((export, refresh))
        return self._told(export, refresh)


WANTED = {
    1: WantedPromises("a", "/a", thick=True, pool="slow"),
    2: WantedPromises("b", "/b", thick=True, pool="slow"),
    3: WantedPromises("c", "/c", thick=True, pool="well"),
}


def test_a_pool_that_is_slow_is_waited_for_once_and_no_other_is_told_of() -> None:
    def answer(export: int, refresh: bool) -> Promises:
        if export < 3:
            raise GaneshaUnreachableError("timed out")
        return FOLLOWED

    server = _Server(answer)
    assert [one.subject for one in reconcile(server, WANTED).failures] == ["a", "b"]
    assert server.asked == [(1, False), (3, False)]


def test_a_look_that_takes_long_keeps_no_other_from_being_told() -> None:
    def answer(export: int, refresh: bool) -> Promises:
        if refresh:
            raise GaneshaUnreachableError("timed out")
        return Promises(export == 3, "possible", 0, "")

    server = _Server(answer)
    outcome = reconcile(server, WANTED)
    assert [(one.subject, "does not follow" in one.text) for one in outcome.failures] == [("a", True), ("b", True)]
    assert server.asked == [(1, False), (1, True), (2, False), (3, False)] and outcome.differences == ()


def test_a_server_that_is_not_there_is_asked_once() -> None:
    def answer(export: int, refresh: bool) -> Promises:
        raise NobodyListensError("connection refused")

    server = _Server(answer)
    assert [one.subject for one in reconcile(server, WANTED).failures] == ["a", "b", "c"]
    assert server.asked == [(1, False)]
    assert told(server, [1, 2]) == {} and server.asked == [(1, False), (1, False)]


def test_waits_are_not_added_up_where_somebody_waits_for_all(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        first, *others = told(VaaiNas(path), [1, None, 2, 3], within_s=0.1).items()
        listener.settimeout(0)
        listener.accept()[0].close()
        with pytest.raises(BlockingIOError):
            listener.accept()  # the others were not asked for
    assert first[0] == 1 and "timed out" in str(first[1])
    assert others == [(export, "the NFS server takes too long to tell") for export in (2, 3)]


def test_one_that_is_slow_keeps_no_other_from_being_told() -> None:
    def answer(export: int, refresh: bool) -> Promises:
        if export == 1:
            raise GaneshaUnreachableError("timed out")
        return FOLLOWED

    assert told(_Server(answer), [1, 2]) == {1: "timed out", 2: FOLLOWED}
