# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of the configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.shared import ask_secret, noun, shared

configuration = noun("Back up and restore the configuration.")


@configuration.command("backup")
def back_up(context: typer.Context, file: Path) -> None:
    """Write the configuration to a new file. The passphrase for its secrets comes from the terminal or stdin.

    Example: zvaai configuration backup site.json
    """
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also if hosts lose datastores that they use.")] = False,
) -> None:
    """Restore the configuration from a file. The passphrase comes from the terminal or stdin.

    Example: zvaai configuration restore site.json --dry-run
    """
    run = shared(context)
    asked = {"backup": file.read_text(), "passphrase": ask_secret("Passphrase"), "dry_run": dry_run, "force": force}
    told = run.client.call("POST", "/configuration/restore", asked)
    if run.output.as_json:
        return run.output.raw(told)
    for change in told["changes"]:
        print(change)
    return print("nothing was changed" if dry_run else f"{len(told['changes'])} changes")
