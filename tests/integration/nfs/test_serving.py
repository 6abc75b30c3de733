# SPDX-License-Identifier: Apache-2.0
"""FSAL_ZVAAI in the real daemon: both protocols, both builds of the daemon's library, together with FSAL_VFS."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.ganesha import Daemon, Export, Ganesha, running_ganesha
from support.libnfs import mounted


def libraries(ganesha: Ganesha) -> set[str]:
    maps = Path(f"/proc/{ganesha.pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in maps if ".so" in line}


@pytest.mark.parametrize("daemon", Daemon)
def test_zvaai_is_served_by_either_daemon(nfs_store: Path, tmp_path: Path, daemon: Daemon, seed: int) -> None:
    data = random.Random(seed).randbytes(3 << 20)
    with running_ganesha(tmp_path / "ganesha", [Export(1, nfs_store, "/one")], daemon) as ganesha:
        loaded = libraries(ganesha)
        assert any(name.endswith("/libfsalzvaai.so") for name in loaded)
        assert ("/usr/lib/ganesha/libganesha_nfsd.so.6.5" in loaded) == (daemon is Daemon.STOCK)
        assert not any(name.endswith("/libfsalvfs.so") for name in loaded)
        for version in (3, 4):
            with mounted("/one", version) as client:
                client.write_file(f"/disk{version}", data)
                assert client.read_file(f"/disk{version}") == data
                client.truncate(f"/disk{version}", 1 << 20)
                assert client.size(f"/disk{version}") == 1 << 20
                client.mkdir(f"/folder{version}")
                client.rename(f"/disk{version}", f"/folder{version}/disk")
                assert client.read_file(f"/folder{version}/disk") == data[: 1 << 20]
    for version in (3, 4):
        assert (nfs_store / f"folder{version}" / "disk").read_bytes() == data[: 1 << 20]


def test_both_fsals_are_served_by_one_daemon(make_store: Callable[[str], Path], tmp_path: Path) -> None:
    nfs_store, other = make_store("ours"), make_store("plain")
    exports = [Export(1, nfs_store, "/ours"), Export(2, other, "/plain", fsal="VFS")]
    with running_ganesha(tmp_path / "ganesha", exports), mounted("/ours") as ours, mounted("/plain") as plain:
        ours.write_file("/a", b"ours")
        plain.write_file("/a", b"plain")
        assert (ours.read_file("/a"), plain.read_file("/a")) == (b"ours", b"plain")
    assert ((nfs_store / "a").read_bytes(), (other / "a").read_bytes()) == (b"ours", b"plain")


@pytest.mark.parametrize("version", [3, 4])
def test_written_data_survives_kill_and_restart(nfs_store: Path, tmp_path: Path, version: int) -> None:
    with running_ganesha(tmp_path / "ganesha", [Export(1, nfs_store, "/one")]) as ganesha:
        with mounted("/one", version) as client:
            client.write_file("/disk", b"before")
        ganesha.restart_after_kill()
        with mounted("/one", version) as client:
            assert client.read_file("/disk") == b"before"
            client.write_file("/disk", b"after")
            assert client.read_file("/disk") == b"after"


def test_a_client_of_nfsv3_continues_after_kill_and_restart(nfs_store: Path, tmp_path: Path) -> None:
    with running_ganesha(tmp_path / "ganesha", [Export(1, nfs_store, "/one")]) as ganesha, mounted("/one") as client:
        file = client.open("/disk", os.O_CREAT | os.O_RDWR)
        for number in range(3):
            file.write(number, bytes([number]))
            ganesha.restart_after_kill()
        file.write(3, b"\x03")
        file.close()
        assert client.read_file("/disk") == bytes(range(4))
