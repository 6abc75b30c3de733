# SPDX-License-Identifier: Apache-2.0
"""`make demo-reset` after a kill of a demo that used the machine's own OpenZFS: its pool is still imported."""

from __future__ import annotations

import os
from pathlib import Path

from support.programs import REPOSITORY, run

POOL = "zvaai-demo-killed"


def test_a_reset_exports_the_pool_before_it_removes_the_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with (state / "pool.img").open("wb") as file:
        file.truncate(128 << 20)
    (state / "pool").write_text(POOL)
    run("zpool", "create", "-O", "mountpoint=none", POOL, state / "pool.img")
    run(REPOSITORY / "packaging/demo/reset", env={**os.environ, "ZVAAI_DEMO_STATE": f"{state}/"})
    assert POOL not in run("zpool", "list", "-H", "-o", "name").split()
    assert not state.exists()
