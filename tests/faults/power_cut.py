# SPDX-License-Identifier: Apache-2.0
"""On the host: a guest is killed, as by a power cut, and another guest checks the disk that remains."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"


def cut_power(words: Sequence[object], state: Path, done: Callable[[], bool], until: str) -> None:
    """Runs these words in a guest, and kills it as soon as `done`. Raises AssertionError if it ends before."""
    console = state / "console"
    with console.open("wb") as output:
        guest = subprocess.Popen([RUN, *map(str, words)], stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:

            def reached() -> bool:
                assert guest.poll() is None, f"the guest ended before its power was cut:\n{console.read_text()}"
                return done()

            wait_for(reached, until, timeout=600)
        finally:
            os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()


def check_after_cut(words: Sequence[object]) -> str:
    """Runs these words and `check` in a guest; returns its output."""
    check = subprocess.run([RUN, *map(str, words), "check"], capture_output=True, text=True, timeout=900, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    return check.stdout
