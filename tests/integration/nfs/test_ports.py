# SPDX-License-Identifier: Apache-2.0
"""The command `vaai-nas` without the server's portmapper: explicit ports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ganesha import MOUNT_PORT, NFS_PORT, Daemon, Export, Ganesha, Rpcbind
from support.vaai_nas import vaai_nas

USAGE, NOT_REACHED = 2, 10
NFS = ("--nfs-port", str(NFS_PORT), "--mount-port", str(MOUNT_PORT))
EXPORT = "127.0.0.1:/one"


@pytest.fixture(scope="module")
def without_portmapper(lasting_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A daemon whose rpcbind has ended."""
    rpcbind = Rpcbind()
    ganesha = Ganesha(
        tmp_path_factory.mktemp("nfs") / "ganesha",
        [Export(1, lasting_store, "/one")],
        Daemon.PATCHED,
    )
    try:
        ganesha.start()
    finally:
        rpcbind.stop()
    try:
        yield
    finally:
        ganesha.stop()


@pytest.mark.usefixtures("without_portmapper")
def test_ports_that_are_given_are_used() -> None:
    result = vaai_nas(*NFS, "caps", EXPORT)
    assert (result.returncode, result.stdout.splitlines()[:1]) == (0, ["clone: yes"]), result.stderr


@pytest.mark.usefixtures("without_portmapper")
@pytest.mark.parametrize("words", [(), NFS[:2], NFS[2:]])
def test_the_others_need_the_portmapper(words: tuple[str, ...]) -> None:
    result = vaai_nas(*words, "caps", EXPORT)
    assert (result.returncode, result.stdout) == (NOT_REACHED, ""), result.stderr


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "nfs", "2049x", "99999999999999999999"])
def test_an_invalid_port_is_wrong_usage(port: str) -> None:
    assert vaai_nas("--nfs-port", port, "caps", EXPORT).returncode == USAGE
