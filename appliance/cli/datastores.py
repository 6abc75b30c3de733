# SPDX-License-Identifier: Apache-2.0
"""Datastores."""

import json
from typing import Annotated, Any

import typer

from appliance.cli.shared import (
    Force,
    Groups,
    Number,
    Run,
    Store,
    Wait,
    Yes,
    as_bytes,
    changed_list,
    confirm,
    group_ids,
    named,
    names_of,
    noun,
)

datastore = noun("datastore", "Manage datastores: VMFS on LUNs, and NFS.")


Clients = Annotated[
    list[str] | None, typer.Option("--client", help="NFS: an address or network that may mount it; repeat for several.")
]
Anyone = Annotated[bool, typer.Option("--anyone", help="NFS: allow clients such as 0.0.0.0/0: any host that reaches the server.")]


@datastore.command("list", "--state active")
def list_datastores(
    run: Run,
    state: Annotated[str | None, typer.Option(help="active, deleted, copy or missing")] = None,
    kind: Annotated[str | None, typer.Option(help="vmfs or nfs")] = None,
) -> None:
    """List datastores. Deleted ones can be restored; copies are not served."""
    more = ("uuid",) if state == "missing" else ("size", "referenced", "snapshot_bytes", "pool", "copy_reason")
    run.output.rows(run.client.all("/datastores", state=state, kind=kind), "name", "kind", "state", "lun", "share", *more)


@datastore.command("show", "vmfs1")
def show_datastore(run: Run, store: Store) -> None:
    """Show a datastore and its space.

    `unique` of VMFS: bytes on disk that no clone or copy shares; an upper bound if `unique_exact` is no.
    `admitted` of NFS: bytes that its files need; of a thick datastore at most its size.
    """
    path = run.path("/datastores", store)
    response = run.client.call("GET", path)
    if response["state"] == "active":
        response["space"] = run.client.call("GET", f"{path}/space")
        if not run.output.as_json:
            response |= response.pop("space")
    if run.output.as_json:
        return run.output.raw(response)
    (shown,) = named([response], names_of(run.client, "/host-groups"), "host_groups")
    shown |= shown.pop("designation") or {}
    if response["kind"] == "vmfs":
        shown["target"] = run.client.call("GET", "/readiness")["target"]
    return run.output.fields(shown)


@datastore.command(
    "create", "vmfs1 --pool tank --size 2T --group cluster --wait", "nfs1 --kind nfs --pool tank --size 2T --client 192.0.2.0/24"
)
def create_datastore(
    run: Run,
    name: str,
    pool: Annotated[str, typer.Option(help="Pool of the datastore.")],
    size: Annotated[str, typer.Option(help="Size, or quota of NFS: 500G, 2T, or bytes; 1G to 64T.")],
    kind: Annotated[str, typer.Option(help="vmfs or nfs")] = "vmfs",
    group: Groups = None,
    thick: Annotated[bool, typer.Option("--thick", help="Reserve its size, and share no blocks.")] = False,
    block_size: Annotated[
        int | None,
        typer.Option(help="VMFS: 8192 to 131072; the default is 65536. On raidz 8192 takes up to 3 times the size."),
    ] = None,
    soft_threshold: Annotated[int | None, typer.Option(help="Percent of its size at which hosts get a warning.")] = None,
    lun: Number = None,
    record_size: Annotated[int | None, typer.Option(help="NFS: 8192 to 1048576; default 65536, thick on raidz 131072.")] = None,
    sync: Annotated[str, typer.Option(help="standard or always: every write is stable, and slower.")] = "standard",
    compression: Annotated[str, typer.Option(help="lz4, zstd, zstd-fast or off")] = "lz4",
    client: Clients = None,
    anyone: Anyone = False,
    encrypted: Annotated[bool, typer.Option("--encrypted", help="Encrypt it with the key of the pool: zvaai key.")] = False,
    wait: Wait = False,
) -> None:
    """Create an empty datastore and serve it to host groups and clients."""
    body = {"kind": kind, "name": name, "pool": pool, "size": as_bytes(size), "thick": thick, "block_size": block_size}
    body |= {"lun": lun, "soft_threshold": soft_threshold, "host_groups": group_ids(run.client, group)}
    body |= {"record_size": record_size, "sync": sync, "compression": compression}
    body |= {"clients": client, "anyone": anyone, "encrypted": encrypted}
    run.job(run.client.call("POST", "/datastores", body), wait)


@datastore.command("change", "vmfs1 --add-group cluster2 --remove-group cluster --wait")
def change_datastore(
    run: Run,
    store: Store,
    name: Annotated[str | None, typer.Option(help="Rename it.")] = None,
    soft_threshold: Annotated[
        int | None, typer.Option(help="Percent of its size at which hosts get a warning; 0 for none.")
    ] = None,
    lun: Annotated[int | None, typer.Option(help="Another LUN number.")] = None,
    add_group: Annotated[list[str] | None, typer.Option(help="Show it to a host group; repeat for several.")] = None,
    remove_group: Annotated[list[str] | None, typer.Option(help="Hide it from a host group; repeat for several.")] = None,
    add_client: Annotated[list[str] | None, typer.Option(help="NFS: let an address or network mount it; repeat.")] = None,
    remove_client: Annotated[list[str] | None, typer.Option(help="NFS: stop an address or network; repeat.")] = None,
    anyone: Anyone = False,
    thick: Annotated[
        bool | None, typer.Option("--thick/--thin", help="Reserve its size, or not. Thick only if it shares no blocks.")
    ] = None,
    force: Force = False,
    wait: Wait = False,
) -> None:
    """Change a datastore. Options that are not given do not change."""

    def changes(now: dict[str, Any]) -> dict[str, Any]:
        given = (("name", name), ("lun", lun), ("thick", thick))
        body: dict[str, Any] = {"force": force, "anyone": anyone} | {key: value for key, value in given if value is not None}
        if soft_threshold is not None:
            body["soft_threshold"] = soft_threshold or None
        groups = group_ids(run.client, add_group), group_ids(run.client, remove_group)
        names = names_of(run.client, "/host-groups") if remove_group else {}
        body |= changed_list("host_groups", now["host_groups"], *groups, names)
        return body | changed_list("clients", now.get("clients") or [], add_client, remove_client)

    run.job(run.client.change(run.path("/datastores", store), changes), wait)


@datastore.command("grow", "vmfs1 3T --wait")
def grow_datastore(run: Run, store: Store, size: str, wait: Wait = False) -> None:
    """Grow a VMFS datastore to a new size."""
    run.job(run.client.call("POST", f"{run.path('/datastores', store)}/grow", {"size": as_bytes(size)}), wait)


@datastore.command("quota", "nfs1 3T --wait")
def set_quota(run: Run, store: Store, size: str, wait: Wait = False) -> None:
    """Set the quota of an NFS datastore, not below what it holds."""
    path = f"{run.path('/datastores', store)}/quota"
    run.job(run.client.call("POST", path, {"size": as_bytes(size)}), wait)


@datastore.command("delete", "vmfs1 --yes --wait")
def delete_datastore(run: Run, store: Store, force: Force = False, yes: Yes = False, wait: Wait = False) -> None:
    """Take a datastore out of service. It can be restored until it is purged."""
    path = run.path("/datastores", store)
    confirm(f"Take the datastore {store} away from its hosts?", yes)
    run.job(run.client.delete(path, force=force), wait)


@datastore.command("restore", "vmfs1 --group cluster --wait")
def restore_datastore(
    run: Run,
    store: Store,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    group: Groups = None,
    client: Clients = None,
    anyone: Anyone = False,
    wait: Wait = False,
) -> None:
    """Restore a deleted datastore with its identity, for the hosts that saw it before or for those that the options name."""
    body = {"name": name, "host_groups": group_ids(run.client, group) if group else None, "clients": client, "anyone": anyone}
    run.job(run.client.call("POST", f"{run.path('/datastores', store, 'deleted')}/restore", body), wait)


@datastore.command("purge", "vmfs1 --yes --wait")
def purge_datastore(run: Run, store: Store, yes: Yes = False, wait: Wait = False) -> None:
    """Destroy a deleted datastore and its snapshots for good."""
    path = f"{run.path('/datastores', store, 'deleted')}/purge"
    confirm(f"Destroy {store} and its snapshots for good?", yes)
    run.job(run.client.call("POST", path), wait)


@datastore.command("forget", "vmfs1 --yes")
def forget_datastore(run: Run, store: Store, force: Force = False, yes: Yes = False, wait: Wait = False) -> None:
    """Give up a missing datastore. Its LUN number or path becomes free."""
    path = f"{run.path('/datastores', store, 'missing')}/forget"
    confirm(f"Give up the missing datastore {store}, its LUN number and its hosts?", yes)
    run.job(run.client.call("POST", path, force=force), wait)


@datastore.command("clone", "vmfs1 vmfs1-test --snapshot before --group test --wait")
def clone_datastore(
    run: Run,
    store: Store,
    name: str,
    snapshot: Annotated[str | None, typer.Option(help="Clone this snapshot; the default is the present state.")] = None,
    group: Groups = None,
    client: Clients = None,
    anyone: Anyone = False,
    wait: Wait = False,
) -> None:
    """Clone a datastore. The clone has a new identity."""
    body = {
        "name": name, "snapshot": snapshot, "host_groups": group_ids(run.client, group),
        "clients": client, "anyone": anyone,
    }  # fmt: skip
    run.job(run.client.call("POST", f"{run.path('/datastores', store)}/clone", body), wait)


@datastore.command("promote", "vmfs1-clone")
def promote_datastore(run: Run, store: Store, wait: Wait = False) -> None:
    """Make a clone independent of its origin, so that the origin can be purged. The shared snapshots become the clone's.

    Schedules count these snapshots as the clone's, and can destroy some.
    """
    run.job(run.client.call("POST", f"{run.path('/datastores', store)}/promote"), wait)


@datastore.command("adopt", "tank/old vmfs2 --group cluster --wait")
def adopt(
    run: Run,
    dataset: Annotated[str, typer.Argument(help="Volume or file system: zvaai datastore volumes, filesystems.")],
    name: str,
    keep_identity: Annotated[
        bool, typer.Option("--keep-identity", help="Keep its identity if no other datastore has it.")
    ] = False,
    known_as: Annotated[
        str | None,
        typer.Option(
            help='Names from another target, as JSON: {"page_80": "0080...", "page_83": ..., "vendor": ..., "product": ...}'
        ),
    ] = None,
    lun: Number = None,
    group: Groups = None,
    client: Clients = None,
    anyone: Anyone = False,
    force: Force = False,
    wait: Wait = False,
) -> None:
    """Make a datastore of a volume, a file system or a copy.

    First stop the replication into the dataset: a later zfs receive -F destroys what hosts write after the adoption.
    With --keep-identity first shut down the VMs, and unmount the original: hosts corrupt a copy with cached data.
    With --keep-identity another server must never serve the original again. Disconnect that server from the hosts before it
    starts.
    """
    try:
        names = None if known_as is None else json.loads(known_as)
    except ValueError as error:
        raise typer.BadParameter(f"--known-as: {error}") from error
    body = {
        "dataset": dataset,
        "name": name,
        "identity": "keep" if keep_identity else "new",
        "known_as": names,
        "lun": lun,
        "host_groups": group_ids(run.client, group) if group else None,
        "clients": client,
        "anyone": anyone,
        "force": force,
    }
    run.job(run.client.call("POST", "/volumes/adopt", body), wait)


datastore.table(
    "volumes",
    "/volumes",
    "dataset size block_size datastore",
    "List volumes. Datasets without a datastore can be adopted.",
    names={"datastore": "/datastores"},
)


datastore.table(
    "filesystems",
    "/filesystems",
    "dataset used quota mountpoint datastore",
    "List file systems. Datasets without a datastore can be adopted.",
    names={"datastore": "/datastores"},
)
