# SPDX-License-Identifier: Apache-2.0
"""One VM from a snapshot of an NFS datastore: browse it, and restore a copy under another name."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import Appliance, running

from appliance.domain import requests
from appliance.domain.errors import ConflictError
from appliance.worker.snapshot_operations import DeleteSnapshots
from appliance.zfs.errors import OutOfSpace
from appliance.zfs.folders import UNFINISHED

VMX = 'displayName = "web"\nscsi0:0.fileName = "web.vmdk"\n'
VMDK = '# Disk DescriptorFile\nRW 2048 VMFS "web-flat.vmdk"\n'
DISK = os.urandom(1 << 20) + bytes(1 << 20)


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    with running(tmp_path / "state", volumes=tmp_path / "volumes") as appliance:
        yield appliance


@pytest.fixture
def store(appliance: Appliance) -> str:
    """An NFS datastore with a VM, which its snapshot has too."""
    store = appliance.nfs_datastore("nfs")
    root = _root(appliance, store)
    vm = root / "vms" / "web"
    vm.mkdir(parents=True)
    (vm / "web.vmx").write_text(VMX)
    (vm / "web.vmdk").write_text(VMDK)
    (vm / "web-flat.vmdk").write_bytes(DISK)
    (vm / "vmware.log").write_text("old")
    (vm / "link").symlink_to("/etc/passwd")
    appliance.job("POST", "/snapshots", {"name": "one", "datastores": [store]})
    shutil.copytree(root / "vms", root / ".zfs" / "snapshot" / "one" / "vms", symlinks=True)  # what OpenZFS shows there
    (vm / "web-flat.vmdk").write_bytes(b"changed since")
    return store


def _root(appliance: Appliance, store: str) -> Path:
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    return Path(appliance.service.context.path(appliance.simulator.filesystem(dataset)))


def _folder(appliance: Appliance, store: str, path: str) -> list[Any]:
    entries: list[Any] = appliance.get(f"/datastores/{store}/snapshots/one/folder?folder={path}")["items"]
    return entries


def test_a_snapshot_is_browsed_by_folder(appliance: Appliance, store: str) -> None:
    assert [(entry["name"], entry["kind"]) for entry in _folder(appliance, store, "")] == [("vms", "folder")]
    entries = {vm["name"]: (vm["kind"], vm["size"]) for vm in _folder(appliance, store, "vms/web")}
    assert entries["web-flat.vmdk"] == ("file", str(len(DISK))) and entries["link"] == ("other", "0")
    for wrong in ("vms/absent", "../..", "/etc", "vms/web/link", "vms/web/web.vmx"):
        answer = appliance.request("GET", f"/datastores/{store}/snapshots/one/folder?folder={wrong}")
        assert answer.status_code == 422, wrong
    assert appliance.request("GET", f"/datastores/{store}/snapshots/two/folder").status_code == 404
    vmfs = appliance.datastore("vmfs")
    assert appliance.request("GET", f"/datastores/{vmfs}/snapshots/one/folder").status_code == 409


def test_a_vm_is_restored_next_to_the_original(appliance: Appliance, store: str) -> None:
    body = {"folder": "vms/web", "name": "web2"}
    path = f"/datastores/{store}/snapshots/one/restore-vm"
    result = appliance.job("POST", path, body)["result"]
    assert result["configuration"] == "vms/web2/web2.vmx" and result["folder"] == "vms/web2"
    made = _root(appliance, store) / "vms" / "web2"
    assert sorted(file.name for file in made.iterdir()) == ["web2-flat.vmdk", "web2.vmdk", "web2.vmx"]
    assert (made / "web2-flat.vmdk").read_bytes() == DISK, "as in the snapshot"
    assert '"web2-flat.vmdk"' in (made / "web2.vmdk").read_text()
    vmx = (made / "web2.vmx").read_text()
    assert 'displayName = "web2"' in vmx and 'scsi0:0.fileName = "web2.vmdk"' in vmx and 'uuid.action = "create"' in vmx
    assert (made.parent / "web" / "web-flat.vmdk").read_bytes() == b"changed since", "the original stays"
    failed = appliance.job("POST", path, body, expect="failed")
    assert "the folder web2 exists" in failed["problem"]["text"] and (made / "web2-flat.vmdk").read_bytes() == DISK
    assert [file.name for file in made.parent.iterdir() if file.name.startswith(UNFINISHED)] == []


def test_a_partial_restore_is_removed(appliance: Appliance, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = appliance.service.context.folders
    real = folders.restore_range

    def full(*arguments: Any) -> int:
        real(*arguments)
        raise OutOfSpace("web-flat.vmdk", quota=True)

    monkeypatch.setattr(folders, "restore_range", full)
    path, body = f"/datastores/{store}/snapshots/one/restore-vm", {"folder": "vms/web", "name": "web2"}
    assert appliance.job("POST", path, body, expect="failed")["problem"]["undone"] is True
    assert [file.name for file in (_root(appliance, store) / "vms").iterdir()] == ["web"]


def test_its_snapshot_is_not_deleted_meanwhile(appliance: Appliance, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a request, nor by a job that has waited. The restore has no pool, so neither waits for it."""
    context, delete = appliance.service.context, DeleteSnapshots()
    appliance.job("POST", "/snapshots", {"name": "two", "datastores": [store]})
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "clone", "snapshot": "two"})["result"]["datastore"]
    real, begun, go_on = context.folders.restore_range, threading.Event(), threading.Event()

    def held(*arguments: Any) -> int:
        begun.set()
        assert go_on.wait(60)
        return real(*arguments)

    monkeypatch.setattr(context.folders, "restore_range", held)
    plan = delete.plan(context, requests.DeletionCreate(names=["one"]).of(id=store))
    deletion = (f"/datastores/{store}/snapshots/delete", {"names": ["one"]})
    path, body = f"/datastores/{store}/snapshots/one/restore-vm", {"folder": "vms/web", "name": "web2"}
    job = appliance.request("POST", path, body).json
    try:
        assert job is not None and begun.wait(60)
        refused = appliance.request("POST", *deletion)
        assert refused.status_code == 409 and refused.json is not None
        assert refused.json["blocking"] == [f"one (job {job['id']} restores a VM from it)"]
        with pytest.raises(ConflictError, match=f"job {job['id']}"):
            delete.run(context, plan, "waited", lambda _step, _percent: None)
        failed = appliance.job("POST", f"/datastores/{clone}/promote", expect="failed")
        assert "A VM is being restored" in failed["problem"]["text"], failed
    finally:
        go_on.set()
    assert appliance.ended(job["id"])["state"] == "succeeded"
    appliance.job("POST", *deletion)


def test_folders_that_cannot_be_restored(appliance: Appliance, store: str) -> None:
    path = f"/datastores/{store}/snapshots/one/restore-vm"
    for body, status in (
        ({"folder": "vms", "name": "new"}, 409),
        ({"folder": "vms/web", "name": "a/b"}, 422),
        ({"folder": "../web", "name": "new"}, 422),
        ({"folder": "absent", "name": "new"}, 422),
    ):
        assert appliance.request("POST", path, body).status_code == status, body
    assert appliance.request("POST", path, {"folder": "vms/web", "name": "new"}, "viewer").status_code == 403
