# SPDX-License-Identifier: Apache-2.0
"""`zvaai`, `python3 -m appliance.cli`.

Exit codes: 0 done; 1 a job or check failed; 2 wrong command line; 3 not found; 4 conflict; 5 not allowed; 6 no answer;
7 invalid value.
"""

import sys
from typing import Annotated

import typer

from appliance.cli import (
    certificate,
    configuration,
    datastores,
    files,
    hosts,
    journal,
    keys,
    logins,
    network,
    overview,
    people,
    pools,
    power,
    receivers,
    schedules,
    setup,
    snapshots,
    support,
    upgrade,
)
from appliance.cli import history as _history  # noqa: F401  # a verb of `zvaai datastore`, `host` and `pool`
from appliance.cli.client import USAGE, Client, CommandError
from appliance.cli.output import Output
from appliance.cli.shared import Noun

application = Noun(no_args_is_help=True, help="VMware storage with VAAI on OpenZFS.", pretty_exceptions_enable=False)
for noun in (
    pools.pool, datastores.datastore, snapshots.snapshot, schedules.schedule, files.file, keys.key, hosts.host, hosts.group,
    network.network, network.portal, network.iscsi, journal.job, journal.alert, journal.audit, people.user, people.token,
    logins.directory, logins.oidc, receivers.receiver, certificate.certificate, configuration.configuration, support.support,
    power.power,
):  # fmt: skip
    application.add_typer(noun)
for command in (overview.status, overview.readiness, overview.reconcile, overview.offloads, journal.logs):
    application.command(command.__name__)(command)
application.command("login")(overview.log_in)
application.command("setup")(setup.set_up)
application.command("upgrade")(upgrade.upgrade)
application.command("updates")(upgrade.show_updates)
application.command("recover")(configuration.recover)


@application.callback()
def begin(
    context: typer.Context,
    url: Annotated[str | None, typer.Option(envvar="ZVAAI_URL", help="Address of the appliance: https://HOST:8443.")] = None,
    token: Annotated[str | None, typer.Option(envvar="ZVAAI_TOKEN", help="API token.", show_default=False)] = None,
    certificate: Annotated[
        str | None, typer.Option(envvar="ZVAAI_CA", help="File (PEM) with the authority that signs the server's certificate.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json")] = "table",
) -> None:
    """Operate a zvaai appliance. Log in first: zvaai login https://HOST:8443"""
    if output not in ("table", "json"):
        raise CommandError(f"--output {output}: table or json", USAGE)
    if context.invoked_subcommand not in ("login", "setup", "upgrade"):
        context.obj = Client(url, token, certificate), Output(output == "json")


def main() -> int:
    """Runs the command."""
    try:
        application(prog_name="zvaai")
        return 0
    except CommandError as error:
        print(f"zvaai: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"zvaai: {error}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main())
