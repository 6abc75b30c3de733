# SPDX-License-Identifier: Apache-2.0
"""In the guest: one change over NFS in each dataset, until the host cuts the power. Or checks afterwards.

Each dataset has its own intent log, so that no change is made stable by a later one.

usage: nfs_changer.py STATE_DIRECTORY change | check
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.ganesha import Export, Ganesha, Rpcbind
from support.libnfs import Client
from support.programs import run
from support.zfs import Pool

POOL = "cut"
CONTROL = "control"
"""A change that nothing makes stable: its loss proves the cut, and that no transaction group ended."""
SIZE = 100 << 30


@dataclass(frozen=True)
class Change:
    """An operation, and whether it is done."""

    operation: Callable[[Client], object]
    done: Callable[[Path], bool]
    version: int = 3


def create(client: Client) -> None:
    client.open("/new", os.O_CREAT | os.O_RDWR).close()


def empty(client: Client) -> None:
    client.open("/file", os.O_TRUNC | os.O_RDWR).close()


def moved(root: Path) -> bool:
    return not (root / "file").exists() and (root / "folder/new").exists()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


CHANGES = {
    "create": Change(create, lambda root: (root / "new").is_file()),
    "create4": Change(create, lambda root: (root / "new").is_file(), version=4),
    "empty4": Change(empty, lambda root: (root / "file").stat().st_size == 0, version=4),
    "size": Change(lambda client: client.truncate("/file", SIZE), lambda root: (root / "file").stat().st_size == SIZE),
    "mode": Change(lambda client: client.chmod("/file", 0o751), lambda root: mode_of(root / "file") == 0o751),
    "mode-fifo": Change(lambda client: client.chmod("/fifo", 0o751), lambda root: mode_of(root / "fifo") == 0o751),
    "mode-folder": Change(lambda client: client.chmod("/folder", 0o751), lambda root: mode_of(root / "folder") == 0o751),
    "mkdir": Change(lambda client: client.mkdir("/new"), lambda root: (root / "new").is_dir()),
    "symlink": Change(lambda client: client.symlink("file", "/new"), lambda root: (root / "new").is_symlink()),
    "mknod": Change(lambda client: client.mknod("/new", stat.S_IFIFO | 0o600), lambda root: (root / "new").is_fifo()),
    "link": Change(lambda client: client.link("/file", "/new"), lambda root: (root / "file").stat().st_nlink == 2),
    "rename": Change(lambda client: client.rename("/file", "/folder/new"), moved),
    "remove": Change(lambda client: client.unlink("/file"), lambda root: not (root / "file").exists()),
    "rmdir": Change(lambda client: client.rmdir("/folder"), lambda root: not (root / "folder").exists()),
}


def root_of(name: str) -> Path:
    return Path("/cut") / name


def prepare(name: str) -> None:
    """A dataset with an object of each kind, all of them stable, and an intent log: its first commit ends a transaction group."""
    root = root_of(name)
    run("zfs", "create", "-o", "acltype=posix", "-o", "xattr=sa", "-o", f"mountpoint={root}", f"{POOL}/{name}")
    (root / "folder").mkdir()
    os.mkfifo(root / "fifo")
    with (root / "file").open("wb") as file:
        file.write(b"content")
        file.flush()
        os.fsync(file.fileno())


def change(state: Path) -> None:
    """Never returns."""
    Pool(POOL, os.environ["ZVAAI_DISKS"].split()[0])
    Path("/sys/module/zfs/parameters/zfs_txg_timeout").write_text("600\n")
    for name in (*CHANGES, CONTROL):
        prepare(name)
    Rpcbind()
    Ganesha(Path("/run/ganesha"), [Export(number, root_of(name), f"/{name}") for number, name in enumerate(CHANGES, 1)]).start()
    clients = {name: Client(f"/{name}", change.version) for name, change in CHANGES.items()}
    run("zpool", "sync", POOL)
    (root_of(CONTROL) / "new").mkdir()
    for name, client in clients.items():
        CHANGES[name].operation(client)
    (state / "answered").touch()
    signal.pause()


def check() -> None:
    """Imports the pool after the cut, which replays the intent logs."""
    run("zpool", "import", "-f", "-d", os.environ["ZVAAI_DISKS"].split()[0], POOL)
    lost = [name for name, change in CHANGES.items() if not change.done(root_of(name))]
    assert not lost, f"answered, and lost by the cut: {lost}"
    assert not (root_of(CONTROL) / "new").exists(), "what nothing made stable is there: the cut proves nothing"
    print(f"{len(CHANGES)} changes survived the cut")


if __name__ == "__main__":
    if sys.argv[2] == "check":
        check()
    else:
        change(Path(sys.argv[1]))
