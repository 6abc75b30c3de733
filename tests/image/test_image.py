# SPDX-License-Identifier: Apache-2.0
"""The disk image on an emulated PC: Debian's own kernel with OpenZFS and zvol_clone, from the first boot to a shared block."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import cdb
from support.emulated_pc import EmulatedPc
from support.programs import CACHE, run, wait_for
from support.raw_initiator import GOOD, Session
from support.third_party_copy import extended_copy, naa_of, parameter_list, segments_of

IMAGE = CACHE / "image"
ISCSI = 3260
PASSWORD = "correct horse 7"
INITIATOR = "iqn.2026-11.example.zvaai:writer"
MIB = 1 << 20
ROOT_OFFSET = 513 * MIB
"""Offset of the root partition, after 1 MiB of the partition table and the ESP (packaging/image/partitions)."""
MADE_BY_EACH_MACHINE = (
    *("/var/lib/zvaai", "/var/lib/zvaai-frontend", "/var/lib/zvaai-target", "/var/lib/zvaai-helper"),
    *("/var/lib/dkms/mok.key", "/etc/ssh/ssh_host_ed25519_key", "/etc/hostid", "/var/lib/dbus/machine-id"),
)
"""Keys, certificate and identifiers at the first boot."""
COPY_BYTES = 32 * MIB
DATA = random.Random(20).randbytes(COPY_BYTES)
"""Compression would make what is shared smaller."""
SEED = f"""
[administrator]
password = "{PASSWORD}"
[[pools]]
name = "tank"
vdevs = ["/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_data"]
[[groups]]
name = "cluster"
[[hosts]]
name = "esx1"
group = "cluster"
iqns = ["{INITIATOR}"]
[[datastores]]
name = "vmfs1"
pool = "tank"
size = "1G"
groups = ["cluster"]
[[datastores]]
name = "vmfs2"
pool = "tank"
size = "1G"
groups = ["cluster"]
"""


@pytest.fixture(scope="module")
def pc() -> Iterator[EmulatedPc]:
    """At its first boot."""
    folder = CACHE / "emulated-pc"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with EmulatedPc(IMAGE / "zvaai.qcow2", folder, 4 << 30, (ISCSI,)) as pc:
        yield pc


def test_the_menu_opens_nmtui(pc: EmulatedPc) -> None:
    """The menu shows the address of the console and the one-time code. nmtui returns to it."""
    pc.wait_for_text(r"https://10\.0\.2\.15:8443", 1800)
    pc.wait_for_text(r"One-time code: +[0-9a-f-]{20,}")
    pc.wait_for_menu()
    pc.type("n\r")
    pc.wait_for_text("Edit a connection")
    pc.wait_for_text("Set system hostname")
    pc.wait_for_text("Quit")
    pc.type("q\r")
    pc.wait_for_menu()


def test_the_menu_restarts_the_machine(pc: EmulatedPc) -> None:
    pc.type("r\r")
    pc.wait_for_text("BdsDxe: starting", 600)
    pc.wait_for_menu()


def test_the_menu_leads_to_a_login(pc: EmulatedPc, report_line: Callable[[str], None]) -> None:
    """Once root has a password the screen is a login."""
    pc.set_password(PASSWORD)
    report_line(f"booted: {pc.run('systemd-analyze time | head -1')}")


def test_a_locked_root_does_not_open_the_menu(pc: EmulatedPc) -> None:
    pc.run("passwd --lock root && systemctl restart getty@tty1")
    shown = "readlink /proc/$(systemctl show -P MainPID getty@tty1)/exe || true"
    try:
        wait_for(lambda: pc.run(shown) == "/usr/sbin/agetty", "the screen is a login", 120)
    finally:
        pc.run("passwd --unlock root")


def test_it_is_a_complete_machine(pc: EmulatedPc) -> None:
    """No unit failed, the root file system has the whole disk, and both modules are there."""
    assert pc.run("systemctl --failed --plain --no-legend") == ""
    assert int(pc.run("df --output=size --block-size=1G / | tail -1")) >= 10
    assert {"zfs", "zvol_clone"} <= set(pc.run("lsmod | cut -d' ' -f1").split())
    assert re.fullmatch("[0-9a-f]{32}", pc.run("cat /etc/machine-id"))
    assert pc.run("stat -c %s /etc/hostid") == "4", "without it ZFS imports a pool that another server uses"


async def write(portal: str, iqn: str) -> None:
    """Writes DATA to LUN 0."""
    async with Session(portal, iqn, INITIATOR) as session:
        await session.execute(cdb.TEST_UNIT_READY)
        for at in range(0, COPY_BYTES, MIB):
            assert (await session.execute(cdb.write(at // 512, MIB // 512), data_out=DATA[at : at + MIB])).status == GOOD
        assert (await session.execute(cdb.synchronize_cache())).status == GOOD


async def copy(portal: str, iqn: str) -> None:
    """Has LUN 0 copied to LUN 1, which then has the same data."""
    async with Session(portal, iqn, INITIATOR) as session:
        for lun in (0, 1):
            await session.execute(cdb.TEST_UNIT_READY, lun=lun)
        names = [await naa_of(session, lun) for lun in (0, 1)]
        parameters = parameter_list(names, segments_of(COPY_BYTES // 512, 0, 1, most=MIB // 512 * 16))
        assert (await session.execute(extended_copy(parameters), data_out=parameters)).status == GOOD
        for at in range(0, COPY_BYTES, MIB):
            answer = await session.execute(cdb.read(at // 512, MIB // 512), data_in=MIB, lun=1)
            assert answer.data == DATA[at : at + MIB]


def test_extended_copy_shares_blocks_on_debians_kernel(pc: EmulatedPc, report_line: Callable[[str], None]) -> None:
    pc.run(f"umask 077; cat >/etc/zvaai/setup.toml <<'END'\n{SEED}\nEND")
    pc.run("zvaai setup --seed /etc/zvaai/setup.toml", 1200)
    portal = f"127.0.0.1:{ISCSI}"
    iqn = run("iscsi-ls", "-i", INITIATOR, f"iscsi://{portal}").removeprefix("Target:").split()[0]
    asyncio.run(write(portal, iqn))
    pc.run("zpool sync tank")  # what no transaction group has written yet is copied in this slow machine
    asyncio.run(copy(portal, iqn))

    def shared() -> int:
        return int(pc.run("zpool sync tank; zpool get -Hp -o value bcloneused tank"))

    wait_for(lambda: shared() >= COPY_BYTES, "the copied blocks are shared")
    report_line(f"uname: {pc.run('uname -r')}; {shared() // MIB} MiB shared of {COPY_BYTES // MIB} MiB copied")


def test_kernel_updates_boot(pc: EmulatedPc) -> None:
    """Debian's hooks write the boot entry that the image boots: a new initrd reaches it."""
    kernel = pc.run("uname -r")
    entry = pc.run("cat /efi/loader/entries/zvaai-*.conf")
    assert kernel in entry
    pc.run(f"touch -d 2000-01-01 /efi/zvaai/{kernel}/initrd*")
    pc.run("update-initramfs -u -k all", 900)
    assert not pc.run(f"stat -c %y /efi/zvaai/{kernel}/initrd*").startswith("2000")


def test_the_menu_shuts_the_machine_down(pc: EmulatedPc) -> None:
    """It is there again as soon as root has no password."""
    pc.run("passwd --delete root")
    pc.type("exit\r")
    pc.wait_for_menu()
    pc.type("o\r")
    pc.wait_until_off()


@pytest.mark.parametrize("path", MADE_BY_EACH_MACHINE)
def test_no_secret_is_in_the_image(path: str) -> None:
    words = ["debugfs", "-R", f"stat {path}", f"{IMAGE / 'zvaai.raw'}?offset={ROOT_OFFSET}"]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    assert f"{path}: File not found" in result.stderr


def test_the_ova_is_whole() -> None:
    """The description comes first and names the disk that follows, with its size."""
    with tarfile.open(IMAGE / "zvaai.ova") as archive:
        description, disk = archive.getmembers()
        assert (description.name, disk.name) == ("zvaai.ovf", "zvaai.vmdk")
        text = archive.extractfile(description)
        assert text is not None
        tree = ElementTree.parse(text)
    name = "{http://schemas.dmtf.org/ovf/envelope/1}"
    [file] = tree.iter(f"{name}File")
    [described] = tree.iter(f"{name}Disk")
    assert (file.get(f"{name}href"), file.get(f"{name}size")) == ("zvaai.vmdk", str(disk.size))
    assert described.get(f"{name}capacity") == str(Path(IMAGE / "zvaai.raw").stat().st_size)
