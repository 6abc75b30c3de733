# SPDX-License-Identifier: Apache-2.0
"""A storage server on a machine: installed by docs/install.md, configured by a seed file, used by hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from machine import Machine

from support.programs import REPOSITORY, run, wait_for

MachineMaker = Callable[..., Machine]
ADDRESS, HOST_ADDRESS = "192.0.2.2", "192.0.2.1"
INITIATOR = "iqn.2026-11.example.zvaai:writer"
PASSWORD = "correct horse 7"
SEED = f"""
[administrator]
password = "{PASSWORD}"
[[pools]]
name = "tank"
vdevs = ["mirror", "/dev/disk/by-id/rig-ubdb", "/dev/disk/by-id/rig-ubdc"]
[[groups]]
name = "cluster"
[[hosts]]
name = "esx1"
group = "cluster"
iqns = ["{INITIATOR}"]
addresses = ["{HOST_ADDRESS}"]
[[datastores]]
name = "vmfs1"
pool = "tank"
size = "1G"
groups = ["cluster"]
[[datastores]]
name = "nfs1"
pool = "tank"
size = "1G"
kind = "nfs"
groups = ["cluster"]
"""
SERVING = ("zvaai-target.service", "nfs-ganesha.service")
APPLIANCE = ("zvaai-worker.service", "zvaai-api.service")


def documented_installation() -> str:
    """The three lines of docs/install.md; `zvaai` in place of `zvaai-standalone`, because DKMS cannot build for this kernel."""
    section = (REPOSITORY / "docs/install.md").read_text().partition("\n## Install\n")[2].partition("\n### ")[0]
    lines = "\n".join(line for line in section.splitlines() if line.startswith("    "))
    for text, replacement in (
        ("https://REPOSITORY", "http://repository.example"),
        ("apt install zvaai-standalone", "apt install -q -y zvaai"),
    ):
        assert text in lines, lines
        lines = lines.replace(text, replacement)
    return lines


@dataclass
class FirstStart:
    """An installation and its first start."""

    folder: Path
    install_seconds: float = 0
    setup_seconds: float = 0
    setup: str = ""
    """Output of `zvaai setup`."""
    issue_mode: str = ""
    login_screen: str = ""
    failed: list[str] = field(default_factory=list)


def install(machine: Machine, seconds: float = 1200) -> None:
    """Runs the three lines. wget does not use apt's proxy."""
    machine.run("set -e\nexport http_proxy=http://192.0.2.1:3142\n" + documented_installation(), seconds)


def duplicate(folder: Path, copy: Path) -> Path:
    """Copies the disks of a machine that is off."""
    run("cp", "--recursive", "--sparse=always", folder, copy)
    return copy


def set_up(machine: Machine) -> None:
    machine.run(f"umask 077; mkdir -p /etc/zvaai; cat >/etc/zvaai/setup.toml <<'END'\n{SEED}\nEND")
    machine.run("systemctl start zvaai-setup.service || { journalctl -b --no-pager -u zvaai-setup -u zvaai-worker -u zvaai-helper"
                " -u zvaai-api -u zvaai-target | tail -60; exit 1; }", 300)  # fmt: skip


def properties(machine: Machine, unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit from systemctl."""
    lines = machine.run(f"systemctl show {unit} --property {','.join(names)}").strip().splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def started_at(machine: Machine, unit: str) -> int:
    """When the unit became active, in microseconds after the boot; 0: never."""
    return int(properties(machine, unit, "ActiveEnterTimestampMonotonic")["ActiveEnterTimestampMonotonic"])


def failed_units(machine: Machine) -> list[str]:
    return machine.run("systemctl list-units --state=failed --plain --no-legend | cut -d' ' -f1").split()


def log_in(machine: Machine, password: str = PASSWORD) -> None:
    """For the command `zvaai` of root."""
    shown = "openssl x509 -noout -fingerprint -sha256 -in /var/lib/zvaai-frontend/certificate.pem | cut -d= -f2"
    machine.run(f"zvaai login https://localhost:8443 --fingerprint $({shown}) <<<'{password}'", 180)


def versions(machine: Machine) -> dict[str, str]:
    """Installed versions of our packages, with dpkg's state of each."""
    shown = machine.run(
        "dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Status}\\n' 'zvaai*' | grep -v zvaai-rig"
    )
    rows = [line.split() for line in shown.splitlines()]
    return {words[0]: " ".join(words[1:]) for words in rows if len(words) == 3}


KINDS = ("iscsi", "nfs")


def target_name(machine: Machine) -> str:
    """The name of the iSCSI target that the host discovers. Waits for it."""
    names: list[str] = []

    def discovered() -> bool:
        listing = machine.client("iscsi-ls", "-i", INITIATOR, f"iscsi://{ADDRESS}", check=False)
        names[:] = re.findall(r"^Target:(\S+)", listing, re.MULTILINE)
        return bool(names)

    wait_for(discovered, "the host discovers the target", 120)
    assert len(set(names)) == 1, names
    return names[0]


class Writers:
    """An iSCSI host and an NFSv3 host that write all the time (support/steady_writer.py), until the block ends or `stop`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._folder = machine.folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._iqn = ""

    def _words(self, kind: str, action: str) -> list[str]:
        self._iqn = self._iqn or target_name(self._machine)
        name = self._iqn if kind == "iscsi" else "/nfs1"
        python = ["env", f"PYTHONPATH={REPOSITORY / 'tests'}", sys.executable, "-m", "support.steady_writer"]
        return list(map(str, [*python, kind, action, self._folder / f"{kind}.json", ADDRESS, name]))

    def __enter__(self) -> Writers:
        for kind in KINDS:
            (self._folder / f"{kind}.json").unlink(missing_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _start(self) -> None:
        """And waits until both have written."""
        for kind in KINDS:
            log = (self._folder / f"{kind}.log").open("wb")
            self._running[kind] = subprocess.Popen(self._machine.in_network(*self._words(kind, "write")), stdout=log, stderr=log)
        self.wait_for_more()

    def reports(self) -> dict[str, dict[str, Any]]:
        """Acknowledged blocks and the longest gap, by kind of host."""
        counts = {}
        for kind in KINDS:
            path = self._folder / f"{kind}.json"
            counts[kind] = json.loads(path.read_text()) if path.exists() else {"acknowledged": 0, "longest": 0.0}
        return counts

    def move(self, machine: Machine) -> None:
        """Moves the hosts to a rebooted machine, which has a new network: restarts them with their counters."""
        self.stop()
        self._machine = machine
        self._start()

    def wait_for_more(self, blocks: int = 40) -> None:
        """Returns after both hosts have written `blocks` more."""
        before = self.reports()

        def more() -> bool:
            for kind, process in self._running.items():
                log = (self._folder / f"{kind}.log").read_text(errors="replace")
                assert process.poll() is None, f"the {kind} writer ended: {log}"
            return all(now["acknowledged"] >= before[kind]["acknowledged"] + blocks for kind, now in self.reports().items())

        try:
            wait_for(more, "both hosts write", 120)
        except TimeoutError:
            log = "journalctl -b --no-pager -n 40 -u zvaai-target -u nfs-ganesha"
            seen = self._machine.run(f"systemctl --failed; {log}; showmount -e; ss -ltn; zpool status", check=False)
            raise AssertionError(f"a host does not continue: before {before}, now {self.reports()}\n{seen}") from None

    def stop(self) -> dict[str, dict[str, Any]]:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:  # it waits for a server that is off
                process.kill()
                process.wait()
        self._running = {}
        return self.reports()

    def verify(self, machine: Machine) -> None:
        """Checks that every acknowledged block is there. Raises CommandError."""
        self._machine = machine
        for kind in KINDS:
            machine.client(*self._words(kind, "verify"), seconds=180)


def timed(step: Callable[[], object]) -> float:
    """Duration of a step in seconds."""
    began = time.monotonic()
    step()
    return time.monotonic() - began
