# SPDX-License-Identifier: Apache-2.0
"""The first start by the console, in a browser on another machine. Then hosts write."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from support.programs import CACHE
from support.storage_server import ADDRESS, HOST_ADDRESS, INITIATOR, FirstStart, MachineMaker, Writers, duplicate

STORY = Path(__file__).with_name("first_start.js")


def test_the_console_leads_to_datastores(machine_of: MachineMaker, scratch: Path, installed: FirstStart) -> None:
    duplicate(installed.folder, scratch / "console")
    with machine_of("console") as machine:
        machine.wait_for_boot()
        code = re.search(r"One-time code: +(\S+)", machine.run("zvaai setup", 180))
        assert code
        story = {"initiator": INITIATOR, "host": HOST_ADDRESS, "server": ADDRESS}
        disks = [f"/dev/disk/by-id/rig-ubd{letter}" for letter in "bc"]
        environment = {
            **os.environ,
            "ZVAAI_URL": f"https://{ADDRESS}:8443",
            "ZVAAI_SETUP_CODE": code[1],
            "ZVAAI_CONSOLE_MODULES": str(CACHE / "console"),
            "ZVAAI_STORY": json.dumps({**story, "disks": disks}),
        }
        words = machine.in_network("node", "--test-reporter=spec", STORY)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-4000:]
        with Writers(machine) as writers:
            writers.wait_for_more()
        writers.verify(machine)
