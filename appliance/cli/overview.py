# SPDX-License-Identifier: Apache-2.0
"""The appliance as a whole: login, status, readiness, offloads, reconcile."""

import contextlib
import hashlib
import re
import socket
import ssl
import sys
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from appliance.cli.client import FAILED, NOT_ALLOWED, UNAVAILABLE, USAGE, Client, CommandError, keep_settings
from appliance.cli.output import size
from appliance.cli.shared import Run, ask_secret, names_of

FINGERPRINT = "journalctl -u zvaai-frontend | grep -i fingerprint"


def _server(url: str, fingerprint: str | None) -> tuple[str, str]:
    """Address and certificate of the server, after its fingerprint was confirmed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 8443
    except ValueError as error:
        raise CommandError(f"{url}: {error}. Use https://HOST:8443", USAGE) from error
    if parts.scheme != "https" or not host:
        raise CommandError(f"{url} is not an address of an appliance. Use https://HOST:8443", USAGE)
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        pem = ssl.get_server_certificate((host, port), timeout=10)
    except OSError as error:
        remedy = "Check host and port. On the server: systemctl status zvaai-frontend"
        raise CommandError(f"No appliance answers at {address}: {error}. {remedy}", UNAVAILABLE) from error
    seen = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).digest().hex(":").upper()
    if fingerprint is not None:
        if fingerprint.replace(":", "").upper() != seen.replace(":", ""):
            raise CommandError(f"the server's certificate has another fingerprint: {seen}", NOT_ALLOWED)
    elif sys.stdin.isatty():
        typer.confirm(
            f"The server's certificate has the SHA-256 fingerprint {seen}. To compare, run on the server: {FINGERPRINT}\n"
            "Is it the same?",
            abort=True,
        )
    else:
        raise CommandError(f"give --fingerprint: there is no terminal to confirm it. On the server: {FINGERPRINT}", NOT_ALLOWED)
    return address, pem


def _begin_session(client: Client, user: str, password: str) -> dict[str, Any]:
    """With the code of two-factor login, if the user has that."""
    body = {"name": user, "password": password}
    try:
        return dict(client.call("POST", "/session", body))
    except CommandError as error:
        if "code" not in error.fields:
            raise
    return dict(client.call("POST", "/session", {**body, "code": ask_secret("Code of the authenticator app")}))


def log_in(
    url: Annotated[str, typer.Argument(help="https://HOST:8443")],
    user: Annotated[str, typer.Option("--user", "-u", help="Name of the user.")] = "admin",
    days: Annotated[int, typer.Option(help="Lifetime of the token.")] = 30,
    scope: Annotated[str | None, typer.Option(help="viewer, operator or admin; the default is the role of the user.")] = None,
    setup_code: Annotated[
        bool, typer.Option("--setup-code", help="Create the first admin, with the code of the server.")
    ] = False,
    fingerprint: Annotated[str | None, typer.Option(help="SHA-256 of the server's certificate, from the server's log.")] = None,
) -> None:
    """Log in: create an API token and store it for the next commands. Password and code come from the terminal or stdin.

    The login before, at this address, ends: commands that still run with it, and copies of its file, are refused.
    Example: zvaai login https://zvaai.example.com:8443 --user olga --days 7
    """
    url, pem = _server(url, fingerprint)
    client = Client(url, None, None, trusted=pem)
    code = ask_secret("One-time code") if setup_code else None
    password = ask_secret("Password", twice=setup_code)
    if setup_code:
        made_admin = client.call("POST", "/setup", {"code": code, "name": user, "password": password})
        print(f"recovery key: {made_admin['recovery_key']}")
        print("Store it away from this server. It opens the configuration on the pools if the system disk is lost.")
    begun = _begin_session(client, user, password)
    headers = {"X-CSRF-Token": begun["csrf_token"]}
    made = client.call(
        "POST",
        "/tokens",
        {"name": f"zvaai on {socket.gethostname()[:40]}", "scope": scope or begun["role"], "days": days, "password": password},
        _headers=headers,
    )
    keep_settings({"url": url, "certificate": pem, "token": made["secret"]})
    if replaced := re.match("zvaai_([0-9a-f]{32})_", client.token or ""):  # of the earlier login at this address
        with contextlib.suppress(CommandError):
            client.call("DELETE", f"/tokens/{replaced[1]}", _headers=headers)
    client.call("DELETE", "/session", _headers=headers)
    print(f"logged in to {url} as {user} ({made['scope']}) until {made['expires_at']}")


def status(run: Run) -> None:
    """Show the state of target, pools and alerts. The exit code is 1 if something needs attention.

    Example: zvaai status
    """
    status = run.client.call("GET", "/status")
    alerts = sorted(run.client.all("/alerts"), key=lambda alert: ("critical", "warning", "info").index(alert["severity"]))
    if run.output.as_json:
        run.output.raw({**status, "alerts": alerts})
    else:
        scans = {}
        with contextlib.suppress(CommandError):  # the rest is printed also if storage hangs
            scans = {pool["name"]: pool["scan"] for pool in run.client.all("/pools")}
        target = status["target"]
        ok, bad = "ok", "PROBLEM"
        print(f"zvaai {status['version']} at {run.client.url}")
        what = f"{target['luns_serving']} LUNs served, {target['luns_failed']} failed, {target['sessions']} sessions"
        print(f"  target    {ok if target['running'] and not target['luns_failed'] else bad}  {target['problem'] or what}")
        print(f"  serving   {bad if status['reconcile_problem'] else ok}  {status['reconcile_problem'] or 'as configured'}")
        if status["storage_problem"]:
            print(f"  storage   {bad}  {status['storage_problem']}")
        for pool in status["pools"]:
            used = f"{pool['used_percent']} % of {size(pool['usable'] or pool['size'])} used or reserved"
            state = ok if pool["health"] == "ONLINE" and pool["used_percent"] < pool["warning_percent"] else bad
            print(f"  pool      {state}  {pool['name']}: {pool['health']}, {used}  {pool['problem']}")
            if (scan := scans.get(pool["name"])) and scan["state"] == "scanning":
                print(f"  scan      running  {pool['name']}: {scan['function']}, {int(100 * scan['progress'])} %")
        print(f"  jobs      {status['active_jobs']} running")
        for alert in alerts:
            mark = "" if alert["acknowledged_at"] is None else f"  (acknowledged by {alert['acknowledged_by']})"
            print(f"  {alert['severity'].upper()}  {alert['text']}{mark}")
    troubled = (
        status["storage_problem"]
        or status["reconcile_problem"]
        or not status["target"]["running"]
        or status["target"]["luns_failed"]
        or any(alert["acknowledged_at"] is None and alert["severity"] != "info" for alert in alerts)
    )
    if troubled or any(pool["health"] != "ONLINE" for pool in status["pools"]):
        raise typer.Exit(FAILED)


def readiness(run: Run) -> None:
    """Check what offloads need, and print commands for ESXi hosts. The exit code is 1 if a check failed.

    Example: zvaai readiness
    """
    readiness = run.client.call("GET", "/readiness")
    if run.output.as_json:
        run.output.raw(readiness)
    else:
        names = names_of(run.client)
        order = ("failed", "warning", "unknown", "ok")
        for check in sorted(readiness["checks"], key=lambda check: order.index(check["result"])):
            about = f" ({names.get(check['subject'], check['subject'])})" if check["subject"] else ""
            print(f"{check['result'].upper():<8} {check['title']}{about}: {check['evidence']}")
            if check["remedy"]:
                print(f"         {check['remedy']}")
        print("\nOn each ESXi host, once:\n" + "\n".join(f"  {line}" for line in readiness["esxcli"]))
        for host in readiness["hosts"]:
            if host["esxcli"]:
                print(f"\nOn {names.get(host['host'], host['host'])}:\n" + "\n".join(f"  {line}" for line in host["esxcli"]))
    if any(check["result"] == "failed" for check in readiness["checks"]):
        raise typer.Exit(FAILED)


def reconcile(run: Run) -> None:
    """Make target and NFS server serve what is configured, and print what differed.

    Example: zvaai reconcile
    """
    report = run.client.call("POST", "/reconcile")
    if run.output.as_json:
        run.output.raw(report)
    for text in () if run.output.as_json else report["differences"]:
        print(text)
    for failure in report["failures"]:
        print(f"refused: {failure['text']}", file=sys.stderr)
    if report["failures"]:
        raise typer.Exit(FAILED)


def offloads(run: Run) -> None:
    """Show the bytes that were cloned, copied, zeroed and reclaimed for hosts, by LUN and export.

    Example: zvaai offloads
    """
    offloads = run.client.call("GET", "/offloads")
    if run.output.as_json:
        return run.output.raw(offloads)
    stores = run.client.all("/datastores")
    names = {key: store["name"] for store in stores for key in (store["id"], store["uuid"])}
    iscsi = ("cloned_bytes", "copied_bytes", "zeroed_bytes", "unmapped_bytes")
    luns = [
        {"lun": row["number"], "datastore": names.get(row["uuid"], row["uuid"]), **row["offload"]} for row in offloads["luns"]
    ]
    run.output.rows(luns, "lun", "datastore", *iscsi)
    if offloads["nfs_problem"]:
        print(offloads["nfs_problem"], file=sys.stderr)
    nfs = ("cloned_bytes", "copied_bytes", "hole_bytes", "reserved_bytes")
    exports = [
        {**row, "datastore": names.get(row["datastore"], row["datastore"]), **row["offload"]} for row in offloads["exports"]
    ]
    return run.output.rows(exports, "export", "datastore", *nfs) if exports else None
