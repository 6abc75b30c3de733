# SPDX-License-Identifier: Apache-2.0
"""On the host: the guest is killed right after NFS operations that modify. Each answered one is done (RFC 1813 4.7)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
CHANGER = Path(__file__).with_name("nfs_changer.py")


def test_answered_changes_survive_a_power_cut(state: Path) -> None:
    command = [str(word) for word in (RUN, "--disk", f"2G:{state / 'disk'}", "python3", CHANGER, state)]
    with (state / "console").open("wb") as console:
        guest = subprocess.Popen([*command, "change"], stdout=console, stderr=subprocess.STDOUT, start_new_session=True)
        try:

            def answered() -> bool:
                assert guest.poll() is None, f"the guest ended before its power was cut:\n{(state / 'console').read_text()}"
                return (state / "answered").exists()

            wait_for(answered, "all operations are answered", timeout=600)
        finally:
            os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
    check = subprocess.run([*command, "check"], capture_output=True, text=True, timeout=900, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
