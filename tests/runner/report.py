# SPDX-License-Identifier: Apache-2.0
"""Report at the end of a run: times and counts of each suite, failures, slowest tests."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.jobs import Ended

LAST_LINES = 60
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
MESON = re.compile(r"^(Ok|Fail|Skipped|Timeout): +(\d+)", re.MULTILINE)
VITEST = re.compile(r"^ +Tests +(?:(\d+) failed \| )?(\d+) passed", re.MULTILINE)


@dataclass(frozen=True)
class Counts:
    """Tests of a suite."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclass(frozen=True)
class Test:
    """A test of pytest; seconds include fixtures."""

    suite: str
    name: str
    seconds: float


def tests_of(results: Path) -> list[Test]:
    """All tests of the last run, from pytest's JUnit files."""
    cases = []
    for file in sorted(results.glob("*.xml")):
        for case in ET.parse(file).getroot().iter("testcase"):
            name = f"{case.get('classname', '')}.{case.get('name', '')}"
            cases.append(Test(file.stem, name, float(case.get("time", "0"))))
    return cases


def counts_of(ended: Ended) -> Counts:
    """From the JUnit file, or from the output of cargo, Meson and Vitest; a suite without either counts as one test."""
    junit = ended.log.with_suffix(".xml")
    if junit.exists():
        suite = ET.parse(junit).getroot().find("testsuite")
        assert suite is not None
        number = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        return Counts(number["tests"] - failed - number["skipped"], failed, number["skipped"])
    text = COLOURS.sub("", ended.log.read_text(errors="replace")) if ended.log.exists() else ""
    counts = Counts()
    for passed, failed, ignored in CARGO.findall(text):
        counts += Counts(int(passed), int(failed), int(ignored))
    meson = {word: int(number) for word, number in MESON.findall(text)}
    counts += Counts(meson.get("Ok", 0), meson.get("Fail", 0) + meson.get("Timeout", 0), meson.get("Skipped", 0))
    for failed, passed in VITEST.findall(text):
        counts += Counts(int(passed), int(failed or 0))
    if counts == Counts():
        return Counts(passed=1) if ended.passed else Counts(failed=1)
    return counts if ended.passed or counts.failed else counts + Counts(failed=1)


def table(ended: Sequence[Ended], suites: Iterable[str]) -> str:
    """A line for each suite; the last line is the sum."""
    lines, names, total = [], set(suites), Counts()
    for run in ended:
        state = "passed" if run.passed else "not run" if run.code is None else "FAILED"
        if run.job.name in names:
            counts = counts_of(run) if run.code is not None else Counts()
            total += counts
            lines.append(f"{run.job.name:24}{state:8}{run.seconds:7.0f} s {counts.passed:6} {counts.failed:6} {counts.skipped:6}")
        elif run.seconds >= 1 or not run.passed:
            lines.append(f"{run.job.name:24}{state:8}{run.seconds:7.0f} s")
    head = f"{'suite':24}{'':8}{'time':>9} {'passed':>6} {'failed':>6} {'skipped':>6}"
    return "\n".join([head, *lines, "", f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped"])


def failures(ended: Sequence[Ended]) -> str:
    """The end of each failed job's log."""
    parts = []
    for run in ended:
        if not run.passed and run.log.exists() and run.code is not None:
            lines = COLOURS.sub("", run.log.read_text(errors="replace")).splitlines()
            parts.append(f"== {run.job.name} failed; the end of {run.log}:\n" + "\n".join(lines[-LAST_LINES:]))
    return "\n\n".join(parts)


def slowest(results: Path, least_seconds: float) -> str:
    """A Markdown table of the tests that took at least `least_seconds`, slowest first."""
    tests = sorted(tests_of(results), key=lambda test: -test.seconds)
    rows = [f"| {test.seconds:.1f} | {test.suite} | {test.name} |" for test in tests if test.seconds >= least_seconds]
    return "\n".join(["| seconds | suite | test |", "|---|---|---|", *rows])
