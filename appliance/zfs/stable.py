# SPDX-License-Identifier: Apache-2.0
"""Atomic replacement of files on stable storage."""

import os
from pathlib import Path


def replace(file: Path, content: bytes) -> None:
    """Replaces a file, readable only for its owner, with fsync(2) of file and folder. Raises OSError."""
    new = file.with_name(f"{file.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
