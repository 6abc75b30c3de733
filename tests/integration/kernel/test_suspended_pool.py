# SPDX-License-Identifier: Apache-2.0
"""The devices of one pool fail. A Linux host with LUNs of it and of another pool continues with the other."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import time
from pathlib import Path
from threading import Event, Thread

from integration.kernel.removable_pool import RemovablePool
from integration.kernel.zvol_clone.blocks import MIB
from support.initiator import Initiator
from support.programs import run, wait_for
from support.target import IQN, Target
from support.volumes import VolumeMaker

LONGEST_SECONDS = 20
HANGING = 32
"""Queue depth of the host for a LUN, and as many as OpenZFS has threads for all zvols of all pools (zvol_threads, zfs(4))."""


class Writer:
    """Writes to a file system all the time, each block and its metadata to disk, at most 20 times a second."""

    def __init__(self, path: Path) -> None:
        self.longest, self.writes, self.error = 0.0, 0, ""
        self._path, self._stop, self._thread = path, Event(), Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                # Emptied in time: a fast guest fills the file system.
                with self._path.open("ab" if self.writes % 64 else "wb") as file:
                    file.write(bytes(256 << 10))
                    file.flush()
                    os.fsync(file.fileno())
                self.longest = max(self.longest, time.monotonic() - began)
                self.writes += 1
                self._stop.wait(0.05)
        except OSError as error:
            self.error = str(error)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_of: object) -> None:
        self._stop.set()
        self._thread.join()

    def goes_on(self, when: str) -> None:
        """Returns after 20 more writes."""
        before = self.writes
        wait_for(lambda: bool(self.error) or self.writes >= before + 20, f"the other file system is written {when}")
        assert not self.error, f"{when}: {self.error}"


def write_block(file: int, number: int) -> bool:
    """Writes 1 MiB to an open disk, as one command. False after an error."""
    with contextlib.suppress(OSError), mmap.mmap(-1, MIB) as block:  # O_DIRECT needs whole pages
        return os.pwrite(file, block, 2 * MIB * number) == MIB
    return False


def aborts() -> int:
    """Commands that the kernel's initiator has aborted."""
    match = re.search(r"eh_abort_cnt: (\d+)", run("iscsiadm", "-m", "session", "-s"))
    assert match
    return int(match[1])


def peers(target: Target) -> list[str]:
    """Address and port of the other end of each session."""
    return [str(session["peer"]) for session in target.call("sessions.list")["sessions"]]


def test_a_host_continues_with_the_other_pool(
    target: Target, removable_pool: RemovablePool, make_volume: VolumeMaker, tmp_path: Path
) -> None:
    target.add_lun(0, removable_pool.create_volume("removed", 64, volthreading="off"))
    target.add_lun(1, make_volume("working", 64))
    initiator = Initiator()
    removed = initiator.login(target.portal)
    working = initiator.disk(target.portal, lun=1)
    # The kernel's 30 s, shortened.
    Path(f"/sys/class/block/{removed.resolve().name}/device/timeout").write_text("4\n")
    run("mkfs.ext4", "-q", working)
    mount_point = tmp_path / "mount"
    mount_point.mkdir()
    run("mount", "-o", "errors=remount-ro", working, mount_point)
    session = peers(target)
    # Closed at the end only: after a writer's close udev reads the partition table, which would hang and delay others.
    file = os.open(removed, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
    writes = [Thread(target=write_block, args=(file, number), daemon=True) for number in range(HANGING)]
    try:
        with Writer(mount_point / "file") as writer:
            writer.goes_on("before")
            with removable_pool.removed():
                for write in writes:
                    write.start()
                wait_for(removable_pool.is_suspended, "the pool is suspended")
                # The host repeats what it aborted, is refused as long as the old commands last, and gives up after 24 s.
                wait_for(
                    lambda: aborts() >= HANGING or not any(write.is_alive() for write in writes),
                    "the host has aborted its commands",
                )
                assert aborts(), "the host's commands ended without an abort"
                writer.goes_on("while the pool is suspended")
            removable_pool.clear()
            for write in writes:
                write.join(120)
            # Whether the host repeated its commands for long enough, or gave them up: the LUN works again.
            wait_for(lambda: write_block(file, 0), "LUN 0 works")
            writer.goes_on("after")
        print(f"longest write of the other pool: {writer.longest:.3f} s of {writer.writes}")
        assert writer.longest < LONGEST_SECONDS
        assert not writer.error
        assert peers(target) == session, "the host logged in again"
    finally:
        hanging = sum(write.is_alive() for write in writes)
        print(f"{aborts()} aborts, {hanging} writes have not ended, peers {peers(target)}")
        os.close(file)
        run("umount", mount_point)
        run("e2fsck", "-f", "-n", working)
        initiator.forget()
        for number in (0, 1):
            target.call("luns.delete", {"target": IQN, "number": number})
