# SPDX-License-Identifier: Apache-2.0
"""`apt install zvaai` on a Debian 13 that systemd boots: first start, datastores, reboot, shutdown.

The disk has the Debian packages that zvaai depends on already, because apt takes minutes in this kernel; test_bare.py installs on a
bare system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from machine import Machine
from server import APPLIANCE, SERVING, Writers, failed_units, install, set_up, started_at, timed

from .conftest import MachineMaker


@pytest.fixture(scope="module")
def installed(machine_of: MachineMaker) -> Iterator[Machine]:
    """Installed, and running since."""
    with machine_of("server") as machine:
        machine.wait_for_boot()
        install(machine)
        yield machine


def test_the_console_shows_its_code(installed: Machine) -> None:
    """On the login screen, and to root by the command."""
    shown = installed.run("zvaai setup", 180)
    code = re.search(r"One-time code: +([0-9a-f-]{20,})", shown)
    assert code and "https://192.0.2.2:8443" in shown, shown
    installed.run(f"until grep -q {code[1]} /etc/issue.d/zvaai.issue; do sleep 0.2; done", 60)
    assert installed.run("stat --format %A /etc/issue.d/zvaai.issue").strip() == "-rw-------"
    assert code[1] in installed.run("agetty --show-issue")
    assert failed_units(installed) == []


def test_a_seed_file_sets_it_up(installed: Machine, tell: Callable[[str], None]) -> None:
    tell(f"set up from the seed file, with two datastores, in {timed(lambda: set_up(installed)):.0f} s")
    assert "is set up" in installed.run("zvaai setup")
    installed.run("test ! -e /etc/zvaai/setup.toml")
    installed.run("until [ ! -e /etc/issue.d/zvaai.issue ]; do sleep 0.2; done", 60)
    assert failed_units(installed) == []
