# SPDX-License-Identifier: Apache-2.0
"""History of datastores, hosts and pools: the verb `history` of each."""

import datetime
from typing import Annotated, Any

import typer

from appliance.cli.datastores import datastore
from appliance.cli.hosts import host
from appliance.cli.output import size
from appliance.cli.pools import pool
from appliance.cli.shared import Run, Store, moment, named, names_of

_POINTS = 24
Range = Annotated[str, typer.Option("--range", "-r", help="How far back: hour, day, week, month or year.")]
Until = Annotated[str | None, typer.Option(help='End of the range: 30m, 2h, 3d ago, or "2026-11-27 08:00". Default: now.')]


@datastore.command("history", "vmfs1 --range week")
def datastore_history(run: Run, store: Store, range_: Range = "day", until: Until = None) -> None:
    """Show operations, throughput, latency, offloads and space of a datastore over time."""
    path = f"{run.path('/datastores', store)}/history"
    _show(run, run.client.call("GET", path, **_query(run, range_, until)))


@datastore.command("load")
def load(run: Run) -> None:
    """Show operations and throughput of all datastores over the last 10 s, the most operations first."""
    loads = run.client.all("/load")
    if run.output.as_json:
        return run.output.raw(loads)
    rows = [
        {**entry, "operations": f"{entry['operations']:.0f}/s", "throughput": f"{size(entry['bytes'])}/s"}
        for entry in sorted(loads, key=lambda entry: -float(entry["operations"]))
    ]
    rows = named(rows, names_of(run.client, "/datastores"), "datastore")
    return run.output.rows(rows, "datastore", "operations", "throughput")


@host.command("history", "esx1 --range hour")
def host_history(run: Run, name: str, range_: Range = "day", until: Until = None) -> None:
    """Show operations, throughput, latency and offloads of a host over time."""
    path = f"{run.path('/hosts', name)}/history"
    _show(run, run.client.call("GET", path, **_query(run, range_, until)))


@pool.command("history", "tank --range month")
def pool_history(run: Run, name: str, range_: Range = "day", until: Until = None) -> None:
    """Show operations, throughput, latency, offloads and space of a pool over time, and the day it is full."""
    _show(run, run.client.call("GET", f"/pools/{name}/history", **_query(run, range_, until)))


def _query(run: Run, range_: str, until: str | None) -> dict[str, Any]:
    """Programs get all points, people as many as a screen has lines."""
    return {"range": range_, "end": moment(until), "points": None if run.output.as_json else _POINTS}


def _show(run: Run, response: dict[str, Any]) -> None:
    if run.output.as_json:
        return run.output.raw(response)
    columns = ("time", "read_iops", "write_iops", "read", "write", "p50_ms", "p99_ms", "cloned", "copied")
    run.output.rows(_rows(response), *columns, *(("used",) if "capacity" in response else ()))
    if "full_at" in response:
        print(f"\nfull at this growth: {response['full_at'][:10] if response['full_at'] else 'not foreseen'}")
    return None


def _rows(response: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each time of load, with the capacity at that time."""
    load, capacity = response["load"], response.get("capacity")
    series, begin = load["series"], datetime.datetime.fromisoformat(load["start"])
    used: dict[float, float] = {}
    reach = 0.0
    if capacity is not None:
        start, reach = datetime.datetime.fromisoformat(capacity["start"]).timestamp(), float(capacity["step_seconds"])
        values = enumerate(capacity["series"]["used_bytes"])
        used = {start + reach * place: value for place, value in values if value is not None}
    rows = []
    for place in range(len(series["p99_ms"])):
        at = begin + datetime.timedelta(seconds=load["step_seconds"] * place)
        near = {abs(time - at.timestamp()): value for time, value in used.items() if abs(time - at.timestamp()) <= reach}
        rows.append(
            {
                "time": at.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "read_iops": _number(series["read_operations"][place]),
                "write_iops": _number(series["write_operations"][place]),
                "read": _rate(series["read_bytes"][place]),
                "write": _rate(series["write_bytes"][place]),
                "p50_ms": _number(series["p50_ms"][place]),
                "p99_ms": _number(series["p99_ms"][place]),
                "cloned": _rate(series["cloned_bytes"][place]),
                "copied": _rate(series["copied_bytes"][place]),
                "used": size(round(near[min(near)])) if near else None,
            }
        )
    return rows


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _rate(value: float | None) -> str | None:
    return None if value is None else f"{size(round(value))}/s"
