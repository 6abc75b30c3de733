# SPDX-License-Identifier: Apache-2.0
"""The worker's process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.database.store import Store


@pytest.mark.parametrize("intact", [0, 4096])
def test_a_damaged_database_is_reported_once(tmp_path: Path, intact: int) -> None:
    database = tmp_path / "appliance.sqlite"
    Store(database).close()
    content = database.read_bytes()
    database.write_bytes(content[:intact] + b"x" * (len(content) - intact))
    file = tmp_path / "appliance.toml"
    file.write_text(f'state_directory = "{tmp_path}"\nruntime_directory = "{tmp_path}"\n')
    words = (sys.executable, "-m", "appliance.worker")
    ended = subprocess.run(
        words, env=os.environ | {"ZVAAI_CONFIG": str(file)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 78, "systemd does not start it again"
    (line,) = ended.stderr.splitlines()
    assert f"{database} is damaged" in line and "Replace a damaged database" in line
