#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each source file names its licence in an SPDX line at its top, as docs/licences.md has it.

usage: spdx.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCES = {".c", ".h", ".x", ".css", ".rs", ".ts", ".tsx", ".js", ".py", ".sh"}
SKIPPED = {".cache", ".demo", ".git", "__pycache__", "node_modules", ".mypy_cache"}
BUILD = REPOSITORY / "zvol_target" / "target"
APACHE, LGPL, GPL = "Apache-2.0", "LGPL-3.0-or-later", "GPL-2.0-only"
TAG = "SPDX-License" + "-Identifier:"  # cut, so that REUSE does not read it
LINES = 5
"""The SPDX line is among the first lines of a file."""


def licence(name: str) -> str:
    """The licence of a file, by its path."""
    if name.startswith("packaging/dkms/zvol_clone/"):
        return f"{GPL} WITH Linux-syscall-note" if name.endswith("/zvol_clone.h") else GPL
    if not name.startswith("ganesha_fsal/"):
        return APACHE
    library = name.startswith(("ganesha_fsal/client/", "ganesha_fsal/vaai_nas/procedure22_codec."))
    return APACHE if library or name.endswith(".x") else LGPL


def is_source(path: Path) -> bool:
    """By the suffix, or by an interpreter in the first line."""
    if path.suffix:
        return path.suffix in SOURCES
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def files() -> Iterator[Path]:
    """Files of the checkout, without built or installed ones. The environment has no git."""
    for folder, folders, names in REPOSITORY.walk():
        folders[:] = [name for name in folders if name not in SKIPPED and folder / name != BUILD]
        yield from (path for path in (folder / name for name in names) if path.is_file() and not path.is_symlink())


def main() -> int:
    """Prints each file without the right line. Exit status: 1 if there is one."""
    failed = 0
    for path in sorted(filter(is_source, files())):
        name = str(path.relative_to(REPOSITORY))
        expected = f"{TAG} {licence(name)}"
        if expected not in [line.strip(" */#\n") for line in path.read_text().splitlines()[:LINES]]:
            print(f"{name}: its first {LINES} lines lack: {expected}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
