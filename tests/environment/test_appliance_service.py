# SPDX-License-Identifier: Apache-2.0
"""The appliance's worker, API and nginx as systemd runs them: units are valid and tight, and the programs work within them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from render import render
from support.programs import REPOSITORY, wait_for
from support.target import PROGRAM, Target
from support.units import SYSTEMD, allowed, analyze, called

from appliance.config import Configuration

SERVICES = ("worker", "api", "frontend")
EXPOSURE_MAX = {"worker": 13, "api": 2, "frontend": 11}
"""Tenths, as systemd-analyze counts: the worker sends webhooks, the frontend has the network, the API process has neither."""
REFUSED = {"setgroups"}
"""gunicorn calls this to drop groups; it continues after EPERM, which is the unit's answer."""
USERS = {"worker": ("nobody", "bin"), "api": ("games", "games"), "frontend": ("www-data", "www-data")}
"""User and group in place of those of the unit; the worker's group is the target's (zvaai.sysusers)."""
TARGET = 2
"""User and group of the target here: bin exists on every Debian."""
PORT = 8445


def unit(name: str) -> Path:
    return SYSTEMD / f"zvaai-{name}.service"


@pytest.mark.parametrize("name", SERVICES)
def test_the_unit_is_valid_and_tight(name: str) -> None:
    result = analyze("verify", "--man=no", str(unit(name)))
    assert (result.returncode, result.stdout + result.stderr) == (0, "")
    result = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX[name]}", str(unit(name)))
    assert result.returncode == 0, result.stdout


def test_the_api_has_no_way_past_the_worker() -> None:
    """By the units' text: a separate user without access to the other sockets, database and keys. No systemd runs here."""
    assert setting("api", "User") != setting("worker", "User") and setting("api", "PrivateNetwork") == "yes"
    assert setting("api", "User") == Configuration().http.user
    hidden = set(re.findall(r"-(/\S+)", "".join(re.findall(r"^InaccessiblePaths=(.*)$", unit("api").read_text(), re.MULTILINE))))
    directories = {Configuration().storage.helper.parent, Configuration().target.control.parent}
    state = {Configuration().state_directory, *(Path(f"/var/lib/zvaai-{name}") for name in ("target", "helper"))}
    assert {str(path) for path in directories | state} | {"/run/dbus"} <= hidden
    made = {line.split()[1] for line in (SYSTEMD / "zvaai.tmpfiles").read_text().splitlines() if line.startswith("d ")}
    assert {str(path) for path in directories} <= made
    assert setting("target", "RuntimeDirectoryPreserve") == "yes"
    assert "RuntimeDirectory=" not in unit("helper").read_text(), "its socket's unit makes the folder, once"
    assert "InaccessiblePaths" not in unit("worker").read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_its_user_is_made(name: str) -> None:
    user = re.findall(r"^User=(.*)$", unit(name).read_text(), re.MULTILINE)
    made = [line.split()[1] for line in (SYSTEMD / "zvaai.sysusers").read_text().splitlines() if line.startswith("u ")]
    assert set(user) <= set(made)


def setting(name: str, key: str) -> str:
    (value,) = re.findall(rf"^{key}=(.*)$", (SYSTEMD / f"zvaai-{name}.service").read_text(), re.MULTILINE)
    return str(value)


def test_the_worker_knows_when_the_server_was_restarted() -> None:
    """For a forced import that was interrupted."""
    assert setting("worker", "ProcSubset") == "pid" and "ZVAAI_BOOT_ID=%b" in setting("worker", "Environment").split()


def test_the_target_admits_the_worker() -> None:
    """By user name at its socket, and by group at the socket's folder."""
    user, group = setting("worker", "User"), setting("target", "Group")
    assert f"--allow-user {user}" in setting("target", "ExecStart")
    assert f"m {user} {group}" in (SYSTEMD / "zvaai.sysusers").read_text().splitlines()
    assert setting("target", "RuntimeDirectoryMode") == "0710" and setting("target", "StateDirectoryMode") == "0700"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with the programs that the services' user can reach, unlike a checkout."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        directory = Path(name)
        for source in (REPOSITORY / "appliance", REPOSITORY / "tests/simulators"):
            shutil.copytree(source, directory / "lib" / source.name, ignore=shutil.ignore_patterns("tests", "*.pyc.*"))
        (directory / "appliance.toml").write_text(
            f"""
            state_directory = "{directory}/state"
            runtime_directory = "{directory}/run"
            [http]
            socket = "{directory}/api/http.sock"
            certificate = "{directory}/frontend/certificate.pem"
            user = "games"
            [target]
            control = "{directory}/target/control.sock"
            """
        )
        for path, user, group, mode in (
            (directory, "nobody", "nogroup", 0o711),
            (directory / "state", "nobody", "nogroup", 0o700),
            (directory / "run", "nobody", "games", 0o750),  # as in zvaai.tmpfiles
            (directory / "volumes", "nobody", "nogroup", 0o700),
            (directory / "api", "games", "www-data", 0o750),  # as in zvaai-api.socket
            (directory / "frontend", "www-data", "www-data", 0o755),
        ):
            path.mkdir(exist_ok=True)
            shutil.chown(path, user, group)
            path.chmod(mode)
        yield directory


def start(name: str, home: Path, trace: Path) -> subprocess.Popen[bytes]:
    """A service as an unprivileged user, with all system calls traced to `trace`."""
    user_id, group = USERS[name]
    groups = f"--groups={group},games" if name == "worker" else "--clear-groups"
    user = ["setpriv", f"--reuid={user_id}", f"--regid={group}", groups, "--bounding-set=-all", "--no-new-privs"]
    program = [sys.executable, "-m", "appliance.gateway"]
    if name == "worker":
        program = [sys.executable, "-m", "simulators.worker", "--volumes", str(home / "volumes")]
    if name == "frontend":
        folder = home / "frontend"
        made = [*user, "env", f"PYTHONPATH={home}/lib", sys.executable, "-m", "appliance.api.certificate", str(folder)]
        subprocess.run(made, check=True, capture_output=True, timeout=60)
        paths = {"api": home / "api/http.sock", "certificates": folder, "site": folder, "runtime": folder}
        (folder / "nginx.conf").write_text(render("127.0.0.1", PORT, **paths))
        program = ["nginx", "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    command = ["strace", "-f", "-qq", "-o", str(trace), *user, *program]
    settings = {"ZVAAI_CONFIG": str(home / "appliance.toml"), "PYTHONPATH": str(home / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    with (trace.with_suffix(".log")).open("wb") as log:
        return subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log, cwd="/", umask=0o077)


def stop(process: subprocess.Popen[bytes]) -> int:
    """Sends SIGTERM to the child of strace; returns the exit code."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    return process.wait(timeout=60)


@pytest.fixture
def target(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """The real target as another user, in a folder as in its unit."""
    directory = home / "target"
    directory.mkdir()
    os.chown(directory, TARGET, TARGET)
    directory.chmod(0o710)
    monkeypatch.setattr("support.target.PROGRAM", shutil.copy(PROGRAM, home))
    target = Target(directory, options=["--allow-user", "nobody"])
    target.enter(["setpriv", f"--reuid={TARGET}", f"--regid={TARGET}", "--clear-groups", "--bounding-set=-all", "--no-new-privs"])
    target.start()
    yield target
    assert target.stop() == 0


@pytest.fixture
def pings() -> Iterator[None]:
    """All groups may ping, as by Debian's linux-sysctl-defaults. In this network namespace."""
    setting = Path("/proc/sys/net/ipv4/ping_group_range")
    before = setting.read_text()
    setting.write_text("0 2147483647")
    yield
    setting.write_text(before)


@pytest.mark.usefixtures("pings")
def test_they_live_within_their_units(home: Path, tmp_path: Path, target: Target) -> None:
    """Start, secrets, setup, a datastore and stop, as an unprivileged user with the units' system calls only.

    The target runs as another user and accepts the worker's requests.
    """
    traces = {name: tmp_path / name for name in SERVICES}
    running = {name: start(name, home, traces[name]) for name in SERVICES}
    client = httpx.Client(base_url=f"https://127.0.0.1:{PORT}/api/v1", verify=False, timeout=60)

    def request(method: str, path: str, body: Any = None) -> Any:
        answer = client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def listens() -> bool:
        try:
            return bool(client.get("/health/ready").is_success)
        except httpx.HTTPError:
            return False

    try:
        wait_for(listens, "API and worker answer")
        user = {"name": "admin", "password": "correct horse battery"}
        request("POST", "/setup", {"code": (home / "state" / "setup-code").read_text(), **user})
        client.headers["X-CSRF-Token"] = request("POST", "/session", user)["csrf_token"]
        wait_for(lambda: bool(request("GET", "/status")["target"]), "the worker answers")
        request("POST", "/host-groups", {"name": "cluster"})
        (pool,) = request("GET", "/pools")["items"]
        job = request("POST", "/datastores", {"name": "first", "pool": pool["name"], "size": str(1 << 30)})
        wait_for(lambda: request("GET", f"/jobs/{job['id']}")["state"] == "succeeded", "a datastore is made")
        assert request("GET", "/status")["target"]["running"]
        assert request("GET", "/network")["hostname"], "it runs ip(8)"
        assert request("GET", "/updates")["refreshed_at"], "it runs apt-get"
        host = request("POST", "/hosts", {"name": "esx1", "addresses": ["127.0.0.1"]})
        assert request("POST", f"/hosts/{host['id']}/ping")["items"], "it may ping"
        assert [row["name"] for row in target.call("targets.list")["targets"]] == [request("GET", "/readiness")["target"]]
    finally:
        codes = {name: stop(process) for name, process in reversed(running.items())}
    assert codes == {"frontend": 0, "api": 0, "worker": 0}, "".join(
        trace.with_suffix(".log").read_text() for trace in traces.values()
    )
    for name, trace in traces.items():
        programs = {"frontend": "nginx", "api": "appliance.gateway", "worker": "simulators.worker"}
        used = called(trace, programs[name])
        assert {"accept4", "fdatasync"} & used
        assert used - allowed(unit(name)) <= REFUSED, name
    assert {path.stat().st_mode & 0o077 for path in (home / "state").iterdir()} == {0}
