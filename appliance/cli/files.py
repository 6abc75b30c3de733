# SPDX-License-Identifier: Apache-2.0
"""Files of NFS datastores."""

from typing import Annotated
from urllib.parse import quote

import typer

from appliance.cli.shared import Run, Wait, noun

file = noun("file", "List and clone files of NFS datastores.")
Store = Annotated[str, typer.Argument(help="Name or identifier of an NFS datastore.")]
FilePath = Annotated[str, typer.Argument(help="Path in the datastore, as in vm/disk-flat.vmdk.")]


@file.command("list", "nfs1")
def list_files(run: Run, datastore: Store) -> None:
    """List VMDK data files and their space. `unique` shares no blocks; an upper bound if `unique_exact` is no."""
    files = run.client.all(f"{run.path('/datastores', datastore)}/files", limit=200)
    run.output.rows(files, "path", "total", "allocated", "unique", "unique_exact", "snapshot")


@file.command("clone", "nfs1 vm1/vm1-flat.vmdk vm2/vm2-flat.vmdk --fast --wait")
def clone_file(
    run: Run,
    datastore: Store,
    source: FilePath,
    destination: FilePath,
    fast: Annotated[bool, typer.Option("--fast", help="Share all blocks, or fail: never copy.")] = False,
    wait: Wait = False,
) -> None:
    """Clone a file within its datastore. `zvaai job cancel` stops it and removes the clone."""
    store = run.client.named("/datastores", datastore)
    body = {"source": source, "destination": destination, "fast": fast}
    run.job(run.client.call("POST", f"/datastores/{store}/files/clone", body), wait)


@file.command("browse", "nfs1 nightly_2026-11-25_220000Z web")
def browse_snapshot(
    run: Run,
    datastore: Store,
    snapshot: str,
    folder: Annotated[str, typer.Argument(help="A folder's path in the snapshot. Default: its root.")] = "",
) -> None:
    """List a folder of a snapshot of an NFS datastore."""
    path = f"{run.path('/datastores', datastore)}/snapshots/{quote(snapshot, safe='')}/folder"
    run.output.rows(run.client.all(path, folder=folder), "name", "kind", "size", "modified_at")


@file.command("restore-vm", "nfs1 nightly_2026-11-25_220000Z web web-restored")
def restore_vm(run: Run, datastore: Store, snapshot: str, folder: FilePath, name: str, wait: Wait = False) -> None:
    """Restore one VM from a snapshot of an NFS datastore, next to the original and under a new name.

    Then register its .vmx file at a host.
    """
    path = f"{run.path('/datastores', datastore)}/snapshots/{quote(snapshot, safe='')}/restore-vm"
    run.job(run.client.call("POST", path, {"folder": folder, "name": name}), wait)
