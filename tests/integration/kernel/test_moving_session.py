# SPDX-License-Identifier: Apache-2.0
"""A session of the kernel's initiator moves to another reactor while the host writes and verifies."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.initiator import Initiator
from support.programs import wait_for
from support.target import Target
from support.volumes import VolumeMaker

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
MOVED = "session moves to another reactor"


def verify(disk: Path, offset: int) -> subprocess.Popen[str]:
    """Writes 16 MiB of a disk and verifies them, until SIGTERM."""
    command = [
        *("fio", "--name=verify", f"--filename={disk.resolve()}", f"--offset={offset}m", "--size=16m", "--rw=randwrite"),
        *("--bsrange=4k-256k", "--ioengine=libaio", "--iodepth=16", "--direct=1", "--verify=crc32c", "--verify_fatal=1"),
        *("--verify_backlog=64", "--time_based", "--runtime=600", "--verify_state_save=0", "--output-format=terse"),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_a_session_moves_under_load(tmp_path: Path, make_volume: VolumeMaker) -> None:
    target = Target(tmp_path, [(f"{address}:3260", 1) for address in ADDRESSES], ["--reactors", "2", "--log", "debug"])
    target.start()
    initiator, log = Initiator(), tmp_path / "target.log"

    def commands() -> list[int]:
        return [session["commands"] for session in target.call("sessions.list")["sessions"] if session["type"] == "normal"]

    try:
        target.create()
        target.add_lun(0, make_volume("volume", 64))
        disks = [initiator.login(f"{address}:3260") for address in ADDRESSES]
        # Three sessions on two reactors: the first and the last are together.
        hosts = [verify(disk, offset) for disk, offset in zip((disks[0], disks[2]), (0, 32), strict=True)]
        try:
            wait_for(lambda: MOVED in log.read_text() or any(host.poll() is not None for host in hosts), "a move")
            before = commands()
            wait_for(lambda: sum(now >= then + 1000 for now, then in zip(commands(), before, strict=True)) >= 2, "more I/O")
        finally:
            for host in hosts:
                host.terminate()
            errors = [host.communicate()[1] for host in hosts]
        assert errors == ["", ""] and len(before) == len(ADDRESSES)
        assert MOVED in log.read_text()
    finally:
        initiator.forget()
        assert target.stop() == 0
