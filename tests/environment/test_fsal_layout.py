# SPDX-License-Identifier: Apache-2.0
"""Limits on the FSAL's layout: number of lines, one include direction, small structures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from support.programs import REPOSITORY

FSAL = REPOSITORY / "ganesha_fsal"
MOST_LINES = 10_000
MOST_MEMBERS = 20

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NESTED = re.compile(r"\{[^{}]*\}")


def sources() -> list[Path]:
    """C files of the product, without tests."""
    return [path for path in sorted(FSAL.rglob("*.[ch]")) if not {"tests", "fuzz"} & set(path.parts)]


def structs(text: str) -> Iterator[tuple[str, int]]:
    """Name and number of members of each structure; a nested structure counts as one member."""
    for name, body in _STRUCT.findall(_COMMENT.sub("", text)):
        members = [member for member in _NESTED.sub("", body).split(";") if member.strip()]
        yield name, sum(1 if "(*" in member else member.count(",") + 1 for member in members)


def test_lines() -> None:
    assert sum(path.read_text().count("\n") for path in sources()) < MOST_LINES


def test_includes_have_no_circle() -> None:
    headers = {path.name: path for path in sources() if path.suffix == ".h"}
    assert len(headers) == sum(path.suffix == ".h" for path in sources()), "two headers have one name"
    graph = {name: set(_INCLUDE.findall(path.read_text())) & set(headers) for name, path in headers.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError
    # Nothing in fileops knows of ganesha or RPC.
    for path in sources():
        if path.parent.name == "fileops":
            outside = {name for name in _INCLUDE.findall(path.read_text()) if headers[name].parent.name != "fileops"}
            assert not outside, path


def test_no_structure_is_large() -> None:
    counts = {(path.name, name): count for path in sources() for name, count in structs(path.read_text())}
    assert len(counts) > 50 and max(counts.values()) > 10
    assert {name: count for name, count in counts.items() if count > MOST_MEMBERS} == {}
