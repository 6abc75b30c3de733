# SPDX-License-Identifier: Apache-2.0
"""Support bundles."""

from __future__ import annotations

from pathlib import Path

import typer

from appliance.cli.shared import noun, shared

support = noun("Support bundles: all there is to know, without secrets.")


@support.command("create")
def create(context: typer.Context, file: Path) -> None:
    """Makes one and writes it into a file that is not there yet."""
    run = shared(context)
    job = run.client.wait(run.client.call("POST", "/support-bundles")["id"], lambda _: None)
    run.client.download(f"/support-bundles/{job['result']['bundle']}", file)
    run.output.one({"file": str(file), "bundle": job["result"]["bundle"], "size": file.stat().st_size})


@support.command("list")
def list_bundles(context: typer.Context) -> None:
    """Those that the appliance keeps."""
    run = shared(context)
    run.output.rows(run.client.all("/support-bundles"), "created_at", "size", "id")


@support.command("download")
def download(context: typer.Context, bundle: str, file: Path) -> None:
    """By its identifier, into a file that is not there yet."""
    run = shared(context)
    run.client.download(f"/support-bundles/{bundle}", file)


@support.command("delete")
def delete(context: typer.Context, bundle: str) -> None:
    """By its identifier."""
    run = shared(context)
    run.client.call("DELETE", f"/support-bundles/{bundle}")
