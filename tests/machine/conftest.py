# SPDX-License-Identifier: Apache-2.0
"""Machines that boot a Debian 13 by systemd, and the packages' repository that they install from."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import CACHE, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "packaging/uml"))

from guest import Disk  # noqa: E402
from machine import Machine  # noqa: E402
from support.storage_server import MachineMaker  # noqa: E402

SITE = "http://repository.example"
POOL_BYTES = 4 << 30


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """On disk: /tmp is memory."""
    folder = CACHE / "machines"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def repository(scratch: Path) -> Path:
    """The packages of this checkout, as a web site that machines find at SITE."""
    site = scratch / "site"
    shutil.copytree(CACHE / "repository", site, ignore=shutil.ignore_patterns(".complete"))
    point(site)
    return site


def point(site: Path) -> None:
    """Has zvaai.sources name SITE."""
    sources = site / "zvaai.sources"
    lines = sources.read_text().splitlines()
    sources.write_text("\n".join(f"URIs: {SITE}" if line.startswith("URIs:") else line for line in lines) + "\n")


@pytest.fixture(scope="module")
def machine_of(scratch: Path, repository: Path) -> MachineMaker:
    """Makes a machine, off yet; the same name again is the same machine with its disks."""

    def make(name: str, image: str = "ready", site: Path = repository) -> Machine:
        folder = scratch / name
        folder.mkdir(exist_ok=True)
        disks = [Disk(POOL_BYTES, folder / "data0"), Disk(POOL_BYTES, folder / "data1")]
        return Machine(folder, image, disks, {"repository.example": site})

    return make
