# SPDX-License-Identifier: Apache-2.0
"""A file that is created with a size that cannot be set: its descriptor is closed, once, and no file is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, Ganesha, running_ganesha
from support.nfs4 import SHARE_BOTH, SHARE_NONE, Nfs4, Nfs4Error
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.programs import run

RECORDING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int close(int fd)
{
    const int result = (int)syscall(SYS_close, fd), error = errno;

    if (result != 0 && error == EBADF)
        syscall(SYS_close, open(getenv("CLOSED_TWICE"), O_CREAT | O_WRONLY, 0600));
    errno = error;
    return result;
}

void *dlopen(const char *path, int flags)
{
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(path, flags & ~RTLD_DEEPBIND);
}
"""
"""Preloaded into the daemon: makes the file $CLOSED_TWICE when a descriptor is closed that is not open.

ganesha loads an FSAL with RTLD_DEEPBIND, which would take libc's functions.
"""

THICK_SIZE = 64 << 20
NOENT, FBIG, NOSPC, JUKEBOX = 2, 27, 28, 10008
REFUSED = {"/thin": (1 << 63, FBIG), "/thick": (THICK_SIZE + 1, NOSPC)}
CREATES = 100


@pytest.fixture
def closed_twice(tmp_path: Path) -> Path:
    """Exists after the daemon has closed a descriptor that was not open."""
    return tmp_path / "closed twice"


@pytest.fixture
def served(make_store: Callable[[str], Path], tmp_path: Path, closed_twice: Path) -> Iterator[Ganesha]:
    """A daemon with a thin and a thick export."""
    source, library = tmp_path / "recording.c", tmp_path / "recording.so"
    source.write_text(RECORDING)
    run("gcc", "-shared", "-fPIC", "-o", library, source)
    environment = {"LD_PRELOAD": str(library), "CLOSED_TWICE": str(closed_twice)}
    exports = [Export(1, make_store("thin"), "/thin"), Export(2, make_store("thick"), "/thick", thick_size=THICK_SIZE)]
    with running_ganesha(tmp_path / "ganesha", exports, environment=environment) as ganesha:
        closed_twice.unlink(missing_ok=True)
        yield ganesha


def descriptors(ganesha: Ganesha) -> int:
    """Open descriptors of the daemon."""
    return len(list(Path(f"/proc/{ganesha.pid}/fd").iterdir()))


@pytest.mark.parametrize("export", REFUSED)
def test_nfsv3_closes_the_descriptor_once(served: Ganesha, closed_twice: Path, export: str) -> None:
    size, status = REFUSED[export]
    root = mount(export)
    with Nfs3() as nfs:
        nfs.create(root, "file")
        before = descriptors(served)
        for _ in range(CREATES):
            with pytest.raises(Nfs3Error) as refused:
                nfs.create(root, "new", size=size)
            assert refused.value.status in (status, JUKEBOX)
            assert not closed_twice.exists()
        with pytest.raises(Nfs3Error) as refused:
            nfs.lookup(root, "new")
        assert refused.value.status == NOENT
        nfs.write(nfs.create(root, "other"), 0, b"content")
    assert descriptors(served) <= before + 1


@pytest.mark.parametrize("export", REFUSED)
def test_nfsv4_closes_the_descriptor(served: Ganesha, closed_twice: Path, export: str) -> None:
    size, _status = REFUSED[export]
    with Nfs4() as host:
        host.close(host.open(export, "file", SHARE_BOTH, SHARE_NONE, create=True))
        before = descriptors(served)
        for _ in range(CREATES):
            with pytest.raises(Nfs4Error):
                host.open(export, "new", SHARE_BOTH, SHARE_NONE, create=True, size=size)
    assert descriptors(served) <= before
    assert not closed_twice.exists()
