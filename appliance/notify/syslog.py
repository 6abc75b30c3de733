# SPDX-License-Identifier: Apache-2.0
"""Alerts by syslog, as RFC 5424 has a message.

    syslog:///dev/log         this server's own socket, for its journal
    syslog://HOST[:514]       UDP, a datagram each (RFC 5426): nobody answers that it came
    syslog+tcp://HOST[:601]   TCP, with the message's length before it (RFC 6587, octet counting)
    syslog+tls://HOST[:6514]  the same in TLS (RFC 5425)

What leaves this server without TLS goes to trusted networks only.
"""

import contextlib
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from appliance.notify.connection import Network, Outcome, connecting
from appliance.notify.message import Message
from appliance.tls import context_for

PORTS = {"syslog": 514, "syslog+tcp": 601, "syslog+tls": 6514}
_FACILITY = 3  # "system daemons", RFC 5424 table 1
_SEVERITIES = {"critical": 2, "warning": 4, "info": 6}  # table 2
_NOTICE = 5
_LONGEST_UDP = 2048  # RFC 5424, 6.1: every receiver should accept this length
_CLOSING_S = 2.0


def frame(message: Message, host: str) -> bytes:
    """RFC 5424, 6: header, structured data, and the text, with a byte order mark unless it is ASCII."""
    priority = _FACILITY * 8 + (_NOTICE if message.kind == "alert.cleared" else _SEVERITIES[message.severity])
    at = datetime.fromtimestamp(message.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    data = {"id": message.event, "severity": message.severity, "subject": message.subject}
    # 32473 is the enterprise number for documentation (RFC 5612): zvaai has none.
    structured = "[zvaai@32473 " + " ".join(f'{name}="{_escaped(value)}"' for name, value in data.items()) + "]"
    text = message.line + (f" -- {message.remedy}" if message.remedy else "")
    mark = "" if text.isascii() else "\ufeff"
    return f"<{priority}>1 {at} {_name(host)} zvaai {os.getpid()} {message.kind} {structured} {mark}{text}".encode()


def _escaped(value: str) -> str:
    """RFC 5424, 6.3.3."""
    return "".join(f"\\{character}" if character in '"\\]' else character for character in value)


def _name(host: str) -> str:
    """HOSTNAME: 1 to 255 printable ASCII characters."""
    return "".join(character for character in host if "!" <= character <= "~")[:255] or "-"


def send(url: str, message: Message, *, certificate: str | None = None, trusted: Sequence[Network] = ()) -> Outcome:
    """Tries once. Raises OSError, NotAllowedError."""
    parts = urlsplit(url)
    framed = frame(message, socket.gethostname())
    if not parts.hostname:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
            local.connect(parts.path)
            local.send(framed)
        return Outcome(None, None)
    host, port = parts.hostname, parts.port or PORTS[parts.scheme]
    with connecting(host, port, parts.scheme != "syslog+tls", trusted) as (bounded, addresses):
        if parts.scheme == "syslog":
            family = socket.AF_INET6 if ":" in addresses[0] else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
                datagrams.connect((addresses[0], port))
                datagrams.send(framed[:_LONGEST_UDP])
            return Outcome(None, None)
        stream = bounded.connect(addresses, port)
        if parts.scheme == "syslog+tls":
            stream = bounded.encrypt(context_for(certificate), host)
        stream.sendall(f"{len(framed)} ".encode() + framed)
        _close(stream)
    return Outcome(None, None)


def _close(stream: socket.socket) -> None:
    """Closes a connection. Receivers send no confirmation, but a failed one resets the connection: waits a moment for that.
    Raises OSError.
    """
    stream.settimeout(_CLOSING_S)
    if isinstance(stream, ssl.SSLSocket):
        with contextlib.suppress(TimeoutError, ssl.SSLError):
            stream.unwrap()
        return
    stream.shutdown(socket.SHUT_WR)
    with contextlib.suppress(TimeoutError):
        while stream.recv(4096):
            pass
