# SPDX-License-Identifier: Apache-2.0
"""Machines that boot a Debian 13 with systemd, and the repository of packages for them.

One machine is installed, then set up, and copied for each module.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import CACHE, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "packaging/uml"))

from guest import Disk  # noqa: E402
from machine import Machine  # noqa: E402
from support.storage_server import FirstStart, MachineMaker, duplicate, failed_units, install, set_up, timed  # noqa: E402

SITE = "http://repository.example"
POOL_BYTES = 4 << 30


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A folder on disk: /tmp is a tmpfs."""
    folder = CACHE / "machines"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def repository(scratch: Path) -> Path:
    """The packages of this checkout as a web site at SITE."""
    site = scratch / "site"
    shutil.copytree(CACHE / "repository", site, ignore=shutil.ignore_patterns(".complete"))
    sources = site / "zvaai.sources"
    sources.write_text(re.sub("^URIs: .*", f"URIs: {SITE}", sources.read_text(), flags=re.MULTILINE))
    return site


@pytest.fixture(scope="session")
def machine_of(scratch: Path, repository: Path) -> MachineMaker:
    """Returns a machine that is off; the same name returns the same machine with its disks."""

    def make(name: str, site: Path = repository, data_disks: int = 2) -> Machine:
        folder = scratch / name
        folder.mkdir(exist_ok=True)
        disks = [Disk(POOL_BYTES, folder / f"data{number}") for number in range(data_disks)]
        return Machine(folder, disks, {"repository.example": site})

    return make


@pytest.fixture(scope="session")
def installed(scratch: Path, machine_of: MachineMaker) -> FirstStart:
    """A machine that was installed and is not set up, now off. Its disks are in the folder `installed`."""
    seen = FirstStart(scratch / "installed")
    with machine_of("installed") as machine:
        machine.wait_for_boot()
        seen.install_seconds = timed(lambda: install(machine))
        seen.setup = machine.run("zvaai setup", 180)
        machine.run("until [ -e /etc/issue.d/zvaai.issue ]; do sleep 0.2; done", 60)
        seen.issue_mode = machine.run("stat --format %A /etc/issue.d/zvaai.issue").strip()
        seen.login_screen = machine.run("script -qec 'agetty --show-issue' /dev/null")
        seen.failed = failed_units(machine)
        machine.power_off()
    return seen


@pytest.fixture(scope="session")
def first_start(scratch: Path, machine_of: MachineMaker, installed: FirstStart) -> FirstStart:
    """The installed machine after it was set up, now off. Its disks are in the folder `server`."""
    seen = dataclasses.replace(installed, folder=duplicate(installed.folder, scratch / "server"))
    with machine_of("server") as machine:
        machine.wait_for_boot()
        seen.setup_seconds = timed(lambda: set_up(machine))
        machine.power_off()
    return seen


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, scratch: Path, repository: Path) -> Path:
    """A web site of the module's own, which can get other versions."""
    return Path(shutil.copytree(repository, scratch / f"{request.module.__name__.rpartition('.')[2]}-site"))


@pytest.fixture(scope="module")
def copy_of_server(request: pytest.FixtureRequest, scratch: Path, first_start: FirstStart) -> str:
    """Name of the module's copy of the machine from `first_start`."""
    name = str(request.module.__name__).rpartition(".")[2]
    duplicate(first_start.folder, scratch / name)
    return name
