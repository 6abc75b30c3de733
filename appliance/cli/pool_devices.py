# SPDX-License-Identifier: Apache-2.0
"""Verbs of `zvaai pool` about its devices, and about the whole pool, except its creation, import and export."""

from __future__ import annotations

from typing import Annotated

import typer

from appliance.cli.shared import Wait, Yes, confirm, shared
from appliance.cli.storage import pool

Device = Annotated[str, typer.Argument(help="Name, path or GUID, as `zvaai pool show` prints it.")]
Forced = Annotated[bool, typer.Option("--force", help="Whatever the new device carries. Admins only.")]


@pool.command("attach")
def attach_device(
    context: typer.Context, name: str, device: Device, new_device: str, force: Forced = False, wait: Wait = False
) -> None:
    """Attach a device to a single device or a mirror, and start the resilver.

    Example: zvaai pool attach tank /dev/disk/by-id/ata-A /dev/disk/by-id/ata-B
    """
    run = shared(context)
    body = {"device": device, "new_device": new_device, "force": force}
    run.job(run.client.call("POST", f"/pools/{name}/attach", body), wait)


@pool.command("detach")
def detach_device(context: typer.Context, name: str, device: Device, wait: Wait = False) -> None:
    """Detach a device from its mirror, or end a replacement.

    Example: zvaai pool detach tank /dev/disk/by-id/ata-B
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/pools/{name}/detach", {"device": device}), wait)


@pool.command("remove")
def remove_device(context: typer.Context, name: str, device: Device, wait: Wait = False) -> None:
    """Remove a spare, a cache or a log device; a mirror of logs as a whole.

    Example: zvaai pool remove tank /dev/disk/by-id/nvme-C
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/pools/{name}/remove", {"device": device}), wait)


@pool.command("trim")
def trim_pool(
    context: typer.Context,
    name: str,
    action: Annotated[str, typer.Argument(help="start or stop")] = "start",
    wait: Wait = False,
) -> None:
    """Start or stop the trim of a pool's devices.

    Example: zvaai pool trim tank
    """
    run = shared(context)
    run.job(run.client.call("POST", f"/pools/{name}/trim", {"action": action}), wait)


@pool.command("upgrade")
def upgrade_pool(context: typer.Context, name: str, yes: Yes = False, wait: Wait = False) -> None:
    """Enable all features of this OpenZFS. Older versions can't import the pool afterwards.

    Example: zvaai pool upgrade tank
    """
    run = shared(context)
    confirm(f"Upgrade {name}? Older versions of OpenZFS can't import it afterwards.", yes)
    run.job(run.client.call("POST", f"/pools/{name}/upgrade"), wait)


@pool.command("destroy")
def destroy_pool(
    context: typer.Context,
    name: str,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="With the datasets in it that are no datastores.")] = False,
    wait: Wait = False,
) -> None:
    """Destroy a pool that has no datastores. This can't be undone.

    Example: zvaai pool destroy tank
    """
    run = shared(context)
    confirm(f"Destroy pool {name} with all that is in it?", yes)
    run.job(run.client.call("DELETE", f"/pools/{name}", force=force), wait)
