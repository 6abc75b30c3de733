# SPDX-License-Identifier: Apache-2.0
"""The preflight reports missing requirements and the remedy before any build.

Each test creates a real lack in a mount namespace.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.programs import REPOSITORY

PREFLIGHT = REPOSITORY / "packaging/preflight"


def preflight(setup: str = "true", program: Path = PREFLIGHT, purpose: str = "test") -> tuple[int, str]:
    """Exit code and output of the preflight after `setup` in a mount namespace.

    Its processor time is at most 5 s; other load of the machine does not count.
    """
    script = f"{setup} && exec {program} {purpose}"
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script]
    before = _used()
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert _used() - before < 5
    return result.returncode, result.stdout + result.stderr


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_passes_here(tmp_path: Path) -> None:
    """Memory and disk are set, because the running suite uses some of both."""
    meminfo, checkout = tmp_path / "meminfo", Path("/mnt")  # a short path, wherever the suite is
    meminfo.write_text(f"MemAvailable: {4 << 20} kB\n")
    room = f"mount --bind {meminfo} /proc/meminfo && exec 3<{PREFLIGHT} && mount -t tmpfs -o size=9500m tmpfs {checkout}"
    copy = f"mkdir {checkout}/packaging && install /dev/fd/3 {checkout}/packaging/preflight && exec 3<&-"
    assert preflight(f"{room} && {copy}", checkout / "packaging/preflight") == (0, "")


def test_a_cache_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    """`make clean-cache` would delete them."""
    (tmp_path / "family.jpg").touch()
    prepare = REPOSITORY / "packaging/rootfs/prepare"
    environment = {**os.environ, "ZVAAI_CACHE": str(tmp_path)}
    refused = subprocess.run([prepare, "base"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1 and "set ZVAAI_CACHE to a new folder" in refused.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["family.jpg"]


def test_a_folder_with_other_files_is_not_cleaned(tmp_path: Path) -> None:
    checkout, folder = tmp_path / "checkout", tmp_path / "srv"
    for name in ("clean", "rootfs/common.sh"):
        (checkout / "packaging" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / "packaging" / name, checkout / "packaging" / name)
    for path in (folder / "family", checkout / ".cache"):
        path.mkdir(parents=True)
    environment = {**os.environ, "ZVAAI_CACHE": str(folder)}
    clean = checkout / "packaging/clean"
    refused = subprocess.run([clean, "cache"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1 and "has other files" in refused.stderr
    assert (folder / "family").exists() and (checkout / ".cache").exists()


def test_not_root() -> None:
    """In a folder that everybody can reach: pytest closes its own to others whenever another pytest begins."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "packaging")
        folder.mkdir()
        shutil.copy(PREFLIGHT, folder)
        for path in (folder, folder.parent):
            path.chmod(0o755)
        code, text = preflight(f"exec setpriv --reuid 65534 --regid 65534 --clear-groups {folder}/preflight demo")
    assert code == 1
    assert "not root" in text and "sudo make demo" in text


def test_no_tun_device() -> None:
    code, text = preflight("mount -t tmpfs tmpfs /dev/net")
    assert code == 1
    assert "/dev/net/tun is missing" in text and "modprobe tun" in text


def test_little_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\n")
    code, text = preflight(f"mount --bind {meminfo} /proc/meminfo")
    assert code == 1
    assert "976 MiB of memory available" in text


def test_sysctl_that_cannot_be_raised(tmp_path: Path) -> None:
    setting = tmp_path / "max_map_count"
    setting.write_text("65530\n")
    code, text = preflight(
        f"mount --bind {setting} /proc/sys/vm/max_map_count && mount -o remount,bind,ro /proc/sys/vm/max_map_count"
    )
    assert code == 1
    assert "vm.max_map_count is 65530" in text and "sysctl -w vm.max_map_count=1048576" in text


def test_little_disk_space(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "packaging").mkdir(parents=True)
    copy = f"mount -t tmpfs -o size=20m tmpfs {checkout} && mkdir {checkout}/packaging && cp {PREFLIGHT} {checkout}/packaging/"
    code, text = preflight(copy, checkout / "packaging/preflight")
    assert code == 1
    assert f"MiB free where {checkout} lies; 3 GiB are needed" in text and "or move the checkout" in text


def test_little_disk_space_for_the_shared_cache(tmp_path: Path) -> None:
    code, text = preflight(f"mount -t tmpfs -o size=20m tmpfs {tmp_path} && export ZVAAI_CACHE={tmp_path}/cache")
    assert code == 1
    assert (
        f"MiB free where {tmp_path}/cache lies; 7 GiB are needed" in text and "set ZVAAI_CACHE to a new folder elsewhere" in text
    )


def test_every_lack_is_named_at_once(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    shutil.copy("/proc/meminfo", meminfo)
    meminfo.write_text("MemAvailable: 1000 kB\n")
    code, text = preflight(f"mount --bind {meminfo} /proc/meminfo && mount -t tmpfs tmpfs /dev/net")
    assert code == 1
    assert "memory available" in text and "/dev/net/tun" in text
