# SPDX-License-Identifier: Apache-2.0
"""A thick export of the real daemon: growth is admitted up to its size, hosts see the free space, and clones are copies."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support import ganesha as daemon
from support.libnfs import mounted
from support.message_bus import message_bus
from support.nfs4 import SHARE_BOTH, SHARE_NONE, Nfs4
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.procedure22 import DISK_FULL, RESERVE, Procedure22
from support.programs import wait_for

from appliance.dataplane.ganesha import Export
from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.dataplane.vaai_nas import ExportSpace, VaaiNas

MIB = 1 << 20
SIZE = 64 * MIB
NOSPC = 28
ADMITTED_FOR_A_FILE = 16 << 10


@dataclass
class Rig:
    """A thick export, an NFSv3 client, and the appliance's control client."""

    exports: Ganesha
    export: Export
    server: daemon.Ganesha
    files: VaaiNas
    store: Path

    def space(self) -> ExportSpace:
        """`space.get` after the files are counted."""
        wait_for(lambda: not self.files.space(2).counting, "the files are counted")
        return self.files.space(2)


@pytest.fixture
def rig(make_store: Callable[[str], Path], tmp_path: Path) -> Iterator[Rig]:
    """The export 2, /thick, with an existing file of 4 MiB."""
    store, folder, control = make_store("thick"), tmp_path / "exports", tmp_path / "vaai-nas.socket"
    (store / "before").write_bytes(random.Random(1).randbytes(4 * MIB))
    os.sync()
    folder.mkdir()
    export = Export(2, store, "/thick", clients=["*"], thick_size=SIZE)
    with message_bus(tmp_path / "bus") as address:
        blocks = f'VAAI_NAS {{ Control_Socket = "{control}"; }}\n%dir "{folder}/*.conf"\n'
        always = daemon.Export(1, make_store("always"), "/always")
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": address}
        patched = daemon.Daemon.PATCHED
        with daemon.running_ganesha(tmp_path / "ganesha", [always], patched, environment=environment, blocks=blocks) as server:
            exports = Ganesha(folder, address)
            exports.add(export)
            yield Rig(exports, export, server, VaaiNas(control), store)


def write(client: Nfs3, handle: bytes, offset: int, length: int) -> None:
    """Writes in pieces of 1 MiB."""
    for at in range(0, length, MIB):
        client.write(handle, offset + at, b"x" * min(MIB, length - at))


def test_growth_is_admitted_up_to_the_size(rig: Rig) -> None:
    before = rig.space()
    assert (before.thick, before.size) == (True, SIZE)
    assert 4 * MIB <= before.admitted < 5 * MIB
    with Nfs3() as client:
        root = mount("/thick")
        assert client.space(root) == (SIZE, SIZE - before.admitted)
        file = client.create(root, "disk")
        client.truncate(file, 50 * MIB)  # a sparse file counts in full
        assert client.space(root)[1] == SIZE - rig.space().admitted < 10 * MIB
        with pytest.raises(Nfs3Error) as refused:
            client.truncate(client.create(root, "other"), 20 * MIB)
        assert refused.value.status == NOSPC
        with pytest.raises(Nfs3Error) as refused:
            client.write(file, 70 * MIB, b"x")
        assert refused.value.status == NOSPC
        assert client.size(file) == 50 * MIB, "what is refused changes nothing"
        write(client, file, 0, 2 * MIB)
        client.truncate(file, 10 * MIB)
        wait_for(lambda: client.space(root)[1] >= 45 * MIB, "a shrunken file gives back")
        client.remove(root, "disk")
        client.remove(root, "other")
        wait_for(lambda: rig.space().admitted == before.admitted, "a file counts until nobody has it")


def test_a_file_counts_as_long_as_it_has_a_name_or_is_open(rig: Rig) -> None:
    before, root = rig.space().admitted, mount("/thick")
    with mounted("/thick") as host, Nfs4() as holder, Nfs3() as nfs:
        for name, size in (("new", 10), ("replaced", 20), ("twice", 5), ("last", 3)):
            host.write_file(f"/{name}", b"")
            host.truncate(f"/{name}", size * MIB)
        host.link("/twice", "/again")
        for old, new in (("new", "replaced"), ("last", "twice"), ("again", "again")):
            host.rename(f"/{old}", f"/{new}")
        left = before + 18 * MIB + 3 * ADMITTED_FOR_A_FILE
        wait_for(lambda: rig.space().admitted == left, "a replaced file counts until nobody has it")
        holder.close(holder.open("/thick", "replaced", SHARE_BOTH, SHARE_NONE, create=True, size=0))
        left -= 10 * MIB
        assert rig.space().admitted == left, "an open emptied it"
        held = holder.open("/thick", "held", SHARE_BOTH, SHARE_NONE, create=True)
        holder.truncate(held, 20 * MIB)
        nfs.remove(root, "held")
        assert rig.space().admitted == left + 20 * MIB + ADMITTED_FOR_A_FILE
        holder.close(held)
        wait_for(lambda: rig.space().admitted == left, "it is closed")
    rig.server.restart_after_kill()
    assert rig.space().admitted == left


def test_a_count_survives_a_crash_and_a_change_of_size(rig: Rig) -> None:
    rig.space()
    with Nfs3() as client:
        file = client.create(mount("/thick"), "disk")
        client.truncate(file, 20 * MIB)
        (rig.store / "again").hardlink_to(rig.store / "disk")
    admitted = rig.space().admitted
    rig.server.restart_after_kill()
    assert rig.space().admitted == admitted, "a file counts once, by all its names"
    rig.exports.change(replace(rig.export, thick_size=22 * MIB))
    assert rig.space().size == 22 * MIB
    assert rig.space().problem == "its files exceed its size: no file can grow until others are deleted"
    with Nfs3() as client:
        with pytest.raises(Nfs3Error) as refused:
            client.truncate(client.lookup(mount("/thick"), "disk"), 21 * MIB)
        assert refused.value.status == NOSPC
        client.write(client.lookup(mount("/thick"), "disk"), 0, b"overwritten")
    rig.exports.change(replace(rig.export, thick_size=None))
    assert not rig.space().thick
    with Nfs3() as client:
        client.truncate(client.lookup(mount("/thick"), "disk"), 100 * MIB)
    rig.exports.change(replace(rig.export, thick_size=200 * MIB))
    assert rig.space().admitted >= 104 * MIB, "thick again: what grew meanwhile is counted"


def test_clones_are_copied_and_reserve_succeeds(rig: Rig) -> None:
    rig.space()
    with mounted("/thick") as host:
        job = rig.files.clone(2, "before", "fast", request="1" * 32, fast=True)
        wait_for(lambda: not rig.files.job(2, job.job).active, "the clone is refused")
        ended = rig.files.job(2, job.job)
        assert (ended.state, ended.status) == ("failed", "not_supported")
        assert "thick" in ended.reason
        job = rig.files.clone(2, "before", "full", request="2" * 32, fast=False)
        wait_for(lambda: not rig.files.job(2, job.job).active, "the clone ends")
        ended = rig.files.job(2, job.job)
        assert (ended.state, ended.cloned_bytes, ended.fallback_bytes["thick"]) == ("complete", 0, 4 * MIB)
        assert host.read_file("/full") == (rig.store / "before").read_bytes()
    with Nfs3() as client:
        procedure = Procedure22(client)
        root = mount("/thick")
        answer = procedure.command(RESERVE, client.lookup(root, "full"))
        assert (answer.status, answer.reserved) == (0, 4 * MIB)
        thin = client.create(mount("/always"), "thin")
        refused = procedure.command(RESERVE, thin)
        assert (refused.status, refused.result) == (NOSPC, DISK_FULL)
