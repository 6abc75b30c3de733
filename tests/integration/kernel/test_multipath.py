"""multipathd over two cables to one target, whose portals are of one group or of two: a path is cut and returns under fio."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
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
    path_grouping_policy multibus
    path_selector "round-robin 0"
    no_path_retry queue
}
blacklist {
    devnode "^(ubd|zd|ram|loop|dm-)"
}
"""
SETTINGS = {
    "node.session.timeo.replacement_timeout": "1",
    "node.conn[0].timeo.noop_out_interval": "1",
    "node.conn[0].timeo.noop_out_timeout": "1",
    "node.conn[0].timeo.login_timeout": "2",
}


@pytest.fixture
def multipathd() -> Iterator[None]:
    """The daemon, with no maps and nothing remembered afterwards."""
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
        daemon.wait(20)
        subprocess.run(["multipath", "-F"], capture_output=True, check=False)
        # Else udev's rules take later disks of these tests for paths.
        Path("/etc/multipath.conf").unlink()
        Path("/etc/multipath/wwids").unlink(missing_ok=True)


def paths(name: str) -> list[str]:
    """Device mapper's state of each path of a map, in the order of the devices' names."""
    lines = run("multipathd", "show", "paths", "raw", "format", "%m %d %t").splitlines()
    return [line.split()[2] for line in sorted(lines) if line.split()[0] == name]


@pytest.mark.parametrize("tags", [(1, 1), (1, 2)], ids=["one group", "two groups"])
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
    """fio verifies what it wrote while one cable after the other is pulled and put back."""
    for address, _ in portals:
        initiator.login(address, settings=SETTINGS)
    name = "3" + target.call("luns.list", {"target": target.call("targets.list")["targets"][0]["name"]})["luns"][0]["naa"][4:]
    disk = Path("/dev/mapper") / name
    wait_for(disk.exists, f"{disk} is there")
    wait_for(lambda: paths(name) == ["active", "active"], "both paths are active")
    sessions = target.call("sessions.list")["sessions"]
    assert sorted(session["portal_group_tag"] for session in sessions) == sorted(tag for _, tag in portals)

    def written() -> int:
        return int(target.counters()["write"]["bytes"])

    with fio.Verifying(disk, 32, seed, written) as verifying:
        try:
            for cable in cables:
                verifying.goes_on("over both paths")
                cable.cut()
                wait_for(lambda: sorted(paths(name)) == ["active", "failed"], "the path has failed", timeout=120)
                verifying.goes_on("over the other path")
                cable.restore()
                wait_for(lambda: paths(name) == ["active", "active"], "the path is back", timeout=120)
            verifying.goes_on("over both paths again")
        finally:
            for cable in cables:
                cable.restore()
