# SPDX-License-Identifier: Apache-2.0
"""On the host: the guest is killed right after the flush of a clone; the clone is there after its boot."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
CLONER = Path(__file__).with_name("cloner.py")


def test_a_flushed_clone_survives_a_power_cut(state: Path) -> None:
    disk = ["--disk", f"1G:{state / 'disk'}"]
    flushed = state / "flushed"
    command = [str(word) for word in (RUN, *disk, "python3", CLONER, state, "clone")]
    # A pipe without a reader: the console prints far less than it holds.
    guest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    console = guest.stdout
    assert console is not None
    try:

        def done() -> bool:
            assert guest.poll() is None, f"the guest ended before its power was cut:\n{console.read().decode()}"
            return flushed.exists() and flushed.stat().st_size > 0

        wait_for(done, "the clone is flushed", timeout=600)
    finally:
        os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()
        console.close()
    before, after = flushed.read_text().split()
    assert before == after, "a transaction group closed between clone and cut: it does not prove the intent log"
    check = subprocess.run([*command[:-1], "check"], capture_output=True, text=True, timeout=900, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    assert "flushed clone whole after the cut" in check.stdout
