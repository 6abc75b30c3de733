# SPDX-License-Identifier: Apache-2.0
"""Jobs, alerts, audit, the server's journal."""

from typing import Annotated

import typer

from appliance.cli.shared import Run, Yes, confirm, moment, noun

job = noun("job", "Show, wait for and cancel jobs.")
alert = noun("alert", "List and acknowledge alerts.")
audit = noun("audit", "Show who changed what.")
Limit = Annotated[int, typer.Option(help="Maximum number of rows.")]
BeginOption = Annotated[str | None, typer.Option(help='Entries from then on: 30m, 2h, 3d, or "2026-11-27 08:00".')]
Until = Annotated[str | None, typer.Option(help="Entries up to then, as with --since.")]


@job.command("list", "--state failed")
def list_jobs(
    run: Run,
    state: Annotated[str | None, typer.Option(help="queued, running, succeeded, failed or cancelled")] = None,
    limit: Limit = 30,
) -> None:
    """List jobs, newest first."""
    jobs = run.client.all("/jobs", most=limit, state=state)
    run.output.rows(jobs, "created_at", "kind", "name", "state", "percent", "step", "actor", "id")


@job.command("show", "0b1c2d3e-4f50-4a6b-8c7d-8e9fa0b1c2d3")
def show_job(run: Run, job: str) -> None:
    """Show a job."""
    response = run.client.call("GET", f"/jobs/{job}")
    run.output.fields(response if run.output.as_json else {**response, "problem": (response["problem"] or {}).get("text")})


@job.command("wait", "0b1c2d3e-4f50-4a6b-8c7d-8e9fa0b1c2d3")
def wait_job(run: Run, job: str) -> None:
    """Wait until a job has ended. The exit code is 1 if it failed."""
    run.job(run.client.call("GET", f"/jobs/{job}"), True)


@job.command("abandon", "5f0c6a0e-8f0e-4f5e-9d3c-2b6d1c7a9e10")
def abandon_job(run: Run, job: str, yes: Yes = False) -> None:
    """Give up a running job whose pool hangs. Its datastores stay out of service."""
    confirm(f"Give up job {job}? Its datastores stay out of service.", yes)
    run.output.fields(run.client.call("POST", f"/jobs/{job}/abandon"))


@job.command("cancel", "0b1c2d3e-4f50-4a6b-8c7d-8e9fa0b1c2d3")
def cancel_job(run: Run, job: str) -> None:
    """Cancel a waiting job. A running file clone or VM restore is stopped, and its partial result is removed.

    Other running jobs continue to their end.
    """
    run.output.fields(run.client.call("POST", f"/jobs/{job}/cancel"))


@alert.command("list", "--all")
def list_alerts(run: Run, all_of_them: Annotated[bool, typer.Option("--all", help="Include cleared alerts.")] = False) -> None:
    """List open alerts, newest first."""
    items = run.client.all("/alerts", open="false" if all_of_them else "true")
    run.output.rows(items, "id", "severity", "raised_at", "cleared_at", "text", "remedy", "acknowledged_by")


@alert.command("acknowledge", "12")
def acknowledge(run: Run, alert: int) -> None:
    """Acknowledge an alert: you take care of it."""
    run.output.fields(run.client.call("POST", f"/alerts/{alert}/acknowledge"))


@audit.command("list", "--action host --limit 20", "--actor olga --refused --since 2d")
def list_audit(
    run: Run,
    limit: Limit = 50,
    actor: Annotated[str | None, typer.Option(help="Only changes by this user.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, or all of a kind: host, host.create.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused or failed.")] = False,
    since: BeginOption = None,
    until: Until = None,
) -> None:
    """List changes and refused attempts, newest first, with the names of that time."""
    times = {"since": moment(since), "until": moment(until)}
    only = "true" if refused else None
    entries = run.client.all("/audit", most=limit, actor=actor, action=action, refused=only, **times)
    run.output.rows(entries, "at", "actor", "token", "address", "action", "name", "status")


def logs(
    run: Run,
    unit: Annotated[str | None, typer.Option(help="Only this unit: zvaai-target, nfs-ganesha, zfs-zed, kernel, ...")] = None,
    priority: Annotated[
        str | None, typer.Option(help="critical, error, warning, info or debug: entries of this priority and above.")
    ] = None,
    since: BeginOption = None,
    until: Until = None,
    text: Annotated[str | None, typer.Option(help="Entries with this text, in upper or lower case.")] = None,
    limit: Limit = 100,
) -> None:
    """Show the server's journal, newest first: zvaai, zvol_clone, NFS server, ZED, nginx, and the kernel's lines of OpenZFS.

    Example: zvaai logs --unit zvaai-target --priority warning --since 2h

    Example: zvaai logs --since "2026-11-27 08:00" --until "2026-11-27 09:00" --text vmfs1
    """
    times = {"since": moment(since), "until": moment(until)}
    run.output.rows(
        run.client.all("/logs", most=limit, unit=unit, priority=priority, text=text, **times), "at", "unit", "priority", "text"
    )
