# SPDX-License-Identifier: Apache-2.0
"""Schedules of snapshots and scrubs."""

import re
from typing import Annotated, Any

import typer

from appliance.cli.client import INVALID, CommandError
from appliance.cli.shared import Run, Wait, Yes, confirm, named, names_of, noun

schedule = noun("schedule", "Manage schedules of snapshots and scrubs.")

Every = Annotated[str, typer.Option(help="Interval: 15m, 1h, 1d, 1w, 28d. It divides a day, or is whole days.")]
At = Annotated[str | None, typer.Option(help="Time of day, HH:MM. Default: 00:00.")]
Zone = Annotated[str | None, typer.Option("--time-zone", help="Time zone of --at, such as Europe/Berlin. Default: UTC.")]
Keep = Annotated[int | None, typer.Option(help="Retain the newest snapshots of each datastore.")]
Hourly = Annotated[int | None, typer.Option(help="Retain the newest snapshot of each of the last N hours that have one.")]
Daily = Annotated[int | None, typer.Option(help="Retain the newest snapshot of each of the last N days that have one.")]
Weekly = Annotated[int | None, typer.Option(help="Retain the newest snapshot of each of the last N weeks that have one.")]
Monthly = Annotated[int | None, typer.Option(help="Retain the newest snapshot of each of the last N months that have one.")]
Protect = Annotated[str | None, typer.Option(help="A new snapshot cannot be destroyed before this age: 7d. 0d: no protection.")]
TIERS = {"hourly": 24, "daily": 14, "weekly": 8, "monthly": 12}


def minutes(text: str) -> int:
    """Minutes of an interval. Raises CommandError."""
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip())
    if not match:
        raise CommandError(f"{text!r} is not an interval: use a number with m, h, d or w, such as 15m, 1h or 1d", INVALID)
    return int(match[1]) * {"m": 1, "h": 60, "d": 1440, "w": 10080}[match[2]]


def interval(every: int) -> str:
    """Text form of an interval."""
    for unit, size in (("w", 10080), ("d", 1440), ("h", 60)):
        if every % size == 0:
            return f"{every // size}{unit}"
    return f"{every}m"


def _days(text: str) -> int:
    days, rest = divmod(minutes(text), 1440)
    if rest:
        raise CommandError(f"--protect {text}: whole days, such as 7d", INVALID)
    return days


def _given(**values: Any) -> dict[str, Any]:
    """Options of the command line that were set."""
    every, protect = values.pop("every", None), values.pop("protect", None)
    values["every_minutes"] = None if every is None else minutes(every)
    values["protect_days"] = None if protect is None else _days(protect)
    return {name: value for name, value in values.items() if value is not None}


@schedule.command("list")
def list_schedules(run: Run) -> None:
    """List all schedules. `last_at`: when the last run ended that succeeded. `next_at`: when the next run is due."""
    schedules = run.client.all("/schedules")
    if not run.output.as_json:
        schedules = named(schedules, names_of(run.client, "/datastores"), "datastores")
        for row in schedules:
            row["every"] = interval(row["every_minutes"])
            row["retains"] = " ".join([str(row["keep"]), *(f"{row[tier]}{tier[0]}" for tier in TIERS if row[tier])])
            row["of"] = row["pool"] or ", ".join(row["datastores"])
    run.output.rows(
        schedules, "name", "kind", "every", "at", "time_zone", "retains", "protect_days", "enabled", "last_at", "next_at", "of"
    )


@schedule.command("show", "hourly")
def show_schedule(run: Run, name: str) -> None:
    """Show a schedule, and the room that its next snapshot of thick datastores needs in the pool."""
    path = run.path("/schedules", name)
    response, room = run.client.call("GET", path), run.client.call("GET", f"{path}/room")
    if run.output.as_json:
        return run.output.raw({**response, "room": room})
    run.output.fields(named([response], names_of(run.client, "/datastores"), "datastores")[0])
    if room["needed"] != "0":
        run.output.fields({name: room[name] for name in ("needed", "available")})
        run.output.rows(room["datastores"], "name", "needed")
    return None


@schedule.command("create", "hourly vmfs1 --every 1h --tiers --time-zone Europe/Berlin --protect 7d")
def create_schedule(
    run: Run,
    name: str,
    stores: Annotated[list[str], typer.Argument(help="Datastores of one pool: their snapshots are one atomic step.")],
    every: Every,
    at: At = None,
    time_zone: Zone = None,
    keep: Keep = None,
    tiers: Annotated[bool, typer.Option("--tiers", help="Retain 24 hourly, 14 daily, 8 weekly, 12 monthly snapshots.")] = False,
    hourly: Hourly = None,
    daily: Daily = None,
    weekly: Weekly = None,
    monthly: Monthly = None,
    protect: Protect = None,
) -> None:
    """Create a schedule of snapshots. The first snapshot is taken at once."""
    given = _given(
        every=every, at=at, time_zone=time_zone, keep=keep, hourly=hourly, daily=daily, weekly=weekly, monthly=monthly,
        protect=protect,
    )  # fmt: skip
    if keep is None and not tiers and not {*TIERS} & given.keys():
        raise CommandError("say what to retain: --keep NUMBER, or --tiers", INVALID)
    body = {**(TIERS if tiers else {}), **given, "name": name}
    body["datastores"] = [run.client.named("/datastores", store) for store in stores]
    run.output.fields(run.client.call("POST", "/schedules", body))


@schedule.command("scrub", "monthly tank --every 28d --at 02:00 --time-zone Europe/Berlin")
def create_scrub(run: Run, name: str, pool: str, every: Every = "28d", at: At = None, time_zone: Zone = None) -> None:
    """Create a schedule of scrubs of a pool. The first scrub starts in the next slot."""
    body = {**_given(every=every, at=at, time_zone=time_zone), "name": name, "kind": "scrub", "pool": pool}
    run.output.fields(run.client.call("POST", "/schedules", body))


@schedule.command("change", "hourly --daily 30 --add-datastore vmfs2")
def change_schedule(
    run: Run,
    name: str,
    new_name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    every: Annotated[str | None, typer.Option(help="Interval: 15m, 1h, 1d, 1w. It divides a day, or is whole days.")] = None,
    at: At = None,
    time_zone: Zone = None,
    keep: Keep = None,
    hourly: Hourly = None,
    daily: Daily = None,
    weekly: Weekly = None,
    monthly: Monthly = None,
    protect: Protect = None,
    add_store: Annotated[list[str] | None, typer.Option("--add-datastore", help="Repeat for several.")] = None,
    remove_store: Annotated[list[str] | None, typer.Option("--remove-datastore", help="Repeat for several.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Let it run, or pause it.")] = None,
    yes: Yes = False,
) -> None:
    """Change a schedule. Only an admin may change its time, shorten its interval, or lower what it retains or protects.

    A paused schedule takes and deletes no snapshots.
    """
    body = _given(
        every=every, at=at, time_zone=time_zone, keep=keep, hourly=hourly, daily=daily, weekly=weekly, monthly=monthly,
        protect=protect, enabled=enabled, name=new_name,
    )  # fmt: skip

    def changes(now: dict[str, Any]) -> dict[str, Any]:
        if lower := [field for field in ("keep", *TIERS, "protect_days") if field in body and body[field] < now[field]]:
            what = ", ".join(f"{field.replace('_', ' ')} from {now[field]} to {body[field]}" for field in lower)
            confirm(f"Lower {what}? The snapshots that {name} no longer retains are destroyed.", yes)
        if not add_store and not remove_store:
            return body
        stores = now["datastores"]
        # A purged datastore is not in the list: the schedule has only its identifier.
        gone = {store if store in stores else run.client.named("/datastores", store) for store in remove_store or ()}
        new = [run.client.named("/datastores", store) for store in add_store or ()]
        return body | {"datastores": [store for store in dict.fromkeys([*stores, *new]) if store not in gone]}

    run.output.fields(run.client.change(run.path("/schedules", name), changes))


@schedule.command("run", "hourly --wait")
def run_schedule(run: Run, name: str, wait: Wait = False) -> None:
    """Take the snapshots of a schedule now, or start its scrub. Only an admin may: older snapshots of it are deleted."""
    run.job(run.client.call("POST", f"{run.path('/schedules', name)}/run"), wait)


schedule.deletion(
    "/schedules",
    "hourly",
    "Delete the schedule {name}? Its snapshots are retained, and nothing deletes them.",
    "Delete a schedule. Its snapshots are retained.",
)
