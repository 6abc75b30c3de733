# SPDX-License-Identifier: Apache-2.0
"""`zvaai` has every command in the documents, with its options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import typer.main

from appliance.cli.__main__ import application

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = ("README.md", "docs/guide.md", "docs/appliance.md", "docs/install.md")
LINE = re.compile(r"^ {4,}(zvaai [a-z].*)$|`(zvaai [a-z][^`]*)`", re.MULTILINE)


def commands() -> list[str]:
    """Commands of all pages. Options, and lists of alternatives such as `list, show`, are not commands to paste."""
    lines = [first or second for page in PAGES for first, second in LINE.findall((REPOSITORY / page).read_text())]
    return sorted({line.partition("#")[0].strip() for line in lines if "," not in line.split("--")[0]})


def test_the_documents_have_many_commands() -> None:
    assert len(commands()) > 30


@pytest.mark.parametrize("line", commands())
def test_it_is_parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command: click.Command = typer.main.get_command(application)
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        subcommand = command.get_command(click.Context(command), words.pop(0))
        assert subcommand is not None, f"no such command: {line}"
        command = subcommand
    if isinstance(command, click.Group) or words == ["--help"]:
        return
    required = [param for param in command.params if isinstance(param, click.Argument) and param.required]
    if required and all(word.startswith("-") for word in words):
        return  # in a sentence, the command's name alone
    command.make_context(line, [word for word in words if word != "--help"])
