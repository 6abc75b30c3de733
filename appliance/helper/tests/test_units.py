# SPDX-License-Identifier: Apache-2.0
"""The helper's systemd units: valid, and as tight as a process that mounts file systems can be."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[3] / "packaging/systemd"
SERVICE, SOCKET = UNITS / "zvaai-helper.service", UNITS / "zvaai-helper.socket"
MOUNTS = UNITS / "zvaai-mounts.service"
of_both = pytest.mark.parametrize("service", [SERVICE, MOUNTS], ids=lambda unit: unit.stem)
EXPOSURE_MAX = 46
"""Tenths, as systemd-analyze counts. A private mount namespace would lower the value, but hide the helper's mounts."""


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False)


def test_valid() -> None:
    result = analyze("verify", "--man=no", str(SERVICE), str(SOCKET), str(MOUNTS))
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@of_both
def test_tight(service: Path) -> None:
    result = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", str(service))
    assert result.returncode == 0, result.stdout


@of_both
def test_its_mounts_are_everybodys(service: Path) -> None:
    """None of the settings that give a service a mount namespace (systemd.exec(5), Sandboxing)."""
    settings = {line.partition("=")[0] for line in service.read_text().splitlines() if "=" in line and not line.startswith("#")}
    hiding = {"ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateMounts", "ReadWritePaths", "ReadOnlyPaths"}
    hiding |= {"InaccessiblePaths", "ProtectKernelTunables", "ProtectControlGroups", "ProtectKernelModules", "ProtectKernelLogs"}
    assert not settings & (hiding | {"ProtectHostname", "ProtectProc", "RootDirectory", "RootImage", "BindPaths"})
