# SPDX-License-Identifier: Apache-2.0
"""Rollback of a thick datastore in use: later files hold no space, and the admitted sum is that of a new count."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.kernel.nfs.datastores import RECORD, admitted_for, control_block, counted, thick_dataset
from support.ganesha import Daemon, Ganesha, running_ganesha
from support.message_bus import message_bus
from support.nfs4 import SHARE_BOTH, SHARE_NONE, SHARE_WRITE, Nfs4
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.programs import run, wait_for
from support.short_pool import MIB, ShortPool

from appliance.dataplane import ganesha as control
from appliance.dataplane import ganesha_dbus
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.zfs.kernel import KernelEngine

SIZE, DISK, MORE = 320 * MIB, 64 * MIB, 8 * MIB
CLONES = 3
"""One more than can run at once."""
NFS3ERR_NOSPC, NFS3ERR_STALE = 28, 70


@dataclass
class Store:
    """A thick datastore with a file "disk", exported as /thick by the appliance's means."""

    dataset: str
    place: Path
    server: Ganesha
    exports: ganesha_dbus.Ganesha
    export: control.Export
    files: VaaiNas
    data: bytes

    def roll_back(self, snapshot: str) -> None:
        """Rolls back like the worker. Raises DatasetBusy if the daemon still holds the mount."""
        engine = KernelEngine()
        self.exports.remove(self.export.export_id)
        wait_for(lambda: not engine.holders(self.dataset), "nobody has a file of it open")
        engine.unmount(self.dataset)
        engine.rollback(snapshot)
        engine.mount(self.dataset)
        self.exports.add(self.export)


@pytest.fixture
def store(short_pool: ShortPool, tmp_path: Path, seed: int) -> Iterator[Store]:
    dataset, folder, socket = f"{short_pool.name}/thick", tmp_path / "exports", tmp_path / "vaai-nas.socket"
    data = random.Random(seed).randbytes(DISK)
    folder.mkdir()
    with message_bus(tmp_path / "bus") as bus, thick_dataset(dataset, SIZE) as place:
        (place / "disk").write_bytes(data)
        export = control.Export(1, place, "/thick", clients=["*"], thick_size=SIZE)
        (folder / "1.conf").write_text(export.block())
        blocks = f'{control_block(socket)}%dir "{folder}/*.conf"\n'
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus}
        with running_ganesha(tmp_path / "ganesha", [], Daemon.PATCHED, environment=environment, blocks=blocks) as server:
            yield Store(dataset, place, server, ganesha_dbus.Ganesha(folder, bus), export, VaaiNas(socket), data)


def test_nothing_is_left_held(store: Store) -> None:
    """At the rollback a later file is open, another one is open without a name, one has grown, and clones run and wait."""
    assert counted(store.files).admitted == admitted_for(DISK)
    run("zfs", "snapshot", f"{store.dataset}@before")
    with Nfs4() as client, Nfs3() as nfs:
        root = mount("/thick")
        disk, later = nfs.lookup(root, "disk"), nfs.create(root, "later")
        for name, deny in (("later", SHARE_WRITE), ("removed", SHARE_NONE)):
            client.truncate(client.open("/thick", name, SHARE_BOTH, deny, create=True), MORE)
        nfs.remove(root, "removed")
        nfs.truncate(disk, DISK + MORE)
        assert counted(store.files).admitted == admitted_for(DISK + MORE, MORE, MORE), "a nameless file counts while it is open"
        clones = [store.files.clone(1, "disk", f"clone{n}", request=f"{n + 1:032x}", fast=False) for n in range(CLONES)]
        wait_for(lambda: store.files.job(1, clones[0].job).done_bytes > 0, "a clone is under way")
        store.roll_back(f"{store.dataset}@before")
        ended = [store.files.job(1, clone.job) for clone in clones]
        assert not any(job.active for job in ended), ended
        assert {path.name for path in store.place.iterdir()} == {"disk"}
        assert counted(store.files).admitted == admitted_for(DISK)
        with pytest.raises(Nfs3Error, match=f" {NFS3ERR_STALE}$"):
            nfs.size(later)
        assert nfs.size(disk) == DISK
        assert nfs.read(disk, DISK - MIB, MIB) == store.data[-MIB:]
        rest = SIZE - DISK - RECORD
        file = nfs.create(root, "file")
        nfs.truncate(file, rest)
        with pytest.raises(Nfs3Error, match=f" {NFS3ERR_NOSPC}$"):
            nfs.truncate(file, rest + RECORD)
    store.server.restart_after_kill()
    assert counted(store.files).admitted == admitted_for(DISK, rest), "a new count finds the same"
