# SPDX-License-Identifier: Apache-2.0
"""An ACME server (RFC 8555) for one client: challenges by HTTP at port 80, no check of signatures.

usage: python3 -m support.acme ADDRESS PORT CLIENT     CLIENT: address of every name. Prints "ready" once it serves.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import http.server
import json
import secrets
import sys
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509

from support.authority import Authority


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def thumbprint(key: dict[str, str]) -> str:
    """RFC 7638, section 3."""
    required = {name: key[name] for name in ("crv", "e", "kty", "n", "x", "y") if name in key}
    text = json.dumps(required, sort_keys=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@dataclass
class Order:
    """Of one name."""

    name: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    status: str = "pending"
    certificate: str = ""


class Acme(http.server.BaseHTTPRequestHandler):
    authority = Authority("ACME")
    client = ""
    key: dict[str, str] = {}
    """Of the account (JWK)."""
    orders: list[Order] = []

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def url(self, path: str) -> str:
        return f"http://{self.headers['Host']}/{path}"

    def answer(self, status: int, body: object, location: str = "") -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Replay-Nonce", secrets.token_urlsafe(16))
        self.send_header("Content-Type", "application/pem-certificate-chain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_HEAD(self) -> None:
        self.answer(200, "")

    def do_GET(self) -> None:
        paths = {"newNonce": "nonce", "newAccount": "account", "newOrder": "order", "revokeCert": "revoke", "keyChange": "key"}
        self.answer(200, {name: self.url(path) for name, path in paths.items()})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        header = json.loads(decoded(request["protected"]))
        payload = json.loads(decoded(request["payload"]) or b"{}")
        kind, _, number = self.path.strip("/").partition("/")
        if kind == "account":
            Acme.key = header.get("jwk", self.key)
            self.answer(200 if number else 201, {"status": "valid", "orders": self.url("orders")}, self.url("account/0"))
        elif not number:
            self.orders.append(Order(payload["identifiers"][0]["value"]))
            number = str(len(self.orders) - 1)
            self.answer(201, self.described(number), self.url(f"order/{number}"))
        else:
            self.answer(200, self.step(kind, number, payload))

    def step(self, kind: str, number: str, payload: dict[str, Any]) -> object:
        """The answer to a request about an order."""
        order = self.orders[int(number)]
        if kind == "challenge":
            order.status = "ready" if self.proven(order) else "invalid"
        elif kind == "finalize":
            request = x509.load_der_x509_csr(decoded(payload["csr"]))
            order.certificate = self.authority.sign(request, order.name) + self.authority.certificate
            order.status = "valid"
        elif kind == "certificate":
            return order.certificate
        proven = {"pending": "pending", "invalid": "invalid"}.get(order.status, "valid")
        challenge = {"type": "http-01", "url": self.url(f"challenge/{number}"), "token": order.token, "status": proven}
        if kind == "challenge":
            return challenge
        if kind == "authorization":
            return {"status": proven, "identifier": {"type": "dns", "value": order.name}, "challenges": [challenge]}
        return self.described(number)

    def described(self, number: str) -> dict[str, Any]:
        order = self.orders[int(number)]
        return {
            "status": order.status,
            "identifiers": [{"type": "dns", "value": order.name}],
            "authorizations": [self.url(f"authorization/{number}")],
            "finalize": self.url(f"finalize/{number}"),
            **({"certificate": self.url(f"certificate/{number}")} if order.certificate else {}),
        }

    def proven(self, order: Order) -> bool:
        """Whether the client has the key authorization at its port 80 (RFC 8555, section 8.3)."""
        connection = http.client.HTTPConnection(self.client, 80, timeout=30)
        connection.request("GET", f"/.well-known/acme-challenge/{order.token}", headers={"Host": order.name})
        return connection.getresponse().read().decode().strip() == f"{order.token}.{thumbprint(self.key)}"


def main(address: str, port: str, client: str) -> None:
    Acme.client = client
    with http.server.ThreadingHTTPServer((address, int(port)), Acme) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
