# SPDX-License-Identifier: Apache-2.0
"""Hosts, host groups, sessions."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from appliance.cli.shared import Force, noun, shared

host = noun("ESXi hosts.")
group = noun("Host groups.")
Iqns = Annotated[list[str] | None, typer.Option("--iqn", help="An iSCSI name of it; again for another.")]
Addresses = Annotated[
    list[str] | None, typer.Option("--address", help="An address of it, by which it mounts NFS; again for another.")
]


@host.command("list")
def list_hosts(context: typer.Context) -> None:
    """All hosts."""
    run = shared(context)
    run.output.rows(run.client.all("/hosts"), "name", "group", "iqns", "addresses", "chap_name", "id")


@host.command("create")
def create_host(
    context: typer.Context,
    name: str,
    iqn: Iqns = None,
    address: Addresses = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Its host group.")] = None,
) -> None:
    """A new host."""
    run = shared(context)
    body: dict[str, Any] = {"name": name, "iqns": iqn or [], "addresses": address or []}
    if group:
        body["group"] = run.client.named("/host-groups", group)
    run.output.one(run.client.call("POST", "/hosts", body))


@host.command("change")
def change_host(
    context: typer.Context,
    host: str,
    name: Annotated[str | None, typer.Option()] = None,
    iqn: Iqns = None,
    address: Addresses = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Its host group; '' for none.")] = None,
    force: Force = False,
) -> None:
    """What is given; iSCSI names and addresses are replaced by those given."""
    run = shared(context)
    body: dict[str, Any] = {"force": force}
    if name:
        body["name"] = name
    if iqn:
        body["iqns"] = iqn
    if address:
        body["addresses"] = address
    if group is not None:
        body["group"] = run.client.named("/host-groups", group) if group else None
    run.output.one(run.client.call("PATCH", f"/hosts/{run.client.named('/hosts', host)}", body))


@host.command("delete")
def delete_host(context: typer.Context, host: str, force: Force = False) -> None:
    """It can't log in any more."""
    run = shared(context)
    run.client.call("DELETE", f"/hosts/{run.client.named('/hosts', host)}", force=force)


@host.command("chap")
def chap(
    context: typer.Context,
    host: str,
    name: Annotated[str | None, typer.Option(help="CHAP name; the secret is asked for, or read from standard input.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take it away.")] = False,
) -> None:
    """How a host proves itself."""
    run = shared(context)
    path = f"/hosts/{run.client.named('/hosts', host)}/chap"
    if remove:
        run.output.one(run.client.call("DELETE", path))
        return
    secret = typer.prompt("CHAP secret", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    run.output.one(run.client.call("PUT", path, {"name": name or host, "secret": secret}))


@host.command("sessions")
def sessions(context: typer.Context) -> None:
    """Who is logged in, by which path."""
    run = shared(context)
    run.output.rows(run.client.all("/sessions"), "initiator", "peer", "portal", "since", "account")


@host.command("nfs-clients")
def nfs_clients(context: typer.Context) -> None:
    """Who the NFS server knows, and which datastores each may be using."""
    run = shared(context)
    run.output.rows(run.client.all("/nfs-clients"), "address", "seen_at", "opens", "datastores")


@group.command("list")
def list_groups(context: typer.Context) -> None:
    """All host groups."""
    run = shared(context)
    run.output.rows(run.client.all("/host-groups"), "name", "hosts", "disabled_offloads", "id")


@group.command("create")
def create_group(context: typer.Context, name: str) -> None:
    """A new one, without hosts."""
    run = shared(context)
    run.output.one(run.client.call("POST", "/host-groups", {"name": name}))


@group.command("change")
def change_group(
    context: typer.Context,
    group: str,
    name: Annotated[str | None, typer.Option()] = None,
    disable: Annotated[list[str] | None, typer.Option(help="An offload its hosts are not offered; again for another.")] = None,
    enable_all: Annotated[bool, typer.Option("--enable-all", help="All offloads.")] = False,
) -> None:
    """Its name, and the offloads its hosts are not offered."""
    run = shared(context)
    body: dict[str, Any] = {"name": name} if name else {}
    if disable or enable_all:
        body["disabled_offloads"] = disable or []
    run.output.one(run.client.call("PATCH", f"/host-groups/{run.client.named('/host-groups', group)}", body))


@group.command("delete")
def delete_group(context: typer.Context, group: str) -> None:
    """Refused while it has hosts or datastores."""
    run = shared(context)
    run.client.call("DELETE", f"/host-groups/{run.client.named('/host-groups', group)}")
