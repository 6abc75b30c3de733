# SPDX-License-Identifier: Apache-2.0
"""The installed Python package: the command `zvaai`, and a database made by the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import REPOSITORY


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the installation. Its dependencies are the system's."""
    source, installed = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    shutil.copy(REPOSITORY / "pyproject.toml", source)
    shutil.copytree(REPOSITORY / "appliance", source / "appliance", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--target", str(installed), str(source)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return installed


def run(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "XDG_CONFIG_HOME": str(installed)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, cwd="/")


def test_the_command(installed: Path) -> None:
    zvaai = str(installed / "bin" / "zvaai")
    assert "readiness" in run(installed, zvaai, "--help").stdout
    away = run(installed, zvaai, "--url", "https://127.0.0.1:1", "pool", "list")
    assert away.returncode == 6 and away.stderr.startswith("zvaai: https://127.0.0.1:1")


def test_a_database_is_made(installed: Path, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from appliance.database import store; store.Store(pathlib.Path(sys.argv[1])); print(store.__file__)"
    )
    done = run(installed, sys.executable, "-c", program, str(tmp_path / "database"))
    assert done.stdout.startswith(str(installed)), done.stderr
    assert not list((installed / "appliance").rglob("tests"))
