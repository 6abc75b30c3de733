# SPDX-License-Identifier: Apache-2.0
"""The helper over its socket: permissions, restarts, time limits, many callers at once."""

from __future__ import annotations

import inspect
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from simulators.zfs import Simulator

from appliance.helper import protocol
from appliance.helper.client import connect
from appliance.helper.exports import Exports
from appliance.helper.tests.served import client_of, served
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import DatasetExists, EngineUnavailable, Refused, Timeout
from appliance.zfs.model import Redundancy, VdevSpec

REPOSITORY = Path(__file__).parents[3]
NOBODY = 65534


@pytest.fixture
def simulator() -> Simulator:
    simulator = Simulator()
    devices = tuple(disk.path for disk in simulator.disks()[:2])
    simulator.create_pool("tank", [VdevSpec(devices=devices, redundancy=Redundancy.MIRROR)])
    return simulator


def test_the_client_has_the_interface(tmp_path: Path) -> None:
    """The same names, arguments, defaults and results."""
    client = connect(tmp_path / "nobody")
    for interface in (ZfsEngine, Exports):
        for name in interface.__abstractmethods__:
            assert inspect.signature(getattr(type(client), name)) == inspect.signature(getattr(interface, name)), name
    with pytest.raises(TypeError, match="surprise"):
        client.pools(surprise=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("refused_before_the_request", [False, True])
def test_other_users_are_refused(
    simulator: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused_before_the_request: bool
) -> None:
    path = tmp_path / "helper.sock"
    if refused_before_the_request:
        really = socket.socket.connect

        def connect_and_wait(connection: socket.socket, address: str) -> None:
            really(connection, address)
            hung_up = select.poll()
            hung_up.register(connection, 0)  # POLLHUP is always reported
            assert hung_up.poll(10_000)

        monkeypatch.setattr(socket.socket, "connect", connect_and_wait)
    with served(simulator, path, users={os.geteuid() + 1}):
        with pytest.raises(Refused) as caught:
            connect(path).pools()
        assert f"user {os.geteuid()}" in caught.value.reason
        with pytest.raises(Refused):
            connect(path).create_filesystem("tank/fs")
    assert len(simulator.filesystems()) == 1


def test_many_callers_at_once(simulator: Simulator, tmp_path: Path) -> None:
    with client_of(simulator, tmp_path / "helper.sock") as client, ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda number: client.create_filesystem(f"tank/fs{number}").name, range(48)))
        assert {filesystem.name for filesystem in client.filesystems()} == {"tank", *made}


def test_more_connections_than_allowed_are_refused(simulator: Simulator, tmp_path: Path) -> None:
    path = tmp_path / "helper.sock"
    with served(simulator, path):
        open_connections = []
        for _ in range(64):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(str(path))
            open_connections.append(connection)
        with pytest.raises((Refused, EngineUnavailable)):
            connect(path).pools()
        for connection in open_connections:
            connection.close()
        until = time.monotonic() + 60
        while True:
            try:
                assert connect(path).pools()
                break
            except (Refused, EngineUnavailable):
                assert time.monotonic() < until


def test_a_message_too_long_ends_the_connection(simulator: Simulator, tmp_path: Path) -> None:
    path = tmp_path / "helper.sock"
    with served(simulator, path), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(b"\xff\xff\xff\xff")
        assert b"refused" in protocol.read_message(connection, 1 << 20)
        with pytest.raises((protocol.Closed, ConnectionError)):
            protocol.read_message(connection, 1 << 20)
    with pytest.raises(EngineUnavailable):
        connect(path).pools()


def test_a_restart_between_calls_is_not_seen(simulator: Simulator, tmp_path: Path) -> None:
    path = tmp_path / "helper.sock"
    client = connect(path)
    with served(simulator, path):
        client.create_filesystem("tank/a")
        assert client.pools()
    with served(simulator, path):
        assert client.pools()
        with pytest.raises(DatasetExists):
            client.create_filesystem("tank/a")
    with pytest.raises(EngineUnavailable):
        client.create_filesystem("tank/b")


def test_systemd_keeps_the_socket(simulator: Simulator, tmp_path: Path) -> None:
    """The socket accepts the connection that starts the next helper. A socket that was shut down fails zvaai-helper.socket."""
    path = tmp_path / "helper.sock"
    of_systemd = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with of_systemd:
        with served(simulator, path, listen_at=of_systemd):
            connect(path).pools()
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with waiting:
            waiting.connect(str(path))
            poll = select.poll()
            poll.register(of_systemd, select.POLLIN)
            assert poll.poll(10_000) == [(of_systemd.fileno(), select.POLLIN)]  # and no POLLHUP
            of_systemd.accept()[0].close()


def test_a_stop_waits_for_the_change_under_way(simulator: Simulator, tmp_path: Path) -> None:
    simulator.delay_next("create_filesystem", 0.5)
    results: list[str] = []
    with client_of(simulator, tmp_path / "helper.sock") as client:
        thread = threading.Thread(target=lambda: results.append(client.create_filesystem("tank/slow").name))
        thread.start()
        while simulator.delays["create_filesystem"]:
            time.sleep(0.005)
    thread.join(60)
    assert results == ["tank/slow"]


def test_time_limit(simulator: Simulator, tmp_path: Path) -> None:
    with (
        client_of(simulator, tmp_path / "helper.sock", seconds=0.2) as client,
        simulator.held_next("create_filesystem"),
        pytest.raises(Timeout) as caught,
    ):
        client.create_filesystem("tank/slow")
    assert caught.value.operation == "create_filesystem"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Everybody can reach it. pytest's own folders are closed to others again whenever another pytest begins."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_as_a_process(open_folder: Path, request: pytest.FixtureRequest) -> None:
    """Its command line; changes survive kill -9; SIGTERM ends it in order; a caller of another user is refused."""
    path, state = open_folder / "helper.sock", open_folder / "state.json"
    command = [sys.executable, "-m", "simulators.helper", str(state), "--socket", str(path)]

    def start() -> subprocess.Popen[bytes]:
        path.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
        request.addfinalizer(process.kill)  # nothing once it has ended
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                connect(path).pools()
                return process
            except EngineUnavailable:
                time.sleep(0.02)
        raise AssertionError("the helper does not answer")

    process, client = start(), connect(path)
    device = client.disks()[0].path
    client.create_pool("tank", [VdevSpec(devices=(device,))])
    guid = client.create_filesystem("tank/fs").guid
    process.send_signal(signal.SIGKILL)
    process.wait()
    process = start()
    assert client.filesystem("tank/fs").guid == guid
    if os.geteuid() == 0:
        ask = f"from appliance.helper.client import connect as C; from pathlib import Path; C(Path({str(path)!r})).pools()"
        result = subprocess.run(
            [sys.executable, "-c", ask], cwd=REPOSITORY, user=NOBODY, group=NOBODY, capture_output=True, text=True, check=False
        )
        assert f"user {NOBODY} is not served" in result.stderr
    process.terminate()
    assert process.wait(60) == 0
    assert process.stderr is not None
    audit = process.stderr.read().decode()
    process.stderr.close()
    assert "audit" not in audit, "only changes are written down, and the second process made none"
