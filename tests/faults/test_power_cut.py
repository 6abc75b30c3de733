"""The whole guest is killed, as a power cut would: every write that was acknowledged is on the disk afterwards."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from support.programs import REPOSITORY, wait_for

RUN = REPOSITORY / "packaging/uml/run"
WRITER = Path(__file__).with_name("power_cut_writer.py")


def test_acknowledged_writes_survive_a_power_cut(state: Path, seed: int) -> None:
    disk = ["--disk", f"2G:{state / 'disk'}"]
    acknowledged = state / "acknowledged"
    guest = subprocess.Popen([RUN, *disk, "python3", WRITER, state, str(seed)], start_new_session=True)
    try:
        writes = random.Random(seed).randrange(100, 400)

        def enough() -> bool:
            assert guest.poll() is None, "the guest ended before its power was cut"
            return acknowledged.exists() and acknowledged.stat().st_size >= 16 * writes

        wait_for(enough, f"{writes} acknowledged writes", timeout=120)
    finally:
        os.killpg(guest.pid, 9)
        guest.wait()
    check = subprocess.run(
        [RUN, *disk, "python3", WRITER, state, "check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr
    assert "lost: []" in check.stdout
