# SPDX-License-Identifier: Apache-2.0
"""Reboot and shutdown of the server."""

from appliance.cli.shared import Run, Yes, ask_secret, confirm, noun

power = noun("power", "Reboot the server or shut it down, and show who uses it.")


@power.command("show")
def show(run: Run) -> None:
    """Show hosts, console users and jobs that a reboot interrupts."""
    used = run.client.call("GET", "/power")
    if run.output.as_json:
        return run.output.raw(used)
    jobs = [f"{job['kind']} {job['name']}" for job in used["jobs"]]
    return run.output.fields({**used, "jobs": jobs})


def _end(run: Run, action: str, question: str, yes: bool) -> None:
    if not yes and not run.output.as_json:
        show(run)
    confirm(question, yes)
    run.client.call("POST", "/power", {"action": action, "password": ask_secret("Your password")})


@power.command("reboot", "--yes")
def reboot(run: Run, yes: Yes = False) -> None:
    """Reboot the server. Prompts for your password. Shut down the VMs of the hosts first: ESXi waits 140 s for a disk.

    If standard input is not a terminal, the password is read from it.
    """
    _end(run, "reboot", "Reboot the server?", yes)


@power.command("off", "--yes")
def off(run: Run, yes: Yes = False) -> None:
    """Shut the server down. Prompts for your password. Hosts lose their datastores until it is switched on.

    If standard input is not a terminal, the password is read from it.
    """
    _end(run, "off", "Shut the server down?", yes)
