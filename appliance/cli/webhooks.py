# SPDX-License-Identifier: Apache-2.0
"""Where alerts are sent to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.client import FAILED
from appliance.cli.shared import noun, shared

webhook = noun("Receivers of alerts.")
Severity = Annotated[str, typer.Option(help="info, warning or critical: those and what is worse.")]


@webhook.command("list")
def list_webhooks(context: typer.Context) -> None:
    """With how their last delivery ended."""
    run = shared(context)
    found = run.client.all("/webhooks")
    for one in found:
        last = one["last_delivery"] or {"problem": None, "state": None}
        one["last"] = last["problem"] or last["state"]
    run.output.rows(found, "name", "severity", "enabled", "waiting", "last", "url")


@webhook.command("create")
def create_webhook(
    context: typer.Context,
    name: str,
    url: str,
    severity: Severity = "warning",
    certificate: Annotated[Path | None, typer.Option(help="File (PEM) with who signs the receiver's certificate.")] = None,
) -> None:
    """Its secret is told this once."""
    run = shared(context)
    asked = {"name": name, "url": url, "severity": severity, "certificate": certificate.read_text() if certificate else None}
    run.output.one(run.client.call("POST", "/webhooks", asked))


@webhook.command("change")
def change_webhook(
    context: typer.Context,
    name: str,
    new_name: Annotated[str | None, typer.Option()] = None,
    url: Annotated[str | None, typer.Option()] = None,
    severity: Annotated[str | None, typer.Option(help="info, warning or critical")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable")] = None,
) -> None:
    """What is given."""
    run = shared(context)
    asked = {"name": new_name, "url": url, "severity": severity, "enabled": enabled}
    run.output.one(run.client.call("PATCH", f"/webhooks/{run.client.named('/webhooks', name)}", asked))


@webhook.command("secret")
def renew_secret(context: typer.Context, name: str) -> None:
    """A new secret, told this once."""
    run = shared(context)
    run.output.one(run.client.call("POST", f"/webhooks/{run.client.named('/webhooks', name)}/secret"))


@webhook.command("test")
def test_webhook(context: typer.Context, name: str) -> None:
    """Sends something now. Exit code 1 when it is not delivered."""
    run = shared(context)
    told = run.client.call("POST", f"/webhooks/{run.client.named('/webhooks', name)}/test")
    run.output.one(told)
    if told["state"] != "delivered":
        raise typer.Exit(FAILED)


@webhook.command("deliveries")
def list_deliveries(context: typer.Context, name: str, limit: Annotated[int, typer.Option()] = 30) -> None:
    """The newest first."""
    run = shared(context)
    found = run.client.all(f"/webhooks/{run.client.named('/webhooks', name)}/deliveries", most=limit)
    run.output.rows(found, "created_at", "kind", "state", "attempts", "status", "problem", "event")


@webhook.command("delete")
def delete_webhook(context: typer.Context, name: str) -> None:
    """With what waits for it."""
    run = shared(context)
    run.client.call("DELETE", f"/webhooks/{run.client.named('/webhooks', name)}")
