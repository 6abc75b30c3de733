# SPDX-License-Identifier: Apache-2.0
"""Fixtures of both tiers: the same tests use file volumes natively and zvols in the guest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "packaging/nginx"))

from support.programs import IN_GUEST
from support.target import Target, running_target
from support.volumes import VolumeMaker, files, zvols
from support.zfs import Pool


def pytest_addoption(parser: pytest.Parser) -> None:
    """--seed N, to repeat a failing random run; --long; duration of the full pool test."""
    parser.addoption("--long", action="store_true", help="also what is marked `long`")
    parser.addoption("--seed", type=int, default=int(os.environ.get("ZVAAI_SEED", "1")), help="seed of all random choices")
    full = "how long the test of a full pool keeps it full"
    parser.addoption("--full-pool-seconds", type=float, default=float(os.environ.get("ZVAAI_FULL_POOL_SECONDS", "30")), help=full)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips tests marked `long`, unless `make test-long` runs. The mark has the reason."""
    for item in items:
        for mark in item.iter_markers("long"):
            assert mark.args and isinstance(mark.args[0], str), f"{item.nodeid}: the mark `long` needs its reason"
    if not config.getoption("--long"):
        left = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


class FailuresAtOnce:
    """Reports a failure immediately: a guest that reaches its time limit would report none."""

    def __init__(self, reporter: TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Prints the last lines; the full report follows at the end."""
        if report.failed:
            lines = report.longreprtext.splitlines()[-12:]
            self._reporter.write_line("\n".join(("", f"{report.nodeid} ({report.when}):", *lines)))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """In the guest, enables FailuresAtOnce."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if IN_GUEST and reporter:
        config.pluginmanager.register(FailuresAtOnce(reporter))


def pytest_report_header(config: pytest.Config) -> str:
    """Tier and seed, at the start of every run."""
    return f"tier: {'kernel (guest)' if IN_GUEST else 'fast (native)'}, seed: {config.getoption('--seed')}"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """Seed of all random choices."""
    return int(pytestconfig.getoption("--seed"))


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """The pool in the guest, on its first disk."""
    if not IN_GUEST:
        pytest.fail("this test runs in a guest: tests/README.md says how")
    pool = Pool("tank", os.environ["ZVAAI_DISKS"].split()[0])
    yield pool
    pool.destroy()


@pytest.fixture
def make_volume(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[VolumeMaker]:
    """Makes the backing store of a LUN from a name and a size in MiB: a zvol in the guest, a sparse file natively."""
    with zvols(request.getfixturevalue("pool")) if IN_GUEST else files(tmp_path) as make:
        yield make


@pytest.fixture
def target(make_volume: VolumeMaker, tmp_path: Path) -> Iterator[Target]:
    """A running target without LUNs; stops before its volumes are removed."""
    with running_target(tmp_path / "target") as target:
        yield target


@pytest.fixture
def report_line(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a line into the test's output, whether it passes or fails."""

    def report_line(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {text}", end=" ")

    return report_line
