# SPDX-License-Identifier: Apache-2.0
"""The kernel's initiator on a LUN of a zvol: file system, verified I/O, and a killed target."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.initiator import Initiator
from support.programs import run, wait_for
from support.target import Target
from support.volumes import VolumeMaker
from support.zfs import Pool

BLOCK_BYTES = 16384


@pytest.fixture
def disk(target: Target, make_volume: VolumeMaker) -> Iterator[Path]:
    """The initiator's disk for a LUN on a zvol."""
    target.add_lun(0, make_volume("volume", 256))
    initiator = Initiator()
    yield initiator.login(target.portal)
    initiator.logout(target.portal)


def test_block_sizes_reach_the_initiator(disk: Path) -> None:
    queue = Path("/sys/class/block") / disk.resolve().name / "queue"
    assert (queue / "logical_block_size").read_text().strip() == "512"
    # ESXi supports no larger physical block; I/O should be multiples of the zvol's block.
    assert (queue / "physical_block_size").read_text().strip() == "4096"
    assert (queue / "minimum_io_size").read_text().strip() == "16384"


def test_file_system_and_verified_io(disk: Path, pool: Pool, tmp_path: Path, seed: int) -> None:
    run("mkfs.ext4", "-q", disk)
    mount_point = tmp_path / "mount"
    mount_point.mkdir()
    run("mount", disk, mount_point)
    try:
        run(
            *("fio", "--name=verify", f"--directory={mount_point}", "--size=48M", "--rw=randwrite", "--bsrange=4k-128k"),
            *("--ioengine=libaio", "--iodepth=16", "--direct=1", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"),
            *(f"--randseed={seed}", "--fsync=32", "--output-format=terse", "--verify_state_save=0"),
            timeout=600,
        )
    finally:
        run("umount", mount_point)
    run("e2fsck", "-f", "-n", disk)
    pool.scrub()


def stamped_block(number: int, sequence: int) -> bytes:
    """A block filled with its number and the sequence of its write."""
    return (number.to_bytes(8, "big") + sequence.to_bytes(8, "big")) * (BLOCK_BYTES // 16)


def test_no_acknowledged_write_is_lost_when_the_target_is_killed(
    target: Target, make_volume: VolumeMaker, pool: Pool, seed: int
) -> None:
    """The LUN reports no write cache, so every acknowledged write counts, without a flush.

    The check reads the zvol itself after the initiator's logout: no cache of the initiator can help.
    """
    volume = make_volume("volume", 64)
    target.add_lun(0, volume)
    initiator = Initiator()
    disk = initiator.login(target.portal)
    choice, away = random.Random(seed), random.Random(seed)
    blocks = (64 << 20) // BLOCK_BYTES
    acknowledged: dict[int, int] = {}
    page = mmap.mmap(-1, BLOCK_BYTES)
    kills = 3
    done = threading.Event()

    killed = 0

    def killer() -> None:
        nonlocal killed
        try:
            for _ in range(kills):
                before = len(acknowledged)
                wait_for(lambda before=before: len(acknowledged) > before + 40, "writes continue", timeout=300)  # type: ignore[misc]
                target.kill()
                time.sleep(away.random() / 2)  # the random downtime is part of the test
                target.start()
                killed += 1
        finally:
            done.set()

    thread = threading.Thread(target=killer)
    thread.start()
    device = os.open(disk, os.O_WRONLY | os.O_DIRECT)
    try:
        sequence = 0
        while not done.is_set() or sequence % 50:
            sequence += 1
            number = choice.randrange(blocks)
            page[:] = stamped_block(number, sequence)
            assert os.pwrite(device, page, number * BLOCK_BYTES) == BLOCK_BYTES
            acknowledged[number] = sequence
    finally:
        os.close(device)
        thread.join()
    initiator.logout(target.portal)
    assert killed == kills, "the target was not killed and started as often as planned"
    with volume.open("rb") as stored:
        for number, sequence in acknowledged.items():
            stored.seek(number * BLOCK_BYTES)
            assert stored.read(BLOCK_BYTES) == stamped_block(number, sequence), f"block {number} is not of write {sequence}"
    pool.scrub()


def test_a_stopped_target_comes_back_for_a_mounted_file_system(target: Target, make_volume: VolumeMaker, tmp_path: Path) -> None:
    """fio verifies through a kill -9 and restart of the target, and the file system is clean afterwards."""
    target.add_lun(0, make_volume("volume", 128))
    initiator = Initiator()
    disk = initiator.login(target.portal)
    run("mkfs.ext4", "-q", disk)
    mount_point = tmp_path / "mount"
    mount_point.mkdir()
    run("mount", disk, mount_point)
    try:
        fio = subprocess.Popen(
            ["fio", "--name=verify", f"--directory={mount_point}", "--size=32M", "--rw=randwrite", "--bs=16k"]
            + ["--ioengine=libaio", "--iodepth=8", "--direct=1", "--fsync=16"]
            + ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        statistics = Path("/sys/class/block") / disk.resolve().name / "stat"

        def sectors_written() -> int:
            return int(statistics.read_text().split()[6])

        start = sectors_written()
        wait_for(lambda: sectors_written() - start > 8 << 11 or fio.poll() is not None, "8 MiB written")
        assert fio.poll() is None, "fio ended before the target was killed: the test shows nothing"
        target.kill()
        target.start()
        output, _ = fio.communicate(timeout=600)
        assert fio.returncode == 0, output
    finally:
        run("umount", mount_point)
    run("e2fsck", "-f", "-n", disk)
    initiator.logout(target.portal)
