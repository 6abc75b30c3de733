# SPDX-License-Identifier: Apache-2.0
"""A name that another host removes in the middle of a call: a listing omits it, and a removal says that it does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, running_ganesha
from support.libnfs import mounted
from support.onc_rpc import Nfs3, Nfs3Error, mount
from support.programs import run

VANISHING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int gone(void)
{
    errno = ENOENT;
    return -1;
}

int fstatat64(int folder, const char *name, struct stat64 *status, int flags)
{
    return strcmp(name, "listed") == 0 ? gone() : (int)syscall(SYS_newfstatat, folder, name, status, flags);
}

int fstatat(int folder, const char *name, struct stat *status, int flags)
{
    return fstatat64(folder, name, (struct stat64 *)status, flags);
}

int unlinkat(int folder, const char *name, int flags)
{
    return strcmp(name, "found") == 0 ? gone() : (int)syscall(SYS_unlinkat, folder, name, flags);
}

void *dlopen(const char *path, int flags)
{
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(path, flags & ~RTLD_DEEPBIND);
}
"""
"""Preloaded into the daemon: `listed` vanishes after its name was read, `found` after it was looked up.

ganesha loads an FSAL with RTLD_DEEPBIND, which would take libc's functions.
"""
NOENT = 2


@pytest.fixture
def folder(make_store: Callable[[str], Path], tmp_path: Path) -> Iterator[Path]:
    """A folder of an export of such a daemon."""
    source, library = tmp_path / "vanishing.c", tmp_path / "vanishing.so"
    source.write_text(VANISHING)
    run("gcc", "-shared", "-fPIC", "-o", library, source)
    store = make_store("store")
    (store / "vm").mkdir()
    for name in ("before", "found", "listed", "next"):
        (store / "vm" / name).write_bytes(b"x")
    with running_ganesha(tmp_path / "ganesha", [Export(1, store, "/store")], environment={"LD_PRELOAD": str(library)}):
        yield store / "vm"


@pytest.mark.parametrize("version", [3, 4])
def test_a_listing_omits_it(folder: Path, version: int) -> None:
    with mounted("/store", version) as host:
        assert host.names("/vm") == {"before", "found", "next"}


def test_a_removal_says_that_it_does_not_exist(folder: Path) -> None:
    root = mount("/store")
    with Nfs3() as nfs:
        vm = nfs.lookup(root, "vm")
        with pytest.raises(Nfs3Error) as refused:
            nfs.remove(vm, "found")
        assert refused.value.status == NOENT, "STALE would be about the folder"
        nfs.lookup(vm, "next")
