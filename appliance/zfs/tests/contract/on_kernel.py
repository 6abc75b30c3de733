# SPDX-License-Identifier: Apache-2.0
"""The kernel's OpenZFS as a rig, in the guest."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from appliance.zfs.engine import ZfsEngine
from appliance.zfs.names import zvol_link
from appliance.zfs.tests.contract.rig import MIB, Rig

MEMORY = Path("/dev/shm")
POOL = "contract"


def run(*words: str) -> str:
    """Output of a program that ends well."""
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout


class KernelHands:
    """Uses datasets as other programs do."""

    def __init__(self) -> None:
        self._written: Counter[str] = Counter()

    def write(self, name: str, size: int) -> None:
        device = zvol_link(name)
        wait_for(device)
        seek = self._written[name]
        run(
            "dd",
            "if=/dev/urandom",
            f"of={device}",
            "bs=1M",
            f"count={size // MIB}",
            f"seek={seek}",
            "oflag=direct",
            "conv=notrunc",
        )
        self._written[name] += size // MIB
        run("zpool", "sync", name.split("/", 1)[0])

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[None]:
        where = run("zfs", "list", "-H", "-o", "mountpoint", name).strip()
        if where.startswith("/"):
            program = subprocess.Popen(["sleep", "1000"], cwd=where)
        else:
            wait_for(zvol_link(name))
            with Path(zvol_link(name)).open("rb") as file:
                program = subprocess.Popen(["sleep", "1000"], stdin=file)
        try:
            yield
        finally:
            program.kill()
            program.wait()

    def receive(self, source: str, name: str) -> None:
        with subprocess.Popen(["zfs", "send", "-p", source], stdout=subprocess.PIPE) as send:
            subprocess.run(["zfs", "receive", "-u", name], stdin=send.stdout, check=True, timeout=60)

    @contextlib.contextmanager
    def sent(self, name: str) -> Iterator[None]:
        with subprocess.Popen(["zfs", "send", name], stdout=subprocess.PIPE) as program:
            try:
                assert select.select([program.stdout], [], [], 60)[0], "it sends, and nobody reads it"
                yield
            finally:
                program.kill()

    def unload_key(self, name: str) -> None:
        run("udevadm", "settle")  # udev's programs open the volumes
        run("zfs", "unload-key", name)

    def spoil(self, name: str) -> None:
        subprocess.run([b"zfs", b"set", b"org.example:odd=a\xff", name.encode()], check=True, timeout=60)

    @contextlib.contextmanager
    def slow_scans(self) -> Iterator[None]:
        parameter = Path("/sys/module/zfs/parameters/zfs_scan_suspend_progress")
        parameter.write_text("1\n")
        try:
            yield
        finally:
            parameter.write_text("0\n")

    def damage(self, device: str) -> None:
        pool = next(
            name for name in run("zpool", "list", "-H", "-o", "name").split() if device in run("zpool", "status", "-P", name)
        )
        run("zpool", "offline", "-f", pool, device)

    def unplug(self, device: str) -> None:
        run("truncate", "--size=0", device)
        run("truncate", f"--size={256 * MIB}", device)

    def set_failmode(self, pool: str, failmode: str) -> None:
        run("zpool", "set", f"failmode={failmode}", pool)

    def used_elsewhere(self, pool: str) -> None:
        """Imports it as another host, with the device paths from before the export."""
        parameter = Path("/sys/module/spl/parameters/spl_hostid")
        before = parameter.read_text()
        parameter.write_text("4711\n")
        run("zpool", "import", "-d", str(MEMORY), pool)
        run("zpool", "sync", pool)
        devices = [word for word in run("zpool", "status", "-P", pool).split() if word.startswith("/dev/")]
        for device in devices:
            run("cp", "--sparse=always", device, f"{device}.kept")
        run("zpool", "export", pool)
        for device in devices:
            shutil.move(f"{device}.kept", device)
        parameter.write_text("815\n" if before.strip() in {"0", "4711"} else before)


def wait_for(path: str) -> None:
    """Until udev has made the link."""
    run("udevadm", "settle")
    until = time.monotonic() + 120
    while not Path(path).exists():
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.02)


@contextlib.contextmanager
def kernel_rig(engine: ZfsEngine) -> Iterator[Rig]:
    """A pool on the guest's second disk, devices on files in memory."""
    disk = os.environ["ZVAAI_DISKS"].split()[1]
    devices = [str(MEMORY / f"contract{number}") for number in range(6)]
    for device in devices:
        with Path(device).open("wb") as file:
            file.truncate(256 * MIB)
    run("zpool", "create", "-f", "-O", "mountpoint=none", POOL, disk)
    try:
        yield Rig(engine, POOL, devices, KernelHands())
    finally:
        run("zpool", "destroy", "-f", POOL)
        for device in devices:
            Path(device).unlink()
