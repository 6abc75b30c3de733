# SPDX-License-Identifier: Apache-2.0
"""`apt install zvaai` on a Debian 13 that systemd boots: first start, datastores, reboot, shutdown.

The disk has the Debian packages that zvaai depends on already, because apt takes minutes in this kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from machine import Machine
from support.storage_server import APPLIANCE, SERVING, MachineMaker, Writers, failed_units, install, set_up, started_at, timed

EXPOSURE_MAX = {"zvaai-api": 2.5, "zvaai-worker": 2.5, "zvaai-target": 2.5}
CONFINED = ("zvaai-api", "zvaai-worker", "zvaai-target")


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


def test_units_are_confined(installed: Machine) -> None:
    for name, most in EXPOSURE_MAX.items():
        shown = installed.run(f"systemd-analyze security --no-pager {name}.service | tail -n 1")
        level = re.search(r": ([0-9.]+) ", shown)
        assert level and float(level[1]) <= most, shown
    for name in CONFINED:
        profile = installed.run(f"cat /proc/$(systemctl show -P MainPID {name}.service)/attr/current").strip()
        assert profile == f"{name} (complain)"


def test_hosts_write_and_survive_a_reboot(machine_of: MachineMaker, installed: Machine, tell: Callable[[str], None]) -> None:
    """Shut down in order while hosts write: pools, mounts, target and NFS server are back before the appliance, with all data."""
    writers = Writers(installed, installed.folder)
    writers.start()
    installed.power_off("reboot")
    with machine_of("server") as again:
        booted = timed(again.wait_for_boot)
        writers.move(again)
        writers.wait_for_more()
        writers.stop()
        writers.verify(again)
        assert failed_units(again) == []
        order = [started_at(again, unit) for unit in ("zfs-import.target", "zvaai-mounts.service")]
        assert 0 < order[0] <= order[1]
        for unit in SERVING:
            assert order[1] <= started_at(again, unit) <= min(started_at(again, one) for one in APPLIANCE), unit
        tell(f"booted in {booted:.0f} s")
        again.run(
            "systemctl mask zvaai-worker.service zvaai-api.service zvaai-api.socket zvaai-helper.socket zvaai-helper.service"
        )
        again.power_off("reboot")
    with machine_of("server") as alone:
        alone.wait_for_boot()
        writers.move(alone)
        writers.start()
        writers.stop()
        writers.verify(alone)
        assert alone.run("systemctl is-active zvaai-worker zvaai-api || true").split() == ["inactive"] * 2
