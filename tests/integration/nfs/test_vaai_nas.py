# SPDX-License-Identifier: Apache-2.0
"""The VAAI-NAS service by the command `vaai-nas` and the control socket, with the patched library and with Debian's."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import procedure22
from support.ganesha import PATCHED_LIBRARY, Daemon, Export, Ganesha, running_ganesha
from support.libnfs import mounted
from support.onc_rpc import NFS_PROGRAM, PROC_UNAVAIL, Nfs3, RpcError, mount
from support.procedure22 import Procedure22, argument, arguments
from support.programs import IN_GUEST, run
from support.vaai_nas import ask_control_socket, vaai_nas

ROFS, COMPLETE = 30, procedure22.COMPLETE
LIBRARY = "libganesha_nfsd.so.6.5"
SIZE = 4 << 20


@dataclass
class Rig:
    """A daemon with an export, and a read-only export on another file system."""

    ganesha: Ganesha
    store: Path
    control_socket: Path
    data: bytes

    def handle(self, path: str = "", export: str = "open") -> bytes:
        """A handle; of the root by default."""
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
        (place / "directory").chmod(0o777)  # before the daemon caches the mode
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
    with Nfs3() as nfs:
        nfs.null()
    assert rig_of_all.ganesha.running()
    for path in rig_of_all.store.iterdir():
        if path.is_file() and path.name != "source":
            path.unlink()


def test_debians_library_serves_nfs_without_vaai_nas(make_store: Callable[[str], Path], tmp_path: Path, seed: int) -> None:
    data = random.Random(seed).randbytes(SIZE)
    with running_rig(make_store, tmp_path, Daemon.STOCK, data) as rig:
        with mounted("/open") as client:
            client.write_file("/made", data)
            assert client.read_file("/made") == data
        assert "VAAI-NAS is off, NFS is served" in rig.ganesha.log()
        assert "install the zvaai-nfs package" in rig.ganesha.log()
        with Nfs3() as nfs, pytest.raises(RpcError) as refused:
            Procedure22(nfs).command(procedure22.CLONE_SUPPORTED, rig.handle())
        assert refused.value.accept_stat == PROC_UNAVAIL
        answer = vaai_nas("caps", "127.0.0.1:/open")
        assert (answer.returncode, "install the package zvaai-nfs" in answer.stderr) == (3, True)
        said = ask_control_socket(rig.control_socket, b'{"jsonrpc":"2.0","id":6,"method":"service.get"}')[0]["result"]
        assert "install the zvaai-nfs package" in said["problem"]
        counted = ask_control_socket(rig.control_socket, b'{"jsonrpc":"2.0","id":7,"method":"statistics.get"}')[0]
        (host,) = counted["result"]["hosts"]
        assert (host["capabilities"]["operations"], host["write"]["bytes"], host["read"]["bytes"]) == (0, len(data), len(data))


def test_a_library_with_other_structures_serves_nfs_without_vaai_nas(
    nfs_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's list of sizes, `nfs3_register_layout`, differs in its first one. It is constant data at its own address."""
    content = bytearray((PATCHED_LIBRARY / LIBRARY).read_bytes())
    symbols = run("nm", "-D", PATCHED_LIBRARY / LIBRARY).splitlines()
    at = next(int(line.split()[0], 16) for line in symbols if line.endswith(" nfs3_register_layout"))
    content[at] ^= 8
    (tmp_path / LIBRARY).write_bytes(content)
    monkeypatch.setattr("support.ganesha.PATCHED_LIBRARY", tmp_path)
    with running_ganesha(tmp_path / "ganesha", [Export(1, nfs_store, "/one")], Daemon.PATCHED) as ganesha:
        assert "VAAI-NAS is off, NFS is served: this nfs-ganesha has different structures" in ganesha.log()
        with mounted("/one") as client:
            client.write_file("/made", b"data")
        with Nfs3() as nfs, pytest.raises(RpcError) as refused:
            Procedure22(nfs).command(procedure22.CLONE_SUPPORTED, mount("/one"))
        assert refused.value.accept_stat == PROC_UNAVAIL
    assert (nfs_store / "made").read_bytes() == b"data"


@pytest.mark.skipif(IN_GUEST, reason="datasets of one pool share blocks: the clones would be done before the daemon ends")
def test_a_daemon_that_ends_takes_its_clones_back(make_store: Callable[[str], Path], tmp_path: Path, seed: int) -> None:
    here, other = make_store("here"), make_store("other")
    with (other / "large").open("wb") as file:
        for number in range(96):
            file.write(random.Random(seed + number).randbytes(1 << 20))
    os.sync()
    exports = [Export(1, here, "/here"), Export(2, other, "/other")]
    with running_ganesha(tmp_path / "ganesha", exports, Daemon.PATCHED) as ganesha:

        def ends_clones() -> bool:
            """Whether a clone was incomplete when the daemon ended, right after its first answer. All may be complete by then."""
            with Nfs3() as nfs:
                root, large = mount("/here"), nfs.lookup(mount("/other"), "large")
                files = [nfs.create(root, f"copy{number}") for number in range(4)]
                for file in files:
                    nfs.connection.send(NFS_PROGRAM, 3, 22, arguments(file, large, argument(procedure22.CLONE)))
                assert procedure22.decode(nfs.connection.receive()[1]).status == 0
                assert ganesha.stop() == 0, "it neither hangs nor crashes"
            sizes = [path.stat().st_size for path in here.iterdir()]
            assert len(sizes) == 4 and set(sizes) <= {0, 96 << 20}, "each is whole or empty"
            for path in here.iterdir():
                path.unlink()
            ganesha.start()
            return 0 in sizes

        assert any(ends_clones() for _ in range(10))


def counters(rig: Rig, path: str) -> dict[str, int]:
    """Counters of an export, or of this host (path "")."""
    (answer,) = ask_control_socket(rig.control_socket, b'{"jsonrpc":"2.0","id":7,"method":"statistics.get"}')
    assert (answer["id"], len(answer["result"]["latency_bounds_microseconds"])) == (7, 27)
    rows = answer["result"]["exports"] if path else answer["result"]["hosts"]
    totals = {"cloned": 0, "copied": 0, "fast": 0, "clones": 0, "statistics": 0, "errors": 0, "refused": 0, "latencies": 0}
    for row in rows:
        if row.get("export") == path or row.get("host") == "127.0.0.1":
            totals |= {"cloned": row["offload"]["cloned_bytes"], "copied": row["offload"]["copied_bytes"]}
            totals |= {"fast": row["fast_clone"]["operations"], "clones": row["clone"]["operations"]}
            totals |= {"statistics": row["statistics"]["operations"], "latencies": sum(row["fast_clone"]["latency"]["counts"])}
            totals |= {"errors": row["clone"]["errors"], "refused": row["clone"]["refused"]}
    return totals


def test_counters(rig: Rig) -> None:
    places = ("/open", "/read-only", "")
    before = {place: counters(rig, place) for place in places}
    with Nfs3() as nfs:
        procedure = Procedure22(nfs)
        assert procedure.clone(rig.handle("source"), rig.handle(), "one").clone_flag == COMPLETE
        assert procedure.full_clone(rig.handle("source"), nfs.create(rig.handle(), "two")).clone_flag == COMPLETE
        assert procedure.command(procedure22.STATISTICS, rig.handle("source")).total == SIZE
        assert procedure.clone(rig.handle("source"), rig.handle("directory", "read-only"), "directory/made").status == ROFS
    after = {place: counters(rig, place) for place in places}
    counted = {place: {what: after[place][what] - before[place][what] for what in after[place]} for place in places}
    done = {"cloned": 2 * SIZE, "copied": 0, "fast": 1, "statistics": 1, "latencies": 1}
    assert counted["/open"] == {**done, "clones": 1, "errors": 0, "refused": 0}
    assert counted[""] == {**done, "clones": 2, "errors": 1, "refused": 1}
    nothing = dict.fromkeys(done, 0)
    assert counted["/read-only"] == {**nothing, "clones": 1, "errors": 1, "refused": 1}


def test_refusals_of_the_control_socket(rig: Rig) -> None:
    lines = [b"{", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"other"}', b"[" * 1000]
    lines += [b'{"jsonrpc":null,"id":2,"method":"statistics.get"}']
    lines += [b'{"jsonrpc":"2.0","id":2,"method":"statistics.get","params":{"a":1}}']
    codes = [answer["error"]["code"] for answer in ask_control_socket(rig.control_socket, *lines)]
    assert codes == [-32700, -32600, -32601, -32700, -32600, -32602]
    assert rig.control_socket.stat().st_mode & 0o777 == 0o600


def test_the_command(rig: Rig) -> None:
    def ask(*words: str, user: int = 0) -> subprocess.CompletedProcess[str]:
        return vaai_nas(words[0], "127.0.0.1:/open", *words[1:], user=user)

    assert ask("caps").stdout.splitlines() == ["clone: yes", "reserve: yes", "statistics: yes"]
    assert ask("clone", "source", "full").returncode == 0
    assert ask("fast-clone", "source", "directory/fast").returncode == 0
    for copy in ("full", "directory/fast"):
        assert (rig.store / copy).read_bytes() == rig.data
    (rig.store / "full").write_bytes(b"older")
    for command in ("clone", "fast-clone"):
        assert ask(command, "source", "full").returncode == 7
        assert (rig.store / "full").read_bytes() == b"older"
    assert f"total: {SIZE}" in ask("stat", "directory/fast").stdout
    absent = ask("clone", "absent", "copy")
    assert (absent.returncode, "nothing was changed" in absent.stderr) == (4, True)
    assert ask("clone", "source", "nowhere/copy").returncode == 4
    assert ask("clone", "source", "../copy").returncode == 1
    assert ask("stat", "directory").returncode == 1
    assert ask("clone", "source", "his", user=1000).returncode == 5
    assert vaai_nas("caps", "127.0.0.1:/nowhere").returncode in {4, 5}
    assert vaai_nas("clone", "127.0.0.1:/open", "source").returncode == 2
    read_only = vaai_nas("clone", "127.0.0.1:/read-only", "source", "copy")
    assert read_only.returncode == 5, read_only.stderr


def test_a_thin_datastore_reserves_nothing(rig: Rig) -> None:
    refused = vaai_nas("reserve", "127.0.0.1:/open", "source")
    assert (refused.returncode, "the datastore is thin" in refused.stderr) == (6, True)
    assert "reserved: 0" in vaai_nas("stat", "127.0.0.1:/open", "source").stdout


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
    for command in ("clone", "fast-clone"):
        answer = vaai_nas(command, "--progress", "127.0.0.1:/open", "disk.raw", f"directory/{command}.raw")
        assert answer.returncode == 0, answer.stderr
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", local, f"nfs://127.0.0.1/open/directory/{command}.raw")
        assert (rig.store / "directory" / f"{command}.raw").read_bytes() == local.read_bytes()
