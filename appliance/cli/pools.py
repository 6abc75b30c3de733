# SPDX-License-Identifier: Apache-2.0
"""Pools and their devices."""

import sys
from typing import Annotated, Any

import typer

from appliance.cli.output import size
from appliance.cli.shared import Force, Run, Wait, Yes, confirm, noun

pool = noun("pool", "Pools.")


pool.table("list", "/pools", "name health usable available used_percent bclone_saved error_count", "List imported pools.")


@pool.command("show", "tank")
def show_pool(run: Run, name: str) -> None:
    """Show a pool with its vdevs and its last scan."""
    response = run.client.call("GET", f"/pools/{name}")
    if run.output.as_json:
        return run.output.raw(response)
    run.output.fields({key: value for key, value in response.items() if key != "vdevs"})
    if scan := response["scan"]:
        done = f"{size(scan['repaired'])} {'written' if scan['function'] == 'resilver' else 'repaired'}"
        print(f"{scan['function']}: {scan['state']}, {int(100 * scan['progress'])} %, {done}, {scan['errors']} errors left")
    lines: list[dict[str, Any]] = []

    def walk(vdevs: list[dict[str, Any]], depth: int) -> None:
        for vdev in vdevs:
            was = f" (was {vdev['was']})" if vdev["was"] else ""
            lines.append({**vdev, "name": "  " * depth + vdev["name"] + was})
            walk(vdev["vdevs"], depth + 1)

    walk(response["vdevs"], 0)
    return run.output.rows(lines, "name", "health", "role", "read_errors", "write_errors", "checksum_errors", "guid")


@pool.command("change", "tank --warning 75 --critical 85")
def change_pool(
    run: Run,
    name: str,
    warning: Annotated[
        int | None, typer.Option(help="Percent at which an alert is raised and hosts get a warning; 0 for the default.")
    ] = None,
    critical: Annotated[int | None, typer.Option(help="Percent at which the alert is critical; 0 for the default.")] = None,
    wait: Wait = False,
) -> None:
    """Set the pool's capacity alert thresholds, in percent."""
    given = {"warning_percent": warning, "critical_percent": critical}
    body = {field: value or None for field, value in given.items() if value is not None}
    run.job(run.client.call("PATCH", f"/pools/{name}", body), wait)


@pool.command("scrub", "tank pause")
def scrub(
    run: Run, name: str, action: Annotated[str, typer.Argument(help="start, pause or stop")] = "start", wait: Wait = False
) -> None:
    """Control the scrub of a pool: start, pause or stop it."""
    run.job(run.client.call("POST", f"/pools/{name}/scrub", {"action": action}), wait)


VdevWords = Annotated[
    list[str],
    typer.Argument(
        help="Vdevs: mirror A B, raidz1|raidz2|raidz3 A B C …, log E. Each disk without such a word is a separate vdev. "
        "Roles: log, cache, spare, special, dedup."
    ),
]


def vdevs_of(words: list[str]) -> list[dict[str, Any]]:
    """Parses vdevs in the syntax of zpool(8): `mirror a b mirror c d log e`."""
    vdevs: list[dict[str, Any]] = []
    role, redundancy, begun = "data", "stripe", False
    for word in words:
        if word in ("log", "cache", "spare", "special", "dedup"):
            role, redundancy, begun = word, "stripe", False
        elif word in ("mirror", "raidz", "raidz1", "raidz2", "raidz3"):
            redundancy, begun = "raidz1" if word == "raidz" else word, False
        elif begun:
            vdevs[-1]["devices"].append(word)
        else:
            vdevs.append({"devices": [word], "redundancy": redundancy, "role": role})
            begun = True
    return vdevs


@pool.command("disks")
def disks(run: Run) -> None:
    """List block devices, and what uses them."""
    listed = run.client.all("/disks")
    if not run.output.as_json:
        for disk in listed:
            disk["health"] = _health(disk["smart"])
    run.output.rows(listed, "path", "size", "model", "serial", "used_by", "health")


def _health(smart: dict[str, Any] | None) -> str:
    """Health data of a disk, in a line."""
    if smart is None:
        return "-"
    if not smart["available"]:
        return smart["severity"] or "none"
    verdict = smart["severity"] or ("no verdict" if smart["passed"] is None else "ok")
    failed = ["SMART failed"] if smart["passed"] is False else []
    counts = [f"{smart[name]} {name}" for name in ("reallocated", "pending", "uncorrectable") if smart[name]]
    measured = [f"{smart['temperature']} °C"] if smart["temperature"] is not None else []
    worn = [f"{smart['wear']} % worn"] if smart["wear"] is not None else []
    return ", ".join([verdict, *failed, *counts, *measured, *worn])


def _plan(run: Run, body: dict[str, Any], dry_run: bool) -> None:
    """Prints the warnings of a layout, and with `dry_run` the layout."""
    plan = run.client.call("POST", "/pools/plan", body)
    for warning in plan["warnings"]:
        print(f"Warning: {warning}", file=sys.stderr)
    if dry_run and run.output.as_json:
        run.output.raw(plan)
    elif dry_run:
        print("\n".join(plan["layout"]))


@pool.command("create", "tank mirror /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B")
def create_pool(
    run: Run,
    name: str,
    vdevs: VdevWords,
    ashift: Annotated[int, typer.Option(help="Block of the devices: 2 to the power of this. It can't be changed later.")] = 12,
    autotrim: Annotated[bool, typer.Option("--autotrim", help="Tell SSDs at once which blocks are free.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the layout, and create nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Destroy existing data on the devices.")] = False,
    wait: Wait = False,
) -> None:
    """Create a pool on empty disks."""
    body = {"name": name, "vdevs": vdevs_of(vdevs), "force": force}
    _plan(run, body, dry_run)
    if not dry_run:
        run.job(run.client.call("POST", "/pools", {**body, "ashift": ashift, "autotrim": autotrim}), wait)


@pool.command("extend", "tank mirror /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B --dry-run")
def extend_pool(
    run: Run,
    name: str,
    vdevs: VdevWords,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resulting layout without changing anything.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Destroy existing data on the devices.")] = False,
    wait: Wait = False,
) -> None:
    """Add vdevs to a pool. zvaai cannot remove data vdevs again."""
    body = {"vdevs": vdevs_of(vdevs), "force": force}
    _plan(run, {**body, "name": name, "extend": True}, dry_run)
    if not dry_run:
        run.job(run.client.call("POST", f"/pools/{name}/extend", body), wait)


pool.table("importable", "/importable-pools", "name guid health last_host devices action", "List pools that are not imported.")


@pool.command("import", "tank --wait")
def import_pool(
    run: Run,
    name: Annotated[str, typer.Argument(help="Name or GUID.")],
    new_name: Annotated[str | None, typer.Option(help="Import it with this name.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Import a pool that another system did not export. Make sure that system is off.")
    ] = False,
    wait: Wait = False,
) -> None:
    """Import a pool. Its datastores keep their identities."""
    run.job(run.client.call("POST", "/pools/import", {"pool": name, "new_name": new_name, "force": force}), wait)


@pool.command("export", "tank --wait")
def export_pool(run: Run, name: str, force: Force = False, wait: Wait = False) -> None:
    """Export a pool. Its datastores go out of service first."""
    run.job(run.client.call("POST", f"/pools/{name}/export", force=force), wait)


@pool.command("replace", "tank /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B")
def replace_device(
    run: Run,
    name: str,
    device: str,
    new_device: str,
    force: Annotated[bool, typer.Option("--force", help="Destroy existing data on the new device. Administrators only.")] = False,
    wait: Wait = False,
) -> None:
    """Replace a device, and start the resilver."""
    body = {"device": device, "new_device": new_device, "force": force}
    run.job(run.client.call("POST", f"/pools/{name}/replace", body), wait)


@pool.command("device", "tank /dev/disk/by-id/ata-A offline")
def change_device(
    run: Run, name: str, device: str, action: Annotated[str, typer.Argument(help="offline, online or clear")], wait: Wait = False
) -> None:
    """Take a device offline or online, or clear its errors.

    If the pool is suspended, `clear` clears the errors of all its devices and resumes the pool.
    """
    run.job(run.client.call("POST", f"/pools/{name}/device", {"device": device, "action": action}), wait)


Device = Annotated[str, typer.Argument(help="Name, path or GUID, as `zvaai pool show` prints it.")]
Forced = Annotated[bool, typer.Option("--force", help="Destroy existing data on the new device. Administrators only.")]


@pool.command("attach", "tank /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B")
def attach_device(run: Run, name: str, device: Device, new_device: str, force: Forced = False, wait: Wait = False) -> None:
    """Attach a device to a single device or a mirror, and start the resilver."""
    body = {"device": device, "new_device": new_device, "force": force}
    run.job(run.client.call("POST", f"/pools/{name}/attach", body), wait)


@pool.command("detach", "tank /dev/disk/by-id/ata-B")
def detach_device(run: Run, name: str, device: Device, yes: Yes = False, wait: Wait = False) -> None:
    """Detach a device from its mirror, or end a replacement."""
    confirm(f"Detach {device} from pool {name}? Its copy of the data is lost.", yes)
    run.job(run.client.call("POST", f"/pools/{name}/detach", {"device": device}), wait)


@pool.command("remove", "tank /dev/disk/by-id/nvme-C")
def remove_device(run: Run, name: str, device: Device, wait: Wait = False) -> None:
    """Remove a spare, a cache or a log device; a mirror of logs as a whole."""
    run.job(run.client.call("POST", f"/pools/{name}/remove", {"device": device}), wait)


@pool.command("trim", "tank")
def trim_pool(
    run: Run, name: str, action: Annotated[str, typer.Argument(help="start or stop")] = "start", wait: Wait = False
) -> None:
    """Start or stop the trim of a pool's devices."""
    run.job(run.client.call("POST", f"/pools/{name}/trim", {"action": action}), wait)


@pool.command("upgrade", "tank")
def upgrade_pool(run: Run, name: str, yes: Yes = False, wait: Wait = False) -> None:
    """Enable all features of this OpenZFS. Older versions can't import the pool afterwards."""
    confirm(f"Upgrade {name}? Older versions of OpenZFS can't import it afterwards.", yes)
    run.job(run.client.call("POST", f"/pools/{name}/upgrade"), wait)


@pool.command("destroy", "tank")
def destroy_pool(
    run: Run,
    name: str,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Also destroy datasets that are not datastores.")] = False,
    wait: Wait = False,
) -> None:
    """Destroy a pool that has no datastores. This can't be undone."""
    confirm(f"Destroy pool {name} with all that is in it?", yes)
    run.job(run.client.call("DELETE", f"/pools/{name}", force=force), wait)
