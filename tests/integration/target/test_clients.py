# SPDX-License-Identifier: Apache-2.0
"""Third-party clients use a LUN as a disk: libiscsi's tools and QEMU. Both tiers."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.images import digest, file_system_image
from support.programs import IN_GUEST, ProgramFailed, run
from support.target import IQN, Account, Target
from support.volumes import VolumeMaker
from support.zfs import Pool

IMAGE_MIB = 64 if IN_GUEST else 256


def test_discovery_names_the_target_and_its_luns(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("first", 64))
    target.add_lun(3, make_volume("second", 32))
    listing = run("iscsi-ls", "-s", target.url())
    assert f"Target:{IQN} Portal:{target.portal},1" in listing
    assert re.findall(r"Lun:(\d+)", listing) == ["0", "3"]


def test_inquiry_identifies_the_lun(target: Target, make_volume: VolumeMaker) -> None:
    identity = target.add_lun(0, make_volume("volume", 64), product="TEST DISK")
    url = target.url(0)
    standard = run("iscsi-inq", url)
    assert "Peripheral Device Type:DIRECT_ACCESS" in standard
    assert "Vendor:ZVAAI" in standard and "Product:TEST DISK" in standard
    supported = run("iscsi-inq", "-e", "1", "-c", "0x00", url)
    for page in ("0x00", "0x80", "0x83", "0xb0", "0xb1", "0xb2"):
        assert page in supported.lower(), supported
    serial = run("iscsi-inq", "-e", "1", "-c", "0x80", url)
    assert identity.replace("-", "") in serial.replace("-", "").lower()
    designators = run("iscsi-inq", "-e", "1", "-c", "0x83", url)
    assert "NAA" in designators, designators


def test_identity_survives_restart(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("volume", 64))
    pages = ("0x80", "0x83")
    before = [run("iscsi-inq", "-e", "1", "-c", page, target.url(0)) for page in pages]
    target.kill()
    target.start()
    assert [run("iscsi-inq", "-e", "1", "-c", page, target.url(0)) for page in pages] == before


def test_capacity_and_block_sizes(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("volume", 64))
    capacity = run("iscsi-readcapacity16", target.url(0))
    assert "Total size:67108864" in capacity, capacity
    # 2^3 logical blocks of 512 bytes, although volblocksize is 16K in the guest: ESXi supports no larger physical block.
    assert "LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT:3" in capacity, capacity


def test_disk_image_to_the_lun_and_back(
    target: Target, make_volume: VolumeMaker, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    image = file_system_image(tmp_path, seed, IMAGE_MIB)
    volume = make_volume("volume", IMAGE_MIB)
    target.add_lun(0, volume)
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, target.url(0))
    assert "Images are identical" in run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, target.url(0))
    back = tmp_path / "back.raw"
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", target.url(0), back)
    assert digest(back) == digest(image)
    assert digest(volume, IMAGE_MIB << 20) == digest(image), "the volume itself holds other bytes than the clients read"
    run("e2fsck", "-f", "-n", back)
    if IN_GUEST:
        pool: Pool = request.getfixturevalue("pool")
        pool.scrub()


def test_many_sessions_at_once(target: Target, make_volume: VolumeMaker, tmp_path: Path, seed: int) -> None:
    """Each session writes a separate LUN, concurrently."""
    sessions = 4
    sources = []
    for number in range(sessions):
        (tmp_path / str(number)).mkdir()
        sources.append(file_system_image(tmp_path / str(number), seed + number, 16))
        target.add_lun(number, make_volume(f"volume{number}", 16))

    def write_and_compare(number: int) -> None:
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", sources[number], target.url(number))
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", sources[number], target.url(number))

    with ThreadPoolExecutor(sessions) as pool:
        for outcome in [pool.submit(write_and_compare, number) for number in range(sessions)]:
            outcome.result()


def test_chap_requires_the_secret(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("volume", 16))
    account = Account("host", "a-secret-of-20-bytes")
    target.call("accounts.set", {"target": IQN, "name": account.name, "secret": account.secret, "initiators": "any"})
    assert "ZVAAI" in run("iscsi-inq", target.url(0, account=account))
    for wrong in (None, Account("host", "another-secret-20-by"), Account("guest", account.secret)):
        with pytest.raises(ProgramFailed):
            run("iscsi-inq", target.url(0, account=wrong))


def test_a_missing_lun_is_refused(target: Target, make_volume: VolumeMaker) -> None:
    target.add_lun(0, make_volume("volume", 16))
    refused = subprocess.run(["iscsi-readcapacity16", target.url(5)], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "ILLEGAL_REQUEST" in refused.stderr and "LOGICAL_UNIT_NOT_SUPPORTED" in refused.stderr, refused.stderr
