# SPDX-License-Identifier: Apache-2.0
"""Updates of the server, its reboot and its shutdown. tests/machine upgrades and reboots a machine."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import PASSWORD, Appliance
from simulators.zfs import Simulator

from appliance import updates
from appliance.dataplane.target import LoggedIn
from appliance.domain.errors import UnavailableError
from appliance.helper.power import Power
from appliance.helper.tests.served import client_of
from appliance.updates import Plan, lacks_openzfs, newer_notes, newest_kernel, obstacles, read_plan, reasons_to_reboot
from appliance.zfs.errors import Refused, UnexpectedFailure

SIMULATION = """\
Calculating upgrade...
The following packages have been kept back:
  vim zvaai-nfs
The following packages will be upgraded:
  nfs-ganesha zvaai-target
Inst zvaai-target [1.0] (1.1 zvaai:trixie [amd64]) []
Inst libnew (2 Debian:13 [amd64])
Inst nfs-ganesha [6.5-5] (6.5-6 Debian:13 [amd64])
Conf zvaai-target (1.1 zvaai:trixie [amd64])
"""
CHANGELOG = "# Changelog\n\n## 1.2\n\nnew\n\n## 1.1\n\nfaster\n\n## 1.0\n\nfirst\n"
ESX = "iqn.1998-01.com.vmware:esx1"


def test_plan_of_apt() -> None:
    plan = read_plan(SIMULATION)
    new = {"zvaai-target": ("1.0", "1.1"), "libnew": ("", "2"), "nfs-ganesha": ("6.5-5", "6.5-6")}
    assert plan == Plan(new, ["vim", "zvaai-nfs"])
    assert [text.split(".")[0] for text in obstacles(plan, "", "2.3.9", "2.3.9", "")] == ["apt keeps zvaai-nfs back"]
    assert list(obstacles(Plan({}, ["vim"]), "", "", "2.3.9", "")) == []
    assert len(list(obstacles(Plan({}, []), "pool: tank", "2.3.8", "2.3.9", ""))) == 2


def test_reasons_to_reboot() -> None:
    """Kernels are compared by number, and only those of the running flavour."""
    kernels = ["6.12.9+deb13-amd64", "6.12.57+deb13-amd64", "6.12.60+deb13-cloud-amd64"]
    newest, running = "6.12.57+deb13-amd64", "6.12.9+deb13-amd64"
    assert [newest_kernel(release, kernels) for release in (running, newest, "6.1-of-the-guest")] == [newest, newest, ""]
    assert list(reasons_to_reboot("2.3.9", "2.3.9", newest, newest, [])) == []
    assert list(reasons_to_reboot("", "2.3.9", "6.1-of-the-guest", "", [])) == []
    (kernel,) = reasons_to_reboot("2.3.9", "2.3.9", running, newest, [])
    assert "6.12.57+deb13-amd64 is installed" in kernel
    assert len(list(reasons_to_reboot("2.3.8", "2.3.9", running, newest, ["dbus", "libc6"]))) == 3


def test_a_kernel_without_openzfs_is_in_the_way(tmp_path: Path) -> None:
    """DKMS has a link for each kernel with the module. A server without DKMS has the module from elsewhere."""
    kernel, dkms = "6.12.57+deb13-amd64", tmp_path / "zfs"
    assert lacks_openzfs(kernel, dkms) == ""
    build = dkms / "2.3.9" / kernel / "x86_64"
    build.mkdir(parents=True)
    assert lacks_openzfs(kernel, dkms) == kernel and lacks_openzfs("", dkms) == ""
    (dkms / f"kernel-{kernel}-x86_64").symlink_to(build)
    assert lacks_openzfs(kernel, dkms) == ""
    (obstacle,) = obstacles(Plan({}, []), "", "2.3.9", "2.3.9", kernel)
    assert f"linux-headers-{kernel}" in obstacle


def test_a_kernel_without_openzfs_is_an_alert_after_an_hour(
    appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = os.uname().release
    kernel = f"99.{running}"
    for release in (running, kernel):
        (tmp_path / f"vmlinuz-{release}").touch()
    (tmp_path / f"kernel-{running}-{os.uname().machine}").mkdir()
    monkeypatch.setattr(updates, "_BOOT", tmp_path)
    monkeypatch.setattr(updates, "_DKMS", tmp_path)
    now = time.time()
    assert updates.unprepared_kernel(now + 600) == ""
    assert updates.unprepared_kernel(now + 4000) == kernel
    assert f"linux-headers-{kernel}" in appliance.get("/power")["warning"]
    appliance.service.periodic.now = lambda: now + 4000
    appliance.service.periodic.hazards()
    appliance.wait_until_idle()
    appliance.service.periodic.hazards()
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if alert["key"] == "kernel:next"]
    assert alert["severity"] == "critical" and f"Linux {kernel} has no OpenZFS" in alert["text"]


@pytest.mark.parametrize(
    ("installed", "sections"),
    [("1.0", ["1.2", "1.1"]), ("1.1~rc1", ["1.2"]), ("1.2+1", []), ("0.9", ["1.2"]), ("", ["1.2"])],
)
def test_notes_are_those_above_the_installed_version(installed: str, sections: list[str]) -> None:
    notes = newer_notes(CHANGELOG, installed)
    assert [line.removeprefix("## ") for line in notes.splitlines() if line.startswith("## ")] == sections


def test_updates_of_this_server(appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real apt, without privilege; a pool that is not healthy is in the way."""
    shown = appliance.get("/updates")
    assert shown["refreshed_at"] and shown["others"] >= 0 and shown["obstacles"] == [], shown
    monkeypatch.setattr(updates, "_plan", lambda *_: read_plan(SIMULATION.replace("libnew", "zvaai")))
    monkeypatch.setattr(updates, "LISTS", tmp_path)
    (tmp_path / "repository.example_dists_trixie_main_zvaai-notes").write_text(CHANGELOG)
    shown = appliance.get("/updates")
    assert [package["name"] for package in shown["packages"]] == ["zvaai", "zvaai-target", "nfs-ganesha"]
    assert shown["packages"][0]["installed"] is None and shown["others"] == 0 and shown["refreshed_at"] is None
    assert shown["notes"] == "## 1.2\n\nnew"
    pool: Any = appliance.simulator.pools()[0]
    appliance.simulator.offline("tank", pool.vdevs[0].vdevs[0].path)
    appliance.service.context.scan()
    assert "tank is DEGRADED" in appliance.get("/updates")["obstacles"][-1]


def test_a_rebuild_of_zfsutils_needs_no_reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"zfs-dkms": "2.3.9-0+deb13u1", "zfsutils-linux": "2.3.9-0+deb13u1+b1"}
    monkeypatch.setattr(updates, "_plan", lambda *_: read_plan(""))
    monkeypatch.setattr(updates, "_installed", versions.__getitem__)
    monkeypatch.setattr(updates, "_loaded", lambda: versions["zfs-dkms"])
    shown = updates.read()
    assert not any("is loaded and" in text for text in (*shown.obstacles, *shown.reboot))


def test_users_of_the_server_by_name(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    appliance.group("cluster", ESX)
    sessions = [LoggedIn(iqn, "target", "192.0.2.9:1", "192.0.2.1:3260", 0.0, None) for iqn in (ESX, "iqn.2026-11.example:other")]
    context = appliance.service.context
    monkeypatch.setattr(type(context), "sessions", lambda _context: sessions)
    monkeypatch.setattr(type(context), "nfs_addresses", lambda _context: {"192.0.2.9"})
    browser = appliance.application.test_client()
    browser.post("/api/v1/session", json={"name": "operator", "password": PASSWORD})
    shown = appliance.get("/power")
    assert shown["iscsi_hosts"] == ["host of cluster", "iqn.2026-11.example:other"] and shown["nfs_clients"] == ["192.0.2.9"]
    assert shown["console_users"] == ["operator"] and shown["jobs"] == [] and shown["unknown"] == []

    def away(_context: object) -> set[str]:
        raise UnavailableError("it does not answer")

    monkeypatch.setattr(type(context), "nfs_addresses", away)
    assert appliance.get("/power")["unknown"] == ["NFS server"]
    assert appliance.request("GET", "/power", role="operator").status_code == 403


def test_a_reboot_needs_the_password(appliance: Appliance) -> None:
    """The audit has its entry before the helper is called."""
    done: list[tuple[bool, int | None]] = []

    def shut_down(reboot: bool) -> None:
        (entry,) = (each for each in appliance.get("/audit")["items"] if each["status"] is None)
        assert entry["action"] == "power.change" and entry["after"]["password"] == "(secret)"
        done.append((reboot, entry["status"]))

    appliance.service.context.shut_down = shut_down
    for role in ("viewer", "operator"):
        answer = appliance.request("POST", "/power", {"action": "reboot", "password": PASSWORD}, role=role)
        assert answer.status_code == 403
    assert appliance.request("POST", "/power", {"action": "reboot", "password": "a wrong one"}).status_code == 422
    assert appliance.request("POST", "/power", {"action": "halt", "password": PASSWORD}).status_code == 422
    assert done == []
    for action in ("reboot", "off"):
        assert appliance.request("POST", "/power", {"action": action, "password": PASSWORD}).status_code == 200
    assert done == [(True, None), (False, None)]
    assert appliance.get("/audit")["items"][0]["status"] == 200


class Recorder(Power):
    def __init__(self) -> None:
        self.reboots: list[bool] = []

    def shut_down(self, reboot: bool) -> None:
        if not reboot:
            raise UnexpectedFailure("shut_down", "logind does not answer")
        self.reboots.append(reboot)


def test_the_helper_reboots_only_with_its_option(tmp_path: Path) -> None:
    power = Recorder()
    with client_of(Simulator(), tmp_path / "helper.sock", power=power) as client:
        client.shut_down(True)
        with pytest.raises(UnexpectedFailure, match="logind"):
            client.shut_down(False)
        assert power.reboots == [True]
    with client_of(Simulator(), tmp_path / "helper.sock") as client, pytest.raises(Refused, match="--power"):
        client.shut_down(True)
