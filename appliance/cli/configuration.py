# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration, and recovery from one."""

import json
import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.client import USAGE, CommandError
from appliance.cli.shared import Run, Yes, ask_secret, check_new, confirm, noun

configuration = noun("configuration", "Back up the configuration.")


@configuration.command("backup", "site.json")
def back_up(run: Run, file: Path) -> None:
    """Write a sealed copy of the configuration to a new file. Prompts for your password.

    The recovery key opens it on another server: zvaai recover --file FILE --recovery-key.
    """
    check_new(file)
    response = run.client.call("POST", "/configuration/backup", {"password": ask_secret("Your password")})
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        json.dump(response, written, indent=1)
        written.flush()
        os.fsync(written.fileno())


@configuration.command("recovery-key")
def renew_recovery_key(run: Run) -> None:
    """Make a new recovery key and print it once.

    The key opens the copies of the configuration on pools. Store it away from this server. Older keys open older copies only.
    """
    response = run.client.call("POST", "/configuration/recovery-key")
    if run.output.as_json:
        return run.output.raw(response)
    return print(response["secret"])


def recover(
    run: Run,
    pool: Annotated[str | None, typer.Option("--from", metavar="POOL", help="Take the configuration of this pool.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Take the configuration of this backup.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="This database is right.")] = False,
    recovery_key: Annotated[
        bool, typer.Option("--recovery-key", help="Ask for the recovery key, or read it from standard input.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what a copy would change.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also if hosts lose datastores that they use, or the copy is of another installation."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Show the copies of the configuration on pools, or take the configuration of a pool or of a file.

    Without an option nothing is changed. A copy replaces the whole configuration, with all users and the name of the iSCSI
    target. The question shows the changes. Only your user and password stay. In recovery mode, jobs that have not ended fail.
    A copy of another server needs its recovery key.

    Example: zvaai recover --from tank
    """
    if dry_run and pool is None and file is None:
        raise CommandError("--dry-run shows what a copy would change. Give --from POOL or --file FILE too", USAGE)
    if pool is not None or file is not None or keep:
        body = {
            "from_pool": pool,
            "file": file.read_text() if file is not None else None,
            "keep": keep,
            "recovery_key": ask_secret("Recovery key") if recovery_key else None,
            "dry_run": dry_run,
            "force": force,
        }
        if keep:
            confirm("Keep this database? Hosts lose each datastore that this database does not assign to them.", yes)
        elif not dry_run:
            if not yes and not run.output.as_json:
                _print_changes(run.client.call("POST", "/recovery", {**body, "dry_run": True}))
            confirm("Replace the whole configuration by this copy?", yes)
        response = run.client.call("POST", "/recovery", body)
    else:
        response = run.client.call("GET", "/recovery")
    if run.output.as_json:
        return run.output.raw(response)
    if dry_run or yes:
        _print_changes(response)
    if dry_run:
        return print("nothing was changed")
    print(f"recovery mode: {response['reason']}" if response["active"] else "not in recovery mode")
    print(f"this database: generation {response['generation']} of installation {response['installation']}")
    for copy in response["copies"]:
        when = datetime.fromtimestamp(copy["written_at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        whose = "this installation" if copy["this_installation"] else f"installation {copy['installation']}"
        note = "" if copy["known"] else "; unknown to this database"
        print(f"pool {copy['pool']}: generation {copy['generation']} of {whose}, written {when}{note}")
    if response["active"] and response["suggested"]:
        print(f"suggested: zvaai recover --from {shlex.quote(response['suggested'])}")
    return None


def _print_changes(response: dict[str, Any]) -> None:
    for change in response.get("changes", ()):
        print(change)
