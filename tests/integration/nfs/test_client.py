# SPDX-License-Identifier: Apache-2.0
"""Behaviour of the client itself: names, broken connections."""

from __future__ import annotations

import os
import queue
import random
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.onc_rpc import opaque
from support.onc_rpc_server import serving
from support.programs import wait_for
from support.vaai_nas import COMMAND, vaai_nas

NFS_PROGRAM, NFSPROC3_LOOKUP, PROCEDURE22 = 100003, 3, 22
NFS3ERR_STALE = 70


@dataclass
class Rig:
    """A daemon with an export."""

    ganesha: Ganesha
    store: Path

    def left(self) -> set[str]:
        """Temporary names in the export."""
        return {path.name for path in self.store.rglob(".vaai*")}


@pytest.fixture(scope="module")
def rig_of_all(make_lasting_store: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    store = make_lasting_store("open")
    (store / "source").write_bytes(random.Random(seed).randbytes(1 << 20))
    os.sync()
    with running_ganesha(tmp_path_factory.mktemp("ganesha") / "ganesha", [Export(1, store, "/open")], Daemon.PATCHED) as ganesha:
        yield Rig(ganesha, store)


@pytest.fixture
def rig(rig_of_all: Rig) -> Iterator[Rig]:
    yield rig_of_all
    assert rig_of_all.ganesha.running()
    assert rig_of_all.left() == set()
    for path in rig_of_all.store.iterdir():
        if path.is_file() and path.name != "source":
            path.unlink()


@pytest.mark.parametrize("command", ["clone", "fast-clone"])
def test_a_refused_clone_leaves_no_file(rig: Rig, command: str) -> None:
    his = rig.store / "his"
    his.mkdir(exist_ok=True)
    (rig.store / "secret").write_bytes(b"secret")
    (rig.store / "secret").chmod(0o600)
    os.chown(his, 1000, 1000)
    answer = vaai_nas(command, "127.0.0.1:/open", "secret", "his/new", user=1000)
    assert (answer.returncode, list(his.iterdir())) == (5, [])


def test_one_of_several_clones_gets_the_name(rig: Rig) -> None:
    for turn in range(3):
        codes: list[int] = []

        def clone(name: str, codes: list[int] = codes) -> None:
            codes.append(vaai_nas("clone", "127.0.0.1:/open", "source", name).returncode)

        threads = [threading.Thread(target=clone, args=(f"copy{turn}",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes.count(0) == 1, codes
        assert set(codes) <= {0, 7, 8}, "exists, or is being made"
        assert (rig.store / f"copy{turn}").read_bytes() == (rig.store / "source").read_bytes()


def test_several_clones_of_one_session(rig: Rig) -> None:
    whole = (rig.store / "source").read_bytes()
    made = vaai_nas("clone", "127.0.0.1:/open", "source", "one", "two", "three")
    assert made.returncode == 0, made.stderr
    assert [line.split(": ")[0] for line in made.stdout.splitlines()] == ["one", "two", "three"]
    assert all((rig.store / name).read_bytes() == whole for name in ("one", "two", "three"))
    ended = vaai_nas("clone", "127.0.0.1:/open", "source", "four", "two", "five")
    assert ended.returncode == 7, "exists"
    assert ended.stdout.splitlines()[1] == "two: failed"
    assert (rig.store / "four").read_bytes() == whole
    assert not (rig.store / "five").exists()


def test_a_server_that_has_stopped_is_not_reached(rig: Rig) -> None:
    rig.ganesha.kill()
    away = vaai_nas("caps", "127.0.0.1:/open")
    assert (away.returncode, "Connection refused" in away.stderr) == (10, True), "the portmapper still knows it"
    rig.ganesha.start()
    wait_for(lambda: vaai_nas("caps", "127.0.0.1:/open").returncode == 0, "the server answers again")


def result(status: int, *, size: int = 0, unique: int = 0, flag: int = 0, as_of: int = 0, exact: bool = False) -> bytes:
    """A result of procedure 22."""
    return struct.pack(">I", status) + opaque(struct.pack("<QIi8Q", 1, 3, 0, size, size, unique, 0, flag, size, as_of, exact))


REPLACED = result(NFS3ERR_STALE)
RUNNING, COMPLETE = result(0, size=4096, flag=1), result(0, size=4096, flag=2)
MOUNTED = struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 1, 1)
SUPPORTED = 3
"""Calls of procedure 22 at the start of a session."""


def test_an_interrupted_command_begins_no_other_clone() -> None:
    """The signal comes during the first of two fast clones, which ends."""
    started: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
    lookups: list[int] = []
    requests: list[int] = []

    def answer(program: int, procedure: int) -> bytes | None:
        if program != NFS_PROGRAM:
            return MOUNTED if procedure == 1 else b""
        if procedure == NFSPROC3_LOOKUP:
            lookups.append(procedure)
            missing = len(lookups) % 2 == 0
            return struct.pack(">I", 2) if missing else struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 0, 0)
        if procedure == PROCEDURE22:
            requests.append(procedure)
            if len(requests) == SUPPORTED + 1:
                started.get(timeout=60).send_signal(signal.SIGINT)
            return COMPLETE if len(requests) > SUPPORTED else result(0)
        return b""

    with serving(answer) as port:
        ports = ("--nfs-port", str(port), "--mount-port", str(port))
        words = [str(COMMAND), *ports, "fast-clone", "127.0.0.1:/one", "disk", "first", "second", "third"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.put(process)
        said, failed = process.communicate(timeout=60)
    assert (process.returncode, len(requests) - SUPPORTED, said) == (9, 1, "first: done: 4096 bytes\n"), failed
    assert "second and later destinations were not cloned (cancelled)" in failed


@pytest.mark.parametrize(("answered", "code"), [(REPLACED, 1), (None, 10)], ids=["stale", "broken"])
def test_a_replaced_file_and_a_broken_connection_fail_the_command(answered: bytes | None, code: int) -> None:
    requests: list[int] = []

    def answer(program: int, procedure: int) -> bytes | None:
        if program != NFS_PROGRAM:
            return MOUNTED if procedure == 1 else b""
        if procedure == NFSPROC3_LOOKUP:
            return struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 0, 0)
        requests.append(procedure)
        return answered if requests.count(PROCEDURE22) > SUPPORTED else result(0)

    with serving(answer) as port:
        finished = vaai_nas("--nfs-port", str(port), "--mount-port", str(port), "stat", "127.0.0.1:/one", "disk")
    assert (requests.count(PROCEDURE22) - SUPPORTED, finished.returncode) == (1, code), finished.stderr
    assert "repeat the command" in finished.stderr


def test_a_running_clone_is_polled_over_a_new_connection() -> None:
    """The first poll gets no answer."""
    lookups: list[int] = []
    requests: list[int] = []
    answers = [RUNNING, None, COMPLETE]

    def answer(program: int, procedure: int) -> bytes | None:
        if program != NFS_PROGRAM:
            return MOUNTED if procedure == 1 else b""
        if procedure == NFSPROC3_LOOKUP:
            lookups.append(procedure)
            missing = len(lookups) == 2  # the destination
            return struct.pack(">I", 2) if missing else struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 0, 0)
        if procedure == PROCEDURE22:
            requests.append(procedure)
            return result(0) if len(requests) <= SUPPORTED else answers[len(requests) - SUPPORTED - 1]
        return struct.pack(">I", 0)

    with serving(answer) as port:
        finished = vaai_nas("--nfs-port", str(port), "--mount-port", str(port), "clone", "127.0.0.1:/one", "disk", "copy")
    assert (len(requests) - SUPPORTED, finished.returncode, finished.stdout) == (3, 0, "done: 4096 bytes\n"), finished.stderr


@pytest.mark.parametrize(("exact", "says"), [(True, "unique: 77"), (False, "unique: at most 77")])
def test_statistics_say_whether_they_are_exact_and_of_when(exact: bool, says: str) -> None:
    def answer(program: int, procedure: int) -> bytes | None:
        if program != NFS_PROGRAM:
            return MOUNTED if procedure == 1 else b""
        if procedure == NFSPROC3_LOOKUP:
            return struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 0, 0)
        return result(0, size=4096, unique=77, as_of=1_000_000_000, exact=exact) if procedure == PROCEDURE22 else b""

    with serving(answer) as port:
        finished = vaai_nas("--nfs-port", str(port), "--mount-port", str(port), "stat", "127.0.0.1:/one", "disk")
    assert finished.stdout.splitlines() == ["total: 4096", "allocated: 4096", says, "reserved: 0", "as of: 2001-09-09T01:46:40Z"]


def test_a_clone_has_the_permissions_of_its_source(rig: Rig) -> None:
    private = rig.store / "private"  # the server has not read its permissions yet
    private.write_bytes(b"data")
    private.chmod(0o640)
    for command in ("clone", "fast-clone"):
        assert vaai_nas(command, "127.0.0.1:/open", "private", command).returncode == 0
        assert (rig.store / command).stat().st_mode & 0o777 == 0o640
