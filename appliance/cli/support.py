# SPDX-License-Identifier: Apache-2.0
"""Support bundles."""

from pathlib import Path

import typer

from appliance.cli.shared import noun, shared

support = noun("Manage support bundles: logs and settings without secrets.")


@support.command("create")
def create(context: typer.Context, file: Path) -> None:
    """Create a support bundle and write it to a new file.

    Example: zvaai support create bundle.tar.gz
    """
    run = shared(context)
    job = run.client.wait(run.client.call("POST", "/support-bundles")["id"], lambda _: None)
    run.client.download(f"/support-bundles/{job['result']['bundle']}", file)
    run.output.one({"file": str(file), "bundle": job["result"]["bundle"], "size": file.stat().st_size})


@support.command("list")
def list_bundles(context: typer.Context) -> None:
    """List support bundles on the appliance.

    Example: zvaai support list
    """
    run = shared(context)
    run.output.rows(run.client.all("/support-bundles"), "created_at", "size", "id")


@support.command("download")
def download(context: typer.Context, bundle: str, file: Path) -> None:
    """Write a support bundle to a new file.

    Example: zvaai support download 0b1c2d3e bundle.tar.gz
    """
    run = shared(context)
    run.client.download(f"/support-bundles/{bundle}", file)


@support.command("delete")
def delete(context: typer.Context, bundle: str) -> None:
    """Delete a support bundle.

    Example: zvaai support delete 0b1c2d3e
    """
    run = shared(context)
    run.client.call("DELETE", f"/support-bundles/{bundle}")
