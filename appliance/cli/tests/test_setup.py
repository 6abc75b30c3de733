# SPDX-License-Identifier: Apache-2.0
"""The seed file of `zvaai setup`, and the reset of an administrator. tests/machine runs it for real."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from appliance.cli import setup
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


def test_root_follows_no_link_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, other = tmp_path / "reset-code", tmp_path / "other"
    other.write_text("content")
    code.symlink_to(other)
    codes = []

    class Client:
        def call(self, _method: str, _path: str, body: Mapping[str, str]) -> None:
            codes.append((body["code"], code.read_text()))

    monkeypatch.setattr(setup, "trusting_client", Client)
    setup.reset("admin", "correct horse 7", code)
    ((sent, written),) = codes
    assert sent == written and other.read_text() == "content" and not code.exists()
