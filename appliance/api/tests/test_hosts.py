# SPDX-License-Identifier: Apache-2.0
"""Hosts: refusals, and initiators of no host; the portals that they reach."""

import shlex
import subprocess
from typing import Any

import pytest
from simulators.appliance import Appliance
from simulators.ganesha import GaneshaSimulator
from simulators.target import TargetSimulator

from appliance.dataplane.ganesha import NfsClient
from appliance.dataplane.target import LoggedIn, UnknownInitiator
from appliance.domain.esxcli import host_lines

ESX1, ESX2 = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"


def test_one_refusal_names_all_invalid_fields(appliance: Appliance) -> None:
    wrong = {"name": "a/b", "iqns": ["esx1"], "addresses": ["192.0.2.300"]}
    answer: Any = appliance.request("POST", "/hosts", wrong)
    assert answer.status_code == 422
    reasons = {error["field"]: error["reason"] for error in answer.json["errors"]}
    assert set(reasons) == {"name", "iqns", "addresses"}
    assert "not an iSCSI name" in reasons["iqns"] and "iqn.YYYY-MM" in reasons["iqns"]
    shell: Any = appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [f"{ESX1}';reboot;'"]})
    assert shell.status_code == 422, "the console shows commands with this name for the host's shell"
    for month in ("00", "13", "50"):
        answer = appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [f"iqn.1998-{month}.com.vmware:esx1"]})
        assert answer.status_code == 422, f"the target refuses month {month}, and with it the names of all hosts"
    taken: Any = appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [ESX1.upper()]})
    assert taken.status_code == 201 and taken.json["iqns"] == [ESX1]


def test_ats_cannot_be_disabled(appliance: Appliance) -> None:
    """VMFS has no other lock. The refusal names what can be disabled."""
    group = appliance.group("cluster", ESX1)
    for method, path, name in (("POST", "/host-groups", "other"), ("PATCH", f"/host-groups/{group}", "cluster")):
        answer: Any = appliance.request(method, path, {"name": name, "disabled_offloads": ["unmap", "compare_and_write"]})
        (error,) = answer.json["errors"]
        assert answer.status_code == 422 and error["field"].startswith("disabled_offloads")
        assert all(offload in str(error) for offload in ("extended_copy", "write_same", "unmap", "token")), error
    assert [group["disabled_offloads"] for group in appliance.get("/host-groups")["items"]] == [[]]
    every = {"disabled_offloads": ["extended_copy", "token", "unmap", "write_same"]}
    taken: Any = appliance.request("PATCH", f"/host-groups/{group}", every)
    assert taken.status_code == 200 and taken.json["disabled_offloads"] == every["disabled_offloads"]


def test_a_chap_account_proves_one_side_and_no_other_host(appliance: Appliance) -> None:
    """RFC 7143, 9.2.1: with one secret for both directions, each side could pretend to be the other."""
    mine, target = {"name": "esx1", "secret": "a-good-long-secret"}, {"name": "storage", "secret": "secret-of-storage"}
    assert appliance.request("POST", "/hosts", {"name": "first", "iqns": [ESX1], "chap": mine}).status_code == 201
    second: Any = appliance.request("POST", "/hosts", {"name": "second", "iqns": [ESX2]}).json
    assert appliance.request("PUT", "/settings/iscsi/target-chap", {**target, "secret": mine["secret"]}).status_code == 409
    assert appliance.request("PUT", "/settings/iscsi/target-chap", target).status_code == 200
    for chap, status, reason in (
        ({**mine, "secret": "another-good-secret"}, 409, "another host's"),
        ({**target, "name": "esx2"}, 409, "target proves itself"),
        ({"name": "esx2", "secret": "abababababab"}, 422, "too weak"),
        ({"name": "esx2-by-its-name", "secret": "esx2-by-its-name"}, 422, "it is the name"),
    ):
        for method, path, body in (
            ("PUT", f"/hosts/{second['id']}/chap", chap),
            ("POST", "/hosts", {"name": "third", "iqns": [], "chap": chap}),
        ):
            refused: Any = appliance.request(method, path, body)
            assert refused.status_code == status and reason in refused.text, (method, chap, refused.text)
            if status == 422:
                assert refused.json["errors"][0]["field"] == ("secret" if method == "PUT" else "chap.secret")
    weak: Any = appliance.request("PUT", "/settings/iscsi/target-chap", {"name": "storage", "secret": "abababababab"})
    assert weak.json["errors"][0]["field"] == "secret"
    assert {host["name"]: host["chap_name"] for host in appliance.get("/hosts")["items"]} == {"first": "esx1", "second": None}


def test_the_end_of_chap_names_hosts_that_are_logged_in_by_it(appliance: Appliance) -> None:
    """The target cannot see whether they would log in without CHAP."""
    assert isinstance(appliance.target, TargetSimulator)
    for name, iqn in (("first", ESX1), ("second", ESX2)):
        body = {"name": name, "iqns": [iqn], "chap": {"name": iqn, "secret": f"secret of {name}"}}
        assert appliance.request("POST", "/hosts", body).status_code == 201
    assert appliance.request("PUT", "/settings/iscsi", {"chap_required": True}).status_code == 200
    accounts = ((ESX1, ESX1), (ESX2, None))
    appliance.target.logged_in = [
        LoggedIn(iqn, appliance.target_name, "192.0.2.9:1", "192.0.2.1:3260", 0, account) for iqn, account in accounts
    ]
    refused: Any = appliance.request("PUT", "/settings/iscsi", {"chap_required": False})
    assert refused.status_code == 409 and refused.json["can_force"] and refused.json["blocking"] == ["first"], refused.text
    for taken in ({"chap_required": True}, {"chap_required": False, "force": True}, {"chap_required": False}):
        assert appliance.request("PUT", "/settings/iscsi", taken).status_code == 200, taken


def _logged_in(appliance: Appliance, *iqns: str) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    name = appliance.target_name
    appliance.target.logged_in = [LoggedIn(iqn, name, "192.0.2.9:1", "192.0.2.1:3260", 0, None) for iqn in iqns]


def test_a_name_that_is_not_logged_in_can_be_removed(appliance: Appliance) -> None:
    appliance.datastore("vmfs1", host_groups=[appliance.group("cluster", ESX1, ESX2)])
    path = f"/hosts/{appliance.get('/hosts')['items'][0]['id']}"
    _logged_in(appliance, ESX2)
    refused: Any = appliance.request("PATCH", path, {"iqns": [ESX1]})
    assert refused.status_code == 409 and refused.json["blocking"] == [ESX2]
    taken: Any = appliance.request("PATCH", path, {"iqns": [ESX2.upper()]})
    assert taken.status_code == 200 and taken.json["iqns"] == [ESX2], taken.text


def test_a_host_can_move_to_a_group_that_sees_no_less(appliance: Appliance) -> None:
    """Its sessions and mounts stay."""
    old, new = appliance.group("old", ESX1), appliance.group("new", ESX2)
    path = next(f"/hosts/{host['id']}" for host in appliance.get("/hosts")["items"] if host["group"] == old)
    _logged_in(appliance, ESX1)
    both, fewer = appliance.datastore("both", host_groups=[old, new]), appliance.datastore("fewer", host_groups=[old])
    nfs = appliance.nfs_datastore("nfs", host_groups=[old])
    for store in (fewer, nfs):
        assert appliance.request("PATCH", path, {"group": new}).status_code == 409
        appliance.job("PATCH", f"/datastores/{store}", {"host_groups": [old, new]})
    assert appliance.request("PATCH", path, {"group": None}).status_code == 409
    assert appliance.request("PATCH", path, {"group": new}).status_code == 200
    (admitted,) = {lun.lun.initiators for target in appliance.target.targets() for lun in target.luns if lun.lun.uuid == both}
    assert set(admitted or ()) == {ESX1, ESX2}


def test_a_host_was_last_seen_when_it_used_nfs_or_iscsi(appliance: Appliance) -> None:
    """The later of both counts, and the time is stored at most twice a minute."""
    assert isinstance(appliance.target, TargetSimulator) and isinstance(appliance.nfs, GaneshaSimulator)
    noon = 1_795_262_400
    appliance.nfs_datastore("nfs1")
    for body in ({"name": "esx1", "iqns": [ESX1], "addresses": ["192.0.2.9"]}, {"name": "esx2", "iqns": [ESX2]}):
        assert appliance.request("POST", "/hosts", body).status_code == 201

    def last_seen(now: float, nfs: float, *logged_in: str) -> list[str | None]:
        target = appliance.target
        assert isinstance(target, TargetSimulator) and isinstance(appliance.nfs, GaneshaSimulator)
        appliance.nfs.known = [NfsClient("192.0.2.9", nfs, 0), NfsClient("192.0.2.10", now, 0)]
        name = appliance.target_name
        target.logged_in = [LoggedIn(iqn, name, "192.0.2.9:1", "192.0.2.1:3260", now, None) for iqn in logged_in]
        appliance.service.periodic.now = lambda: now
        appliance.service.periodic.hosts()
        return [host["last_seen_at"] for host in appliance.get("/hosts")["items"]]

    assert last_seen(noon, noon - 60) == ["2026-11-21T11:59:00.000Z", None]
    assert last_seen(noon, noon - 60, ESX1) == ["2026-11-21T12:00:00.000Z", None]
    assert last_seen(noon + 20, noon - 60, ESX1) == ["2026-11-21T12:00:00.000Z", None]
    assert last_seen(noon + 60, noon - 60, ESX2) == ["2026-11-21T12:00:00.000Z", "2026-11-21T12:01:00.000Z"]
    appliance.request("DELETE", f"/hosts/{appliance.get('/hosts')['items'][0]['id']}")
    assert last_seen(noon + 120, noon + 120) == ["2026-11-21T12:01:00.000Z"]


def test_initiators_of_no_host_are_listed(appliance: Appliance) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.unknown = [UnknownInitiator(iqn, "192.0.2.9", 1_795_262_400) for iqn in (ESX2, ESX1)]
    assert [initiator["initiator"] for initiator in appliance.get("/unknown-initiators")["items"]] == [ESX1, ESX2]
    assert appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [ESX1]}).status_code == 201
    (left,) = appliance.get("/unknown-initiators")["items"]
    assert left == {"initiator": ESX2, "address": "192.0.2.9", "at": "2026-11-21T12:00:00.000Z"}


def test_commands_for_a_host_quote_its_name() -> None:
    name = f"{ESX1}';reboot;'"
    (line,) = host_lines([name], None)
    assert shlex.split(line.rpartition("echo ")[2]) == [f"This host is registered as {name}"]


@pytest.mark.parametrize(("adapter", "registered"), [(ESX1, True), (ESX2.upper(), True), (f"{ESX1}0", False)])
def test_a_host_compares_its_whole_name(adapter: str, registered: bool) -> None:
    (line,) = host_lines([ESX1, ESX2], None)
    check = line.rpartition("get -A $HBA | ")[2]
    output = f"vmhba64\n   Name: {adapter} \n   Alias: \n"  # as of `esxcli iscsi adapter get`
    result = subprocess.run(["sh", "-c", check], input=output, capture_output=True, text=True, check=True)
    assert (f"This host is registered as {ESX1}" not in result.stdout) == registered


def test_an_advertised_address_can_be_removed(appliance: Appliance) -> None:
    path = "/portals/0.0.0.0:3260"
    for change, advertised in (
        ({"advertised": "198.51.100.7:3260"}, "198.51.100.7:3260"),
        ({"group_tag": 2}, "198.51.100.7:3260"),
        ({"advertised": None}, None),
    ):
        answer = appliance.request("PATCH", path, change)
        assert answer.status_code == 200, answer.text
        (portal,) = appliance.get("/portals")["items"]
        assert portal["advertised"] == advertised
