# SPDX-License-Identifier: Apache-2.0
"""`zvaai receiver`: webhooks and e-mail that get alerts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.client import FAILED
from appliance.cli.shared import Run, ask_secret, noun

receiver = noun("receiver", "Send alerts to webhooks and by e-mail.")
Severity = Annotated[str | None, typer.Option(help="info, warning or critical: alerts of this severity and above.")]
Certificate = Annotated[Path | None, typer.Option(help="File (PEM) with the authority that signs the receiver's certificate.")]
Sender = Annotated[str | None, typer.Option("--from", help="E-mail: address of the sender.")]
To = Annotated[list[str] | None, typer.Option("--to", help="E-mail: address of a recipient; repeat for several.")]
User = Annotated[
    str | None, typer.Option(help="E-mail: name for the mail server. The password is read from the terminal or stdin.")
]


@receiver.command("list")
def list_receivers(run: Run) -> None:
    """List receivers and how their last delivery ended."""
    receivers = run.client.all("/receivers")
    for row in receivers:
        last = row["last_delivery"] or {"problem": None, "state": None}
        row["last"] = last["problem"] or last["state"]
    run.output.rows(receivers, "name", "kind", "severity", "enabled", "waiting", "last", "url", "recipients")


@receiver.command("create", "mail smtp://mail.example.com --from zvaai@example.com --to ops@example.com --user zvaai")
def create_receiver(
    run: Run,
    name: str,
    url: Annotated[str, typer.Argument(help="https://HOST/PATH, smtps://HOST or smtp://HOST")],
    severity: Severity = "warning",
    certificate: Certificate = None,
    sender: Sender = None,
    to: To = None,
    user: User = None,
) -> None:
    """Add a receiver of alerts. The secret that signs for a webhook is shown only now."""
    body = {
        "name": name, "url": url, "severity": severity, "certificate": certificate.read_text() if certificate else None,
        "sender": sender or "", "recipients": to or [], "user": user,
        "password": ask_secret("Password for the mail server") if user else None,
    }  # fmt: skip
    run.output.fields(run.client.call("POST", "/receivers", body))


@receiver.command("change", "mail --to ops@example.com --to storage@example.com --severity critical")
def change_receiver(
    run: Run,
    name: str,
    new_name: Annotated[str | None, typer.Option(help="Rename it.")] = None,
    url: Annotated[str | None, typer.Option(help="Another address of the same kind.")] = None,
    severity: Severity = None,
    certificate: Certificate = None,
    sender: Sender = None,
    to: To = None,
    user: User = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Send alerts to it, or not.")] = None,
) -> None:
    """Change a receiver. Options that are not given do not change."""
    given: dict[str, Any] = {
        "name": new_name, "url": url, "severity": severity, "certificate": certificate.read_text() if certificate else None,
        "sender": sender, "recipients": to, "user": user, "enabled": enabled,
        "password": ask_secret("Password for the mail server") if user else None,
    }  # fmt: skip
    body = {key: value for key, value in given.items() if value is not None}
    run.output.fields(run.client.change(run.path("/receivers", name), body))


@receiver.command("secret", "pager")
def renew_secret(run: Run, name: str) -> None:
    """Give a webhook another secret. It is shown only now; the former one is no longer used."""
    run.output.fields(run.client.call("POST", f"{run.path('/receivers', name)}/secret"))


@receiver.command("test", "mail")
def test_receiver(run: Run, name: str) -> None:
    """Send a test now. The exit code is 1 if it was not delivered."""
    delivery = run.client.call("POST", f"{run.path('/receivers', name)}/test")
    run.output.fields(delivery)
    if delivery["state"] != "delivered":
        raise typer.Exit(FAILED)


@receiver.command("deliveries", "mail --limit 5")
def list_deliveries(run: Run, name: str, limit: Annotated[int, typer.Option(help="Maximum number of rows.")] = 30) -> None:
    """List deliveries to a receiver, newest first."""
    deliveries = run.client.all(f"{run.path('/receivers', name)}/deliveries", most=limit)
    run.output.rows(deliveries, "created_at", "kind", "state", "attempts", "status", "problem", "event")


receiver.deletion("/receivers", "pager", "Delete the receiver {name}?", "Delete a receiver and its waiting deliveries.")
