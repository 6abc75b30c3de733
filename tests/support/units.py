# SPDX-License-Identifier: Apache-2.0
"""systemd units, checked with systemd's programs: the tests have no systemd as process 1."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from support.programs import REPOSITORY

SYSTEMD = REPOSITORY / "packaging/systemd"


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False)


def expand(name: str) -> set[str]:
    """System calls of a systemd group, or the system call of that name."""
    if not name.startswith("@"):
        return {name}
    lines = analyze("syscall-filter", name).stdout.splitlines()[1:]
    words = [word for line in lines if (word := line.strip()) and not word.startswith("#")]
    return set().union(*map(expand, words))


def allowed(unit: Path) -> set[str]:
    """The system calls that a unit allows."""
    filters = re.findall(r"^SystemCallFilter=(.*)$", unit.read_text(), re.MULTILINE)
    calls = expand("@default")
    for line in filters:
        names = set().union(*map(expand, line.removeprefix("~").split()))
        calls = calls - names if line.startswith("~") else calls | names
    return calls


def called(trace: Path, program: str) -> set[str]:
    """System calls in an strace log, from the start of the program: earlier ones are systemd's."""
    lines = trace.read_text().splitlines()
    begin = max(at for at, line in enumerate(lines) if "execve(" in line and program in line and "= 0" in line)
    return {match[1] for line in lines[begin:] if (match := re.match(r"\d+ +(\w+)\(", line))}
