# SPDX-License-Identifier: Apache-2.0
"""Changes of portals that would take the path of a logged-in host away."""

import pytest
from simulators.appliance import Appliance
from simulators.target import TargetSimulator

from appliance.dataplane.target import LoggedIn, Portal

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
