# SPDX-License-Identifier: Apache-2.0
"""Handles that no client received: made up, or of another export."""

from __future__ import annotations

import ctypes
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import Export, Ganesha, running_ganesha
from support.onc_rpc import Nfs3, Nfs3Error, mount

NFS3ERR_STALE, NFS3ERR_BADHANDLE = 70, 10001


def kernel_handle(path: Path) -> bytes:
    """Result of name_to_handle_at(2), which FSAL_VFS copies into its handles."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    at_fdcwd = -100
    assert libc.name_to_handle_at(at_fdcwd, os.fsencode(path), buffer, ctypes.byref(mount_id), 0) == 0, os.strerror(
        ctypes.get_errno()
    )
    length, _kind = struct.unpack_from("Ii", buffer.raw)
    return buffer.raw[8 : 8 + length]


@pytest.fixture(scope="module")
def served(lasting_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ganesha, Path]]:
    """A file system exported as a whole, and one of its folders exported read-only."""
    (lasting_store / "file").write_text("everybody's")
    (lasting_store / "folder").mkdir()
    (lasting_store / "folder" / "inside").write_text("inside")
    exports = [Export(1, lasting_store, "/one"), Export(2, lasting_store / "folder", "/two", access="RO")]
    with running_ganesha(tmp_path_factory.mktemp("daemon") / "ganesha", exports) as ganesha:
        yield ganesha, lasting_store


def status_of(client: Nfs3, handle: bytes) -> int:
    try:
        client.size(handle)
    except Nfs3Error as error:
        return error.status
    return 0


def test_handle_under_another_exports_number_gets_that_exports_rights(served: tuple[Ganesha, Path]) -> None:
    with Nfs3() as client:
        handle = client.lookup(mount("/one"), "file")
        other = bytearray(handle)
        place = next(index for index in range(4) if mount("/one")[index] != mount("/two")[index])
        other[place] = mount("/two")[place]
        with pytest.raises(Nfs3Error):
            client.write(bytes(other), 0, b"x")
        client.write(handle, 0, b"y")


def test_a_handle_of_two_kinds_is_refused_and_the_daemon_lives(served: tuple[Ganesha, Path]) -> None:
    """A "dummy" of FSAL_VFS has no kernel handle in it; if it claims another kind, a read would go past its end."""
    opaque_at, dummy = 5, 0x20  # struct file_handle_v3 of ganesha's nfs_fh.h; os/linux/handle_syscalls.c of FSAL_VFS
    with Nfs3() as client:
        known = client.lookup(mount("/one"), "file")
        kernels_at = known.index(kernel_handle(served[1] / "file"))
        file_system = known[opaque_at + 1 : kernels_at - 1]
        forged = known[: opaque_at - 1] + bytes([1 + len(file_system), known[opaque_at] | dummy]) + file_system
        forged += bytes(-len(forged) % 4)
        assert status_of(client, forged) == NFS3ERR_BADHANDLE
        assert status_of(client, known) == 0
    assert served[0].running()


def test_random_handles_are_refused_and_the_daemon_lives(served: tuple[Ganesha, Path], seed: int) -> None:
    numbers = random.Random(seed)
    with Nfs3() as client:
        handle = client.lookup(mount("/one"), "file")
        for _ in range(300):
            wrong = bytearray(handle)
            for _ in range(numbers.randint(1, 4)):
                wrong[numbers.randrange(len(wrong))] = numbers.randrange(256)
            if numbers.random() < 0.3:
                wrong = wrong[: numbers.randrange(len(wrong))]
            if bytes(wrong) != handle:
                # A handle that happens to name another object of the export is valid.
                assert status_of(client, bytes(wrong)) in {0, NFS3ERR_STALE, NFS3ERR_BADHANDLE}
        assert status_of(client, handle) == 0
    assert served[0].running()
