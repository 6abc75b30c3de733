# SPDX-License-Identifier: Apache-2.0
"""Readiness of the storage network, and the commands for hosts: real addresses, ready to paste."""

from dataclasses import replace
from typing import Any

import pytest
from simulators.appliance import GIB, Appliance
from simulators.target import TargetSimulator
from support.names_of_disk import descriptor, page

from appliance.dataplane.target import LoggedIn, Portal
from appliance.domain.addresses import Address
from appliance.domain.esxcli import esxcli_lines

FIRST, SECOND = Address("eth0", "192.0.2.2"), Address("eth1", "198.51.100.2")
ESX = "iqn.1998-01.com.vmware:esx1"


def listening(appliance: Appliance, monkeypatch: pytest.MonkeyPatch, addresses: list[Address], *portals: str) -> None:
    """The target listens there, on a server with these addresses."""
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.listening = [Portal(portal) for portal in portals]
    monkeypatch.setattr("appliance.api.appliance_resource.local_addresses", lambda: addresses)


def portals(appliance: Appliance) -> dict[str, str]:
    (result,) = [check for check in appliance.get("/readiness")["checks"] if check["id"] == "portals"]
    return dict(result)


@pytest.mark.parametrize(
    ("addresses", "at", "result"),
    [
        ([FIRST], ["0.0.0.0:3260"], "warning"),
        ([FIRST, SECOND], ["0.0.0.0:3260"], "warning"),
        ([FIRST, SECOND], ["192.0.2.2:3260"], "warning"),
        ([FIRST, SECOND], ["192.0.2.2:3260", "198.51.100.2:3260"], "ok"),
        ([FIRST], ["127.0.0.1:3260"], "failed"),
        ([], ["0.0.0.0:3260"], "failed"),
    ],
)
def test_two_paths_are_two_interfaces(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, addresses: list[Address], at: list[str], result: str
) -> None:
    """One portal at every address of a server with one address is one path: that was wrongly reported as good."""
    listening(appliance, monkeypatch, addresses, *at)
    assert portals(appliance)["result"] == result
    remedy = portals(appliance)["remedy"]
    assert (remedy == "") == (result == "ok")
    assert ("--replace 0.0.0.0:3260" in remedy) == (result == "warning" and at == ["0.0.0.0:3260"]), "it excludes other portals"


def test_a_portal_that_lost_its_address_or_failed_is_no_path(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket stays, so the target does not notice. After a restart the target cannot open it."""
    at = ("192.0.2.2:3260", "198.51.100.2:3260")
    listening(appliance, monkeypatch, [FIRST, SECOND], *at)
    assert portals(appliance)["result"] == "ok"

    def check_lost(reason: str) -> None:
        checks = appliance.get("/readiness")["checks"]
        (lost,) = [check for check in checks if check["id"] == "portal"]
        assert lost["subject"] == at[1] and reason in lost["evidence"], lost
        assert f"zvaai portal change {at[1]} --address ADDRESS:3260" in lost["remedy"]
        check = portals(appliance)
        assert check["result"] == "warning" and "Bring back" in check["remedy"] and at[1] not in check["evidence"]

    listening(appliance, monkeypatch, [FIRST], *at)
    check_lost("does not have its address")
    listening(appliance, monkeypatch, [FIRST, replace(SECOND, linked=False)], *at)
    check_lost("eth1 has no link")
    listening(appliance, monkeypatch, [FIRST], at[0])
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.listening.append(Portal(at[1], problem="cannot listen there"))
    check_lost("cannot listen there")


def test_a_host_with_sessions_at_one_portal_of_two_is_not_ready(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    at = ("192.0.2.2:3260", "198.51.100.2:3260")
    appliance.datastore("vmfs1", host_groups=[appliance.group("cluster", ESX)])

    def check(*used: str) -> tuple[str, str, str]:
        assert isinstance(appliance.target, TargetSimulator)
        sessions = [LoggedIn(ESX, appliance.target_name, "192.0.2.9:50000", portal, 0, None, 1) for portal in used]
        appliance.target.logged_in = sessions
        (shown,) = [check for check in appliance.get("/readiness")["checks"] if check["id"] == "logged_in"]
        return shown["result"], shown["evidence"], shown["remedy"]

    listening(appliance, monkeypatch, [FIRST, SECOND], *at)
    assert check()[0] == "warning" and check(*at) == ("ok", ESX, "")
    result, evidence, remedy = check(at[1], at[1])
    assert (result, evidence) == ("warning", f"logged in at one portal only: {at[1]}")
    assert remedy.startswith("zvaai network ping 'host of cluster'. Then enter on the host")
    listening(appliance, monkeypatch, [FIRST, SECOND], at[1])
    assert check(at[1])[0] == "ok", "there is no second one"


def test_a_secret_is_proven_by_a_login_with_chap_on_each_path(appliance: Appliance) -> None:
    """A session from before CHAP was required stays, so a mistyped secret has no effect until the target restarts."""
    host: Any = appliance.request(
        "POST", "/hosts", {"name": "esx1", "iqns": [ESX], "chap": {"name": ESX, "secret": "a good secret"}}
    )

    def check(*accounts: str | None) -> list[tuple[str, str]]:
        assert isinstance(appliance.target, TargetSimulator)
        sessions = [LoggedIn(ESX, appliance.target_name, "192.0.2.9:50000", "192.0.2.2:3260", 0, account) for account in accounts]
        appliance.target.logged_in = sessions
        checks = [check for check in appliance.get("/readiness")["checks"] if check["id"] == "chap"]
        assert all(check["subject"] == host.json["id"] and "maintenance mode" in check["remedy"] for check in checks)
        return [(check["result"], check["evidence"].partition(":")[0]) for check in checks]

    assert check(None, None) == []
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    unproven = [("warning", "it logged in before CHAP was required")]
    assert check(None, None) == check(ESX, None) == unproven
    assert check(ESX, ESX) == check() == []


def test_names_with_spaces_are_quoted_in_commands(appliance: Appliance) -> None:
    group = appliance.group("two words")
    appliance.datastore("vmfs1", host_groups=[group])
    remedies = {check["id"]: check["remedy"] for check in appliance.get("/readiness")["checks"]}
    assert "zvaai host change 'host of two words' --add-iqn IQN" in remedies["initiator"]


def test_commands_can_be_pasted(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    appliance.group("cluster", ESX)
    listening(appliance, monkeypatch, [FIRST, SECOND], "0.0.0.0:3260")
    response = appliance.get("/readiness")
    assert response["portals"] == ["192.0.2.2:3260", "198.51.100.2:3260"]
    assert response["target"] == appliance.target_name
    for portal in response["portals"]:
        assert f"esxcli iscsi adapter discovery sendtarget add -A $HBA -a {portal}" in response["esxcli"]
        assert (
            f"esxcli iscsi adapter discovery statictarget add -A $HBA -a {portal} -n {response['target']}" in response["esxcli"]
        )
    lines = esxcli_lines("iqn.2026-11.example:t", [], [], ["LIO-ORG", "ZVAAI", "LIO-ORG"])
    rules = [line.split(" -r ")[1].split(" -t ")[0] + line.split(" -V ")[1].split(" -M ")[0] for line in lines if "VAAIP" in line]
    assert rules == ["914ZVAAI", "915LIO-ORG"], "adopted LUNs retain their vendor"
    (host,) = response["hosts"]
    assert host["host"] == appliance.get("/hosts")["items"][0]["id"] and "iqn\\.1998-01\\.com\\.vmware:esx1" in host["esxcli"][0]
    text = str(response)
    assert (
        "0.0.0.0" not in text.replace("listening at 0.0.0.0:3260", "").replace("--replace 0.0.0.0:3260", "")
        and "SERVER" not in text
        and "PORTAL" not in text
    )


def test_a_lun_without_an_naa_name_has_no_command(appliance: Appliance) -> None:
    """An adopted disk can have an EUI-64 name in its place."""
    appliance.datastore("first")
    appliance.simulator.create_volume("tank/old", GIB, volblocksize=65536)
    eui = page(0x83, descriptor(1, 2, bytes.fromhex("0011223344556677"))).hex()
    known_as = {"page_80": page(0x80, b"c2c96ad2").hex(), "page_83": eui, "vendor": "SCST_BIO", "product": "disk1"}
    appliance.job("POST", "/volumes/adopt", {"dataset": "tank/old", "name": "moved", "known_as": known_as})
    response = appliance.get("/readiness")
    (command,) = [line for line in response["esxcli"] if "vaai status get" in line]
    (naa,) = [lun.naa for target in appliance.target.targets() for lun in target.luns if lun.naa]
    assert command == f"esxcli storage core device vaai status get -d {naa}"
    evidence = [check["evidence"] for check in response["checks"] if check["id"] == "served"]
    assert sorted(evidence) == [f"LUN 0, {naa}", "LUN 1, without an NAA name"]


def test_commands_have_the_advertised_address(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind address translation hosts do not reach the one where the target listens."""
    listening(appliance, monkeypatch, [FIRST, SECOND], "192.0.2.2:3260")
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.listening += [Portal("198.51.100.2:3260", 2, "203.0.113.7:3260"), Portal("192.0.2.2:3261", problem="in use")]
    response = appliance.get("/readiness")
    assert response["portals"] == ["192.0.2.2:3260", "203.0.113.7:3260"]
    assert "esxcli iscsi adapter discovery sendtarget add -A $HBA -a 203.0.113.7:3260" in response["esxcli"]
    assert not any("198.51.100.2" in line for line in response["esxcli"]) and "2 paths" in portals(appliance)["evidence"]
