# SPDX-License-Identifier: Apache-2.0
"""The module loads only for the zfs module it was built for, and otherwise refuses with the reason."""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.kernel.zvol_clone import kernel_module
from integration.kernel.zvol_clone.zvol_clone_ioctl import DEVICE
from support.programs import run, wait_for
from support.zfs import Pool


@pytest.fixture
def file(module_file: Path, pool: Pool) -> Iterator[Path]:
    """The module's file; the module is not loaded before and after."""
    run("udevadm", "settle")  # udev opens new devices, which counts as a use of zfs
    assert not kernel_module.loaded() or kernel_module.remove("zvol_clone") == 0
    yield module_file
    assert not kernel_module.loaded() or kernel_module.remove("zvol_clone") == 0


@pytest.fixture
def closed_device() -> Iterator[None]:
    """This process has /dev/zfs open once a test has loaded pyzfs, which never closes it. Closed here, opened again after."""
    if Path("/dev/zfs") not in {link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}:
        yield
        return
    library = ctypes.CDLL("libzfs_core.so.3")
    library.libzfs_core_fini()
    yield
    assert library.libzfs_core_init() == 0


@pytest.fixture
def right(file: Path) -> dict[str, int]:
    """The right addresses: each parameter is a function."""
    names = [line.partition(":")[0] for line in run("modinfo", "-F", "parm", file).splitlines()]
    return {name: kernel_module.address_of(name) for name in names}


def refused(file: Path, error: int, words: str, **parameters: int) -> bool:
    """Whether loading fails with this error and the use count of zfs does not change."""
    references = Path("/sys/module/zfs/refcnt").read_text()
    error_number, log = kernel_module.insert(file, **parameters)
    assert not DEVICE.exists()
    assert error_number == error and words in log, (error_number, log)
    return Path("/sys/module/zfs/refcnt").read_text() == references


def test_loads_and_unloads(file: Path) -> None:
    references = int(Path("/sys/module/zfs/refcnt").read_text())
    for _ in range(3):
        result = kernel_module.load(file)
        assert result.returncode == 0, result.stderr
        wait_for(DEVICE.is_char_device, f"{DEVICE} is there")
        assert DEVICE.stat().st_mode & 0o777 == 0o660
        assert int(Path("/sys/module/zfs/refcnt").read_text()) == references + 1
        assert kernel_module.load(file).returncode == 0, "loading again does nothing"
        assert kernel_module.remove("zvol_clone") == 0
        assert int(Path("/sys/module/zfs/refcnt").read_text()) == references
    assert not list(Path("/sys/module").glob("zvol_clone"))


def test_the_addresses_stay_secret(file: Path) -> None:
    assert kernel_module.load(file).returncode == 0
    assert not Path("/sys/module/zvol_clone/parameters").exists()


def test_missing_addresses(file: Path, right: dict[str, int]) -> None:
    assert refused(file, errno.EINVAL, "refused: no address for zvol_clone_range")
    for missing in right:
        rest = {name: address for name, address in right.items() if name != missing}
        assert refused(file, errno.EINVAL, f"refused: no address for {missing}", **rest)


@pytest.mark.parametrize("parameter", ["zvol_clone_range", "rrm_exit"])
@pytest.mark.parametrize("wrong", ["one byte on", "another function", "the kernel's", "nowhere", "user space", "the other one"])
def test_wrong_addresses(file: Path, right: dict[str, int], parameter: str, wrong: str) -> None:
    addresses = {
        "one byte on": right[parameter] + 1,
        "another function": kernel_module.address_of("zvol_first_open"),
        "the kernel's": kernel_module.address_of("vfs_read", None),
        "nowhere": 2**64 - 4096,
        "user space": 4096,
        "the other one": next(address for name, address in right.items() if name != parameter),
    }
    words = f"refused: the address given for {parameter} "
    assert refused(file, errno.EINVAL, words, **{**right, parameter: addresses[wrong]})


def test_another_build_of_zfs(file: Path, right: dict[str, int], tmp_path: Path) -> None:
    """A copy of the module that expects another zfs: refused like a module left from before an upgrade."""
    old = bytes.fromhex(run("modinfo", "-F", "zfs_build_id", file))
    content = file.read_bytes()
    assert content.count(old) == 1
    other = tmp_path / "zvol_clone.ko"
    other.write_bytes(content.replace(old, bytes([old[0] ^ 1]) + old[1:]))
    assert refused(other, errno.ENOEXEC, "refused: built for the zfs module of build ID ", **right)


@pytest.mark.usefixtures("closed_device")
def test_zfs_stays_while_it_is_loaded(file: Path, pool: Pool) -> None:
    run("zpool", "export", pool.name)
    try:
        assert kernel_module.load(file).returncode == 0
        assert kernel_module.remove("zfs") == errno.EWOULDBLOCK
        assert kernel_module.loaded("zfs")
        assert kernel_module.remove("zvol_clone") == 0
        wait_for(lambda: kernel_module.remove("zfs") == 0, "zfs unloads once zvol_clone is gone")
        # After another load its address differs, and is found.
        assert kernel_module.load(file).returncode == 0
    finally:
        run("modprobe", "zfs")
        run("zpool", "import", "-d", "/dev", pool.name)


def test_hidden_addresses(file: Path) -> None:
    setting = Path("/proc/sys/kernel/kptr_restrict")
    before = setting.read_text()
    setting.write_text("2\n")
    try:
        result = kernel_module.load(file)
        assert result.returncode == 1 and "kernel.kptr_restrict is 2" in result.stderr
    finally:
        setting.write_text(before)
