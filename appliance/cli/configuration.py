# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the configuration."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.shared import ask_secret, noun, shared

configuration = noun("Backup and restore of the configuration.")


@configuration.command("backup")
def back_up(context: typer.Context, file: Path) -> None:
    """Writes it into a file that is not there yet. The passphrase for its secrets is asked for, or read from standard input."""
    run = shared(context)
    told = run.client.call("POST", "/configuration/backup", {"passphrase": ask_secret("Passphrase", twice=True)})
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        json.dump(told, written, indent=1)
        written.flush()
        os.fsync(written.fileno())


@configuration.command("restore")
def restore(
    context: typer.Context,
    file: Path,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be changed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also where hosts lose datastores that they use.")] = False,
) -> None:
    """Makes the configuration what the file says. The passphrase is asked for, or read from standard input."""
    run = shared(context)
    asked = {"backup": file.read_text(), "passphrase": ask_secret("Passphrase"), "dry_run": dry_run, "force": force}
    told = run.client.call("POST", "/configuration/restore", asked)
    if run.output.as_json:
        return run.output.raw(told)
    for change in told["changes"]:
        print(change)
    return print("nothing was changed" if dry_run else f"{len(told['changes'])} changes")


@configuration.command("recovery-key")
def renew_recovery_key(context: typer.Context) -> None:
    """Make a new recovery key and print it once.

    The key opens the copies of the configuration on pools. Store it away from this server. Older keys open older copies only.
    Example: zvaai configuration recovery-key
    """
    run = shared(context)
    told = run.client.call("POST", "/configuration/recovery-key")
    if run.output.as_json:
        return run.output.raw(told)
    return print(told["secret"])


def recover(
    context: typer.Context,
    pool: Annotated[str | None, typer.Option("--from", metavar="POOL", help="Take the configuration of this pool.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="This database is right.")] = False,
    recovery_key: Annotated[
        bool, typer.Option("--recovery-key", help="Ask for the recovery key, or read it from standard input.")
    ] = False,
) -> None:
    """Show the copies of the configuration on pools, or end recovery mode.

    Without an option nothing is changed.
    Example: zvaai recover --from tank
    """
    run = shared(context)
    if pool is not None or keep:
        asked = {"from_pool": pool, "keep": keep, "recovery_key": ask_secret("Recovery key") if recovery_key else None}
        told = run.client.call("POST", "/recovery", asked)
    else:
        told = run.client.call("GET", "/recovery")
    if run.output.as_json:
        return run.output.raw(told)
    print(f"recovery mode: {told['reason']}" if told["active"] else "not in recovery mode")
    print(f"this database: generation {told['generation']} of installation {told['installation']}")
    for copy in told["copies"]:
        when = datetime.fromtimestamp(copy["written_at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        whose = "this installation" if copy["own"] else f"installation {copy['installation']}"
        note = "" if copy["known"] else "; unknown to this database"
        print(f"pool {copy['pool']}: generation {copy['generation']} of {whose}, written {when}{note}")
    if told["suggested"]:
        print(f"suggested: zvaai recover --from {told['suggested']}")
    return None
