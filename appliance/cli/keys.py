# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted pools."""

import sys

import typer

from appliance.cli.shared import Run, ask_secret, noun

key = noun("key", "Export, confirm and enter keys of encrypted pools.")


key.table(
    "list",
    "/encryption-keys",
    "pool key_status stored exported_at confirmed_at dataset",
    "List keys of encrypted pools: loaded, stored here, exported, confirmed.",
)


@key.command("export", "tank")
def export_key(run: Run, pool: str) -> None:
    """Print the key of a pool. Prompts for your password. Store the key away from disks and server, then confirm it.

    If standard input is not a terminal, the password is read from it.
    """
    response = run.client.call("POST", f"/encryption-keys/{pool}/export", {"password": ask_secret("Your password")})
    if run.output.as_json:
        return run.output.raw(response)
    return print(response["secret"])


def _read_key() -> str:
    return typer.prompt("Key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().strip()


@key.command("confirm", "tank")
def confirm_key(run: Run, pool: str) -> None:
    """Confirm that you have the key of a pool. The key comes from the terminal or stdin."""
    run.output.fields(run.client.call("POST", f"/encryption-keys/{pool}/confirm", {"secret": _read_key()}))


@key.command("enter", "tank")
def enter_key(run: Run, pool: str) -> None:
    """Enter the key of a pool from another server, to unlock its datastores. The key comes from the terminal or stdin."""
    run.output.fields(run.client.call("PUT", f"/encryption-keys/{pool}", {"secret": _read_key()}))
