# SPDX-License-Identifier: Apache-2.0
"""`python3 -m runner`, called by tests/run inside the Debian 13 environment.

usage: runner check|test|long           a run
       runner suites NAME...            these suites as `test` has them; with ZVAAI_LONG=1 as `long` has them
       runner changed FILE...           the suites of `test` that cover these changed files
       runner list                      the suites, what each shows and in which run it is
       runner times [SECONDS]           the tests of the last run that took at least so long (1)
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

from runner import report
from runner.jobs import Interrupted, Schedule
from runner.planning import RESULTS, affected_by, jobs_of
from runner.suites import REPOSITORY, SUITES, Run, Suite

LOAD = 1.25
"""Jobs may want so many times the processors there are: some of each one's time is waiting."""
RUNS = {"check": Run.CHECK, "test": Run.TEST, "long": Run.LONG}


def _tell(text: str) -> None:
    print(text, flush=True)


def _run(suites: Sequence[Suite], run: Run) -> int:
    """Runs suites and says how they ended; the exit code."""
    started = time.monotonic()
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    ended = Schedule(jobs_of(suites, run), RESULTS, LOAD * (os.cpu_count() or 1), _tell).run()
    failed = [one.job.name for one in ended if not one.passed]
    if failed:
        _tell("\n" + report.failures(ended))
    _tell(f"\n{report.table(ended, [suite.name for suite in suites])}")
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    _tell(f"\n{'FAILED: ' + ', '.join(failed) if failed else 'All passed'} in {minutes} min {seconds} s")
    return 1 if failed else 0


def _list() -> int:
    for suite in SUITES:
        _tell(f"{suite.name:18} make {suite.run.name.lower():6} {'guest ' if suite.guest else 'native'} {suite.shows}")
    return 0


def _changed(files: Sequence[str]) -> int:
    suites = [suite for suite in SUITES if affected_by(suite, files)]
    if suites:
        return _run(suites, Run.TEST)
    _tell("No suite covers what has changed.")
    return 0


def _usage() -> int:
    print(__doc__, file=sys.stderr)
    return 2


def main(words: Sequence[str]) -> int:
    """Runs the command line; the exit code."""
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
            _tell(report.slowest(RESULTS, float(least[0]) if least else 1))
            code = 0
        case _:
            code = _usage()
    return code


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    os.chdir(REPOSITORY)
    try:
        sys.exit(main(sys.argv[1:]))
    except Interrupted:
        sys.exit(130)
