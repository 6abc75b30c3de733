# SPDX-License-Identifier: Apache-2.0
"""The appliance as a whole: status, readiness, logging in; jobs, alerts, audit, users, tokens."""

from __future__ import annotations

import hashlib
import socket
import ssl
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from appliance.cli.client import FAILED, NOT_ALLOWED, Client, CommandError, keep_settings
from appliance.cli.output import size
from appliance.cli.shared import ask_secret, noun, shared

job = noun("Jobs.")
alert = noun("Alerts.")
audit = noun("Who did or tried what.")
user = noun("Users.")
token = noun("API tokens of your own.")


def _server_certificate(url: str, fingerprint: str | None) -> str:
    """The server's certificate, once its fingerprint is known to be the right one."""
    parts = urlsplit(url)
    try:
        pem = ssl.get_server_certificate((parts.hostname or "localhost", parts.port or 443), timeout=10)
    except OSError as error:
        raise CommandError(f"{url}: {error}", FAILED) from error
    seen = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    if fingerprint is not None:
        if fingerprint.replace(":", "").upper() != seen:
            raise CommandError(f"the server's certificate has another fingerprint: {seen}", NOT_ALLOWED)
    elif sys.stdin.isatty():
        typer.confirm(f"The server's certificate has the SHA-256 fingerprint {seen}. Is this the one in its log?", abort=True)
    else:
        raise CommandError("--fingerprint is needed where nobody can be asked", NOT_ALLOWED)
    return pem


def log_in(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="https://HOST:8443")],
    user: Annotated[str, typer.Option("--user", "-u")] = "admin",
    days: Annotated[int, typer.Option(help="How long the token is good.")] = 30,
    scope: Annotated[str, typer.Option(help="viewer, operator or admin: the most it may.")] = "admin",
    setup_code: Annotated[str | None, typer.Option(help="Make the first admin, with the code the server printed.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Of the server's certificate, as its log has it.")] = None,
) -> None:
    """Makes an API token and keeps it for the next commands. The password is asked for, or read from standard input."""
    pem = _server_certificate(url, fingerprint)
    client = Client(url, None, None, trusted=pem)
    password = ask_secret("Password", twice=setup_code is not None)
    if setup_code is not None:
        made_admin = client.call("POST", "/setup", {"code": setup_code, "name": user, "password": password})
        print(f"recovery key: {made_admin['recovery_key']}")
        print("Store it away from this server. It opens the configuration on the pools if the system disk is lost.")
    begun = client.call("POST", "/session", {"name": user, "password": password})
    headers = {"X-CSRF-Token": begun["csrf_token"]}
    made = client.call(
        "POST", "/tokens", {"name": f"zvaai on {socket.gethostname()[:40]}", "scope": scope, "days": days, "password": password},
        _headers=headers,
    )  # fmt: skip
    client.call("DELETE", "/session", _headers=headers)
    keep_settings({"url": url, "certificate": pem, "token": made["secret"]})
    print(f"logged in to {url} as {user} until {made['expires_at']}")


def status(context: typer.Context) -> None:
    """The one screen to look at first. Exit code 1 when something needs somebody."""
    run = shared(context)
    told = run.client.call("GET", "/status")
    alerts = run.client.all("/alerts", most=20)
    if run.output.as_json:
        run.output.raw({**told, "alerts": alerts})
    else:
        say = run.output.console.print
        target = told["target"]
        ok, bad = "[green]ok[/]", "[bold red]PROBLEM[/]"
        say(f"zvaai {told['version']} at {run.client.url}")
        say(f"  worker    {ok if told['worker'] else bad}  {told['worker_problem'] or ''}")
        if target is not None:
            what = f"{target['luns_serving']} LUNs served, {target['luns_failed']} failed, {target['sessions']} sessions"
            say(f"  target    {ok if target['running'] and not target['luns_failed'] else bad}  {target['problem'] or what}")
            say(f"  serving   {bad if told['reconcile_problem'] else ok}  {told['reconcile_problem'] or 'as it should be'}")
        if told["storage_problem"]:
            say(f"  storage   {bad}  {told['storage_problem']}")
        for pool in told["pools"]:
            used = 100 - 100 * int(pool["free"]) // max(1, int(pool["size"]))
            state = ok if pool["health"] == "ONLINE" and used < pool["warning_percent"] else bad
            say(
                f"  pool      {state}  {pool['name']}: {pool['health']}, {used} % of {size(pool['size'])} used  {pool['problem']}"
            )
        say(f"  jobs      {told['active_jobs']} under way")
        for one in alerts:
            mark = "" if one["acknowledged_at"] is None else f"  (seen by {one['acknowledged_by']})"
            say(f"  [bold]{one['severity'].upper()}[/]  {one['text']}{mark}")
    troubled = (
        not told["worker"]
        or told["storage_problem"]
        or told["reconcile_problem"]
        or (told["target"] or {}).get("luns_failed")
        or any(one["acknowledged_at"] is None and one["severity"] != "info" for one in alerts)
    )
    if troubled or any(pool["health"] != "ONLINE" for pool in told["pools"]):
        raise typer.Exit(FAILED)


def _names(client: Client) -> dict[str, str]:
    """Names of datastores, hosts and host groups, by identifier."""
    return {one["id"]: one["name"] for path in ("/datastores", "/hosts", "/host-groups") for one in client.all(path)}


def readiness(context: typer.Context) -> None:
    """What keeps offloads from working, and what to type on each ESXi host. Exit code 1 when a check failed."""
    run = shared(context)
    told = run.client.call("GET", "/readiness")
    if run.output.as_json:
        run.output.raw(told)
    else:
        names = _names(run.client)
        order = ("failed", "warning", "unknown", "ok")
        for check in sorted(told["checks"], key=lambda one: order.index(one["result"])):
            about = f" ({names.get(check['subject'], check['subject'])})" if check["subject"] else ""
            print(f"{check['result'].upper():<8} {check['title']}{about}: {check['evidence']}")
            if check["remedy"] and check["result"] != "ok":
                print(f"         {check['remedy']}")
        print("\nOn each ESXi host, once:\n" + "\n".join(f"  {line}" for line in told["esxcli"]))
        for one in told["hosts"]:
            if one["esxcli"]:
                print(f"\nOn {names.get(one['host'], one['host'])}:\n" + "\n".join(f"  {line}" for line in one["esxcli"]))
    if any(check["result"] == "failed" for check in told["checks"]):
        raise typer.Exit(FAILED)


def reconcile(context: typer.Context) -> None:
    """Makes the data planes serve what they should, and tells what was otherwise."""
    run = shared(context)
    told = run.client.call("POST", "/reconcile")
    if run.output.as_json:
        run.output.raw(told)
    for text in () if run.output.as_json else told["differences"]:
        print(text)
    for failure in told["failures"]:
        print(f"refused: {failure['text']}", file=sys.stderr)
    if told["failures"]:
        raise typer.Exit(FAILED)


def offloads(context: typer.Context) -> None:
    """What hosts did not move themselves, by LUN and by export."""
    run = shared(context)
    told = run.client.call("GET", "/offloads")
    if run.output.as_json:
        return run.output.raw(told)
    stores = run.client.all("/datastores")
    names = {key: one["name"] for one in stores for key in (one["id"], one["uuid"])}
    iscsi = ("cloned_bytes", "copied_bytes", "zeroed_bytes", "unmapped_bytes")
    luns = [{"lun": row["number"], "datastore": names.get(row["uuid"], row["uuid"]), **row["offload"]} for row in told["luns"]]
    run.output.rows(luns, "lun", "datastore", *iscsi)
    if told["nfs_problem"]:
        print(told["nfs_problem"], file=sys.stderr)
    nfs = ("cloned_bytes", "copied_bytes", "hole_bytes", "reserved_bytes")
    exports = [{**row, "datastore": names.get(row["datastore"], row["datastore"]), **row["offload"]} for row in told["exports"]]
    return run.output.rows(exports, "export", "datastore", *nfs) if exports else None


def iscsi(
    context: typer.Context,
    chap: Annotated[bool | None, typer.Option("--chap/--no-chap", help="Whether hosts have to prove themselves.")] = None,
) -> None:
    """Settings of iSCSI for the whole appliance."""
    run = shared(context)
    if chap is not None:
        run.client.call("PUT", "/settings/iscsi", {"chap_required": chap})
    run.output.one(run.client.call("GET", "/settings/iscsi"))


@job.command("list")
def list_jobs(
    context: typer.Context, state: Annotated[str | None, typer.Option()] = None, limit: Annotated[int, typer.Option()] = 30
) -> None:
    """The newest first."""
    run = shared(context)
    run.output.rows(
        run.client.all("/jobs", most=limit, state=state), "created_at", "kind", "state", "percent", "step", "actor", "id"
    )


@job.command("show")
def show_job(context: typer.Context, job: str) -> None:
    """One job."""
    run = shared(context)
    found = run.client.call("GET", f"/jobs/{job}")
    run.output.one(found if run.output.as_json else {**found, "problem": (found["problem"] or {}).get("text")})


@job.command("wait")
def wait_job(context: typer.Context, job: str) -> None:
    """Until it has ended; exit code 1 when it failed."""
    run = shared(context)
    run.job(run.client.call("GET", f"/jobs/{job}"), True)


@job.command("cancel")
def cancel_job(context: typer.Context, job: str) -> None:
    """One that waits."""
    run = shared(context)
    run.output.one(run.client.call("POST", f"/jobs/{job}/cancel"))


@alert.command("list")
def list_alerts(
    context: typer.Context, all_of_them: Annotated[bool, typer.Option("--all", help="Cleared ones too.")] = False
) -> None:
    """The open ones, the newest first."""
    run = shared(context)
    items = run.client.all("/alerts", most=500, open="false" if all_of_them else "true")
    run.output.rows(items, "id", "severity", "raised_at", "cleared_at", "text", "remedy", "acknowledged_by")


@alert.command("acknowledge")
def acknowledge(context: typer.Context, alert: int) -> None:
    """You look after it."""
    run = shared(context)
    run.output.one(run.client.call("POST", f"/alerts/{alert}/acknowledge"))


@audit.command("list")
def list_audit(context: typer.Context, limit: Annotated[int, typer.Option()] = 50) -> None:
    """The newest first."""
    run = shared(context)
    run.output.rows(run.client.all("/audit", most=limit), "at", "actor", "token", "address", "action", "subject", "status")


@user.command("list")
def list_users(context: typer.Context) -> None:
    """All users."""
    run = shared(context)
    run.output.rows(run.client.all("/users"), "name", "role", "disabled", "created_at", "id")


@user.command("create")
def create_user(context: typer.Context, name: str, role: Annotated[str, typer.Option(help="viewer, operator or admin")]) -> None:
    """A new user; the password is asked for, or read from standard input."""
    run = shared(context)
    run.output.one(
        run.client.call("POST", "/users", {"name": name, "role": role, "password": ask_secret("Password", twice=True)})
    )


@user.command("password")
def set_password(
    context: typer.Context, name: str, end_tokens: Annotated[bool, typer.Option(help="API tokens end too.")] = False
) -> None:
    """A new password, asked for or read from standard input; the user's sessions end."""
    run = shared(context)
    path = f"/users/{run.client.named('/users', name)}"
    run.client.call("PATCH", path, {"password": ask_secret("New password", twice=True), "end_tokens": end_tokens})


@user.command("delete")
def delete_user(context: typer.Context, name: str) -> None:
    """With sessions and tokens."""
    run = shared(context)
    run.client.call("DELETE", f"/users/{run.client.named('/users', name)}")


@token.command("list")
def list_tokens(context: typer.Context) -> None:
    """Your own."""
    run = shared(context)
    run.output.rows(run.client.all("/tokens"), "name", "scope", "expires_at", "id")


@token.command("create")
def create_token(
    context: typer.Context, name: str, scope: Annotated[str, typer.Option()], days: Annotated[int, typer.Option()] = 90
) -> None:
    """Its secret is told this once. Your password is asked for, or read from standard input."""
    run = shared(context)
    asked = {"name": name, "scope": scope, "days": days, "password": ask_secret("Password")}
    run.output.one(run.client.call("POST", "/tokens", asked))


@token.command("delete")
def delete_token(context: typer.Context, token: str) -> None:
    """By name or identifier."""
    run = shared(context)
    run.client.call("DELETE", f"/tokens/{run.client.named('/tokens', token)}")
