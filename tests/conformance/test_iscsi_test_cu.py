# SPDX-License-Identifier: Apache-2.0
"""libiscsi's conformance suite, each test in a separate process, compared with docs/conformance.md.

Debian's tool in both tiers; the newest one on files, if its source was available.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.iscsi_test_cu import DEBIAN, NEWEST, Outcome, names, run_test
from conformance.statement import Row, about, rows
from support.programs import IN_GUEST
from support.target import IQN, Account, Target, running_target
from support.volumes import files, zvols

SKIPPED = rows("Skipped")
WRONG = rows("Tests that are wrong")
WRONG_IN_NEWEST = rows("Tests that are wrong in the newest tool")
PROGRAMS = [DEBIAN, *([NEWEST] if NEWEST.exists() and not IN_GUEST else [])]
TESTS = {program: {name.split(".", 1)[1]: name for name in names(program)} for program in PROGRAMS}
CHAP_IQN = f"{IQN}-chap"
ACCOUNT = Account("conformance", "a-secret-of-20-bytes")
# Names that resemble numbers (RFC 7143, 6.1) but are none.
ACCOUNTS = {
    "iSCSICHAP.HexName": Account("0xconformance", "a-secret-of-20-bytes"),
    "iSCSICHAP.Base64Name": Account("0bconformance", "a-secret-of-20-bytes"),
}
LIMIT_SECONDS = 90
MOST_SKIPPED = 27
WRONG_LIMIT_SECONDS = 10
PORTALS = [("127.0.0.1:3260", 1), ("127.0.0.1:3261", 2)]
"""Two portal groups: MultipathIO compares what each shows."""


@pytest.fixture(scope="module")
def suite_target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A target with a LUN for the suite and a read-only one, and an iSCSI target that requires CHAP."""
    directory = tmp_path_factory.mktemp("conformance")
    with zvols(request.getfixturevalue("pool")) if IN_GUEST else files(directory) as make:
        suite, chap = make("suite", 64), make("chap", 16)
        with running_target(directory / "target", PORTALS) as target:
            target.add_lun(0, suite)
            target.add_lun(1, make("read_only", 16), read_only=True)
            target.create(CHAP_IQN)
            target.add_lun(0, chap, CHAP_IQN)
            for account in (ACCOUNT, *ACCOUNTS.values()):
                target.call(
                    "accounts.set", {"target": CHAP_IQN, "name": account.name, "secret": account.secret, "initiators": "any"}
                )
            yield target


def urls_for(test: str, target: Target) -> list[str]:
    """URLs of the LUN for a test; of both portals for tests with several paths."""
    if test.startswith("iSCSICHAP."):
        return [target.url(0, CHAP_IQN, ACCOUNTS.get(test, ACCOUNT))]
    if test.startswith("MultipathIO."):
        return [target.url(0, portal=portal) for portal, _ in PORTALS]
    return [target.url(1 if test.startswith("ReadOnly.") else 0)]


@pytest.mark.parametrize(
    ("program", "test"),
    [
        pytest.param(program, test, id=f"{'newest' if program == NEWEST else 'debian'} {test}")
        for program in PROGRAMS
        for test in TESTS[program]
    ],
)
def test_suite(program: Path, test: str, suite_target: Target) -> None:
    skip = about(SKIPPED, test)
    wrong = None if skip else about(WRONG, test) or (about(WRONG_IN_NEWEST, test) if program == NEWEST else None)
    limit = WRONG_LIMIT_SECONDS if wrong else LIMIT_SECONDS
    result = run_test(program, TESTS[program][test], urls_for(test, suite_target), limit)
    assert suite_target.call("status")["targets"] == 2, "the target does not answer any more"
    if wrong:
        assert result.outcome in (Outcome.FAILED, Outcome.HUNG), f"{test} is listed as wrong, and was {result.outcome}"
        pytest.xfail(f"the test is wrong: {wrong.cells[0]}")
    if result.outcome is Outcome.SKIPPED:
        assert skip and skip.cells[0] in result.reason, f"not an expected skip: {result.reason}\n{result.output}"
        pytest.skip(result.reason)
    assert result.outcome is Outcome.PASSED, f"{result.outcome}\n{result.output}"
    assert not skip, f"{test} is listed as skipped, and was run"


@pytest.mark.parametrize("row", [*SKIPPED, *WRONG, *WRONG_IN_NEWEST], ids=lambda row: f"row {row.pattern}")
def test_every_row_of_the_statement_names_a_test(row: Row) -> None:
    if NEWEST not in TESTS and row in WRONG_IN_NEWEST:
        pytest.skip("the newest tool is not there")
    assert any(row.names(test) for tests in TESTS.values() for test in tests)


def test_only_the_listed_tests_are_skipped() -> None:
    skipped = {program: [test for test in tests if about(SKIPPED, test)] for program, tests in TESTS.items()}
    assert all(len(tests) <= MOST_SKIPPED for tests in skipped.values()), skipped
