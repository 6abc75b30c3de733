# SPDX-License-Identifier: Apache-2.0
"""`apt install zvaai` on a Debian 13 with systemd: first start, datastores, reboot, shutdown.

The disk already has the Debian packages that zvaai depends on, because apt takes minutes in this kernel.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest
from machine import Machine
from support.storage_server import (
    APPLIANCE,
    SERVING,
    FirstStart,
    MachineMaker,
    Writers,
    failed_units,
    log_in,
    started_at,
    timed,
)

EXPOSURE_MAX = 8.7
"""packaging/systemd/README.md has the reasons."""
LATE_NETWORK = """
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=240
ExecStart=/bin/sh -c 'for unit in zvaai-target zvaai-frontend nfs-ganesha zvaai-api; do \
  until systemctl -q is-active $$unit || [ "$$(systemctl is-enabled $$unit)" = masked ]; do sleep 1; done; done'
[Unit]
Before=network-online.target
[Install]
RequiredBy=network-online.target
"""
"""A network that is online only after target, NFS server and console serve, unless masked; it fails if they wait for that."""


def test_the_console_shows_its_code(first_start: FirstStart) -> None:
    """On the login screen, and by command for root."""
    code = re.search(r"One-time code: +([0-9a-f-]{20,})", first_start.setup)
    assert code and "https://192.0.2.2:8443" in first_start.setup, first_start.setup
    assert code[1] in first_start.login_screen
    assert first_start.issue_mode == "-rw-------"
    assert first_start.failed == []


@pytest.fixture(scope="module")
def server(machine_of: MachineMaker, copy_of_server: str) -> Iterator[Machine]:
    """The machine, set up by a seed file and rebooted."""
    with machine_of(copy_of_server) as machine:
        machine.wait_for_boot()
        yield machine


def test_port_80_stays_free_when_nginx_is_updated(server: Machine) -> None:
    server.run("dpkg-reconfigure nginx-common nginx")
    server.run("test -z \"$(ss -Hltn 'sport = :80')\"")


def test_nginx_leaves_port_80_to_another_web_server(server: Machine) -> None:
    """If another one had port 80 at the installation, nginx did not start: at the next boot either could get the port."""
    configure = "DPKG_MAINTSCRIPT_PACKAGE=zvaai DPKG_MAINTSCRIPT_NAME=postinst /var/lib/dpkg/info/zvaai.postinst configure"
    state = "systemctl is-enabled nginx || true"
    server.run("update-rc.d nginx enable && touch /var/www/html/index.html", 60)
    server.run(configure, 300)
    assert "enabled" in server.run(state), "it may be stopped for a moment"
    server.run(
        "systemd-run -q --unit other python3 -m http.server 80; until ss -Hltn 'sport = :80' | grep -q .; do sleep 0.2; done", 60
    )
    server.run(configure, 300)
    assert "disabled" in server.run(state)
    server.run("systemctl stop other && rm /var/www/html/index.html", 60)


def test_a_seed_file_sets_it_up(server: Machine, first_start: FirstStart, report_line: Callable[[str], None]) -> None:
    report_line(
        f"installed in {first_start.install_seconds:.0f} s, set up with two datastores in {first_start.setup_seconds:.0f} s"
    )
    assert "is set up" in server.run("zvaai setup")
    server.run("test ! -e /etc/zvaai/setup.toml && test ! -e /etc/issue.d/zvaai.issue")
    assert failed_units(server) == []


def test_the_nfs_server_is_confined(server: Machine) -> None:
    """The other units are whole in the packages: the tests of the environment check those."""
    shown = server.run("systemd-analyze security --no-pager nfs-ganesha.service | tail -n 1")
    level = re.search(r": ([0-9.]+) ", shown)
    assert level and float(level[1]) <= EXPOSURE_MAX, shown


def test_the_target_can_open_zvols_and_no_disk(server: Machine) -> None:
    """Even root cannot in its control group."""
    read = "sh -c 'echo $$ >/sys/fs/cgroup/system.slice/zvaai-target.service/cgroup.procs && exec head -c 1 \"$0\"'"
    disk = server.run("findmnt -no SOURCE /").strip()
    server.run(f"{read} $(ls /dev/zd* | head -n 1) && head -c 1 {disk}")
    assert "Operation not permitted" in server.run(f"! {read} {disk} 2>&1")


def test_the_worker_reads_the_journal(server: Machine) -> None:
    log_in(server)
    logged = server.run("zvaai logs --unit zvaai-worker --limit 500", 60)
    assert "Started zvaai-worker.service" in logged
    assert "zvaai-target" in server.run("zvaai logs --unit zvaai-target --limit 5", 60)


def test_the_worker_reads_the_updates(server: Machine) -> None:
    """In its sandbox, as root does without the appliance."""
    log_in(server)
    shown = server.run("zvaai updates", 120)
    assert "newest versions" in shown and "IN THE WAY" not in shown, shown
    assert shown == server.run("zvaai upgrade --check", 300)


def test_root_replaces_a_lost_password(server: Machine) -> None:
    server.run("zvaai setup --reset-administrator admin <<<'battery staple 8'", 180)
    log_in(server, "battery staple 8")
    assert "tank" in server.run("zvaai pool list", 60)
    server.run("test ! -e /var/lib/zvaai/reset-code")


def test_hosts_write_and_survive_a_reboot(
    machine_of: MachineMaker, copy_of_server: str, server: Machine, report_line: Callable[[str], None]
) -> None:
    """A reboot by the appliance while hosts write: pools, mounts, target and NFS server return before it, with all data.

    They return as well if neither the appliance nor zvol_clone starts, encrypted datastores too. Target, NFS server and console
    do not wait for an online network.
    """
    server.run(f"cat >/etc/systemd/system/late-network.service <<'END'\n{LATE_NETWORK}END\nsystemctl enable late-network")
    with contextlib.ExitStack() as stack:
        writers = stack.enter_context(Writers(server))
        assert "esx1" in server.run("zvaai power show", 60)
        server.run("zvaai datastore create secret --kind nfs --pool tank --size 1G --encrypted --group cluster --wait", 120)
        server.run("zvaai power reboot --yes <<<'battery staple 8'", 60)
        server.wait_until_off()
        again = stack.enter_context(machine_of(copy_of_server))
        booted = timed(again.wait_for_boot)
        writers.move(again)
        writers.wait_for_more()
        writers.stop()
        writers.verify(again)
        assert failed_units(again) == []
        again.run("until zvaai audit list --action power | grep -q power.change; do sleep 0.2; done", 120)
        order = [started_at(again, unit) for unit in ("zfs-import.target", "zvaai-mounts.service")]
        assert 0 < order[0] <= order[1]
        for unit in SERVING:
            assert order[1] <= started_at(again, unit) <= min(started_at(again, other_unit) for other_unit in APPLIANCE), unit
        report_line(f"booted in {booted:.0f} s")
        units = "zvaai-worker.service zvaai-api.service zvaai-api.socket zvaai-helper.socket zvaai-helper.service"
        again.run(f"systemctl mask {units}")
        again.run("find /usr/lib/modules -name zvol_clone.ko -delete && depmod -a")  # as after a failed build of DKMS
        again.power_off("reboot")
        alone = stack.enter_context(machine_of(copy_of_server))
        alone.wait_for_boot()
        alone.run("test ! -e /dev/zvol_clone")
        assert alone.run("stat -c '%a %U %G' /srv/zvaai").split() == ["710", "root", "zvaai-target"]
        alone.run("mountpoint /srv/zvaai/secret-* && grep -rq 'Pseudo = \"/secret\"' /run/zvaai-nfs/exports")
        writers.move(alone)
        writers.wait_for_more()
        writers.stop()
        writers.verify(alone)
        assert alone.run("systemctl is-active zvaai-worker zvaai-api || true").split() == ["inactive"] * 2
        alone.run(f"systemctl unmask {units} && systemctl start {units}")
        alone.run("until zvaai pool list; do sleep 1; done", 120)
        assert re.search("FAILED +The kernel module zvol_clone is loaded", alone.run("! zvaai readiness", 60))
