# SPDX-License-Identifier: Apache-2.0
"""The service as systemd runs it: its unit is valid and tight, and the daemon works within it.

There is no systemd as process 1 here: setpriv takes privileges away, and the tests check that the daemon stays within the unit.
"""

from __future__ import annotations

import configparser
import grp
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import run
from support.target import IQN, PROGRAM, Target
from support.units import SYSTEMD, allowed, analyze, called

UNIT = SYSTEMD / "zvaai-target.service"
NOBODY = 65534
# systemd-analyze's exposure in tenths: 0 is none, 100 all. A target needs network, block devices and AF_UNIX.
EXPOSURE_MAX = 15


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with the path of the built program."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/usr/sbin/zvaai-target", str(PROGRAM)))
    return path


def test_the_unit_is_valid(unit: Path) -> None:
    """systemd reports nothing, not even an unknown setting."""
    result = analyze("verify", "--man=no", str(unit))
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_the_unit_is_tight(unit: Path) -> None:
    result = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", str(unit))
    assert result.returncode == 0, result.stdout


class Unprivileged(Target):
    """The target as the service's user, with no capability and the group disk, with all system calls traced to `calls`."""

    def __init__(self, directory: Path, engine: str, calls: Path) -> None:
        super().__init__(directory, options=["--engine", engine])
        disk = grp.getgrnam("disk").gr_gid
        user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={disk}")
        self._enter = ["strace", "-f", "-qq", "-o", str(calls), *user, "--bounding-set=-all", "--no-new-privs"]

    def stop(self) -> int:
        """Sends SIGTERM to the daemon, not to strace; returns the exit code."""
        os.kill(self.call("status")["process_id"], signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(timeout=60)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the program that the service's user can reach, unlike a checkout."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # /tmp may be a tmpfs, where I/O needs no engine
        directory = Path(name)
        monkeypatch.setattr("support.target.PROGRAM", shutil.copy(PROGRAM, directory))
        os.chown(directory, NOBODY, NOBODY)
        directory.chmod(0o711)
        yield directory


@pytest.mark.parametrize("engine", ["auto", "threads"])
def test_the_daemon_lives_within_the_unit(home: Path, tmp_path: Path, engine: str) -> None:
    """Start, service, configuration change and stop, as an unprivileged user, with the unit's system calls only."""
    volume = home / "volume"
    volume.touch()
    os.truncate(volume, 16 << 20)
    os.chown(volume, NOBODY, NOBODY)
    target = Unprivileged(home, engine, tmp_path / "calls")
    target.start()
    try:
        target.create()
        target.call("accounts.set", {"target": IQN, "name": "host", "secret": "within-the-unit-1", "initiators": "any"})
        target.call("accounts.delete", {"target": IQN, "name": "host"})
        target.call("accounts.require", {"target": IQN, "required": False})
        target.add_lun(0, volume)
        commands = ("write -P 7 0 1M", "flush", "read -P 7 0 1M")
        run("qemu-io", "-f", "raw", *(word for command in commands for word in ("-c", command)), target.url(0))
        os.truncate(volume, 32 << 20)
        target.call("luns.refresh", {"target": IQN, "number": 0})
        status = Path(f"/proc/{target.call('status')['process_id']}/status").read_text()
    finally:
        code = target.stop()
    assert code == 0
    facts = dict(re.findall(r"^(\w+):\t(.*)$", status, re.MULTILINE))
    assert facts["Uid"].split()[0] == str(NOBODY)
    assert {facts[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    used = called(tmp_path / "calls", "zvaai-target")
    assert {"accept4", "fdatasync" if engine == "threads" else "io_uring_enter"} <= used
    assert used - allowed(UNIT) == set()


ALLOWED, OTHER = 1, 2  # daemon and bin, which exist on every Debian


def request_by(target: Target, user: int, group: int | None = None) -> subprocess.CompletedProcess[str]:
    """Requests `status` over the control socket as a user."""
    groups = ["--clear-groups"] if group is None else [f"--groups={group}"]
    program = target.directory / PROGRAM.name
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", *groups, str(program), "call"]
    return subprocess.run([*words, "--control", str(target.socket_path), "status"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("allowed", ["daemon", str(ALLOWED)])
def test_permissions_of_the_control_socket(home: Path, allowed: str) -> None:
    """Root, the daemon's user, and those of the option may; other users that can connect are refused."""
    target = Target(home, options=["--allow-user", allowed, "--allow-user", "not-yet-made"], user=str(NOBODY))
    target.start()
    try:
        assert target.socket_path.stat().st_mode & 0o777 == 0o666
        for user in (0, NOBODY, ALLOWED):
            answer = request_by(target, user)
            assert answer.returncode == 0 and "process_id" in answer.stdout, (user, answer)
        refused = request_by(target, OTHER)
        assert refused.returncode == 1 and refused.stdout == "", refused
        log = (home / "target.log").read_text()
        assert "control connection refused" in log and "not-yet-made" in log
    finally:
        assert target.stop() == 0
    target = Target(home, user=str(NOBODY))
    target.start()
    try:
        assert target.socket_path.stat().st_mode & 0o777 == 0o600
        assert request_by(target, 0).returncode == request_by(target, NOBODY).returncode == 0
        assert request_by(target, ALLOWED).returncode == 1
    finally:
        assert target.stop() == 0


def test_a_refused_configuration_is_not_tried_again(tmp_path: Path) -> None:
    """The daemon ends with an exit code that the unit excludes from restarts; a wrong command line does the same."""
    (tmp_path / "target.json").write_text('{"version": 2, "targets": [{"name": "disk"}]}')
    options = ["serve", "--config", str(tmp_path / "target.json"), "--control", str(tmp_path / "control.sock")]
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(UNIT.read_text())
    final = {int(code) for code in unit["Service"]["RestartPreventExitStatus"].split()}
    ended = [subprocess.run([PROGRAM, *words], capture_output=True, timeout=60, check=False) for words in (options, ["serv"])]
    assert {result.returncode for result in ended} == final


def test_the_user_of_the_unit_is_made() -> None:
    """The service's user exists by sysusers, and opens block devices by its group."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT.read_text())
    user, groups = unit["Service"]["User"], unit["Service"]["SupplementaryGroups"]
    lines = (SYSTEMD / "zvaai-target.sysusers").read_text().splitlines()
    made = [line.split()[:3] for line in lines if line and not line.startswith("#")]
    assert made == [["u", user, "-"], ["m", user, groups], ["u", "zvaai", "-"]]
