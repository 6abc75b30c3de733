# SPDX-License-Identifier: Apache-2.0
"""docs/conformance.md as the statement that the tests check the target against."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from support.programs import REPOSITORY

PAGE = REPOSITORY / "docs/conformance.md"


@dataclass(frozen=True)
class Row:
    """A row of a table: a pattern of test names (SUITE.TEST), and the other cells."""

    pattern: str
    cells: tuple[str, ...]

    def names(self, test: str) -> bool:
        """Whether the row names `test`."""
        return fnmatch.fnmatchcase(test, self.pattern)


def rows(heading: str) -> list[Row]:
    """Rows of the table under a heading, if the first cell is a name in backquotes."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"{PAGE} has no section {heading!r}"
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", section[1], re.MULTILINE)
    return [Row(pattern, tuple(cell.strip() for cell in cells.split("|"))) for pattern, cells in rows]


def about(table: list[Row], test: str) -> Row | None:
    """The row of a table that names `test`."""
    return next((row for row in table if row.names(test)), None)
