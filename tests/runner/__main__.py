# SPDX-License-Identifier: Apache-2.0
"""`python3 -m runner`, called by tests/run inside the Debian 13 environment.

usage: runner check|test|long           a run
       runner suites NAME...            these suites as in `test`; with ZVAAI_LONG=1 as in `long`
       runner changed FILE...           the suites of `test` that cover these changed files
       runner list                      the suites, with purpose and run
       runner times [SECONDS]           tests of the last run that took at least SECONDS (default 1)
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence

from runner import report
from runner.jobs import Interrupted, Schedule
from runner.planning import RESULTS, affected_by, jobs_of
from runner.suites import REPOSITORY, SUITES, Run, Suite

LOAD = 1.25
"""Load of the jobs, in multiples of the processors: jobs wait for part of their time."""
RUNS = {"check": Run.CHECK, "test": Run.TEST, "long": Run.LONG}


def _print_line(text: str) -> None:
    print(text, flush=True)


def _run(suites: Sequence[Suite], run: Run) -> int:
    """Runs suites and prints the results; returns the exit code."""
    started = time.monotonic()
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    schedule = Schedule(jobs_of(suites, run), RESULTS, LOAD * (os.cpu_count() or 1), _print_line)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: schedule.interrupt())
    ended = schedule.run()
    failed = [run.job.name for run in ended if not run.passed]
    _print_line(f"\n{report.table(ended, [suite.name for suite in suites])}")
    if failed:
        _print_line("\n" + report.failures(ended))
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    _print_line(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'All passed'} in {minutes} min {seconds} s")
    return 1 if failed else 0


def _list() -> int:
    for suite in SUITES:
        _print_line(f"{suite.name:18} make {suite.run.name.lower():6} {'guest ' if suite.guest else 'native'} {suite.shows}")
    return 0


def _changed(files: Sequence[str]) -> int:
    suites = [suite for suite in SUITES if affected_by(suite, files)]
    if suites:
        return _run(suites, Run.TEST)
    _print_line("No suite covers what has changed.")
    return 0


def _usage() -> int:
    print(__doc__, file=sys.stderr)
    return 2


def main(words: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    match list(words):
        case [name] if name in RUNS:
            code = _run([suite for suite in SUITES if suite.run <= RUNS[name]], RUNS[name])
        case ["suites", *names] if names and set(names) <= {suite.name for suite in SUITES}:
            run = Run.LONG if os.environ.get("ZVAAI_LONG") else Run.TEST
            code = _run([suite for suite in SUITES if suite.name in names], run)
        case ["changed", *files]:
            code = _changed(files)
        case ["list"]:
            code = _list()
        case ["times", *least] if len(least) <= 1:
            _print_line(report.slowest(RESULTS, float(least[0]) if least else 1))
            code = 0
        case _:
            code = _usage()
    return code


if __name__ == "__main__":
    os.chdir(REPOSITORY)
    try:
        sys.exit(main(sys.argv[1:]))
    except Interrupted:
        sys.exit(130)
