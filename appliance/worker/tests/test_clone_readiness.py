# SPDX-License-Identifier: Apache-2.0
"""Readiness fails without the kernel module that clones. It names datastores that differ, if OpenZFS requires equal ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import Appliance

from appliance.worker import readiness


@pytest.fixture
def strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parameter of OpenZFS that requires equal properties."""
    parameter = tmp_path / "zfs_bclone_strict_properties"
    parameter.write_text("1\n")
    monkeypatch.setattr(readiness, "_STRICT_PROPERTIES", parameter)
    return parameter


def clone_properties(appliance: Appliance) -> list[dict[str, Any]]:
    appliance.request("POST", "/reconcile")  # reads the properties again
    return [check for check in appliance.get("/readiness")["checks"] if check["id"] == "clone_properties"]


def made(appliance: Appliance, name: str, **more: Any) -> str:
    """Creates a datastore; its dataset."""
    return str(appliance.get(f"/datastores/{appliance.datastore(name, **more)}")["dataset"])


def test_vmfs_needs_the_kernel_module(appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def result() -> tuple[str, str] | None:
        checks = [check for check in appliance.get("/readiness")["checks"] if check["id"] == "zvol_clone"]
        return (checks[0]["result"], checks[0]["remedy"]) if checks else None

    monkeypatch.setattr(readiness, "_ZVOL_CLONE", tmp_path / "zvol_clone")
    made(appliance, "files", kind="nfs")
    assert result() is None
    made(appliance, "blocks")
    remedy = "apt install zvaai-zvol-clone-dkms; systemctl restart zvol_clone; journalctl -b -u zvol_clone"
    assert result() == ("failed", remedy)
    (tmp_path / "zvol_clone").mkdir()
    assert result() == ("ok", "")


@pytest.mark.usefixtures("strict")
def test_datastores_of_a_pool_agree_or_are_named(appliance: Appliance) -> None:
    first = made(appliance, "first")
    assert clone_properties(appliance) == [], "one datastore has nobody to clone from"
    second = made(appliance, "second")
    [check] = clone_properties(appliance)
    assert (check["result"], check["subject"]) == ("ok", "tank")
    # "on" means the same value.
    appliance.simulator.set_properties(first, {"compression": "on", "checksum": "on"})
    appliance.simulator.set_properties(second, {"compression": "lz4", "checksum": "fletcher4"})
    assert clone_properties(appliance)[0]["result"] == "ok"
    appliance.simulator.set_properties(second, {"compression": "zstd", "copies": "2"})
    [check] = clone_properties(appliance)
    assert check["result"] == "warning"
    assert check["evidence"] == "compression differs: lz4 (first), zstd (second); copies differs: 1 (first), 2 (second)"
    assert "zfs set" in check["remedy"]


@pytest.mark.parametrize("value", ["0\n", None])
def test_without_strict_properties_they_may_differ(appliance: Appliance, strict: Path, value: str | None) -> None:
    made(appliance, "first")
    appliance.simulator.set_properties(made(appliance, "second"), {"compression": "zstd"})
    assert [check["result"] for check in clone_properties(appliance)] == ["warning"]
    if value is None:
        strict.unlink()
    else:
        strict.write_text(value)
    assert clone_properties(appliance) == []


@pytest.mark.usefixtures("strict")
def test_thick_datastores_do_not_count(appliance: Appliance) -> None:
    made(appliance, "first")
    second = made(appliance, "second", thick=True)
    appliance.simulator.set_properties(second, {"compression": "zstd"})
    assert clone_properties(appliance) == []
