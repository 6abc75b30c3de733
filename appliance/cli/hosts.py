# SPDX-License-Identifier: Apache-2.0
"""Hosts, host groups, sessions."""

import sys
from typing import Annotated, Any

import typer

from appliance.cli.client import UNAVAILABLE, CommandError
from appliance.cli.shared import Force, Run, Yes, ask_secret, changed_list, confirm, named, names_of, noun

host = noun("host", "Manage ESXi hosts.")
group = noun("group", "Manage host groups: hosts that see the same datastores.")
Iqns = Annotated[list[str] | None, typer.Option("--iqn", help="An iSCSI name of the host; repeat for several.")]
Addresses = Annotated[list[str] | None, typer.Option("--address", help="An address that mounts NFS; repeat for several.")]
GroupName = Annotated[str | None, typer.Option("--group", "-g", help="Its host group; '' for none.")]


host.table("list", "/hosts", "name group last_seen_at iqns addresses chap_name", "List hosts.", names={"group": "/host-groups"})


@host.command("show", "esx1")
def show_host(run: Run, host: str) -> None:
    """Show a host: its group, when it was last seen, sessions, datastores, and the commands to paste on it."""
    response = run.client.call("GET", run.path("/hosts", host))
    sessions = _sessions(run, response["iqns"])
    stores = [store["name"] for store in run.client.all("/datastores") if response["group"] in store["host_groups"]]
    ready = run.client.call("GET", "/readiness")
    lines = [line for commands in ready["hosts"] if commands["host"] == response["id"] for line in commands["esxcli"]]
    more = {"sessions": sessions, "datastores": stores, "target": ready["target"], "portals": ready["portals"]}
    if run.output.as_json:
        run.output.raw({**response, **more, "esxcli": [*lines, *ready["esxcli"]]})
        return
    (shown,) = named([response], names_of(run.client, "/host-groups"), "group")
    paths = "unknown" if sessions is None else [f"{session['peer']} to {session['portal']}" for session in sessions]
    run.output.fields({key: value for key, value in shown.items() if key not in ("id", "etag")} | more | {"sessions": paths})
    print("\nOn this host:\n" + "\n".join(f"  {line}" for line in [*lines, *ready["esxcli"]]))


def _sessions(run: Run, iqns: list[str]) -> list[dict[str, Any]] | None:
    """Sessions of a host; None if the target does not answer."""
    try:
        return [session for session in run.client.all("/sessions") if session["initiator"] in iqns]
    except CommandError as error:
        if error.exit_code != UNAVAILABLE:
            raise
        print(f"sessions are unknown: {error}", file=sys.stderr)
        return None


@host.command("create", "esx1 --iqn iqn.1998-01.com.vmware:esx1-0a1b2c3d --group cluster")
def create_host(run: Run, name: str, iqn: Iqns = None, address: Addresses = None, group: GroupName = None) -> None:
    """Create a host."""
    body: dict[str, Any] = {"name": name, "iqns": iqn or [], "addresses": address or []}
    if group:
        body["group"] = run.client.named("/host-groups", group)
    run.output.fields(run.client.call("POST", "/hosts", body))


@host.command("change", "esx1 --add-iqn iqn.1998-01.com.vmware:esx1-second --remove-address 192.0.2.11")
def change_host(
    run: Run,
    host: str,
    name: Annotated[str | None, typer.Option(help="Rename it.")] = None,
    add_iqn: Annotated[list[str] | None, typer.Option(help="Add an iSCSI name; repeat for several.")] = None,
    remove_iqn: Annotated[list[str] | None, typer.Option(help="Remove an iSCSI name; repeat for several.")] = None,
    add_address: Annotated[list[str] | None, typer.Option(help="Add an address that mounts NFS; repeat for several.")] = None,
    remove_address: Annotated[list[str] | None, typer.Option(help="Remove an address; repeat for several.")] = None,
    group: GroupName = None,
    force: Force = False,
) -> None:
    """Change a host: its name, group, iSCSI names and addresses."""

    def changes(now: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"force": force}
        if name:
            body["name"] = name
        if group is not None:
            body["group"] = run.client.named("/host-groups", group) if group else None
        body |= changed_list("iqns", now["iqns"], add_iqn, remove_iqn)
        return body | changed_list("addresses", now["addresses"], add_address, remove_address)

    run.output.fields(run.client.change(run.path("/hosts", host), changes))


@host.command("delete", "esx1 --yes")
def delete_host(run: Run, host: str, force: Force = False, yes: Yes = False) -> None:
    """Delete a host. It can no longer log in or mount."""
    path = run.path("/hosts", host)
    confirm(f"Delete the host {host}? It loses its datastores.", yes)
    run.client.delete(path, force=force)


@host.command("chap", "esx1")
def chap(
    run: Run,
    host: str,
    name: Annotated[str | None, typer.Option(help="CHAP name; the default is the present one, or the first iSCSI name.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove name and secret.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also while the host is logged in by its present secret.")] = False,
    yes: Yes = False,
) -> None:
    """Set the CHAP name and secret of a host, for its own iSCSI names only. The secret comes from the terminal or stdin."""
    path = run.path("/hosts", host)
    if remove:
        confirm(f"Remove the CHAP name and secret of {host}? While CHAP is required, it cannot log in again.", yes)
        run.output.fields(run.client.call("DELETE", f"{path}/chap", force=force))
        return
    now = run.client.call("GET", path)
    name = name or now["chap_name"] or next(iter(now["iqns"]), now["name"])
    body = {"name": name, "secret": ask_secret("CHAP secret", twice=True), "force": force}
    run.output.fields(run.client.call("PUT", f"{path}/chap", body))


@host.command("sessions")
def sessions(run: Run) -> None:
    """List iSCSI sessions: hosts and the portals they use."""
    rows = run.client.all("/sessions")
    if not run.output.as_json:
        by_iqn = {iqn: response["name"] for response in run.client.all("/hosts") for iqn in response["iqns"]}
        rows = [{**session, "host": by_iqn.get(session["initiator"], "-")} for session in rows]
        return run.output.rows(rows, "host", "initiator", "peer", "portal", "logged_in_at", "account")
    return run.output.raw(rows)


host.table(
    "unknown",
    "/unknown-initiators",
    "initiator address at",
    "List iSCSI initiators of no host that tried to log in. Add one with `zvaai host create`.",
)


host.table(
    "nfs-clients",
    "/nfs-clients",
    "address seen_at opens datastores",
    "List clients of the NFS server, and datastores that each may be using.",
    names={"datastores": "/datastores"},
)


group.table("list", "/host-groups", "name hosts disabled_offloads", "List host groups.", names={"hosts": "/hosts"})


@group.command("create", "cluster")
def create_group(run: Run, name: str) -> None:
    """Create a host group without hosts."""
    run.output.fields(run.client.call("POST", "/host-groups", {"name": name}))


@group.command("show", "cluster")
def show_group(run: Run, group: str) -> None:
    """Show a host group: its hosts, its datastores, and the offloads that are disabled."""
    response = run.client.call("GET", run.path("/host-groups", group))
    stores = [store["name"] for store in run.client.all("/datastores") if response["id"] in store["host_groups"]]
    (shown,) = [response] if run.output.as_json else named([response], names_of(run.client, "/hosts"), "hosts")
    run.output.fields({**shown, "datastores": stores})


@group.command("change", "cluster --disable unmap")
def change_group(
    run: Run,
    group: str,
    name: Annotated[str | None, typer.Option(help="Rename it.")] = None,
    disable: Annotated[
        list[str] | None,
        typer.Option(help="Disable extended_copy, write_same, unmap or token; repeat for several."),
    ] = None,
    enable: Annotated[list[str] | None, typer.Option(help="Enable an offload again; repeat for several.")] = None,
) -> None:
    """Rename a host group, or disable offloads for its hosts."""

    def changes(now: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"name": name} if name else {}
        return body | changed_list("disabled_offloads", now["disabled_offloads"], disable, enable)

    run.output.fields(run.client.change(run.path("/host-groups", group), changes))


group.deletion("/host-groups", "cluster", "Delete the host group {name}?", "Delete a host group without hosts and datastores.")
