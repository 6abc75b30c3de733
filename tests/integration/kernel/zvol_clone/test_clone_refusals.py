# SPDX-License-Identifier: Apache-2.0
"""Each invalid request is refused with its errno and reason, and changes nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import MIB, dataset_of, destroy, opened, partition_of, read_direct, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import (
    DEVICE,
    VERSION,
    ZVOL_CLONE_RANGE,
    Outcome,
    Stopped,
    ZvolClone,
)
from support.programs import run, wait_for
from support.zfs import Pool

VolumeOf = Callable[..., Path]
BLOCK = 16384


def refused(outcome: Outcome, error: int, stopped: Stopped) -> bool:
    """Whether it was refused with this error and reason, and did nothing."""
    return (outcome.error, outcome.stopped, outcome.bytes_done, outcome.dirty_length) == (error, stopped, 0, 0)


def clone_range(device: ZvolClone, source: int, destination: int, ranges: tuple[int, int, int]) -> Outcome:
    """Requests (source offset, destination offset, length)."""
    return device.clone(source, destination, ranges[2], source_offset=ranges[0], destination_offset=ranges[1])


@pytest.fixture(scope="module")
def source(lasting_volume: VolumeOf) -> Iterator[int]:
    """A zvol with data, open for reading."""
    with opened(lasting_volume(16, filled=16), os.O_RDONLY) as fd:
        yield fd


@pytest.fixture(scope="module")
def path(lasting_volume: VolumeOf) -> Iterator[Path]:
    """A zvol full of ones; unchanged after all tests of this file."""
    path = lasting_volume(16)
    write_direct(path, b"\xff" * 16 * MIB)
    yield path
    assert read_direct(path, 16 * MIB) == b"\xff" * 16 * MIB


@pytest.fixture(scope="module")
def destination(path: Path) -> Iterator[int]:
    """`path`, open for writing."""
    with opened(path, os.O_RDWR) as fd:
        yield fd


def test_a_number_that_is_no_descriptor(device: ZvolClone, source: int, destination: int) -> None:
    for number in (-1, 12345, -100):
        assert refused(device.clone(number, destination, BLOCK), errno.EBADF, Stopped.BAD_DESCRIPTOR)
        assert refused(device.clone(source, number, BLOCK), errno.EBADF, Stopped.BAD_DESCRIPTOR)


def test_files_that_are_not_block_devices(device: ZvolClone, source: int, destination: int) -> None:
    with tempfile.TemporaryFile() as file, opened(Path("/dev/zero"), os.O_RDWR) as zero, opened(DEVICE, os.O_RDWR) as control:
        pipe = os.pipe()
        for other in (file.fileno(), zero, control, *pipe):
            assert refused(device.clone(other, destination, BLOCK), errno.ENOTBLK, Stopped.NOT_BLOCK_DEVICE)
            assert refused(device.clone(source, other, BLOCK), errno.ENOTBLK, Stopped.NOT_BLOCK_DEVICE)
        for end in pipe:
            os.close(end)


def test_block_devices_of_other_drivers(device: ZvolClone, source: int, destination: int, tmp_path: Path) -> None:
    run("modprobe", "brd", "rd_nr=1", "rd_size=16384")
    run("modprobe", "loop")
    with (tmp_path / "image").open("wb") as file:
        file.truncate(16 * MIB)
    loop = Path(run("losetup", "--find", "--show", tmp_path / "image").strip())
    ubd = Path(os.environ["ZVAAI_DISKS"].split()[0])
    try:
        for other in (ubd, loop, Path("/dev/ram0")):
            wait_for(other.is_block_device, f"{other} is there")
            with opened(other, os.O_RDWR) as fd:
                assert refused(device.clone(fd, destination, BLOCK), errno.ENODEV, Stopped.NOT_ZVOL), other
                assert refused(device.clone(source, fd, BLOCK), errno.ENODEV, Stopped.NOT_ZVOL), other
    finally:
        run("losetup", "--detach", loop)


def test_a_partition_of_a_zvol(device: ZvolClone, source: int, volume: VolumeOf) -> None:
    whole = volume(16)
    with opened(partition_of(whole), os.O_RDWR) as part, opened(whole, os.O_RDWR) as fd:
        assert refused(device.clone(source, part, BLOCK), errno.ENODEV, Stopped.PARTITION)
        assert refused(device.clone(part, fd, BLOCK), errno.ENODEV, Stopped.PARTITION)


def test_open_modes(device: ZvolClone, source: int, path: Path) -> None:
    with opened(path, os.O_RDONLY) as reading:
        assert refused(device.clone(source, reading, BLOCK), errno.EBADF, Stopped.BAD_DESCRIPTOR)
    with opened(path, os.O_WRONLY) as writing:
        assert refused(device.clone(writing, writing, BLOCK), errno.EBADF, Stopped.BAD_DESCRIPTOR)
    with opened(path, os.O_PATH) as handle:
        assert refused(device.clone(handle, handle, BLOCK), errno.EBADF, Stopped.BAD_DESCRIPTOR)


def test_a_destination_made_read_only_while_open(device: ZvolClone, source: int, path: Path, destination: int) -> None:
    run("zfs", "set", "readonly=on", dataset_of(path))
    assert refused(device.clone(source, destination, BLOCK), errno.EROFS, Stopped.READ_ONLY)
    # Reading from it is allowed.
    assert refused(device.clone(destination, destination, BLOCK), errno.EROFS, Stopped.READ_ONLY)
    run("zfs", "set", "readonly=off", dataset_of(path))


def test_another_pool(device: ZvolClone, source: int, other_pool: Pool, destination: int) -> None:
    foreign = other_pool.create_volume("foreign", 16)
    with opened(foreign, os.O_RDWR) as fd:
        assert refused(device.clone(source, fd, BLOCK), errno.EXDEV, Stopped.OTHER_POOL)
        assert refused(device.clone(fd, destination, BLOCK), errno.EXDEV, Stopped.OTHER_POOL)
    destroy(dataset_of(foreign))


def test_another_block_size(device: ZvolClone, source: int, volume: VolumeOf) -> None:
    with opened(volume(16, volblocksize="64K"), os.O_RDWR) as fd:
        assert refused(device.clone(source, fd, 65536), errno.EINVAL, Stopped.OTHER_BLOCK_SIZE)


@pytest.mark.parametrize(
    "ranges",
    [(512, 0, BLOCK), (0, 512, BLOCK), (0, 0, BLOCK - 512), (8192, 8192, BLOCK), (0, 0, 1), (1, 1, BLOCK)],
)
def test_misaligned_ranges(device: ZvolClone, source: int, destination: int, ranges: tuple[int, int, int]) -> None:
    outcome = clone_range(device, source, destination, ranges)
    assert refused(outcome, errno.EINVAL, Stopped.UNALIGNED)


@pytest.mark.parametrize(
    "ranges",
    [
        (16 * MIB, 0, BLOCK),
        (0, 16 * MIB, BLOCK),
        (BLOCK, 0, 16 * MIB),
        (0, BLOCK, 16 * MIB),
        (0, 0, 16 * MIB + BLOCK),
        (0, 0, 2**64 - BLOCK),
        (BLOCK, 0, 2**64 - BLOCK),
        (2**64 - BLOCK, 0, 2 * BLOCK),
        (0, 2**64 - BLOCK, BLOCK),
        (2**63, 2**63, 2**63),
    ],
)
def test_ranges_beyond_the_end(device: ZvolClone, source: int, destination: int, ranges: tuple[int, int, int]) -> None:
    outcome = clone_range(device, source, destination, ranges)
    assert refused(outcome, errno.EINVAL, Stopped.OUT_OF_RANGE)


@pytest.mark.parametrize(("source_offset", "destination_offset"), [(0, 0), (0, MIB), (MIB, 0), (0, 2 * MIB - BLOCK)])
def test_overlap_inside_one_volume(
    device: ZvolClone, path: Path, destination: int, source_offset: int, destination_offset: int
) -> None:
    with opened(path, os.O_RDONLY) as same:
        outcome = device.clone(same, destination, 2 * MIB, source_offset=source_offset, destination_offset=destination_offset)
    assert refused(outcome, errno.EINVAL, Stopped.OVERLAP)


def test_malformed_requests(device: ZvolClone, source: int, destination: int) -> None:
    for version in (0, 1, 3, 2**32 - 1):
        outcome = device.clone(source, destination, BLOCK, version=version)
        assert refused(outcome, errno.ENOTTY, Stopped.OTHER_VERSION) and outcome.version == VERSION
    assert refused(device.clone(source, destination, BLOCK, flags=1), errno.EINVAL, Stopped.BAD_REQUEST)
    assert refused(device.clone(source, destination, BLOCK, reserved=1), errno.EINVAL, Stopped.BAD_REQUEST)
    libc = ctypes.CDLL(None, use_errno=True)
    calls = ((ZVOL_CLONE_RANGE, 8, errno.EFAULT), (ZVOL_CLONE_RANGE + 1, 0, errno.ENOTTY), (0x1234, 0, errno.ENOTTY))
    for command, argument, expected in calls:
        assert libc.ioctl(device.fd, ctypes.c_ulong(command), ctypes.c_void_p(argument)) == -1
        assert ctypes.get_errno() == expected


def test_length_zero_only_checks(device: ZvolClone, source: int, destination: int) -> None:
    outcome = device.clone(source, destination, 0)
    assert (outcome.error, outcome.stopped, outcome.bytes_done) == (0, Stopped.COMPLETE, 0)
    assert refused(device.clone(source, device.fd, 0), errno.ENOTBLK, Stopped.NOT_BLOCK_DEVICE)


def test_permission_to_call(device: ZvolClone, source: int, volume: VolumeOf) -> None:
    """Another user cannot open the device. With it and both zvols open, a caller can only do what reads and writes can."""
    with opened(volume(16), os.O_RDWR) as volume_fd:
        child = os.fork()
        if child == 0:
            code = 9
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                try:
                    os.open(DEVICE, os.O_RDWR)
                    code = 1
                except PermissionError:
                    code = 0 if device.clone(source, volume_fd, BLOCK).stopped == Stopped.COMPLETE else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
