# SPDX-License-Identifier: Apache-2.0
"""A worker under an attacker's control can mount only at allowed mountpoints, and never with set-uid."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulators.zfs import Simulator

from appliance.helper.checks import Policy
from appliance.helper.client import HelperClient
from appliance.helper.mounts import RESERVATIONS, Mounts, give_folder, is_allowed, pools_of_the_system
from appliance.helper.server import Server
from appliance.helper.tests.served import client_of
from appliance.zfs.engine import ZfsEngine
from appliance.zfs.errors import DatasetBusy, Refused, UnexpectedFailure, ZfsError
from appliance.zfs.model import Redundancy, VdevSpec
from appliance.zfs.mountinfo import mounted_at, topmost


@pytest.fixture
def simulator() -> Simulator:
    simulator = Simulator()
    devices = tuple(disk.path for disk in simulator.disks()[:2])
    simulator.create_pool("tank", [VdevSpec(devices=devices, redundancy=Redundancy.MIRROR)])
    return simulator


@pytest.fixture
def client(simulator: Simulator, tmp_path: Path) -> Iterator[HelperClient]:
    with client_of(simulator, tmp_path / "helper.sock") as client:
        yield client


def is_safe(engine: ZfsEngine, name: str) -> bool:
    """No set-uid files, devices, programs."""
    properties = engine.filesystem(name).properties
    return {properties[key].value for key in ("setuid", "devices", "exec")} == {"off"}


def test_no_mountpoint_for_what_lies_below(client: HelperClient) -> None:
    """OpenZFS would mount it too, through a link that an NFS client has made."""
    client.create_filesystem("tank/a", properties={"mountpoint": "none"})
    client.create_filesystem("tank/a/b", properties={})
    with pytest.raises(Refused, match="lies below tank/a"):
        client.set_properties("tank/a", {"mountpoint": "/srv/zvaai/a"})


def test_where() -> None:
    assert is_allowed("/srv/zvaai/a", ("/srv/zvaai/",))
    elsewhere = ("/srv/zvaai", "/srv/zvaai/", "/srv/zvaai/a/b", "/srv/zvaai/..", "/srv/zvaai/.", "/etc", "", "/srv/zvaai-a")
    for mountpoint in elsewhere:
        assert not is_allowed(mountpoint, ("/srv/zvaai/",)), mountpoint


def test_created_file_systems_are_safe(client: HelperClient, simulator: Simulator) -> None:
    client.create_filesystem("tank/a", properties={"mountpoint": "/srv/zvaai/a"})
    assert is_safe(simulator, "tank/a")
    client.snapshot(["tank/a@s"])
    client.clone("tank/a@s", "tank/clone", properties={"mountpoint": "none"})
    assert is_safe(simulator, "tank/clone")
    devices = tuple(disk.path for disk in simulator.disks()[2:4])
    client.create_pool("other", [VdevSpec(devices=devices, redundancy=Redundancy.MIRROR)])
    assert is_safe(simulator, "other")


@pytest.mark.parametrize("share", ["sharenfs", "sharesmb"])
def test_created_file_systems_are_not_shared(share: str, client: HelperClient, simulator: Simulator) -> None:
    """The pool's root shares what lies below it, and no server for that is installed."""
    simulator.pool_state("tank").datasets[""].local[share] = "on"
    client.create_filesystem("tank/a", properties={"mountpoint": "/srv/zvaai/a"})
    client.snapshot(["tank/a@s"])
    client.clone("tank/a@s", "tank/clone", properties={"mountpoint": "/srv/zvaai/clone"})
    for name in ("tank/a", "tank/clone"):
        created = simulator.filesystem(name)
        assert created.mounted and created.properties[share].value == "off"
    with pytest.raises(ZfsError):
        client.set_properties("tank/a", {share: "on"})


def test_no_mountpoint_is_inherited(client: HelperClient, simulator: Simulator) -> None:
    """A client of the export above may have made a link at the mountpoint."""
    client.create_filesystem("tank/a", properties={"mountpoint": "/srv/zvaai/a"})
    client.snapshot(["tank/a@s"])
    for act in (
        lambda: client.create_filesystem("tank/a/link"),
        lambda: client.clone("tank/a@s", "tank/a/link"),
    ):
        with pytest.raises(Refused):
            act()
    assert client.create_filesystem("tank/a/below", properties={"mountpoint": "none"}).mountpoint is None


def test_foreign_mountpoints_are_not_mounted(client: HelperClient, simulator: Simulator) -> None:
    simulator.create_filesystem("tank/a", properties={"mountpoint": "/etc", "canmount": "noauto"})
    with pytest.raises(Refused):
        client.mount("tank/a")
    with pytest.raises(Refused):
        client.set_properties("tank/a", {"canmount": "on"})
    assert not simulator.filesystem("tank/a").mounted


def test_unsafe_properties_are_corrected_before_the_mount(client: HelperClient, simulator: Simulator) -> None:
    simulator.create_filesystem("tank/a", properties={"setuid": "on", "mountpoint": "none"})
    client.set_properties("tank/a", {"mountpoint": "/srv/zvaai/a"})
    assert simulator.filesystem("tank/a").mounted and is_safe(simulator, "tank/a")


def test_an_imported_pool_mounts_only_permitted_file_systems(client: HelperClient, simulator: Simulator) -> None:
    simulator.create_filesystem("tank/evil", properties={"mountpoint": "/etc"})
    simulator.create_filesystem("tank/good", properties={"mountpoint": "/srv/zvaai/good"})
    simulator.export_pool("tank")
    client.import_pool("tank")
    assert not simulator.filesystem("tank/evil").mounted
    assert simulator.filesystem("tank/good").mounted


def test_the_systems_pool_is_not_touched(simulator: Simulator) -> None:
    server = Server(simulator, None, users=(), policy=Policy(), system=lambda: ["tank"])  # type: ignore[arg-type]
    for message in (
        b'{"operation":"create_volume","arguments":{"name":"tank/a","volsize":1048576}}',
        b'{"operation":"export_pool","arguments":{"pool":"tank"}}',
        b'{"operation":"snapshot","arguments":{"snapshots":["tank@s"]}}',
    ):
        assert b'"refused"' in server.answer(message, 1, 0)
    assert b"refused" not in server.answer(b'{"operation":"datasets"}', 1, 0)
    assert simulator.snapshots() == [] and len(simulator.filesystems()) == 1


def test_pools_of_others_are_neither_shown_nor_touched(simulator: Simulator) -> None:
    simulator.create_volume("tank/a", 1 << 20)
    simulator.snapshot(["tank/a@s"])
    server = Server(simulator, None, users=(), policy=Policy(pools=frozenset({"own"})))  # type: ignore[arg-type]
    for message in (
        b'{"operation":"export_pool","arguments":{"pool":"tank"}}',
        b'{"operation":"pool","arguments":{"name":"tank"}}',
        b'{"operation":"datasets","arguments":{"root":"tank"}}',
        b'{"operation":"snapshot","arguments":{"snapshots":["tank/a@t"]}}',
        b'{"operation":"rollback","arguments":{"name":"tank/a@s"}}',
        b'{"operation":"clone","arguments":{"snapshot":"tank/a@s","name":"own/b"}}',
    ):
        assert b'"refused"' in server.answer(message, 1, 0), message
    for kind in ("pools", "importable", "datasets", "snapshots"):
        answer = server.answer(b'{"operation":"%s"}' % kind.encode(), 1, 0)
        assert b"tank" not in answer and b"refused" not in answer, answer
    everything = Server(simulator, None, users=(), policy=Policy(pools=frozenset({"tank"})))  # type: ignore[arg-type]
    for kind in ("pools", "datasets", "snapshots"):
        assert b"tank" in everything.answer(b'{"operation":"%s"}' % kind.encode(), 1, 0)
    assert b"tank/a" in everything.answer(b'{"operation":"datasets"}', 1, 0)
    assert len(simulator.snapshots()) == 1


def test_a_pool_of_the_system_has_mounts_of_the_system(tmp_path: Path) -> None:
    table, swaps = tmp_path / "mounts", tmp_path / "swaps"
    swaps.write_text("Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 1 0 -2\n")
    lines = [
        "rpool/ROOT/debian / zfs rw 0 0",
        "bpool/BOOT /boot zfs rw 0 0",
        "my\\040pool/var /var zfs rw 0 0",
        "/dev/sda1 /boot/efi vfat rw 0 0",
        "tank/backup /mnt/backup zfs rw 0 0",
        "tank/docker /var/lib/docker zfs rw 0 0",
        "tank/home /home zfs rw 0 0",
        "state/zvaai /var/lib/zvaai zfs rw 0 0",
    ]
    table.write_text("\n".join(lines) + "\n")
    assert pools_of_the_system(table, swaps) == {"rpool", "bpool", "my pool", "state"}
    table.write_text("\n".join(["/dev/sda1 / ext4 rw 0 0", *lines[4:7]]) + "\n")
    assert pools_of_the_system(table, swaps) == frozenset()
    swaps.write_text(swaps.read_text() + "/dev/zd_absent partition 1 0 -3\n")
    with pytest.raises(UnexpectedFailure, match="/dev/zd_absent"):  # without its pool no pool may be changed
        pools_of_the_system(table, swaps)


def test_a_pool_of_the_system_is_marked(simulator: Simulator, tmp_path: Path) -> None:
    server = Server(simulator, None, users=(), policy=Policy(), system=lambda: ["tank"])  # type: ignore[arg-type]
    assert b'"of_the_system":true' in server.answer(b'{"operation":"pools"}', 1, 0)
    with client_of(simulator, tmp_path / "helper.sock") as client:
        assert not client.pool("tank").of_the_system


def test_foreign_mountpoints_of_an_imported_pool_are_not_mounted_at_the_next_boot(
    client: HelperClient, simulator: Simulator
) -> None:
    """`zfs mount -a` runs at each boot and mounts file systems with canmount=on."""
    for name, mountpoint in (("evil", "/etc"), ("home", "/home"), ("good", "/srv/zvaai/good"), ("none", "none")):
        simulator.create_filesystem(f"tank/{name}", properties={"mountpoint": mountpoint, "canmount": "on"})
    simulator.create_filesystem("tank/home/below")
    simulator.export_pool("tank")
    client.import_pool("tank")
    canmount = {other.name: other.properties["canmount"].value for other in simulator.filesystems()}
    assert {name.partition("/")[2] for name, value in canmount.items() if value == "noauto"} == {"evil", "home", "home/below"}


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_the_folder_of_reservations_is_the_targets(tmp_path: Path) -> None:
    """Including files from another server; the target of a link keeps its owner."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("root's")
    (folder / "naa.json").write_text("{}")
    (folder / "link").symlink_to(elsewhere)
    give_folder(str(folder), 4711)
    assert {path.lstat().st_uid for path in (folder, folder / "naa.json", folder / "link")} == {4711}
    assert folder.stat().st_mode & 0o777 == 0o700 and elsewhere.stat().st_uid == 0
    (tmp_path / "to folder").symlink_to(folder)
    with pytest.raises(OSError):
        give_folder(str(tmp_path / "to folder"), 0)


def test_no_other_folder_is_given_away(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int]] = []
    monkeypatch.setattr("appliance.helper.mounts.give_folder", lambda path, user: given.append((path, user)))
    server = Server(simulator, None, users=(), policy=Policy(), target_user=4711)  # type: ignore[arg-type]
    place = f"/srv/zvaai/.reservations-{simulator.pool('tank').guid}"
    for name, where in ((RESERVATIONS, place), ("a", "/srv/zvaai/1"), (f"a/{RESERVATIONS}", "/srv/zvaai/2")):
        arguments = {"name": f"tank/{name}", "properties": {"mountpoint": where}}
        server.answer(json.dumps({"operation": "create_filesystem", "arguments": arguments}).encode(), 1, 0)
    assert len(simulator.filesystems()) == 4 and given == [(place, 4711)]


def test_reservations_are_mounted_only_at_the_mountpoint_of_their_pool(client: HelperClient, simulator: Simulator) -> None:
    """A replica that was received under the name of a lost pool has that pool's mountpoint."""
    name, place = f"tank/{RESERVATIONS}", f"/srv/zvaai/.reservations-{simulator.pool('tank').guid}"
    lost = "/srv/zvaai/.reservations-4711"
    for dataset, where in ((name, lost), (name, "/srv/zvaai/a"), ("tank/a", lost), ("tank/a", place)):
        with pytest.raises(Refused, match="is not the place of"):
            client.create_filesystem(dataset, properties={"mountpoint": where})
    simulator.create_filesystem(name, properties={"mountpoint": lost, "canmount": "noauto"})
    simulator.create_filesystem("tank/a", properties={"mountpoint": place, "canmount": "noauto"})
    for dataset in (name, "tank/a"):
        with pytest.raises(Refused, match="is not the place of"):
            client.mount(dataset)
    with pytest.raises(Refused, match="is not the place of"):
        client.set_properties(name, {"canmount": "on"})
    simulator.set_properties(name, {"canmount": "on"})
    simulator.set_properties("tank/a", {"canmount": "on"})
    client.export_pool("tank")
    client.import_pool("tank")
    assert not any(simulator.filesystem(dataset).mounted for dataset in (name, "tank/a"))
    client.set_properties(name, {"mountpoint": place})
    client.mount(name)
    assert simulator.filesystem(name).mounted


def test_nothing_is_mounted_over_another_nor_a_copy_at_an_import(
    client: HelperClient, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A received copy has the datastore's mountpoint, and OpenZFS mounts one over the other."""
    created = client.create_filesystem("tank/own", properties={"mountpoint": "/srv/zvaai/own", "canmount": "noauto"})
    client.set_properties("tank/own", {"zvaai:guid": str(created.guid)})
    client.create_filesystem(
        "tank/copy", properties={"mountpoint": "/srv/zvaai/copy", "canmount": "on", "zvaai:guid": str(created.guid)}
    )
    monkeypatch.setattr("appliance.helper.mounts.stack", lambda _path: ["tank/copy"])
    with pytest.raises(Refused, match="tank/copy is mounted"):
        client.mount("tank/own")
    monkeypatch.setattr("appliance.helper.mounts.stack", lambda _path: [])
    client.mount("tank/own")
    client.set_properties("tank/own", {"canmount": "on"})
    client.export_pool("tank")
    client.import_pool("tank")
    assert simulator.filesystem("tank/own").mounted and not simulator.filesystem("tank/copy").mounted


@pytest.fixture
def mounted_over(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Mounts over each other at the mountpoint of the datastore `tank/own`, as after `zpool import`."""
    place, over = "/srv/zvaai/own", ["tank/own"]
    simulator.create_pool("theirs", [VdevSpec(devices=(simulator.disks()[2].path,))])
    guid = simulator.create_filesystem("tank/own", properties={"mountpoint": place}).guid
    for name in ("tank/copy", "tank/again", "theirs/copy", "tank/other"):
        simulator.create_filesystem(name, properties={"mountpoint": place})
    for name in ("tank/own", "tank/copy", "tank/again", "theirs/copy"):
        simulator.set_properties(name, {"zvaai:guid": str(guid)})

    def stack(path: str) -> list[str]:
        return [name for name in over if path == place and simulator.filesystem(name).mounted]

    monkeypatch.setattr("appliance.helper.mounts.stack", stack)
    return over


def seen(simulator: Simulator, over: list[str]) -> list[str]:
    return [name for name in over if simulator.filesystem(name).mounted]


def test_a_copy_that_hides_a_datastore_is_unmounted(simulator: Simulator, tmp_path: Path, mounted_over: list[str]) -> None:
    """A mount in use, a mount that is not a copy, and one of another pool are not unmounted."""
    with client_of(simulator, tmp_path / "helper.sock", policy=Policy(pools=frozenset(("tank",)))) as client:
        mounted_over.append("tank/copy")
        simulator.fail_next("unmount", DatasetBusy("tank/copy", ("tar (process 7)",)))
        with pytest.raises(DatasetBusy, match="tar"):
            client.mount("tank/own")
        client.mount("tank/own")
        assert seen(simulator, mounted_over) == ["tank/own"]
        client.mount("tank/own")
        for name in ("tank/other", "theirs/copy"):
            mounted_over[1:] = [name]
            with pytest.raises(Refused, match=name):
                client.mount("tank/own")
            assert seen(simulator, mounted_over) == ["tank/own", name]
        mounted_over[:] = ["tank/other"]
        with pytest.raises(Refused, match="tank/other"):
            client.mount("tank/copy")


def test_a_copy_with_children_that_are_mounted_stays(client: HelperClient, simulator: Simulator, mounted_over: list[str]) -> None:
    """Its children would be unmounted with it."""
    mounted_over.append("tank/copy")
    simulator.create_filesystem("tank/copy/child", properties={"mountpoint": "/mnt/child"})
    with pytest.raises(Refused, match="tank/copy/child"):
        client.mount("tank/own")
    assert seen(simulator, [*mounted_over, "tank/copy/child"]) == ["tank/own", "tank/copy", "tank/copy/child"]
    simulator.unmount("tank/copy/child")
    client.mount("tank/own")
    assert seen(simulator, mounted_over) == ["tank/own"]


def test_no_copy_is_unmounted_where_something_else_hides_the_datastore(
    client: HelperClient, simulator: Simulator, mounted_over: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    mounted_over += ["tank/other", "tank/copy"]
    with pytest.raises(Refused, match="tank/other"):
        client.mount("tank/own")
    assert seen(simulator, mounted_over) == mounted_over
    assert '"begun"' not in caplog.text and '"refused"' in caplog.text, "what was refused is no change"


def test_unmounts_are_in_the_audit(
    client: HelperClient, simulator: Simulator, mounted_over: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Even if the mount itself fails, because one of two copies is in use."""
    caplog.set_level(logging.INFO)
    mounted_over += ["tank/copy", "tank/again"]
    really, busy = simulator.unmount, DatasetBusy("tank/copy", ("tar (process 7)",))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(DatasetBusy, match="tar"):

        def unmount(name: str) -> None:
            if name == "tank/copy":
                raise busy
            really(name)

        patch.setattr(simulator, "unmount", unmount)
        client.mount("tank/own")
    assert seen(simulator, mounted_over) == ["tank/own", "tank/copy"]
    begun, unmounted, ended = (record.getMessage() for record in caplog.records)
    assert json.loads(begun)["audit"] == "begun" and "tank/again was unmounted" in unmounted
    assert json.loads(ended)["outcome"] == "dataset_busy"


def test_files_are_reached_only_where_a_datastore_is_visible(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its snapshots, and of VMs that are restored from them."""
    store = simulator.create_filesystem("tank/store", properties={"mountpoint": "/srv/zvaai/store"})
    elsewhere = simulator.create_filesystem("tank/etc", properties={"mountpoint": "/etc"})
    copy = simulator.create_filesystem("tank/copy", properties={"mountpoint": "/srv/zvaai/copy", "zvaai:guid": str(store.guid)})
    visible = {filesystem.mountpoint: filesystem.name for filesystem in (store, elsewhere, copy)}
    monkeypatch.setattr("appliance.helper.mounts.topmost", visible.get)
    mounts = Mounts(("/srv/zvaai/",), frozenset)
    assert mounts.place(store) == store.mountpoint
    visible[store.mountpoint] = "tank/copy"
    for filesystem in (store, elsewhere, copy):
        with pytest.raises(Refused):
            mounts.place(filesystem)


def test_mounts(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "36 25 0:32 / /srv/zvaai/a rw,nosuid shared:2 - zfs tank/zvaai/a rw\n"
        "37 25 0:33 / /srv/zvaai/with\\040space rw - zfs tank/b rw\n"
        "38 36 0:34 / /srv/zvaai/a rw - zfs tank/received rw\n"
    )
    assert topmost("/srv/zvaai/a", table) == "tank/received"
    assert topmost("/srv/zvaai/with space", table) == "tank/b" and topmost("/srv/zvaai", table) is None
    assert mounted_at("tank/b", table) == ["/srv/zvaai/with space"] and mounted_at("tank/c", table) == []
