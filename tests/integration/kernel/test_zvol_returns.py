# SPDX-License-Identifier: Apache-2.0
"""A LUN whose zvol disappears, returns and grows, without a request; and a LUN whose zvol returns as another dataset."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.cdb import TEST_UNIT_READY, read, unmap, write
from support.programs import ProgramFailed, run, wait_for
from support.raw_initiator import GOOD, Response, Session
from support.target import IQN, RpcError, Target
from support.volumes import VolumeMaker
from support.zfs import Pool

NAME = "returning"
UNIT_ATTENTION = 0x06
WRITE_PROTECTED = (0x07, 0x27, 0x00)
RENAMES = 20


def lun(target: Target) -> dict[str, Any]:
    """The only LUN in the target's response."""
    (row,) = target.call("luns.list", {"target": IQN})["luns"]
    return dict(row)


def test_a_zvol_disappears_returns_and_grows(target: Target, pool: Pool, make_volume: VolumeMaker) -> None:
    device = make_volume(NAME, 64)
    target.add_lun(0, device)
    wait_for(lambda: "covered" in lun(target), "the first space update")
    before = lun(target)
    target.kill()
    pool.destroy_volume(NAME)
    target.start()
    gone = lun(target)
    assert (gone["state"], gone["naa"]) == ("failed", before["naa"])
    assert str(device) in gone["reason"]
    # Hosts see the disk as not ready, not as missing.
    with pytest.raises(ProgramFailed, match="NOT READY"):
        run("iscsi-ls", "-s", target.url())
    pool.create_volume(NAME, 64)
    wait_for(lambda: lun(target) == before, "the new zvol is served")
    run("qemu-io", "-f", "raw", "-c", "write -P 5 0 1M", "-c", "read -P 5 0 1M", target.url(0))
    run("zfs", "set", "volsize=128M", f"{pool.name}/{NAME}")
    wait_for(lambda: lun(target)["size_bytes"] == 128 << 20, "the new size is seen")
    assert str(128 << 20) in run("iscsi-readcapacity16", "-s", target.url(0))
    target.call("luns.delete", {"target": IQN, "number": 0})


def guid(dataset: str) -> str:
    return run("zfs", "get", "-H", "-p", "-o", "value", "guid", dataset).strip()


def test_a_copy_under_the_name_of_the_original_is_not_served(
    target: Target, pool: Pool, make_volume: VolumeMaker, tmp_path: Path
) -> None:
    """Name and content are the same; only the GUID differs."""
    device, dataset, stream = make_volume(NAME, 16), f"{pool.name}/{NAME}", tmp_path / "stream"
    original = guid(dataset)
    with pytest.raises(RpcError, match="has the GUID"):
        target.add_lun(0, device, guid=str(int(original) ^ 1))
    target.add_lun(0, device, guid=original)
    run("qemu-io", "-f", "raw", "-c", "write -P 5 0 1M", target.url(0))
    with pytest.raises(RpcError, match="has the GUID"):
        target.call("luns.change", {"target": IQN, "number": 0, "guid": "7"})
    # An open zvol does not change, whatever its name.
    run("zfs", "rename", dataset, f"{dataset}-renamed")
    run("qemu-io", "-f", "raw", "-c", "read -P 5 0 1M", target.url(0))
    target.kill()
    run("zfs", "rename", f"{dataset}-renamed", dataset)
    run("zfs", "snapshot", f"{dataset}@sent")
    with stream.open("wb") as file:
        subprocess.run(["zfs", "send", "-p", f"{dataset}@sent"], stdout=file, check=True, timeout=60)
    pool.destroy_volume(NAME)
    with stream.open("rb") as file:
        subprocess.run(["zfs", "receive", dataset], stdin=file, check=True, timeout=60)
    run("udevadm", "settle")
    wait_for(device.exists, "the copy has its name")
    target.start()
    row = lun(target)
    copy = guid(dataset)
    assert copy != original and (row["state"], row["guid"], row["dataset_guid"]) == ("failed", original, copy), row
    with pytest.raises(ProgramFailed, match="NOT READY"):
        run("iscsi-ls", "-s", target.url())
    target.call("luns.change", {"target": IQN, "number": 0, "guid": copy})
    wait_for(lambda: lun(target)["state"] == "serving", "the copy is served")
    assert "dataset_guid" not in lun(target)
    run("qemu-io", "-f", "raw", "-c", "read -P 5 0 1M", target.url(0))
    target.call("luns.delete", {"target": IQN, "number": 0})


def rename_often(dataset: str) -> None:
    """Ends with the new name."""
    for _ in range(RENAMES):
        run("zfs", "rename", dataset, f"{dataset}-renamed")
        run("zfs", "rename", f"{dataset}-renamed", dataset)
    run("zfs", "rename", dataset, f"{dataset}-renamed")


def test_a_zvol_renamed_under_a_writer_is_served_on(target: Target, pool: Pool, make_volume: VolumeMaker) -> None:
    """OpenZFS makes the disk read-only for a moment at each rename."""
    device, dataset = make_volume(NAME, 16), f"{pool.name}/{NAME}"
    target.add_lun(0, device, guid=guid(dataset))
    change = {"target": IQN, "number": 0, "path": f"{device}-renamed"}

    async def write_during_change() -> None:
        async with Session(target.portal) as session:
            while (await session.execute(TEST_UNIT_READY)).status != GOOD:
                pass

            async def command(cdb: bytes, data: bytes) -> None:
                answer = await session.execute(cdb, data_out=data)
                assert answer.status == GOOD or answer.sense_codes[0] == UNIT_ATTENTION, answer

            renaming = asyncio.create_task(asyncio.to_thread(rename_often, dataset))
            while not renaming.done():
                writes = [command(write(8 * at, 8), bytes(4096)) for at in range(16)]
                await asyncio.gather(*writes, command(*unmap((1024, 1024))))
            await renaming
            changing = asyncio.create_task(asyncio.to_thread(target.call, "luns.change", change))
            after = 0
            while after < 20:
                after += changing.done()
                await command(write(0, 8), bytes(4096))
            assert (await changing)["changed"]

    asyncio.run(write_during_change())
    target.kill()
    target.start()
    wait_for(lambda: lun(target)["state"] == "serving", "the zvol is served by its new name")
    target.call("luns.delete", {"target": IQN, "number": 0})
    run("zfs", "rename", f"{dataset}-renamed", dataset)


def test_a_zvol_made_read_only_refuses_writes_and_serves_reads(target: Target, pool: Pool, make_volume: VolumeMaker) -> None:
    device, dataset = make_volume(NAME, 16), f"{pool.name}/{NAME}"
    target.add_lun(0, device)

    async def statuses() -> tuple[Response, Response]:
        async with Session(target.portal) as session:
            while (await session.execute(TEST_UNIT_READY)).status != GOOD:
                pass
            return await session.execute(write(0, 8), data_out=bytes(4096)), await session.execute(read(0, 8), 4096)

    run("zfs", "set", "readonly=on", dataset)
    refused, served = asyncio.run(statuses())
    assert refused.sense_codes == WRITE_PROTECTED and served.status == GOOD, (refused, served)
    run("zfs", "set", "readonly=off", dataset)
    assert [answer.status for answer in asyncio.run(statuses())] == [GOOD, GOOD]
    target.call("luns.delete", {"target": IQN, "number": 0})
