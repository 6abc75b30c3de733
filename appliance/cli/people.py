# SPDX-License-Identifier: Apache-2.0
"""Users and API tokens."""

from typing import Annotated, Any

import typer

from appliance.cli.shared import Run, Yes, ask_secret, confirm, noun

user = noun("user", "Manage users.")
token = noun("token", "Manage your own API tokens.")
Role = Annotated[str, typer.Option(help="viewer, operator or admin")]


user.table("list", "/users", "name role source disabled totp created_at", "List users.")


@user.command("create", "olga --role operator")
def create_user(run: Run, name: str, role: Role) -> None:
    """Create a user. The password comes from the terminal or stdin."""
    body = {"name": name, "role": role, "password": ask_secret("Password", twice=True)}
    run.output.fields(run.client.call("POST", "/users", body))


@user.command("change", "olga --role viewer --enable", "olga --reset-totp")
def change_user(
    run: Run,
    name: str,
    role: Annotated[str | None, typer.Option(help="viewer, operator or admin")] = None,
    disabled: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Stop logins and API tokens, or allow them.")
    ] = None,
    reset_totp: Annotated[bool, typer.Option("--reset-totp", help="Turn two-factor login off: the app is lost.")] = False,
) -> None:
    """Change the role of a user, disable the user, or reset two-factor login."""
    given: dict[str, Any] = {"role": role, "disabled": disabled, "reset_totp": reset_totp or None}
    body = {key: value for key, value in given.items() if value is not None}
    run.output.fields(run.client.change(run.path("/users", name), body))


@user.command("password", "olga --end-tokens")
def set_password(run: Run, name: str, end_tokens: Annotated[bool, typer.Option(help="End the API tokens too.")] = False) -> None:
    """Set a password and end the sessions of the user. The password comes from the terminal or stdin."""
    body = {"password": ask_secret("New password", twice=True), "end_tokens": end_tokens}
    run.client.change(run.path("/users", name), body)


@user.command("totp", "--on")
def change_totp(
    run: Run,
    enable: Annotated[bool, typer.Option("--on/--off", help="Turn it on, or off.")],
) -> None:
    """Turn your two-factor login on or off. Your password and the code come from the terminal or stdin."""
    secret: str | None = None
    if enable:
        offered = run.client.call("GET", "/session/totp")
        secret = offered["secret"]
        typer.echo(f"Add this secret to your authenticator app: {secret}\n{offered['uri']}", err=run.output.as_json)
    body = {"password": ask_secret("Password"), "secret": secret, "code": ask_secret("Code of the app") if enable else None}
    changed = run.client.call("PUT", "/session/totp", body)
    if run.output.as_json:
        return run.output.raw(changed)
    if changed["recovery_codes"]:
        print("Store these recovery codes. Each logs in once if the app is lost:")
    return print("\n".join(changed["recovery_codes"]) or "Two-factor login is off.")


user.deletion("/users", "olga", "Delete the user {name} with all sessions and tokens?", "Delete a user with sessions and tokens.")


token.table("list", "/tokens", "name scope expires_at id", "List your API tokens.")


@token.command("create", "prometheus --scope viewer --days 365")
def create_token(
    run: Run,
    name: str,
    scope: Annotated[str, typer.Option(help="viewer, operator or admin: the most that the token may do.")],
    days: Annotated[int, typer.Option(help="Lifetime of the token.")] = 90,
) -> None:
    """Create an API token. Its secret is shown only now. Your password comes from the terminal or stdin.

    Without a password the new token must end no later than the token of this login.
    """
    password = ask_secret("Password (empty if the new token ends no later than your own)", optional=True) or None
    body = {"name": name, "scope": scope, "days": days, "password": password}
    run.output.fields(run.client.call("POST", "/tokens", body))


@token.command("delete", "prometheus --yes")
def delete_token(run: Run, token: str, yes: Yes = False) -> None:
    """Delete an API token by its name or identifier."""
    path = run.path("/tokens", token)
    confirm(f"Delete the token {token}? Programs that use it can no longer log in.", yes)
    run.client.call("DELETE", path)
