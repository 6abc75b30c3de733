# SPDX-License-Identifier: Apache-2.0
"""Files of NFS datastores: VMDKs listed, one file cloned by the NFS server."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import after, encoded, page
from appliance.api.schemas.common import Page
from appliance.api.schemas.files import FileCloneCreate, FilePage, FileQuery, FolderEntry, FolderQuery, RestoreVmCreate
from appliance.api.schemas.journal import JobResponse
from appliance.domain import requests
from appliance.domain.access import Role
from appliance.worker import file_operations, vm_operations

resource = Resource("files")


@resource.operation("GET", "/datastores/<datastore_id>/files", role=Role.VIEWER, conflicts=True)
def list_files(call: Call, datastore_id: str, query: FileQuery) -> FilePage:
    """The VMDK files of an NFS datastore that hold data; their descriptors, which are small texts, are left out."""
    files, files_page = file_operations.listed(call.context, datastore_id, after(query) or "", query.limit)
    cursor = encoded(files[-1].path) if files_page.more else None
    return FilePage.model_validate({"items": files, "next_cursor": cursor, "complete": files_page.complete})


@resource.job("POST", "/datastores/<datastore_id>/files/clone", Role.OPERATOR, "file.clone")
def clone_file(call: Call, datastore_id: str, body: FileCloneCreate) -> JobResponse:
    """A clone of one file, made by the NFS server. Its job can be cancelled, and reports the bytes cloned and copied."""
    return call.submit(requests.CloneFile.of(body, id=datastore_id))


@resource.operation("GET", "/datastores/<datastore_id>/snapshots/<name>/folder", role=Role.VIEWER, conflicts=True)
def list_folder(call: Call, datastore_id: str, name: str, query: FolderQuery) -> Page[FolderEntry]:
    """Lists a folder of a snapshot of an NFS datastore, or its root."""
    after(query)  # a wrong cursor is refused first
    entries = vm_operations.listed(call.context, datastore_id, name, query.folder)
    return page(FolderEntry, entries, query, lambda entry: entry.name)


@resource.job("POST", "/datastores/<datastore_id>/snapshots/<name>/restore-vm", Role.OPERATOR, "vm.restore")
def restore_vm(call: Call, datastore_id: str, name: str, body: RestoreVmCreate) -> JobResponse:
    """Restores one VM from a snapshot of an NFS datastore, next to the original. Folder and descriptors get the new name."""
    return call.submit(requests.RestoreVm(id=datastore_id, snapshot=name, folder=body.folder, name=body.name))
