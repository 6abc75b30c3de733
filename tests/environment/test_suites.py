# SPDX-License-Identifier: Apache-2.0
"""The list of suites (tests/runner/suites.py) contains every test exactly once."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from runner.jobs import Job, Schedule
from runner.planning import affected_by, builds_for, files_of, owners, pytest_files
from runner.report import Counts, counts_of
from runner.suites import SUITES, Run
from support.programs import REPOSITORY, wait_for


def test_each_file_belongs_to_one_suite() -> None:
    assert {file: [suite.name for suite in owners(file)] for file in pytest_files() if len(owners(file)) != 1} == {}


def test_no_file_is_outside_the_suites() -> None:
    """By the names that pytest collects, in any folder."""
    skipped = {".cache", ".demo", ".git", "node_modules"}
    files = [file.relative_to(REPOSITORY) for file in REPOSITORY.rglob("test_*.py")]
    assert sorted(str(file) for file in files if not skipped & set(file.parts)) == pytest_files()


def test_each_path_of_a_suite_exists() -> None:
    places = {place for suite in SUITES for place in (*suite.files, *suite.again, *suite.covers)}
    assert [place for place in sorted(places) if not (REPOSITORY / place).exists()] == []
    assert [suite.name for suite in SUITES if not suite.command and not files_of(suite)] == []


def test_files_of_a_suite_have_different_names() -> None:
    """pytest imports a file by its name, unless its folder is a package."""
    for suite in SUITES:
        names = Counter(
            file.name for file in map(Path, files_of(suite)) if not (REPOSITORY / file.parent / "__init__.py").exists()
        )
        assert [name for name, number in names.items() if number > 1] == [], suite.name


def test_each_test_of_the_file_library_is_in_its_build() -> None:
    """Meson does not find tests itself."""
    for source in (REPOSITORY / "ganesha_fsal").rglob("test_*.c"):
        build = (source.parents[1] / "meson.build").read_text()
        name = source.stem.removeprefix("test_")
        assert f"'{name}'" in build or f"test_{name}" in build, source


def test_a_change_selects_the_affected_suites() -> None:
    def names(*files: str) -> set[str]:
        return {suite.name for suite in SUITES if affected_by(suite, files)}

    assert {"rust", "target", "zvols", "clones", "guests"} <= names("zvol_target/scsi/src/lib.rs")
    assert {"fsal", "nfs", "datasets"} <= names("ganesha_fsal/fileops/clone.c")
    assert {"console", "browser"} == names("ui/src/main.tsx") and names("README.md") == {"lint-text"}
    assert {"appliance", "processes", "pools"} <= names("appliance/worker/jobs.py")
    assert {"clones", "zvols"} <= names("packaging/dkms/zvol_clone/clone.c")
    assert "target" in names("tests/integration/target/test_access.py")
    assert all(suite.run <= Run.TEST for suite in SUITES if suite.name in names("zvol_target", "tests", "ui"))


def test_a_suite_alone_has_all_builds() -> None:
    for suite in SUITES:
        builds = {build.name: build for build in builds_for([suite])}
        assert {*suite.needs, *(name for build in builds.values() for name in build.needs)} <= set(builds), suite.name


def test_each_program_of_the_benchmarks_exists() -> None:
    programs = re.findall(r"\$benches/([a-z_]+\.py)", (REPOSITORY / "tests/bench/run").read_text())
    assert programs and [name for name in programs if not (REPOSITORY / "tests/bench" / name).exists()] == []


def job(name: str, script: str, *needs: str) -> Job:
    return Job(name, [sys.executable, "-c", script], needs, 0.1)


def test_jobs_run_after_their_needs_and_not_after_a_failure(tmp_path: Path) -> None:
    made = tmp_path / "made"
    jobs = [
        job("second", f"assert open({str(made)!r}).read() == 'x'", "first"),
        job("first", f"open({str(made)!r}, 'w').write('x')"),
        job("bad", "raise SystemExit(3)"),
        job("after bad", "pass", "bad"),
    ]
    said: list[str] = []
    ended = {job.job.name: job.code for job in Schedule(jobs, tmp_path, 2, said.append).run()}
    assert ended == {"first": 0, "second": 0, "bad": 3, "after bad": None}
    assert any("after bad: not run, because this failed: bad" in line for line in said)


def test_jobs_end_with_the_run(tmp_path: Path) -> None:
    """SIGTERM to the runner ends its processes."""
    program = (
        "import signal, sys; from pathlib import Path; from runner.jobs import *\n"
        f"job = Job('sleeps', ['sh', '-c', 'echo $$ >{tmp_path}/id.new; mv {tmp_path}/id.new {tmp_path}/id; exec sleep 1000'])\n"
        f"schedule = Schedule([job], Path({str(tmp_path)!r}), 1, print)\n"
        "signal.signal(signal.SIGTERM, lambda *_: schedule.interrupt())\n"
        "try: schedule.run()\n"
        "except Interrupted: sys.exit(130)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY / "tests", stdout=subprocess.PIPE, text=True) as runner:
        while not (tmp_path / "id").exists():
            assert runner.poll() is None
        runner.terminate()
        assert runner.wait(60) == 130
    process = Path("/proc", (tmp_path / "id").read_text().strip())
    wait_for(lambda: not process.exists(), "the job's process has ended")


def test_counts_are_those_that_the_programs_print(tmp_path: Path) -> None:
    logs = {
        "test result: ok. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out": Counts(3, 1, 2),
        "Ok:                 5\nFail:               1\nSkipped:            2": Counts(5, 1, 2),
        "      Tests  2 failed | 168 passed (170)": Counts(168, 2),
        "nothing that is known": Counts(1),
    }
    for text, counts in logs.items():
        (tmp_path / "it.log").write_text(text)
        [ended] = Schedule([job("it", f"print({text!r})")], tmp_path, 1, lambda _line: None).run()
        assert counts_of(ended) == counts
