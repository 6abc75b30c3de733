# SPDX-License-Identifier: Apache-2.0
"""On the host: the guest is killed right after a stable unmap and zeroing; the zeroes are there after its boot."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
CLEARER = Path(__file__).with_name("clearer.py")


def test_stable_zeroes_survive_a_power_cut(state: Path) -> None:
    disk = ["--disk", f"1G:{state / 'disk'}"]
    cleared = state / "cleared"
    command = [str(word) for word in (RUN, *disk, "python3", CLEARER, state, "clear")]
    # A pipe without a reader: the console prints far less than it holds.
    guest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    console = guest.stdout
    assert console is not None
    try:

        def done() -> bool:
            assert guest.poll() is None, f"the guest ended before its power was cut:\n{console.read().decode()}"
            return cleared.exists() and cleared.stat().st_size > 0

        wait_for(done, "all is cleared", timeout=600)
    finally:
        os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()
        console.close()
    before, after = cleared.read_text().split()
    assert before == after, "a transaction group closed between: it does not prove the intent log"
    check = subprocess.run([*command[:-1], "check"], capture_output=True, text=True, timeout=900, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
    assert "cleared ranges are zero after the cut" in check.stdout
