"""Where the doors are open: the addresses of Bind_Addr, and ports that are taken."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import procedure22
from support.ganesha import NFS_PORT, Daemon, Export, Ganesha, running_ganesha
from support.onc_rpc import Nfs3, RpcConnection, mount
from support.procedure22 import Procedure22
from support.programs import IN_GUEST, run, wait_for
from support.vaai_nas import NULL, PROGRAM, VERSION

pytestmark = pytest.mark.skipif(IN_GUEST, reason="the same on any file system, and the guest may have no IPv6")

PORT = 20049
# For documentation (RFC 5737, RFC 3849). ganesha looks addresses up with AI_ADDRCONFIG, which wants more than loopback ones.
HERE4, HERE6 = "192.0.2.1", "2001:db8::1"


@pytest.fixture
def _addresses() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for address in (f"{HERE4}/32", f"{HERE6}/128"):
            run("ip", "address", "add", address, "dev", "lo")
            stack.callback(run, "ip", "address", "del", address, "dev", "lo")
        yield


def answers(address: str, port: int) -> bool:
    try:
        with RpcConnection(port, address=address) as connection:
            connection.call(PROGRAM, VERSION, NULL)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("bind_address", "open_at", "closed_at"),
    [
        (HERE4, {HERE4}, {"127.0.0.1", HERE6, "::1"}),
        (HERE6, {HERE6}, {"127.0.0.1", HERE4, "::1"}),
        ("::", {"127.0.0.1", HERE4, HERE6, "::1"}, set()),
        (None, {"127.0.0.1", HERE4, HERE6, "::1"}, set()),
    ],
)
@pytest.mark.usefixtures("_addresses")
def test_the_program_listens_where_nfs_does(
    nfs_store: Path, tmp_path: Path, bind_address: str | None, open_at: set[str], closed_at: set[str]
) -> None:
    def listens(address: str) -> bool:
        try:
            with socket.create_connection((address, NFS_PORT), timeout=5):
                return True
        except OSError:
            return False

    blocks = f"VAAI_NAS {{ Port = {PORT}; }}\n"
    exports = [Export(1, nfs_store, "/one")]
    with running_ganesha(tmp_path / "ganesha", exports, Daemon.PATCHED, blocks=blocks, bind_address=bind_address) as ganesha:
        wait_until_told(ganesha, f"served on port {PORT}")
        assert {address for address in open_at | closed_at if answers(address, PORT)} == open_at
        assert {address for address in open_at | closed_at if listens(address)} == open_at


def wait_until_told(ganesha: Ganesha, words: str) -> None:
    wait_for(lambda: words in ganesha.log(), words)


def test_a_port_that_is_taken_is_told_and_nfs_served(nfs_store: Path, tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", PORT)):
        blocks = f"VAAI_NAS {{ Port = {PORT}; }}\n"
        with running_ganesha(tmp_path / "ganesha", [Export(1, nfs_store, "/one")], Daemon.PATCHED, blocks=blocks) as ganesha:
            wait_until_told(ganesha, f"the program can't be served on port {PORT}")
            with Nfs3() as nfs:
                assert Procedure22(nfs).command(procedure22.CLONE_SUPPORTED, mount("/one")).result == 0
