#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each source file names its licence in an SPDX line at its top, as docs/licences.md has it.

usage: spdx.py [--fix]     --fix adds the missing lines
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
COMMENT = {
    ".c": "/* {} */", ".h": "/* {} */", ".x": "/* {} */", ".css": "/* {} */",
    ".rs": "// {}", ".ts": "// {}", ".tsx": "// {}", ".js": "// {}",
    ".py": "# {}", ".sh": "# {}",
}  # fmt: skip
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


def comment_of(path: Path) -> str | None:
    """Comment syntax of a file; None for a file that is not source."""
    if comment := COMMENT.get(path.suffix):
        return comment
    if path.suffix:
        return None
    with path.open("rb") as file:
        return "# {}" if file.read(2) == b"#!" else None


def with_line(text: str, line: str) -> str:
    """The text with the line at its top, below an interpreter's name."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{line}\n{rest}" if first.startswith("#!") else f"{line}\n{text}"


def files() -> Iterator[Path]:
    """Files of the checkout, without built or installed ones. The environment has no git."""
    for folder, folders, names in REPOSITORY.walk():
        folders[:] = [name for name in folders if name not in SKIPPED and folder / name != BUILD]
        yield from (path for path in (folder / name for name in names) if path.is_file() and not path.is_symlink())


def missing() -> list[tuple[str, str]]:
    """Files without the right line: name and line."""
    missing = []
    for path in sorted(files()):
        name = str(path.relative_to(REPOSITORY))
        if comment := comment_of(path):
            expected = f"{TAG} {licence(name)}"
            top = [line.strip(" */#\n") for line in path.read_text().splitlines()[:LINES]]
            if expected not in top:
                missing.append((name, comment.format(expected)))
    return missing


def main(arguments: list[str]) -> int:
    """Exit status: 1 if a line is missing and was not added, 2 for a wrong command line."""
    if arguments not in ([], ["--fix"]):
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    for name, line in missing():
        path = REPOSITORY / name
        text = path.read_text()
        if not arguments or TAG in "".join(text.splitlines()[:LINES]):
            print(f"{name}: its first {LINES} lines lack: {line}")
            failed = 1
        else:
            path.write_text(with_line(text, line))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
