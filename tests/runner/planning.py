# SPDX-License-Identifier: Apache-2.0
"""Files and commands of a suite."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from runner.jobs import Job
from runner.suites import BUILDS, REPOSITORY, SUITES, Run, Suite

RESULTS = REPOSITORY / ".cache" / "results"
SEED = os.environ.get("ZVAAI_SEED", "1")
GUEST_SECONDS = 3600
"""Timeout of a guest: many times the longest duration."""
SETTINGS = {
    Run.TEST: {"ZVAAI_ATS_SECONDS": "6", "ZVAAI_FULL_POOL_SECONDS": "5"},
    Run.LONG: {"ZVAAI_ATS_SECONDS": "60", "ZVAAI_FULL_POOL_SECONDS": "600", "PROPTEST_CASES": "5000", "ZVAAI_LONG": "1"},
}
"""Durations and repetitions of tests that can be shorter or longer."""


def pytest_files() -> list[str]:
    """pytest's files in the repository, by name."""
    folders = ("appliance", "ganesha_fsal", "packaging", "tests", "zvol_target")
    files = [file for folder in folders for file in (REPOSITORY / folder).rglob("test_*.py")]
    return sorted(str(file.relative_to(REPOSITORY)) for file in files)


def within(file: str, places: Iterable[str]) -> int:
    """Length of the longest of these folders and files that contains a file; 0 if none does."""
    return max((len(place) for place in places if file == place or file.startswith(f"{place}/")), default=0)


def owners(file: str) -> list[Suite]:
    """The suites of a test file: exactly one (tests/environment/test_suites.py checks that)."""
    lengths = [within(file, suite.files) for suite in SUITES]
    longest = max(lengths)
    return [suite for suite, length in zip(SUITES, lengths, strict=True) if longest and length == longest]


def files_of(suite: Suite) -> list[str]:
    """Arguments of pytest: the suite's files, and those of other suites that it repeats."""
    files = pytest_files()
    return [file for file in files if suite in owners(file)] + [file for file in files if within(file, suite.again)]


def affected_by(suite: Suite, changed: Sequence[str]) -> bool:
    """Whether `tests/run changed` runs a suite of `make test` for these files."""
    inputs = (*suite.files, *suite.again, *suite.covers)
    return suite.run <= Run.TEST and any(within(file, inputs) for file in changed)


def settings(run: Run) -> dict[str, str]:
    """The environment of a run."""
    return {"ZVAAI_SEED": SEED, "PROPTEST_RNG_SEED": SEED, **SETTINGS[max(run, Run.TEST)]}


def _command(suite: Suite, run: Run) -> list[str]:
    if suite.command:
        return list(suite.command)
    pytest = ["python3", "-m", "pytest", "--hypothesis-seed", SEED, f"--junitxml={RESULTS}/{suite.name}.xml"]
    pytest += ["--numprocesses", str(suite.workers), "--dist", "loadfile"] if suite.workers > 1 else []
    pytest += ["--long"] if run is Run.LONG else []
    pytest += files_of(suite)
    if suite.guest:
        variables = [word for name, value in settings(run).items() for word in ("--env", f"{name}={value}")]
        limit = str(GUEST_SECONDS * (2 if run is Run.LONG else 1))
        return ["packaging/uml/run", "--timeout", limit, "--disk", "6G", "--disk", "2G", *variables, *pytest]
    return ["packaging/rootfs/enter", *([] if suite.network else ["--private-network"]), *pytest]


def builds_for(suites: Sequence[Suite]) -> list[Job]:
    """The builds that suites need, and those that these builds need."""
    needed = {name for suite in suites for name in suite.needs}
    # A build needs only earlier ones of the list.
    for build in reversed(BUILDS):
        if build.name in needed:
            needed.update(build.needs)
    return [build for build in BUILDS if build.name in needed]


def jobs_of(suites: Sequence[Suite], run: Run) -> list[Job]:
    """The suites as jobs, with the builds they need."""
    return [
        *builds_for(suites),
        *(
            Job(
                suite.name,
                _command(suite, run),
                suite.needs,
                suite.processors,
                suite.seconds,
                {**settings(run), **suite.environment},
            )
            for suite in suites
        ),
    ]
