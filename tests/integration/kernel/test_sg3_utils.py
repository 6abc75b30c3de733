# SPDX-License-Identifier: Apache-2.0
"""sg3_utils over the kernel's initiator: the LUN's data decodes without complaint, and is true."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.initiator import Initiator
from support.programs import run
from support.target import IQN, Target, running_target
from support.volumes import zvols
from support.zfs import Pool

SIZE_MIB = 64
TYPES = {
    1: "Write Exclusive",
    3: "Exclusive Access",
    5: "Write Exclusive, registrants only",
    6: "Exclusive Access, registrants only",
    7: "Write Exclusive, all registrants",
    8: "Exclusive Access, all registrants",
}
COMPLAINTS = re.compile(
    r"malformed|invalid|unexpected|too short|truncated|unable|failed|reserved \[|illegal|cannot", re.IGNORECASE
)


class Disk:
    """The LUN as a disk, and its expected data."""

    def __init__(self, target: Target, device: Path, identity: str) -> None:
        self.device = device
        self.serial_number = identity.replace("-", "")
        self.naa = target.call("luns.list", {"target": IQN})["luns"][0]["naa"].removeprefix("naa.")

    def says(self, program: str, *words: str) -> str:
        """Output of an sg3_utils program, which must not complain."""
        output = run(program, *words, self.device)
        assert not (complaint := COMPLAINTS.search(output)), f"{program} {' '.join(words)}: {complaint}\n{output}"
        return output


@pytest.fixture(scope="module")
def disk(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    """A LUN on a zvol."""
    directory = tmp_path_factory.mktemp("sg3")
    with zvols(pool) as make, running_target(directory / "target") as target:
        identity = target.add_lun(0, make("sg3", SIZE_MIB), product="SG TEST")
        initiator = Initiator()
        yield Disk(target, initiator.login(target.portal), identity)
        initiator.logout(target.portal)


def test_sg_inq(disk: Disk) -> None:
    standard = disk.says("sg_inq", "-d")
    assert "Product identification: SG TEST" in standard and "Vendor identification: ZVAAI" in standard
    assert "CmdQue=1" in standard and "SPC-4" in standard and "SBC-3" in standard, standard


def test_sg_vpd_of_every_page(disk: Disk) -> None:
    raw = subprocess.run(["sg_vpd", "--page=sv", "--raw", disk.device], capture_output=True, check=True).stdout
    supported = list(raw[4 : 4 + int.from_bytes(raw[2:4])])
    assert {0x00, 0x80, 0x83, 0xB0, 0xB1} <= set(supported), supported
    for page in supported:
        disk.says("sg_vpd", f"--page={page:#x}")
    assert disk.serial_number in disk.says("sg_vpd", "--page=sn").replace("-", "").lower()
    identification = disk.says("sg_vpd", "--page=di").lower()
    assert f"0x{disk.naa}" in identification, identification
    assert "target port group" in identification or "relative target port" in identification, identification


def test_sg_rtpg(disk: Disk) -> None:
    for form in ([], ["--extended"]):
        groups = disk.says("sg_rtpg", "-d", *form)
        assert "active/optimized" in groups and "AO_SUP : 1" in groups, groups


def test_sg_persist(disk: Disk) -> None:
    capabilities = disk.says("sg_persist", "--in", "--report-capabilities")
    assert "Persist Through Power Loss Capable(PTPL_C): 0" in capabilities, capabilities
    for kind in (1, 3, 5, 6, 7, 8):
        out = "sg_persist", "--out", "--no-inquiry"
        disk.says(*out, "--register-ignore", "--param-sark=0xabc")
        disk.says(*out, "--reserve", "--param-rk=0xabc", f"--prout-type={kind}")
        assert "0xabc" in disk.says("sg_persist", "--in", "--read-keys")
        status = disk.says("sg_persist", "--in", "--read-full-status")
        assert "Reservation holder" in status and "iSCSI" in status and ",i,0x" in status, status
        assert f"type: {TYPES[kind]}" in disk.says("sg_persist", "--in", "--read-reservation")
        disk.says(*out, "--release", "--param-rk=0xabc", f"--prout-type={kind}")
        assert "NO reservation held" in disk.says("sg_persist", "--in", "--read-reservation")
        disk.says(*out, "--clear", "--param-rk=0xabc")
        assert "NO registered reservation keys" in disk.says("sg_persist", "--in", "--read-keys")


def test_sg_modes(disk: Disk) -> None:
    pages = disk.says("sg_modes", "-a")
    for name in ("Caching", "Control"):
        assert name in pages, pages
    for control in ("0", "1", "2"):
        disk.says("sg_modes", "-a", f"--control={control}")


def test_sg_logs(disk: Disk) -> None:
    disk.says("sg_logs", "-a")


def test_sg_opcodes(disk: Disk) -> None:
    everything = disk.says("sg_opcodes", "--rctd")
    for name in ("Read(10)", "Write(16)", "Inquiry", "Report luns", "Synchronize cache(10)", "Mode sense(6)"):
        assert name.lower() in everything.lower(), everything
    assert "not supported" in disk.says("sg_opcodes", "--opcode=0x04").lower()  # FORMAT UNIT
    disk.says("sg_opcodes", "--tmf")


def test_sg_readcap(disk: Disk) -> None:
    capacity = disk.says("sg_readcap", "--long")
    assert f"{(SIZE_MIB << 20) // 512 - 1}" in capacity and "Logical block length=512" in capacity, capacity
    exponent = re.search(r"Logical blocks per physical block exponent=(\d+)", capacity)
    assert exponent and 512 << int(exponent[1]) in (4096, 16384), capacity


def test_reads_and_verifies(disk: Disk) -> None:
    for words in (["sg_verify", "--lba=0", "--count=128"], ["sg_verify", "--16", "--lba=0", "--count=1"]):
        disk.says(*words)
    disk.says("sg_turs", "--number=10")
    disk.says("sg_sync")
    disk.says("sg_requests")
    disk.says("sg_luns")
    disk.says("sg_start", "--start")
    disk.says("sg_senddiag", "--test")
    disk.says("sg_rtpg") if "TPGS=0" not in run("sg_inq", disk.device) else None
