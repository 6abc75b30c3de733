"""The VAAI-NAS service by its own program, its control socket, and the command `vaai-nas` through both doors."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import procedure22
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.onc_rpc import (
    AUTH_ERROR,
    GARBAGE_ARGS,
    MSG_DENIED,
    PROC_UNAVAIL,
    Nfs3,
    RpcConnection,
    RpcError,
    User,
    mount,
    opaque,
    port_of,
)
from support.procedure22 import Procedure22
from support.programs import IN_GUEST, run
from support.vaai_nas import (
    CLONE,
    COMPLETE,
    NULL,
    PROGRAM,
    RESERVE,
    RUNNING,
    STATISTICS,
    VERSION,
    WAITING,
    Program,
    ProgramError,
    ask_control_socket,
    clone_arguments,
    vaai_nas,
)

NOT_FOUND, ACCESS, BAD_HANDLE, STALE, EXISTS, READ_ONLY, INVALID, NOT_SUPPORTED, INTERRUPTED = 1, 2, 3, 4, 5, 8, 13, 16, 18
SIZE = 4 << 20
DOORS = ("program", "procedure22")


@dataclass
class Rig:
    """A daemon with an export on one file system, and one, read-only, on another."""

    ganesha: Ganesha
    store: Path
    control_socket: Path
    data: bytes

    def handle(self, path: str = "", export: str = "open") -> bytes:
        """A handle, of the root unless a path is given."""
        handle = mount(f"/{export}")
        with Nfs3() as nfs:
            for name in path.split("/") if path else ():
                handle = nfs.lookup(handle, name)
        return handle


@contextlib.contextmanager
def running_rig(make_store: Callable[[str], Path], directory: Path, daemon: Daemon, data: bytes) -> Iterator[Rig]:
    store, other = make_store("open"), make_store("read-only")
    for place in (store, other):
        (place / "source").write_bytes(data)
        (place / "directory").mkdir()
        (place / "directory").chmod(0o777)  # now: the daemon knows a while what it was
    os.sync()
    control_socket = directory / "vaai-nas.socket"
    exports = [Export(1, store, "/open"), Export(2, other, "/read-only", access="RO")]
    blocks = f'VAAI_NAS {{ Control_Socket = "{control_socket}"; }}\n'
    with running_ganesha(directory / "ganesha", exports, daemon, blocks=blocks) as ganesha:
        yield Rig(ganesha, store, control_socket, data)


@pytest.fixture(scope="module")
def rig_of_all(make_lasting_store: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    data = random.Random(seed).randbytes(SIZE)
    with running_rig(make_lasting_store, tmp_path_factory.mktemp("rig"), Daemon.PATCHED, data) as rig:
        yield rig


@pytest.fixture
def rig(rig_of_all: Rig) -> Iterator[Rig]:
    yield rig_of_all
    Program().raw(0)
    assert rig_of_all.ganesha.running()
    for path in rig_of_all.store.iterdir():
        if path.is_file() and path.name != "source":
            path.unlink()


def test_the_stock_daemon_serves_the_program(make_store: Callable[[str], Path], tmp_path: Path, seed: int) -> None:
    data = random.Random(seed).randbytes(SIZE)
    with running_rig(make_store, tmp_path, Daemon.STOCK, data) as rig:
        serves_the_program(rig)


def serves_the_program(rig: Rig) -> None:
    clone, fast_clone, _, statistics, _ = Program().capabilities(rig.handle())
    assert (clone, fast_clone, statistics) == (True, True, True)
    job = Program().clone(clone_arguments(rig.handle("source"), rig.handle("directory"), "copy"))
    assert (job.state, job.done, job.cloned, job.copied, job.name) == (COMPLETE, SIZE, SIZE, 0, "copy")
    assert (rig.store / "directory" / "copy").read_bytes() == rig.data
    with Nfs3() as nfs, pytest.raises(RpcError) as refused:
        Procedure22(nfs).command(procedure22.CLONE_SUPPORTED, rig.handle())
    assert refused.value.accept_stat == PROC_UNAVAIL
    assert vaai_nas("--door", "procedure22", "caps", "127.0.0.1:/open").returncode == 3
    answer = vaai_nas("caps", "127.0.0.1:/open")
    assert (answer.returncode, answer.stdout.splitlines()[:3]) == (0, ["door: program", "clone: yes", "fast clone: yes"])


@pytest.mark.skipif(IN_GUEST, reason="datasets of one pool share blocks: the clones would be done before the daemon is told")
def test_a_daemon_that_is_told_to_end_takes_its_clones_back(make_store: Callable[[str], Path], tmp_path: Path, seed: int) -> None:
    here, other = make_store("here"), make_store("other")
    with (other / "large").open("wb") as file:
        for number in range(160):
            file.write(random.Random(seed + number).randbytes(1 << 20))
    exports = [Export(1, here, "/here"), Export(2, other, "/other")]
    with running_ganesha(tmp_path / "ganesha", exports) as ganesha:
        program, root = Program(), mount("/here")
        with Nfs3() as nfs:
            large = nfs.lookup(mount("/other"), "large")
        jobs = [program.clone(clone_arguments(large, root, f"copy{number}", wait_ms=0)) for number in range(4)]
        # More than there is room for: not all can be complete before, however fast the machine is.
        assert jobs[-1].state in {WAITING, RUNNING}, "file systems that share nothing: it copies"
        assert ganesha.stop() == 0, "it neither hangs nor crashes"
        left = [path.name for path in here.iterdir() if path.name.startswith("copy")]
        assert all((here / name).stat().st_size == 160 << 20 for name in left), "what has a name is whole"
        assert len(left) < len(jobs)
        ganesha.start()


def test_a_clone_with_one_request_id_is_made_once(rig: Rig) -> None:
    program, identity = Program(), random.Random(1).randbytes(16)
    call = clone_arguments(rig.handle("source"), rig.handle(), "copy", request_id=identity)
    first = program.clone(call)
    (rig.store / "copy").write_bytes(b"written by a client")
    again = Program().clone(call)
    assert (again.id, again.state, again.request_id) == (first.id, COMPLETE, identity)
    assert (rig.store / "copy").read_bytes() == b"written by a client"
    with pytest.raises(ProgramError) as refused:
        program.clone(clone_arguments(rig.handle("source"), rig.handle(), "another", request_id=identity))
    assert refused.value.error == EXISTS
    assert not (rig.store / "another").exists()
    with pytest.raises(ProgramError) as refused:
        program.clone(clone_arguments(rig.handle("source"), rig.handle(), "copy"))
    assert refused.value.error == EXISTS


def test_dry_runs_and_guarded_clones_change_nothing(rig: Rig) -> None:
    program, source = Program(), rig.handle("source")
    before = {path.name for path in rig.store.iterdir()}
    (rig.store / "there").write_bytes(b"there")
    there = rig.handle("there")
    assert program.clone(clone_arguments(source, rig.handle(), "copy", dry_run=True)).id == 0
    assert program.clone(clone_arguments(source, there, dry_run=True)).id == 0
    with pytest.raises(ProgramError) as refused:
        program.clone(clone_arguments(source, there, guarded=True))
    assert refused.value.error == EXISTS
    assert {path.name for path in rig.store.iterdir()} == before | {"there"}
    assert (rig.store / "there").read_bytes() == b"there"


def test_ranges(rig: Rig) -> None:
    program, source = Program(), rig.handle("source")
    (rig.store / "disk").write_bytes(bytes(SIZE))
    os.sync()
    disk = rig.handle("disk")
    job = program.clone(clone_arguments(source, disk, span=(1 << 20, 2 << 20, 1 << 20)))
    assert (job.state, job.done, job.cloned + job.copied) == (COMPLETE, 1 << 20, 1 << 20)
    expected = bytes(2 << 20) + rig.data[1 << 20 : 2 << 20] + bytes(1 << 20)
    assert (rig.store / "disk").read_bytes() == expected
    for span in ((0, 0, 0), ((1 << 64) - 1, 0, 2), (0, (1 << 64) - 1, 2), (0, (1 << 63) - 1, 1 << 20), (SIZE, 0, 1)):
        with pytest.raises(ProgramError) as refused:
            job = program.clone(clone_arguments(source, disk, span=span))
            raise ProgramError(job.error, job.reason)
        assert refused.value.error == INVALID, span
    assert (rig.store / "disk").read_bytes() == expected


def test_who_may_not(rig: Rig) -> None:
    (rig.store / "secret").write_bytes(b"secret")
    (rig.store / "secret").chmod(0o600)
    user, root = Program(User(1000, 1000)), Program()
    for call, error in (
        (clone_arguments(rig.handle("secret"), rig.handle("directory"), "stolen"), ACCESS),
        (clone_arguments(rig.handle("source"), rig.handle(), "made"), ACCESS),
        (clone_arguments(rig.handle("source"), rig.handle("secret")), ACCESS),
        (clone_arguments(rig.handle("source"), rig.handle("directory", "read-only"), "made"), READ_ONLY),
        (clone_arguments(bytes(32), rig.handle("directory"), "made"), BAD_HANDLE),
        (clone_arguments(rig.handle("source"), rig.handle("directory"), ".."), INVALID),
        (clone_arguments(rig.handle("source"), rig.handle("directory"), "a/b"), INVALID),
        (clone_arguments(rig.handle("source"), rig.handle("directory"), ".zvaai"), ACCESS),
    ):
        with pytest.raises(ProgramError) as refused:
            user.clone(call)
        assert refused.value.error == error, refused.value
    assert user.clone(clone_arguments(rig.handle("source"), rig.handle("directory"), "his")).state == COMPLETE
    assert (rig.store / "directory" / "his").stat().st_uid == 1000
    job = root.clone(clone_arguments(rig.handle("source"), rig.handle(), "roots"))
    with pytest.raises(ProgramError) as refused:
        user.cancel(rig.handle(), job.id)
    assert refused.value.error == ACCESS
    with pytest.raises(ProgramError) as refused:
        root.job(rig.handle("", "read-only"), job.id)
    assert refused.value.error == NOT_FOUND, "it is another export's"
    assert [listed.name for listed in root.jobs(rig.handle())][:2] == ["roots", "his"]
    assert root.jobs(rig.handle("", "read-only")) == []


def test_jobs_of_a_daemon_that_died_are_reported_so(rig: Rig) -> None:
    job = Program().clone(clone_arguments(rig.handle("source"), rig.handle(), "copy"))
    assert Program().job(rig.handle(), job.id).state == COMPLETE
    rig.ganesha.restart_after_kill()
    with pytest.raises(ProgramError) as refused:
        Program().job(rig.handle(), job.id)
    assert refused.value.error == INTERRUPTED
    assert "clone again" in refused.value.reason


def test_bytes_that_are_no_call(rig: Rig, seed: int) -> None:
    choices, program = random.Random(seed), Program()
    with pytest.raises(RpcError) as refused:
        program.raw(8)
    assert refused.value.accept_stat == PROC_UNAVAIL
    for procedure in range(1, 8):
        with pytest.raises(RpcError) as refused:
            program.raw(procedure, b"\xff\xff\xff\xff")
        assert refused.value.accept_stat == GARBAGE_ARGS
    with pytest.raises(RpcError) as refused:
        program.raw(CLONE, clone_arguments(rig.handle("source"), rig.handle(), "n" * 256))
    assert refused.value.accept_stat == GARBAGE_ARGS
    good = clone_arguments(rig.handle("source"), rig.handle("directory"), "fuzz", wait_ms=0)
    for _ in range(300):
        call = bytearray(good)
        for _ in range(choices.randint(1, 6)):
            call[choices.randrange(len(call) - 4)] = choices.randrange(256)
        try:
            program.raw(choices.randrange(9), bytes(call[: choices.choice([len(call), choices.randrange(len(call))])]))
        except RpcError:
            continue
        except ConnectionResetError:
            program = Program()
    for _ in range(20):
        with Program().connection as connection:
            connection.send_record(choices.randbytes(choices.randrange(200)))
    assert (rig.store / "source").read_bytes() == rig.data


def counters(rig: Rig, path: str) -> dict[str, int]:
    """What is counted for an export, or for this host (path "")."""
    (answer,) = ask_control_socket(rig.control_socket, b'{"jsonrpc":"2.0","id":7,"method":"statistics.get"}')
    assert (answer["id"], len(answer["result"]["latency_bounds_microseconds"])) == (7, 27)
    rows = answer["result"]["exports"] if path else answer["result"]["hosts"]
    found = {"cloned": 0, "copied": 0, "fast": 0, "clones": 0, "statistics": 0, "errors": 0, "refused": 0, "latencies": 0}
    for row in rows:
        if row.get("export") == path or row.get("host") == "127.0.0.1":
            found |= {"cloned": row["offload"]["cloned_bytes"], "copied": row["offload"]["copied_bytes"]}
            found |= {"fast": row["fast_clone"]["operations"], "clones": row["clone"]["operations"]}
            found |= {"statistics": row["statistics"]["operations"], "latencies": sum(row["fast_clone"]["latency"]["counts"])}
            found |= {"errors": row["clone"]["errors"], "refused": row["clone"]["refused"]}
    return found


def test_what_is_counted(rig: Rig) -> None:
    program, places = Program(), ("/open", "/read-only", "")
    before = {place: counters(rig, place) for place in places}
    program.clone(clone_arguments(rig.handle("source"), rig.handle(), "one", fast=True))
    program.clone(clone_arguments(rig.handle("source"), rig.handle(), "two"))
    program.statistics(rig.handle("source"))
    with pytest.raises(ProgramError):
        program.clone(clone_arguments(rig.handle("source"), rig.handle("directory", "read-only"), "made"))
    after = {place: counters(rig, place) for place in places}
    counted = {place: {what: after[place][what] - before[place][what] for what in after[place]} for place in places}
    done = {"cloned": 2 * SIZE, "copied": 0, "fast": 1, "statistics": 1, "latencies": 1}
    assert counted["/open"] == {**done, "clones": 1, "errors": 0, "refused": 0}
    assert counted[""] == {**done, "clones": 2, "errors": 1, "refused": 1}
    nothing = dict.fromkeys(done, 0)
    assert counted["/read-only"] == {**nothing, "clones": 1, "errors": 1, "refused": 1}


def test_nobody_is_believed_to_be_a_proxy(rig: Rig) -> None:
    """Whose word is taken for the client's address could be any host."""
    with RpcConnection(port_of(PROGRAM, VERSION)) as connection:
        connection.claim_to_be_a_proxy("192.0.2.7", 700)
        with pytest.raises(RpcError) as refused:
            connection.call(PROGRAM, VERSION, NULL)
    assert (refused.value.reply_stat, refused.value.accept_stat) == (MSG_DENIED, AUTH_ERROR)
    with RpcConnection(port_of(PROGRAM, VERSION)) as connection:
        connection.call(PROGRAM, VERSION, NULL)


def test_what_the_control_socket_refuses(rig: Rig) -> None:
    lines = [b"{", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"other"}', b"[" * 1000]
    lines += [b'{"jsonrpc":null,"id":2,"method":"statistics.get"}']
    lines += [b'{"jsonrpc":"2.0","id":2,"method":"statistics.get","params":{"a":1}}']
    codes = [answer["error"]["code"] for answer in ask_control_socket(rig.control_socket, *lines)]
    assert codes == [-32700, -32600, -32601, -32700, -32600, -32602]
    assert rig.control_socket.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("door", DOORS)
def test_the_command_through_either_door(rig: Rig, door: str) -> None:
    def ask(*words: str, user: int = 0) -> subprocess.CompletedProcess[str]:
        return vaai_nas("--door", door, words[0], "127.0.0.1:/open", *words[1:], user=user)

    assert ask("caps").stdout.splitlines()[0] == f"door: {door}"
    assert ask("clone", "source", "full").returncode == 0
    assert ask("fast-clone", "source", "directory/fast").returncode == 0
    for copy in ("full", "directory/fast"):
        assert (rig.store / copy).read_bytes() == rig.data
    (rig.store / "full").write_bytes(b"older")
    assert ask("clone", "--guarded", "source", "full").returncode == 7
    assert ask("clone", "--dry-run", "source", "full").returncode == 0
    assert (rig.store / "full").read_bytes() == b"older"
    assert ask("clone", "source", "full").returncode == 0
    assert (rig.store / "full").read_bytes() == rig.data
    assert ask("fast-clone", "source", "full").returncode == 0
    assert (rig.store / "full").read_bytes() == rig.data
    assert f"total: {SIZE}" in ask("stat", "full").stdout
    absent = ask("clone", "absent", "copy")
    assert (absent.returncode, "nothing was changed" in absent.stderr) == (4, True)
    assert ask("clone", "source", "nowhere/copy").returncode == 4
    assert ask("clone", "source", "source").returncode == 1
    assert ask("clone", "source", "../copy").returncode == 1
    assert ask("stat", "directory").returncode == 1
    assert ask("clone", "source", "his", user=1000).returncode == 5
    assert ask("jobs").returncode == (0 if door == "program" else 3)
    assert vaai_nas("caps", "127.0.0.1:/nowhere").returncode in {4, 5}
    assert vaai_nas("clone", "127.0.0.1:/open", "source").returncode == 2
    read_only = vaai_nas("--door", door, "clone", "127.0.0.1:/read-only", "source", "copy")
    assert read_only.returncode == 5, read_only.stderr


@pytest.mark.parametrize("door", DOORS)
def test_a_reservation_is_promised_or_refused(rig: Rig, door: str) -> None:
    can_reserve = Program().capabilities(rig.handle())[2]
    answer = vaai_nas("--door", door, "reserve", "127.0.0.1:/open", "source")
    assert can_reserve == IN_GUEST, "ZFS holds space, XFS does not"
    if can_reserve:
        assert (answer.returncode, f"reserved: {SIZE}" in answer.stdout) == (0, True)
    else:
        assert answer.returncode == (3 if door == "program" else 6), "procedure 22 never says that reservations are not supported"
        with pytest.raises(ProgramError) as refused:
            Program().statistics(rig.handle("source"), RESERVE)
        assert (refused.value.error, "nothing was reserved" in refused.value.reason) == (NOT_SUPPORTED, True)
        assert Program().statistics(rig.handle("source"), STATISTICS)[4] == 0


def test_an_image_of_qemu_img_cloned_by_the_command(rig: Rig, tmp_path: Path, seed: int) -> None:
    local = tmp_path / "local.raw"
    choices = random.Random(seed)
    with local.open("wb") as image:
        image.truncate(16 << 20)
        for _ in range(8):
            image.seek(choices.randrange(16) << 20)
            image.write(choices.randbytes(choices.randrange(1, 1 << 20)))
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", local, "nfs://127.0.0.1/open/disk.raw")
    os.sync()
    for door in DOORS:
        answer = vaai_nas("--door", door, "clone", "--progress", "127.0.0.1:/open", "disk.raw", f"directory/{door}.raw")
        assert answer.returncode == 0, answer.stderr
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", local, f"nfs://127.0.0.1/open/directory/{door}.raw")
        assert (rig.store / "directory" / f"{door}.raw").read_bytes() == local.read_bytes()


def test_handles_of_nothing(rig: Rig) -> None:
    with pytest.raises(ProgramError) as refused:
        Program().statistics(b"")
    assert refused.value.error == BAD_HANDLE
    unknown_export = rig.handle("source")[:2] + struct.pack(">H", 999) + rig.handle("source")[4:]
    with pytest.raises(ProgramError) as refused:
        Program().statistics(unknown_export)
    assert refused.value.error == STALE
    with pytest.raises(RpcError):
        Program().raw(STATISTICS, opaque(bytes(129)))
    assert PROGRAM >> 28 in {2, 3}, "of the range that is the user's"
