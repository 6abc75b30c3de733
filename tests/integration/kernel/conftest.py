# SPDX-License-Identifier: Apache-2.0
"""Fixtures in the guest: the loaded zvol_clone, volumes, a second pool."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.freezing_pool import FreezingPool
from integration.kernel.removable_pool import RemovablePool
from integration.kernel.zvol_clone import kernel_module
from integration.kernel.zvol_clone.blocks import destroy, random_blocks, write_direct
from integration.kernel.zvol_clone.zvol_clone_ioctl import ZvolClone
from support.programs import IN_GUEST, run
from support.short_pool import ShortPool
from support.target import Target, running_target
from support.zfs import Pool


@pytest.fixture(scope="session")
def module_file() -> Path:
    """The module for this guest's kernel."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    assert kernel_module.MODULE.exists(), "not built: packaging/build-kernel"
    return kernel_module.MODULE


@pytest.fixture
def device(module_file: Path, pool: Pool) -> Iterator[ZvolClone]:
    """The open device. The first test that needs the module loads it; it remains loaded."""
    result = kernel_module.load(module_file)
    assert result.returncode == 0, result.stderr + kernel_module.kernel_log()[-2000:]
    device = ZvolClone()
    yield device
    device.close()


VolumeOf = Callable[..., Path]


_numbers = itertools.count()


@contextlib.contextmanager
def volume_maker(pool: Pool) -> Iterator[VolumeOf]:
    """Makes zvols; destroys all at the end."""
    made: list[str] = []

    def make(size_mib: int, *, filled: int = 0, **properties: str) -> Path:
        name = f"clone{next(_numbers)}"
        made.append(name)
        device = pool.create_volume(name, size_mib, **properties)
        if filled:
            write_direct(device, random_blocks(filled << 20))
            run("zpool", "sync", pool.name)
        return device

    yield make
    for name in made:
        destroy(f"{pool.name}/{name}")


@pytest.fixture
def volume(pool: Pool) -> Iterator[VolumeOf]:
    """Makes a zvol of a size in MiB: volume(64, volblocksize="16K"); filled=N puts N MiB of random data on its disk."""
    with volume_maker(pool) as make:
        yield make


@pytest.fixture(scope="module")
def lasting_volume(pool: Pool) -> Iterator[VolumeOf]:
    """`volume` for all tests of a file."""
    with volume_maker(pool) as make:
        yield make


@pytest.fixture(scope="module")  # tests of other files export all pools but the first, and reload zfs
def other_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A second pool, on a file in memory."""
    disk = tmp_path_factory.mktemp("other") / "disk"
    with disk.open("wb") as file:
        file.truncate(1 << 30)
    pool = Pool("other", str(disk))
    yield pool
    pool.destroy()


@pytest.fixture
def zfs_parameter() -> Iterator[Callable[[str, int], None]]:
    """Sets a parameter of the zfs module for one test."""
    before: dict[Path, str] = {}

    def setting(name: str, value: int) -> None:
        path = Path("/sys/module/zfs/parameters", name)
        before.setdefault(path, path.read_text())
        path.write_text(f"{value}\n")

    yield setting
    for path, value in before.items():
        path.write_text(value)


@pytest.fixture
def freezing_pool(tmp_path: Path) -> Iterator[FreezingPool]:
    """A pool whose syncs can be stopped."""
    pool = FreezingPool(tmp_path)
    yield pool
    pool.destroy()


@pytest.fixture
def short_pool(tmp_path: Path) -> Iterator[ShortPool]:
    """A pool of 2 GiB, on the guest's second disk."""
    pool = ShortPool("short", os.environ["ZVAAI_DISKS"].split()[1], tmp_path / "files")
    yield pool
    pool.destroy()


@pytest.fixture
def small_pool(tmp_path: Path) -> Iterator[ShortPool]:
    """A pool of 768 MiB in memory, which is quickly full."""
    disk = tmp_path / "small disk"
    with disk.open("wb") as file:
        file.truncate(768 << 20)
    pool = ShortPool("small", str(disk), tmp_path / "small files")
    yield pool
    pool.destroy()


@pytest.fixture
def small_target(small_pool: ShortPool, tmp_path: Path) -> Iterator[Target]:
    """A target that stops before the pool is destroyed."""
    with running_target(tmp_path / "small target") as target:
        yield target


@pytest.fixture
def short_target(short_pool: ShortPool, tmp_path: Path) -> Iterator[Target]:
    """A target that stops before the pool is destroyed."""
    with running_target(tmp_path / "target") as target:
        yield target


@pytest.fixture
def removable_pool(tmp_path: Path) -> Iterator[RemovablePool]:
    """A pool whose devices can be removed."""
    pool = RemovablePool(tmp_path)
    yield pool
    pool.destroy()
