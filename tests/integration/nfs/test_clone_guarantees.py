# SPDX-License-Identifier: Apache-2.0
"""Guarantees of clones with concurrent clients, exports that end, and aborted calls."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import procedure22
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.message_bus import message_bus
from support.nfs4 import SHARE_BOTH, SHARE_NONE, SHARE_READ, SHARE_WRITE, Nfs4
from support.onc_rpc import Nfs3, User, mount
from support.procedure22 import COMPLETE, Procedure22
from support.programs import IN_GUEST

from appliance.dataplane import ganesha as control
from appliance.dataplane import ganesha_dbus

OK, NOENT, STALE, JUKEBOX = 0, 2, 70, 10008
LARGE = 384 << 20
"""Copying it takes several times the 30 ms for which a call waits for its clone."""
MORE = 4
"""More clones than slots, so that some are incomplete when an export ends; a test that is stopped for a second is too late."""


@dataclass
class Rig:
    """A daemon with two exports on file systems that share no blocks, so that clones between them are copies."""

    ganesha: Ganesha
    here: Path
    other: Path
    control: ganesha_dbus.Ganesha

    def handle(self, path: str = "", export: str = "vm1") -> bytes:
        """A handle; of the root by default."""
        handle = mount(f"/{export}")
        with Nfs3() as nfs:
            for name in path.split("/") if path else ():
                handle = nfs.lookup(handle, name)
        return handle


@pytest.fixture(scope="module")
def rig_of_all(make_lasting_store: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    directory = tmp_path_factory.mktemp("rig")
    here, other = make_lasting_store("here", size_mib=2048) / "vm1", make_lasting_store("other")
    here.mkdir()
    (directory / "exports").mkdir()
    for store in (here, other):
        (store / "source").write_bytes(b"data" * 1024)
    (other / "large").write_bytes(random.Random(seed).randbytes(LARGE))
    os.sync()
    exports = [Export(1, here, "/vm1"), Export(2, other, "/other")]
    with message_bus(directory / "bus") as address:
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": address}
        with running_ganesha(directory / "ganesha", exports, Daemon.PATCHED, environment=environment) as ganesha:
            yield Rig(ganesha, here, other, ganesha_dbus.Ganesha(directory / "exports", address))


@pytest.fixture
def rig(rig_of_all: Rig) -> Iterator[Rig]:
    yield rig_of_all
    assert rig_of_all.ganesha.running()
    for path in rig_of_all.here.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "source":
            path.unlink()


def test_a_folder_with_the_exports_name_is_not_the_export(rig: Rig) -> None:
    """The plug-in's last LOOKUP was the root, as it has no folder vm1. The clone must not be made in the parent."""
    with Nfs3() as nfs:
        result = Procedure22(nfs).clone(rig.handle("source"), rig.handle(), "vm1/clone")
        assert result.status == NOENT
        assert not (rig.here / "clone").exists()
        (rig.here / "vm1").mkdir()
        result = Procedure22(nfs).clone(rig.handle("source"), rig.handle("vm1"), "vm1/clone")
        assert (result.status, result.clone_flag) == (OK, COMPLETE)
    assert (rig.here / "vm1" / "clone").read_bytes() == (rig.here / "source").read_bytes()


@pytest.mark.skipif(IN_GUEST, reason="datasets of one pool share blocks: the clones would be done before they are aborted")
def test_an_aborted_clone_has_left_nothing_when_that_is_said(rig: Rig) -> None:
    source = rig.handle("large", "other")

    def aborts(turn: int) -> int:
        """How many of four clones were incomplete at their abort: a host has two threads, so that two clones wait."""
        with Nfs3() as nfs:
            procedure = Procedure22(nfs)
            files = {name: nfs.create(rig.handle(), name) for name in (f"copy{turn}-{number}" for number in range(4))}
            for name, file in files.items():
                assert procedure.clone(source, file, name).status == OK
            aborted = 0
            for name, file in reversed(files.items()):
                result = procedure.command(procedure22.ABORT, file)
                assert result.status == OK
                left = (rig.here / name).stat().st_size
                assert left == (LARGE if result.clone_flag == COMPLETE else 0)
                if result.clone_flag != COMPLETE:
                    aborted += 1
                    assert nfs.size(file) == 0
                    assert procedure.command(procedure22.PROGRESS, file).status != OK
                nfs.remove(rig.handle(), name)
        return aborted

    # Half a second without progress makes the abort too late.
    assert any(aborts(turn) for turn in range(20))


def test_a_job_is_visible_to_its_host_and_to_users_with_write_access(rig: Rig) -> None:
    (rig.here / "his").mkdir()
    os.chown(rig.here / "his", 1000, 1000)
    with Nfs3() as root, Nfs3(User(1000, 1000)) as user, Nfs3(User(1001, 1001)) as stranger:
        secret = root.create(rig.handle(), "secret")
        assert Procedure22(root).full_clone(rig.handle("source"), secret).status == OK
        his = user.create(rig.handle("his"), "his")
        assert Procedure22(user).full_clone(rig.handle("source"), his).status == OK
        assert Procedure22(user).command(procedure22.PROGRESS, secret).status == NOENT
        assert Procedure22(stranger).command(procedure22.PROGRESS, his).status == NOENT
        for nfs in (root, user):
            assert Procedure22(nfs).command(procedure22.PROGRESS, his).clone_flag == COMPLETE


@pytest.mark.skipif(IN_GUEST, reason="datasets of one pool share blocks: the clones would be done before the export is removed")
@pytest.mark.parametrize("ends", ["source", "destination"])
def test_an_export_is_removed_during_clones(rig: Rig, ends: str) -> None:
    # Half a second without progress makes the removal too late.
    assert any(removed_during_clones(rig, ends) for _ in range(10)), "no clone was cancelled"


def removed_during_clones(rig: Rig, ends: str) -> bool:
    """Whether some of the clones were incomplete when the export of one end was removed."""
    place = rig.other if ends == "source" else rig.here
    (place / "short-lived").mkdir(exist_ok=True)
    rig.control.add(control.Export(7, place / "short-lived", "/short-lived", clients=["*"]))
    try:
        if ends == "source":
            os.link(rig.other / "large", rig.other / "short-lived" / "large")
        source = rig.handle("large", "short-lived" if ends == "source" else "other")
        folder = rig.handle("", "short-lived" if ends == "destination" else "vm1")
        with Nfs3() as nfs:
            procedure = Procedure22(nfs)
            files = [nfs.create(folder, f"copy{number}") for number in range(MORE)]
            assert {procedure.clone(source, file, "").status for file in files} == {OK}
    finally:
        rig.control.remove(7)
    with Nfs3() as nfs:
        assert Procedure22(nfs).clone(source, folder, "late").status == STALE
    made = [path for path in (rig.here if ends == "source" else place / "short-lived").iterdir() if path.name.startswith("copy")]
    sizes = [path.stat().st_size for path in made]
    assert set(sizes) <= {0, LARGE}, "each is whole or empty"
    links = [os.path.realpath(link) for link in Path(f"/proc/{rig.ganesha.pid}/fd").iterdir()]
    assert not [link for link in links if "short-lived" in link], "and nothing holds its files"
    for path in made:
        path.unlink()
    with contextlib.suppress(FileNotFoundError):
        (rig.other / "short-lived" / "large").unlink()
    return 0 in sizes


def test_share_reservations_are_honoured(rig: Rig) -> None:
    number = 0

    def onto() -> int:
        """Status of a clone into the file."""
        (rig.here / "disk").write_bytes(b"")
        return procedure.full_clone(rig.handle("source"), rig.handle("disk")).status

    def of() -> int:
        """Status of a clone of the file."""
        nonlocal number
        number += 1
        return procedure.clone(rig.handle("disk"), rig.handle(), f"copy{number}").status

    (rig.here / "disk").write_bytes(b"")
    with Nfs4() as client, Nfs3() as nfs:
        procedure = Procedure22(nfs)
        for access, deny, written, read in (
            (SHARE_READ, SHARE_WRITE, JUKEBOX, OK),
            (SHARE_READ, SHARE_BOTH, JUKEBOX, JUKEBOX),
            (SHARE_BOTH, SHARE_NONE, OK, OK),
        ):
            opened = client.open("/vm1", "disk", access, deny)
            assert onto() == written
            assert of() == read
            client.close(opened)
        assert onto() == OK
    assert (rig.here / "disk").read_bytes() == (rig.here / "source").read_bytes()


def test_access_checks_ignore_share_reservations(rig: Rig) -> None:
    """A job on a file that a client has opened with deny-all can still be listed and cancelled."""
    with Nfs3() as root, Nfs3(User(1000, 1000)) as user, Nfs4() as client:
        disk = root.create(rig.handle(), "denied")
        (rig.here / "denied").chmod(0o666)
        assert Procedure22(root).full_clone(rig.handle("source"), disk).status == OK
        opened = client.open("/vm1", "denied", SHARE_READ, SHARE_BOTH)
        for command in (procedure22.PROGRESS, procedure22.ABORT):
            assert Procedure22(user).command(command, disk).clone_flag == COMPLETE
        client.close(opened)
