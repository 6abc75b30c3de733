# SPDX-License-Identifier: Apache-2.0
"""multipathd over two links to a target, by portals of one or two groups: equal by ALUA; a link is cut and restored."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import fio
from support.initiator import Initiator
from support.network import NAMESPACE, Link, links
from support.programs import run, wait_for
from support.target import Target, running_target
from support.volumes import VolumeMaker

CONFIGURATION = """
defaults {
    find_multipaths no
    user_friendly_names no
    polling_interval 1
    max_polling_interval 1
    path_checker tur
    prio alua
    path_grouping_policy group_by_prio
    path_selector "round-robin 0"
    no_path_retry queue
    uxsock_timeout 120000
}
blacklist {
    devnode "^(ubd|zd|ram|loop|dm-)"
}
"""
ACTIVE_OPTIMIZED = 50
"""Priority of such a port by multipath-tools' alua."""
SETTINGS = {
    "node.session.timeo.replacement_timeout": "1",
    "node.conn[0].timeo.noop_out_interval": "1",
    "node.conn[0].timeo.noop_out_timeout": "1",
    "node.conn[0].timeo.login_timeout": "2",
}


@pytest.fixture
def multipathd() -> Iterator[None]:
    """The daemon, without maps or state afterwards."""
    for module in ("dm-multipath", "dm-round-robin"):
        run("modprobe", module)
    Path("/etc/multipath.conf").write_text(CONFIGURATION)
    daemon = subprocess.Popen(["multipathd", "-d", "-s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(
            lambda: subprocess.run(["multipathd", "show", "daemon"], capture_output=True, check=False).returncode == 0, "it runs"
        )
        yield
    finally:
        daemon.terminate()
        daemon.wait(120)
        subprocess.run(["multipath", "-F"], capture_output=True, check=False)
        # Otherwise udev's rules treat later disks of these tests as paths.
        Path("/etc/multipath.conf").unlink()
        Path("/etc/multipath/wwids").unlink(missing_ok=True)


def paths(name: str) -> list[str]:
    """Device mapper's state of each path of a map, in the order of the devices' names."""
    lines = run("multipathd", "show", "paths", "raw", "format", "%m %d %t").splitlines()
    return [line.split()[2] for line in sorted(lines) if line.split()[0] == name]


def assert_equal_paths(name: str, groups: list[int]) -> None:
    """Both paths are in one path group with the priority of active/optimized ports, each in its target port group."""
    shown = json.loads(run("multipathd", "show", "map", name, "json"))["map"]
    (group,) = shown["path_groups"]
    paths = [(path["pri"], path["chk_st"]) for path in group["paths"]]
    assert paths == [(ACTIVE_OPTIMIZED, "ready")] * 2, shown
    ports = []
    for path in group["paths"]:
        disk = f"/dev/{path['dev']}"
        report = run("sg_rtpg", "-d", disk)
        assert report.count("asymmetric access state : 0x00 (active/optimized)") == len(set(groups)), report
        assert "AO_SUP : 1" in report and "T_SUP : 0" in report, report
        page = run("sg_vpd", "--page=di_port", disk)
        ports.append([re.findall(rf"{what}: 0x([0-9a-f]+)", page)[0] for what in ("Relative target port", "Target port group")])
    assert sorted(int(group, 16) for _, group in ports) == sorted(groups), ports
    assert "TPGS=1" in run("sg_inq", disk)


def eventually(check: Callable[[], None]) -> None:
    """Returns when `check` passes. Raises its last AssertionError."""
    until = time.monotonic() + 120
    while True:
        try:
            check()
        except AssertionError:
            if time.monotonic() > until:
                raise
        else:
            return
        time.sleep(0.2)


@pytest.mark.long("70 s, mostly timeouts of the kernel; cables are pulled in test_open_iscsi.py and target/test_paths.py")
@pytest.mark.parametrize("tags", [pytest.param((1, 1), id="one group"), pytest.param((1, 2), id="two groups")])
def test_a_path_is_cut_and_returns(
    tmp_path: Path, make_volume: VolumeMaker, multipathd: None, seed: int, tags: tuple[int, int]
) -> None:
    with links(2) as cables:
        portals = [(f"{cable.address}:3260", tag) for cable, tag in zip(cables, tags, strict=True)]
        with running_target(tmp_path / "target", portals, namespace=NAMESPACE) as target:
            target.add_lun(0, make_volume("volume", 128))
            initiator = Initiator()
            try:
                cut_each_in_turn(initiator, target, cables, portals, seed)
            finally:
                subprocess.run(["multipath", "-F"], capture_output=True, check=False)
                initiator.forget()


def cut_each_in_turn(initiator: Initiator, target: Target, cables: list[Link], portals: list[tuple[str, int]], seed: int) -> None:
    """fio verifies its writes while each cable is cut and restored in turn."""
    for address, _ in portals:
        initiator.login(address, settings=SETTINGS)
    name = "3" + target.call("luns.list", {"target": target.call("targets.list")["targets"][0]["name"]})["luns"][0]["naa"][4:]
    disk = Path("/dev/mapper") / name
    wait_for(disk.exists, f"{disk} is there")
    wait_for(lambda: paths(name) == ["active", "active"], "both paths are active")

    def assert_equal() -> None:
        assert_equal_paths(name, [1, 1])
        sessions = target.call("sessions.list")["sessions"]
        assert sorted(session["portal_group_tag"] for session in sessions) == sorted(tag for _, tag in portals)

    # If the machine stalls for a second, the initiator drops a path by the settings above; the path returns soon.
    eventually(assert_equal)

    def written() -> int:
        return int(target.counters()["write"]["bytes"])

    with fio.Verifying(disk, 32, seed, written) as verifying:
        try:
            for cable in cables:
                verifying.goes_on("over both paths")
                cable.cut()
                wait_for(lambda: sorted(paths(name)) == ["active", "failed"], "the path has failed", timeout=300)
                verifying.goes_on("over the other path")
                cable.restore()
                wait_for(lambda: paths(name) == ["active", "active"], "the path is back", timeout=300)
            verifying.goes_on("over both paths again")
        finally:
            for cable in cables:
                cable.restore()
