# SPDX-License-Identifier: Apache-2.0
"""LUNs on zvols, copies between them by EXTENDED COPY, and the bytes written to the disk below."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import cdb
from support.programs import ProgramFailed, run
from support.raw_initiator import GOOD, Session
from support.target import IQN, Target
from support.third_party_copy import extended_copy, naa_of, parameter_list, segments_of

SECTOR_BYTES = 512


def serve(target: Target, *volumes: Path) -> None:
    """Serves volumes as LUNs 0, 1, ..."""
    for number, volume in enumerate(volumes):
        target.add_lun(number, volume)


def offload_of(target: Target, lun: int, iqn: str = IQN) -> dict[str, Any]:
    """The offload counters of a LUN."""
    luns = target.call("statistics.get")["luns"]
    return dict(next(row for row in luns if (row["number"], row["target"]) == (lun, iqn))["offload"])


@dataclass(frozen=True)
class Luns:
    """A session and the NAA of each of its LUNs."""

    session: Session
    naas: list[bytes]

    async def copy(self, length: int, *, from_: int = 0, to: int = 0, source: int = 0, destination: int = 1) -> None:
        """Copies a number of bytes between byte offsets, 16 MiB per command. Raises AssertionError."""
        numbers = (value // SECTOR_BYTES for value in (length, from_, to))
        blocks, first, into = numbers
        for segment in segments_of(blocks, source, destination, from_=first, to=into, most=32768):
            parameters = parameter_list(self.naas, [segment])
            answer = await self.session.execute(extended_copy(parameters), data_out=parameters, lun=destination)
            assert answer.status == GOOD, answer

    async def write(self, lun: int, data: bytes, offset: int) -> None:
        """Writes through the target, 1 MiB per command."""
        for at in range(0, len(data), 1 << 20):
            part = data[at : at + (1 << 20)]
            command = cdb.write((offset + at) // SECTOR_BYTES, len(part) // SECTOR_BYTES)
            assert (await self.session.execute(command, data_out=part, lun=lun)).status == GOOD

    async def unmap(self, lun: int, offset: int, length: int) -> None:
        """UNMAP of one range."""
        command, parameters = cdb.unmap((offset // SECTOR_BYTES, length // SECTOR_BYTES))
        assert (await self.session.execute(command, data_out=parameters, lun=lun)).status == GOOD


@contextlib.asynccontextmanager
async def luns(target: Target, count: int = 2) -> AsyncIterator[Luns]:
    """A session on LUNs 0 to `count` - 1, after their first unit attentions."""
    async with Session(target.portal) as session:
        for lun in range(count):
            await session.execute(cdb.TEST_UNIT_READY, lun=lun)
        yield Luns(session, [await naa_of(session, lun) for lun in range(count)])


def qemu_copy(source: str, destination: str, options: Sequence[str] = ()) -> int:
    """`qemu-img convert -C` between two URLs; returns QEMU's number of EXTENDED COPY commands. Raises ProgramFailed."""
    command = ["qemu-img", "-T", "iscsi_xcopy", "convert", "-C", "-n", *options, "-f", "raw", "-O", "raw", source, destination]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode:
        raise ProgramFailed(f"{command}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stderr.count("iscsi_xcopy")


def bytes_to_disk(pool: str) -> int:
    """Bytes written so far to the guest's first disk, after a sync of the pool."""
    run("zpool", "sync", pool)
    disk = Path(os.environ["ZVAAI_DISKS"].split()[0]).name
    return int(Path(f"/sys/block/{disk}/stat").read_text().split()[6]) * SECTOR_BYTES
