# SPDX-License-Identifier: Apache-2.0
"""NFS datastores of the appliance, exported by the real daemon: access of hosts, drift, recovery.

Storage is the simulator, whose file systems are folders of the store. The guest's tests have datastores on datasets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance, running
from support import ganesha as daemon
from support.libnfs import mounted
from support.message_bus import message_bus
from support.programs import IN_GUEST, run, wait_for
from support.vaai_nas import vaai_nas

from appliance.config import Nfs
from appliance.dataplane.ganesha import Clients, Export
from appliance.dataplane.ganesha_dbus import Ganesha

pytestmark = pytest.mark.skipif(IN_GUEST, reason="the kernel tier has them on datasets")

ESX1, ESX2 = "192.0.2.11", "192.0.2.12"
"""Addresses of this machine: a client of such a server address uses it too."""
OTHERS = {9: "/somebody-elses"}


@dataclass(frozen=True)
class Edited(Export):
    """An export that was changed by hand: `then` in place of `first`."""

    first: str = ""
    then: str = ""

    def block(self) -> str:
        return super().block().replace(self.first, self.then)


@dataclass
class Rig:
    """An appliance with the daemon."""

    appliance: Appliance
    server: daemon.Ganesha
    control: Ganesha
    exports: Path

    def shown(self, store: str) -> Any:
        """A datastore as the API reports it."""
        return self.appliance.get(f"/datastores/{store}")

    def reconcile(self) -> Any:
        """Differences of the reconciliation."""
        answer = self.appliance.request("POST", "/reconcile")
        assert answer.status_code == 200, answer.text
        return answer.json


@pytest.fixture
def rig(nfs_store: Path, tmp_path: Path) -> Iterator[Rig]:
    """Both running."""
    exports = tmp_path / "exports"
    exports.mkdir()
    for address in (ESX1, ESX2):
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    try:
        with message_bus(tmp_path / "bus") as bus:
            others = [daemon.Export(9, Path("/usr"), "/somebody-elses", fsal="VFS", access="RO")]
            statistics, block = tmp_path / "vaai-nas.socket", tmp_path / "vaai-nas.conf"
            block.write_text(f'VAAI_NAS {{ Control_Socket = "{statistics}"; }}\n')
            blocks = f'FSAL_LIST {{ Name = VAAI_NAS; }}\n%include "{block}"\n%dir "{exports}/*.conf"\n'
            settings = Nfs(exports=exports, bus=bus, statistics=statistics)
            environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus}
            with daemon.running_ganesha(
                tmp_path / "ganesha", others, daemon.Daemon.PATCHED, environment=environment, blocks=blocks
            ) as server:
                control = Ganesha(exports, bus, block)
                with running(tmp_path / "appliance", volumes=nfs_store, exports=control, nfs=settings) as appliance:
                    yield Rig(appliance, server, control, exports)
    finally:
        for address in (ESX1, ESX2):
            run("ip", "address", "del", f"{address}/32", "dev", "lo")


def test_its_load_equals_the_traffic_of_hosts(rig: Rig) -> None:
    store = rig.appliance.nfs_datastore("first", clients=[ESX1])
    history, now = rig.appliance.service.history, int(time.time()) // 10 * 10
    history.stop()  # it would collect between the two
    history.collect(now - 10)
    with mounted("/first", server=ESX1) as host:
        host.write_file("/by3", bytes(100_000))
    with mounted("/first", 4, server=ESX1) as host:
        assert len(host.read_file("/by3")) == 100_000
    history.collect(now)
    (load,) = rig.appliance.get("/load")["items"]
    assert load["datastore"] == store and load["bytes"] == 20_000 and load["operations"] > 0


def test_only_permitted_hosts_can_mount_it(rig: Rig) -> None:
    """By host group and address, after each change."""
    group = rig.appliance.request("POST", "/host-groups", {"name": "cluster"}).json
    assert group is not None
    body = {"name": "esx1", "group": group["id"], "iqns": [], "addresses": [ESX1]}
    assert rig.appliance.request("POST", "/hosts", body).status_code == 201
    store = rig.appliance.nfs_datastore("first", host_groups=[group["id"]])
    for version in (3, 4):
        with mounted("/first", version, server=ESX1) as host:
            host.write_file(f"/by{version}", b"data")
            assert host.owner(f"/by{version}") == (0, 0), "ESXi is root there"
    with pytest.raises(OSError), mounted("/first", server=ESX2) as stranger:
        stranger.names()
    rig.appliance.job("PATCH", f"/datastores/{store}", {"clients": ["192.0.2.12/31"], "force": True})
    with mounted("/first", server=ESX2) as other:
        assert other.read_file("/by3") == b"data"
    rig.appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [], "force": True})
    with pytest.raises(OSError), mounted("/first", server=ESX1) as host:
        host.names()
    assert rig.reconcile() == {"differences": [], "failures": []}
    rig.appliance.job("PATCH", f"/datastores/{store}", {"clients": ["0.0.0.0/0", "2001:db8::/99"], "anyone": True, "force": True})
    with mounted("/first", server=ESX1) as host:
        assert host.read_file("/by3") == b"data"
    assert rig.reconcile() == {"differences": [], "failures": []}
    answer = rig.appliance.request("PATCH", f"/datastores/{store}", {"clients": ["2001:db8::/112"]})
    assert answer.status_code == 422 and "/99" in answer.text, "ganesha would refuse the whole export"


def test_drift_is_seen_and_mended_and_others_are_left_alone(rig: Rig) -> None:
    rig.appliance.nfs_datastore("first", clients=[ESX1])
    (before,) = [export for export in rig.control.served() if export.export_id not in OTHERS]
    path = Path(before.path)
    assert before.clients == {ESX1} and before.text is not None and before.pseudo == "/first"
    rig.control.change(Export(before.export_id, path, "/first", clients=["192.0.2.0/24"]))
    with mounted("/first", server=ESX2) as stranger:
        assert stranger.names() == set()
    assert any("other clients" in difference for difference in rig.reconcile()["differences"])
    with pytest.raises(OSError), mounted("/first", server=ESX2) as stranger:
        stranger.names()
    # The same clients with another squash or one protocol, changed by hand: the export file still has the old value.
    stored = (rig.exports / f"{before.export_id}.conf").read_text()
    for first, then in (("No_Root_Squash", "All_Squash"), ("Protocols = 3, 4", "Protocols = 4")):
        rig.control.change(Edited(before.export_id, path, "/first", clients=[ESX1], first=first, then=then))
        (rig.exports / f"{before.export_id}.conf").write_text(stored)
        assert any("other clients" in difference for difference in rig.reconcile()["differences"]), then
        with mounted("/first", server=ESX1) as host:
            host.write_file("/as-root", b"x")
    rig.control.remove(before.export_id)
    rig.control.add(Export(40, path, "/stolen", clients=["*"]))
    (rig.exports / "41.conf").write_text(Export(41, path, "/later", clients=["*"]).block())
    assert len(rig.reconcile()["differences"]) == 3
    assert {export.export_id: export.pseudo for export in rig.control.served()} == {before.export_id: "/first", **OTHERS}
    assert [file.name for file in rig.exports.iterdir()] == [f"{before.export_id}.conf"]
    assert rig.reconcile() == {"differences": [], "failures": []}


def test_it_returns_without_the_appliance(rig: Rig) -> None:
    rig.appliance.nfs_datastore("first", clients=[ESX1])
    with mounted("/first", server=ESX1) as host:
        host.write_file("/kept", b"data")
        rig.server.restart_after_kill()
        assert host.read_file("/kept") == b"data", "by the handle it had"
    with pytest.raises(OSError), mounted("/first", server=ESX2) as stranger:
        stranger.names()
    assert rig.reconcile() == {"differences": [], "failures": []}


def test_users_of_a_device_are_found(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """ganesha reports its clients and the last use of each export; an export in use is not removed."""
    rig.server.restart_after_kill()
    young = rig.appliance.nfs_datastore("young", clients=[ESX1])
    answer = rig.appliance.request("DELETE", f"/datastores/{young}")
    assert answer.status_code == 409 and answer.json is not None, "a daemon that began a moment ago knows nobody yet"
    assert answer.json["blocking"] == [ESX1]
    clients = rig.control.clients

    def an_hour_ago() -> Clients:
        shown = clients()
        return replace(shown, started_at=shown.started_at - 3600)

    monkeypatch.setattr(rig.control, "clients", an_hour_ago)
    store = rig.appliance.nfs_datastore("first", clients=[ESX1])
    idle = rig.appliance.nfs_datastore("second", clients=[ESX1])
    with mounted("/first", server=ESX1) as host:
        host.write_file("/made", b"data")
        refused = rig.appliance.request("DELETE", f"/datastores/{store}")
        assert refused.status_code == 409 and refused.json is not None and refused.json["blocking"] == [ESX1]
    shown = {client["address"]: client["datastores"] for client in rig.appliance.get("/nfs-clients")["items"]}
    assert shown[ESX1] == [store]
    with pytest.raises(OSError), mounted("/first", server=ESX2):
        pass
    shown = {client["address"]: client["datastores"] for client in rig.appliance.get("/nfs-clients")["items"]}
    assert shown[ESX2] == [], "its address is not registered"
    rig.appliance.job("DELETE", f"/datastores/{idle}")
    with mounted("/first", 4, server=ESX1) as host, host.opened("/made") as held:
        assert held.read(0, 4) == b"data"
        known = {client.address: client for client in rig.control.clients().known}
        assert known[ESX1].opens == 1 and abs(known[ESX1].seen_at - time.time()) < 60
    rig.appliance.job("DELETE", f"/datastores/{store}?force=true")
    with pytest.raises(OSError), mounted("/first", server=ESX1) as host:
        host.names()


def test_while_the_daemon_is_away(rig: Rig) -> None:
    rig.appliance.nfs_datastore("first", clients=[ESX1])
    rig.server.kill()
    job = rig.appliance.job("POST", "/datastores", {"kind": "nfs", "name": "second", "pool": "tank", "size": str(GIB)})
    assert job["result"]["served"] is False
    assert rig.appliance.request("POST", "/reconcile").status_code == 503
    rig.server.start()
    wait_for(lambda: len(rig.reconcile()["differences"]) == 0, "all is served")
    assert {export.pseudo for export in rig.control.served()} == {"/first", "/second", *OTHERS.values()}


def test_offloads_are_counted_by_export(rig: Rig) -> None:
    """The daemon started without exports of FSAL_ZVAAI; its VAAI-NAS configuration counts all the same."""
    store = rig.appliance.nfs_datastore("first", clients=[ESX1])
    wait_for(lambda: "VAAI-NAS: serving NFSv3 procedure 22" in rig.server.log(), "the service starts with the first export")
    data = bytes(range(256)) * 4096
    with mounted("/first", server=ESX1) as host:
        host.write_file("/disk", data)
        ports = ("--nfs-port", "2049", "--mount-port", "20048")
        assert vaai_nas(*ports, "fast-clone", f"{ESX1}:/first", "disk", "copy").returncode == 0
        assert vaai_nas(*ports, "caps", "127.0.0.1:/first").returncode != 0, "this server itself is nobody's client"
        assert host.read_file("/copy") == data
    shown = rig.appliance.get("/offloads")
    (export,) = [export for export in shown["exports"] if export["datastore"] == store]
    assert export["offload"]["cloned_bytes"] == len(data) and shown["nfs_problem"] is None
    rig.server.kill()
    assert rig.appliance.get("/offloads")["nfs_problem"]
    rig.server.start()
