# SPDX-License-Identifier: Apache-2.0
"""A host that writes one stable 4 KiB block after the other and reconnects when it loses the server.

usage: python3 -m support.steady_writer iscsi|nfs write|verify REPORT SERVER NAME     NAME: the target's iqn, or the export's path
`write` runs until SIGTERM. REPORT, a JSON file, then has how many blocks were acknowledged and the longest time without an
acknowledgement, in seconds. `verify` reads all blocks: exit code 1 if an acknowledged block is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
import time
from pathlib import Path
from typing import Protocol

from support import cdb, libnfs
from support.raw_initiator import GOOD, Refused, Session

INITIATOR = "iqn.2026-11.example.zvaai:writer"
BLOCK_BYTES = 4096
SLOTS = 2048
LBA_BYTES = 512
RETRY_SECONDS = 0.1
ANSWER_SECONDS = 20
"""After this time a host drops its connection: after a power cut of the server, no packet ends it."""


class Disk(Protocol):
    """Blocks by slot. Raises OSError while the server is down."""

    async def write(self, slot: int, data: bytes) -> None: ...  # noqa: D102
    async def read(self, slot: int) -> bytes: ...  # noqa: D102


class Lun:
    """LUN 0 of a target, with a session that is recreated after a loss."""

    def __init__(self, server: str, iqn: str) -> None:
        self._server, self._iqn = server, iqn
        self._session: Session | None = None

    async def _execute(self, command: bytes, data_in: int = 0, data_out: bytes = b"") -> bytes:
        try:
            if self._session is None:
                session = Session(f"{self._server}:3260", self._iqn, INITIATOR)
                self._session = await asyncio.wait_for(session.__aenter__(), 5)
            answer = await asyncio.wait_for(self._session.execute(command, data_in, data_out), ANSWER_SECONDS)
        except (OSError, EOFError, Refused, TimeoutError, AssertionError) as error:
            if self._session is not None:
                with contextlib.suppress(Exception):
                    await self._session.__aexit__(None, None, None)
            self._session = None
            raise OSError(str(error)) from error
        if answer.status != GOOD:  # a unit attention after each login, or a missing LUN
            raise OSError(f"status {answer.status}")
        return answer.data

    async def write(self, slot: int, data: bytes) -> None:
        """With FUA."""
        blocks = BLOCK_BYTES // LBA_BYTES
        await self._execute(cdb.write(slot * blocks, blocks, 0x08), data_out=data)

    async def read(self, slot: int) -> bytes:
        blocks = BLOCK_BYTES // LBA_BYTES
        return await self._execute(cdb.read(slot * blocks, blocks), data_in=BLOCK_BYTES)


class File:
    """A file of an NFSv3 export; the library reconnects itself."""

    def __init__(self, server: str, export: str) -> None:
        self._server, self._export = server, export
        self._file: libnfs.File | None = None

    def _open(self) -> libnfs.File:
        if self._file is None:
            client = libnfs.Client(self._export, 3, server=self._server)
            try:
                self._file = client.open("/steady", os.O_RDWR)
            except FileNotFoundError:
                self._file = client.open("/steady", os.O_RDWR | os.O_CREAT)
        return self._file

    async def write(self, slot: int, data: bytes) -> None:
        """WRITE and COMMIT."""
        file = self._open()
        file.write(slot * BLOCK_BYTES, data)
        file.sync()

    async def read(self, slot: int) -> bytes:
        return self._open().read(slot * BLOCK_BYTES, BLOCK_BYTES)


def block(number: int) -> bytes:
    """Content of block `number`."""
    return struct.pack(">Q", number) * (BLOCK_BYTES // 8)


async def write(disk: Disk, report: Path) -> None:
    """Writes until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    number, longest, problem = 0, 0.0, ""
    if report.exists():
        number = json.loads(report.read_text())["acknowledged"]
    last = 0.0

    def save() -> None:
        new = report.with_suffix(".new")
        new.write_text(json.dumps({"acknowledged": number, "longest": longest, "problem": problem}))
        new.rename(report)

    while not stop.is_set():
        try:
            await disk.write((number + 1) % SLOTS, block(number + 1))
        except OSError as error:
            problem = str(error)
            save()
            await asyncio.sleep(RETRY_SECONDS)
            continue
        now = time.monotonic()
        longest = max(longest, now - last) if last else 0.0
        last = now
        number += 1
        save()
        await asyncio.sleep(0)
    save()


async def verify(disk: Disk, report: Path) -> None:
    """Raises SystemExit if blocks are lost."""
    acknowledged = json.loads(report.read_text())["acknowledged"]
    for back in range(min(acknowledged, SLOTS - 2)):  # two more may have been written when it was killed
        number = acknowledged - back
        for _attempt in range(50):
            with contextlib.suppress(OSError):
                content = await disk.read(number % SLOTS)
                break
            await asyncio.sleep(RETRY_SECONDS)
        else:
            raise SystemExit(f"block {number} cannot be read")
        if content != block(number):
            raise SystemExit(f"block {number} was acknowledged and is lost: {content[:16].hex()}")
    print(f"{acknowledged} blocks")


def main(kind: str, action: str, report: str, server: str, name: str) -> None:
    disk: Disk = Lun(server, name) if kind == "iscsi" else File(server, name)
    asyncio.run((write if action == "write" else verify)(disk, Path(report)))


if __name__ == "__main__":
    main(*sys.argv[1:])
