# SPDX-License-Identifier: Apache-2.0
"""One POST: its content, forbidden destinations, and misbehaving receivers."""

import base64
import hashlib
import hmac
import ipaddress
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from appliance.domain.receivers import new_secret
from appliance.notify import connection
from appliance.notify.connection import Outcome, may_go_to
from appliance.notify.delivery import Destination
from appliance.notify.delivery import deliver as deliver_to
from appliance.notify.tests.web_server import receiver

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


def deliver(url: str, secret: str, event: str, body: str, certificate: str | None = None, trusted: Any = ()) -> Outcome:
    return deliver_to(Destination(url, secret, certificate), event, "test", body, trusted)


def test_requests_are_signed(tmp_path: Path) -> None:
    """By the receiver's own calculation, over TLS, with the certificate checked."""
    secret = new_secret()
    with receiver(tmp_path) as server:
        outcome = deliver(server.url, secret, "event-1", '{"a": 1}', certificate=server.pem, trusted=LOOPBACK)
        assert (outcome.status, outcome.problem) == (204, None)
        headers, body = server.received[0]
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"event-1.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}" and headers["webhook-id"] == "event-1"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 30 and len(key) == 32
    assert body == b'{"a": 1}' and headers["Content-Type"] == "application/json"


def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    with receiver(tmp_path, address="0.0.0.0") as server:
        outcome = deliver(server.url, new_secret(), "e", "{}", trusted=LOOPBACK)
        assert outcome.status is None and "certificate verify failed" in str(outcome.problem)
        wrong_name = server.url.replace("127.0.0.1", "127.0.0.2")
        assert "mismatch" in str(deliver(wrong_name, new_secret(), "e", "{}", certificate=server.pem, trusted=LOOPBACK).problem)
        assert not server.received


def test_where_it_does_not_go(tmp_path: Path) -> None:
    with receiver(tmp_path, tls=False) as server:
        refused = deliver(server.url, new_secret(), "e", "{}")
        assert refused.status is None and "trusted_networks" in str(refused.problem)
        by_name = deliver(server.url.replace("127.0.0.1", "localhost").replace("http:", "https:"), new_secret(), "e", "{}")
        assert by_name.status is None and "trusted_networks" in str(by_name.problem)
        assert not server.received
        assert deliver(server.url, new_secret(), "e", "{}", trusted=LOOPBACK).status == 204
        assert len(server.received) == 1


@pytest.mark.parametrize(
    ("address", "plain", "goes"),
    [
        ("192.0.2.1", False, True),
        ("10.1.2.3", False, True),
        ("fd00::1", False, True),
        ("10.1.2.3", True, False),
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("::ffff:127.0.0.1", False, False),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("fe80::1%eth0", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
        ("224.0.0.1", False, False),
        ("255.255.255.255", False, False),
    ],
)
def test_addresses(address: str, plain: bool, goes: bool) -> None:
    assert may_go_to(address, plain, ()) is goes
    everything = tuple(ipaddress.ip_network(network) for network in ("0.0.0.0/0", "::/0"))
    assert may_go_to(address, plain, everything)


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with receiver(tmp_path / "a", tls=False) as other, receiver(tmp_path / "b", tls=False) as server:

        def elsewhere(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("Location", other.url)
            handler.end_headers()

        server.answer = elsewhere
        outcome = deliver(server.url, new_secret(), "e", "{}", trusted=LOOPBACK)
        assert outcome.status == 307 and outcome.problem is not None
        assert len(server.received) == 1 and not other.received


def test_a_receiver_that_dawdles_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then would otherwise hold who sends for ever; so would an answer without an end."""
    monkeypatch.setattr(connection, "TOTAL_S", 0.5)
    with receiver(tmp_path, tls=False) as server:

        def drips(handler: BaseHTTPRequestHandler) -> None:
            for _ in range(1000):
                handler.wfile.write(b"H")
                handler.wfile.flush()
                time.sleep(0.05)

        def floods(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            for _ in range(10_000):
                handler.wfile.write(bytes(1 << 20))

        for answer in (drips, floods):
            server.answer = answer
            began = time.monotonic()
            outcome = deliver(server.url, new_secret(), "e", "{}", trusted=LOOPBACK)
            assert time.monotonic() - began < 30
            if answer is drips:
                assert outcome.status is None and "no answer within" in str(outcome.problem)


def test_a_connection_that_is_made_after_its_time_is_not_used(tmp_path: Path) -> None:
    """The timer has nothing to cut then, and no other timer follows."""
    with receiver(tmp_path, tls=False) as server, pytest.raises(TimeoutError), connection.Bounded(60) as bounded:
        bounded._cut()
        bounded.connect(["127.0.0.1"], urlsplit(server.url).port or 0)


def test_a_resolver_that_does_not_answer_delays_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do many names that wait for it: their number is limited, and known addresses are served in the meantime."""
    monkeypatch.setattr(connection, "TOTAL_S", 0.2)
    go_on, real = threading.Event(), socket.getaddrinfo

    def resolves(host: str, *more: Any, **named: Any) -> Any:
        if host.endswith(".invalid"):
            assert go_on.wait(60)
            raise socket.gaierror("nobody knows it")
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolves)
    try:
        began = time.monotonic()
        outcome = deliver("https://absent.invalid/", new_secret(), "e", "{}")
        assert outcome.status is None and "no answer within" in str(outcome.problem) and time.monotonic() - began < 50
        monkeypatch.setattr(connection, "TOTAL_S", 0.01)
        problems = [deliver("https://absent.invalid/", new_secret(), "e", "{}").problem for _ in range(connection.RESOLVERS)]
        assert "none is answered" in str(problems[-1])
        waiting = [thread for thread in threading.enumerate() if thread.name == "resolving"]
        assert len(waiting) == connection.RESOLVERS
        monkeypatch.setattr(connection, "TOTAL_S", 15)
        with receiver(tmp_path, tls=False) as server:
            assert deliver(server.url, new_secret(), "e", "{}", trusted=LOOPBACK).status == server.answer
    finally:
        go_on.set()
    for thread in waiting:
        thread.join(60)
    assert "nobody knows it" in str(deliver("https://absent.invalid/", new_secret(), "e", "{}").problem)


def test_no_listener() -> None:
    outcome = deliver("http://127.0.0.1:1/", new_secret(), "e", "{}", trusted=LOOPBACK)
    assert outcome.status is None and "refused" in str(outcome.problem)
    assert deliver("https://absent.invalid/", new_secret(), "e", "{}").status is None
