# SPDX-License-Identifier: Apache-2.0
"""`zvaai upgrade --check` on the server, also without the appliance, and `zvaai updates` from anywhere. They change nothing."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from appliance import updates
from appliance.cli.client import FAILED, NOT_ALLOWED, CommandError
from appliance.cli.shared import Run


def _print(pending: Mapping[str, Any], refreshed_at: datetime | None) -> None:
    if refreshed_at is None:
        print("apt has no lists of packages, so updates are unknown. Run: apt update")
    elif not pending["packages"]:
        date = f"{refreshed_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        print(f"zvaai, OpenZFS and nfs-ganesha are the newest versions of apt's lists of {date}.")
    for package in pending["packages"]:
        print(f"{package['name']}: {package['installed'] or 'not installed'} -> {package['version']}\n  {package['effect']}")
    if pending["others"]:
        print(f"{pending['others']} other packages have updates.")
    for reason in pending["reboot"]:
        print(f"REBOOT: {reason}")
    for obstacle in pending["obstacles"]:
        print(f"IN THE WAY: {obstacle}")


def _unhealthy() -> str:
    """What zpool says of the first pool that is not healthy. Raises CommandError."""
    try:
        done = subprocess.run(["zpool", "status", "-x"], capture_output=True, text=True, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(f"zpool status -x: {error}", FAILED) from error
    pools = done.stdout.strip()
    return "" if pools in ("all pools are healthy", "no pools available") else pools.splitlines()[0].strip()


def upgrade(
    check: Annotated[bool, typer.Option("--check", help="Say what an upgrade will do. Changes nothing.")] = False,
) -> None:
    """Show what `apt upgrade` will do. Needs root. The exit code is 1 if something prevents the upgrade.

    Example: zvaai upgrade --check
    """
    if not check:
        raise CommandError("packages are upgraded by apt: apt update && zvaai upgrade --check && apt upgrade", FAILED)
    if os.geteuid() != 0:
        raise CommandError("only root sees pools and packages; run: sudo zvaai upgrade --check", NOT_ALLOWED)
    try:
        pending = updates.read(_unhealthy())
    except updates.UpdatesError as error:
        raise CommandError(str(error), FAILED) from error
    refreshed_at = pending.refreshed_at
    _print(asdict(pending), None if refreshed_at is None else datetime.fromtimestamp(refreshed_at, UTC))
    if pending.obstacles:
        raise typer.Exit(FAILED)


def show_updates(
    run: Run,
    notes: Annotated[bool, typer.Option("--notes", help="Print the release notes of the new zvaai too.")] = False,
) -> None:
    """Show pending updates of the server, and whether it needs a reboot.

    Example: zvaai updates --notes
    """
    pending = run.client.call("GET", "/updates")
    if run.output.as_json:
        return run.output.raw(pending)
    refreshed_at = pending["refreshed_at"]
    _print(pending, None if refreshed_at is None else datetime.fromisoformat(refreshed_at))
    if notes:
        print(f"\n{pending['notes'] or 'The repository has no notes for this server. Run: apt changelog zvaai'}")
    return None
