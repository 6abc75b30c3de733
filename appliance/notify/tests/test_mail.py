# SPDX-License-Identifier: Apache-2.0
"""Alerts by e-mail to a real mail server: encrypted, authenticated, one thread for each alert; and its refusals."""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.header
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from simulators.appliance import Appliance, running

from appliance.api import certificate
from appliance.config import Alerts
from appliance.domain.journal import Finding, update_alerts
from appliance.notify import connection
from appliance.notify import message as notice
from appliance.notify.delivery import Destination, deliver
from appliance.notify.mail import compose, greeting
from appliance.notify.sender import Sender

TRUSTED = (ip_network("127.0.0.0/8"),)
PASSWORD = "p@ss of the mail server"
OPS = "ops@example.com"


@dataclass
class MailServer:
    """A mail server that records mails, users, and whether they were encrypted."""

    port: int = 0
    pem: str = ""
    mails: list[Message] = field(default_factory=list)
    to: list[list[str]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    greetings: list[str] = field(default_factory=list)
    """The names that clients give in EHLO."""
    refuses: str | None = None
    """An answer to DATA."""
    hangs_up: bool = False
    """Whether it closes the connection at QUIT without an answer."""

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
        """Accepts the one password."""
        right = isinstance(given, LoginPassword) and given.password == PASSWORD.encode()
        if right:
            self.users.append(given.login.decode())
        return AuthResult(success=right, handled=False)

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:  # noqa: N802
        """Accepts every recipient except nobody, and "later" from the second mail on."""
        if address.startswith("nobody@"):
            return "550 5.1.1 there is no such user"
        if address.startswith("later@") and not self.mails:
            return "451 4.7.1 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        """Keeps the mail."""
        if self.refuses is not None:
            return self.refuses
        self.mails.append(email.message_from_bytes(envelope.content))
        self.to.append(list(envelope.rcpt_tos))
        self.greetings.append(session.host_name)
        self.encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        return "250 OK"

    async def handle_QUIT(self, server: Any, _session: Any, _envelope: Any) -> str:  # noqa: N802
        """Answers, or hangs up."""
        if self.hangs_up:
            server.transport.abort()
        return "221 Bye"


@contextlib.contextmanager
def mail_server(directory: Path, how: str) -> Iterator[MailServer]:
    """A server for "smtps", "smtp" with STARTTLS, or "plain"."""
    mailbox = MailServer()
    certificate.ensure(directory)
    file = directory / certificate.CERTIFICATE
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, file.with_name(certificate.KEY))
    mailbox.pem = file.read_text()
    loop = asyncio.new_event_loop()

    def session() -> SMTP:
        return SMTP(
            mailbox, hostname="mail.example.com", tls_context=context if how == "smtp" else None, require_starttls=how == "smtp",
            authenticator=mailbox.authenticate, auth_require_tls=False, loop=loop,
        )  # fmt: skip

    server = loop.run_until_complete(loop.create_server(session, "127.0.0.1", 0, ssl=context if how == "smtps" else None))
    mailbox.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield mailbox
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance that trusts receivers on this machine."""
    with running(tmp_path / "appliance", alerts=Alerts(trusted_networks=TRUSTED)) as appliance:
        yield appliance


def receiver(appliance: Appliance, mail: MailServer, scheme: str, **more: Any) -> str:
    """Adds a receiver and returns its identifier."""
    body = {
        "name": "mail", "url": f"{scheme}://127.0.0.1:{mail.port}", "certificate": mail.pem, "sender": "zvaai@example.com",
        "recipients": [OPS, "storage@example.com"], "user": "zvaai", "password": PASSWORD, **more,
    }  # fmt: skip
    answer = appliance.request("POST", "/receivers", body)
    assert answer.status_code == 201 and answer.json is not None, answer.text
    assert answer.json["kind"] == "email" and answer.json["secret"] is None and PASSWORD not in answer.text
    return str(answer.json["id"])


def raised_and_cleared(appliance: Appliance) -> None:
    with appliance.store.session() as session:
        update_alerts(session, "odd", [Finding("odd:one", "critical", "tänk", "a disk\nis gone", "zvaai pool show tank")])
    with appliance.store.session() as session:
        update_alerts(session, "odd", [])


def sent(appliance: Appliance, now: float | None = None) -> int:
    return Sender(appliance.store, appliance.service.context.seal, TRUSTED).turn(time.time() if now is None else now)


@pytest.mark.parametrize("scheme", ["smtps", "smtp"])
def test_an_alert_is_encrypted_and_in_one_thread(appliance: Appliance, tmp_path: Path, scheme: str) -> None:
    with mail_server(tmp_path, scheme) as mail:
        receiver(appliance, mail, scheme)
        raised_and_cleared(appliance)
        assert sent(appliance) == 1 and sent(appliance) == 1 and sent(appliance) == 0
    assert mail.encrypted == [True, True] and mail.users == ["zvaai", "zvaai"]
    assert mail.to == [[OPS, "storage@example.com"]] * 2
    first, second = mail.mails
    subject = str(email.header.make_header(email.header.decode_header(first["Subject"])))
    assert "CRITICAL: tänk: a disk is gone" in subject and first["From"] == "zvaai@example.com"
    payload = first.get_payload(decode=True)
    assert isinstance(payload, bytes) and "Remedy:   zvaai pool show tank" in payload.decode()
    assert first["Auto-Submitted"] == "auto-generated" and first["References"] == second["References"]
    assert first["Message-ID"] != second["Message-ID"] and "cleared" in str(second["Subject"])


def test_a_mail_tells_since_when_and_no_remedy_once_cleared() -> None:
    body = (
        '{"timestamp": 86400, "data": {"id": 7, "severity": "critical", "subject": "tank", "text": "a disk is gone",'
        ' "remedy": "zpool replace tank sdb sdc", "raised_at": 3600.5}}'
    )
    raised, cleared = (notice.read("e", f"alert.{kind}", body).body.splitlines()[2:] for kind in ("raised", "cleared"))
    rows = ["Time:     1970-01-02 00:00:00 UTC", "Since:    1970-01-01 01:00:00 UTC", "Subject:  tank"]
    assert raised == [*rows, "Remedy:   zpool replace tank sdb sdc"] and cleared == rows
    assert "Since" not in notice.read("e", "test", '{"timestamp": 0, "data": {}}').body


def test_no_mail_waits_for_a_name_server(appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: Any) -> str:
        raise AssertionError("a mail waits for a name server")

    monkeypatch.setattr("socket.getfqdn", unanswered)
    monkeypatch.setattr("socket.gethostbyname", unanswered)
    with mail_server(tmp_path, "smtp") as mail:
        receiver(appliance, mail, "smtp")
        raised_and_cleared(appliance)
        for name in ("zvaai1", "zvaai1.example.com"):
            monkeypatch.setattr("socket.gethostname", lambda name=name: name)
            assert sent(appliance) == 1
    assert mail.greetings == ["[127.0.0.1]", "zvaai1.example.com"]
    assert [str(copy["Subject"])[:14] for copy in mail.mails] == ["[zvaai zvaai1]", "[zvaai zvaai1."]


def test_the_greeting_has_an_address_without_a_domain() -> None:
    assert greeting("zvaai1", "192.0.2.1") == "[192.0.2.1]"
    assert greeting("zvaai1", "fe80::1%eth0") == "[IPv6:fe80::1]"


def test_a_text_of_several_lines_is_one_subject() -> None:
    """A webhook at a port without a web server puts such a text into the alert about itself."""
    odd = notice.Message("e", "alert.raised", 0, "critical", "pager", "a\x85b\u2028c\nd\x1c\ud800", "", "alert-1")
    mail = compose(odd, "zvaai@example.com", [OPS], "server")
    assert mail["Subject"] == "[zvaai server] CRITICAL: pager: a b c d  "
    assert b"Subject: [zvaai server] CRITICAL: pager: a b c d" in bytes(mail)


def test_login_and_certificate_can_be_removed(appliance: Appliance, tmp_path: Path) -> None:
    with mail_server(tmp_path, "smtp") as mail:
        path = f"/receivers/{receiver(appliance, mail, 'smtp')}"
        same = appliance.request("PATCH", path, dict.fromkeys(("name", "severity", "enabled", "sender", "recipients"))).json
        assert same is not None and (same["name"], same["user"], same["certificate"]) == ("mail", "zvaai", mail.pem)
        changed = appliance.request("PATCH", path, {"user": None, "certificate": None}).json
        assert changed is not None and (changed["user"], changed["certificate"]) == (None, None)
        answer = appliance.request("PATCH", path, {"user": "zvaai"})
        assert answer.status_code == 422 and "password" in answer.text, "the password is removed with its user"
        assert appliance.request("PATCH", path, {"user": "zvaai", "password": PASSWORD}).status_code == 200


def test_another_server_gets_no_stored_password(appliance: Appliance, tmp_path: Path) -> None:
    with mail_server(tmp_path, "smtps") as mail:
        path = f"/receivers/{receiver(appliance, mail, 'smtps')}"
        assert appliance.request("PATCH", path, {"url": f"smtps://127.0.0.1:{mail.port}/"}).status_code == 200
        assert appliance.request("POST", f"{path}/test").status_code == 200 and mail.users == ["zvaai"]
    other = {"url": "smtps://mail.example.com"}
    refused = appliance.request("PATCH", path, other)
    assert refused.status_code == 422 and '"password"' in refused.text
    assert appliance.get(path)["url"] != other["url"]
    assert appliance.request("PATCH", path, {**other, "password": "another"}).status_code == 200


def test_a_test_reports_the_problem(appliance: Appliance, tmp_path: Path) -> None:
    def tested(identifier: str) -> tuple[str, int | None, str]:
        result = appliance.request("POST", f"/receivers/{identifier}/test").json
        assert result is not None
        return result["state"], result["status"], str(result["problem"])

    with mail_server(tmp_path, "smtp") as mail:
        identifier = receiver(appliance, mail, "smtp")
        assert tested(identifier)[0] == "delivered" and "this is a test" in str(mail.mails[0]["Subject"])
        mail.refuses = "452 4.3.1 the disk is full"
        state, status, problem = tested(identifier)
        assert (state, status) == ("failed", 452) and "the disk is full" in problem
        appliance.request("PATCH", f"/receivers/{identifier}", {"password": "another one"})
        state, status, problem = tested(identifier)
        assert (state, status) == ("failed", 535) and "535" in problem
        appliance.request("PATCH", f"/receivers/{identifier}", {"password": PASSWORD, "recipients": ["nobody@example.com"]})
        state, status, problem = tested(identifier)
        assert (state, status) == ("failed", 550) and "nobody@example.com" in problem
        other = receiver(appliance, mail, "smtp", name="without the certificate", certificate=None)
        assert "certificate verify failed" in tested(other)[2]
    assert "refused" in tested(identifier)[2]
    assert len(mail.mails) == 1


def test_a_server_that_is_full_gets_it_later(appliance: Appliance, tmp_path: Path) -> None:
    """By the same rules as webhooks: 4xx for a day, 5xx ten times."""
    with mail_server(tmp_path, "smtp") as mail:
        identifier = receiver(appliance, mail, "smtp")
        mail.refuses = "451 4.7.1 greylisted"
        raised_and_cleared(appliance)
        now = time.time()
        assert sent(appliance, now) == 1 and sent(appliance, now) == 0
        mail.refuses = None
        assert sent(appliance, now + 10) == 1 and len(mail.mails) == 1
        mail.refuses = "554 5.7.1 rejected"
        for attempt in range(10):
            assert sent(appliance, now + 10 + 4000 * (attempt + 1)) == 1
        states = [delivery["state"] for delivery in appliance.get(f"/receivers/{identifier}/deliveries")["items"]]
        assert states == ["failed", "delivered"]


def test_a_refused_recipient_does_not_repeat_the_mail_for_others(appliance: Appliance, tmp_path: Path) -> None:
    with mail_server(tmp_path, "smtp") as mail:
        path = f"/receivers/{receiver(appliance, mail, 'smtp', recipients=[OPS, 'nobody@example.com'])}"
        raised_and_cleared(appliance)
        turns = [sent(appliance, time.time() + 4000 * turn) for turn in range(10)]
        assert turns == [1, 1] + [0] * 8 and mail.to == [[OPS]] * 2
        ended = appliance.get(f"{path}/deliveries")["items"]
        assert {delivery["state"] for delivery in ended} == {"delivered"} and "nobody@example.com" in ended[0]["problem"]
        (alert,) = (alert for alert in appliance.get("/alerts")["items"] if alert["key"].startswith("receiver-"))
        assert "some recipients of mail do not get alerts" in alert["text"] and "nobody@example.com" in alert["text"]
        tested = appliance.request("POST", f"{path}/test").json
        assert tested is not None and tested["state"] == "failed" and "nobody@example.com" in tested["problem"]


def test_a_mail_is_repeated_for_a_recipient_that_was_refused_for_now(appliance: Appliance, tmp_path: Path) -> None:
    with mail_server(tmp_path, "smtp") as mail:
        receiver(appliance, mail, "smtp", recipients=[OPS, "later@example.com"])
        raised_and_cleared(appliance)
        for turn in range(3):
            sent(appliance, time.time() + 4000 * turn)
        assert mail.to == [[OPS], [OPS, "later@example.com"], [OPS, "later@example.com"]]


def test_an_accepted_mail_is_delivered_without_an_answer_to_quit(appliance: Appliance, tmp_path: Path) -> None:
    with mail_server(tmp_path, "smtp") as mail:
        path = f"/receivers/{receiver(appliance, mail, 'smtp')}"
        mail.hangs_up = True
        tested = appliance.request("POST", f"{path}/test").json
        assert tested is not None and (tested["state"], tested["problem"]) == ("delivered", None) and len(mail.mails) == 1


@pytest.mark.parametrize("scheme", ["smtps", "smtp"])
def test_a_connection_whose_time_ends_while_it_is_encrypted_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """The timer finds only the socket that was given to TLS."""

    class Slow(ssl.SSLContext):
        def wrap_socket(self, *values: Any, **named: Any) -> ssl.SSLSocket:
            stream = super().wrap_socket(*values, **named)
            for thread in threading.enumerate():
                if isinstance(thread, threading.Timer):
                    thread.join(60)
            return stream

    monkeypatch.setattr(connection, "TOTAL_S", 0.5)
    with mail_server(tmp_path, scheme) as mail:
        context = Slow(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=mail.pem)
        monkeypatch.setattr("appliance.notify.mail.context_for", lambda _: context)
        to = Destination(f"{scheme}://127.0.0.1:{mail.port}", sender="a@example.com", recipients=[OPS])
        outcome = deliver(to, "event", "test", '{"timestamp": 0, "data": {}}', TRUSTED)
    assert "no answer within" in str(outcome.problem) and not mail.mails


def test_without_starttls_only_trusted_networks_are_reached(appliance: Appliance, tmp_path: Path) -> None:
    with mail_server(tmp_path, "plain") as mail:
        receiver(appliance, mail, "smtp")
        raised_and_cleared(appliance)
        sender = Sender(appliance.store, appliance.service.context.seal, ())
        assert sender.turn(time.time()) == 1 and not mail.mails
        assert sent(appliance, time.time() + 10) == 1 and mail.encrypted == [False]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"recipients": []}, "recipients"),
        ({"recipients": ["ops"]}, "recipients"),
        ({"recipients": ["ops@example.com\r\nBcc: all@example.com"]}, "recipients"),
        ({"sender": ""}, "sender"),
        ({"user": None}, "password"),
        ({"password": None}, "password"),
        ({"url": "smtp://mail.example.com/path"}, "url"),
        ({"url": "smtp://user:secret@mail.example.com"}, "url"),
        ({"url": "https://receiver.example/"}, "recipients"),
        ({"url": "gopher://mail.example.com"}, "url"),
    ],
)
def test_invalid_mail_receivers(shared: Appliance, change: dict[str, Any], field: str) -> None:
    body = {"name": "mail", "url": "smtps://mail.example.com", "sender": "a@example.com", "recipients": [OPS], "user": "u"}
    answer = shared.request("POST", "/receivers", {**body, "password": PASSWORD, **change})
    assert answer.status_code == 422 and f'"{field}"' in answer.text, answer.text
    assert shared.get("/receivers")["items"] == []
