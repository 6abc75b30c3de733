# SPDX-License-Identifier: Apache-2.0
"""What ran into its time limit and has not ended is told, until it has."""

from __future__ import annotations

import subprocess
import threading
from types import SimpleNamespace

import pytest

from appliance.zfs.errors import Timeout
from appliance.zfs.kernel import KernelEngine, commands
from appliance.zfs.kernel.late import LATE
from appliance.zfs.kernel.library import Library


def test_a_call_of_the_library() -> None:
    library, going_on = Library(0.05), threading.Event()
    library._loaded = SimpleNamespace(lzc_rollback_to=lambda *_: going_on.wait(30), lzc_exists=lambda *_: going_on.wait(30))
    with pytest.raises(Timeout):
        library.call("lzc_rollback_to", b"stuck/a", b"stuck/a@one")
    with pytest.raises(Timeout):  # reading can't come true
        library.call("lzc_exists", b"stuck/a")
    assert KernelEngine().unfinished("stuck") == ("lzc_rollback_to",) and LATE.of("stuc") == LATE.of("other") == ()
    going_on.set()
    for _ in range(1000):
        if not LATE.of("stuck"):
            return
        going_on.wait(0.01)
        threading.Event().wait(0.01)
    raise AssertionError("it has ended, and is told for ever")


def test_a_program_that_can_not_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits in the kernel: SIGKILL comes when it has left that."""
    left: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(commands, "_kill", left.append)
    with pytest.raises(Timeout):
        commands.run(("/bin/sh", "-c", "sleep 60", "waiting/a"), seconds=0.05)
    assert LATE.of("waiting") == ("-c",)
    (process,) = left
    process.kill()
    process.wait(10)
    assert LATE.of("waiting") == ()


def test_one_that_was_ended_is_over() -> None:
    with pytest.raises(Timeout):
        commands.run(("/bin/sh", "-c", "sleep 60", "ended/a"), seconds=0.05)
    assert LATE.of("ended") == ()
