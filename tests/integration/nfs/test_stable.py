# SPDX-License-Identifier: Apache-2.0
"""What the server can't make stable is never answered with OK (RFC 1813 4.7 and 3.3.7)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, running_ganesha
from support.libnfs import Client, mounted
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.programs import run

FAILING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int commit(const char *name, int fd)
{
    if (access(getenv("FSYNC_FAILS"), F_OK) != 0)
        return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
    errno = EIO;
    return -1;
}

int fsync(int fd) { return commit("fsync", fd); }
int syncfs(int fd) { return commit("syncfs", fd); }

void *dlopen(const char *path, int flags)
{
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(path, flags & ~RTLD_DEEPBIND);
}
"""
"""Preloaded into the daemon: fsync(2) and syncfs(2) fail as long as the file $FSYNC_FAILS is there.

ganesha loads an FSAL with RTLD_DEEPBIND, which would take libc's functions.
"""

CHANGES: dict[str, Callable[[Client], object]] = {
    "create": lambda client: client.open("/new", os.O_CREAT | os.O_RDWR),
    "empty": lambda client: client.open("/file", os.O_TRUNC | os.O_RDWR),
    "size": lambda client: client.truncate("/file", 1 << 20),
    "mode of a fifo": lambda client: client.chmod("/fifo", 0o640),
    "mkdir": lambda client: client.mkdir("/folder"),
    "symlink": lambda client: client.symlink("file", "/symlink"),
    "link": lambda client: client.link("/file", "/link"),
    "rename": lambda client: client.rename("/file", "/renamed"),
    "remove": lambda client: client.unlink("/file"),
    "rmdir": lambda client: client.rmdir("/empty"),
}


@pytest.fixture(scope="module")
def fails(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As long as it exists, nothing becomes stable."""
    return tmp_path_factory.mktemp("stable") / "fails"


@pytest.fixture(scope="module")
def served(lasting_store: Path, fails: Path) -> Iterator[Path]:
    """Content of /one."""
    source, library = fails.with_name("failing.c"), fails.with_name("failing.so")
    source.write_text(FAILING)
    run("gcc", "-shared", "-fPIC", "-o", library, source)
    environment = {"LD_PRELOAD": str(library), "FSYNC_FAILS": str(fails)}
    with running_ganesha(fails.with_name("ganesha"), [Export(1, lasting_store, "/one")], environment=environment):
        yield lasting_store


@pytest.fixture(params=[3, 4])
def client(served: Path, fails: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of an export with a file, a fifo and a folder."""
    with mounted("/one", request.param) as client:
        client.write_file("/file", b"content")
        os.mkfifo(served / "fifo")
        client.mkdir("/empty")
        yield client
        fails.unlink(missing_ok=True)
        for name in client.names():
            client.remove_tree(f"/{name}")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_not_stable_is_an_error(client: Client, fails: Path, change: str) -> None:
    fails.touch()
    with pytest.raises(OSError, match="IO") as refused:
        CHANGES[change](client)
    assert refused.value.errno == errno.EIO


@pytest.mark.parametrize("client", [3], indirect=True)
def test_a_device_that_is_not_stable_is_an_error(client: Client, fails: Path) -> None:
    """libnfs has no mknod in NFSv4."""
    fails.touch()
    with pytest.raises(OSError, match="IO") as refused:
        client.mknod("/node", stat.S_IFIFO | 0o600)
    assert refused.value.errno == errno.EIO


@pytest.mark.parametrize("client", [3], indirect=True)
def test_a_stable_write_that_is_not_stable_is_an_error(client: Client, fails: Path) -> None:
    root = mount("/one")
    with Nfs3() as nfs:
        file = nfs.lookup(root, "file")
        fails.touch()
        with pytest.raises(Nfs3Error) as refused:
            nfs.write(file, 0, b"other")
        assert refused.value.status == errno.EIO
        fails.unlink()
        nfs.write(file, 0, b"again")
    assert client.read_file("/file")[:5] == b"again"
