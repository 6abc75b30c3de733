# SPDX-License-Identifier: Apache-2.0
"""A day of an appliance: requests to its API, and the state that must hold between two requests.

The client repeats a request with the same idempotency key until it gets an answer, because the first one may not have arrived.
"""

from __future__ import annotations

import http.client
import itertools
import json
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

GIB = 1 << 30
PATIENCE_S = 120.0
_AWAY = (0, 502, 503)
"""No answer; nginx without the HTTP process; the HTTP process without the worker."""


class Client:
    """Client of an API that may be killed at any moment."""

    def __init__(self, port: int, certificate: Path, token: str, name: str) -> None:
        self._port, self._certificate, self._token, self._name = port, certificate, token, name
        self._numbers = itertools.count(1)
        self.requesting = False
        """Whether a request is running."""
        self.sent_again = 0
        self.done: Counter[str] = Counter()
        """Answered changes, by audit action."""
        self.last: tuple[float, float] = 0, 0
        """Time of the last change or job, in seconds since 1970."""

    def _once(self, method: str, path: str, body: Any, key: str | None) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(self._certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=context)
        headers = {"Authorization": f"Bearer {self._token}"}
        if key:
            headers["Idempotency-Key"] = key
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def _ask(self, method: str, path: str, body: Any, key: str | None) -> Any:
        until = time.monotonic() + PATIENCE_S
        while True:
            status: int = 0
            answer: Any = None
            self.requesting = True
            try:
                status, answer = self._once(method, path, body, key)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # killed, or not started yet
            finally:
                self.requesting = False
            if status in (200, 201, 202):
                return answer
            is_running = status == 409 and "idempotency key is running" in answer["detail"]
            assert status in _AWAY or is_running, f"{method} {path} {body}: {status} {answer}"
            assert time.monotonic() < until, f"{method} {path}: no answer; the last was {status} {answer}"
            self.sent_again += 1
            time.sleep(0.03)

    def get(self, path: str) -> Any:
        """Response of a GET."""
        return self._ask("GET", path, None, None)

    def do(self, action: str, method: str, path: str, body: Any = None) -> Any:
        """Makes a change once, however often the request is repeated. `action` is its name in the audit."""
        began = time.time()
        answer = self._ask(method, path, body, f"{self._name}-{next(self._numbers)}")
        self.last = began, time.time()
        self.done[action] += 1
        return answer

    def job(self, action: str, method: str, path: str, body: Any = None) -> Any:
        """Result of a job, which must succeed."""
        job_id = self.do(action, method, path, body)["id"]
        until = time.monotonic() + PATIENCE_S
        while True:
            job = self.get(f"/jobs/{job_id}")
            if job["state"] not in ("queued", "running"):
                assert job["state"] == "succeeded", job
                self.last = self.last[0], datetime.fromisoformat(job["ended_at"]).timestamp()
                return job["result"]
            assert time.monotonic() < until, f"the job does not end: {job}"
            time.sleep(0.01)


@dataclass
class Store:
    """Desired state of a datastore."""

    id: str
    name: str
    size: int
    group: str
    lun: int | None = None
    state: str = "active"
    soft_threshold: int | None = None
    kind: str = "vmfs"
    clients: list[str] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)


@dataclass
class Host:
    """Desired state of a host."""

    id: str
    iqn: str
    group: str | None
    addresses: list[str] = field(default_factory=list)


Step = tuple[str, Callable[[], None]]


class Day:
    """The steps of a day and the state that must hold between them. Names belong to one cycle."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.stores: dict[str, Store] = {}
        self.hosts: dict[str, Host] = {}
        self.groups: dict[str, str] = {}
        self.schedules: dict[str, str] = {}
        self.users: dict[str, str] = {}

    def steps(self, number: int) -> Iterator[Step]:
        """A cycle, which removes everything that it created."""
        a, b, c, d, files, group, host, clock = (
            f"{letter}{number}" for letter in ("a", "b", "c", "d", "files", "group", "host", "clock")
        )
        for work in (
            partial(self._create_user, f"user{number}"),
            partial(self._create_group, group),
            partial(self._create_host, host, group, number),
            partial(self._create, a, group),
            partial(self._create, b, group),
            partial(self._create_files, files, group),
            partial(self._readdress, host),
            partial(self._admit, files),
            partial(self._limit, files),
            partial(self._set_chap, host),
            partial(self._grow, a),
            partial(self._snapshot, "one", a),
            partial(self._snapshot, "two", a, b),
            partial(self._clone, a, c, "one"),
            partial(self._clone, b, d, None),
            partial(self._change, a, {"lun": 500 + number % 100, "soft_threshold": 70}),
            partial(self._rename, a),
            partial(self._roll_back, a, "two"),
            partial(self._delete, b),
            partial(self._restore, b),
            partial(self._schedule, clock, b),
            partial(self._unschedule, clock),
            partial(self._scrub),
            partial(self._delete, files),
            partial(self._restore, files),
            partial(self._delete, files),
            partial(self._purge, files),
            partial(self._delete, c),
            partial(self._purge, c),
            partial(self._delete, d),
            partial(self._purge_last_clone, d, b),
            partial(self._unsnapshot, a, "one"),
            partial(self._move, host, None),
            partial(self._move, host, group),
            partial(self._delete, a),
            partial(self._restore, a),
            partial(self._delete, a),
            partial(self._purge, a),
            partial(self._delete, b),
            partial(self._purge, b),
            partial(self._delete_host, host),
            partial(self._delete_group, group),
            partial(self._delete_user, f"user{number}"),
        ):
            yield work.func.__name__.strip("_"), work

    # --- hosts, people

    def _create_user(self, name: str) -> None:
        body = {"name": name, "role": "viewer", "password": "a good long password"}
        self.users[name] = self.client.do("user.create", "POST", "/users", body)["id"]

    def _delete_user(self, name: str) -> None:
        self.client.do("user.delete", "DELETE", f"/users/{self.users.pop(name)}")

    def _create_group(self, name: str) -> None:
        self.groups[name] = self.client.do("host_group.create", "POST", "/host-groups", {"name": name})["id"]

    def _delete_group(self, name: str) -> None:
        self.client.do("host_group.delete", "DELETE", f"/host-groups/{self.groups.pop(name)}")

    def _create_host(self, name: str, group: str, number: int) -> None:
        iqn = f"iqn.1998-01.com.vmware:esx{number}"
        body = {"name": name, "iqns": [iqn], "group": self.groups[group]}
        self.hosts[name] = Host(self.client.do("host.create", "POST", "/hosts", body)["id"], iqn, self.groups[group])

    def _readdress(self, name: str) -> None:
        host = self.hosts[name]
        host.addresses = ["192.0.2.7"]
        self.client.do("host.change", "PATCH", f"/hosts/{host.id}", {"addresses": host.addresses})

    def _set_chap(self, name: str) -> None:
        body = {"name": name, "secret": "a-good-long-secret"}
        self.client.do("host.chap", "PUT", f"/hosts/{self.hosts[name].id}/chap", body)

    def _move(self, name: str, group: str | None) -> None:
        host = self.hosts[name]
        host.group = self.groups[group] if group else None
        self.client.do("host.change", "PATCH", f"/hosts/{host.id}", {"group": host.group})

    def _delete_host(self, name: str) -> None:
        self.client.do("host.delete", "DELETE", f"/hosts/{self.hosts.pop(name).id}")

    # --- datastores

    def _made(self, name: str, result: Any, size: int, group: str) -> Store:
        store = self.stores[name] = Store(result["datastore"], name, size, group)
        store.lun = self.client.get(f"/datastores/{store.id}")["lun"]
        return store

    def _create(self, name: str, group: str) -> None:
        body = {"name": name, "pool": "tank", "size": str(GIB), "host_groups": [self.groups[group]]}
        self._made(name, self.client.job("datastore.create", "POST", "/datastores", body), GIB, self.groups[group])

    def _create_files(self, name: str, group: str) -> None:
        """An NFS datastore."""
        body = {"kind": "nfs", "name": name, "pool": "tank", "size": str(GIB), "host_groups": [self.groups[group]]}
        result = self.client.job("datastore.create", "POST", "/datastores", body)
        self.stores[name] = Store(result["datastore"], name, GIB, self.groups[group], kind="nfs")

    def _admit(self, name: str) -> None:
        store = self.stores[name]
        store.clients = ["198.51.100.0/24"]
        self.client.job("datastore.change", "PATCH", f"/datastores/{store.id}", {"clients": store.clients})

    def _limit(self, name: str) -> None:
        store = self.stores[name]
        store.size = 2 * GIB
        self.client.job("datastore.quota", "POST", f"/datastores/{store.id}/quota", {"size": str(store.size)})

    def _grow(self, name: str) -> None:
        store = self.stores[name]
        self.client.job("datastore.grow", "POST", f"/datastores/{store.id}/grow", {"size": str(2 * GIB)})
        store.size = 2 * GIB

    def _change(self, name: str, body: dict[str, Any]) -> None:
        store = self.stores[name]
        self.client.job("datastore.change", "PATCH", f"/datastores/{store.id}", body)
        store.lun, store.soft_threshold = body["lun"], body["soft_threshold"]

    def _rename(self, name: str) -> None:
        store = self.stores[name]
        store.name = f"{name}-renamed"
        self.client.job("datastore.change", "PATCH", f"/datastores/{store.id}", {"name": store.name})

    def _snapshot(self, tag: str, *names: str) -> None:
        stores = [self.stores[name] for name in names]
        self.client.job("snapshot.create", "POST", "/snapshots", {"name": tag, "datastores": [store.id for store in stores]})
        for store in stores:
            store.snapshots.append(tag)

    def _unsnapshot(self, name: str, tag: str) -> None:
        store = self.stores[name]
        self.client.job("snapshot.delete", "POST", f"/datastores/{store.id}/snapshots/delete", {"names": [tag]})
        store.snapshots.remove(tag)

    def _clone(self, name: str, new: str, tag: str | None) -> None:
        source = self.stores[name]
        body = {"name": new, "host_groups": [source.group]} | ({"snapshot": tag} if tag else {})
        result = self.client.job("snapshot.clone", "POST", f"/datastores/{source.id}/clone", body)
        if tag is None:
            source.snapshots.append(result["snapshot"].split("@")[1])
        size = GIB if tag is None else source.size
        self._made(new, result, size, source.group)

    def _roll_back(self, name: str, tag: str) -> None:
        store = self.stores[name]
        assert store.snapshots[-1] == tag
        self.client.job("snapshot.rollback", "POST", f"/datastores/{store.id}/snapshots/{tag}/rollback", {})

    def _delete(self, name: str) -> None:
        store = self.stores[name]
        self.client.job("datastore.delete", "DELETE", f"/datastores/{store.id}")
        store.state, store.lun = "deleted", None

    def _restore(self, name: str) -> None:
        store = self.stores[name]
        self.client.job("datastore.restore", "POST", f"/datastores/{store.id}/restore", {"host_groups": [store.group]})
        answer = self.client.get(f"/datastores/{store.id}")
        store.state, store.lun = "active", answer["lun"]

    def _purge(self, name: str) -> None:
        self.client.job("datastore.purge", "POST", f"/datastores/{self.stores.pop(name).id}/purge")

    def _purge_last_clone(self, name: str, source: str) -> None:
        """Also deletes the snapshot that the clone was made from."""
        tag = f"clone-{self.stores[name].id[:8]}"
        self._purge(name)
        self.stores[source].snapshots.remove(tag)

    def _schedule(self, name: str, store: str) -> None:
        """The first snapshot is taken immediately."""
        of = self.stores[store]
        body = {"name": name, "datastores": [of.id], "every_minutes": 1440, "keep": 1}
        self.schedules[name] = self.client.do("schedule.create", "POST", "/schedules", body)["id"]
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = [snapshot["name"] for snapshot in self.client.get(f"/datastores/{of.id}/snapshots")["items"]]
            new = [tag for tag in answer if tag not in of.snapshots]
            if new and not self.client.get("/jobs?state=running")["items"] + self.client.get("/jobs?state=queued")["items"]:
                break
            assert time.monotonic() < until, "the schedule takes no snapshot"
            time.sleep(0.05)
        assert len(new) == 1 and new[0].startswith(f"{name}_2"), new
        of.snapshots += new

    def _unschedule(self, name: str) -> None:
        self.client.do("schedule.delete", "DELETE", f"/schedules/{self.schedules.pop(name)}")

    def _scrub(self) -> None:
        self.client.job("pool.scrub", "POST", "/pools/tank/scrub", {"action": "start"})
