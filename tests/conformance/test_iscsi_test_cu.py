"""libiscsi's conformance suite, each test in a process of its own, held to what docs/conformance.md states. Both tiers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conformance.iscsi_test_cu import Outcome, names, run_test
from conformance.statement import Row, about, rows
from support.programs import IN_GUEST
from support.target import IQN, Account, Target, running_target
from support.volumes import files, zvols

LATER = rows("Not yet: VAAI primitives and reservations")
SKIPPED = rows("Skipped")
WRONG = rows("Tests that are wrong")
TESTS = {name.split(".", 1)[1]: name for name in names()}
CHAP_IQN = f"{IQN}-chap"
ACCOUNT = Account("conformance", "a-secret-of-20-bytes")
LIMIT_SECONDS = 90
WRONG_LIMIT_SECONDS = 10


@pytest.fixture(scope="module")
def suite_target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A target with a LUN for the suite and a read-only one, and an iSCSI target that asks for CHAP."""
    directory = tmp_path_factory.mktemp("conformance")
    with zvols(request.getfixturevalue("pool")) if IN_GUEST else files(directory) as make:
        suite, chap = make("suite", 64), make("chap", 16)
        with running_target(directory / "target") as target:
            target.add_lun(0, suite)
            target.add_lun(1, make("read_only", 16), read_only=True)
            target.create(CHAP_IQN)
            target.add_lun(0, chap, CHAP_IQN)
            target.call("accounts.set", {"target": CHAP_IQN, "name": ACCOUNT.name, "secret": ACCOUNT.secret})
            yield target


def url_for(test: str, target: Target) -> str:
    """The LUN that suits a test."""
    if test.startswith("iSCSICHAP."):
        return target.url(0, CHAP_IQN, ACCOUNT)
    return target.url(1 if test.startswith("ReadOnly.") else 0)


@pytest.mark.parametrize("test", [test for test in TESTS if not about(LATER, test)])
def test_suite(test: str, suite_target: Target) -> None:
    wrong = about(WRONG, test)
    result = run_test(TESTS[test], url_for(test, suite_target), WRONG_LIMIT_SECONDS if wrong else LIMIT_SECONDS)
    assert suite_target.call("status")["targets"] == 2, "the target does not answer any more"
    if wrong:
        assert result.outcome in (Outcome.FAILED, Outcome.HUNG), f"{test} is listed as wrong, and was {result.outcome}"
        pytest.xfail(f"the test is wrong: {wrong.cells[0]}")
    skip = about(SKIPPED, test)
    if result.outcome is Outcome.SKIPPED:
        assert skip and skip.cells[0] in result.reason, f"not an expected skip: {result.reason}\n{result.output}"
        pytest.skip(result.reason)
    assert result.outcome is Outcome.PASSED, f"{result.outcome}\n{result.output}"
    assert not skip, f"{test} is listed as skipped, and was run"


@pytest.mark.parametrize("row", [*LATER, *SKIPPED, *WRONG], ids=lambda row: f"row {row.pattern}")
def test_every_row_of_the_statement_names_a_test(row: Row) -> None:
    assert any(row.names(test) for test in TESTS)
