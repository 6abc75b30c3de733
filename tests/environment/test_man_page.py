# SPDX-License-Identifier: Apache-2.0
"""The man page of `vaai-nas` agrees with --help."""

from __future__ import annotations

import re

import pytest
from support.programs import REPOSITORY, run
from support.vaai_nas import vaai_nas

PAGE = REPOSITORY / "ganesha_fsal/client/vaai-nas.1"


@pytest.fixture(scope="module")
def usage() -> str:
    result = vaai_nas("--help")
    assert result.returncode == 0
    return result.stdout


@pytest.fixture(scope="module")
def page() -> str:
    """The rendered page, without bold and underlining, with the longest lines possible."""
    return re.sub(".\b", "", run("mandoc", "-Tutf8", "-Owidth=1000", PAGE))


def section(page: str, name: str) -> str:
    """The text below a heading."""
    match = re.search(rf"^{name}\n(.*?)(?=^\S|\Z)", page, re.MULTILINE | re.DOTALL)
    assert match, f"no section {name}"
    return match[1]


def test_mandoc_finds_nothing_wrong() -> None:
    assert run("mandoc", "-Tlint", "-Wwarning", PAGE) == ""


def test_commands_and_their_arguments_are_the_same(usage: str, page: str) -> None:
    offered = re.findall(r"^  ([a-z-]+) (SERVER:EXPORT(?: \[?[A-Z]+\]?| \.\.\.)*)(?:  |$)", usage, re.MULTILINE)
    documented = re.findall(
        r"^ +([a-z-]+) (SERVER:EXPORT(?: \[?[A-Z]+\]?| \.\.\.)*)$", section(page, "DESCRIPTION"), re.MULTILINE
    )
    assert len(offered) >= 4 and documented == offered


def test_options_are_the_same(usage: str, page: str) -> None:
    offered = set(re.findall(r"--[a-z][a-z0-9-]+", usage)) | {"--help"}
    assert len(offered) >= 4
    for name in ("SYNOPSIS", "DESCRIPTION"):
        assert set(re.findall(r"--[a-z][a-z0-9-]+", section(page, name))) == offered, name


def test_exit_codes_are_the_same(usage: str, page: str) -> None:
    text = " ".join(usage[usage.index("exit codes:") :].partition("\n\n")[0].partition(":")[2].split())
    offered = [(number, meaning) for number, meaning in re.findall(r"(\d+) ([^,]+)", text)]
    documented = re.findall(r"^ +(\d+) +(.+)$", section(page, "EXIT STATUS"), re.MULTILINE)
    assert len(offered) == 11 and documented == offered


def test_examples_are_the_same(usage: str, page: str) -> None:
    examples = [line.strip() for line in usage.partition("examples:\n")[2].splitlines()]
    assert examples and [line.strip() for line in section(page, "EXAMPLES").splitlines() if line.strip()] == examples
