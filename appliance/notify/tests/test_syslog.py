# SPDX-License-Identifier: Apache-2.0
"""Alerts by syslog, as a real socket receives them: UDP, TCP, TLS and the local one."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from appliance.api import certificate
from appliance.notify.connection import Outcome
from appliance.notify.delivery import Destination, deliver
from appliance.notify.message import Message
from appliance.notify.syslog import frame

TRUSTED = (ip_network("127.0.0.0/8"),)
BODY = (
    '{"id": "e1", "type": "alert.raised", "timestamp": 1795600000.25, "data": {"id": 7, "severity": "warning",'
    ' "subject": "tank \\"]\\\\", "text": "80 % is used", "remedy": "add vdevs"}}'
)
RFC_5424 = re.compile(
    rb"<(?P<priority>[0-9]{1,3})>1 (?P<time>[0-9T:.-]+Z) (?P<host>[!-~]{1,255}) zvaai (?P<pid>[0-9]+) (?P<kind>[a-z.]+) "
    rb'(?P<data>\[zvaai@32473( [a-z]+="([^"\\\]]|\\["\\\]])*")+\]) (?P<text>.*)',
    re.DOTALL,
)


def is_right(framed: bytes) -> None:
    """By the grammar of RFC 5424, 6."""
    match = RFC_5424.fullmatch(framed)
    assert match is not None, framed
    assert match["priority"] == b"28" and match["kind"] == b"alert.raised"  # daemon.warning: 3 * 8 + 4
    assert match["time"] == b"2026-11-25T09:46:40.250Z"
    assert rb'subject="tank \"\]\\"' in match["data"] and b'id="e1"' in match["data"]
    assert b"WARNING" in match["text"] and b"80 % is used -- add vdevs" in match["text"]


def send(url: str, certificate: str | None = None) -> Outcome:
    return deliver(Destination(url, certificate=certificate), "e1", "alert.raised", BODY, TRUSTED)


def test_datagrams(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(30)
        assert send(f"syslog://127.0.0.1:{listener.getsockname()[1]}").problem is None
        is_right(listener.recv(65536))
    local = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(local))
        listener.settimeout(30)
        assert send(f"syslog://{local}").problem is None
        is_right(listener.recv(65536))


@pytest.fixture
def served() -> Callable[..., tuple[int, list[bytes], threading.Thread]]:
    """A receiver of one connection: its port, and the received bytes after the end of the thread."""

    def serve(context: ssl.SSLContext | None = None) -> tuple[int, list[bytes], threading.Thread]:
        came: list[bytes] = []
        listening = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            with listening:
                stream, _ = listening.accept()
            if context is not None:
                try:
                    stream = context.wrap_socket(stream, server_side=True)
                except ssl.SSLError:  # a client that does not trust the certificate
                    return
            with stream:
                stream.settimeout(30)
                whole = b""
                while part := stream.recv(4096):
                    whole += part
                came.append(whole)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return listening.getsockname()[1], came, thread

    return serve


def counted(came: list[bytes]) -> bytes:
    """RFC 6587, 3.4.1: MSG-LEN, a space, and so many bytes."""
    (whole,) = came
    length, _, framed = whole.partition(b" ")
    assert int(length) == len(framed)
    return framed


def test_tcp(served: Callable[..., tuple[int, list[bytes], threading.Thread]]) -> None:
    port, came, thread = served()
    assert send(f"syslog+tcp://127.0.0.1:{port}").problem is None
    thread.join(30)
    is_right(counted(came))


def test_tls(served: Callable[..., tuple[int, list[bytes], threading.Thread]], tmp_path: Path) -> None:
    certificate.ensure(tmp_path)
    file = tmp_path / certificate.CERTIFICATE
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, file.with_name(certificate.KEY))
    pem = file.read_text()
    port, came, thread = served(context)
    assert send(f"syslog+tls://127.0.0.1:{port}", pem).problem is None
    thread.join(30)
    is_right(counted(came))
    port, came, _ = served(context)
    assert "certificate verify failed" in str(send(f"syslog+tls://127.0.0.1:{port}").problem) and not came


def test_a_closed_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "refused" in str(send(f"syslog+tcp://127.0.0.1:{port}").problem)
    assert send(f"syslog://{tmp_path}/absent").problem is not None
    untrusted = deliver(Destination("syslog://127.0.0.1:514"), "e1", "alert.raised", BODY)
    assert "trusted_networks" in str(untrusted.problem)


def test_texts_beyond_ascii_have_a_mark() -> None:
    """RFC 5424, 6.4: UTF-8 begins with the byte order mark."""
    message = Message("e", "alert.cleared", 0.0, "critical", "tänk", "x", "", "t")
    framed = frame(message, "hôst name")
    assert framed.startswith(b"<29>1 1970-01-01T00:00:00.000Z hstname zvaai ")  # daemon.notice
    assert b"] \xef\xbb\xbfCRITICAL (cleared): " in framed and "tänk".encode() in framed
