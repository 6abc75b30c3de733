# SPDX-License-Identifier: Apache-2.0
"""What a process has left behind when it was killed is told by the next one, until it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from appliance.zfs.errors import EngineUnavailable, Timeout
from appliance.zfs.kernel import commands
from appliance.zfs.kernel.late import LATE, Late

HELPER = """
import sys
from pathlib import Path
from appliance.zfs.kernel import commands
from appliance.zfs.kernel.late import LATE
LATE.keep_in(Path(sys.argv[1]))
commands.run(("/bin/sh", "-c", "echo $$ >&2; echo $$ > \\"$0/child\\"; sleep 600; :", sys.argv[1], "stuck/a@one"), seconds=600)
"""


def left_behind(directory: Path) -> int:
    """A process that is killed while a program of its is at work; the program."""
    child = directory / "child"
    with subprocess.Popen([sys.executable, "-c", HELPER, str(directory)], cwd=Path(__file__).parents[3]) as helper:
        limit = time.monotonic() + 120
        while not (child.exists() and child.read_text().strip()):
            assert helper.poll() is None and time.monotonic() < limit
            time.sleep(0.02)
        helper.kill()
    program = int(child.read_text())
    child.unlink()
    return program


def test_a_program_outlives_who_started_it(tmp_path: Path) -> None:
    program = left_behind(tmp_path)
    late = Late()
    late.keep_in(tmp_path)
    try:
        assert late.of("stuck") == ("-c",) and late.of("other") == ()
        assert late.of("stuck") == ("-c",), "it is told until it has ended"
    finally:
        os.killpg(program, signal.SIGKILL)
    limit = time.monotonic() + 60
    while late.of("stuck"):
        assert time.monotonic() < limit
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


def test_what_is_over_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late()
    late.keep_in(tmp_path)
    monkeypatch.setattr(commands, "LATE", late)
    assert commands.run(("/bin/sh", "-c", "ls $0 | wc -l", str(tmp_path)), seconds=60).output == b"1\n", (
        "it is written down before"
    )
    with pytest.raises(Timeout):
        commands.run(("/bin/sh", "-c", "sleep 600", "ended/a"), seconds=0.05)
    assert list(tmp_path.iterdir()) == []


def test_own_changes_under_way_are_not_told_before_their_time_limit(tmp_path: Path) -> None:
    late = Late()
    late.keep_in(tmp_path)
    begun = late.begin("rollback", ["tank/a@one"])
    assert begun is not None and late.of("tank") == ()
    late.add("rollback", ["tank/a@one"], lambda: over, begun)
    over = False
    assert late.of("tank") == ("rollback",) and len(list(tmp_path.iterdir())) == 1
    over = True
    assert late.of("tank") == () and list(tmp_path.iterdir()) == []
    assert late.begin("list", ["tank"]) is None, "reading can't come true"


def test_what_can_not_be_written_down_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late()
    late.keep_in(tmp_path / "under-way")
    (tmp_path / "under-way").rmdir()
    monkeypatch.setattr(commands, "LATE", late)
    with pytest.raises(EngineUnavailable, match="written down"):
        commands.run(("/bin/sh", "-c", f"touch {tmp_path}/done"), seconds=60)
    assert list(tmp_path.iterdir()) == [] and LATE.of("tank") == ()
