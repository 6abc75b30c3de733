# SPDX-License-Identifier: Apache-2.0
"""The API's process alone, with connections that say little, nothing, or too much at once. Its limits are short here."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.programs import REPOSITORY, wait_for

from appliance.api.events import STREAMS

THREADS, CONNECTIONS = 12, 60
MOST_OF_ONE = CONNECTIONS * 2 // 3
START = """
import sys
from appliance.api import connections, events, tls
connections.SILENT_S, connections.READ_S, tls.WRITE_S, connections.LEAVE_S = map(float, sys.argv[1:])
connections.CONNECTIONS, connections.REFUSED_AT_ONCE, connections.LARGE_AT_ONCE = 60, 2, 3
events._COMMENT_S = 3600.0
from appliance.api.__main__ import main
sys.exit(main())
"""
SLOW = (
    b"GET /api/v1/health/live HTTP/1.1\r\nHost: x",
    b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
)
"""A head and a body that do not come to their end."""
HEALTH = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Door:
    """The process, and who comes to it."""

    def __init__(self, directory: Path, port: int, *limits: float) -> None:
        self.directory, self.port, self.log = directory, port, directory / "log"
        (directory / "appliance.toml").write_text(
            f"""
            state_directory = "{directory}/state"
            runtime_directory = "{directory}/run"
            http = {{ address = "127.0.0.1", port = {port}, threads = {THREADS} }}
            """
        )
        environment = {**os.environ, "ZVAAI_CONFIG": str(directory / "appliance.toml"), "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "-c", START, *map(str, limits)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait_for(lambda: "Booting worker" in self.log.read_text(), "it listens")
        wait_for(lambda: self.healthy("127.0.0.1"), "it answers")

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        """From one of the addresses of this machine."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(address, 0))

    def tls(self, address: str = "127.0.0.1") -> ssl.SSLSocket:
        """The same, encrypted, to the very certificate that it made."""
        context = ssl.create_default_context(cadata=(self.directory / "state" / "certificate.pem").read_text())
        return context.wrap_socket(self.connect(address), server_hostname="localhost")

    def healthy(self, address: str) -> bool:
        """Whether who comes from the address is answered."""
        with contextlib.suppress(OSError), self.tls(address) as connection:
            connection.sendall(HEALTH)
            return connection.recv(4096).startswith(b"HTTP/1.1 200")
        return False


@contextlib.contextmanager
def opened(directory: Path, port: int, *limits: float) -> Iterator[Door]:
    """With the time for who says nothing, for a request, for an answer to be taken and for who was refused; it ends well."""
    door = Door(directory, port, *limits)
    try:
        yield door
        door.process.send_signal(signal.SIGTERM)
        assert door.process.wait(timeout=60) == 0
        assert "Traceback" not in door.log.read_text(), door.log.read_text()
    finally:
        if door.process.poll() is None:
            door.process.kill()
            door.process.wait()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One that lets who is slow go soon."""
    with opened(tmp_path_factory.mktemp("door"), 8444, 1, 4, 1, 2) as door:
        yield door


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One that lets nobody go while a test is about something else, however slow the machine is."""
    with opened(tmp_path_factory.mktemp("patient"), 8445, 120, 120, 120, 120) as door:
        yield door


def closed(connection: socket.socket) -> bool:
    """Whether the other side has ended it; what it still said is passed over."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while connection.recv(65536):
            pass
    return True


def test_who_says_one_byte_holds_no_thread_for_long(door: Door) -> None:
    # From several addresses: more than there are threads.
    held = []
    for number in range(1, 2 * THREADS):
        held.append(door.connect(f"127.0.1.{number % 4}"))
        held[-1].sendall(b"\x16")
    wait_for(lambda: door.healthy("127.0.0.9"), "others are answered")
    assert all(closed(connection) for connection in held)
    for connection in held:
        connection.close()


def test_who_says_nothing_is_let_go(door: Door) -> None:
    held = [door.connect("127.0.2.1") for _ in range(MOST_OF_ONE)]
    wait_for(lambda: door.healthy("127.0.0.9"), "others are answered")
    assert all(closed(connection) for connection in held)
    wait_for(lambda: door.healthy("127.0.2.1"), "it may come again")


@pytest.mark.parametrize("what", ["head", "body"])
def test_who_drips_a_request_is_let_go(door: Door, what: str) -> None:
    def let_go() -> bool:
        with contextlib.suppress(OSError), door.tls("127.0.3.1") as connection:
            began = time.monotonic()
            with contextlib.suppress(OSError):
                if what == "body":
                    connection.sendall(SLOW[1])
                while time.monotonic() - began < 60:
                    connection.sendall(b"G")
                    time.sleep(0.2)  # each byte in time, the request never
            return time.monotonic() - began < 50
        return False  # the handshake alone has taken too long

    wait_for(let_go, "it is let go")


def test_who_takes_no_answer_is_let_go(door: Door) -> None:
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    context = ssl.create_default_context(cadata=(door.directory / "state" / "certificate.pem").read_text())

    def let_go() -> bool:
        with socket.socket() as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(60)
            plain.bind(("127.0.4.1", 0))
            plain.connect(("127.0.0.1", door.port))
            try:
                connection = context.wrap_socket(plain, server_hostname="localhost")
            except OSError:
                return False  # the handshake alone has taken too long
            with connection, pytest.raises((ConnectionError, ssl.SSLError)):  # and not TimeoutError
                while True:  # asks, and takes nothing of it
                    connection.sendall(asked)
            return True

    wait_for(let_go, "it is let go")


def is_open(connection: socket.socket) -> bool:
    """Whether the other side has neither said anything nor ended it."""
    connection.setblocking(False)
    try:
        connection.recv(1)
        return False
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def answer(connection: socket.socket) -> bytes:
    """All that it says."""
    said = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while part := connection.recv(65536):
            said += part
    return said


def test_slow_requests_of_several_addresses_hold_no_thread(patient: Door) -> None:
    """From four addresses, twice as many as there are threads."""
    held = []
    for number in range(2 * THREADS):
        held.append(patient.tls(f"127.0.8.{number % 4 + 1}"))
        held[-1].sendall(SLOW[number % 2])
    assert patient.healthy("127.0.0.9")
    assert all(is_open(connection) for connection in held), "it was answered only when they had ended"
    for connection in held:
        connection.close()


def test_who_was_too_slow_is_told_so(door: Door) -> None:
    """In time for whom the handshake alone has not taken all of it."""

    def told() -> bool:
        with contextlib.suppress(OSError), door.tls("127.0.8.5") as one, door.tls("127.0.8.6") as other:
            one.sendall(SLOW[0])
            other.sendall(SLOW[1])
            return all(answer(connection).startswith(b"HTTP/1.1 408 ") for connection in (one, other))
        return False

    wait_for(told, "it is told so")


def test_slow_readers_of_several_addresses_hold_no_thread(patient: Door) -> None:
    held = []
    context = ssl.create_default_context(cadata=(patient.directory / "state" / "certificate.pem").read_text())
    for number in range(THREADS + 4):
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.bind((f"127.0.9.{number % 4 + 1}", 0))
        plain.connect(("127.0.0.1", patient.port))
        held.append(context.wrap_socket(plain, server_hostname="localhost"))
    for connection in held:
        connection.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert patient.healthy("127.0.0.9")
    for connection in held:
        connection.settimeout(60)
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.close()


def test_an_answer_that_is_taken_slowly_is_whole(patient: Door) -> None:
    with patient.tls("127.0.9.9") as connection:
        connection.sendall(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        said = b""
        while part := connection.recv(16384):
            said += part
            time.sleep(0.005)
    head, _, body = said.partition(b"\r\n\r\n")
    assert f"content-length: {len(body)}".encode() in head.lower() and json.loads(body)["openapi"] == "3.1.0"


def test_one_address_has_not_all_connections(patient: Door) -> None:
    held = [patient.tls("127.0.5.1") for _ in range(MOST_OF_ONE)]
    with patient.tls("127.0.5.1") as surplus:
        surplus.sendall(HEALTH)
        said = answer(surplus)
    assert said.startswith(b"HTTP/1.1 429 ") and b"Retry-After: 1" in said and b"application/problem+json" in said
    silent = [patient.connect("127.0.5.1") for _ in range(2)]
    with pytest.raises(OSError):  # those are too many to be told so
        patient.tls("127.0.5.1")
    assert patient.healthy("127.0.0.9")
    for connection in held + silent:
        connection.close()
    wait_for(lambda: patient.healthy("127.0.5.1"), "it may come again")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /api/v1/session HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 411),
        (b"POST /api/v1/session HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 500_000, 413),
        (b"POST /api/v1/session HTTP/1.1\r\nContent-Length: " + b"9" * 3000 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\n" + b"X-Field: abcdefgh\r\n" * 4000, 431),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"\x00\x01\x02\r\n\r\n", 400),
    ],
)
def test_what_can_not_be_taken_is_answered(patient: Door, request_: bytes, status: int) -> None:
    with patient.tls("127.0.10.1") as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request_)
        assert answer(connection).startswith(f"HTTP/1.1 {status} ".encode())


def test_two_requests_in_one_piece_and_one_in_many(patient: Door) -> None:
    kept = HEALTH.replace(b"Connection: close\r\n", b"")
    with patient.tls("127.0.10.2") as connection:
        connection.sendall(kept + HEALTH)
        assert answer(connection).count(b"HTTP/1.1 200") == 2
    with patient.tls("127.0.10.2") as connection:
        for byte in HEALTH:
            connection.sendall(bytes([byte]))
        assert answer(connection).startswith(b"HTTP/1.1 200")


def test_who_waits_to_be_told_to_go_on_is_told(patient: Door) -> None:
    body = b'{"name": "x", "password": "y"}'
    head = f"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n"
    with patient.tls("127.0.10.3") as connection:
        connection.sendall(head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert b"HTTP/1.1 401 " in answer(connection)


def test_long_bodies_are_few_at_a_time(patient: Door) -> None:
    head = b"POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n"
    held = [patient.tls(f"127.0.11.{number}") for number in (1, 1, 2)]
    for connection in held:
        connection.sendall(head)
    assert patient.healthy("127.0.0.9"), "by then the thread has read what came before"
    with patient.tls("127.0.11.3") as connection:
        connection.sendall(head)
        assert answer(connection).startswith(b"HTTP/1.1 503 ")
    for connection in held:
        connection.close()

    def taken() -> bool:
        with patient.tls("127.0.11.3") as connection:
            connection.sendall(head + b" " * 500000)
            return connection.recv(12) == b"HTTP/1.1 400"  # no JSON, but it was read

    wait_for(taken, "the place is free again")


def test_who_resets_the_connection_ends_nothing(door: Door) -> None:
    for _ in range(50):
        with door.connect("127.0.6.1") as connection:
            connection.sendall(b"\x16\x03\x01")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: door.healthy("127.0.0.9"), "others are answered")
    assert door.log.read_text().count("Booting worker") == 1


def test_who_speaks_no_tls_is_let_go(door: Door) -> None:
    for said in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0" * 4096, b"\x16\x03\x01\xff\xff" + b"\xff" * 512):
        with door.connect("127.0.7.1") as connection:
            connection.sendall(said)
            assert closed(connection)
    wait_for(lambda: door.healthy("127.0.7.1"), "it may come again")


def test_listeners_that_have_gone_give_their_streams_back(patient: Door) -> None:
    """A browser that loads a page anew leaves one each time."""
    context = ssl.create_default_context(cadata=(patient.directory / "state" / "certificate.pem").read_text())
    with httpx.Client(base_url=f"https://localhost:{patient.port}/api/v1", verify=context, timeout=30) as client:
        admin = {"name": "admin", "password": "correct horse battery"}
        code = (patient.directory / "state" / "setup-code").read_text().strip()
        assert client.post("/setup", json={"code": code, **admin}).status_code == 201
        assert client.post("/session", json=admin).status_code == 201
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    asked = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()
    held: list[ssl.SSLSocket] = []

    def listens() -> bool:
        connection = patient.tls(f"127.0.12.{len(held) % 4 + 1}")
        connection.sendall(asked)
        held.append(connection)
        return connection.recv(12) == b"HTTP/1.1 200"

    assert [listens() for _ in range(STREAMS + 1)] == [True] * STREAMS + [False]
    for connection in held:
        connection.close()
    wait_for(listens, "a stream is free again")
    for connection in held:
        connection.close()


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "appliance.toml").write_text('http = { certificate = "/etc/ssl/own.pem" }')
    environment = {**os.environ, "ZVAAI_CONFIG": str(tmp_path / "appliance.toml"), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "appliance.api"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 78 and "certificate and key go together" in done.stderr
