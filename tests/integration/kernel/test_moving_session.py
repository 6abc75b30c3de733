# SPDX-License-Identifier: Apache-2.0
"""A session of the kernel's initiator moves to another reactor while the host writes and verifies."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from support.initiator import Initiator
from support.programs import wait_for
from support.target import Target
from support.zfs import Pool

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
DIGESTS = {f"node.conn[0].iscsi.{name}Digest": "CRC32C" for name in ("Header", "Data")}
MOVED = "session moves to another reactor"


def verify(disk: Path, offset: int) -> subprocess.Popen[str]:
    """Writes 16 MiB of a disk and verifies them, until SIGTERM."""
    command = [
        *("fio", "--name=verify", f"--filename={disk.resolve()}", f"--offset={offset}m", "--size=16m", "--rw=randwrite"),
        *("--bsrange=4k-256k", "--ioengine=libaio", "--iodepth=16", "--direct=1", "--verify=crc32c", "--verify_fatal=1"),
        *("--verify_backlog=64", "--time_based", "--runtime=600", "--verify_state_save=0", "--output-format=terse"),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_a_session_moves_under_load(tmp_path: Path, other_pool: Pool) -> None:
    """In memory, so that the processor limits the I/O: sessions move by its load."""
    target = Target(tmp_path, [(f"{address}:3260", 1) for address in ADDRESSES], ["--reactors", "2", "--log", "debug"])
    target.start()
    initiator, log = Initiator(), tmp_path / "target.log"

    def sessions() -> list[dict[str, Any]]:
        return [session for session in target.call("sessions.list")["sessions"] if session["type"] == "normal"]

    try:
        target.create()
        target.add_lun(0, other_pool.create_volume("moving", 64))
        disks = {portal: initiator.login(portal, settings=DIGESTS) for portal in (f"{address}:3260" for address in ADDRESSES)}
        of_reactor: dict[int, list[Path]] = {}
        for session in sessions():
            of_reactor.setdefault(session["reactor"], []).append(disks[session["portal"]])
        # Three sessions on two reactors: at least two are together.
        together = max(of_reactor.values(), key=len)
        hosts = [verify(disk, offset) for disk, offset in zip(together, (0, 32), strict=False)]
        try:
            wait_for(lambda: MOVED in log.read_text() or any(host.poll() is not None for host in hosts), "a move")
            before = [session["commands"] for session in sessions()]
            wait_for(
                lambda: sum(now["commands"] >= then + 1000 for now, then in zip(sessions(), before, strict=True)) >= 2, "more I/O"
            )
        finally:
            for host in hosts:
                host.terminate()
            errors = [host.communicate()[1] for host in hosts]
            print(log.read_text()[-4000:])
        assert errors == ["", ""] and len(before) == len(ADDRESSES)
        assert MOVED in log.read_text()
    finally:
        initiator.forget()
        assert target.stop() == 0
