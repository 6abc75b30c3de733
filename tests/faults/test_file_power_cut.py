# SPDX-License-Identifier: Apache-2.0
"""On the host: the guest is killed while files are cloned, changed and removed; then each clone is complete or absent."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
CHANGER = Path(__file__).with_name("file_changer.py")


@pytest.mark.long("23 s each; test_power_cut.py and test_clone_power_cut.py cut the power in each run")
@pytest.mark.parametrize("cut", range(5))
def test_clones_survive_a_power_cut(state: Path, seed: int, cut: int) -> None:
    """Answered operations are done, and no clone is partial."""
    disk = ["--disk", f"2G:{state / 'disk'}"]
    command = [str(word) for word in (RUN, *disk, "python3", CHANGER, state, seed + cut)]
    operations, answers = random.Random(seed + cut).randrange(20, 60), state / "answers"
    with (state / "console").open("wb") as console:
        guest = subprocess.Popen([*command, "change"], stdout=console, stderr=subprocess.STDOUT, start_new_session=True)
        try:

            def enough() -> bool:
                assert guest.poll() is None, f"the guest ended before its power was cut:\n{(state / 'console').read_text()}"
                return answers.exists() and answers.read_text().count("\n") >= operations

            wait_for(enough, f"{operations} answers", timeout=600)
        finally:
            os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
    check = subprocess.run([*command, "check"], capture_output=True, text=True, timeout=900, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    assert "files right after" in check.stdout
