# SPDX-License-Identifier: Apache-2.0
"""NFS datastores on real datasets by the API, from creation to deletion: API, worker, root helper and ganesha.nfsd are real."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.appliance import GIB, Appliance, running_appliance, running_helper
from support.ganesha import Daemon, running_ganesha
from support.libnfs import mounted
from support.message_bus import message_bus
from support.nfs_mount import kernel_mount
from support.programs import IN_GUEST, REPOSITORY, run, wait_for
from support.short_pool import Filler
from support.vaai_nas import vaai_nas

POOL = "nfsstory"
DEVICE = Path("/dev/shm/nfsstory0")
HELPER = Path("/run/zvaai-helper-nfsstory.sock")
ESX = "192.0.2.11"
"""An address of this machine: a client of it uses it too."""
MIB = 1 << 20
PATIENCE = 120
"""Seconds; allows for a loaded machine."""


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """An appliance with an unused device in memory, and a daemon without exports."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    with DEVICE.open("wb") as file:
        file.truncate(4 * GIB)
    exports, block, sockets = tmp_path / "exports", tmp_path / "vaai-nas.conf", tmp_path / "sockets"
    exports.mkdir()
    sockets.mkdir()
    packaged = (REPOSITORY / "packaging/ganesha/vaai-nas.conf").read_text()
    block.write_text(packaged.replace("/run/zvaai-nfs", str(sockets)).replace("Control_User = zvaai;", ""))
    blocks = f'FSAL_LIST {{ Name = VAAI_NAS, ZVAAI_EXPORTS; }}\n%include "{block}"\n%dir "{exports}/*.conf"\n'
    run("ip", "address", "add", f"{ESX}/32", "dev", "lo")
    try:
        with contextlib.ExitStack() as stack:
            bus = stack.enter_context(message_bus(tmp_path / "bus"))
            environment = {"DBUS_SYSTEM_BUS_ADDRESS": bus}
            stack.enter_context(running_ganesha(tmp_path / "ganesha", [], Daemon.PATCHED, environment=environment, blocks=blocks))
            of_nfs = ("--exports", str(exports), "--with-exports", str(block), "--bus", bus, "--keys", str(tmp_path / "keys"))
            stack.enter_context(running_helper(HELPER, *of_nfs))
            statistics = sockets / "vaai-nas.socket"
            nfs = f'exports = "{exports}"\nbus = "{bus}"\nstatistics = "{statistics}"'
            yield stack.enter_context(running_appliance(tmp_path / "a", reconcile_seconds=30, helper=HELPER, nfs=nfs))
    finally:
        run("ip", "address", "del", f"{ESX}/32", "dev", "lo")
        if POOL in run("zpool", "list", "-H", "-o", "name").split():
            run("zpool", "destroy", "-f", POOL)
        DEVICE.unlink()


def read(export: str, path: str) -> bytes:
    """Content of a file, read as the host."""
    with mounted(export, server=ESX) as host:
        return host.read_file(path)


def is_refused(export: str) -> bool:
    """Whether the host cannot mount the export."""
    try:
        with mounted(export, server=ESX) as host:
            host.names()
    except OSError:
        return True
    return False


def cross_the_threshold(appliance: Appliance, data: bytes, directory: Path) -> None:
    """This much data is 5 % of 1 GiB, and less than 3 % of 2 GiB, where the alert is cleared; the host sees the quota grow."""

    def is_reported() -> bool:
        appliance.run("reconcile")  # fails if there is any drift, even a temporary one
        return any("datastore first uses" in alert["text"] for alert in appliance.json("alert", "list"))

    assert not is_reported()
    with mounted("/first", server=ESX) as host:
        host.write_file("/more", data)
    run("zpool", "sync", POOL)
    wait_for(is_reported, "the threshold is reported", PATIENCE)
    with kernel_mount("/first", directory, "3", server=ESX) as mount:

        def size() -> int:
            return os.statvfs(mount).f_blocks * os.statvfs(mount).f_frsize

        assert size() == GIB
        appliance.cli("datastore", "quota", "first", "2G", "--wait")
        wait_for(lambda: size() == 2 * GIB, "the host sees that it grew", PATIENCE)
    wait_for(lambda: not is_reported(), "the threshold alert is cleared", PATIENCE)


def check_thick_and_thin(appliance: Appliance, dataset: str) -> None:
    """The first datastore: the host's view, refusals, and reservations of ZFS."""

    def reserved() -> int:
        return int(run("zfs", "get", "-Hpo", "value", "refreservation", dataset))

    def needed() -> int:
        return int(appliance.json("datastore", "show", "first")["space"]["admitted"] or 0)

    assert reserved() == GIB + 128 * MIB
    with mounted("/first", server=ESX) as host:
        host.write_file("/sparse-flat.vmdk", b"")
        host.truncate("/sparse-flat.vmdk", 900 * MIB)
        wait_for(lambda: needed() >= 900 * MIB, "sparse files count whole", PATIENCE)
        host.write_file("/more-flat.vmdk", b"")
        with pytest.raises(OSError, match="(?i)space"):
            host.truncate("/more-flat.vmdk", 200 * MIB)
        appliance.cli("datastore", "change", "first", "--thin", "--wait")
        assert reserved() == 0
        host.truncate("/more-flat.vmdk", 200 * MIB)
        for name in ("/sparse-flat.vmdk", "/more-flat.vmdk"):
            host.unlink(name)
    appliance.cli("datastore", "change", "first", "--thick", "--wait")
    assert reserved() == GIB + 128 * MIB
    appliance.cli("datastore", "change", "first", "--thin", "--wait")


@pytest.mark.long("130 s; the demo leads datastores of both kinds through their life by the console, on this module, in each run")
def test_the_life_of_nfs_datastores(appliance: Appliance, tmp_path: Path, seed: int) -> None:
    def is_reported(name: str) -> Any:
        return appliance.json("datastore", "show", name)

    random_bytes = random.Random(seed).randbytes
    before, after = random_bytes(2 * MIB), random_bytes(2 * MIB)

    # From an unused device to an export that a host writes to.
    appliance.cli("pool", "create", POOL, str(DEVICE), "--force", "--wait")
    appliance.cli("group", "create", "cluster")
    appliance.cli("host", "create", "esx1", "--address", ESX, "--group", "cluster")
    words = ("--kind", "nfs", "--pool", POOL, "--size", "1G", "--soft-threshold", "5", "--group", "cluster", "--wait")
    appliance.cli("datastore", "create", "first", *words, "--thick")
    first = is_reported("first")
    assert first["thick"]
    check_thick_and_thin(appliance, first["dataset"])
    with mounted("/first", server=ESX) as host:
        host.write_file("/disk", before)

    # A clone that the server makes for the host counts as an offload of its datastore.
    ports = ("--nfs-port", "2049", "--mount-port", "20048")
    cloned = vaai_nas(*ports, "fast-clone", f"{ESX}:/first", "disk", "clone")
    assert cloned.returncode == 0 and read("/first", "/clone") == before, cloned
    (counted,) = [export["offload"] for export in appliance.json("offloads")["exports"] if export["datastore"] == first["id"]]
    assert counted["cloned_bytes"] == len(before)

    appliance.cli("snapshot", "create", "one", "first", "--wait")
    with mounted("/first", server=ESX) as host:
        host.write_file("/disk", after)
    cross_the_threshold(appliance, random_bytes(53 * MIB), tmp_path / "mounted")

    # Rollback: refused while a host uses the export, unless forced.
    refused = appliance.run("snapshot", "rollback", "first", "one", "--yes")
    assert refused.returncode == 4 and ESX in refused.stderr, refused
    assert read("/first", "/disk") == after
    appliance.cli("snapshot", "rollback", "first", "one", "--yes", "--force", "--wait")
    with mounted("/first", server=ESX) as host:
        assert host.read_file("/disk") == before and host.names() == {"disk", "clone"}

    # A clone is another datastore with the same content, independent from then on.
    appliance.cli("datastore", "clone", "first", "second", "--group", "cluster", "--wait")
    assert read("/second", "/disk") == before and is_reported("second")["uuid"] != first["uuid"]
    with mounted("/second", server=ESX) as host:
        host.write_file("/disk", b"the clone's")
    assert read("/first", "/disk") == before and read("/second", "/disk") == b"the clone's"

    # Delete, restore, destroy, including the snapshots that were made for clones.
    appliance.cli("datastore", "delete", "first", "--yes", "--force", "--wait")
    assert is_refused("/first") and is_reported("first")["state"] == "deleted"
    appliance.cli("datastore", "restore", "first", "--group", "cluster", "--wait")
    assert read("/first", "/disk") == before and is_reported("first")["uuid"] == first["uuid"]
    for name in ("second", "first"):
        appliance.cli("datastore", "delete", name, "--yes", "--force", "--wait")
        appliance.cli("datastore", "purge", name, "--yes", "--wait")
        assert is_refused(f"/{name}")
    assert not list((tmp_path / "exports").iterdir())
    left = run("zfs", "list", "-H", "-o", "name", "-t", "filesystem,snapshot", "-r", POOL).split()
    expected = (POOL, "zvaai", "zvaai-configuration")
    assert not [dataset for dataset in left if dataset.rpartition("/")[2] not in expected], left
    # After the end of a job the worker scans again.
    wait_for(
        lambda: all("has no redundancy" in alert["text"] for alert in appliance.json("alert", "list")),
        "no alert is left, except that the pool is of one device",
        PATIENCE,
    )
    appliance.cli("pool", "export", POOL, "--wait")


def test_datastores_of_a_full_pool_are_deleted_restored_and_purged(appliance: Appliance) -> None:
    """This is how a user frees space after a thin NFS datastore has filled the pool."""

    def number(dataset: str, name: str) -> int:
        return int(run("zfs", "get", "-Hpo", "value", name, dataset))

    appliance.cli("pool", "create", POOL, str(DEVICE), "--force", "--wait")
    appliance.cli("datastore", "create", "block", "--pool", POOL, "--size", "1G", "--wait")
    appliance.cli("datastore", "create", "files", "--kind", "nfs", "--pool", POOL, "--size", "1G", "--encrypted", "--wait")
    block, files = (appliance.json("datastore", "show", name) for name in ("block", "files"))
    wait_for(lambda: number(block["dataset"], "reservation") > 0, "the target reserves the headroom", PATIENCE)
    taken = number(POOL, "available") - 256 * MIB
    run("zfs", "create", "-o", "canmount=off", "-o", f"reservation={taken}", f"{POOL}/taken")
    folder = Path("/srv/zvaai", files["dataset"].rpartition("/")[2])
    with Filler(folder) as filler:
        filler.wait_until_refused()
    run("zpool", "sync", POOL)

    for store in (block, files):
        appliance.cli("datastore", "delete", store["name"], "--yes", "--force", "--wait")
    assert run("zfs", "get", "-Ho", "value", "mounted,canmount", files["dataset"]).split() == ["no", "noauto"]
    wait_for(lambda: number(block["dataset"], "reservation") == 0, "the target releases the headroom", PATIENCE)
    for store in (block, files):
        appliance.cli("datastore", "restore", store["name"], "--wait")
    assert Path(folder, "filler").exists()
    for store in (block, files):
        appliance.cli("datastore", "delete", store["name"], "--yes", "--force", "--wait")
        appliance.cli("datastore", "purge", store["name"], "--yes", "--wait")
    wait_for(lambda: number(POOL, "available") >= 200 * MIB, "the space is free", PATIENCE)
