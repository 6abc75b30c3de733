# SPDX-License-Identifier: Apache-2.0
"""An older database, with the real processes: after a restart the pool's configuration is taken."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from support.appliance import running_appliance
from support.programs import wait_for


def copied(source: Path, to: Path) -> None:
    """Copies a database, as an admin restores it."""
    with closing(sqlite3.connect(source)) as older, closing(sqlite3.connect(to)) as newer:
        older.backup(newer)


def test_an_older_database_takes_the_pools_configuration(tmp_path: Path) -> None:
    with running_appliance(tmp_path / "a", reconcile_seconds=60, simulating_helper=True) as appliance:
        disks = [disk["path"] for disk in appliance.json("pool", "disks") if not disk.get("used_by")][:2]
        appliance.cli("pool", "create", "tank", "mirror", *disks, "--wait")
        appliance.cli("host", "create", "esx1", "--iqn", "iqn.1998-01.com.vmware:esx1")

        def on_pool() -> bool:
            recovery = appliance.json("recover")
            return [copy["generation"] for copy in recovery["copies"] if copy["this_installation"]] == [recovery["generation"]]

        wait_for(on_pool, "the pool has the configuration")
        database, older = appliance.directory / "state/appliance.sqlite", appliance.directory / "older"
        copied(database, older)
        appliance.cli("host", "create", "esx2", "--iqn", "iqn.1998-01.com.vmware:esx2")
        wait_for(on_pool, "the pool has the second host")
        appliance.api.stop()
        appliance.worker.kill()
        copied(older, database)
        appliance.worker.start()
        appliance.api.start()
        wait_for(lambda: '"active": true' in appliance.run("-o", "json", "recover").stdout, "recovery mode")
        refused = appliance.run("host", "create", "esx3", "--iqn", "iqn.1998-01.com.vmware:esx3")
        assert refused.returncode == 4 and "recovery mode" in refused.stderr, refused
        assert "suggested: zvaai recover --from tank" in appliance.cli("recover")
        appliance.cli("recover", "--from", "tank", "--yes")
        assert {host["name"] for host in appliance.json("host", "list")} == {"esx1", "esx2"}
        wait_for(on_pool, "the pool has the configuration that was taken")
        assert "not in recovery mode" in appliance.cli("recover")
