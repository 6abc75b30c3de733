# SPDX-License-Identifier: Apache-2.0
"""`zvaai directory` and `zvaai oidc`: logins at LDAP, Active Directory and OpenID Connect."""

from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.client import FAILED
from appliance.cli.shared import Run, Yes, ask_secret, confirm, noun

directory = noun("directory", "Log in with users of LDAP or Active Directory.")
oidc = noun("oidc", "Log in with users of an OpenID Connect provider.")
_VALUE = "A value of the claim with this role; repeat for several."
_GROUP = "A group with this role, by its DN; repeat for several."


@directory.command("show")
def show(run: Run) -> None:
    """Show the settings of the directory."""
    run.output.fields(run.client.call("GET", "/settings/directory"))


@directory.command("set", "ldaps://ldap.example.com --base dc=example,dc=com --admin cn=storage,dc=example,dc=com")
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
    """Set the directory for logins. Ends the sessions and tokens of its users."""
    body = {
        "servers": servers, "base": base, "filter": search, "bind_dn": bind_dn, "start_tls": start_tls,
        "certificate": certificate.read_text() if certificate else None, "admin": admin or [], "operator": operator or [],
        "viewer": viewer or [], "password": ask_secret("Password of the bind DN") if bind_dn else None,
    }  # fmt: skip
    run.output.fields(run.client.call("PUT", "/settings/directory", body))


@directory.command("test", "olga")
def test(run: Run, name: Annotated[str | None, typer.Argument(help="A login name to look up.")] = None) -> None:
    """Connect to the directory, and show who would log in with which role. The exit code is 1 if that fails."""
    result = run.client.call("POST", "/settings/directory/test", {"name": name})
    run.output.fields(result)
    if result["problem"]:
        raise typer.Exit(FAILED)


@directory.command("unset", "--yes")
def unset(run: Run, yes: Yes = False) -> None:
    """End logins at the directory, and delete its users with sessions and tokens."""
    confirm("End logins at the directory?", yes)
    run.client.delete("/settings/directory")


@oidc.command("show")
def show_oidc(run: Run) -> None:
    """Show the settings of the OpenID Connect provider."""
    run.output.fields(run.client.call("GET", "/settings/oidc"))


@oidc.command("set", "Keycloak https://login.example.com/realms/storage --client-id zvaai --admin storage")
def set_oidc(
    run: Run,
    name: Annotated[str, typer.Argument(help="Shown on the button of the login page.")],
    issuer: Annotated[str, typer.Argument(help="https://HOST/PATH")],
    client_id: Annotated[str, typer.Option(help="Client at the provider. Its secret is read from the terminal or stdin.")],
    public: Annotated[bool, typer.Option("--public", help="The client has no secret.")] = False,
    claim: Annotated[str, typer.Option(help="Claim of the ID token with the groups.")] = "groups",
    scope: Annotated[list[str] | None, typer.Option(help="A scope after openid, profile and email; repeat it.")] = None,
    external_url: Annotated[
        str | None, typer.Option(help="https://HOST:PORT of the console, if the certificate lacks that name.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="File (PEM) with the authority that signs the provider's certificate.")
    ] = None,
    admin: Annotated[list[str] | None, typer.Option("--admin", help=_VALUE)] = None,
    operator: Annotated[list[str] | None, typer.Option("--operator", help=_VALUE)] = None,
    viewer: Annotated[list[str] | None, typer.Option("--viewer", help=_VALUE)] = None,
) -> None:
    """Set the OpenID Connect provider for logins. Ends the sessions of its users.

    Another issuer deletes the users of the former one.
    """
    body = {
        "name": name, "issuer": issuer, "client_id": client_id, "claim": claim, "scopes": scope or [],
        "external_url": external_url,
        "certificate": certificate.read_text() if certificate else None, "admin": admin or [], "operator": operator or [],
        "viewer": viewer or [], "secret": None if public else ask_secret("Client secret"),
    }  # fmt: skip
    run.output.fields(run.client.call("PUT", "/settings/oidc", body))


@oidc.command("test")
def test_oidc(run: Run) -> None:
    """Read metadata and keys of the provider. The exit code is 1 if that fails."""
    result = run.client.call("POST", "/settings/oidc/test")
    run.output.fields(result)
    if result["problem"]:
        raise typer.Exit(FAILED)


@oidc.command("unset", "--yes")
def unset_oidc(run: Run, yes: Yes = False) -> None:
    """End logins at the provider, and delete its users with their sessions."""
    confirm("End logins at the OpenID Connect provider?", yes)
    run.client.delete("/settings/oidc")
