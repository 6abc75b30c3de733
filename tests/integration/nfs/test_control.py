# SPDX-License-Identifier: Apache-2.0
"""Exports of the real daemon are added, changed and removed over DBus while clients use others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import ganesha as daemon
from support.libnfs import mounted
from support.message_bus import message_bus
from support.programs import wait_for

from appliance.dataplane.ganesha import (
    Export,
    ExportRefusedError,
    GaneshaUnreachableError,
    NoSuchExportError,
)
from appliance.dataplane.ganesha_dbus import Ganesha
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.domain import statistics


@pytest.fixture
def control(nfs_store: Path, tmp_path: Path) -> Iterator[tuple[Ganesha, daemon.Ganesha, Path]]:
    """The client, the daemon, and a file system whose folder `always` is exported as /always."""
    for name in ("always", "one", "two"):
        (nfs_store / name).mkdir()
        (nfs_store / name / "name").write_text(name)
    folder = tmp_path / "exports"
    folder.mkdir()
    with message_bus(tmp_path / "bus") as address:
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": address}
        always = daemon.Export(1, nfs_store / "always", "/always")
        blocks = f'VAAI_NAS {{ Control_Socket = "{tmp_path}/vaai-nas.socket"; }}\n%dir "{folder}/*.conf"\n'
        with daemon.running_ganesha(tmp_path / "ganesha", [always], environment=environment, blocks=blocks) as server:
            yield Ganesha(folder, address), server, nfs_store


def test_exports_are_added_changed_and_removed_while_others_are_used(
    control: tuple[Ganesha, daemon.Ganesha, Path], tmp_path: Path
) -> None:
    client, server, store = control
    before = server.pid
    assert client.exports() == {1: "/always"}
    with mounted("/always") as always:
        client.add(Export(2, store / "one", "/one", clients=["*"]))
        assert set(client.exports()) == {1, 2}
        assert always.read_file("/name") == b"always"
        with mounted("/one") as mount:
            assert mount.read_file("/name") == b"one"
            mount.write_file("/made", b"x")
            client.change(Export(2, store / "one", "/one", clients=["192.0.2.1"]))
            with pytest.raises(OSError):
                mount.unlink("/made")
            client.change(Export(2, store / "one", "/one", clients=["127.0.0.0/8"]))
            mount.unlink("/made")
            client.remove(2)
            with pytest.raises(OSError):
                mount.read_file("/name")
        with pytest.raises(OSError), mounted("/one"):
            pass
        assert always.read_file("/name") == b"always"
    assert set(client.exports()) == {1}
    assert not list((tmp_path / "exports").iterdir())
    assert server.pid == before


def test_refused_requests_change_nothing(control: tuple[Ganesha, daemon.Ganesha, Path], tmp_path: Path) -> None:
    client, _server, store = control
    export = Export(2, store / "one", "/one", clients=["*"])
    client.add(export)
    stored = (tmp_path / "exports" / "2.conf").read_bytes()
    with pytest.raises(ExportRefusedError):
        client.add(Export(2, store / "two", "/two"))
    with pytest.raises(ExportRefusedError):
        client.add(Export(3, store / "missing", "/missing"))
    with pytest.raises(ExportRefusedError):
        client.add(Export(3, store / "two", "/one"))
    with pytest.raises(NoSuchExportError):
        client.change(Export(9, store / "two", "/two"))
    with pytest.raises(NoSuchExportError):
        client.remove(9)
    for wrong in (
        replace(export, export_id=0),
        replace(export, path=Path('/a"b')),
        replace(export, pseudo="one"),
        replace(export, clients=["a; Squash = None"]),
    ):
        with pytest.raises(ValueError):
            client.change(wrong) if wrong.export_id else client.add(wrong)
    assert set(client.exports()) == {1, 2}
    assert [path.name for path in (tmp_path / "exports").iterdir()] == ["2.conf"]
    assert (tmp_path / "exports" / "2.conf").read_bytes() == stored


def test_added_and_changed_exports_are_served_after_a_crash(control: tuple[Ganesha, daemon.Ganesha, Path]) -> None:
    client, server, store = control
    client.add(Export(2, store / "one", "/one"))
    client.change(Export(2, store / "one", "/one", clients=["*"]))
    client.add(Export(3, store / "two", "/two", clients=["*"]))
    client.remove(3)
    server.restart_after_kill()
    assert set(client.exports()) == {1, 2}
    with mounted("/one") as mount:
        mount.write_file("/made", b"x")


def test_file_system_that_is_no_longer_exported_is_let_go(
    control: tuple[Ganesha, daemon.Ganesha, Path], make_store: Callable[[str], Path]
) -> None:
    client, server, _store = control
    other = make_store("other")

    def used() -> list[str]:
        links = [os.path.realpath(link) for link in Path(f"/proc/{server.pid}/fd").iterdir()]
        return [link for link in links if link.startswith(str(other))]

    client.add(Export(2, other, "/other", clients=["*"]))
    with mounted("/other", 4) as mount:
        mount.write_file("/made", b"x")
        held = mount.open("/made", os.O_RDWR)
        held.write(0, b"y")
        assert used()
        client.remove(2)
        wait_for(lambda: not used(), "the daemon has nothing open in it")


def test_reads_and_writes_are_counted_by_export_and_host(control: tuple[Ganesha, daemon.Ganesha, Path], tmp_path: Path) -> None:
    """Operations, bytes and duration, of all versions of NFS together."""
    client, _server, store = control
    client.add(Export(2, store / "one", "/one", clients=["*"]))
    with mounted("/one") as mount, mounted("/one", 4) as four:
        mount.write_file("/made", bytes(100_000))
        assert len(four.read_file("/made")) == 100_000
    counted = statistics.of_nfs(VaaiNas(tmp_path / "vaai-nas.socket").counters())
    (host,) = counted.hosts
    exports = [row for row in counted.stores if row.subject in ("/one", str(store / "one"))]
    assert host.subject == "127.0.0.1" and exports
    for rows in ([host], exports):
        for kind in ("read", "write"):
            operations = [row.operations[kind] for row in rows]
            assert sum(operation.bytes for operation in operations) == 100_000
            number = sum(operation.operations for operation in operations)
            assert number >= 1 and number == sum(sum(operation.latency.counts) for operation in operations)
            assert 0 < sum(operation.latency.total_microseconds for operation in operations) < 60_000_000


def test_an_absent_daemon_has_its_own_error(control: tuple[Ganesha, daemon.Ganesha, Path], tmp_path: Path) -> None:
    client, server, store = control
    server.kill()
    with pytest.raises(GaneshaUnreachableError):
        client.add(Export(2, store / "one", "/one"))
    assert not list((tmp_path / "exports").iterdir())
    with pytest.raises(GaneshaUnreachableError):
        Ganesha(tmp_path, "unix:path=/nonexistent").exports()
    server.start()
    assert set(client.exports()) == {1}


def test_removal_that_is_not_answered_in_time_is_not_undone_by_a_restart(
    control: tuple[Ganesha, daemon.Ganesha, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server, store = control
    client.add(Export(2, store / "one", "/one"))
    impatient = Ganesha(tmp_path / "exports", client._bus, timeout_s=0.5)
    known = client.exports()
    monkeypatch.setattr(impatient, "exports", lambda: known)
    os.kill(server.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, server.pid, os.WSTOPPED)  # all its threads have stopped
    try:
        with pytest.raises(GaneshaUnreachableError):
            impatient.remove(2)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    server.restart_after_kill()
    assert set(client.exports()) == {1}


def test_removal_that_is_refused_changes_nothing(
    control: tuple[Ganesha, daemon.Ganesha, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server, store = control
    stored = tmp_path / "exports" / "9.conf"
    stored.write_text(Export(9, store / "two", "/two").block())
    with monkeypatch.context() as patch:
        patch.setattr(client, "exports", lambda: {9: "/two"})
        with pytest.raises(ExportRefusedError):
            client.remove(9)
    server.restart_after_kill()
    assert set(client.exports()) == {1, 9}


def test_exports_stay_in_the_folder_they_may_be_in(nfs_store: Path, tmp_path: Path) -> None:
    """A caller that may add exports cannot export the server's other files."""
    folder, link = tmp_path / "exports", nfs_store.parent / "link"
    folder.mkdir()
    link.symlink_to(nfs_store)
    inside, neighbour = nfs_store / "inside", nfs_store.parent / "neighbour"
    inside.mkdir()
    neighbour.mkdir()
    with message_bus(tmp_path / "bus") as address:
        blocks = f'%dir "{folder}/*.conf"\nZVAAI_EXPORTS {{ Below = "{nfs_store.parent}"; }}\n'
        always = daemon.Export(1, nfs_store, "/always")
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": address}
        with daemon.running_ganesha(tmp_path / "ganesha", [always], environment=environment, blocks=blocks):
            client = Ganesha(folder, address)
            for path in (Path("/"), Path("/etc"), nfs_store.parent, inside, neighbour, link, nfs_store.parent / "other/../store"):
                with pytest.raises(ExportRefusedError):
                    client.add(Export(2, path, "/more", clients=["*"]))
            assert client.exports() == {1: "/always"}
            with mounted("/always") as export:
                export.write_file("/name", b"x")
