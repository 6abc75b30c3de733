# SPDX-License-Identifier: Apache-2.0
"""Documents agree with the tree: link targets, the paths in docs/ARCHITECTURE.md, the commands that machine tests run."""

from __future__ import annotations

import ast
import re

import prose
import pytest
from support.guide import commands
from support.programs import REPOSITORY

ARCHITECTURE = REPOSITORY / "docs" / "ARCHITECTURE.md"
FOLDERS = (
    "", "appliance", "appliance/worker", "ganesha_fsal", "ganesha_fsal/vaai_nas", "ganesha_fsal/fileops", "zvol_target",
    "zvol_target/volume/src", "zvol_target/scsi/src/third_party_copy",
)  # fmt: skip
"""Folders that the page's paths are relative to."""
MACHINE_TESTS = REPOSITORY / "tests/machine/test_guide.py"
LINK = re.compile(r"\]\(([^)#]+)")


@pytest.mark.parametrize("page", [str(page.relative_to(REPOSITORY)) for page in prose.listed() if page.suffix == ".md"])
def test_links_lead_somewhere(page: str) -> None:
    path = REPOSITORY / page
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_architecture_names_existing_files() -> None:
    names = set(re.findall(r"`([\w/.]+\.(?:rs|py|c|md))`", ARCHITECTURE.read_text()))
    assert len(names) > 30
    assert sorted(name for name in names if not any((REPOSITORY / folder / name).exists() for folder in FOLDERS)) == []


def test_the_architecture_names_existing_functions() -> None:
    flows = ARCHITECTURE.read_text().partition("## Flow 1")[2].partition("## Invariants")[0]
    folders = [REPOSITORY / name for name in ("appliance", "ganesha_fsal", "zvol_target")]
    files = [file for folder in folders for suffix in ("py", "c", "rs") for file in folder.rglob(f"*.{suffix}")]
    defined = set(re.findall(r"^ *(?:pub(?:\([a-z]+\))? )?(?:async )?(?:fn|def) (\w+)|^[a-z].*?\b(\w+)\(", "\n".join(
        file.read_text() for file in files if "node_modules" not in file.parts
    ), re.MULTILINE))  # fmt: skip
    functions = {name for pair in defined for name in pair}
    named = {
        name.rpartition("::")[2].rpartition(".")[2]
        for name in re.findall(r"`([\w:.]+)`", flows)
        if not name.endswith((".rs", ".py", ".c"))
    }
    named = {name for name in named if re.fullmatch(r"[a-z]+(_[a-z]+)+", name)} - {"zvol_clone", "copy_file_range"}
    assert len(named) > 15
    assert sorted(named - functions) == []


def test_the_guide_has_the_commands_that_machine_tests_run() -> None:
    """Those tests would find it too, in half an hour. What they build from several strings is left to them."""
    calls = [node for node in ast.walk(ast.parse(MACHINE_TESTS.read_text())) if isinstance(node, ast.Call)]
    words = [call.args[1] for call in calls if ast.unparse(call.func) == "GUIDE.run"]
    run = {word.value for word in words if isinstance(word, ast.Constant)}
    assert len(run) > 60
    assert run - commands("docs/guide.md") - commands("docs/install.md") == set()
