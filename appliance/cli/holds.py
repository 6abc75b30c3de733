# SPDX-License-Identifier: Apache-2.0
"""Holds on snapshots."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from appliance.cli.shared import Shared, Wait, shared
from appliance.cli.storage import Store, snapshot

Tag = Annotated[str, typer.Argument(help="Says who needs it, or what for.")]


def _path(run: Shared, store: str, name: str) -> str:
    return f"/datastores/{run.client.named('/datastores', store)}/snapshots/{quote(name, safe='')}/holds"


@snapshot.command("holds")
def list_holds(context: typer.Context, store: Store, name: str) -> None:
    """List the holds of a snapshot. `of`: whose it is; only a user's is released by command.

    Example: zvaai snapshot holds vmfs1 before-update
    """
    run = shared(context)
    run.output.rows(run.client.all(_path(run, store, name)), "tag", "created_at", "of")


@snapshot.command("hold")
def hold(context: typer.Context, store: Store, name: str, tag: Tag, wait: Wait = False) -> None:
    """Hold a snapshot: no user, schedule or rollback can destroy it.

    Example: zvaai snapshot hold vmfs1 before-update audit-2026
    """
    run = shared(context)
    run.job(run.client.call("POST", _path(run, store, name), {"tag": tag}), wait)


@snapshot.command("release")
def release(context: typer.Context, store: Store, name: str, tag: Tag, wait: Wait = False) -> None:
    """Release a hold. Holds of the appliance and of zfs send end by themselves.

    Example: zvaai snapshot release vmfs1 before-update audit-2026
    """
    run = shared(context)
    run.job(run.client.call("DELETE", f"{_path(run, store, name)}/{quote(tag, safe='')}"), wait)
