# SPDX-License-Identifier: Apache-2.0
"""`zvaai upgrade --check`: the plan of `apt upgrade` for this server, and its obstacles. Changes nothing."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.client import FAILED, NOT_ALLOWED, CommandError

EFFECTS = {
    "zvaai": "The configuration is backed up in /var/backups/zvaai. Console and jobs stop for the upgrade. Hosts are served.",
    "zvaai-target": "The iSCSI target restarts. Hosts wait for seconds and log in again.",
    "zvaai-nfs": "The NFS server restarts. Hosts of NFSv3 wait for seconds, of NFSv4.1 until all of them have reclaimed.",
    "nfs-ganesha": "The NFS server restarts. Without a new zvaai-nfs it serves without VAAI-NAS.",
    "zfsutils-linux": "Reboot after the upgrade: the loaded module of OpenZFS remains the old one until then.",
    "zfs-dkms": "DKMS builds OpenZFS, and zvol_clone for it. Both are used after a reboot.",
    "zvaai-zvol-clone-dkms": "DKMS builds zvol_clone. It is used after a reboot.",
}
SECONDS = 300.0


@dataclass(frozen=True)
class Plan:
    """apt's plan: new versions by package (with the old one, if there is any), and removals."""

    new: dict[str, tuple[str, str]]
    removed: list[str]


def read_plan(simulation: str) -> Plan:
    """Parses the output of `apt-get --simulate`."""
    new, removed = {}, []
    for line in simulation.splitlines():
        if match := re.match(r"Inst (\S+)(?: \[([^\]]+)\])? \((\S+)", line):
            new[match[1]] = (match[2] or "", match[3])
        elif match := re.match(r"Remv (\S+)", line):
            removed.append(match[1])
    return Plan(new, removed)


def problems(plan: Plan, unhealthy: str, loaded: str, installed: str) -> Iterator[str]:
    """Obstacles with their remedies. `loaded` and `installed` are versions of the module zfs; "" is unknown."""
    for name in plan.removed:
        if name in EFFECTS:
            yield f"The upgrade would remove {name}. Wait until the repository has a {name} for the new packages."
    if unhealthy:
        yield f"A pool is not healthy; mend it first: {unhealthy}"
    if loaded and installed and loaded != installed:
        yield f"OpenZFS {loaded} is loaded and {installed} is installed. Reboot first, so that an upgrade does not meet both."


def _run(*words: str) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS, env=environment)
    except OSError as error:
        raise CommandError(f"{words[0]}: {error}", FAILED) from error
    except subprocess.TimeoutExpired:
        raise CommandError(f"{words[0]} does not end within {SECONDS:.0f} s", FAILED) from None
    if done.returncode != 0:
        raise CommandError(f"{' '.join(words)}: {done.stderr.strip()[-500:]}", FAILED)
    return done.stdout


def upgrade(
    check: Annotated[bool, typer.Option("--check", help="Say what an upgrade will do. Changes nothing.")] = False,
) -> None:
    """Show what `apt upgrade` will do. Needs root. The exit code is 1 if something prevents the upgrade.

    Example: zvaai upgrade --check
    """
    if not check:
        raise CommandError("packages are upgraded by apt: apt update && zvaai upgrade --check && apt upgrade", FAILED)
    if os.geteuid() != 0:
        raise CommandError("only root sees pools and packages; run: sudo zvaai upgrade --check", NOT_ALLOWED)
    plan = read_plan(_run("apt-get", "--simulate", "--quiet=2", "dist-upgrade"))
    module = Path("/sys/module/zfs/version")
    loaded = module.read_text().strip() if module.exists() else ""
    try:
        installed = _run("modinfo", "-F", "version", "zfs").strip()
    except CommandError:
        installed = ""
    pools = _run("zpool", "status", "-x").strip()
    unhealthy = "" if pools in ("all pools are healthy", "no pools available") else pools.splitlines()[0].strip()
    if not set(plan.new) & set(EFFECTS):
        print("zvaai, OpenZFS and nfs-ganesha are the newest versions.")
    for name, effect in EFFECTS.items():
        if name in plan.new:
            old, new = plan.new[name]
            print(f"{name}: {old or 'not installed'} -> {new}\n  {effect}")
    obstacles = list(problems(plan, unhealthy, loaded, installed))
    for problem in obstacles:
        print(f"IN THE WAY: {problem}")
    if obstacles:
        raise typer.Exit(FAILED)
