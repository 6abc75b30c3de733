# SPDX-License-Identifier: Apache-2.0
"""An appliance in one process, for tests: simulated storage and target, the real worker, database and API."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
from apiflask import APIFlask
from werkzeug.test import TestResponse

from appliance import decoding
from appliance.api.execution import carry_out
from appliance.api.server import WorkerServer, feed
from appliance.api.wire import HttpRequest, Reply
from appliance.config import Configuration, Http, Worker
from appliance.database.store import Store
from appliance.dataplane.ganesha import ExportControl
from appliance.dataplane.target_socket import TargetSocket
from appliance.dataplane.vaai_nas import VaaiNas
from appliance.domain import access
from appliance.domain.access import Role
from appliance.gateway.application import create
from appliance.gateway.forward import Worker as Carrier
from appliance.worker.service import Service
from simulators.ganesha import GaneshaSimulator
from simulators.storage import again, assembled, in_folder, simulator
from simulators.target import TargetSimulator
from simulators.vaai_nas import VaaiNasSimulator
from simulators.zfs import Simulator

PASSWORD = "correct horse battery"
GIB = 1 << 30
_LIMIT_S = 120.0
"""Allows for slow machines; everything takes milliseconds."""


@dataclass
class Appliance:
    """A running appliance."""

    configuration: Configuration
    simulator: Simulator
    target: TargetSocket
    nfs: ExportControl
    service: Service
    application: APIFlask
    tokens: dict[str, str] = field(default_factory=dict)
    server: WorkerServer | None = None

    def restart_worker(
        self,
    ) -> None:
        """Replaces the worker. The new worker has only the state in database, storage and target.

        Jobs that were running may still run when this returns, unless `sorts_out` disables that.
        """
        self.service.stop()
        old = self.service.context
        self.service = Service(again(old))
        assert self.server is not None
        self.server.service = self.service
        self.service.start()
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Returns when the worker's periodic work and the work after a request are done. Raises AssertionError."""
        assert self.service.scheduler.wait(_LIMIT_S), "a periodic task does not end"
        assert self.service.watch.disks_read.wait(_LIMIT_S), "the check of the disks does not end"

    @property
    def store(self) -> Store:
        return self.service.context.store

    @property
    def target_name(self) -> str:
        return self.service.context.target_name

    def request(self, method: str, path: str, body: Any = None, role: str = "admin", **headers: str) -> TestResponse:
        """An answer of the API."""
        sent = {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        kind = None if body is None else "application/json"
        return self.application.test_client().open(f"/api/v1{path}", method=method, data=data, headers=sent, content_type=kind)

    def get(self, path: str, **headers: str) -> Any:
        """Response of a GET. Raises AssertionError for a refusal."""
        answer = self.request("GET", path, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json

    def job(self, method: str, path: str, body: Any = None, expect: str = "succeeded") -> Any:
        """The job of a request, after its end. Raises AssertionError unless it ended in the state `expect`."""
        answer = self.request(method, path, body)
        assert answer.status_code == 202, answer.text
        assert answer.json is not None
        ended = self.ended(answer.json["id"])
        assert ended["state"] == expect, ended
        return ended

    def ended(self, job_id: str) -> Any:
        """A job after its end, with the alerts updated. Raises AssertionError."""
        limit = time.monotonic() + _LIMIT_S
        while time.monotonic() < limit:
            job = self.get(f"/jobs/{job_id}")
            if job["state"] not in ("queued", "running") and not self.service.executor.is_at_work(job_id):
                self.wait_until_idle()
                return job
            time.sleep(0.005)
        raise AssertionError(f"the job does not end: {job}")

    def datastore(self, name: str, size: int = GIB, **more: Any) -> str:
        job = self.job("POST", "/datastores", {"name": name, "pool": "tank", "size": str(size), **more})
        return str(job["result"]["datastore"])

    def nfs_datastore(self, name: str, size: int = GIB, **more: Any) -> str:
        """Creates an NFS datastore; returns its identifier."""
        return self.datastore(name, size, kind="nfs", **more)

    def group(self, name: str, *iqns: str) -> str:
        """Creates a host group with one host; returns its identifier."""
        group = self.request("POST", "/host-groups", {"name": name}).json
        assert group is not None
        answer = self.request("POST", "/hosts", {"name": f"host of {name}", "group": group["id"], "iqns": list(iqns)})
        assert answer.status_code == 201, answer.text
        return str(group["id"])


class Direct:
    """Carries requests out in the thread of the test, which gets the exceptions, and not in a thread behind the socket."""

    def __init__(self, server: WorkerServer) -> None:
        self._server = server
        self._streams: list[tuple[socket.socket, threading.Thread]] = []

    def request(self, sent: HttpRequest) -> tuple[Reply, bytes | int]:
        try:
            line = msgspec.json.encode(sent)
        except UnicodeEncodeError:
            line = json.dumps(msgspec.to_builtins(sent)).encode()
        outcome = carry_out(self._server.service, decoding.decode(line, HttpRequest))
        headers = outcome.headers
        if isinstance(outcome.content, bytes):
            length = len(outcome.content)
            return Reply(status=outcome.status, headers=headers, length=length, cookie=outcome.cookie), outcome.content
        reply = Reply(status=outcome.status, headers=headers, length=None, cookie=outcome.cookie)
        if isinstance(outcome.content, Path):
            return reply, os.open(outcome.content, os.O_RDONLY)
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=feed, args=(ours, outcome.content), daemon=True)
        self._streams.append((ours, thread))
        thread.start()
        return reply, theirs.detach()

    def close(self, store: Store) -> None:
        """Ends the streams, which read the database."""
        for stream, _ in self._streams:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        store.wake()
        for _, thread in self._streams:
            thread.join()


@cache
def _tables() -> bytes:
    """The database of a new installation. Its tables are created once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder, "database"))
        store.close()
        return store.path.read_bytes()


@cache
def _password() -> str:
    """The hash of PASSWORD, which is slow by design."""
    return access.new_password("nobody", PASSWORD)


@cache
def _routes() -> APIFlask:
    """The application without a worker. Its routes are compiled once for all tests."""
    return create(cast("Carrier", None))


def _application(worker: Carrier) -> APIFlask:
    application = copy.copy(_routes())
    application.extensions = {**application.extensions, "zvaai": worker}
    return application


@contextlib.contextmanager
def running(
    directory: Path,
    target: TargetSocket | None = None,
    volumes: Path | None = None,
    exports: ExportControl | None = None,
    **settings: Any,
) -> Iterator[Appliance]:
    """An appliance with the pool `tank` and a user of each role."""
    directory.mkdir(parents=True, exist_ok=True)
    configuration = Configuration(
        state_directory=directory,
        runtime_directory=directory,
        **{
            "http": Http(certificate=directory / "certificate.pem", uploads=directory / "uploads"),
            "worker": Worker(reconcile_seconds=3600, inventory_seconds=0.05, inventory_oldest_seconds=0.05),
            **settings,
        },
    )
    storage = simulator()
    if not configuration.database.exists():
        configuration.database.touch(0o600)
        configuration.database.write_bytes(_tables())
    store = Store(configuration.database)
    control = target or TargetSimulator()
    nfs = exports or GaneshaSimulator()
    files = VaaiNasSimulator(served=nfs.served) if exports is None else VaaiNas(configuration.nfs.statistics)
    context = assembled(configuration, storage, control, nfs, files, store)
    if volumes is not None:
        in_folder(context, volumes)
    elif isinstance(control, TargetSimulator):
        context.device = lambda volume: "/dev/null"  # exists always
    service = Service(context)
    server = WorkerServer(configuration.worker_socket, service)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    service.start()
    direct = Direct(server)
    appliance = Appliance(configuration, storage, control, nfs, service, _application(direct), server=server)
    for role in Role:
        with store.session() as session:
            user = access.add_user(session, role.label, role, _password())
            caller = access.Caller(user.id, user.name, role, False, "")
            appliance.tokens[role.label] = access.add_token(session, caller, "test", role, access.TOKEN_LONGEST_S)[1]
    try:
        appliance.wait_until_idle()
        yield appliance
    finally:
        server.shutdown()
        server.server_close()
        appliance.service.stop()
        direct.close(store)
        store.close()
