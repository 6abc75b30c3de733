"""What the client library does of itself: names, connections that break, signals."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.onc_rpc import opaque
from support.onc_rpc_server import serving
from support.programs import IN_GUEST, wait_for
from support.vaai_nas import CAPABILITIES, COMMAND, JOB_LIST, PROGRAM, vaai_nas

DOORS = ("program", "procedure22")
NFS_PROGRAM, NFSPROC3_LOOKUP = 100003, 3
VAAI_ERROR_STALE = 4

# A plug-in: asks once for each line it reads, and says how that ended. The library's functions want a failure of 4 + 512 bytes.
PLUG_IN = """
import ctypes, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
library = ctypes.CDLL(sys.argv[1])
library.vaainas_open.restype = ctypes.c_void_p
failure = ctypes.create_string_buffer(4 + 512)
session = library.vaainas_open(b"127.0.0.1", b"/open", int(sys.argv[2]), failure)
print("open" if session else failure[4:].split(bytes(1))[0], flush=True)
for line in sys.stdin:
    capabilities = ctypes.create_string_buffer((16).to_bytes(8, "little") + bytes(8), 16)
    print(library.vaainas_supported(ctypes.c_void_p(session), capabilities, failure), flush=True)
library.vaainas_close(ctypes.c_void_p(session))
"""


@dataclass
class Rig:
    """A daemon with an export."""

    ganesha: Ganesha
    store: Path

    def left(self) -> set[str]:
        """Names in it that are nobody's."""
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


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("command", ["clone", "fast-clone"])
def test_what_is_there_stays_when_a_clone_is_refused(rig: Rig, door: str, command: str) -> None:
    his = rig.store / "his"
    his.mkdir(exist_ok=True)
    (his / "disk").write_bytes(b"older")
    (rig.store / "secret").write_bytes(b"secret")
    (rig.store / "secret").chmod(0o600)
    for path in (his, his / "disk"):
        os.chown(path, 1000, 1000)
    answer = vaai_nas("--door", door, command, "127.0.0.1:/open", "secret", "his/disk", user=1000)
    assert answer.returncode == 5, answer.stderr
    assert (his / "disk").read_bytes() == b"older"
    absent = vaai_nas("--door", door, command, "127.0.0.1:/open", "secret", "his/new", user=1000)
    assert (absent.returncode, {path.name for path in his.iterdir()}) == (5, {"disk"})


@pytest.mark.parametrize("door", DOORS)
def test_one_of_several_guarded_clones_gets_the_name(rig: Rig, door: str) -> None:
    for turn in range(3):
        codes: list[int] = []

        def clone(name: str, codes: list[int] = codes) -> None:
            codes.append(vaai_nas("--door", door, "clone", "--guarded", "127.0.0.1:/open", "source", name).returncode)

        threads = [threading.Thread(target=clone, args=(f"copy{turn}",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes.count(0) == 1, codes
        assert set(codes) <= {0, 7, 8}, "exists, or is being made"
        assert (rig.store / f"copy{turn}").read_bytes() == (rig.store / "source").read_bytes()


@pytest.mark.parametrize("door", DOORS)
def test_several_clones_of_one_session(rig: Rig, door: str) -> None:
    whole = (rig.store / "source").read_bytes()
    made = vaai_nas("--door", door, "clone", "127.0.0.1:/open", "source", "one", "two", "three")
    assert made.returncode == 0, made.stderr
    assert [line.split(": ")[0] for line in made.stdout.splitlines()] == ["one", "two", "three"]
    assert all((rig.store / name).read_bytes() == whole for name in ("one", "two", "three"))
    ended = vaai_nas("--door", door, "clone", "--guarded", "127.0.0.1:/open", "source", "four", "two", "five")
    assert ended.returncode == 7, "exists"
    assert ended.stdout.splitlines()[1] == "two: failed"
    assert (rig.store / "four").read_bytes() == whole
    assert not (rig.store / "five").exists()


def test_a_fast_clone_replaces_a_file_in_one_step(rig: Rig) -> None:
    (rig.store / "disk").write_bytes(b"older")
    with (rig.store / "disk").open("rb") as held:
        assert vaai_nas("--door", "procedure22", "fast-clone", "127.0.0.1:/open", "source", "disk").returncode == 0
        assert held.read() == b"older", "who has it open keeps it"
    assert (rig.store / "disk").read_bytes() == (rig.store / "source").read_bytes()


@pytest.mark.parametrize(("door", "number"), [("program", "1"), ("procedure22", "2")])
def test_a_session_outlives_the_servers_restart(rig: Rig, door: str, number: str) -> None:
    words = [sys.executable, "-c", PLUG_IN, str(COMMAND.parent / "libvaainas.so.1"), number]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as plug_in:
        assert plug_in.stdin is not None
        assert plug_in.stdout is not None

        def ask() -> str:
            assert plug_in.stdin is not None
            assert plug_in.stdout is not None
            plug_in.stdin.write("ask\n")
            plug_in.stdin.flush()
            return plug_in.stdout.readline().strip()

        assert plug_in.stdout.readline().strip() == "open"
        assert ask() == "0"
        rig.ganesha.kill()
        assert [ask(), ask()] == ["100", "100"], "not reached, twice; and no signal ends the process"
        away = vaai_nas("--door", door, "caps", "127.0.0.1:/open")
        assert (away.returncode, "Connection refused" in away.stderr) == (10, True), "the portmapper still knows it"
        rig.ganesha.start()
        wait_for(lambda: ask() == "0", f"the {door} answers again")
        rig.ganesha.restart_after_kill()
        wait_for(lambda: vaai_nas("--door", door, "caps", "127.0.0.1:/open").returncode == 0, "it is served again")
        assert ask() == "0", "the call in which the break is seen is said again"
        plug_in.stdin.close()
        assert plug_in.wait(120) == 0


def test_half_an_answer_is_forgotten_before_the_call_is_said_again() -> None:
    """The strings of the first answer are short, those of the second long: they must not get into the memory of the first."""
    asked: list[int] = []

    def job(host: bytes) -> bytes:
        return struct.pack(">Q16xII4QI", 7, 2, 0, 100, 100, 60, 40, 5) + opaque(host)

    def answer(program: int, procedure: int) -> bytes | None:
        if program != PROGRAM:
            return struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 1, 1) if procedure == 1 else b""
        if procedure == CAPABILITIES:
            return struct.pack(">6I", 0, 1, 1, 0, 1, 1)
        asked.append(procedure)
        if len(asked) == 1:
            return None
        return struct.pack(">II", 0, 1) + job(b"h" * 255) + opaque(b"n" * 255) + opaque(b"r" * 255)

    with serving(answer, struct.pack(">II", 0, 1) + job(b"h") + opaque(b"n")) as port:
        ports = (word for name in ("nfs", "mount", "program") for word in (f"--{name}-port", str(port)))
        found = vaai_nas(*ports, "--door", "program", "jobs", "127.0.0.1:/one")
    assert asked == [JOB_LIST, JOB_LIST]
    assert (found.returncode, found.stderr) == (0, "")
    assert f"from {'h' * 63}: {'n' * 255}; {'r' * 255}" in found.stdout


REPLACED = struct.pack(">I", VAAI_ERROR_STALE) + opaque(b"replaced")
OF_FILE = struct.pack(">I3QIQ", 0, 4096, 4096, 0, 1, 0)
RUNNING, COMPLETE = (struct.pack(">IQ16xII4QI", 0, 7, state, 0, 4096, 4096, 4096, 0, 1) + opaque(b"") * 3 for state in (1, 2))


@pytest.mark.parametrize(
    ("words", "answers", "lookups", "code"),
    [
        (["stat", "disk"], [REPLACED, OF_FILE], 2, 0),
        (["stat", "disk"], [REPLACED, REPLACED], 2, 1),
        (["clone", "disk", "copy"], [REPLACED, COMPLETE], 4, 0),
        (["clone", "disk", "copy"], [REPLACED, REPLACED], 4, 1),
        (["clone", "disk", "copy"], [RUNNING, REPLACED], 2, 1),
    ],
    ids=["replaced", "always", "replaced, cloned", "always, cloned", "a clone that was taken is not begun again"],
)
def test_a_name_is_looked_up_again_when_its_file_was_replaced(
    words: list[str], answers: list[bytes], lookups: int, code: int
) -> None:
    looked: list[int] = []
    asked: list[int] = []

    def answer(program: int, procedure: int) -> bytes | None:
        if program == PROGRAM and procedure == CAPABILITIES:
            return struct.pack(">6I", 0, 1, 1, 0, 1, 1)
        if program == PROGRAM:
            asked.append(procedure)
            return answers[min(len(asked), len(answers)) - 1]
        if program == NFS_PROGRAM and procedure == NFSPROC3_LOOKUP:
            looked.append(procedure)
            return struct.pack(">I", 0) + opaque(bytes([len(looked)]) * 8) + struct.pack(">II", 0, 0)
        return struct.pack(">I", 0) + opaque(bytes(8)) + struct.pack(">II", 1, 1) if procedure == 1 else b""

    with serving(answer, b"") as port:
        ports = (word for name in ("nfs", "mount", "program") for word in (f"--{name}-port", str(port)))
        found = vaai_nas(*ports, "--door", "program", words[0], "127.0.0.1:/one", *words[1:])
    assert (len(looked), len(asked), found.returncode) == (lookups, len(answers), code), found.stderr


@pytest.mark.skipif(not IN_GUEST, reason="XFS holds no space")
@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_is_replaced_keeps_its_reservation(rig: Rig, door: str) -> None:
    (rig.store / "disk").write_bytes(bytes(1 << 20))
    assert vaai_nas("--door", door, "reserve", "127.0.0.1:/open", "disk").returncode == 0
    answer = vaai_nas("--door", door, "fast-clone", "127.0.0.1:/open", "source", "disk")
    assert answer.returncode == 0, answer.stderr
    assert f"reserved: {1 << 20}" in vaai_nas("--door", door, "stat", "127.0.0.1:/open", "disk").stdout


@pytest.mark.parametrize("door", DOORS)
def test_a_clone_has_the_permissions_of_its_source(rig: Rig, door: str) -> None:
    (rig.store / "source").chmod(0o640)
    for command in ("clone", "fast-clone"):
        assert vaai_nas("--door", door, command, "127.0.0.1:/open", "source", command).returncode == 0
        assert (rig.store / command).stat().st_mode & 0o777 == 0o640
