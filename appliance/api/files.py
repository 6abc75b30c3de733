# SPDX-License-Identifier: Apache-2.0
"""Files of NFS datastores: VMDKs listed, one file cloned by the NFS server."""

from appliance.api.operation import Call, Resource
from appliance.api.pages import after, encoded, page
from appliance.api.schemas.common import Page
from appliance.api.schemas.files import FilePageResponse, FileQuery, FolderEntryResponse, FolderQuery
from appliance.domain import requests
from appliance.domain.access import Role
from appliance.worker import file_operations, vm_operations

resource = Resource("files", datastore_id="id", name="snapshot")


@resource.operation("GET", "/datastores/<datastore_id>/files", role=Role.VIEWER, conflicts=True)
def list_files(call: Call, datastore_id: str, query: FileQuery) -> FilePageResponse:
    """The VMDK files of an NFS datastore that hold data; their descriptors, which are small texts, are left out."""
    files, files_page = file_operations.listed(call.context, datastore_id, after(query) or "", query.limit)
    cursor = encoded(files[-1].path) if files_page.more else None
    return FilePageResponse.model_validate({"items": files, "next_cursor": cursor, "complete": files_page.complete})


@resource.operation("GET", "/datastores/<datastore_id>/snapshots/<name>/folder", role=Role.VIEWER, conflicts=True)
def list_folder(call: Call, datastore_id: str, name: str, query: FolderQuery) -> Page[FolderEntryResponse]:
    """Lists a folder of a snapshot of an NFS datastore, or its root."""
    after(query)  # a wrong cursor is refused first
    entries = vm_operations.listed(call.context, datastore_id, name, query.folder)
    return page(FolderEntryResponse, entries, query, lambda entry: entry.name)


resource.job("POST", "/datastores/<datastore_id>/files/clone", Role.OPERATOR, requests.FileCloneCreate)
resource.job("POST", "/datastores/<datastore_id>/snapshots/<name>/restore-vm", Role.OPERATOR, requests.RestoreVmCreate)
