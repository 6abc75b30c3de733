# SPDX-License-Identifier: Apache-2.0
"""`zvaai directory`: logins at LDAP or Active Directory."""

from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.client import FAILED
from appliance.cli.shared import Run, Yes, ask_secret, confirm, noun

directory = noun("directory", "Log in with users of LDAP or Active Directory.")
_GROUP = "A group with this role, by its DN; repeat for several."


@directory.command("show")
def show(run: Run) -> None:
    """Show the settings of the directory.

    Example: zvaai directory show
    """
    run.output.fields(run.client.call("GET", "/settings/directory"))


@directory.command("set")
def set_directory(
    run: Run,
    servers: Annotated[list[str], typer.Argument(help="ldaps://HOST or ldap://HOST; the first one that answers is used.")],
    base: Annotated[str, typer.Option(help="DN below which users are searched.")],
    search: Annotated[
        str, typer.Option("--filter", help="Finds a user by the login name; (sAMAccountName={login}) for Active Directory.")
    ] = "(uid={login})",
    bind_dn: Annotated[
        str | None, typer.Option(help="Search as this entry. Its password is read from the terminal or stdin.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="File (PEM) with the authority that signs the servers' certificates.")
    ] = None,
    start_tls: Annotated[
        bool, typer.Option("--start-tls/--no-start-tls", help="Encrypt ldap:// by StartTLS; off at loopback addresses only.")
    ] = True,
    admin: Annotated[list[str] | None, typer.Option("--admin", help=_GROUP)] = None,
    operator: Annotated[list[str] | None, typer.Option("--operator", help=_GROUP)] = None,
    viewer: Annotated[list[str] | None, typer.Option("--viewer", help=_GROUP)] = None,
) -> None:
    """Set the directory for logins. Ends the sessions and tokens of its users.

    Example: zvaai directory set ldaps://ldap.example.com --base dc=example,dc=com --admin cn=storage,dc=example,dc=com
    """
    body = {
        "servers": servers, "base": base, "filter": search, "bind_dn": bind_dn, "start_tls": start_tls,
        "certificate": certificate.read_text() if certificate else None, "admin": admin or [], "operator": operator or [],
        "viewer": viewer or [], "password": ask_secret("Password of the bind DN") if bind_dn else None,
    }  # fmt: skip
    run.output.fields(run.client.call("PUT", "/settings/directory", body))


@directory.command("test")
def test(run: Run, name: Annotated[str | None, typer.Argument(help="A login name to look up.")] = None) -> None:
    """Connect to the directory, and show who would log in with which role. The exit code is 1 if that fails.

    Example: zvaai directory test olga
    """
    result = run.client.call("POST", "/settings/directory/test", {"name": name})
    run.output.fields(result)
    if result["problem"]:
        raise typer.Exit(FAILED)


@directory.command("unset")
def unset(run: Run, yes: Yes = False) -> None:
    """End logins at the directory, and delete its users with sessions and tokens.

    Example: zvaai directory unset --yes
    """
    confirm("End logins at the directory?", yes)
    run.client.delete("/settings/directory")
