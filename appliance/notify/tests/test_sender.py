# SPDX-License-Identifier: Apache-2.0
"""Alerts to receivers: each is delivered in order, at least once, despite crashes; and the API's reports."""

import ipaddress
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import Appliance, running
from sqlalchemy import update

from appliance.config import Alerts
from appliance.database.models import Alert, Delivery
from appliance.domain import receivers
from appliance.domain.journal import Finding, update_alerts
from appliance.domain.secrets import Seal
from appliance.notify.sender import Sender
from appliance.notify.tests.web_server import Receiver, receiver

TRUSTED = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def receiver_server(tmp_path: Path) -> Iterator[Receiver]:
    """A receiver's endpoint."""
    with receiver(tmp_path) as server:
        yield server


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance that trusts receivers on this machine."""
    with running(tmp_path / "appliance", alerts=Alerts(trusted_networks=TRUSTED)) as appliance:
        yield appliance


def sender_of(appliance: Appliance) -> Sender:
    return Sender(appliance.store, appliance.service.context.seal, TRUSTED)


def hook(appliance: Appliance, receiver_server: Receiver, **more: Any) -> dict[str, Any]:
    """Adds a webhook."""
    body = {"name": "pager", "url": receiver_server.url, "certificate": receiver_server.pem or None, **more}
    answer = appliance.request("POST", "/receivers", body)
    assert answer.status_code == 201, answer.text
    assert answer.json is not None
    return dict(answer.json)


def finding(severity: str = "critical", text: str = "it is odd") -> Finding:
    return Finding("odd:one", severity, "tank", text, "look")


def find(appliance: Appliance, *findings: Finding) -> None:
    with appliance.store.session() as session:
        update_alerts(session, "odd", findings)


def bodies(receiver_server: Receiver) -> list[Any]:
    return [json.loads(body) for _, body in receiver_server.received]


def deliveries(appliance: Appliance, made: dict[str, Any]) -> list[Any]:
    return list(appliance.get(f"/receivers/{made['id']}/deliveries")["items"])


def test_an_alert_is_delivered_when_raised_changed_and_cleared(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    sender = sender_of(appliance)
    sender.start()
    find(appliance, finding("warning"))
    find(appliance, finding("warning", "another text is no news"))
    find(appliance, finding("critical"))
    find(appliance)
    receiver_server.wait(3)
    sender.stop()
    reported = bodies(receiver_server)
    assert [event["type"] for event in reported] == ["alert.raised", "alert.changed", "alert.cleared"]
    assert [event["data"]["severity"] for event in reported] == ["warning", "critical", "critical"]
    assert (
        reported[0]["data"]["subject"] == "tank" and reported[2]["data"]["cleared_at"] and not reported[1]["data"]["cleared_at"]
    )
    assert len({event["id"] for event in reported}) == 3
    shown = appliance.get(f"/receivers/{made['id']}")
    assert shown["last_delivery"]["state"] == "delivered" and shown["last_delivery"]["status"] == 204 and shown["waiting"] == 0


def test_each_message_has_the_name_of_the_server(
    appliance: Appliance, receiver_server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several servers can have one receiver."""
    monkeypatch.setattr("socket.gethostname", lambda: "zvaai1")
    made = hook(appliance, receiver_server)
    assert appliance.request("POST", f"/receivers/{made['id']}/test").status_code == 200
    find(appliance, finding())
    assert sender_of(appliance).turn(time.time()) == 1
    assert [(body["type"], body["server"]) for body in bodies(receiver_server)] == [
        ("test", "zvaai1"),
        ("alert.raised", "zvaai1"),
    ]


def test_a_receiver_of_critical_alerts_learns_that_one_is_critical_no_more(
    appliance: Appliance, receiver_server: Receiver
) -> None:
    made = hook(appliance, receiver_server, severity="critical")
    for severity in ("warning", "critical", "warning"):
        find(appliance, finding(severity))
    find(appliance)
    sender_of(appliance).turn(time.time())
    sender_of(appliance).turn(time.time())
    assert [(event["type"], event["data"]["severity"]) for event in bodies(receiver_server)] == [
        ("alert.changed", "critical"),
        ("alert.changed", "warning"),
    ]
    assert len(deliveries(appliance, made)) == 2


def test_severity_and_being_enabled(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server, severity="critical")
    find(appliance, finding("warning"))
    assert not deliveries(appliance, made)
    find(appliance)
    appliance.request("PATCH", f"/receivers/{made['id']}", {"enabled": False})
    find(appliance, finding())
    assert not deliveries(appliance, made)


def test_it_is_tried_again_after_the_sender_has_died(appliance: Appliance, receiver_server: Receiver) -> None:
    """Waiting deliveries and their times are in the database: another process continues with the same identifier."""
    made = hook(appliance, receiver_server)
    receiver_server.answer = 503
    find(appliance, finding())
    find(appliance)
    now = time.time()
    first = sender_of(appliance)
    assert first.turn(now) == 1 and first.turn(now) == 0, "the next of a receiver waits for the one before"
    stored = deliveries(appliance, made)
    assert [delivery["state"] for delivery in stored] == ["pending", "pending"] and stored[1]["status"] == 503
    second = sender_of(appliance)
    assert second.turn(now + 2) == 0 and second.turn(now + 7) == 1, "5 s, give or take a fifth"
    assert second.turn(now + 14) == 0, "twice as long"
    receiver_server.answer = 200
    assert second.turn(now + 30) == 1 and second.turn(now + 30) == 1 and second.turn(now + 30) == 0
    reported = bodies(receiver_server)
    assert [event["type"] for event in reported] == ["alert.raised"] * 3 + ["alert.cleared"]
    assert (
        len({event["id"] for event in reported[:3]}) == 1
        and len({headers["webhook-id"] for headers, _ in receiver_server.received}) == 2
    )


def test_a_clock_that_was_ahead_delays_no_alert(appliance: Appliance, receiver_server: Receiver) -> None:
    hook(appliance, receiver_server)
    receiver_server.answer = 503
    find(appliance, finding())
    sender, now = sender_of(appliance), time.time()
    assert sender.turn(now) == 1
    assert sender.turn(now - 1800) == 0, "no longer than a wait may last"
    assert sender.turn(now - 86400) == 1


def test_rejected_deliveries_are_dropped(appliance: Appliance, receiver_server: Receiver) -> None:
    """And an alert reports it, to others only."""
    made = hook(appliance, receiver_server, severity="info")
    receiver_server.answer = 404
    find(appliance, finding())
    sender, now = sender_of(appliance), time.time()
    for _ in range(3):
        now += 4000
        assert sender.turn(now) == 1
    reported = [alert for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("receiver-")]
    assert len(reported) == 1 and "404" in reported[0]["text"] and len(deliveries(appliance, made)) == 1
    for _ in range(7):
        now += 4000
        assert sender.turn(now) == 1
    assert sender.turn(now + 90000) == 0
    assert [delivery["state"] for delivery in deliveries(appliance, made)] == ["failed"] and len(receiver_server.received) == 10
    receiver_server.answer = 200
    find(appliance)
    assert sender.turn(now + 90000) == 1
    assert not [alert for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("receiver-")]


@pytest.mark.parametrize("answer", [404, 503])
def test_a_receiver_that_works_again_gets_the_open_alerts_that_failed(
    appliance: Appliance, receiver_server: Receiver, answer: int
) -> None:
    """Also if nothing new happens: a test that succeeds suffices."""
    made = hook(appliance, receiver_server)
    sender, now = sender_of(appliance), time.time()

    def failing() -> None:
        nonlocal now
        receiver_server.answer = answer
        now += 4400
        while sender.turn(now):
            now += 4400

    def sent_after_test() -> list[tuple[str, str]]:
        receiver_server.answer = 200
        receiver_server.received.clear()
        assert appliance.request("POST", f"/receivers/{made['id']}/test").status_code == 200
        while sender.turn(now):
            pass
        return [(body["type"], body["data"]["text"]) for body in bodies(receiver_server)[1:]]

    find(appliance, finding())
    failing()
    with appliance.store.session() as session:  # this one ends before the receiver works
        update_alerts(session, "ended", [Finding("ended:one", "critical", "tank", "it ended", "")])
    failing()
    with appliance.store.session() as session:
        session.execute(update(Alert).where(Alert.key == "ended:one").values(cleared_at=now))
    assert [delivery["state"] for delivery in deliveries(appliance, made)] == ["failed"] * 2
    assert sent_after_test() == [("alert.raised", "it is odd")]
    assert sent_after_test() == []


def test_an_alert_that_is_refused_for_its_content_does_not_delay_others_again_and_again(
    appliance: Appliance, receiver_server: Receiver
) -> None:
    made = hook(appliance, receiver_server)
    sender, now = sender_of(appliance), time.time()
    find(appliance, finding())
    for expected in (1, 1, 0):
        receiver_server.answer = 400
        turns = 0
        for _ in range(10):
            now += 4000
            turns += sender.turn(now)
        assert turns == 10 * expected
        receiver_server.answer = 200
        assert appliance.request("POST", f"/receivers/{made['id']}/test").status_code == 200


def test_one_refusal_after_many_timeouts_does_not_count(appliance: Appliance, receiver_server: Receiver) -> None:
    """A receiver that was down for long, and whose proxy refuses while it starts."""
    made = hook(appliance, receiver_server)
    find(appliance, finding())
    sender, now = sender_of(appliance), time.time()
    for answer in [503] * 12 + [404] * 6:
        receiver_server.answer = answer
        now += 4400
        assert sender.turn(now) == 1
    assert [delivery["state"] for delivery in deliveries(appliance, made)] == ["pending"]


def test_a_disabled_receiver_gets_nothing(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    receiver_server.answer = 500
    find(appliance, finding())
    for attempt in range(3):
        sender_of(appliance).turn(time.time() + 4000 * (attempt + 1))
    assert [alert["key"] for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("receiver-")]
    appliance.request("PATCH", f"/receivers/{made['id']}", {"enabled": False})
    assert not [alert["key"] for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("receiver-")]
    assert {delivery["state"] for delivery in deliveries(appliance, made)} == {"dropped"}
    receiver_server.answer = 204
    appliance.request("PATCH", f"/receivers/{made['id']}", {"enabled": True})
    tried = len(receiver_server.received)
    assert not sender_of(appliance).turn(time.time() + 20_000)
    assert len(receiver_server.received) == tried


def test_waiting_deliveries_are_limited(appliance: Appliance, receiver_server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "WAITING", 5)
    monkeypatch.setattr(receivers, "RETAINED", 3)
    made = hook(appliance, receiver_server)
    for _ in range(5):
        find(appliance, finding())
        find(appliance)
    states = [delivery["state"] for delivery in deliveries(appliance, made)]
    assert states.count("pending") == 5 and states.count("dropped") == 5 and states[0] == "pending"
    while sender_of(appliance).turn(time.time()):
        pass
    assert len(receiver_server.received) == 5
    with appliance.store.reading() as session:
        assert session.query(Delivery).count() == 3


def test_a_test_is_sent_now(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    reported = appliance.request("POST", f"/receivers/{made['id']}/test").json
    assert reported is not None and (reported["state"], reported["status"], reported["kind"]) == ("delivered", 204, "test")
    assert bodies(receiver_server)[0]["type"] == "test"
    receiver_server.answer = 500
    reported = appliance.request("POST", f"/receivers/{made['id']}/test").json
    assert reported is not None and (reported["state"], reported["status"]) == ("failed", 500)
    assert sender_of(appliance).turn(time.time() + 90000) == 0 and not appliance.get("/alerts")["items"]


def test_a_successful_test_ends_the_alert_of_its_receiver(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    receiver_server.answer = 404
    find(appliance, finding())
    now = time.time()
    for turn in range(3):
        sender_of(appliance).turn(now + 3600 * turn)
    assert {alert["key"] for alert in appliance.get("/alerts")["items"]} == {"odd:one", f"{receivers.area(made['id'])}:failing"}
    receiver_server.answer = 204
    appliance.request("POST", f"/receivers/{made['id']}/test")
    assert [alert["key"] for alert in appliance.get("/alerts")["items"]] == ["odd:one"]
    assert sender_of(appliance).turn(time.time() + 1) == 1, "what waits is sent at once"


def test_secrets_are_returned_once(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    assert made["secret"].startswith("whsec_")
    everything = json.dumps([appliance.get("/receivers"), appliance.get(f"/receivers/{made['id']}"), appliance.get("/audit")])
    assert made["secret"] not in everything
    with appliance.store.reading() as session:
        assert made["secret"] not in receivers.find(session, made["id"]).secret
    audit = [entry for entry in appliance.get("/audit")["items"] if entry["action"] == "receiver.create"]
    assert audit[0]["after"]["url"] == "(secret)" and audit[0]["token"] == "test"
    again = appliance.request("POST", f"/receivers/{made['id']}/secret").json
    assert again is not None and again["secret"] != made["secret"]
    assert appliance.request("PATCH", f"/receivers/{made['id']}", {"user": None}).status_code == 200, "as it was read"
    appliance.request("POST", f"/receivers/{made['id']}/test")
    headers, body = receiver_server.received[-1]
    from appliance.notify.webhook import sign  # noqa: PLC0415

    stamp = int(headers["webhook-timestamp"])
    assert headers["webhook-signature"] == sign(again["secret"], headers["webhook-id"], stamp, body)
    assert headers["webhook-signature"] != sign(made["secret"], headers["webhook-id"], stamp, body)


def database(appliance: Appliance) -> bytes:
    """All that its files have."""
    directory = appliance.configuration.database.parent
    return b"".join(path.read_bytes() for path in sorted(directory.glob(f"{appliance.configuration.database.name}*")))


def test_urls_are_in_no_file_as_they_are(appliance: Appliance, receiver_server: Receiver) -> None:
    """Nor in the answers stored for repeated requests; and it goes where they lead."""
    made = hook(appliance, receiver_server)
    assert made["url"] == receiver_server.url and appliance.get(f"/receivers/{made['id']}")["url"] == receiver_server.url
    path, later = f"/receivers/{made['id']}", receiver_server.url.replace("t0ken", "an0ther")
    for change in ({"url": later}, {"name": "renamed"}):
        answers = [appliance.request("PATCH", path, change, Idempotency_Key=f"key of {min(change)}") for _ in range(2)]
        assert answers[0].status_code == 200 and answers[0].json == answers[1].json, "the second is the kept one"
        assert answers[0].json is not None and answers[0].json["url"] == later
    reported = appliance.request("POST", f"{path}/test").json
    assert reported is not None and reported["state"] == "delivered"
    held = database(appliance)
    assert b"renamed" in held and b"t0ken" not in held and b"an0ther" not in held


def test_without_the_key_a_webhook_is_reported_and_can_be_set_again(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    other = Seal(appliance.configuration.state_directory / "other.key")
    with appliance.store.session() as session:
        row = receivers.find(session, made["id"])
        row.url, row.secret = other.seal(receiver_server.url), other.seal(made["secret"])
    assert "again" in appliance.get("/receivers")["items"][0]["url"]
    reported = appliance.request("POST", f"/receivers/{made['id']}/test").json
    assert reported is not None and reported["state"] == "failed" and "not the key" in reported["problem"]
    assert appliance.request("PATCH", f"/receivers/{made['id']}", {"url": receiver_server.url}).status_code == 200
    assert appliance.request("POST", f"/receivers/{made['id']}/secret").status_code == 201
    reported = appliance.request("POST", f"/receivers/{made['id']}/test").json
    assert reported is not None and reported["state"] == "delivered"


def test_invalid_requests(appliance: Appliance, receiver_server: Receiver, tmp_path: Path) -> None:
    for url in ("ftp://receiver/", "https://", "https://user:word@receiver/", "https://receiver/#part", "https://a b/", "https://é/",
                "https://receiver:99999/", "not at all", "syslog+tls://receiver", "syslog:///dev/log"):  # fmt: skip
        answer = appliance.request("POST", "/receivers", {"name": "one", "url": url})
        assert answer.status_code == 422 and answer.json and answer.json["errors"][0]["field"] == "url", url
    answer = appliance.request("POST", "/receivers", {"name": "one", "url": "https://receiver/", "certificate": "no PEM"})
    assert answer.status_code == 422 and answer.json and answer.json["errors"][0]["field"] == "certificate"
    with running(tmp_path / "other") as other:
        assert other.request("POST", "/receivers", {"name": "one", "url": "http://receiver/"}).status_code == 422
    hook(appliance, receiver_server)
    assert appliance.request("POST", "/receivers", {"name": "pager", "url": receiver_server.url}).status_code == 409
    assert appliance.request("GET", "/receivers", role="operator").status_code == 403


def test_waiting_deliveries_are_deleted_with_their_receiver(appliance: Appliance, receiver_server: Receiver) -> None:
    made = hook(appliance, receiver_server)
    find(appliance, finding())
    assert appliance.request("DELETE", f"/receivers/{made['id']}").status_code == 200
    assert sender_of(appliance).turn(time.time()) == 0
    with appliance.store.reading() as session:
        assert session.query(Delivery).count() == 0
