# SPDX-License-Identifier: Apache-2.0
"""One POST to a webhook, signed by Standard Webhooks. Follows no redirect, and reads only the status of the answer."""

import base64
import hashlib
import hmac
import http.client
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from appliance.notify.connection import Network, Outcome, connecting
from appliance.tls import context_for

_LONGEST_ANSWER = 64 << 10
_USER_AGENT = "zvaai"


def sign(secret: str, event: str, timestamp: int, body: bytes) -> str:
    """Standard Webhooks: `v1,` and the HMAC-SHA256 of identifier, timestamp and body, by the secret's decoded part."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{event}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def post(
    url: str, secret: str, event: str, body: str, *, certificate: str | None = None, trusted: Sequence[Network] = ()
) -> Outcome:
    """Tries once. Raises OSError, HTTPException, ValueError, NotAllowedError."""
    parts = urlsplit(url)
    plain, host = parts.scheme == "http", parts.hostname or ""
    port = parts.port or (80 if plain else 443)
    timestamp = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": _USER_AGENT,
        "Connection": "close",
        "webhook-id": event,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, event, timestamp, body.encode()),
    }
    with connecting(host, port, plain, trusted) as (bounded, addresses):
        connection: http.client.HTTPConnection
        stream = bounded.connect(addresses, port)
        if plain:
            connection = http.client.HTTPConnection(host, port)
        else:
            context = context_for(certificate)
            connection = http.client.HTTPSConnection(host, port, context=context)
            stream = bounded.encrypt(context, host)
        connection.sock = stream
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body.encode(), headers)
        answer = connection.getresponse()
        answer.read(_LONGEST_ANSWER)
    if 200 <= answer.status < 300:
        return Outcome(answer.status, None)
    return Outcome(answer.status, f"answered {answer.status}", 300 <= answer.status < 500 and answer.status not in (408, 429))
