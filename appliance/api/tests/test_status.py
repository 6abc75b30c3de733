# SPDX-License-Identifier: Apache-2.0
"""The overview of the appliance."""

from simulators.appliance import Appliance

from appliance.domain.journal import Finding, update_alerts


def test_who_acknowledged_a_warning_has_not_seen_that_it_is_critical(appliance: Appliance) -> None:
    def find(severity: str) -> dict[str, object]:
        with appliance.store.session() as session:
            update_alerts(session, "test", [Finding("test:one", severity, "tank", f"it is {severity}")])
        (alert,) = appliance.get("/alerts")["items"]
        return dict(alert)

    number = find("warning")["id"]
    appliance.request("POST", f"/alerts/{number}/acknowledge")
    assert find("critical")["acknowledged_at"] is None
    appliance.request("POST", f"/alerts/{number}/acknowledge")
    assert find("warning")["acknowledged_at"] is not None


def test_acknowledged_alerts_and_information_need_no_action(appliance: Appliance) -> None:
    severities = ("info", "warning", "critical")
    with appliance.store.session() as session:
        update_alerts(session, "test", [Finding(f"test:{severity}", severity, "tank", severity) for severity in severities])

    def counted() -> int:
        return int(appliance.get("/status")["unacknowledged_alerts"])

    number = {alert["key"]: alert["id"] for alert in appliance.get("/alerts")["items"]}
    others = len(number) - len(severities)
    assert counted() == others + 2
    assert appliance.request("POST", f"/alerts/{number['test:critical']}/acknowledge").status_code == 200
    assert counted() == others + 1
    lines = appliance.request("GET", "/metrics").text.splitlines()
    assert 'zvaai_alerts{severity="critical"} 0.0' in lines and 'zvaai_alerts{severity="info"} 1.0' in lines
