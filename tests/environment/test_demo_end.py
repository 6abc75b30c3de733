# SPDX-License-Identifier: Apache-2.0
"""How the demo ends and restarts its parts, whatever they do; test_demo.py tests the demo as a whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import REPOSITORY, wait_for

sys.path.insert(0, str(REPOSITORY / "packaging/demo"))

import demo
import programs


def up(*command: str) -> subprocess.Popen[bytes]:
    """A process that has reported that it is up."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    return process


@pytest.fixture
def deaf() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ignores SIGTERM."""
    process = up("bash", "-c", 'trap "" TERM; echo up; while :; do sleep 0.1; done')
    yield process
    process.kill()
    process.communicate()


def running(process: subprocess.Popen[bytes]) -> demo.Running:
    return demo.Running("", ("", 0), "", lambda: process.poll() is not None, process.terminate, process.wait)


def test_the_demo_names_its_pool_for_the_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """test_demo_reset.py of the kernel tier shows what the reset does with it."""
    monkeypatch.setattr(demo, "STATE", tmp_path)
    monkeypatch.setattr(demo, "POOL_FILE", tmp_path / "pool.img")
    monkeypatch.setattr(demo, "serve_command", lambda *_: ["true"])
    with demo.on_host(demo.Ports(1, 2, 3, 4)):
        assert (tmp_path / "pool").read_text() == demo.POOL


def test_every_step_of_the_end_is_taken_in_order(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    taken = []
    with pytest.raises(programs.DemoError, match="not end in order"), programs.Ending() as ending:
        ending.add(lambda: taken.append("pool"))
        ending.add(lambda: programs.run("rmdir", tmp_path / "none"))
        ending.add(lambda: taken.append("target"))
        ending.add(lambda: programs.run(tmp_path / "no such program"))
        ending.add(lambda: taken.append("appliance"))
    assert taken == ["appliance", "target", "pool"]
    said = capfd.readouterr().err
    assert "rmdir" in said and "no such program" in said


def test_the_first_failure_is_the_one_reported() -> None:
    with pytest.raises(programs.DemoError, match="the target ended"), programs.Ending() as ending:
        ending.add(lambda: programs.run("false"))
        raise programs.DemoError("the target ended")


def test_a_deaf_process_is_killed_in_its_time(deaf: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]) -> None:
    programs.end(deaf, "it", 0.2)
    assert deaf.returncode == -9 and "it did not end" in capfd.readouterr().err


def test_stopped_is_reported_only_for_stopped_services(deaf: subprocess.Popen[bytes]) -> None:
    exits = 'trap "exit %d" TERM; echo up; while :; do sleep 0.1; done'
    demo.end(running(up("bash", "-c", exits % 0)))
    with pytest.raises(demo.DemoFailed, match="not in order"):
        demo.end(running(up("bash", "-c", exits % 3)))
    with pytest.raises(demo.DemoFailed, match="did not end"):
        demo.end(running(deaf), 0.2)


def test_output_of_an_ended_process_is_retained(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stored = programs.RestartedPrograms({"PATH": "/usr/bin:/bin"})
    stored.start(
        "it",
        ["sh", "-c", f"[ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; echo first; exit 1; }}; echo second; exec sleep 60"],
        log,
    )

    def said_both() -> bool:
        stored.check()
        return log.read_text() == "first\nsecond\n"

    wait_for(said_both, "it is restarted, and has one log")
    stored.stop()
    assert stored.processes[0].returncode == -15


def test_a_second_signal_during_the_end_changes_nothing() -> None:
    """Python restores default signal handlers before it removes modules."""
    late = "class Late:\n def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGTERM): kill(me, number)\n"
    code = f"import os, signal, programs\n{late}late = Late()\nprograms.StopSignal().ignore()"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY / "packaging/demo", check=False)
    assert done.returncode == 0
