# SPDX-License-Identifier: Apache-2.0
"""NFSv3 procedure 22 on the real daemon, by a client written from its description: results and robustness."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import procedure22
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.onc_rpc import GARBAGE_ARGS, NFS_PROGRAM, Nfs3, Nfs3Error, RpcConnection, RpcError, User, mount, opaque
from support.procedure22 import COMPLETE, Procedure22, argument, arguments
from support.programs import wait_for

OK, NOENT, ACCES, EXIST, NOTDIR, ISDIR, INVAL, NOSPC, ROFS, NAMETOOLONG, STALE = 0, 2, 13, 17, 20, 21, 22, 28, 30, 63, 70
BADHANDLE, NOTSUPP = 10001, 10004
SIZE = 4 << 20


@dataclass
class Rig:
    """A daemon with an open export, one with root_squash, a read-only one, and one of another FSAL."""

    ganesha: Ganesha
    stores: dict[str, Path]
    nfs: Nfs3
    procedure: Procedure22
    data: bytes

    def root(self, name: str = "open") -> bytes:
        """An export's root handle."""
        return mount(f"/{name}")

    def source(self, name: str = "open") -> bytes:
        """The handle of its file."""
        return self.nfs.lookup(self.root(name), "source")

    def alive(self) -> None:
        """Raises if the daemon does not answer."""
        with Nfs3() as another:
            another.null()
        assert self.ganesha.running()


@pytest.fixture(scope="module")
def rig_of_all(make_lasting_store: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    data = random.Random(seed).randbytes(SIZE)
    names = ("open", "squashed", "read-only", "other-fsal")
    stores = {name: make_lasting_store(name) for name in names}
    for store in stores.values():
        (store / "source").write_bytes(data)
        (store / "directory").mkdir()
    os.sync()
    exports = [
        Export(1, stores["open"], "/open"),
        Export(2, stores["squashed"], "/squashed", squash="Root_Squash"),
        Export(3, stores["read-only"], "/read-only", access="RO"),
        Export(4, stores["other-fsal"], "/other-fsal", fsal="VFS"),
        Export(5, stores["open"] / "directory", "/for-another-host", access="None", clients="192.0.2.1"),
    ]
    with ExitStack() as stack:
        ganesha = stack.enter_context(running_ganesha(tmp_path_factory.mktemp("ganesha"), exports, Daemon.PATCHED))
        nfs = stack.enter_context(Nfs3())
        yield Rig(ganesha, stores, nfs, Procedure22(nfs), data)


@pytest.fixture
def rig(rig_of_all: Rig) -> Iterator[Rig]:
    rig_of_all.alive()
    yield rig_of_all
    rig_of_all.alive()
    assert (rig_of_all.stores["open"] / "source").read_bytes() == rig_of_all.data


def test_a_full_clone_as_the_plug_in_makes_it(rig: Rig) -> None:
    root = rig.root()
    assert rig.procedure.command(procedure22.CLONE_SUPPORTED, root).result == 0
    file = rig.nfs.create(root, "copy")
    assert rig.nfs.size(file) == 0
    started = rig.procedure.clone(rig.source(), file, "copy")
    assert (started.status, started.command, started.version) == (OK, procedure22.CLONE, 1)

    def ended() -> bool:
        progress = rig.procedure.command(procedure22.PROGRESS, file)
        assert (progress.status, progress.clone_offset <= SIZE) == (OK, True)
        return progress.clone_flag == COMPLETE

    wait_for(ended, "the clone is complete")
    assert rig.nfs.size(file) == SIZE, "GETATTR shows the size at once"
    assert rig.nfs.read(file, SIZE - 100, 100) == rig.data[-100:]
    assert (rig.stores["open"] / "copy").read_bytes() == rig.data


def test_the_name_of_a_full_clone_is_ignored(rig: Rig) -> None:
    names = (b"elsewhere", b"..", b"/", b"directory/", b"n" * 256)
    for number, (name, length) in enumerate([*((name, None) for name in names), (b"", 0), (b"", 400), (b"", 1), (b"a\0b", 4)]):
        file = rig.nfs.create(rig.root(), f"named{number}")
        call = arguments(file, rig.source(), argument(procedure22.CLONE, name, name_length=length))
        assert rig.procedure.raw(call).status == OK, (name, length)
        assert rig.procedure.full_clone(rig.source(), file).status in (OK, EXIST), "the same request again"
        wait_for(lambda n=number: (rig.stores["open"] / f"named{n}").read_bytes() == rig.data, "it is complete")  # type: ignore[misc]
    assert not (rig.stores["open"] / "elsewhere").exists()


def test_a_file_with_data_is_never_a_destination(rig: Rig) -> None:
    path = rig.stores["open"] / "older"
    path.write_bytes(b"older data" * 1000)
    os.sync()
    file = rig.nfs.lookup(rig.root(), "older")
    assert rig.procedure.full_clone(rig.source(), file).status == EXIST
    assert path.read_bytes() == b"older data" * 1000
    sized = rig.stores["open"] / "sized"
    with sized.open("wb") as new:
        new.truncate(SIZE // 2)
    os.sync()
    result = rig.procedure.full_clone(rig.source(), rig.nfs.lookup(rig.root(), "sized"))
    assert (result.status, result.clone_flag) == (OK, COMPLETE), "a length alone is no data"
    assert sized.read_bytes() == rig.data


def test_a_full_clone_onto_a_folder_is_refused(rig: Rig) -> None:
    folder = rig.nfs.lookup(rig.root(), "directory")
    for name in ("directory", "/directory/", "other", "other/x", ""):
        assert rig.procedure.clone(rig.source(), folder, name).status in (ISDIR, NOENT, INVAL), name
    assert not {path.name for path in (rig.stores["open"] / "directory").iterdir()} & {"directory", "other", "x"}


def test_slashes_are_one(rig: Rig) -> None:
    folder = rig.nfs.lookup(rig.root(), "directory")
    for number, path in enumerate(("directory//one{}", "//directory/one{}", "/directory///one{}")):
        result = rig.procedure.clone(rig.source(), folder, path.format(number))
        assert (result.status, result.clone_flag) == (OK, COMPLETE), path
        assert (rig.stores["open"] / "directory" / f"one{number}").read_bytes() == rig.data
    assert rig.procedure.clone(rig.source(), rig.root(), "//rooted").status == OK


def test_a_clone_by_name_has_permissions_and_no_more(rig: Rig) -> None:
    store = rig.stores["open"]
    (store / "special").write_bytes(b"special")
    (store / "special").chmod(0o6755)
    assert rig.procedure.clone(rig.nfs.lookup(rig.root(), "special"), rig.root(), "plain").status == OK
    assert (store / "plain").stat().st_mode & 0o7777 == 0o755
    (store / "group's").mkdir()
    os.chown(store / "group's", 0, 1234)
    (store / "group's").chmod(0o2755)
    assert rig.procedure.clone(rig.source(), rig.nfs.lookup(rig.root(), "group's"), "group's/clone").status == OK
    assert (store / "group's" / "clone").stat().st_gid == 1234


def test_a_folder_with_default_acls_takes_no_clone_by_name(rig: Rig) -> None:
    folder = rig.stores["open"] / "inheriting"
    folder.mkdir()
    entries = ((0x01, 7), (0x04, 5), (0x20, 5))  # owner, group, others: acl_ea.h of Linux, version 2
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in entries)
    os.setxattr(folder, "system.posix_acl_default", acl)
    result = rig.procedure.clone(rig.source(), rig.nfs.lookup(rig.root(), "inheriting"), "inheriting/x")
    assert (result.status, list(folder.iterdir())) == (NOTSUPP, [])
    file = rig.nfs.create(rig.nfs.lookup(rig.root(), "inheriting"), "made")
    assert rig.procedure.full_clone(rig.source(), file).status == OK


def test_a_lazy_clone_is_made_by_the_server_in_the_last_directory(rig: Rig) -> None:
    directory = rig.nfs.lookup(rig.root(), "directory")
    with pytest.raises(Nfs3Error):
        rig.nfs.lookup(directory, "clone")
    result = rig.procedure.clone(rig.source(), directory, "directory/clone")
    assert (result.status, result.clone_flag) == (OK, COMPLETE), "its answer is its completion"
    made = rig.nfs.lookup(directory, "clone")
    assert rig.nfs.size(made) == SIZE
    rig.nfs.write(made, 0, b"changed")
    assert (rig.stores["open"] / "source").read_bytes() == rig.data
    assert (rig.stores["open"] / "directory" / "clone").read_bytes() == b"changed" + rig.data[7:]
    assert rig.procedure.clone(rig.source(), directory, "directory/clone").status == EXIST


def test_statistics_and_capabilities(rig: Rig) -> None:
    result = rig.procedure.command(procedure22.STATISTICS, rig.source())
    assert (result.status, result.total, result.reserved) == (OK, SIZE, 0)
    assert result.unique <= result.allocated
    assert result.allocated >= SIZE
    assert rig.procedure.command(procedure22.STATISTICS, rig.root()).status == ISDIR
    for command in (procedure22.CLONE_SUPPORTED, procedure22.STATISTICS_SUPPORTED):
        assert (rig.procedure.command(command, rig.root()).status, rig.procedure.command(command, rig.root()).result) == (OK, 0)
    assert rig.procedure.command(procedure22.CLONE_SUPPORTED, rig.root("read-only")).result == procedure22.NOT_SUPPORTED
    assert rig.procedure.command(procedure22.CLONE_SUPPORTED, rig.root("other-fsal")).status == NOTSUPP


def test_reservations_on_thin_datastores_are_refused(rig: Rig) -> None:
    """A plug-in takes "not supported" as success, from the command and from its probe: the response is "disk full"."""
    for export in ("open", "read-only"):
        supported = rig.procedure.command(procedure22.RESERVE_SUPPORTED, rig.root(export))
        assert (supported.status, supported.result) == (OK, 0)
    reserved = rig.procedure.command(procedure22.RESERVE, rig.source())
    assert (reserved.status, reserved.result) == (NOSPC, procedure22.DISK_FULL), "a thin datastore reserves nothing"
    assert rig.procedure.command(procedure22.RESERVE, rig.source("other-fsal")).status == NOSPC


def test_progress_and_abort_without_a_clone(rig: Rig) -> None:
    assert rig.procedure.command(procedure22.PROGRESS, rig.source()).status == NOENT
    assert rig.procedure.command(procedure22.ABORT, rig.source()).status == NOENT


def test_abort_of_a_clone_that_is_complete(rig: Rig) -> None:
    file = rig.nfs.create(rig.root(), "complete")
    assert rig.procedure.full_clone(rig.source(), file).status == OK
    assert rig.procedure.command(procedure22.ABORT, file).status == OK
    assert (rig.stores["open"] / "complete").read_bytes() == rig.data


def test_arguments_of_another_length(rig: Rig) -> None:
    for length in (0, 1, 8, 295, 297, 1024):
        structure = (argument(procedure22.STATISTICS) + bytes(1024))[:length]
        assert rig.procedure.raw(arguments(rig.source(), None, structure)).status == INVAL, length


def test_arguments_that_are_no_xdr(rig: Rig) -> None:
    good = arguments(rig.source(), None, argument(procedure22.STATISTICS))
    wrong = [b"", good[:4], good[:20], good[:-4], opaque(bytes(64)) + struct.pack(">I", 2) + opaque(argument(3))]
    wrong += [arguments(rig.source(), None, bytes(1028)), opaque(bytes(68)) + good[4:], b"\xff" * 400]
    for call in wrong:
        with pytest.raises(RpcError) as refused:
            rig.procedure.raw(call)
        assert (refused.value.reply_stat, refused.value.accept_stat) == (0, GARBAGE_ARGS)
        rig.alive()


def test_versions_and_commands_that_are_not_known(rig: Rig) -> None:
    for version in (0, 2, 1 << 32 | 1, (1 << 64) - 1):
        result = rig.procedure.raw(arguments(rig.source(), None, argument(procedure22.STATISTICS, version=version)))
        assert (result.status, result.version, result.total) == (NOTSUPP, 1, 0), version
    for command in (0, 9, 255, 0xFFFFFFFF):
        assert rig.procedure.command(command, rig.source()).status == NOTSUPP, command


def test_names_of_new_objects(rig: Rig) -> None:
    for name, length, status in (
        (b"..", None, INVAL),
        (b".", None, INVAL),
        (b"directory/..", None, NOENT),
        (b"../outside", None, NOENT),
        (b"nowhere/clone", None, NOENT),
        (b"/", None, INVAL),
        (b"", 1, INVAL),
        (b"", 0, INVAL),
        (b"n" * 255, None, OK),
        (b"n" * 256, 256, INVAL),
        (b"clone", 5, INVAL),
        (b"clone", 7, INVAL),
        (b"clone", 257, INVAL),
        (b"clone", 0xFFFFFFFF, INVAL),
        (b"a\0b", 4, INVAL),
    ):
        before = {path.name for path in rig.stores["open"].iterdir()}
        call = arguments(rig.root(), rig.source(), argument(procedure22.CLONE, name, name_length=length))
        assert rig.procedure.raw(call).status == status, (name, length)
        made = {path.name for path in rig.stores["open"].iterdir()} - before
        assert made == ({name.decode()} if status == OK else set()), (name, length)
    assert {path.name for path in rig.stores["open"].parent.iterdir()} & {"outside"} == set()


def test_handles_of_others(rig: Rig, seed: int) -> None:
    source, choices = rig.source(), random.Random(seed)
    foreign = [b"", b"\x01", bytes(64), b"\xff" * 64, choices.randbytes(28), choices.randbytes(64), source[:5], source[:-1]]
    for handle in foreign:
        for command in range(1, 9):
            result = rig.procedure.raw(
                arguments(handle, None if command != procedure22.CLONE else source, argument(command, b"x"))
            )
            assert result.status == BADHANDLE, f"{handle!r}, command {command}"
        assert rig.procedure.raw(arguments(rig.root(), handle, argument(procedure22.CLONE, b"x"))).status == BADHANDLE
    rig.alive()


def test_handles_with_bits_turned_over(rig: Rig, seed: int) -> None:
    source, choices = rig.source(), random.Random(seed)
    for _ in range(200):
        forged = bytearray(source)
        for _ in range(choices.randint(1, 4)):
            forged[choices.randrange(len(forged))] ^= 1 << choices.randrange(8)
        if bytes(forged) == source:
            continue
        for command in (procedure22.STATISTICS, procedure22.PROGRESS):
            try:
                status = rig.procedure.command(command, bytes(forged)).status
            except RpcError as refused:  # an export for another host: AUTH_ERROR, as in all of NFSv3
                assert refused.reply_stat == 1
            else:
                assert status in (OK, NOENT, BADHANDLE, STALE, INVAL, ISDIR, NOTSUPP, 5)
    rig.alive()
    assert (rig.stores["open"] / "source").read_bytes() == rig.data


def test_handles_that_are_stale(rig: Rig) -> None:
    file = rig.nfs.create(rig.root(), "gone")
    rig.nfs.remove(rig.root(), "gone")
    for command in (procedure22.RESERVE, procedure22.STATISTICS, procedure22.PROGRESS, procedure22.ABORT):
        assert rig.procedure.command(command, file).status == STALE
    assert rig.procedure.clone(rig.source(), file, "gone").status == STALE
    assert rig.procedure.clone(file, rig.root(), "clone").status == STALE
    unknown_export = rig.source()[:2] + struct.pack(">H", 999) + rig.source()[4:]
    assert rig.procedure.command(procedure22.STATISTICS, unknown_export).status == STALE


def test_an_export_of_another_host(rig: Rig) -> None:
    directory = rig.nfs.lookup(rig.root(), "directory")
    inside = directory[:2] + struct.pack(">H", 5) + directory[4:]  # the handle that the host would have
    with pytest.raises(RpcError) as refused:
        rig.procedure.command(procedure22.STATISTICS, inside)
    assert refused.value.reply_stat == 1, "denied, as the dispatch does for every procedure"
    assert rig.procedure.clone(inside, rig.root(), "clone").status == ACCES, "as a source it is refused too"


def test_clones_from_one_export_to_another(rig: Rig) -> None:
    (rig.stores["squashed"]).chmod(0o777)
    for name in ("squashed", "read-only"):
        result = rig.procedure.clone(rig.source(name), rig.root(), f"from-{name}")
        assert (result.status, result.clone_flag) == (OK, COMPLETE), "what the server makes is complete when it says so"
        assert (rig.stores["open"] / f"from-{name}").read_bytes() == rig.data
    assert rig.procedure.clone(rig.source("other-fsal"), rig.root(), "from-other").status == NOTSUPP
    assert rig.procedure.clone(rig.source(), rig.root("read-only"), "clone").status == ROFS
    assert rig.procedure.command(procedure22.RESERVE, rig.source("read-only")).status == ROFS
    assert rig.procedure.command(procedure22.STATISTICS, rig.source("read-only")).status == OK


def test_a_user_without_rights(rig: Rig) -> None:
    store = rig.stores["open"]
    (store / "secret").write_bytes(b"secret")
    (store / "secret").chmod(0o600)
    (store / "public").write_bytes(b"public")
    (store / "his-own").mkdir()
    os.chown(store / "his-own", 1000, 1000)
    root = rig.root()
    handles = {name: rig.nfs.lookup(root, name) for name in ("secret", "public", "his-own", "source")}
    with Nfs3(User(1000, 1000)) as nfs:
        user = Procedure22(nfs)
        assert user.clone(handles["secret"], handles["his-own"], "his-own/stolen").status == ACCES
        assert user.clone(handles["public"], root, "made").status == ACCES
        assert user.clone(handles["public"], handles["source"], "source").status == ACCES
        assert user.command(procedure22.RESERVE, handles["source"]).status == ACCES
        assert user.command(procedure22.ABORT, handles["source"]).status == ACCES
        assert user.command(procedure22.STATISTICS, handles["source"]).status == OK, "as GETATTR"
        assert user.clone(handles["public"], handles["his-own"], "his-own/copy").status == OK
    made = store / "his-own" / "copy"
    assert (made.read_bytes(), made.stat().st_uid, made.stat().st_gid) == (b"public", 1000, 1000)
    assert (store / "source").read_bytes() == rig.data
    assert sorted(path.name for path in (store / "his-own").iterdir()) == ["copy"]


def test_root_squashed(rig: Rig) -> None:
    store = rig.stores["squashed"]
    for name, mode in (("closed", 0o755), ("writable", 0o777)):
        (store / name).mkdir()
        (store / name).chmod(mode)
    (store / "private").write_bytes(b"root's alone")
    (store / "private").chmod(0o600)
    root, source = rig.root("squashed"), rig.source("squashed")
    closed, writable, private = (rig.nfs.lookup(root, name) for name in ("closed", "writable", "private"))
    assert rig.procedure.clone(source, closed, "closed/clone").status == ACCES
    assert rig.procedure.clone(private, writable, "writable/clone").status == ACCES
    assert rig.procedure.clone(source, writable, "writable/clone").status == OK
    made = store / "writable" / "clone"
    assert made.stat().st_uid not in (0, 1000), "it is the anonymous user's"
    assert made.read_bytes() == rig.data
    assert list((store / "closed").iterdir()) == []


def test_kinds_of_file_that_can_not_be_cloned(rig: Rig) -> None:
    store = rig.stores["open"]
    os.mkfifo(store / "fifo")
    (store / "link").symlink_to("source")
    root = rig.root()
    directory = rig.nfs.lookup(root, "directory")
    for name in ("fifo", "link"):
        handle = rig.nfs.lookup(root, name)
        assert rig.procedure.clone(handle, root, "clone").status == INVAL
        assert rig.procedure.clone(rig.source(), handle, name).status == INVAL
        assert rig.procedure.command(procedure22.STATISTICS, handle).status == INVAL
    assert rig.procedure.clone(directory, root, "clone").status == ISDIR
    assert rig.procedure.clone(rig.source(), rig.source(), "source").status == INVAL, "onto itself"
    assert rig.procedure.command(procedure22.CLONE_SUPPORTED, rig.source()).status == NOTDIR


def test_a_call_said_again_with_the_same_transaction_is_done_once(rig: Rig) -> None:
    call = arguments(rig.root(), rig.source(), argument(procedure22.CLONE, b"once"))
    connection: RpcConnection = rig.nfs.connection
    transactions = [connection.send(NFS_PROGRAM, 3, 22, call, transaction=0x7EA71234) for _ in range(2)]
    transaction, results = connection.receive()
    assert transaction == transactions[0]
    assert procedure22.decode(results).status == OK
    # A second response depends on when the repetition came; a second execution would answer EXIST.
    null = connection.send(NFS_PROGRAM, 3, 0, b"")
    while transaction != null:
        transaction, results = connection.receive()
        assert transaction == null or procedure22.decode(results).status == OK


def test_many_calls_of_random_bytes(rig: Rig, seed: int) -> None:
    choices = random.Random(seed)
    good = [arguments(rig.source(), rig.source(), argument(command, b"fuzz")) for command in range(1, 9)]
    for _ in range(400):
        call = bytearray(choices.choice(good))
        for _ in range(choices.randint(1, 8)):
            call[choices.randrange(len(call))] = choices.randrange(256)
        with contextlib.suppress(RpcError):
            rig.procedure.raw(bytes(call[: choices.choice([len(call), choices.randrange(len(call))])]))
    rig.alive()
    assert (rig.stores["open"] / "source").stat().st_size == SIZE
