"""What is promised of clones beside other clients, exports that end, and calls that are taken back."""

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
from support.vaai_nas import Program, ProgramError, clone_arguments

from appliance.dataplane import ganesha as control

OK, NOENT = 0, 2
ACCESS, STALE, EXISTS, BUSY = 2, 4, 5, 14
LARGE = 48 << 20
MORE = 12
"""Clones of it than there is room for: not all can be complete before an export ends, however fast the machine is."""


@dataclass
class Rig:
    """A daemon with two exports on file systems that share no blocks: what is cloned from one to the other is copied."""

    ganesha: Ganesha
    here: Path
    other: Path
    control: control.Ganesha

    def handle(self, path: str = "", export: str = "vm1") -> bytes:
        """A handle, of the root unless a path is given."""
        handle = mount(f"/{export}")
        with Nfs3() as nfs:
            for name in path.split("/") if path else ():
                handle = nfs.lookup(handle, name)
        return handle


@pytest.fixture(scope="module")
def rig_of_all(make_lasting_store: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    directory = tmp_path_factory.mktemp("rig")
    here, other = make_lasting_store("here") / "vm1", make_lasting_store("other")
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
            yield Rig(ganesha, here, other, control.Ganesha(directory / "exports", address))


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
    """The plug-in found the root last, as the folder vm1 in it is missing: the clone must not be made beside that."""
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
        """How many of six clones were not complete when they were aborted: two of them wait behind four that run."""
        with Nfs3() as nfs:
            procedure = Procedure22(nfs)
            files = {name: nfs.create(rig.handle(), name) for name in (f"copy{turn}-{number}" for number in range(6))}
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
                (rig.here / name).unlink()
        return aborted

    # A test that stands still for half a second comes too late.
    assert any(aborts(turn) for turn in range(20))


def test_dry_runs_and_refusals_of_a_request_id_that_was_used(rig: Rig) -> None:
    identity = b"0123456789abcdef"
    (rig.here / "his").write_bytes(b"")
    os.chown(rig.here / "his", 1000, 1000)
    his, source = rig.handle("his"), rig.handle("source")
    user = Program(User(1000, 1000))
    job = user.clone(clone_arguments(source, his, request_id=identity))
    assert job.state == COMPLETE
    assert user.clone(clone_arguments(source, his, request_id=identity, dry_run=True)).id == 0
    assert user.clone(clone_arguments(source, his, request_id=identity)).id == job.id
    os.chown(rig.here / "his", 0, 0)
    (rig.here / "his").unlink()
    with pytest.raises(ProgramError) as refused:
        user.clone(clone_arguments(source, his, request_id=identity))
    assert (refused.value.error, "another request" in refused.value.reason) == (STALE, False)
    with pytest.raises(ProgramError) as refused:
        user.clone(clone_arguments(source, rig.handle(), "other", request_id=identity))
    assert (refused.value.error, "another request" in refused.value.reason) == (EXISTS, True)


def test_jobs_are_shown_to_who_asked_or_may_write_there(rig: Rig) -> None:
    (rig.here / "his").mkdir()
    os.chown(rig.here / "his", 1000, 1000)
    root, user, stranger = Program(), Program(User(1000, 1000)), Program(User(1001, 1001))
    secret = root.clone(clone_arguments(rig.handle("source"), rig.handle(), "secret-name"))
    his = user.clone(clone_arguments(rig.handle("source"), rig.handle("his"), "his"))
    assert [job.name for job in root.jobs(rig.handle())][:2] == ["his", "secret-name"]
    assert [job.name for job in user.jobs(rig.handle())][:1] == ["his"]
    assert "secret-name" not in {job.name for job in user.jobs(rig.handle())}
    assert stranger.jobs(rig.handle()) == []
    for program, job in ((user, secret), (stranger, his)):
        with pytest.raises(ProgramError):
            program.job(rig.handle(), job.id)
    assert user.job(rig.handle(), his.id).name == "his"


@pytest.mark.skipif(IN_GUEST, reason="datasets of one pool share blocks: the clones would be done before the export is removed")
@pytest.mark.parametrize("ends", ["source", "destination"])
def test_an_export_is_removed_during_clones(rig: Rig, ends: str) -> None:
    place = rig.other if ends == "source" else rig.here
    (place / "short-lived").mkdir(exist_ok=True)
    rig.control.add(control.Export(7, place / "short-lived", "/short-lived", access="RW"))
    try:
        if ends == "source":
            os.link(rig.other / "large", rig.other / "short-lived" / "large")
        source = rig.handle("large", "short-lived" if ends == "source" else "other")
        folder = rig.handle("", "short-lived" if ends == "destination" else "vm1")
        program = Program()
        jobs = [program.clone(clone_arguments(source, folder, f"copy{number}", wait_ms=0)) for number in range(MORE)]
    finally:
        rig.control.remove(7)
    with pytest.raises(ProgramError) as refused:
        program.clone(clone_arguments(source, folder, "late"))
    assert refused.value.error == STALE
    made = [path for path in (rig.here if ends == "source" else place / "short-lived").iterdir() if path.name.startswith("copy")]
    assert len(made) < len(jobs), "some were cancelled"
    assert all(path.stat().st_size == LARGE for path in made), "what has a name is whole"
    links = [str(link.readlink()) for link in Path(f"/proc/{rig.ganesha.pid}/fd").iterdir() if link.is_symlink()]
    assert not [link for link in links if "short-lived" in link], "and nothing holds its files"
    for path in made:
        path.unlink()
    with contextlib.suppress(FileNotFoundError):
        (rig.other / "short-lived" / "large").unlink()


def refusal(program: Program, arguments: bytes) -> int:
    """The error of a clone; 0 where it was done."""
    try:
        assert program.clone(arguments).state == COMPLETE
    except ProgramError as error:
        return error.error
    return 0


def test_share_reservations_are_kept(rig: Rig) -> None:
    (rig.here / "disk").write_bytes(b"older")
    program = Program()
    onto, of = (
        clone_arguments(rig.handle("source"), rig.handle("disk")),
        clone_arguments(rig.handle("disk"), rig.handle(), "copy"),
    )
    with Nfs4() as client:
        for access, deny, written, read in (
            (SHARE_READ, SHARE_WRITE, BUSY, 0),
            (SHARE_READ, SHARE_BOTH, BUSY, BUSY),
            (SHARE_BOTH, SHARE_NONE, 0, 0),
        ):
            opened = client.open("/vm1", "disk", access, deny)
            assert refusal(program, onto) == written
            assert refusal(program, of) == read
            client.close(opened)
            with contextlib.suppress(FileNotFoundError):
                (rig.here / "copy").unlink()
    assert refusal(program, onto) == 0
    assert (rig.here / "disk").read_bytes() == (rig.here / "source").read_bytes()


def test_asking_for_rights_takes_part_in_no_share_reservation(rig: Rig) -> None:
    """Another host's job on a file that a client has opened denying all is listed and cancelled all the same."""
    (rig.here / "disk").write_bytes(b"older")
    (rig.here / "disk").chmod(0o666)
    root, user = Program(), Program(User(1000, 1000))
    job = root.clone(clone_arguments(rig.handle("source"), rig.handle("disk")))
    with Nfs4() as client:
        opened = client.open("/vm1", "disk", SHARE_READ, SHARE_BOTH)
        assert job.id in {listed.id for listed in user.jobs(rig.handle())}
        assert user.job(rig.handle(), job.id).state == job.state
        assert user.cancel(rig.handle("disk"), job.id).state == job.state
        client.close(opened)
