# SPDX-License-Identifier: Apache-2.0
"""Support bundles."""

from pathlib import Path

from appliance.cli.shared import Run, check_new, noun

support = noun("support", "Manage support bundles: logs and settings without secrets.")


@support.command("create", "bundle.tar.gz")
def create(run: Run, file: Path) -> None:
    """Create a support bundle and write it to a new file."""
    check_new(file)
    job = run.client.wait(run.client.call("POST", "/support-bundles")["id"], lambda _: None)
    run.client.download(f"/support-bundles/{job['result']['bundle']}", file)
    run.output.fields({"file": str(file), "bundle": job["result"]["bundle"], "size": file.stat().st_size})


support.table("list", "/support-bundles", "created_at size id", "List support bundles on the appliance.")


@support.command("download", "0b1c2d3e bundle.tar.gz")
def download(run: Run, bundle: str, file: Path) -> None:
    """Write a support bundle to a new file."""
    check_new(file)
    run.client.download(f"/support-bundles/{bundle}", file)


@support.command("delete", "0b1c2d3e")
def delete(run: Run, bundle: str) -> None:
    """Delete a support bundle."""
    run.client.call("DELETE", f"/support-bundles/{bundle}")
