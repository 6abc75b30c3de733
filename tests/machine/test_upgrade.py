# SPDX-License-Identifier: Apache-2.0
"""Upgrade and downgrade on a Debian 13 that systemd boots, while hosts write.

The other versions are the built one with another number.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from machine import Machine
from support import releases
from support.fio_hosts import FioHosts
from support.programs import wait_for
from support.releases import publish
from support.storage_server import (
    APPLIANCE,
    SERVING,
    MachineMaker,
    Writers,
    failed_units,
    log_in,
    properties,
    timed,
    versions,
)

INTERRUPTED_SECONDS_MAX = 30.0
"""One restart, in this slow kernel and on a loaded machine; docs/measured.md has the figures."""
PACKAGES = ("zvaai", "zvaai-nfs", "zvaai-target")
LIBRARY = "/usr/lib/ganesha/libganesha_nfsd.so.6.5"


@pytest.fixture(scope="module")
def server(machine_of: MachineMaker, copy_of_server: str, site: Path) -> Iterator[Machine]:
    """Set up, and hosts may write."""
    with machine_of(copy_of_server, site) as machine:
        machine.wait_for_boot()
        yield machine


@pytest.fixture(scope="module")
def built(site: Path) -> str:
    """The version that is installed."""
    return releases.version_of(site)


def installed(version: str) -> dict[str, str]:
    return dict.fromkeys(PACKAGES, f"{version} installed")


def get(server: Machine, version: str, check: bool = True) -> str:
    """Installs a version as docs/install.md describes; returns apt's output."""
    names = " ".join(f"{name}='{version}'" for name in PACKAGES)
    return server.run(f"apt-get -q update && apt-get -q -y install --allow-downgrades {names}", 900, check)


def started(server: Machine) -> dict[str, str]:
    """The main process of each unit that serves hosts."""
    return {unit: properties(server, unit, "MainPID")["MainPID"] for unit in SERVING}


def interruptions(writers: Writers, server: Machine) -> str:
    """The longest time in which a host got no answer; nothing that was acknowledged is lost."""
    writers.wait_for_more()
    longest = {kind: report["longest"] for kind, report in writers.stop().items()}
    writers.verify(server)
    assert max(longest.values()) < INTERRUPTED_SECONDS_MAX, longest
    return f"hosts waited at most {longest['iscsi']:.1f} s (iSCSI), {longest['nfs']:.1f} s (NFSv3)"


def test_hosts_write_through_an_upgrade(server: Machine, site: Path, built: str, report_line: Callable[[str], None]) -> None:
    """The configuration is backed up before."""
    newer = f"{built}+1"
    publish(site, newer)
    server.run("apt-get -q update")
    announced = server.run("zvaai upgrade --check", 300)
    assert all(f"{name}: {built} -> {newer}" in announced for name in PACKAGES), announced
    before = started(server)
    with FioHosts(server) as fio, Writers(server) as writers:
        fio.goes_on("before the upgrade")
        seconds = timed(lambda: server.run("apt-get -q -y upgrade", 900))
        fio.goes_on("after the upgrade")
        waited = interruptions(writers, server)
    report_line(f"upgraded in {seconds:.0f} s; {waited}")
    assert versions(server) == installed(newer) and failed_units(server) == []
    assert not set(before.values()) & set(started(server).values()), "a unit that serves hosts was not started again"
    backups = server.run("ls /var/backups/zvaai").split()
    assert [name.partition("-")[2] for name in backups] == [built]
    stored = f"/var/backups/zvaai/{backups[0]}"
    server.run(f"test -s {stored}/secrets.key && test -s {stored}/target.json && test -d {stored}/zvaai")
    database = f"sqlite3.connect('{stored}/appliance.sqlite')"
    check = f"import sqlite3; print({database}.execute('PRAGMA integrity_check').fetchone()[0])"
    assert server.run(f'python3 -c "{check}"').strip() == "ok"


def test_hosts_write_through_a_downgrade(server: Machine, built: str, report_line: Callable[[str], None]) -> None:
    with Writers(server) as writers:
        seconds = timed(lambda: get(server, built))
        waited = interruptions(writers, server)
    report_line(f"downgraded in {seconds:.0f} s; {waited}")
    assert versions(server) == installed(built) and failed_units(server) == []


def test_a_version_that_cannot_read_the_database_changes_nothing(server: Machine, site: Path, built: str) -> None:
    """The appliance is back afterwards; what serves hosts has not ended."""

    def older_tables(_name: str, tree: Path) -> None:
        if (script := tree / "DEBIAN/preinst").exists() and " needed=" in (text := script.read_text()):
            script.write_text(re.sub(r" needed=(\d+)", lambda match: f" needed={int(match[1]) - 1}", text))

    publish(site, f"{built}~1", older_tables)
    before = started(server)
    said = get(server, f"{built}~1", check=False)
    assert "Nothing was changed" in said and "Sub-process /usr/bin/dpkg returned an error code" in said, said
    assert versions(server) == installed(built)
    assert started(server) == before
    assert server.run(f"systemctl is-active {' '.join(APPLIANCE)}", check=False).split() == ["active"] * 2, said
    assert server.run("dpkg --audit") == ""
    assert "is set up" in server.run("zvaai setup", 180)


def test_if_the_new_target_does_not_start_the_old_one_serves(
    server: Machine, site: Path, built: str, report_line: Callable[[str], None]
) -> None:
    """Also if the following version does not start. A version that starts repairs everything."""

    def replaced_by(text: str, name: str, tree: Path) -> None:
        if name == "zvaai-target":
            (tree / "usr/sbin/zvaai-target").write_text(text)

    serves_not, cannot_be_executed = '#!/bin/sh\n[ "$1" = --version ] || exit 1\n', "#!/nowhere\n"
    for number, text in ((2, serves_not), (3, cannot_be_executed)):
        publish(site, f"{built}+{number}", partial(replaced_by, text))
        with Writers(server) as writers:
            said = get(server, f"{built}+{number}", check=False)
            waited = interruptions(writers, server)
        assert "the previous version serves" in said, said
        serving = server.run("readlink /proc/$(systemctl show -P MainPID zvaai-target)/exe").strip()
        assert serving == "/usr/lib/zvaai/previous/zvaai-target"
        server.run(f"systemctl start {' '.join(APPLIANCE)} zvaai-api.socket", 180, check=False)  # as at a reboot
        assert server.run(f"systemctl is-active {' '.join(APPLIANCE)}", check=False).split() == ["inactive"] * 2
        report_line(f"a target that does not start: {waited}")
    publish(site, f"{built}+4")
    get(server, f"{built}+4")
    assert versions(server) == installed(f"{built}+4") and failed_units(server) == []
    assert server.run("readlink /proc/$(systemctl show -P MainPID zvaai-target)/exe").strip() == "/usr/sbin/zvaai-target"
    assert server.run(f"systemctl is-active {' '.join(APPLIANCE)}", check=False).split() == ["active"] * 2


def test_nfs_is_served_with_debians_library_after_its_update(server: Machine) -> None:
    """With an alert until zvaai-nfs has the new version too."""
    log_in(server)

    def alert() -> bool:
        return "without VAAI-NAS" in server.run("zvaai --output json alert list", 180)

    assert not alert()
    size = server.run(f"stat --format %s {LIBRARY}").strip()
    with Writers(server) as writers:
        server.run(f"echo >>{LIBRARY}; systemctl restart nfs-ganesha", 180)
        wait_for(alert, "an alert says that VAAI-NAS is off", 180)
        interruptions(writers, server)
    server.run(f"truncate --size {size} {LIBRARY}; systemctl restart nfs-ganesha", 180)
    wait_for(lambda: not alert(), "the alert is cleared", 180)


def test_an_nfs_server_that_does_not_start_fails_the_upgrade(server: Machine, site: Path, built: str) -> None:
    def without_its_fsal(name: str, tree: Path) -> None:
        if name == "zvaai-nfs":
            (tree / "usr/lib/x86_64-linux-gnu/ganesha/libfsalzvaai.so").write_bytes(b"")

    publish(site, f"{built}+4.1", without_its_fsal)
    said = get(server, f"{built}+4.1", check=False)
    assert "the NFS server does not start" in said and "returned an error code" in said, said
    publish(site, f"{built}+4.2")
    get(server, f"{built}+4.2")
    assert versions(server) == installed(f"{built}+4.2") and failed_units(server) == []


def test_an_upgrade_continues_after_a_power_cut(
    machine_of: MachineMaker, copy_of_server: str, server: Machine, site: Path, built: str, report_line: Callable[[str], None]
) -> None:
    """The power fails in postinst of the target, then of the appliance. Hosts are served after the next boot."""
    machine = server
    with contextlib.ExitStack() as stack:
        writers = stack.enter_context(Writers(machine))
        for number, package in ((5, "zvaai-target:amd64"), (6, "zvaai:all")):
            newer = f"{built}+{number}"
            publish(site, newer)
            state = f"status half-configured {package} {newer}"
            machine.run("apt-get -q update && systemd-run --unit=upgrade apt-get -q -y upgrade", 300)
            machine.run(f"until grep -qF '{state}' /var/log/dpkg.log; do sleep 0.05; done", 600)
            machine.kill()
            machine = stack.enter_context(machine_of(copy_of_server, site))
            booted = timed(machine.wait_for_boot)
            writers.move(machine)
            assert package.partition(":")[0] in machine.run("dpkg --audit"), "the power did not fail in postinst"
            machine.run("dpkg --configure -a; apt-get -q -y --fix-broken install && apt-get -q -y upgrade", 600)
            writers.wait_for_more()
            writers.stop()
            writers.verify(machine)
            assert versions(machine) == installed(newer) and failed_units(machine) == []
            report_line(f"power cut in postinst of {package}: booted in {booted:.0f} s")
            writers.move(machine)
