# SPDX-License-Identifier: Apache-2.0
"""Readiness fails without the kernel module that clones."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulators.appliance import Appliance

from appliance.worker import readiness


def test_vmfs_needs_the_kernel_module(appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def result() -> tuple[str, str] | None:
        checks = [check for check in appliance.get("/readiness")["checks"] if check["id"] == "zvol_clone"]
        return (checks[0]["result"], checks[0]["remedy"]) if checks else None

    monkeypatch.setattr(readiness, "_ZVOL_CLONE", tmp_path / "zvol_clone")
    appliance.datastore("files", kind="nfs")
    assert result() is None
    appliance.datastore("blocks")
    remedy = "apt install zvaai-zvol-clone-dkms; systemctl restart zvol_clone; journalctl -b -u zvol_clone"
    assert result() == ("failed", remedy)
    (tmp_path / "zvol_clone").mkdir()
    assert result() == ("ok", "")
