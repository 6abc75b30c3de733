# SPDX-License-Identifier: Apache-2.0
"""The seed file of `zvaai setup`. tests/machine runs it for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cli.client import CommandError
from appliance.cli.setup import read_seed

SEED = """
[administrator]
password = "correct horse 7"
[[pools]]
name = "tank"
vdevs = ["mirror", "/dev/disk/by-id/a", "/dev/disk/by-id/b"]
[[datastores]]
name = "vmfs1"
pool = "tank"
size = "2T"
"""


def seed_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "setup.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_seed_file_is_read(tmp_path: Path) -> None:
    seed = read_seed(seed_file(tmp_path, SEED))
    assert seed.administrator.name == "admin" and seed.pools[0].vdevs[0] == "mirror" and seed.datastores[0].kind == "vmfs"


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (SEED, 0o640, "chmod 600"),
        (SEED + "colour = 1\n", 0o600, r"unknown field `colour` - at `\$.datastores\[0\]`"),
        ("[administrator]\n", 0o600, r"required field `password` - at `\$.administrator`"),
        ("[administrator", 0o600, "setup.toml"),
    ],
)
def test_a_seed_file_is_refused(tmp_path: Path, text: str, mode: int, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        read_seed(seed_file(tmp_path, text, mode))
