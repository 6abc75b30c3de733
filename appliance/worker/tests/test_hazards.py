# SPDX-License-Identifier: Apache-2.0
"""Alerts before something hurts: writes that a power cut loses, a certificate that ends or was renewed, a token that ends."""

import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from simulators.appliance import Appliance
from simulators.target import TargetSimulator

from appliance.api import certificate as maker
from appliance.database.models import Token
from appliance.dataplane.target import Portal
from appliance.domain import disks, hazards
from appliance.domain.addresses import Address
from appliance.domain.certificate import Certificate, describe
from appliance.domain.errors import UnavailableError
from appliance.worker import periodic
from appliance.worker.network import ClockResponse
from appliance.zfs.model import DiskHealth


def alerts(appliance: Appliance, area: str, *, open_only: bool = True) -> list[Any]:
    appliance.service.scheduler.request()
    appliance.wait_until_idle()
    alerts = appliance.get("/alerts" if open_only else "/alerts?open=false")["items"]
    return [alert for alert in alerts if alert["key"].startswith(f"{area}:")]


def test_sync_disabled_is_an_alert(appliance: Appliance) -> None:
    appliance.datastore("safe")
    assert alerts(appliance, hazards.SYNC) == []
    store = appliance.datastore("fast")
    appliance.simulator.set_properties(appliance.get(f"/datastores/{store}")["dataset"], {"sync": "disabled"})
    (alert,) = alerts(appliance, hazards.SYNC)
    assert alert["subject"] == store and "fast" in alert["text"] and "zfs set sync=standard" in alert["remedy"]
    appliance.job("DELETE", f"/datastores/{store}")
    assert alerts(appliance, hazards.SYNC) == []


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_a_readonly_datastore_is_an_alert(kind: str, appliance: Appliance) -> None:
    store = appliance.datastore("first") if kind == "vmfs" else appliance.nfs_datastore("first")
    assert alerts(appliance, hazards.READONLY) == []
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    appliance.simulator.set_properties(dataset, {"readonly": "on"})
    (alert,) = alerts(appliance, hazards.READONLY)
    assert (alert["severity"], alert["subject"]) == ("critical", store) and "hosts cannot write" in alert["text"]
    checks = [check["remedy"] for check in appliance.get("/readiness")["checks"] if check["id"] == "writable"]
    assert checks == [alert["remedy"]] == [f"zfs set readonly=off {dataset}"]
    appliance.simulator.set_properties(dataset, {"readonly": "off"})
    assert alerts(appliance, hazards.READONLY) == []
    (pool,) = appliance.service.context.inventory.pools
    (finding,) = hazards.of_readonly(appliance.service.context.datastores(), [replace(pool, readonly=True)])
    assert "zvaai pool import tank" in finding.remedy and "zfs set" not in finding.remedy


def test_a_zvol_that_drops_flushes_is_an_alert(appliance: Appliance) -> None:
    store = appliance.datastore("risky")
    appliance.datastore("safe")
    assert alerts(appliance, hazards.QUEUE) == []
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.write_through = {appliance.get(f"/datastores/{store}")["uuid"]}
    (alert,) = alerts(appliance, hazards.QUEUE)
    assert alert["subject"] == store and "risky" in alert["text"] and "write back" in alert["remedy"]
    (risky,) = (store for store in appliance.service.context.datastores() if store.name == "risky")
    (finding,) = hazards.of_queues([replace(risky, dataset="tank/a b")], {risky.uuid})
    assert "realpath /dev/zvol/tank/a+b)" in finding.remedy
    assert hazards.of_queues([replace(risky, sync="always")], {risky.uuid}) == []
    appliance.target.write_through = set()
    assert alerts(appliance, hazards.QUEUE) == []


def test_a_portal_that_hosts_do_not_reach_is_an_alert(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    monkeypatch.setattr("appliance.worker.periodic.local_addresses", lambda: [Address("eth0", "192.0.2.2")])
    appliance.target.listening = [Portal("192.0.2.2:3260"), Portal("127.0.0.1:3260")]
    assert alerts(appliance, hazards.PORTALS) == []
    appliance.target.listening += [Portal("[2001:db8::2]:3260"), Portal("192.0.2.2:3261", problem="the port is in use")]
    gone, failed = sorted(alerts(appliance, hazards.PORTALS), key=lambda alert: str(alert["key"]), reverse=True)
    assert gone["severity"] == "warning" and "[2001:db8::2]:3260: this server does not have its address" in gone["text"]
    assert "zvaai portal remove '[2001:db8::2]:3260'" in gone["remedy"]
    assert "192.0.2.2:3261: the port is in use" in failed["text"]
    appliance.target.listening = [Portal("0.0.0.0:3260")]
    assert alerts(appliance, hazards.PORTALS) == []


def test_a_lost_link_is_an_alert(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {"eth1": "a member of bond0"}
    monkeypatch.setattr("appliance.worker.network.lost_links", lambda: lost)
    (alert,) = alerts(appliance, hazards.LINKS)
    assert alert["severity"] == "warning" and "eth1, a member of bond0, has no link" in alert["text"]

    def unknown() -> dict[str, str]:
        raise UnavailableError("ip does not answer")

    monkeypatch.setattr("appliance.worker.network.lost_links", unknown)
    assert alerts(appliance, hazards.LINKS) == [alert], "nobody knows better"
    monkeypatch.setattr("appliance.worker.network.lost_links", dict)
    assert alerts(appliance, hazards.LINKS) == []


def test_a_clock_that_is_not_synchronized_is_an_alert(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[bool | None] = [False]
    monkeypatch.setattr("appliance.worker.network.clock", lambda _bus: ClockResponse(known[0], None))
    appliance.service.scheduler.stop()  # it has its own time
    appliance.service.scheduler.join()
    begin = appliance.service.periodic._clock_read

    def at(seconds: float) -> list[str]:
        appliance.service.periodic._clock(begin + seconds)
        return [alert["severity"] for alert in appliance.get("/alerts")["items"] if alert["key"] == "clock:ntp"]

    assert at(periodic.CLOCK_S - 1) == [], "it may still become synchronized"
    assert at(periodic.CLOCK_S + 1) == ["warning"]
    known[0] = None
    assert at(periodic.CLOCK_S * 2 + 2) == ["warning"], "nobody knows better"
    known[0] = True
    assert at(periodic.CLOCK_S * 2 + 60) == ["warning"] and at(periodic.CLOCK_S * 3 + 3) == []


def test_a_zed_that_does_not_run_is_an_alert(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    for unit, severities in (
        ({}, []),
        ({"ActiveState": "failed"}, ["warning"]),
        ({}, ["warning"]),
        ({"ActiveState": "active"}, []),
    ):
        monkeypatch.setattr("appliance.worker.network.properties", lambda *_, unit=unit: unit)
        assert [alert["severity"] for alert in alerts(appliance, hazards.ZED)] == severities


@pytest.mark.parametrize(("free", "severity"), [(2 << 30, None), (512 << 20, "warning"), (1 << 20, "critical")])
def test_a_full_system_disk_is_an_alert_while_one_can_be_sent(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, free: int, severity: str | None
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=free))
    raised = alerts(appliance, hazards.SYSTEM_DISK)
    assert [alert["severity"] for alert in raised] == ([severity] if severity else [])


def test_the_check_of_the_system_disk_ends_no_alert_of_another_disk(appliance: Appliance) -> None:
    disk = appliance.simulator.disks()[0]
    appliance.simulator.smart[disk.path] = DiskHealth(available=True, passed=False)
    appliance.service.watch.read_disks()
    for _ in range(3):
        assert len(alerts(appliance, disks.AREA)) == 1


@pytest.mark.parametrize(("days", "severity"), [(100, None), (20, "warning"), (5, "critical"), (-1, "critical")])
def test_a_certificate_that_ends(days: int, severity: str | None) -> None:
    now = time.time()
    certificate = Certificate("CN=zvaai", "CN=zvaai", ["zvaai"], now - 80 * 86400, now + days * 86400, "AB:" * 31 + "AB", True)
    findings = hazards.of_certificate(certificate, now)
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert hazards.of_certificate(None, now) == []


@pytest.mark.parametrize("lifetime", [6, 45, 64])
def test_what_certbot_renews_in_time_is_no_alert(lifetime: int) -> None:
    now = time.time()
    begun = now - lifetime * 86400 * 0.7
    certificate = Certificate("CN=zvaai", "CN=ca", ["zvaai"], begun, begun + lifetime * 86400, "AB:" * 31 + "AB", False)
    assert hazards.of_certificate(certificate, now) == []
    findings = hazards.of_certificate(certificate, now + lifetime * 86400 * 0.2)
    assert [finding.severity for finding in findings] == ["warning"]


def test_the_token_of_monitoring_ends(appliance: Appliance) -> None:
    made = appliance.request("POST", "/tokens", {"name": "prometheus", "scope": "viewer", "days": 365}).json
    assert made is not None
    day, begun = 86400, time.time()
    appliance.service.periodic.now = lambda: begun + 350 * day
    assert alerts(appliance, hazards.TOKENS) == [], "nobody uses it"
    with appliance.store.session() as session:
        session.get_one(Token, made["id"]).used_at = begun + 350 * day
    assert alerts(appliance, hazards.TOKENS) == []
    with appliance.store.session() as session:
        session.get_one(Token, made["id"]).used_at = begun + 364 * day
    for days, verb in ((364, "ends"), (400, "ended")):
        appliance.service.periodic.now = partial(float, begun + days * day)
        (alert,) = alerts(appliance, hazards.TOKENS)
        assert alert["severity"] == "warning" and f"prometheus of admin {verb} on" in alert["text"]
    appliance.request("DELETE", f"/tokens/{made['id']}")
    assert alerts(appliance, hazards.TOKENS) == []


def test_another_certificate_is_announced_once(appliance: Appliance) -> None:
    file = appliance.configuration.http.certificate
    file.parent.mkdir(parents=True, exist_ok=True)
    maker.ensure(file.parent)
    assert alerts(appliance, hazards.CERTIFICATE, open_only=False) == [], "the first one is no news"
    file.unlink()
    file.with_name(maker.KEY).unlink()
    maker.ensure(file.parent)
    for _ in range(2):
        (response,) = alerts(appliance, hazards.CERTIFICATE, open_only=False)
    assert response["severity"] == "info" and response["cleared_at"] and describe(file).fingerprint in response["text"]
