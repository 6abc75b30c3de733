"""A file of an export cloned by its path, over the control socket: on a real dataset, by where its blocks lie."""

from __future__ import annotations

import random
from pathlib import Path

from integration.kernel.files.test_file_clone import blocks_of
from integration.kernel.zvol_clone.blocks import pool_property
from support.ganesha import Export, mounted_dataset, running_ganesha
from support.libnfs import mounted
from support.programs import wait_for
from support.zfs import Pool

from appliance.dataplane.vaai_nas import VaaiNas

SIZE = 4 << 20
INDIRECT = 64 << 10
"""More than a file of that size has of indirect blocks, which no other shares."""


def test_a_clone_shares_the_blocks_on_disk(pool: Pool, tmp_path: Path, seed: int) -> None:
    data, socket = random.Random(seed).randbytes(SIZE), tmp_path / "vaai-nas.socket"
    blocks = f'VAAI_NAS {{ Control_Socket = "{socket}"; }}\n'
    with (
        mounted_dataset(f"{pool.name}/disks") as store,
        running_ganesha(tmp_path / "ganesha", [Export(1, store, "/disks")], blocks=blocks),
        mounted("/disks") as host,
    ):
        host.mkdir("/vm")
        host.write_file("/vm/disk-flat.vmdk", data)
        files, before = VaaiNas(socket), pool_property(pool.name, "bcloneused")
        wait_for(lambda: files.statistics(1, "vm/disk-flat.vmdk").unique_exact, "the figures of the pool are those of the books")
        source = files.statistics(1, "vm/disk-flat.vmdk")
        assert (source.total, source.unique_exact) == (SIZE, True) and source.unique == source.allocated >= SIZE
        job = files.clone(1, "vm/disk-flat.vmdk", "vm/new-flat.vmdk", request="0" * 31 + "1", fast=True)
        wait_for(lambda: not files.job(1, job.job).active, "the clone ends")
        ended = files.job(1, job.job)
        assert (ended.state, ended.cloned_bytes, ended.copied_bytes) == ("complete", SIZE, 0), ended
        # An answer waits 4 s for a look, which takes longer where the machine is loaded.
        wait_for(lambda: files.statistics(1, "vm/new-flat.vmdk").unique_exact, "a look has seen the clone")
        told = files.statistics(1, "vm/new-flat.vmdk")
        assert told.total == SIZE and told.unique_exact and told.unique <= INDIRECT, told
        assert [one.path for one in files.files(1, "", 9).files] == ["vm/disk-flat.vmdk", "vm/new-flat.vmdk"]
        assert host.read_file("/vm/new-flat.vmdk") == data
        there = blocks_of(store / "vm" / "disk-flat.vmdk")
        assert there and blocks_of(store / "vm" / "new-flat.vmdk") == there, "the same blocks"
        assert pool_property(pool.name, "bcloneused") - before >= SIZE
