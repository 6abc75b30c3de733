# SPDX-License-Identifier: Apache-2.0
"""The seed file of `zvaai setup`, and what `zvaai upgrade --check` reads of apt. tests/machine runs both for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.cli.client import CommandError
from appliance.cli.setup import read_seed
from appliance.cli.upgrade import Plan, problems, read_plan

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
SIMULATION = """\
Inst zvaai-target [1.0] (1.1 zvaai:trixie [amd64]) []
Inst libnew (2 Debian:13 [amd64])
Inst nfs-ganesha [6.5-5] (6.5-6 Debian:13 [amd64])
Remv zvaai-nfs [1.0]
Conf zvaai-target (1.1 zvaai:trixie [amd64])
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


def test_plan_of_apt() -> None:
    plan = read_plan(SIMULATION)
    assert plan == Plan({"zvaai-target": ("1.0", "1.1"), "libnew": ("", "2"), "nfs-ganesha": ("6.5-5", "6.5-6")}, ["zvaai-nfs"])
    assert [text.split(".")[0] for text in problems(plan, "", "2.3.9", "2.3.9")] == ["The upgrade would remove zvaai-nfs"]
    assert list(problems(Plan({}, ["vim"]), "", "", "2.3.9")) == []
    assert len(list(problems(Plan({}, []), "pool: tank", "2.3.8", "2.3.9"))) == 2
