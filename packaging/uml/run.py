# SPDX-License-Identifier: Apache-2.0
"""Command line of the guest: boots it, runs one command in it, and exits with the command's exit code."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from guest import KERNEL, Disk, Forward, GuestError, GuestOptions, GuestProcess, parse_size, report

ASK_SECONDS = 0.2
"""Seconds until the stop request is repeated, if the guest's management console did not take it."""


def _disk(text: str) -> Disk:
    size, _, path = text.partition(":")
    return Disk(parse_size(size), Path(path) if path else None)


def _forward(text: str) -> Forward:
    host, _, guest = text.rpartition(":")
    return Forward(int(guest), int(host or 0))


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run",
        description="Runs CMD as root in a guest with the OpenZFS module, from the current directory of the repository. "
        "Console output is live; the exit code is the command's own (124: --timeout passed; 125: the guest itself failed). "
        "ZVAAI_ZFS=2.4 takes OpenZFS of trixie-backports. ZVAAI_KERNEL names the folder of another kernel that `build` made.",
    )
    disk_help = "a disk, /dev/ubda first; scratch, or kept in FILE (named in $ZVAAI_DISKS inside)"
    parser.add_argument("--disk", type=_disk, action="append", default=[], metavar="SIZE[:FILE]", help=disk_help)
    forward_help = "make a TCP port of the guest reachable on 127.0.0.1 of this host; no HOSTPORT: a free one"
    parser.add_argument(
        "--forward", type=_forward, action="append", default=[], metavar="[HOSTPORT]:GUESTPORT", help=forward_help
    )
    parser.add_argument("--memory", type=int, default=2560, metavar="MIB", help="memory of the guest (default 2560)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="environment of CMD")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="kill the guest after this long (exit code 124)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD...")
    options = parser.parse_args(words)
    if not options.command:
        parser.error("CMD is missing")
    return options


def _wait(guest: GuestProcess, seconds: float | None) -> int | None:
    """The command's exit code; None when that many seconds passed. Signals are the command's, once it runs. Raises GuestError."""
    requested = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal requested
        requested = True

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)
    until = math.inf if seconds is None else time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if requested and not guest.booted:
            raise GuestError("stopped before the command began: killed")
        if requested:
            requested = not guest.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return guest.wait(min(left, ASK_SECONDS))
    return None


def main(words: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    options = _arguments(words)
    environment = dict(pair.partition("=")[::2] for pair in options.env)
    guest_options = GuestOptions(
        command=options.command[1:] if options.command[0] == "--" else options.command,
        disks=options.disk,
        forwards=options.forward,
        memory_mib=options.memory,
        environment=environment,
        working_directory=Path.cwd(),
    )
    try:
        with GuestProcess(guest_options, Path(os.environ.get("ZVAAI_KERNEL", KERNEL))) as guest:
            for guest_port, host_port in guest.ports.items():
                report(f"127.0.0.1:{host_port} leads to port {guest_port} of the guest")
            code = _wait(guest, options.timeout)
            if code is not None:
                return code
            report(f"the time limit of {options.timeout:.0f} s passed: killed; on its console is what it was doing")
            guest.show()
            return 124
    except GuestError as error:
        report(str(error))
        return 125


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
