# SPDX-License-Identifier: Apache-2.0
"""Files of an NFS datastore by the command `zvaai`: worker and API as separate processes, the real ganesha, XFS."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import ganesha as daemon
from support.appliance import Appliance, running_appliance
from support.libnfs import mounted
from support.message_bus import message_bus
from support.programs import IN_GUEST, wait_for

pytestmark = pytest.mark.skipif(IN_GUEST, reason="storage is the simulator's folders")
SIZE = 4 << 20
DISK, NEW = "vm/disk-flat.vmdk", "vm/new-flat.vmdk"
FAILED, INVALID, AWAY = 1, 7, 6


@dataclass
class Rig:
    """An appliance with the datastore `first`, which has a disk of a virtual machine."""

    appliance: Appliance
    server: daemon.Ganesha
    data: bytes

    def files(self) -> dict[str, Any]:
        """Output of `zvaai file list` by path, without the time."""
        files_listed = self.appliance.json("file", "list", "first")
        return {file["path"]: {name: value for name, value in file.items() if name != "as_of"} for file in files_listed}

    def clone(self, source: str, destination: str, *words: str) -> Any:
        return self.appliance.json("file", "clone", "first", source, destination, "--wait", *words)


@pytest.fixture(scope="module")
def rig(lasting_store: Path, tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Rig]:
    """A rig for all tests of this file: each uses different names."""
    directory = tmp_path_factory.mktemp("rig")
    exports, socket, block = directory / "exports", directory / "vaai-nas.socket", directory / "vaai-nas.conf"
    exports.mkdir()
    block.write_text(f'VAAI_NAS {{ Control_Socket = "{socket}"; }}\n')
    blocks = f'FSAL_LIST {{ Name = VAAI_NAS; }}\n%include "{block}"\n%dir "{exports}/*.conf"\n'
    with message_bus(directory / "bus") as bus:
        settings = f'exports = "{exports}"\nbus = "{bus}"\nstatistics = "{socket}"'
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus}
        always = [daemon.Export(9, Path("/usr"), "/somebody-elses", fsal="VFS", access="RO")]
        with (
            daemon.running_ganesha(directory / "ganesha", always, environment=environment, blocks=blocks) as server,
            running_appliance(lasting_store / "a", nfs=settings, vaai_nas=block) as appliance,
        ):
            words = ["--kind", "nfs", "--pool", "tank", "--size", "1G", "--client", "127.0.0.1", "--wait"]
            appliance.cli("datastore", "create", "first", *words)
            data = random.Random(seed).randbytes(SIZE)
            with mounted("/first") as host:
                host.mkdir("/vm")
                host.write_file(f"/{DISK}", data)
                host.write_file("/vm/disk.vmdk", b"# Disk DescriptorFile\n")
            yield Rig(appliance, server, data)


def test_a_disk_is_cloned_and_shares_its_blocks(rig: Rig) -> None:
    before = rig.files()
    assert set(before) == {DISK} and before[DISK]["total"] == str(SIZE)
    (row,) = rig.appliance.json("offloads")["exports"]
    assert row["statistics"]["operations"] == 0, "the appliance's lists are no requests of hosts"
    output = rig.clone(DISK, NEW, "--fast")
    sizes = {"total_bytes": str(SIZE), "cloned_bytes": str(SIZE), "copied_bytes": "0", "hole_bytes": "0"}
    assert output["result"] | sizes == output["result"] and output["result"]["copied_because"] == {}
    with mounted("/first") as host:
        assert host.read_file(f"/{NEW}") == rig.data
    (row,) = rig.appliance.json("offloads")["exports"]
    counted = {name: row[name]["operations"] for name in ("clone", "fast_clone", "statistics")}
    assert counted == {"clone": 0, "fast_clone": 1, "statistics": 0}
    files = rig.files()
    assert (files[NEW]["unique"], files[NEW]["unique_exact"]) == (str(SIZE), False), "on XFS the value is an upper bound"
    (entry,) = [audit for audit in rig.appliance.json("audit", "list") if audit["action"] == "file.clone"]
    assert (entry["status"], entry["after"]["destination"]) == (202, NEW)


def test_refusals_have_a_reason(rig: Rig) -> None:
    before = rig.files()
    for source, destination, code, text in (
        ("../x", "new.vmdk", INVALID, "source"),
        (DISK, "/new.vmdk", INVALID, "destination"),
        ("vm/missing.vmdk", "new.vmdk", FAILED, "there is no such file"),
        (DISK, "missing/new.vmdk", FAILED, "there is no such folder"),
        ("vm", "new.vmdk", FAILED, "source"),
        (DISK, "vm/disk.vmdk", FAILED, "destination"),
    ):
        done = rig.appliance.run("file", "clone", "first", source, destination, "--wait")
        assert (done.returncode, text in done.stderr) == (code, True), done
    assert rig.files() == before


def test_a_clone_that_a_worker_has_begun_is_ended_by_the_next(rig: Rig) -> None:
    job = rig.appliance.json("file", "clone", "first", DISK, "killed.vmdk")
    rig.appliance.worker.kill()
    rig.appliance.worker.start()
    wait_for(lambda: rig.appliance.has_succeeded(job["id"]), "it has succeeded")
    with mounted("/first") as host:
        assert host.read_file("/killed.vmdk") == rig.data


def test_while_the_nfs_server_is_away_a_clone_waits(rig: Rig) -> None:
    rig.server.kill()
    assert rig.appliance.run("file", "list", "first").returncode == AWAY
    job = rig.appliance.json("file", "clone", "first", DISK, "away.vmdk")
    rig.server.start()
    wait_for(lambda: rig.appliance.has_succeeded(job["id"]), "it has succeeded")
    with mounted("/first") as host:
        assert host.read_file("/away.vmdk") == rig.data
