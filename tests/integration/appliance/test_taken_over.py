# SPDX-License-Identifier: Apache-2.0
"""An attacker runs code as the user of the API process and has access to the socket of the worker, which is real.

That user cannot become admin, and can read neither database nor secrets. The audit has only attempts with a credential.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.programs import REPOSITORY, wait_for

from appliance.api.operation import DECLARATIONS
from appliance.api.resources import RESOURCES
from appliance.api.wire import HttpRequest
from appliance.gateway.client import WorkerClient

PASSWORD = "correct horse battery"
ADMIN = {"name": "admin", "password": PASSWORD}
ATTACK = r"""
import json, os, pathlib, socket, sys
home, worker, names, token, cookie = pathlib.Path(sys.argv[1]), int(sys.argv[2]), *map(json.loads, sys.argv[3:6])

def say(message, raw=None):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(home / "run/worker.sock"))
        connection.sendall((raw or json.dumps(message).encode()) + b"\n")
        return json.loads(connection.makefile("rb").readline() or b"{}")

def send(operation, **more):
    sent = {"operation": operation, "target": "/", "path": {}, "query": {}, "body": None, **more}
    reply = say({"method": "request", "params": sent})
    return reply.get("status", reply)

def refused(function):
    try:
        return repr(function())
    except OSError as error:
        return type(error).__name__

me = {"Authorization": f"Bearer {token}"}
state = home / "state"
body = json.dumps({"name": "evil", "role": "admin", "password": "evil evil evil 1"})
print(json.dumps({
    "files": {str(path): refused(lambda path=path: path.read_bytes()) for path in (
        state / "appliance.sqlite", state / "secrets.key", state / "setup-code")},
    "list": refused(lambda: os.listdir(state)),
    "write": refused(lambda: (state / "own").write_text("")),
    "replace": refused(lambda: (home / "run/worker.sock").unlink()),
    "signal": refused(lambda: os.kill(worker, 15)),
    "memory": refused(lambda: pathlib.Path(f"/proc/{worker}/mem").open("rb")),
    "environment": refused(lambda: pathlib.Path(f"/proc/{worker}/environ").read_bytes()),
    "methods": {name: say({"method": name, "params": {}}).get("error", {}).get("code") for name in (
        "status", "submit", "keys", "export_key", "confirm_key", "store_key", "zfs_event", "reconcile", "no such")},
    "nobody": {name: send(name) for name in names},
    "viewer": {name: send(name, authorization=f"Bearer {token}") for name in names},
    "no csrf": {name: send(name, cookie=cookie) for name in names},
    "user": send("users.create_user", authorization=f"Bearer {token}", body=body),
    "claims": say({"method": "request", "params": {"operation": "users.create_user", "target": "/", "body": body,
                   "caller": {"name": "admin", "role": 3}}}),
    "refusal": send("users.create_user", body=body, authorization=f"Bearer {token}", refusal={"status": 201}),
    "anonymous refusal": send("session.log_in", refusal={"status": 200, "detail": "x" * 100000}),
    "noise": [say(None, raw) for raw in (b"{}", b"[]", b"\xff", b"[" * 100000, b'{"method": "request"}')],
}))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that everybody can reach, unlike a checkout."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        directory = Path(name)
        for source in (REPOSITORY / "appliance", REPOSITORY / "tests/simulators"):
            shutil.copytree(source, directory / "lib" / source.name, ignore=shutil.ignore_patterns("tests", "*.pyc.*"))
        for path, group, mode in (("", "nogroup", 0o711), ("state", "nogroup", 0o700), ("run", "games", 0o750)):
            (directory / path).mkdir(exist_ok=True)
            shutil.chown(directory / path, "nobody", group)
            (directory / path).chmod(mode)
        (directory / "appliance.toml").write_text(
            f"""
            state_directory = "{directory}/state"
            runtime_directory = "{directory}/run"
            http = {{ user = "games" }}
            """
        )
        yield directory


def as_user(name: str, group: str, *command: str | Path) -> list[str]:
    """A command as an unprivileged user."""
    words = ["setpriv", f"--reuid={name}", f"--regid={group}", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
    return [*words, *map(str, command)]


@pytest.fixture
def worker(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "ZVAAI_CONFIG": str(home / "appliance.toml"), "PYTHONPATH": str(home / "lib")}
    command = as_user("nobody", "nogroup", sys.executable, "-m", "simulators.worker", "--target")
    process = subprocess.Popen(command, env=environment, cwd="/", umask=0o077, stderr=subprocess.DEVNULL)
    wait_for((home / "run/worker.sock").exists, "the worker listens")
    yield process
    process.terminate()
    assert process.wait(timeout=120) == 0


def request(home: Path, operation: str, body: Any = None, **more: Any) -> tuple[Any, Any]:
    """Head and content of a response, as the API process gets it."""
    text = None if body is None else json.dumps(body)
    reply, content = WorkerClient(home / "run/worker.sock").request(
        HttpRequest(operation=operation, target="/", body=text, **more)
    )
    assert isinstance(content, bytes)
    return reply, json.loads(content)


def test_the_http_process_taken_over_is_a_client_like_any_other(home: Path, worker: subprocess.Popen[bytes]) -> None:
    assert RESOURCES
    wait_for((home / "state/setup-code").exists, "the worker has its one-time code")
    code = (home / "state/setup-code").read_text().strip()
    assert request(home, "sessions.set_up", {"code": code, **ADMIN})[0].status == 201
    reply, session = request(home, "sessions.log_in", ADMIN)
    assert reply.cookie is not None
    admin = {"cookie": reply.cookie[0], "csrf": session["csrf_token"]}
    assert request(home, "users.create_user", {"name": "v", "role": "viewer", "password": PASSWORD}, **admin)[0].status == 201
    reply, viewer = request(home, "sessions.log_in", {"name": "v", "password": PASSWORD})
    headers = {"cookie": reply.cookie[0], "csrf": viewer["csrf_token"]}
    made = {"name": "t", "scope": "viewer", "days": 1, "password": PASSWORD}
    token = request(home, "users.create_token", made, **headers)[1]["secret"]
    before = request(home, "journal.list_audit", query={"limit": "500"}, **admin)[1]["items"]
    changing = sorted(
        name for name, declaration in DECLARATIONS.items() if declaration.role is not None and declaration.role.label != "viewer"
    )
    arguments = [json.dumps(changing), json.dumps(token), json.dumps(admin["cookie"])]
    attack = as_user("games", "games", sys.executable, "-c", ATTACK, home, str(worker.pid), *arguments)
    done = subprocess.run(attack, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout)
    assert set(results["files"].values()) == {"PermissionError"}, results["files"]
    for what in ("list", "write", "replace", "signal", "memory", "environment"):
        assert results[what] == "PermissionError", (what, results[what])
    assert set(results["methods"].values()) == {"forbidden"}, results["methods"]
    assert set(results["nobody"].values()) == {401}, results["nobody"]
    assert set(results["viewer"].values()) == {403}, results["viewer"]
    without_csrf = {name: status for name, status in results["no csrf"].items() if DECLARATIONS[name].method != "GET"}
    assert set(without_csrf.values()) == {403}, without_csrf
    assert results["user"] == 403 and results["refusal"] == 403
    assert results["claims"]["error"]["code"] == "internal", "it has no field for who it is"
    assert all("error" in outcome or outcome == {} for outcome in results["noise"]), results["noise"]
    # Nothing changed. The audit has only the attempts with a credential, under its owner.
    users = request(home, "users.list_users", **admin)[1]["items"]
    assert {(user["name"], user["role"]) for user in users} == {("admin", "admin"), ("v", "viewer")}
    after = request(home, "journal.list_audit", query={"limit": "500"}, **admin)[1]["items"]
    new = [entry for entry in after if entry["id"] not in {old["id"] for old in before}]
    assert {(entry["actor"], entry["status"]) for entry in new} == {("v", 403)}, new
