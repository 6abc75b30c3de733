# SPDX-License-Identifier: Apache-2.0
"""kill -9 of ganesha during clones and removals of clients: clients continue, and no clone is partial."""

from __future__ import annotations

import filecmp
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.kernel.zvol_clone.blocks import pool_property
from support.ganesha import Daemon, Export, mounted_dataset, running_ganesha
from support.nfs_mount import kernel_mount
from support.onc_rpc import Nfs3, mount
from support.procedure22 import COMPLETE, Procedure22
from support.programs import run, wait_for
from support.short_pool import MIB, ShortPool

SIZE = 6 * MIB


class Requester:
    """A client that sends requests until the daemon has ended, and records the responses."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.files: dict[str, bool | None] = {}  # None: unknown
        self.done = 0
        self.requesting = threading.Event()

    def run(self) -> None:
        """Runs until the daemon has ended."""
        name = ""
        try:
            root = mount("/one")
            with Nfs3() as nfs:
                source = nfs.lookup(root, "source")
                while True:
                    name = f"clone{self.choose.randrange(5)}"
                    self.clone_once(nfs, root, source, name)
                    self.done += 1
                    self.requesting.set()
        except (OSError, EOFError, AssertionError):
            self.files[name] = None

    def clone_once(self, nfs: Nfs3, root: bytes, source: bytes, name: str) -> None:
        """Clones to this name, or removes an existing clone."""
        if self.files.get(name):
            nfs.remove(root, name)
            self.files[name] = False
            return
        result = Procedure22(nfs).clone(source, root, name)
        assert (result.status, result.clone_flag) == (0, COMPLETE)
        self.files[name] = True


WRITER = """
import itertools, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for number in itertools.count():
    os.pwrite(file, number.to_bytes(8, "big") * 512, number * 4096)
    os.fsync(file)
    print(number, flush=True)
"""


class Writer:
    """A program on a client that writes records, and notices a restart only by a delay.

    It is a separate process: a child of the process that has the file open would wait for the daemon when it closes the file.
    """

    def __init__(self, path: Path) -> None:
        self.records = 0
        self._process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(60)
        self._thread.join(60)

    def goes_on(self) -> None:
        """Returns after another write. Raises AssertionError if there is none."""
        before = self.records
        wait_for(lambda: self.records > before + 1, "the client continues", 180)

    def _count(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self.records = int(line) + 1


@pytest.fixture
def store(short_pool: ShortPool) -> Iterator[Path]:
    """A dataset of the short pool."""
    with mounted_dataset(f"{short_pool.name}/datastore", compression="off") as root:
        yield root


@pytest.mark.parametrize("kills", [1, *(pytest.param(kills, marks=pytest.mark.long("many kills")) for kills in (3, 25))])
def test_clients_go_on_and_no_clone_is_half(
    short_pool: ShortPool, store: Path, tmp_path: Path, seed: int, kills: int, report_line: Callable[[str], None]
) -> None:
    choose = random.Random(seed)
    requester = Requester(choose)
    (store / "source").write_bytes(choose.randbytes(SIZE))
    seconds = []
    with (
        running_ganesha(tmp_path / "ganesha", [Export(1, store, "/one")], Daemon.PATCHED) as ganesha,
        kernel_mount("/one", tmp_path / "mnt", "3", "hard", "timeo=10") as client,
        Writer(client / "written") as writer,
    ):
        for _ in range(kills):
            requester.requesting.clear()
            thread = threading.Thread(target=requester.run, daemon=True)
            thread.start()
            assert requester.requesting.wait(120), (
                "a request is confirmed, by this daemon: there is something that a kill may lose"
            )
            thread.join(choose.uniform(0.5, 3))  # the random moment is the test
            assert thread.is_alive(), "it sends requests until the daemon is gone"
            seconds.append(ganesha.restart_after_kill())
            thread.join(60)
            assert not thread.is_alive(), "it notices that the daemon is gone"
            check_clones(requester, store)
            writer.goes_on()
        records = writer.records
    data = (store / "written").read_bytes()
    assert all(data[at * 4096 : at * 4096 + 8] == at.to_bytes(8, "big") for at in range(records)), "each stable record is there"
    for path in store.iterdir():
        path.unlink()
    run("zpool", "sync", short_pool.name)
    assert pool_property(short_pool.name, "bcloneused") == 0
    report_line(
        f"{kills} kills, {requester.done} requests and {records} stable records around them; served again in {max(seconds):.1f} s"
    )


def check_clones(requester: Requester, store: Path) -> None:
    """Confirmed requests are done; unconfirmed ones are resolved here."""
    assert {path.name for path in store.iterdir()} <= {"source", "written", *requester.files}, "nothing is left that is nobody's"
    for name, expected in list(requester.files.items()):
        is_present = bool(name) and (store / name).exists()
        assert expected in {is_present, None}, f"{name} is {'' if is_present else 'not '}there"
        assert not is_present or filecmp.cmp(store / "source", store / name, shallow=False), f"{name} is half"
        requester.files[name] = is_present
