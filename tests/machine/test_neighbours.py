# SPDX-License-Identifier: Apache-2.0
"""Remote syslog and UPS, configured as docs/install.md says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import Machine
from support.programs import REPOSITORY, wait_for
from support.storage_server import HOST_ADDRESS, MachineMaker, Writers

PROGRAMS = {"zvaai-worker", "zvaai-target", "ganesha.nfsd"}
RECEIVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 514))
print("ready", flush=True)
connection, _ = listener.accept()
with open(sys.argv[2], "wb", buffering=0) as log:
    while data := connection.recv(65536):
        log.write(data)
"""
UPS = """
printf '[ups]\\ndriver = dummy-ups\\nport = ups.dev\\nmode = dummy-loop\\n' >/etc/nut/ups.conf
printf 'ups.status: OL\\nTIMER 1\\n' >/etc/nut/ups.dev
printf 'LISTEN 127.0.0.1 3493\\n' >/etc/nut/upsd.conf
printf '[USER]\\npassword = PASSWORD\\nupsmon secondary\\n' >/etc/nut/upsd.users
echo MODE=netserver >/etc/nut/nut.conf
systemctl restart nut-driver-enumerator nut-server
until upsc ups@127.0.0.1 ups.status 2>/dev/null | grep -q OL; do sleep 0.2; done
"""


def documented(heading: str) -> str:
    """The first code block below a heading of docs/install.md."""
    text = (REPOSITORY / "docs/install.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert blocks, heading
    return str(blocks[0])


def logging_programs(log: Path) -> set[str]:
    """Programs with a line in a log of syslog's format (RFC 3164 section 4.1)."""
    return set(re.findall(r" ([\w.-]+)\[\d+\]:", log.read_text(errors="replace"))) if log.exists() else set()


@pytest.fixture(scope="module")
def server(machine_of: MachineMaker, copy_of_server: str) -> Iterator[Machine]:
    """Set up, and hosts may write."""
    with machine_of(copy_of_server) as machine:
        machine.wait_for_boot()
        yield machine


def test_the_log_goes_to_another_server(server: Machine) -> None:
    rules = documented("Send the log to another server").replace("192.0.2.50", HOST_ADDRESS)
    received = server.folder / "received.log"
    words = server.in_network(sys.executable, "-c", RECEIVER, HOST_ADDRESS, received)
    with subprocess.Popen(words, stdout=subprocess.PIPE) as receiver:
        try:
            assert receiver.stdout is not None and receiver.stdout.readline() == b"ready\n"
            server.run(f"cat >/etc/rsyslog.d/zvaai.conf <<'END'\n{rules}END\nsystemctl restart rsyslog", 120)
            server.run("systemctl stop zfs-zed; systemctl restart zvaai-worker zvaai-target nfs-ganesha", 180)
            wait_for(lambda: logging_programs(received) >= PROGRAMS, f"lines of {', '.join(PROGRAMS)} arrive", 60)
            alert = "alert raised (warning): zed:stopped"
            wait_for(lambda: alert in received.read_text(errors="replace"), "the alert that ZED does not run arrives", 180)
            server.run("systemctl start zfs-zed", 60)
        finally:
            receiver.kill()


def test_an_empty_ups_shuts_the_server_down_in_order(machine_of: MachineMaker, copy_of_server: str, server: Machine) -> None:
    """Data that hosts wrote before is still stored after the next boot."""
    monitor = documented("Shut down when the UPS is empty").replace("192.0.2.60", "127.0.0.1")
    server.run(UPS, 120)
    server.run(f"echo MODE=netclient >/etc/nut/nut.conf; cat >/etc/nut/upsmon.conf <<'END'\n{monitor}END", 60)
    server.run("systemctl restart nut-monitor && systemctl is-active nut-monitor", 120)
    with Writers(server) as writers:
        server.run("printf 'ups.status: OB LB\\nTIMER 1\\n' >/etc/nut/ups.dev")
        server.wait_until_off()
        with machine_of(copy_of_server) as again:
            again.wait_for_boot()
            shutdown = again.run("journalctl --no-pager --boot -1 -u nfs-ganesha -u zvaai-target")
            assert "Stopped" in shutdown, shutdown
            writers.move(again)
            writers.wait_for_more()
            writers.stop()
            writers.verify(again)
