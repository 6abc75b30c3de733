# SPDX-License-Identifier: Apache-2.0
"""nginx with the installed configuration, in front of the real API process and worker.

Clients send little, nothing, or too much at once. Some limits are shorter here.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from support.appliance import PYTHONPATH
from support.authority import Authority, pem_of
from support.frontend import Frontend
from support.programs import REPOSITORY, wait_for

from appliance.api import certificate
from appliance.api.events import STREAMS
from appliance.tls import context_for

THREADS = 12
MOST_OF_ONE = 24
"""Concurrent requests per address, as in nginx.conf."""
HEALTH = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
DOCUMENT = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BODY = b"POST /api/v1/hosts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
"""A body without an end."""
PAGE, SCRIPT = b"<!doctype html>the page", b"export {};" * 100


def slow_reader(frontend: Frontend, address: str) -> ssl.SSLSocket:
    """A TLS connection with a small receive buffer."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(60)
    plain.bind((address, 0))
    plain.connect(("127.0.0.1", frontend.port))
    return frontend.context().wrap_socket(plain, server_hostname="localhost")


class ServiceStack(Frontend):
    """nginx, the HTTP process and the worker behind it, and clients."""

    def __init__(self, directory: Path, port: int, change: Callable[[str], str]) -> None:
        site = directory / "site"
        (site / "assets").mkdir(parents=True)
        for name, content in {
            "index.html": PAGE,
            "assets/main-abc.js": SCRIPT,
            "assets/main-abc.js.gz": gzip.compress(SCRIPT, mtime=0),
            "notes.unknown": b"of no known kind",
            "../secret.txt": b"not of the site",
        }.items():
            (site / name).write_bytes(content)
        super().__init__(directory / "frontend", port, directory / "http.sock", site, change)
        self.directory, self.api_log = directory, directory / "api.log"
        (directory / "appliance.toml").write_text(
            f"""
            state_directory = "{directory}/state"
            runtime_directory = "{directory}/run"
            [http]
            socket = "{directory}/http.sock"
            threads = {THREADS}
            certificate = "{self.certificate}"
            uploads = "{directory}/uploads"
            """
        )
        environment = {**os.environ, "ZVAAI_CONFIG": str(directory / "appliance.toml"), "PYTHONPATH": PYTHONPATH}
        with self.api_log.open("wb") as log:
            options: dict[str, Any] = {"stdout": log, "stderr": log, "env": environment}
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "simulators.worker", "--target", "--volumes", str(directory / "volumes")], **options
            )
            self.api = subprocess.Popen([sys.executable, "-m", "appliance.gateway"], **options)
        self.start()
        wait_for(lambda: self.healthy("127.0.0.1"), "the API responds")
        wait_for((directory / "state/setup-code").exists, "the worker has its one-time code")

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        """Connects from an address of this machine."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(address, 0))

    def tls(self, address: str = "127.0.0.1") -> ssl.SSLSocket:
        """The same, encrypted."""
        return self.context().wrap_socket(self.connect(address), server_hostname="localhost")

    def slow_reader(self, address: str) -> ssl.SSLSocket:
        return slow_reader(self, address)

    def healthy(self, address: str) -> bool:
        """Whether a client at this address gets an API response."""
        with contextlib.suppress(OSError), self.tls(address) as connection:
            connection.sendall(HEALTH)
            return connection.recv(4096).startswith(b"HTTP/1.1 200")
        return False

    def client(self) -> httpx.Client:
        """A client of the site."""
        return httpx.Client(base_url=f"https://localhost:{self.port}", verify=self.context(), timeout=60)

    def cookie(self) -> str:
        """Session cookie of the first admin, who is created at the first call."""
        admin = {"name": "admin", "password": "correct horse battery"}
        with self.client() as client:
            code = self.directory / "state/setup-code"
            if code.exists():
                made = client.post("/api/v1/setup", json={"code": code.read_text().strip(), **admin})
                assert made.status_code == 201, made.text
            assert client.post("/api/v1/session", json=admin).status_code == 201
            return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


@contextlib.contextmanager
def opened(directory: Path, port: int, change: Callable[[str], str] = lambda text: text) -> Iterator[ServiceStack]:
    """Both end well."""
    service = ServiceStack(directory, port, change)
    try:
        yield service
        assert service.stop() == 0
        for process in (service.api, service.worker):
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
        assert "Traceback" not in service.api_log.read_text(), service.api_log.read_text()
        check_log(service)
    finally:
        for process in (service.api, service.worker):
            if process.poll() is None:
                process.kill()
                process.wait()


def check_log(frontend: Frontend) -> None:
    log = frontend.log.read_text()
    assert "[emerg]" not in log and "[alert]" not in log, log


def _timeouts(text: str, value: str) -> str:
    """Sets how long nginx waits for a client."""
    return re.sub(r"((?:client_header|client_body|send)_timeout) \d+s", rf"\1 {value}", text)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceStack]:
    """The service as it is installed, but no client is too slow for it."""
    with opened(tmp_path_factory.mktemp("frontend"), 8444, partial(_timeouts, value="1h")) as service:
        yield service


def _soon(text: str) -> str:
    return re.sub(r"worker_connections \d+", "worker_connections 128", _timeouts(text, "2s"))


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceStack]:
    """Short timeouts, few connections."""
    with opened(tmp_path_factory.mktemp("hasty"), 8445, _soon) as service:
        yield service


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed the connection; discards its last data."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while connection.recv(65536):
            pass
    return True


def response(connection: socket.socket) -> bytes:
    """All that it says."""
    said = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(65536):
            said += part
    return said


# --- slow clients


@pytest.mark.parametrize("said", [b"", b"\x16"], ids=["nothing", "one byte"])
def test_a_client_without_a_handshake_is_disconnected(hasty: ServiceStack, said: bytes) -> None:
    held = [hasty.connect(f"127.0.1.{number % 4 + 1}") for number in range(2 * THREADS)]
    for connection in held:
        connection.sendall(said)
    wait_for(lambda: hasty.healthy("127.0.0.9"), "others get a response")
    assert all(closed(connection) for connection in held)
    for connection in held:
        connection.close()


@pytest.mark.parametrize("said", [HEALTH[:20], BODY], ids=["header", "body"])
def test_a_request_that_does_not_arrive_is_ended(hasty: ServiceStack, said: bytes) -> None:
    with hasty.tls("127.0.8.5") as connection:
        connection.sendall(said)
        assert response(connection) == b""


def test_slow_requests_hold_no_thread(service: ServiceStack) -> None:
    """From four addresses, twice as many as the API has threads."""
    held = [service.tls(f"127.0.8.{number % 4 + 1}") for number in range(2 * THREADS)]
    for number, connection in enumerate(held):
        connection.sendall((HEALTH[:20], BODY)[number % 2])
    assert service.healthy("127.0.0.9")
    for connection in held:
        connection.setblocking(False)
        with pytest.raises((BlockingIOError, ssl.SSLWantReadError)):  # neither closed nor answered
            connection.recv(1)
        connection.close()


def test_slow_readers_hold_no_thread(service: ServiceStack) -> None:
    held = [service.slow_reader(f"127.0.9.{number % 4 + 1}") for number in range(THREADS + 4)]
    for connection in held:
        connection.sendall(DOCUMENT)
    assert service.healthy("127.0.0.9")
    for connection in held:
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.close()


def test_a_response_that_is_taken_slowly_is_whole(service: ServiceStack) -> None:
    with service.tls("127.0.9.9") as connection:
        connection.sendall(DOCUMENT)
        said = b""
        while part := connection.recv(16384):
            said += part
            time.sleep(0.002)
    head, _, body = said.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.lower() and json.loads(body)["openapi"] == "3.1.0"


def test_a_response_that_is_not_taken_is_ended(hasty: ServiceStack) -> None:
    requested = DOCUMENT.replace(b"Connection: close\r\n", b"")
    with hasty.slow_reader("127.0.4.1") as connection, pytest.raises((ConnectionError, ssl.SSLError)):  # and not TimeoutError
        while True:
            connection.sendall(requested)


# --- floods


def test_one_address_cannot_take_all_requests(service: ServiceStack) -> None:
    held = [service.tls("127.0.5.1") for _ in range(MOST_OF_ONE)]
    for connection in held:
        connection.sendall(BODY)

    def refused() -> bool:
        with service.tls("127.0.5.1") as surplus:
            surplus.sendall(HEALTH)
            said = response(surplus)
        return said.startswith(b"HTTP/1.1 429 ") and b"Retry-After: 1" in said and b"application/problem+json" in said

    wait_for(refused, "one request too many is refused")
    assert service.healthy("127.0.0.9")
    for connection in held:
        connection.close()
    wait_for(lambda: service.healthy("127.0.5.1"), "requests are admitted again")


def test_slow_readers_of_files_do_not_shut_others_out(tmp_path: Path) -> None:
    """The installed limit is too high: nginx could end the first reader before the last one is there."""
    large = b"GET /large.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site/large.js").write_bytes(b"x" * (8 << 20))
    changed = ("limit_conn files 200;", "limit_conn files 4;")
    frontend = Frontend(tmp_path / "few", 8449, tmp_path / "http.sock", tmp_path / "site", lambda text: text.replace(*changed))
    frontend.start()
    try:
        with contextlib.ExitStack() as held:
            for answer in (b"200", b"200", b"200", b"200", b"429"):
                connection = held.enter_context(slow_reader(frontend, "127.0.6.1"))
                connection.sendall(large)
                assert connection.recv(12) == b"HTTP/1.1 " + answer
            other = held.enter_context(slow_reader(frontend, "127.0.6.2"))
            other.sendall(large)
            assert other.recv(12) == b"HTTP/1.1 200"
    finally:
        assert frontend.stop() == 0


@pytest.mark.parametrize(
    ("method", "path", "zone"), [("GET", "events", "api"), ("POST", "setup/administrator", "login"), ("POST", "session", "login")]
)
def test_anonymous_requests_are_limited(tmp_path: Path, method: str, path: str, zone: str) -> None:
    """Without the API nginx answers at once, so that a low limit is reached for sure."""

    def limit(text: str) -> str:
        return re.sub(
            rf"zone={zone} burst=\d+", f"zone={zone} burst=10", re.sub(rf"zone={zone}:2m .*;", f"zone={zone}:2m rate=1r/s;", text)
        )

    frontend = Frontend(tmp_path / "limited", 8448, tmp_path / "http.sock", change=limit)
    frontend.start()
    try:
        with httpx.Client(verify=frontend.context(), timeout=60) as client:
            url = f"https://localhost:8448/api/v1/{path}"
            responses = [client.request(method, url) for _ in range(100)]
            assert {response.status_code for response in responses} == {502, 429}
            refused = next(response for response in responses if response.status_code == 429)
            assert refused.json()["retry_after"] == 1 and refused.headers["Retry-After"] == "1"
            if zone == "login":
                assert client.get("https://localhost:8448/api/v1/health/live").status_code == 502, "other requests are admitted"
    finally:
        assert frontend.stop() == 0


def test_connections_that_say_nothing_do_not_shut_others_out(hasty: ServiceStack) -> None:
    """More connections than nginx has slots: nginx closes those that have sent nothing."""
    held = [hasty.connect(f"127.0.2.{number % 8 + 1}") for number in range(160)]
    wait_for(lambda: hasty.healthy("127.0.0.9"), "others get a response")
    for connection in held:
        connection.close()


# --- refused requests


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 500_000, 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Field: abcdefgh\r\n" * 4000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Field: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 405),
        (b"\x00\x01\x02\r\n\r\n", 400),
    ],
    ids=[
        "body",
        "header",
        "field",
        "address",
        "two lengths",
        "negative length",
        "length and chunks",
        "no host",
        "method",
        "bytes",
    ],
)
def test_a_request_that_is_refused_gets_a_problem(service: ServiceStack, request_: bytes, status: int) -> None:
    with service.tls("127.0.10.1") as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request_)
        said = response(connection)
    assert said.startswith(f"HTTP/1.1 {status} ".encode()), said[:200]
    problem = json.loads(said.partition(b"\r\n\r\n")[2])
    assert problem["status"] == status and problem["detail"] and problem["code"]


def test_a_body_in_chunks_is_bounded_too(service: ServiceStack) -> None:
    head = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with service.tls("127.0.10.4") as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head)
            for _ in range(20):
                connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        assert response(connection).startswith(b"HTTP/1.1 413 ")


def test_two_requests_in_one_piece_and_one_in_many(service: ServiceStack) -> None:
    with service.tls("127.0.10.2") as connection:
        connection.sendall(HEALTH.replace(b"Connection: close\r\n", b"") + HEALTH)
        assert response(connection).count(b"HTTP/1.1 200") == 2
    with service.tls("127.0.10.2") as connection:
        for byte in HEALTH:
            connection.sendall(bytes([byte]))
        assert response(connection).startswith(b"HTTP/1.1 200")


def test_expect_100_continue_is_answered(service: ServiceStack) -> None:
    body = b'{"name": "x", "password": "y"}'
    head = f"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n"
    with service.tls("127.0.10.3") as connection:
        connection.sendall(head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert b"HTTP/1.1 401 " in response(connection)


def test_resets_and_other_protocols_end_nothing(service: ServiceStack) -> None:
    for _ in range(50):
        with service.connect("127.0.6.1") as connection:
            connection.sendall(b"\x16\x03\x01")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    for said in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0" * 4096, b"\x16\x03\x01\xff\xff" + b"\xff" * 512):
        with service.connect("127.0.7.1") as connection:
            connection.sendall(said)
            assert closed(connection)
    assert service.healthy("127.0.7.1")
    assert service.api_log.read_text().count("Booting worker") == 1


def test_nginx_sets_the_address_of_a_client(service: ServiceStack) -> None:
    """The audit has the client's address, whatever headers the client sends."""
    with service.client() as client:
        sent = client.post(
            "/api/v1/session",
            json={"name": "nobody", "password": "x"},
            headers={"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.7", "X-Real-IP": "198.51.100.7"},
        )
        assert sent.status_code == 401
        entries = client.get("/api/v1/audit", headers={"Cookie": service.cookie()}).json()["items"]
    assert entries and "198.51.100.7" not in {entry["address"] for entry in entries}


# --- certificate, streams of events


def test_a_new_certificate_drops_no_connection(service: ServiceStack) -> None:
    with service.tls("127.0.11.1") as stream, service.tls("127.0.11.2") as idle:
        stream.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nCookie: {service.cookie()}\r\n\r\n".encode())
        assert stream.recv(12) == b"HTTP/1.1 200"
        begun = BODY.replace(b"900", b"12") + b'"name": '
        idle.sendall(begun[:-6])
        (service.certificates / certificate.KEY).unlink()
        service.fingerprint = certificate.ensure(service.certificates)

        def presented() -> bool:
            presented = ssl.get_server_certificate(("127.0.0.1", service.port))
            return presented.strip() == service.certificate.read_text().strip()

        assert not presented()
        service.reload()
        wait_for(presented, "the new certificate is presented")
        idle.sendall(begun[-6:] + b"   }")
        assert idle.recv(12) == b"HTTP/1.1 401"
        stream.settimeout(60)
        seen = b""
        while b": here" not in seen:  # the comment every 25 s
            part = stream.recv(65536)
            assert part, "the stream has ended"
            seen += part


def test_an_uploaded_certificate_is_served_with_its_chain(tmp_path: Path) -> None:
    """Uploaded by the API, taken at the reload. Clients that trust the authority accept it by name."""
    authority, key = Authority(), ec.generate_private_key(ec.SECP256R1())
    chain = authority.sign(key, "localhost") + authority.certificate
    (tmp_path / "uploads").mkdir()
    with opened(tmp_path, 8447) as service:
        with service.client() as client:
            client.headers["Cookie"] = service.cookie()
            client.headers["X-CSRF-Token"] = client.get("/api/v1/session").json()["csrf_token"]
            answer = client.put("/api/v1/certificate", json={"certificate": chain, "private_key": pem_of(key)})
            assert answer.status_code == 200, answer.text
        assert not trusts(service, authority)
        certificate.main(service.certificates, tmp_path / "uploads")
        service.reload()
        wait_for(lambda: trusts(service, authority), "the uploaded certificate is presented")


def trusts(service: Frontend, authority: Authority) -> bool:
    """Whether a client that trusts this authority accepts the certificate of localhost."""
    with (
        contextlib.suppress(ssl.SSLCertVerificationError),
        socket.create_connection(("127.0.0.1", service.port), timeout=60) as plain,
        context_for(authority.certificate).wrap_socket(plain, server_hostname="localhost"),
    ):
        return True
    return False


def test_certbots_renewed_certificate_is_served(tmp_path: Path) -> None:
    """The hook runs as certbot runs it. What browsers would refuse, or does not fit its key, is not handed over.

    nginx needs no API for that.
    """
    uploads, lineage = tmp_path / "uploads", tmp_path / "live"
    uploads.mkdir()
    lineage.mkdir()

    def renew(authority: Authority, name: str, matching_key: bool = True) -> int:
        key = ec.generate_private_key(ec.SECP256R1())
        (lineage / "fullchain.pem").write_text(authority.sign(key, name) + authority.certificate)
        (lineage / "privkey.pem").write_text(pem_of(key if matching_key else ec.generate_private_key(ec.SECP256R1())))
        environment = {"RENEWED_LINEAGE": str(lineage), "RENEWED_DOMAINS": name, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.run(
            [REPOSITORY / "packaging/debian/bin/certbot-deploy", uploads], env=environment, check=False
        ).returncode

    service = Frontend(tmp_path / "frontend", 8447, tmp_path / "http.sock")
    service.start()
    try:
        for authority in (Authority("first"), Authority("second")):
            assert not trusts(service, authority)
            assert renew(authority, "localhost") == 0
            assert (uploads / certificate.UPLOAD).stat().st_mode & 0o777 == 0o640
            certificate.main(service.certificates, uploads)
            service.reload()
            wait_for(partial(trusts, service, authority), "the renewed certificate is presented")
        assert renew(Authority("third"), "localhost", matching_key=False) != 0
        assert not (uploads / certificate.UPLOAD).exists()
    finally:
        assert service.stop() == 0
    check_log(service)


def test_streams_of_closed_browsers_are_freed(service: ServiceStack) -> None:
    """A browser leaves a stream behind each time it reloads a page."""
    requested = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nCookie: {service.cookie()}\r\n\r\n".encode()
    held: list[ssl.SSLSocket] = []

    def streams() -> bool:
        connection = service.tls(f"127.0.12.{len(held) % 4 + 1}")
        connection.sendall(requested)
        held.append(connection)
        return connection.recv(12) == b"HTTP/1.1 200"

    wait_for(streams, "a stream is free")  # the stream of the previous test may have just ended
    assert [streams() for _ in range(STREAMS)].count(False) >= 1
    for connection in held:
        connection.close()
    began = time.monotonic()
    wait_for(streams, "a stream is free again")
    assert time.monotonic() - began < 15, "only the next comment of the stream, after 25 s, has shown that they are closed"
    for connection in held:
        connection.close()


# --- the console


@pytest.mark.parametrize("path", ["/", "/datastores", "/datastores/1234/overview", "/apiary"])
def test_screens_get_the_page(service: ServiceStack, path: str) -> None:
    with service.client() as client:
        response = client.get(path)
    assert (response.status_code, response.content) == (200, PAGE)
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    ["/assets/gone-123.js", "/secret.txt", "/../secret.txt", "/%2e%2e/secret.txt", "/assets/../../secret.txt", "/notes.unknown",
     "/assets/main-abc.js.gz", "/api", "/api/", "/api/v1/nothing", "//secret.txt", "/.hidden", "/assets/%00.js"],
)  # fmt: skip
def test_a_path_without_a_file_is_not_found(service: ServiceStack, path: str) -> None:
    with service.tls() as connection:  # unnormalized, which a client would not send
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        said = response(connection)
    assert said.split(b" ", 2)[1] in (b"404", b"400"), said
    assert b"not of the site" not in said


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "gzip"), ("identity", None), ("gzip;q=0", None)])
def test_scripts_are_compressed_and_cached(service: ServiceStack, accepted: str, encoding: str | None) -> None:
    with service.client() as client:
        response = client.get("/assets/main-abc.js", headers={"Accept-Encoding": accepted})
    assert response.headers.get("Content-Encoding") == encoding and response.content == SCRIPT
    assert response.headers["Vary"] == "Accept-Encoding"
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"


def test_known_versions_are_not_sent_again(service: ServiceStack) -> None:
    with service.client() as client:
        tag = client.get("/").headers["ETag"]
        again = client.get("/", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_nothing_inline_and_nothing_from_elsewhere(service: ServiceStack) -> None:
    with service.client() as client:
        page, problem, api = client.get("/").headers, client.get("/gone.js").headers, client.get("/api/v1/health/live").headers
    for headers in (page, problem):
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer" and headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert api.get_list("Content-Security-Policy") == ["default-src 'none'; frame-ancestors 'none'"]
    assert all(answer["Strict-Transport-Security"] == "max-age=31536000" for answer in (page, problem, api))
    assert all("nginx/" not in answer["Server"] for answer in (page, problem, api)), "no version"


def test_without_the_api_the_problem_says_so(tmp_path: Path) -> None:
    frontend = Frontend(tmp_path / "alone", 8446, tmp_path / "http.sock")
    frontend.start()
    try:
        response = httpx.get("https://localhost:8446/api/v1/status", verify=frontend.context(), timeout=60)
        assert (response.status_code, response.headers["Retry-After"]) == (502, "2")
        assert response.json()["code"] == "unavailable" and "systemctl status zvaai-api" in response.json()["detail"]
    finally:
        assert frontend.stop() == 0
