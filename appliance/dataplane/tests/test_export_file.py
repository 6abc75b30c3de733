# SPDX-License-Identifier: Apache-2.0
"""Export blocks are parsed back unchanged; other text is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.dataplane.export_file import read
from appliance.dataplane.ganesha import Export

EXPORTS = (
    Export(1, Path("/srv/zvaai/first-0a0b"), "/first", dataset="tank/zvaai/first-0a0b", guid=2**64 - 1),
    Export(65535, Path("/srv/zvaai/a b"), "/second", clients=("*",)),
    Export(2, Path("/srv/zvaai/x"), "/x", clients=("192.0.2.1", "2001:db8::/32"), dataset="a/b c"),
    Export(3, Path("/srv/zvaai/y"), "/y", dataset="a/d", guid=5, thick_size=1 << 40),
)


@pytest.mark.parametrize("export", EXPORTS, ids=lambda export: str(export.pseudo))
def test_written_data_is_read(export: Export) -> None:
    assert read(export.block()) == export


@pytest.mark.parametrize(
    ("before", "after"),
    [("Export_Id = 1", "Export_Id = one"), ("Squash = No_Root_Squash;", "Squash = No_Root_Squash; Tag = x;"),
     ("No_Root_Squash", "Root_Squash"), ("}\n", "}\n\n"),
     ("Protocols = 3, 4", "Protocols = 3"), ("Access_Type = None", "Access_Type = RW"),
     ("Pseudo", "pseudo"), ("ZVAAI", "VFS"), ("ZVAAI;", "ZVAAI; Thick_Size = 1G;"),
     ("ZVAAI;", "ZVAAI; Thick_Size = 0;")],
)  # fmt: skip
def test_other_formats_are_not_parsed(before: str, after: str) -> None:
    text = EXPORTS[0].block()
    assert before in text and read(text.replace(before, after, 1)) is None
    assert read("") is None
