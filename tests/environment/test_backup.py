# SPDX-License-Identifier: Apache-2.0
"""The copy of the configuration that an upgrade makes first (packaging/debian/zvaai.preinst)."""

from __future__ import annotations

import pytest
from support.programs import REPOSITORY, run

SCRIPT = """
mount -t tmpfs lib /var/lib && mount -t tmpfs -o size={size} backups /var/backups
mkdir -p /var/lib/zvaai /var/backups/zvaai/20260101T000000-1.0
python3 -c 'import sqlite3; sqlite3.connect("/var/lib/zvaai/appliance.sqlite").execute("create table t as select zeroblob(1e6)")'
DPKG_MAINTSCRIPT_PACKAGE=zvaai sh {preinst} upgrade 1.1 2>&1 || echo failed
ls /var/backups/zvaai
"""


@pytest.mark.parametrize(("size", "complete"), [("4M", True), ("200K", False)])
def test_a_disk_without_space_gets_no_half_copy(size: str, complete: bool) -> None:
    script = SCRIPT.format(size=size, preinst=REPOSITORY / "packaging/debian/zvaai.preinst")
    shown = run("unshare", "--mount", "sh", "-euc", script)
    copies = [line.partition("-")[2] for line in shown.splitlines() if line.startswith("20")]
    assert ("failed" in shown.splitlines()) is not complete, shown
    assert copies == ["1.0", "1.1"][: 1 + complete], shown
