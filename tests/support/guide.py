# SPDX-License-Identifier: Apache-2.0
"""Commands of docs/guide.md and docs/install.md, run on a machine with the names and passwords of a test."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from support.programs import REPOSITORY

if TYPE_CHECKING:
    from machine import Machine

LINE = re.compile(r"^ {4,}([a-z].*)$|`((?:zvaai|zpool|systemctl) [a-z][^`]*)`", re.MULTILINE)
ON_ESXI = ("esxcli ", "vmkfstools ")
CONFIRMED = (
    "datastore delete ", "datastore forget ", "datastore purge ", "host delete ", "pool upgrade ", "recover --file ",
    "recover --from ", "recover --keep", "snapshot delete ", "snapshot rollback ",
)  # fmt: skip
"""These require a confirmation."""


def commands(page: str) -> set[str]:
    """Commands of a page for the server, without comments. Those for ESXi hosts are left out."""
    text = re.sub(r"^```.*?^```$", "", (REPOSITORY / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = {(block or inline).partition(" #")[0].strip() for block, inline in LINE.findall(text)}
    return {command for command in lines if not command.startswith(ON_ESXI)}


class Guide:
    """Runs commands of the pages on a machine and remembers them."""

    def __init__(self, *pages: str) -> None:
        self.commands = set().union(*map(commands, pages))
        self.ran: set[str] = set()

    def run(
        self,
        server: Machine,
        command: str,
        names: dict[str, str] | None = None,
        more: str = "",
        typed: str = "",
        check: bool = True,
        seconds: float = 600,
    ) -> str:
        """Output of a command that a page has. `names` replaces placeholders, `more` is appended, `typed` is stdin."""
        assert command in self.commands, f"no page has this command: {command}"
        self.ran.add(command)
        words = command
        for placeholder, name in (names or {}).items():
            assert placeholder in words, (placeholder, command)
            words = words.replace(placeholder, name)
        if command.startswith(tuple(f"zvaai {verb}" for verb in CONFIRMED)):
            more += " --yes"
        return server.run(f"cd /root\n{{ {words} {more}; }} <<<{shlex.quote(typed)}", seconds, check)
