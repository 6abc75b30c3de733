# SPDX-License-Identifier: Apache-2.0
"""open-iscsi, the kernel's initiator: digests, CHAP, IPv6, a resize, a cut link, hidden LUNs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import fio
from support.initiator import Initiator
from support.network import NAMESPACE, links
from support.programs import ProgramFailed, run, wait_for
from support.target import IQN, Account, Target, running_target
from support.volumes import VolumeMaker
from support.zfs import Pool

HOST = Account("host", "a-secret-of-20-bytes")
TARGET = Account("target", "another-secret-20-by")


@pytest.fixture
def initiator() -> Iterator[Initiator]:
    """The initiator; without sessions afterwards."""
    initiator = Initiator()
    yield initiator
    initiator.forget()


def chap_settings(host: Account, target: Account | None = None) -> dict[str, str]:
    """open-iscsi's settings for CHAP, mutual with `target`."""
    settings = {
        "node.session.auth.authmethod": "CHAP",
        "node.session.auth.username": host.name,
        "node.session.auth.password": host.secret,
    }
    if target:
        settings["node.session.auth.username_in"] = target.name
        settings["node.session.auth.password_in"] = target.secret
    return settings


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ("CRC32C", "CRC32C"),
        *(
            pytest.param(*both, marks=pytest.mark.long("11 s each: none, and one of the header, are in target/test_paths.py"))
            for both in (("None", "None"), ("None", "CRC32C"), ("CRC32C", "None"))
        ),
    ],
)
def test_digests(target: Target, make_volume: VolumeMaker, initiator: Initiator, seed: int, header: str, data: str) -> None:
    target.add_lun(0, make_volume("volume", 32))
    settings = {"node.conn[0].iscsi.HeaderDigest": header, "node.conn[0].iscsi.DataDigest": data}
    disk = initiator.login(target.portal, settings=settings)
    parameters = target.call("sessions.list")["sessions"][0]["parameters"]
    assert (parameters["header_digest"], parameters["data_digest"]) == (header == "CRC32C", data == "CRC32C")
    fio.verify(disk, 16, seed)


def test_chap_one_way(target: Target, make_volume: VolumeMaker, initiator: Initiator) -> None:
    target.add_lun(0, make_volume("volume", 16))
    target.call("accounts.set", {"target": IQN, "name": HOST.name, "secret": HOST.secret, "initiators": "any"})
    with pytest.raises(ProgramFailed, match="authorization failure"):
        initiator.login(target.portal, settings=chap_settings(Account(HOST.name, "not-the-secret-of-it")))
    disk = initiator.login(target.portal, settings=chap_settings(HOST))
    assert target.call("sessions.list")["sessions"][0]["account"] == HOST.name
    assert disk.exists()


def test_chap_mutual(target: Target, make_volume: VolumeMaker, initiator: Initiator) -> None:
    """open-iscsi disconnects from a target that does not know its secret."""
    target.add_lun(0, make_volume("volume", 16))
    target.call("accounts.set", {"target": IQN, "name": HOST.name, "secret": HOST.secret, "initiators": "any"})
    target.call("accounts.set", {"target": IQN, "name": TARGET.name, "secret": TARGET.secret, "mutual": True})
    with pytest.raises(ProgramFailed):
        initiator.login(target.portal, settings=chap_settings(HOST, Account(TARGET.name, "not-the-secret-of-it")))
    assert initiator.login(target.portal, settings=chap_settings(HOST, TARGET)).exists()


def test_ipv6(tmp_path: Path, make_volume: VolumeMaker, initiator: Initiator, seed: int) -> None:
    with running_target(tmp_path / "target", [("[::1]:3260", 1)]) as target:
        target.add_lun(0, make_volume("volume", 32))
        fio.verify(initiator.login(target.portal), 16, seed)
        initiator.forget()


def test_a_resize_is_seen(target: Target, make_volume: VolumeMaker, initiator: Initiator, pool: Pool) -> None:
    """The zvol grows. The host's next command gets the unit attention CAPACITY DATA HAS CHANGED, and the kernel emits an event.

    udev's rules would then read the new size, but Debian has none: `rescan` of the disk does it, a scan of the bus does not.
    """
    volume = make_volume("volume", 32)
    target.add_lun(0, volume)
    disk = initiator.login(target.portal).resolve()
    assert int(run("blockdev", "--getsize64", disk)) == 32 << 20
    monitor = subprocess.Popen(
        ["udevadm", "monitor", "--kernel", "--property", "--subsystem-match=scsi"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert monitor.stdout
        assert any("KERNEL" in line for line in monitor.stdout)  # it listens
        run("zfs", "set", "volsize=64M", f"{pool.name}/volume")
        wait_for(
            lambda: bool(target.call("luns.list", {"target": IQN})["luns"][0]["size_bytes"] == 64 << 20),
            "the target sees that it grew",
        )
        run("dd", f"if={disk}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct")
        assert any(line.strip() == "SDEV_UA=CAPACITY_DATA_HAS_CHANGED" for line in monitor.stdout)
    finally:
        monitor.kill()
        monitor.wait()
    Path(f"/sys/class/block/{disk.name}/device/rescan").write_text("1\n")
    wait_for(lambda: int(run("blockdev", "--getsize64", disk)) == 64 << 20, "the disk has grown")
    run("dd", "if=/dev/zero", f"of={disk}", "bs=1M", "seek=60", "count=4", "oflag=direct")


def test_io_waits_for_a_volume_that_comes_after_the_target(
    target: Target, pool: Pool, make_volume: VolumeMaker, initiator: Initiator
) -> None:
    """The host logs in again before the zvol has its name. It finds the LUN not ready, and repeats its command."""
    device, dataset = make_volume("volume", 16), f"{pool.name}/volume"
    target.add_lun(0, device)
    disk = initiator.login(target.portal).resolve()
    target.kill()
    run("zfs", "rename", dataset, f"{dataset}-renamed")
    wait_for(lambda: not device.exists(), "udev has removed the old name")
    target.start()

    def refused() -> int:
        return int(Path(f"/sys/class/block/{disk.name}/device/ioerr_cnt").read_text(), 16)

    before = refused()
    with subprocess.Popen(["dd", f"if={disk}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct"]) as reading:
        try:
            # The unit attention after the login counts as well.
            wait_for(lambda: refused() > before + 2 or reading.poll() is not None, "the host finds the LUN not ready")
            assert reading.poll() is None
        finally:
            run("zfs", "rename", f"{dataset}-renamed", dataset)
        assert reading.wait(timeout=60) == 0


def test_a_cable_is_pulled_and_put_back(tmp_path: Path, make_volume: VolumeMaker, initiator: Initiator, seed: int) -> None:
    """A file system is written over a link that is down for longer than the initiator's ping timeout."""
    settings = {
        "node.conn[0].timeo.noop_out_interval": "1",
        "node.conn[0].timeo.noop_out_timeout": "1",
        "node.conn[0].timeo.login_timeout": "2",
    }
    with links(1) as (link,), running_target(tmp_path / "target", [(f"{link.address}:3260", 1)], namespace=NAMESPACE) as target:
        target.add_lun(0, make_volume("volume", 128))
        disk = initiator.login(target.portal, settings=settings)
        run("mkfs.ext4", "-q", disk)
        mount_point = tmp_path / "mount"
        mount_point.mkdir()
        run("mount", disk, mount_point)
        try:

            def written() -> int:
                return int(target.counters()["write"]["bytes"])

            with fio.Verifying(mount_point / "file", 32, seed, written) as verifying:
                verifying.goes_on("before the cut")
                link.cut()
                state = Path(f"/sys/class/iscsi_session/{session_of(disk)}/state")
                wait_for(lambda: state.read_text().strip() == "FAILED", "the initiator gives the connection up")
                link.restore()
                wait_for(lambda: state.read_text().strip() == "LOGGED_IN", "the initiator is back", timeout=180)
                verifying.goes_on("after the cut")
        finally:
            run("umount", mount_point)
        run("e2fsck", "-f", "-n", disk)
        initiator.forget()


def session_of(disk: Path) -> str:
    """The kernel's name of a disk's session."""
    device = Path(f"/sys/class/block/{disk.resolve().name}/device").resolve()
    return next(part for part in device.parts if part.startswith("session"))
