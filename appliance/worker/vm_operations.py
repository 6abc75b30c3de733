# SPDX-License-Identifier: Apache-2.0
"""Restore of a VM from a snapshot of an NFS datastore: list its folder, and restore a copy with another name."""

from appliance.domain import datastores as domain
from appliance.domain import requests, vm_files
from appliance.domain.datastores import Datastore
from appliance.domain.errors import ConflictError, InvalidError, NotFoundError
from appliance.domain.files import check_path
from appliance.domain.jobs import Plan, Result
from appliance.domain.vm_files import VmFile
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Cancelled, Operation, by_kind
from appliance.zfs import errors as zfs
from appliance.zfs.folders import Entry

STEP_BYTES = 4 << 30
"""folders.MOST_RANGE_BYTES: other changes of the pool are made between two steps."""


def _nfs(context: Context, datastore: str, snapshot: str, newest: float) -> tuple[Datastore, str]:
    """The datastore, and the snapshot's full name. Raises NotFoundError, ConflictError."""
    store = domain.find(context.datastores(newest), datastore, "active")
    if store.kind != domain.NFS:
        raise ConflictError("a VMFS datastore has its files inside of VMFS, where only hosts see them", [store.name])
    name = f"{store.dataset}@{snapshot}"
    if name not in {snapshot.name for snapshot in context.scan(60).snapshots}:
        raise NotFoundError("snapshot", snapshot)
    return store, name


def _entries(context: Context, snapshot: str, path: str) -> list[Entry]:
    if path:
        check_path("folder", path)
    try:
        return context.folders.list_folder(snapshot, path)
    except zfs.Refused as error:
        raise InvalidError("folder", error.reason, "the path of a folder in the snapshot") from error


def listed(context: Context, datastore: str, snapshot: str, folder: str) -> list[Entry]:
    _, name = _nfs(context, datastore, snapshot, context.configuration.worker.inventory_seconds)
    return _entries(context, name, folder)


class RestoreVmPlan(Plan, frozen=True, kw_only=True):
    """`snapshot` by its full name. `identifier` is that of the unfinished folder."""

    datastore: str
    snapshot: str
    folder: str
    name: str
    identifier: str


class RestoreVmResult(Result, frozen=True, kw_only=True):
    """The folder of the restored VM, and its .vmx file, which is registered at a host. Bytes as digits."""

    datastore: str
    folder: str
    configuration: str
    total_bytes: str


class RestoreVm(Operation[requests.RestoreVmCreate, RestoreVmPlan]):
    """Restores one VM from a snapshot of an NFS datastore, next to the original. Folder and descriptors get the new name."""

    kind = "vm.restore"
    cancellable = True

    def plan(self, context: Context, request: requests.RestoreVmCreate) -> RestoreVmPlan:
        """The folder must be that of one VM, and its disks in it."""
        store, snapshot = _nfs(context, request.id, request.snapshot, 0)
        if store.thick:
            reason = (
                f"Cannot restore a VM into {store.name}: it is thick, so all bytes would be copied past the NFS server's count"
            )
            raise ConflictError(f"{reason}. Clone the datastore from the snapshot, and copy the VM by a host")
        check_path("folder", request.folder)
        self._files(context, snapshot, request.folder, request.name)
        return RestoreVmPlan(
            subject=f"{store.id}/{request.name}", pools=(), about=(store.id,), datastore=store.id, snapshot=snapshot,
            folder=request.folder, name=request.name, identifier=domain.new_uuid(),
        )  # fmt: skip

    def _files(self, context: Context, snapshot: str, folder: str, name: str) -> list[tuple[VmFile, bytes | None]]:
        files = vm_files.chosen(
            ((entry.name, entry.kind, entry.size) for entry in _entries(context, snapshot, folder)), folder, name
        )
        names, contents = {file.source: file.name for file in files}, []
        for file in files:
            content = None
            if file.text:
                content = context.folders.read_text(snapshot, f"{folder}/{file.source}")
                content = vm_files.rewritten(file, content, names, name)
            contents.append((file, content))
        return contents

    def run(self, context: Context, plan: RestoreVmPlan, job_id: str, advance: Advance) -> RestoreVmResult:
        """Clones into an unfinished folder of this job; after a resume each file is cloned again. The folder is renamed when it
        is complete.
        """
        try:
            return self._restored(context, plan, advance)
        except Cancelled:
            self.undo(context, plan)
            raise

    def _restored(self, context: Context, plan: RestoreVmPlan, advance: Advance) -> RestoreVmResult:
        files = self._files(context, plan.snapshot, plan.folder, plan.name)
        total = sum(file.size for file, _ in files)
        done, folders = 0, context.folders
        folders.begin_folder(plan.snapshot, plan.folder, plan.identifier)
        for file, content in files:
            path = f"{plan.folder}/{file.source}"
            if content is not None:
                folders.restore_text(plan.snapshot, path, plan.identifier, file.name, content)
                continue
            offset = 0
            while True:
                advance(f"restoring {file.name}", 1 + 98 * done // max(1, total))
                count = folders.restore_range(plan.snapshot, path, plan.identifier, file.name, offset, STEP_BYTES)
                offset, done = offset + count, done + count
                if count < STEP_BYTES:
                    break
        advance("naming the folder", 99)
        try:
            folders.end_folder(plan.snapshot, plan.folder, plan.identifier, plan.name)
        except zfs.Refused as error:
            raise ConflictError(f"Cannot restore {plan.name}: {error.reason}") from error
        above = plan.folder.rpartition("/")[0]
        folder = f"{above}/{plan.name}" if above else plan.name
        configuration = next(file.name for file, _ in files if file.name.lower().endswith(".vmx"))
        return RestoreVmResult(
            datastore=plan.datastore, folder=folder, configuration=f"{folder}/{configuration}", total_bytes=str(total)
        )

    def undo(self, context: Context, plan: RestoreVmPlan) -> bool:
        context.folders.undo_folder(plan.snapshot, plan.folder, plan.identifier)
        return True


OPERATIONS = by_kind(RestoreVm())
