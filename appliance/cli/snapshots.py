# SPDX-License-Identifier: Apache-2.0
"""Snapshots of datastores, and their holds."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from appliance.cli.client import IN_THE_WAY, CommandError
from appliance.cli.shared import Force, Run, Store, Wait, Yes, confirm, named, names_of, noun

snapshot = noun("snapshot", "Snapshots of datastores.")


@snapshot.command("list", "vmfs1")
def list_snapshots(run: Run, store: Store) -> None:
    """List the snapshots of a datastore, oldest first."""
    store_id = run.client.named("/datastores", store)
    columns = ("name", "created_at", "used", "referenced", "holds", "protected_until", "clones")
    run.output.rows(run.client.all(f"/datastores/{store_id}/snapshots"), *columns)


@snapshot.command("find", "vmfs1 before")
def find_snapshots(run: Run, words: Annotated[list[str], typer.Argument(help="Words that occur in DATASTORE@SNAPSHOT.")]) -> None:
    """Find snapshots of all datastores, newest first."""
    snapshots = run.client.all("/snapshots", search=" ".join(words))
    rows = named(snapshots, names_of(run.client, "/datastores"), "datastore") if not run.output.as_json else snapshots
    run.output.rows(rows, "datastore", "name", "created_at", "used", "holds")


@snapshot.command("create", "before-update vmfs1 vmfs2 --protect-days 7")
def create_snapshot(
    run: Run,
    name: str,
    stores: Annotated[list[str], typer.Argument(help="Datastores, all in one atomic step.")],
    protect_days: Annotated[int, typer.Option(help="The snapshots cannot be destroyed for this number of days.")] = 0,
    wait: Wait = False,
) -> None:
    """Create snapshots of one or several datastores of a pool."""
    body: dict[str, Any] = {"name": name, "protect_days": protect_days}
    body["datastores"] = [run.client.named("/datastores", store) for store in stores]
    run.job(run.client.call("POST", "/snapshots", body), wait)


@snapshot.command("delete", "vmfs1 before-update after-update --yes")
def delete_snapshots(
    run: Run,
    store: Store,
    names: Annotated[list[str], typer.Argument(help="Snapshots: all of them are deleted, or none.")],
    yes: Yes = False,
    wait: Wait = False,
) -> None:
    """Delete snapshots. Refused while one of them is held or protected, or has clones."""
    path = f"{run.path('/datastores', store)}/snapshots/delete"
    confirm(f"Delete {', '.join(f'{store}@{name}' for name in names)}?", yes)
    run.job(run.client.call("POST", path, {"names": names}), wait)


@snapshot.command("rollback", "vmfs1 before-update --yes --wait")
def rollback(
    run: Run,
    store: Store,
    name: str,
    force: Force = False,
    destroy_newer: Annotated[bool, typer.Option("--destroy-newer", help="Destroy newer snapshots. Needed with --yes.")] = False,
    yes: Yes = False,
    wait: Wait = False,
) -> None:
    """Roll a datastore back to a snapshot. Later writes are lost, and newer snapshots are destroyed: the question lists them."""
    path = f"{run.path('/datastores', store)}/snapshots"
    tags = [snapshot["name"] for snapshot in run.client.all(path)]
    newer = tags[tags.index(name) + 1 :] if name in tags else []
    lost = f"This destroys the newer snapshots {', '.join(newer)}." if newer else ""
    if lost and yes and not destroy_newer:
        raise CommandError(f"{lost} To do it anyway, add --destroy-newer", IN_THE_WAY)
    confirm(f"Roll {store} back to {name}? All later writes are lost. {lost}".rstrip(), yes)
    run.job(run.client.call("POST", f"{path}/{quote(name, safe='')}/rollback", {"force": force, "destroy": newer}), wait)


Tag = Annotated[str, typer.Argument(help="Says who needs it, or what for.")]


def _path(run: Run, store: str, name: str) -> str:
    return f"{run.path('/datastores', store)}/snapshots/{quote(name, safe='')}/holds"


@snapshot.command("holds", "vmfs1 before-update")
def list_holds(run: Run, store: Store, name: str) -> None:
    """List the holds of a snapshot. `of`: user, appliance or openzfs. Only holds of users can be released."""
    run.output.rows(run.client.all(_path(run, store, name)), "tag", "created_at", "of")


@snapshot.command("hold", "vmfs1 before-update audit-2026")
def hold(run: Run, store: Store, name: str, tag: Tag, wait: Wait = False) -> None:
    """Hold a snapshot: no user, schedule or rollback can destroy it."""
    run.job(run.client.call("POST", _path(run, store, name), {"tag": tag}), wait)


@snapshot.command("release", "vmfs1 before-update audit-2026")
def release(run: Run, store: Store, name: str, tag: Tag, wait: Wait = False) -> None:
    """Release a hold. Holds of the appliance and of zfs send end by themselves."""
    run.job(run.client.call("DELETE", f"{_path(run, store, name)}/{quote(tag, safe='')}"), wait)
