# SPDX-License-Identifier: Apache-2.0
"""Callers that procedure 22 serves: ports, flavours, protocol versions."""

from __future__ import annotations

import itertools
import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import procedure22
from support.ganesha import NFS_PORT, Daemon, Export, running_ganesha
from support.onc_rpc import Nfs3, Nobody, RpcConnection, RpcError, User, mount
from support.procedure22 import COMPLETE, Procedure22

OK, ACCES = 0, 13


@pytest.fixture(scope="module")
def served(make_lasting_store: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Exports of a file system, each of which admits only some callers."""
    store = make_lasting_store("store")
    exports = []
    for number, (name, settings, security, protocols) in enumerate(
        (
            ("open", {}, "sys", "3, 4"),
            ("privileged", {"PrivilegedPort": "true"}, "sys", "3, 4"),
            ("anonymous", {}, "none", "3, 4"),
            ("version3", {}, "sys", "3"),
            ("managed", {"Manage_Gids": "true"}, "sys", "3, 4"),
        ),
        start=1,
    ):
        (store / name).mkdir()
        (store / name / "source").write_bytes(b"data" * 1024)
        exports.append(Export(number, store / name, f"/{name}", protocols=protocols, security=security, settings=settings))
    os.sync()
    with running_ganesha(tmp_path_factory.mktemp("ganesha") / "ganesha", exports, Daemon.PATCHED):
        yield {export.pseudo[1:]: export.path for export in exports}


def handle_of(export: str, *, file: bool) -> bytes:
    """Handle of the export's root or file, read with the credentials that the export requires."""
    root = mount(f"/{export}")
    if not file:
        return root
    with Nfs3() as nfs:
        if export == "privileged":
            nfs.connection = from_privileged_port(NFS_PORT)
        if export == "anonymous":
            nfs.connection = RpcConnection(NFS_PORT, Nobody())
        return nfs.lookup(root, "source")


def from_privileged_port(port: int) -> RpcConnection:
    """A connection of root, from a port below 1024."""
    for source in itertools.count(1023, -1):
        try:
            return RpcConnection(port, source=("127.0.0.1", source))
        except OSError:
            assert source > 512
    raise AssertionError


@pytest.mark.usefixtures("served")
def test_privileged_ports_are_required_if_the_export_says_so() -> None:
    with Nfs3() as nfs:
        procedure = Procedure22(nfs)
        result = procedure.clone(handle_of("privileged", file=True), handle_of("open", file=False), "stolen")
        assert result.status == ACCES, "as a source too"
        with pytest.raises(RpcError):
            procedure.command(procedure22.CLONE_SUPPORTED, handle_of("privileged", file=False))
        nfs.connection = from_privileged_port(NFS_PORT)
        result = procedure.clone(handle_of("privileged", file=True), handle_of("privileged", file=False), "copy")
        assert (result.status, result.clone_flag) == (OK, COMPLETE)


@pytest.mark.usefixtures("served")
def test_flavours_are_those_of_the_export() -> None:
    with Nfs3() as nfs:
        procedure = Procedure22(nfs)
        assert procedure.clone(handle_of("anonymous", file=True), handle_of("open", file=False), "stolen").status == ACCES
        nfs.connection = RpcConnection(NFS_PORT, Nobody())
        with pytest.raises(RpcError):
            procedure.command(procedure22.CLONE_SUPPORTED, handle_of("open", file=False))


def test_an_export_of_version_3_alone_is_no_source_for_others(served: dict[str, Path]) -> None:
    with Nfs3() as nfs:
        procedure = Procedure22(nfs)
        source, root = handle_of("version3", file=True), handle_of("version3", file=False)
        assert procedure.command(procedure22.CLONE_SUPPORTED, root).result == 0
        assert procedure.clone(source, root, "copy").status == OK
        assert procedure.clone(source, handle_of("open", file=False), "stolen").status == ACCES
    assert (served["version3"] / "copy").read_bytes() == b"data" * 1024


def test_groups_are_the_servers_if_the_export_says_so(served: dict[str, Path]) -> None:
    group, daemon = 1234, pwd.getpwnam("daemon")
    user = User(daemon.pw_uid, daemon.pw_gid, (group,))
    for export in ("open", "managed"):
        shared = served[export] / "shared"
        shared.write_bytes(b"the group's")
        os.chown(shared, 0, group)
        shared.chmod(0o640)
        (served[export] / "his").mkdir()
        os.chown(served[export] / "his", daemon.pw_uid, daemon.pw_gid)
        with Nfs3() as nfs:
            root = mount(f"/{export}")
            source, folder = nfs.lookup(root, "shared"), nfs.lookup(root, "his")
        with Nfs3(user) as nfs:
            # Each call takes a reference to the groups, and releases it.
            statuses = {Procedure22(nfs).clone(source, folder, f"his/copy{number}").status for number in range(50)}
        assert statuses == ({ACCES} if export == "managed" else {OK}), export
