# SPDX-License-Identifier: Apache-2.0
"""A test of libiscsi's iscsi-test-cu in a separate process, and its output."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from support.programs import CACHE, REPOSITORY, run

DEBIAN = Path("/usr/bin/iscsi-test-cu")
_COMMIT = re.search(r"^commit=(\w+)", (REPOSITORY / "tests/conformance/newest").read_text(), re.MULTILINE)
assert _COMMIT
NEWEST = CACHE / "libiscsi" / _COMMIT[1] / "iscsi-test-cu"
"""Made by tests/conformance/newest, if its source is available."""

PREAMBLE = "PERSISTENT RESERVE IN is not implemented."
"""Printed at the start and end of every process: the tool checks for reservations."""


class Outcome(Enum):
    """Outcome of a test."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    HUNG = "hung"


@dataclass(frozen=True)
class Result:
    """A test's outcome, the tool's reason for a skip, and its whole output."""

    outcome: Outcome
    reason: str
    output: str


def names(program: Path) -> list[str]:
    """All tests of the tool over iSCSI, as FAMILY.SUITE.TEST, without duplicates."""
    listed = re.findall(r"^((?:SCSI|iSCSI)\.\S+\.\S+)$", run(program, "-l"), re.MULTILINE)
    by_test = {name.split(".", 1)[1]: name for name in reversed(listed)}
    return sorted(by_test.values(), key=listed.index)


def run_test(program: Path, name: str, urls: Sequence[str], limit_seconds: float) -> Result:
    """Runs a test by its full name, including destructive ones. Kills the process after the limit."""
    # Verbose, because several tests report a skip only then.
    command = [str(program), "--dataloss", "--Verbose-scsi", "--normal", "--test", name, *urls]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return Result(Outcome.HUNG, "", output)
    return parse(output, process.returncode)


def parse(output: str, exit_code: int) -> Result:
    """Parses the tool's summary. Raises AssertionError unless it has exactly one test."""
    summary = re.search(r"^\s+tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s", output, re.MULTILINE)
    assertions = re.search(r"^\s+asserts\s+(\d+)\s+\d+\s+(\d+)\s+(\d+)\s", output, re.MULTILINE)
    assert summary and assertions, f"no summary, exit code {exit_code}:\n{output}"
    total, ran, passed, failed = (int(number) for number in summary.groups())
    assert (total, ran, passed + failed) == (1, 1, 1), f"not one test:\n{output}"
    if failed or exit_code:
        return Result(Outcome.FAILED, "", output)
    skips = [skip for skip in re.findall(r"\[SKIPP(?:ED|ING)\]\s*(.*)", output) if skip != PREAMBLE]
    if skips:
        return Result(Outcome.SKIPPED, skips[0], output)
    if int(assertions[1]) <= 1 and "SWP" in output:  # this skip shows only as one assertion, "passed"
        return Result(Outcome.SKIPPED, "Target does not support changing SWP", output)
    return Result(Outcome.PASSED, "", output)
