# SPDX-License-Identifier: Apache-2.0
"""What the volume crate opens of the block devices: only whole zvols that nobody else uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration.kernel.conftest import VolumeOf
from integration.kernel.zvol_clone.blocks import opened, partition_of
from support.programs import ProgramFailed, run
from support.volume_tool import allocation


def refuses(device: Path) -> None:
    """The volume crate does not open the device because of its kind."""
    assert device.is_block_device()
    with pytest.raises(ProgramFailed, match=r"NotAVolume\(.*not a whole zvol"):
        allocation(device, 0, 512)


def test_other_block_devices(tmp_path: Path) -> None:
    """Not even if nothing uses them."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    run("modprobe", "loop")
    loop = Path(run("losetup", "--find", "--show", image).strip())
    try:
        for device in (loop, Path(os.environ["ZVAAI_DISKS"].split()[1])):
            refuses(device)
    finally:
        run("losetup", "--detach", loop)


def test_a_partition_of_a_zvol(volume: VolumeOf) -> None:
    device = volume(16)
    refuses(partition_of(device))
    allocation(device, 0, 512)


def test_a_zvol_with_another_user(volume: VolumeOf, tmp_path: Path) -> None:
    device = volume(16)
    with opened(device, os.O_RDONLY | os.O_EXCL), pytest.raises(ProgramFailed, match="InUse"):
        allocation(device, 0, 512)
    run("mkfs.ext4", "-q", device)
    run("mount", device, tmp_path)
    try:
        with pytest.raises(ProgramFailed, match="InUse"):
            allocation(device, 0, 512)
    finally:
        run("umount", tmp_path)
    allocation(device, 0, 512)
