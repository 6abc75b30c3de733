# SPDX-License-Identifier: Apache-2.0
"""Files of configuration copies, which a caller of the helper may have replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.zfs import configuration_copies
from appliance.zfs.errors import Refused

NAME = "5a1f0c9e-0000-4000-8000-000000000000-7.json"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.write_text("of root")
    folder.mkdir()
    (folder / NAME).symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        configuration_copies.read_folder(folder)


def test_a_fifo_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(Refused, match="no regular file"):
        configuration_copies.read_folder(tmp_path)
