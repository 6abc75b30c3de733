# SPDX-License-Identifier: Apache-2.0
"""Hosts: refusals, and initiators of no host."""

from typing import Any

from simulators.appliance import Appliance
from simulators.target import TargetSimulator

from appliance.dataplane.target import UnknownInitiator

ESX1, ESX2 = "iqn.1998-01.com.vmware:esx1", "iqn.1998-01.com.vmware:esx2"


def test_one_refusal_names_all_invalid_fields(appliance: Appliance) -> None:
    wrong = {"name": "a/b", "iqns": ["esx1"], "addresses": ["192.0.2.300"]}
    answer: Any = appliance.request("POST", "/hosts", wrong)
    assert answer.status_code == 422
    reasons = {error["field"]: error["reason"] for error in answer.json["errors"]}
    assert set(reasons) == {"name", "iqns", "addresses"}
    assert "not an iSCSI name" in reasons["iqns"] and "iqn.YYYY-MM" in reasons["iqns"]
    taken: Any = appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [ESX1.upper()]})
    assert taken.status_code == 201 and taken.json["iqns"] == [ESX1]


def test_initiators_of_no_host_are_listed(appliance: Appliance) -> None:
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.unknown = [UnknownInitiator(iqn, "192.0.2.9", 1_795_262_400) for iqn in (ESX2, ESX1)]
    assert [initiator["initiator"] for initiator in appliance.get("/unknown-initiators")["items"]] == [ESX1, ESX2]
    assert appliance.request("POST", "/hosts", {"name": "esx1", "iqns": [ESX1]}).status_code == 201
    (left,) = appliance.get("/unknown-initiators")["items"]
    assert left == {"initiator": ESX2, "address": "192.0.2.9", "at": "2026-11-21T12:00:00.000Z"}
