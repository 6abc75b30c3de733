# SPDX-License-Identifier: Apache-2.0
"""A volume that LIO served, adopted: an initiator reads LIO's responses byte for byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

from simulators.appliance import GIB, running
from support.names_of_disk import of_lio
from support.raw_initiator import GOOD, Session
from support.target import Target

from appliance.dataplane.target_socket import TargetSocket

ESX = "iqn.1998-01.com.vmware:esx1"
SERIAL = "e4a3b2c1-0f0e-4d0c-8b0a-090807060504"
NAA = bytes.fromhex("6001405" + "e4a3b2c10f0e4d0c8b0a09080")
"""NAA 6, LIO's company identifier, and the first 25 hexadecimal digits of the unit serial number."""
ASSOCIATION = 0x30


def inquiry(page: int | None) -> bytes:
    """Standard data, or a vital product data page."""
    return bytes([0x12, page is not None, page or 0]) + (255).to_bytes(2) + b"\0"


def descriptors(page: bytes) -> list[tuple[int, int, bytes]]:
    """CODE SET, association and type, and designator of page 83h."""
    designators, rest = [], page[4:]
    while rest:
        designators.append((rest[0], rest[1], rest[4 : 4 + rest[3]]))
        rest = rest[4 + rest[3] :]
    return designators


def test_the_names_of_lio(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    target = Target(tmp_path / "target")
    target.start()
    try:
        with running(tmp_path / "a", TargetSocket(target.socket_path), tmp_path / "volumes") as appliance:
            appliance.simulator.create_volume("tank/vol1", GIB, volblocksize=65536)
            names = of_lio(SERIAL, NAA.hex(), "vol1")
            body = {"dataset": "tank/vol1", "name": "moved", "known_as": names, "host_groups": [appliance.group("cluster", ESX)]}
            job = appliance.job("POST", "/volumes/adopt", body)
            assert job["result"]["served"], job
            iqn = appliance.target_name

            async def seen() -> dict[int | None, bytes]:
                async with Session(target.portal, iqn=iqn, initiator=ESX, lun=0) as session:
                    answers = {page: await session.execute(inquiry(page), 255) for page in (None, 0x80, 0x83)}
                assert {answer.status for answer in answers.values()} == {GOOD}
                return {page: answer.data for page, answer in answers.items()}

            before = asyncio.run(seen())
            assert before[None][8:32] == b"LIO-ORG vol1            "
            assert before[0x80][4:] == SERIAL.encode() + b"\0"
            of_unit = [descriptor for descriptor in descriptors(before[0x83]) if not descriptor[1] & ASSOCIATION]
            assert of_unit == [(1, 3, NAA), (2, 1, b"LIO-ORG vol1:" + SERIAL.encode() + b"\0")]
            # The same after a restart, and no other LUN gets one of these names.
            target.kill()
            target.start()
            assert asyncio.run(seen()) == before
            appliance.simulator.create_volume("tank/vol2", GIB, volblocksize=65536)
            again = appliance.request("POST", "/volumes/adopt", {**body, "dataset": "tank/vol2", "name": "other"})
            assert again.status_code == 409, again.text
    finally:
        target.stop()
