"""Files that are thick by default (`zvaai:thick`): what a client makes larger is promised first, and holds in a full pool."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import procedure22
from support.ganesha import Daemon, Export, Ganesha, mounted_dataset, running_ganesha
from support.libnfs import Client, mounted
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.procedure22 import COMPLETE, DISK_FULL, Procedure22, Result
from support.programs import ProgramFailed, run, wait_for
from support.short_pool import MIB, Filler, ShortPool
from support.vaai_nas import ask_control_socket

SIZE = 256 * MIB
NFS3ERR_NOSPC = 28
NFS3ERR_JUKEBOX = 10008
"""Not now: zfs(8) did not answer in time."""


class Store:
    """A dataset of the short pool, served as /one, and what its books say."""

    def __init__(self, pool: ShortPool, place: Path, ganesha: Ganesha, socket: Path) -> None:
        self.pool = pool
        self.place = place
        self.ganesha = ganesha
        self._socket = socket

    @property
    def held(self) -> int:
        """Bytes."""
        return self.pool.number("store", "refreservation")

    def books(self, *, refresh: bool = False) -> dict[str, Any]:
        """`space.get` of the control socket; once zfs(8) answers, if it is asked. Raises KeyError: the export is not served."""
        request = {"jsonrpc": "2.0", "id": 1, "method": "space.get", "params": {"export": 1, "refresh": refresh}}
        answers: list[dict[str, Any]] = []

        def answered() -> bool:
            (answer,) = ask_control_socket(self._socket, json.dumps(request).encode())
            answers.append(answer)
            return "result" in answer or answer["error"]["data"]["status"] != "busy"

        wait_for(answered, "the server tells what is promised")
        if "result" not in answers[-1]:
            raise KeyError(str(answers[-1]))
        return dict(answers[-1]["result"])

    def settled_books(self) -> dict[str, Any]:
        """The same, refreshed, once promises are said to hold: a zfs(8) that did not answer is a problem until the next look."""
        told: list[dict[str, Any]] = []

        def holds() -> bool:
            told.append(self.books(refresh=True))
            return not told[-1]["problem"]

        wait_for(holds, "promises are said to hold")
        return told[-1]

    def left(self) -> int:
        """Bytes of the pool that nobody holds, once the books have looked what they need to hold for small files."""
        self.books(refresh=True)
        return self.pool.available

    def set(self, **properties: str) -> None:
        """Sets properties of the dataset, and has them followed."""
        run("zfs", "set", *(f"{name.replace('_', ':')}={value}" for name, value in properties.items()), f"{self.pool.name}/store")
        self.books(refresh=True)

    def reserved(self, name: str) -> int:
        """What a file is promised."""
        with Nfs3() as nfs:
            return Procedure22(nfs).command(procedure22.STATISTICS, nfs.lookup(mount("/one"), name)).reserved

    def clone(self, source: str, name: str, *, fast: bool) -> Result:
        """A clone to a new name, as a plug-in makes it; waits for its end."""
        with Nfs3() as nfs:
            root, procedure = mount("/one"), Procedure22(nfs)
            if fast:
                return procedure.clone(nfs.lookup(root, source), root, name)
            return procedure.full_clone(nfs.lookup(root, source), nfs.create(root, name))


@pytest.fixture
def store(short_pool: ShortPool, tmp_path: Path) -> Iterator[Store]:
    """Set to `zvaai:thick=on`."""
    socket = tmp_path / "vaai-nas.socket"
    with (
        mounted_dataset(f"{short_pool.name}/store", **{"compression": "off", "zvaai:thick": "on"}) as place,
        running_ganesha(
            tmp_path / "ganesha",
            [Export(1, place, "/one")],
            Daemon.PATCHED,
            blocks=f'VAAI_NAS {{ Control_Socket = "{socket}"; }}\n',
        ) as ganesha,
    ):
        yield Store(short_pool, place, ganesha, socket)


def make(client: Client, path: str, size: int) -> None:
    """A new file, made so large by SETATTR."""
    client.write_file(path, b"")
    client.truncate(path, size)


def is_refused(client: Client, path: str, size: int) -> bool:
    """Whether a file that is there can't be made so large for want of space, and is as it was."""
    before = client.size(path)
    with pytest.raises(OSError) as failure:
        client.truncate(path, size)
    return failure.value.errno == errno.ENOSPC and client.size(path) == before


def refusal_of_a_write(name: str, offset: int) -> int:
    """The nfsstat3, once the server knows."""
    told: list[int] = []

    def knows() -> bool:
        with pytest.raises(Nfs3Error) as failure, Nfs3() as nfs:
            nfs.write(nfs.lookup(mount("/one"), name), offset, b"data")
        told.append(failure.value.status)
        return told[-1] != NFS3ERR_JUKEBOX

    wait_for(knows, "a write is refused")
    return told[-1]


def test_a_file_that_was_made_large_is_written_in_a_full_pool(store: Store, seed: int) -> None:
    data = random.Random(seed).randbytes(MIB)
    with mounted("/one") as client:
        client.write_file("/log", data)
        client.write_file("/next", b"")
        assert store.held == 0, "small files are not promised"
        make(client, "/disk", SIZE)
        assert store.held >= SIZE
        # Most of what is left is somebody's by his reservation, so that it need not be written.
        run("zfs", "create", "-o", f"refreservation={store.left() - 64 * MIB}", f"{store.pool.name}/others")
        with Filler(store.pool.files) as filler, client.opened("/disk", os.O_RDWR) as disk:
            filler.wait_until_refused()
            for offset in range(0, SIZE, MIB):
                number = offset // MIB
                disk.write(offset, data[number:] + data[:number])
            disk.sync()
            for number in range(8):  # once more, each record by itself
                disk.write(number * MIB, data)
                disk.sync()
            assert is_refused(client, "/next", SIZE) and client.size("/next") == 0
            assert refusal_of_a_write("next", SIZE) == NFS3ERR_NOSPC, "far beyond the end"
            assert client.size("/next") == 0
            for number in range(0, SIZE // MIB, 7):
                expected = data if number < 8 else data[number:] + data[:number]
                assert disk.read(number * MIB, MIB) == expected, f"MiB {number}"
        assert store.reserved("disk") >= SIZE
        assert store.reserved("next") == store.reserved("log") == 0


@pytest.mark.long("70 s of random steps; their parts are in files/ and nfs/ in each run")
def test_clones_switches_and_kills_keep_the_ledger_right(store: Store, seed: int) -> None:
    size = 80 * MIB
    with mounted("/one", 4) as client, client.opened("/disk", os.O_CREAT | os.O_RDWR) as disk:
        for offset in range(0, size, MIB):  # each beyond the end of the file
            disk.write(offset, os.urandom(MIB))
        disk.sync()
    with mounted("/one") as client:
        assert store.reserved("disk") >= size
        assert store.clone("disk", "fast", fast=True).clone_flag == COMPLETE
        assert store.reserved("fast") == 0
        assert store.clone("disk", "full", fast=False).clone_flag == COMPLETE
        assert store.reserved("full") == size
        assert store.held >= 2 * size
        is_refused_where_nothing_is_left(store)

        store.set(zvaai_thick="off")
        assert not store.books()["thick_default"]
        make(client, "/thin", size)
        assert store.reserved("thin") == 0 and store.held >= 2 * size
        run("zfs", "set", "zvaai:thick=on", store.pool.name)
        run("zfs", "inherit", "zvaai:thick", f"{store.pool.name}/store")
        assert not store.books(refresh=True)["thick_default"], "what is inherited was meant for another"
        store.set(zvaai_thick="on", dedup="on")
        wait_for(lambda: "deduplication" in store.books(refresh=True)["problem"], "deduplication is said to be on")
        assert store.books()["thick_default"]
        client.write_file("/other", b"")
        assert is_refused(client, "/other", size) and is_refused(client, "/thin", 2 * size)
        store.set(dedup="off")
        store.settled_books()
        client.truncate("/thin", size + MIB)
        assert store.reserved("thin") == size + MIB
    kill_between_promise_and_growth(store, random.Random(seed))


def promised(store: Store) -> int | None:
    """Bytes; None while the daemon's control socket is not served yet."""
    with contextlib.suppress(OSError, json.JSONDecodeError, KeyError):
        return int(store.books()["thick_bytes"])
    return None


def is_refused_where_nothing_is_left(store: Store) -> None:
    """A full clone, that is; nothing of it is left."""
    taken = 0
    while (left := store.left()) > 16 * MIB:
        with contextlib.suppress(ProgramFailed):  # a look has taken some of it
            run("zfs", "set", f"refreservation={taken + left - 8 * MIB}", f"{store.pool.name}/files")
            taken += left - 8 * MIB
    result = store.clone("disk", "refused", fast=False)
    assert (result.status, result.result) == (NFS3ERR_NOSPC, DISK_FULL), result
    assert (store.place / "refused").stat().st_size == 0 and not list((store.place / ".zvaai" / "clones").iterdir())
    run("zfs", "set", "refreservation=none", f"{store.pool.name}/files")


def kill_between_promise_and_growth(store: Store, choose: random.Random) -> None:
    """Kills the daemon while a client makes one file after the other large: what is larger is promised, and no more than that."""
    made = threading.Event()
    refused: list[Nfs3Error] = []

    def ask() -> None:
        with contextlib.suppress(OSError, EOFError), Nfs3() as nfs:
            root = mount("/one")
            for number in itertools.count():
                try:
                    nfs.truncate(nfs.create(root, f"kill{number}"), 2 * MIB)
                except Nfs3Error as error:
                    if error.status != NFS3ERR_JUKEBOX:
                        refused.append(error)
                        return
                else:
                    made.set()

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    wait_for(lambda: made.is_set() or not asker.is_alive(), "a file is made large")
    assert made.is_set(), refused
    asker.join(choose.uniform(0, 1))  # the moment is what is tried
    store.ganesha.restart_after_kill()
    asker.join(120)
    assert not asker.is_alive(), "it is told that the daemon is gone"
    assert not refused
    sizes = {path.name: path.stat().st_size for path in store.place.iterdir() if path.is_file() and path.name != "fast"}
    large = sum(size for size in sizes.values() if size > MIB)
    wait_for(lambda: promised(store) == large, f"{large} bytes are promised")
    told = store.settled_books()
    assert told["held_bytes"] >= told["needed_bytes"] >= told["thick_bytes"], told
    assert store.held >= told["thick_bytes"]
