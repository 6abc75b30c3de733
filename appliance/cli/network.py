# SPDX-License-Identifier: Apache-2.0
"""The network of the server; portals and CHAP of the iSCSI target."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from appliance.cli.client import FAILED, USAGE, CommandError
from appliance.cli.shared import Run, Yes, ask_secret, confirm, noun

network = noun("network", "Show the network of the server, and ping hosts at full MTU.")
portal = noun("portal", "Set where hosts reach the iSCSI target.")
iscsi = noun("iscsi", "Set CHAP of the iSCSI target.")
Address = Annotated[str, typer.Argument(help="Address with port: 192.0.2.1:3260 or [2001:db8::1]:3260.")]
Group = Annotated[int | None, typer.Option("--group", help="Portal group. Give each network a separate group.")]
Advertised = Annotated[str | None, typer.Option(help="Address that discovery reports instead, behind address translation.")]
Force = Annotated[bool, typer.Option("--force", help="Also if hosts lose connections.")]


@network.command("show")
def show_network(run: Run) -> None:
    """Show interfaces, host name, DNS and time synchronisation.

    To change them, use Debian's tools on the server (in the disk image: nmtui).
    """
    shown = run.client.call("GET", "/network")
    if run.output.as_json:
        return run.output.raw(shown)
    clock = shown["time"]
    run.output.fields(
        {
            "host_name": shown["hostname"],
            "dns_servers": shown["dns_servers"],
            "search_domains": shown["search_domains"],
            "time_synchronized": clock["synchronized"],
            "time_zone": clock["zone"],
        }
    )
    print()
    rows = [
        {**interface, "speed": None if interface["speed"] is None else f"{interface['speed']} Mbit/s"}
        for interface in shown["interfaces"]
    ]
    return run.output.rows(rows, "name", "kind", "state", "mtu", "speed", "addresses", "members", "detail")


@network.command("ping", "esx1")
def ping(run: Run, host: Annotated[str, typer.Argument(help="Name of a host.")]) -> None:
    """Ping each address of a host at full MTU. The exit code is 1 if a packet of this size does not pass."""
    items = run.client.call("POST", f"/hosts/{run.client.named('/hosts', host)}/ping")["items"]
    if run.output.as_json:
        run.output.raw(items)
    for item in () if run.output.as_json else items:
        print(item["text"])
    if any(item["result"] != "ok" for item in items):
        raise typer.Exit(FAILED)


portal.table(
    "list",
    "/portals",
    "address group_tag interfaces advertised problem",
    "List portals and the network interfaces that lead to them.",
)


@portal.command("add", "192.0.2.1:3260 --replace 0.0.0.0:3260", "--interface eth1 --group 2")
def add_portal(
    run: Run,
    address: Annotated[str | None, typer.Argument(help="Address with port: 192.0.2.1:3260. Or give --interface.")] = None,
    interface: Annotated[str | None, typer.Option(help="Use the first address of this network interface, and port 3260.")] = None,
    group: Group = 1,
    advertised: Advertised = None,
    replace: Annotated[str | None, typer.Option(help="Portal whose place it takes, such as 0.0.0.0:3260.")] = None,
    force: Force = False,
) -> None:
    """Add a portal. Replace the portal 0.0.0.0:3260 first: it excludes all others."""
    body = {
        "address": address, "interface": interface, "group_tag": group, "advertised": advertised, "replaces": replace,
        "force": force,
    }  # fmt: skip
    run.output.fields(run.client.call("POST", "/portals", body))


@portal.command("change", "192.0.2.1:3260 --address 192.0.2.5:3260")
def change_portal(
    run: Run,
    portal: Address,
    address: Annotated[str | None, typer.Option(help="New address with port.")] = None,
    group: Group = None,
    advertised: Advertised = None,
    force: Force = False,
) -> None:
    """Change a portal. Connections stay while their portal group has a portal. Refused if hosts could not log in again."""
    given: dict[str, Any] = {"address": address, "group_tag": group, "advertised": advertised}
    body = {key: value for key, value in given.items() if value is not None} | {"force": force}
    run.output.fields(run.client.call("PATCH", f"/portals/{quote(portal, safe='')}", body))


@portal.command("remove", "192.0.2.1:3260 --yes")
def remove_portal(run: Run, portal: Address, force: Force = False, yes: Yes = False) -> None:
    """Stop listening at a portal."""
    confirm(f"Stop listening at {portal}?", yes)
    run.client.call("DELETE", f"/portals/{quote(portal, safe='')}", force=force)


@iscsi.command("show")
def show(run: Run) -> None:
    """Show whether CHAP is required, and by which name the target proves itself."""
    run.output.fields(run.client.call("GET", "/settings/iscsi"))


@iscsi.command("change", "--chap")
def change(
    run: Run,
    chap: Annotated[bool, typer.Option("--chap/--no-chap", help="Require CHAP of all hosts, or of none.")],
    force: Annotated[bool, typer.Option("--force", help="Also if logged-in hosts could not log in again.")] = False,
) -> None:
    """Require CHAP of hosts, or not. It applies to their next login."""
    run.output.fields(run.client.call("PUT", "/settings/iscsi", {"chap_required": chap, "force": force}))


@iscsi.command("target-chap", "--name storage")
def target_chap(
    run: Run,
    name: Annotated[
        str | None, typer.Option(help="CHAP name of the target. The secret comes from the terminal or stdin.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove name and secret.")] = False,
    yes: Yes = False,
) -> None:
    """Set the name and secret by which the target proves itself to hosts (mutual CHAP)."""
    if remove == (name is not None):
        raise CommandError("give --name NAME, or --remove", USAGE)
    path = "/settings/iscsi/target-chap"
    if remove:
        confirm("Remove name and secret of the target? Hosts that require mutual CHAP cannot log in again.", yes)
        run.output.fields(run.client.call("DELETE", path))
    else:
        run.output.fields(run.client.call("PUT", path, {"name": name, "secret": ask_secret("CHAP secret", twice=True)}))
