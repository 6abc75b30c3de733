# SPDX-License-Identifier: Apache-2.0
"""Changes of portals that would take the path of a logged-in host away, and portals that no host reaches."""

import pytest
from simulators.appliance import Appliance
from simulators.target import TargetSimulator

from appliance.dataplane.target import LoggedIn, Portal
from appliance.domain.addresses import Address

ESX = "iqn.1998-01.com.vmware:esx1"
USED, OTHER, EVERY, EVERY_6 = "192.0.2.1:3260", "192.0.2.2:3260", "0.0.0.0:3260", "[::]:3260"


@pytest.mark.parametrize(
    ("portals", "removed", "used", "is_free"),
    [
        ((USED, OTHER), USED, USED, False),
        ((USED, OTHER), OTHER, USED, True),
        ((USED, EVERY_6), USED, USED, False),
        ((EVERY, EVERY_6), EVERY_6, "[2001:db8::1]:3260", False),
        ((USED, "192.0.2.1:3261"), USED, USED, False),
        ((OTHER, USED), OTHER, "192.0.2.9:3260", True),  # an earlier change, by force, took its portal
    ],
)
def test_a_host_retains_a_portal_at_its_address(
    appliance: Appliance, portals: tuple[str, ...], removed: str, used: str, is_free: bool
) -> None:
    """All of one group: its connections stay, but the host could not log in again."""
    assert isinstance(appliance.target, TargetSimulator)
    appliance.target.listening = [Portal(portal) for portal in portals]
    appliance.target.logged_in = [LoggedIn(ESX, appliance.target_name, "192.0.2.7:50000", used, 0, None, 1)]
    answer = appliance.request("DELETE", f"/portals/{removed}")
    assert answer.status_code == (200 if is_free else 409), answer.text
    if not is_free:
        assert answer.json and answer.json["blocking"] == [ESX] and answer.json["can_force"] and "log in" in answer.json["detail"]
        elsewhere = {"address": "192.0.2.3:3260"}
        assert appliance.request("PATCH", f"/portals/{removed}", elsewhere).status_code == 409
        assert appliance.request("PATCH", f"/portals/{removed}", {"group_tag": 1}).status_code == 200
        assert appliance.request("PATCH", f"/portals/{removed}", elsewhere | {"force": True}).status_code == 200


def test_a_portal_without_its_address_or_link_has_the_reason(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target does not notice: the socket stays."""
    local = [Address("eth0", "192.0.2.1"), Address("eth1", "192.0.2.2", linked=False)]
    monkeypatch.setattr("appliance.api.portals.local_addresses", lambda: local)
    assert isinstance(appliance.target, TargetSimulator)
    failed = Portal("192.0.2.4:3260", problem="cannot listen there")
    appliance.target.listening = [Portal(USED), Portal(OTHER), Portal("192.0.2.3:3260"), failed, Portal(EVERY_6)]
    assert {portal["address"]: portal["problem"] for portal in appliance.get("/portals")["items"]} == {
        USED: "",
        OTHER: "its network interface eth1 has no link",
        "192.0.2.3:3260": "this server does not have its address",
        failed.address: "cannot listen there",
        EVERY_6: "",
    }
