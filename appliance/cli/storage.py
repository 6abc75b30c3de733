# SPDX-License-Identifier: Apache-2.0
"""Pools, datastores, snapshots."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from appliance.cli.shared import (
    Force,
    Groups,
    Number,
    Wait,
    Yes,
    as_bytes,
    ask_secret,
    changed_list,
    confirm,
    group_ids,
    named,
    names_of,
    noun,
    shared,
)

pool = noun("Pools.")
datastore = noun("Manage datastores: VMFS on LUNs, and NFS.")
snapshot = noun("Snapshots of datastores.")
key = noun("Export and confirm keys of encrypted pools.")
Clients = Annotated[
    list[str] | None, typer.Option("--client", help="NFS: an address or network that may mount it; repeat for several.")
]
Versions = Annotated[list[str] | None, typer.Option("--nfs-version", help="NFS: 3 or 4; the default is both.")]
Squash = Annotated[str | None, typer.Option(help="NFS: map root, all or none to nobody. ESXi needs none.")]
Anyone = Annotated[bool, typer.Option("--anyone", help="NFS: allow clients such as 0.0.0.0/0: any host that reaches the server.")]
Store = Annotated[str, typer.Argument(help="Name or identifier of a datastore.")]


@pool.command("list")
def list_pools(context: typer.Context) -> None:
    """List imported pools.

    Example: zvaai pool list
    """
    run = shared(context)
    run.output.rows(run.client.all("/pools"), "name", "health", "size", "allocated", "free", "bclone_saved", "error_count")


@pool.command("show")
def show_pool(context: typer.Context, name: str) -> None:
    """Show a pool with its vdevs and its last scan.

    Example: zvaai pool show tank
    """
    run = shared(context)
    found = run.client.call("GET", f"/pools/{name}")
    if run.output.as_json:
        return run.output.raw(found)
    run.output.one({key: value for key, value in found.items() if key != "vdevs"})
    if scan := found["scan"]:
        print(f"{scan['function']}: {scan['state']}, {100 * scan['progress']:.0f} %, {scan['errors']} errors")
    lines: list[dict[str, Any]] = []

    def walk(vdevs: list[dict[str, Any]], depth: int) -> None:
        for vdev in vdevs:
            lines.append({**vdev, "name": "  " * depth + vdev["name"]})
            walk(vdev["vdevs"], depth + 1)

    walk(found["vdevs"], 0)
    return run.output.rows(lines, "name", "health", "role", "read_errors", "write_errors", "checksum_errors")


@pool.command("change")
def change_pool(
    context: typer.Context,
    name: str,
    warning: Annotated[
        int | None, typer.Option(help="Percent at which an alert is raised and hosts get a warning; 0 for the default.")
    ] = None,
    critical: Annotated[int | None, typer.Option(help="Percent at which the alert is critical; 0 for the usual.")] = None,
    wait: Wait = False,
) -> None:
    """Set the pool's capacity alert thresholds, in percent.

    Example: zvaai pool change tank --warning 75 --critical 85
    """
    run = shared(context)
    given = {"warning_percent": warning, "critical_percent": critical}
    body = {field: value or None for field, value in given.items() if value is not None}
    run.job(run.client.call("PATCH", f"/pools/{name}", body), wait)


@pool.command("scrub")
def scrub(
    context: typer.Context,
    name: str,
    action: Annotated[str, typer.Argument(help="start, pause or stop")] = "start",
    wait: Wait = False,
) -> None:
    """Start the scrub, pause or stop it.

    Example: zvaai pool scrub tank pause
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/pools/{name}/scrub", {"action": action}), wait)


VdevWords = Annotated[
    list[str], typer.Argument(help="[mirror|raidz1|raidz2|raidz3] DEVICE..., log|cache|spare|special before them")
]


def vdevs_of(words: list[str]) -> list[dict[str, Any]]:
    """As zpool(8) takes them: `mirror a b mirror c d log e`."""
    vdevs: list[dict[str, Any]] = []
    role, redundancy, begun = "data", "stripe", False
    for word in words:
        if word in ("log", "cache", "spare", "special", "dedup"):
            role, redundancy, begun = word, "stripe", False
        elif word in ("mirror", "raidz1", "raidz2", "raidz3"):
            redundancy, begun = word, False
        elif begun:
            vdevs[-1]["devices"].append(word)
        else:
            vdevs.append({"devices": [word], "redundancy": redundancy, "role": role})
            begun = True
    return vdevs


@pool.command("disks")
def disks(context: typer.Context) -> None:
    """List block devices, and what uses them.

    Example: zvaai pool disks
    """
    run = shared(context)
    found = run.client.all("/disks")
    if not run.output.as_json:
        for disk in found:
            disk["health"] = _health(disk["smart"])
    run.output.rows(found, "path", "size", "model", "serial", "used_by", "health")


def _health(smart: dict[str, Any] | None) -> str:
    """What a disk says of itself, in a line."""
    if smart is None or not smart["available"]:
        return "-" if smart is None else "none"
    verdict = {True: "ok", False: "FAILING", None: "no verdict"}[smart["passed"]]
    counts = [f"{smart[name]} {name}" for name in ("reallocated", "pending", "uncorrectable") if smart[name]]
    measured = [f"{smart['temperature']} °C"] if smart["temperature"] is not None else []
    worn = [f"{smart['wear']} % worn"] if smart["wear"] is not None else []
    return ", ".join([verdict, *counts, *measured, *worn])


@pool.command("create")
def create_pool(
    context: typer.Context,
    name: str,
    vdevs: VdevWords,
    ashift: Annotated[int, typer.Option(help="Block of the devices: 2 to the power of this. It can't be changed later.")] = 12,
    autotrim: Annotated[bool, typer.Option("--autotrim", help="Tell SSDs at once which blocks are free.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the layout, and create nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Whatever the devices carry.")] = False,
    wait: Wait = False,
) -> None:
    """Create a pool on empty disks.

    Example: zvaai pool create tank mirror /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B
    """
    run = shared(context)
    body = {"name": name, "vdevs": vdevs_of(vdevs), "force": force}
    plan = run.client.call("POST", "/pools/plan", body)
    for warning in plan["warnings"]:
        print(f"Warning: {warning}", file=sys.stderr)
    if dry_run:
        print("\n".join(plan["layout"]))
        return
    run.job(run.client.call("POST", "/pools", {**body, "ashift": ashift, "autotrim": autotrim}), wait)


@pool.command("extend")
def extend_pool(
    context: typer.Context,
    name: str,
    vdevs: VdevWords,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resulting layout without changing anything.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Whatever the devices carry.")] = False,
    wait: Wait = False,
) -> None:
    """Add vdevs to a pool. Data vdevs cannot be removed again.

    Example: zvaai pool extend tank mirror /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B --dry-run
    """
    run = shared(context)
    body = {"vdevs": vdevs_of(vdevs), "force": force}
    if dry_run:
        print("\n".join(run.client.call("POST", "/pools/plan", {**body, "name": name, "extend": True})["layout"]))
        return
    run.job(run.client.call("POST", f"/pools/{name}/extend", body), wait)


@pool.command("importable")
def importable(context: typer.Context) -> None:
    """List pools that are not imported.

    Example: zvaai pool importable
    """
    run = shared(context)
    run.output.rows(run.client.all("/importable-pools"), "name", "guid", "health", "last_host", "devices", "action")


@pool.command("import")
def import_pool(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name or GUID.")],
    new_name: Annotated[str | None, typer.Option(help="Import it with this name.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Though another system used it last.")] = False,
    wait: Wait = False,
) -> None:
    """Import a pool. Its datastores keep their identities.

    Example: zvaai pool import tank --wait
    """
    run = shared(context)
    run.job(run.client.call("POST", "/pools/import", {"pool": name, "new_name": new_name, "force": force}), wait)


@pool.command("export")
def export_pool(context: typer.Context, name: str, force: Force = False, wait: Wait = False) -> None:
    """Export a pool. Its datastores go out of service first.

    Example: zvaai pool export tank --wait
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/pools/{name}/export", force=force), wait)


@pool.command("replace")
def replace_device(
    context: typer.Context,
    name: str,
    device: str,
    new_device: str,
    force: Annotated[bool, typer.Option("--force", help="Whatever the new device carries.")] = False,
    wait: Wait = False,
) -> None:
    """Replace a device, and start the resilver.

    Example: zvaai pool replace tank /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B
    """
    run = shared(context)
    body = {"device": device, "new_device": new_device, "force": force}
    run.job(run.client.call("POST", f"/pools/{name}/replace", body), wait)


@pool.command("device")
def change_device(
    context: typer.Context,
    name: str,
    device: str,
    action: Annotated[str, typer.Argument(help="offline, online or clear")],
    wait: Wait = False,
) -> None:
    """Take a device offline or online, or clear its errors.

    Example: zvaai pool device tank /dev/disk/by-id/ata-A offline
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/pools/{name}/device", {"device": device, "action": action}), wait)


@datastore.command("list")
def list_datastores(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="active, deleted, copy or missing")] = None,
    kind: Annotated[str | None, typer.Option(help="vmfs or nfs")] = None,
) -> None:
    """List datastores. Deleted ones can be restored; copies are not served.

    Example: zvaai datastore list --state active
    """
    run = shared(context)
    columns = ("name", "kind", "state", "lun", "share", "size", "used", "pool", "copy_reason")
    run.output.rows(run.client.all("/datastores", state=state, kind=kind), *columns)


@datastore.command("show")
def show_datastore(context: typer.Context, store: Store) -> None:
    """Show a datastore and its space.

    `unique` of VMFS: bytes on disk that no clone or copy shares; an upper bound if `unique_exact` is no.
    `admitted` of NFS: bytes that its files need; of a thick datastore at most its size.

    Example: zvaai datastore show vmfs1
    """
    run = shared(context)
    path = f"/datastores/{run.client.named('/datastores', store)}"
    found = run.client.call("GET", path)
    if found["state"] == "active":
        found["space"] = run.client.call("GET", f"{path}/space")
        if not run.output.as_json:
            found |= found.pop("space")
    if run.output.as_json:
        return run.output.raw(found)
    (shown,) = named([found], names_of(run.client, "/host-groups"), "host_groups")
    if found["kind"] == "vmfs":
        shown["target"] = run.client.call("GET", "/readiness")["target"]
    return run.output.one(shown)


@datastore.command("create")
def create_datastore(
    context: typer.Context,
    name: str,
    pool: Annotated[str, typer.Option(help="Pool of the datastore.")],
    size: Annotated[str, typer.Option(help="Size, or quota of NFS: 500G, 2T, or bytes.")],
    kind: Annotated[str, typer.Option(help="vmfs or nfs")] = "vmfs",
    group: Groups = None,
    thick: Annotated[bool, typer.Option("--thick", help="Reserve its size, and share no blocks.")] = False,
    block_size: Annotated[int | None, typer.Option(help="VMFS: 8192 to 131072; the default is 65536.")] = None,
    soft_threshold: Annotated[int | None, typer.Option(help="Percent of its size at which hosts get a warning.")] = None,
    lun: Number = None,
    record_size: Annotated[int | None, typer.Option(help="NFS: 8192 to 1048576; the default is 65536.")] = None,
    sync: Annotated[str, typer.Option(help="standard or always; disabled loses writes in a power cut.")] = "standard",
    compression: Annotated[str, typer.Option(help="lz4, zstd, zstd-fast or off")] = "lz4",
    client: Clients = None,
    anyone: Anyone = False,
    nfs_version: Versions = None,
    squash: Squash = None,
    encrypted: Annotated[bool, typer.Option("--encrypted", help="Encrypt it with the key of the pool: zvaai key.")] = False,
    wait: Wait = False,
) -> None:
    """Create an empty datastore and serve it to host groups and clients.

    Example: zvaai datastore create vmfs1 --pool tank --size 2T --group cluster --wait

    Example: zvaai datastore create nfs1 --kind nfs --pool tank --size 2T --client 192.0.2.0/24
    """
    run = shared(context)
    body = {"kind": kind, "name": name, "pool": pool, "size": as_bytes(size), "thick": thick, "block_size": block_size}
    body |= {"lun": lun, "soft_threshold": soft_threshold, "host_groups": group_ids(run.client, group)}
    body |= {"record_size": record_size, "sync": sync, "compression": compression}
    body |= {"clients": client, "anyone": anyone, "versions": nfs_version, "squash": squash}
    body |= {"encrypted": encrypted}
    run.job(run.client.call("POST", "/datastores", body), wait)


@datastore.command("change")
def change_datastore(
    context: typer.Context,
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
    nfs_version: Versions = None,
    squash: Squash = None,
    thick: Annotated[
        bool | None, typer.Option("--thick/--thin", help="Reserve its size, or not. Thick only if it shares no blocks.")
    ] = None,
    force: Force = False,
    wait: Wait = False,
) -> None:
    """Change a datastore. Options that are not given stay as they are.

    Example: zvaai datastore change vmfs1 --add-group cluster2 --remove-group cluster --wait
    """
    run = shared(context)

    def changes(now: dict[str, Any]) -> dict[str, Any]:
        given = (("name", name), ("lun", lun), ("versions", nfs_version), ("squash", squash), ("thick", thick))
        body: dict[str, Any] = {"force": force, "anyone": anyone} | {key: value for key, value in given if value is not None}
        if soft_threshold is not None:
            body["soft_threshold"] = soft_threshold or None
        groups = group_ids(run.client, add_group), group_ids(run.client, remove_group)
        body |= changed_list("host_groups", now["host_groups"], *groups)
        return body | changed_list("clients", now.get("clients") or [], add_client, remove_client)

    run.job(run.client.change(f"/datastores/{run.client.named('/datastores', store)}", changes), wait)


@datastore.command("grow")
def grow_datastore(context: typer.Context, store: Store, size: str, wait: Wait = False) -> None:
    """Grow a VMFS datastore to a new size.

    Example: zvaai datastore grow vmfs1 3T --wait
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/datastores/{run.client.named('/datastores', store)}/grow", {"size": as_bytes(size)}), wait)


@datastore.command("quota")
def set_quota(context: typer.Context, store: Store, size: str, wait: Wait = False) -> None:
    """Set the quota of an NFS datastore, not below what it holds.

    Example: zvaai datastore quota nfs1 3T --wait
    """
    run = shared(context)
    path = f"/datastores/{run.client.named('/datastores', store)}/quota"
    run.job(run.client.call("POST", path, {"size": as_bytes(size)}), wait)


@datastore.command("delete")
def delete_datastore(context: typer.Context, store: Store, force: Force = False, yes: Yes = False, wait: Wait = False) -> None:
    """Take a datastore out of service. It can be restored until it is purged.

    Example: zvaai datastore delete vmfs1 --yes --wait
    """
    run = shared(context)
    path = f"/datastores/{run.client.named('/datastores', store)}"
    confirm(f"Take the datastore {store} away from its hosts?", yes)
    run.job(run.client.delete(path, force=force), wait)


@datastore.command("restore")
def restore_datastore(
    context: typer.Context,
    store: Store,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    group: Groups = None,
    client: Clients = None,
    anyone: Anyone = False,
    wait: Wait = False,
) -> None:
    """Restore a deleted datastore with its identity, for the hosts that saw it before or for those that the options name.

    Example: zvaai datastore restore vmfs1 --group cluster --wait
    """
    run = shared(context)
    body = {"name": name, "host_groups": group_ids(run.client, group) if group else None, "clients": client, "anyone": anyone}
    run.job(run.client.call("POST", f"/datastores/{run.client.named('/datastores', store)}/restore", body), wait)


@datastore.command("purge")
def purge_datastore(context: typer.Context, store: Store, yes: Yes = False, wait: Wait = False) -> None:
    """Destroy a deleted datastore and its snapshots for good.

    Example: zvaai datastore purge vmfs1 --yes --wait
    """
    run = shared(context)
    store_id = run.client.named("/datastores", store)
    confirm(f"Destroy {store} and its snapshots for good?", yes)
    run.job(run.client.call("POST", f"/datastores/{store_id}/purge"), wait)


@datastore.command("forget")
def forget_datastore(context: typer.Context, store: Store, force: Force = False, yes: Yes = False, wait: Wait = False) -> None:
    """Give up a missing datastore. Its LUN number or path becomes free.

    Example: zvaai datastore forget vmfs1 --yes
    """
    run = shared(context)
    path = f"/datastores/{run.client.named('/datastores', store)}/forget"
    confirm(f"Give up the missing datastore {store}, its LUN number and its hosts?", yes)
    run.job(run.client.call("POST", path, force=force), wait)


@datastore.command("clone")
def clone_datastore(
    context: typer.Context,
    store: Store,
    name: str,
    snapshot: Annotated[str | None, typer.Option(help="Clone this snapshot; the default is the present state.")] = None,
    group: Groups = None,
    client: Clients = None,
    anyone: Anyone = False,
    wait: Wait = False,
) -> None:
    """Clone a datastore at once. The clone has an identity of its own.

    Example: zvaai datastore clone vmfs1 vmfs1-test --snapshot before --group test --wait
    """
    run = shared(context)
    body = {
        "name": name, "snapshot": snapshot, "host_groups": group_ids(run.client, group),
        "clients": client, "anyone": anyone,
    }  # fmt: skip
    run.job(run.client.call("POST", f"/datastores/{run.client.named('/datastores', store)}/clone", body), wait)


@datastore.command("promote")
def promote_datastore(context: typer.Context, store: Store, wait: Wait = False) -> None:
    """Make a clone independent of its origin, so that the origin can be purged. The shared snapshots become the clone's.

    Example: zvaai datastore promote vmfs1-clone
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/datastores/{run.client.named('/datastores', store)}/promote"), wait)


@datastore.command("adopt")
def adopt(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="Volume or file system: zvaai datastore volumes, filesystems.")],
    name: str,
    keep_identity: Annotated[
        bool, typer.Option("--keep-identity", help="Keep its identity if no other datastore has it.")
    ] = False,
    known_as: Annotated[
        str | None,
        typer.Option(help='Names of another target that it keeps, as JSON: {"system": "lio", "unit_serial": ..., "model": ...}'),
    ] = None,
    lun: Number = None,
    group: Groups = None,
    client: Clients = None,
    anyone: Anyone = False,
    wait: Wait = False,
) -> None:
    """Make a datastore of a volume, a file system or a copy.

    Example: zvaai datastore adopt tank/old vmfs2 --group cluster --wait
    """
    run = shared(context)
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
    }
    run.job(run.client.call("POST", "/volumes/adopt", body), wait)


@datastore.command("volumes")
def volumes(context: typer.Context) -> None:
    """List volumes. Datasets without a datastore can be adopted.

    Example: zvaai datastore volumes
    """
    run = shared(context)
    found = run.client.all("/volumes")
    found = found if run.output.as_json else named(found, names_of(run.client, "/datastores"), "datastore")
    run.output.rows(found, "dataset", "size", "block_size", "datastore")


@datastore.command("filesystems")
def filesystems(context: typer.Context) -> None:
    """List file systems. Datasets without a datastore can be adopted.

    Example: zvaai datastore filesystems
    """
    run = shared(context)
    found = run.client.all("/filesystems")
    found = found if run.output.as_json else named(found, names_of(run.client, "/datastores"), "datastore")
    run.output.rows(found, "dataset", "used", "quota", "mountpoint", "datastore")


@snapshot.command("list")
def list_snapshots(context: typer.Context, store: Store) -> None:
    """List the snapshots of a datastore, oldest first.

    Example: zvaai snapshot list vmfs1
    """
    run = shared(context)
    store_id = run.client.named("/datastores", store)
    run.output.rows(
        run.client.all(f"/datastores/{store_id}/snapshots"),
        "name",
        "created_at",
        "used",
        "referenced",
        "holds",
        "protected_until",
        "clones",
    )


@snapshot.command("create")
def create_snapshot(
    context: typer.Context,
    name: str,
    stores: Annotated[list[str], typer.Argument(help="Datastores, all in one atomic step.")],
    protect_days: Annotated[int, typer.Option(help="Nobody can destroy the snapshots for so many days.")] = 0,
    wait: Wait = False,
) -> None:
    """Create snapshots of one or several datastores of a pool.

    Example: zvaai snapshot create before-update vmfs1 vmfs2 --protect-days 7
    """
    run = shared(context)
    body: dict[str, Any] = {"name": name, "protect_days": protect_days}
    body["datastores"] = [run.client.named("/datastores", store) for store in stores]
    run.job(run.client.call("POST", "/snapshots", body), wait)


@snapshot.command("delete")
def delete_snapshot(context: typer.Context, store: Store, name: str, yes: Yes = False, wait: Wait = False) -> None:
    """Delete a snapshot. Refused while clones depend on it, or it is held.

    Example: zvaai snapshot delete vmfs1 before-update --yes
    """
    run = shared(context)
    path = f"/datastores/{run.client.named('/datastores', store)}/snapshots/{name}"
    confirm(f"Delete the snapshot {name} of {store}?", yes)
    run.job(run.client.call("DELETE", path), wait)


@snapshot.command("rollback")
def rollback(
    context: typer.Context,
    store: Store,
    name: str,
    force: Annotated[bool, typer.Option("--force", help="Also while hosts use it, destroying newer snapshots.")] = False,
    yes: Yes = False,
    wait: Wait = False,
) -> None:
    """Roll a datastore back to a snapshot. Later writes are lost.

    Example: zvaai snapshot rollback vmfs1 before-update --yes --wait
    """
    run = shared(context)
    path = f"/datastores/{run.client.named('/datastores', store)}/snapshots/{name}/rollback"
    confirm(f"Roll {store} back to {name}? All later writes are lost.", yes)
    run.job(run.client.call("POST", path, {"force": force}), wait)


@key.command("list")
def list_keys(context: typer.Context) -> None:
    """List keys of encrypted pools: loaded, stored here, exported, confirmed.

    Example: zvaai key list
    """
    run = shared(context)
    run.output.rows(run.client.all("/encryption-keys"), "pool", "key_status", "kept", "exported_at", "confirmed_at", "dataset")


@key.command("export")
def export_key(context: typer.Context, pool: str) -> None:
    """Print the key of a pool. Prompts for your password. Store the key away from disks and server, then confirm it.

    If standard input is no terminal, the password is read from it.

    Example: zvaai key export tank
    """
    run = shared(context)
    print(run.client.call("POST", f"/encryption-keys/{pool}/export", {"password": ask_secret("Your password")})["secret"])


def _read_key() -> str:
    return typer.prompt("Key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().strip()


@key.command("confirm")
def confirm_key(context: typer.Context, pool: str) -> None:
    """Confirm that you have the key of a pool. The key comes from the terminal or stdin.

    Example: zvaai key confirm tank
    """
    run = shared(context)
    run.output.one(run.client.call("POST", f"/encryption-keys/{pool}/confirm", {"secret": _read_key()}))


@key.command("keep")
def keep_key(context: typer.Context, pool: str) -> None:
    """Store the key of a pool that comes from another server. The key comes from the terminal or stdin.

    Example: zvaai key keep tank
    """
    run = shared(context)
    run.output.one(run.client.call("PUT", f"/encryption-keys/{pool}", {"secret": _read_key()}))
